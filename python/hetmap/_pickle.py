# SPDX-License-Identifier: MIT
"""Buffers and maps in what multiprocessing sends: the receiver gets the same pages."""

import socket
from multiprocessing import context, reduction

from ._objects import Buffer, Device, Map


def _ship(buffer, read_only):
    """The message waits in a socket, whose other end travels as a descriptor."""
    ours, theirs = socket.socketpair()
    with ours:
        buffer.send(ours, read_only)
    popen = context.get_spawning_popen()
    travels = reduction.DupFd(theirs.fileno())
    if popen is None:
        theirs.close()
    else:
        # The child inherits the descriptor itself: it stays open as long as the start takes.
        popen.__dict__.setdefault("_hetmap_sockets", []).append(theirs)
    return travels


def _device_of(buffer):
    return "file" if buffer.is_file else buffer.device.name if buffer.device else "host"


def reduce_buffer(buffer):
    return receive_buffer, (_ship(buffer, False), _device_of(buffer))


def reduce_map(map):
    facts = map.query()
    length = 0 if facts["whole"] else facts["length"]
    # Of a map for reading the receiver must not make one for writing, but the memory stays ours.
    return receive_map, (_ship(map.buffer, False), _device_of(map.buffer), facts["offset"], length,
                         map.access)


def receive_buffer(travelled, device, read_only=False):
    with socket.socket(fileno=travelled.detach()) as end:
        return Buffer.receive(Device(device), end, read_only=read_only)


def receive_map(travelled, device, offset, length, access):
    return receive_buffer(travelled, device, not access & 2).map(offset, length, access)


reduction.register(Buffer, reduce_buffer)
reduction.register(Map, reduce_map)
