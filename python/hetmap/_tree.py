# SPDX-License-Identifier: MIT
"""What this process has mapped, by the table that the library publishes of it."""

import os
import re
import struct
from typing import NamedTuple

from ._hetmap import stats

# struct hm_published_head and hm_published_entry.
_HEAD = struct.Struct("<QII6Q")
_ENTRY = struct.Struct("<II9QII64s40s3Q")
_MAGIC, _FIRST, _LOST = 0x7370616d3a6d68ff, 4096, 4


class Mapped(NamedTuple):
    """A map of the process. Sizes are bytes; `shared` are those in RAM that others map, too."""

    device: str
    buffer: str
    serial: int
    address: int
    nbytes: int
    offset: int
    resident: int
    locked: int
    shared: int
    in_flight: int
    brackets: int
    lost: bool


def _tables():
    """The heads and descriptors of this process's tables."""
    for number in os.listdir("/proc/self/fd"):
        try:
            link = os.readlink(f"/proc/self/fd/{number}")
            if not re.search(r"/(memfd:hetmap:maps \(deleted\)|maps\.[0-9.]+)$", link):
                continue
            head = _HEAD.unpack(os.pread(int(number), _HEAD.size, 0))
        except (OSError, struct.error):
            continue
        # A child by fork has its parent's, too.
        if head[0] == _MAGIC and head[4] == os.getpid():
            yield int(number), head


def _entries():
    """Entries of maps that live, each read whole."""
    for fd, head in _tables():
        size, used = head[2], head[6]
        for _ in range(10):
            once, again = (os.pread(fd, size * used, _FIRST) for _ in range(2))
            if once == again:
                break
        for at in range(0, len(once) - size + 1, size):
            row = once[at:at + size]
            # Entries of older libraries are shorter.
            entry = _ENTRY.unpack(row.ljust(_ENTRY.size, b"\0")[:_ENTRY.size])
            if row == again[at:at + size] and entry[0] and not entry[0] % 2 and not entry[4]:
                yield entry


def _ranges():
    """(begin, resident, locked, shared) of each range of the process's memory."""
    ranges = []
    with open("/proc/self/smaps") as file:
        for line in file:
            word = line.split(None, 2)
            if not word[0].endswith(":"):
                facts = {}
                ranges.append((int(word[0].split("-")[0], 16), facts))
            elif word[1].isdigit():
                facts[word[0]] = int(word[1]) * 1024
    return [(begin, facts.get("Rss:", 0), facts.get("Locked:", 0),
             facts.get("Shared_Clean:", 0) + facts.get("Shared_Dirty:", 0))
            for begin, facts in ranges]


def _counter(memory, address, size):
    try:
        return int.from_bytes(os.pread(memory, size, address), "little") if address else 0
    except OSError:
        return 0


def _text(field):
    return field.partition(b"\0")[0].decode(errors="replace")


def _maps():
    entries = list(_entries())
    if not entries:
        if os.environ.get("HETMAP_PUBLISH") == "0" and stats()["maps"]:
            raise RuntimeError("the library keeps no table of its maps: HETMAP_PUBLISH is 0")
        return []
    ranges, maps = _ranges(), []
    memory = os.open("/proc/self/mem", os.O_RDONLY | os.O_CLOEXEC)
    try:
        for entry in entries:
            (_, flags, _, _, _, address, span, nbytes, offset, serial, _, _, _, name, device,
             brackets, in_flight, _) = entry
            inside = [one[1:] for one in ranges if address <= one[0] < address + span]
            resident, locked, shared = map(sum, zip(*inside)) if inside else (0, 0, 0)
            maps.append(Mapped(
                _text(device), _text(name), serial, address, nbytes, offset, resident, locked,
                shared, _counter(memory, in_flight, 4), _counter(memory, brackets, 4),
                bool(flags & _LOST)))
    finally:
        os.close(memory)
    return maps


def _size(n):
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if n < 1024 or unit == "GiB":
            return f"{n} bytes" if unit == "bytes" else f"{n:.1f} {unit}"
        n /= 1024


class Tree:
    """What tree() returns: `maps` is a list of Mapped, and its text a tree of it."""

    def __init__(self, maps):
        self.maps = sorted(maps, key=lambda one: (one.device, one.serial, one.address))

    def __len__(self):
        return len(self.maps)

    def __iter__(self):
        return iter(self.maps)

    def __str__(self):
        lines, device, serial = [], None, None
        for one in self.maps:
            if one.device != device:
                device, serial = one.device, None
                lines.append(one.device)
            if one.serial != serial:
                serial = one.serial
                lines.append(f"  {one.buffer or 'a buffer'}, number {serial}")
            more = [f"{_size(n)} {word}" for word, n in (
                ("in RAM", one.resident), ("locked", one.locked), ("shared", one.shared)) if n]
            more += [f"{n} {word}" for word, n in (
                ("in flight", one.in_flight), ("brackets open", one.brackets)) if n]
            lines.append(f"    {_size(one.nbytes)} at {one.address:#x}" +
                         "".join(", " + word for word in more) + (", lost" if one.lost else ""))
        return "\n".join(lines) or "nothing is mapped"

    __repr__ = __str__


def tree() -> Tree:
    """What the process has mapped: devices, their buffers, and the maps of these.

    >>> import hetmap
    >>> map = hetmap.Buffer(hetmap.Device("host"), 1 << 20, name="weights").map()
    >>> map.prefetch(0, 8192, hetmap.READ | hetmap.WRITE)
    >>> [one.nbytes for one in hetmap.tree() if one.buffer == "weights"]
    [1048576]
    """
    return Tree(_maps())


def top(n: int = 10) -> "list[Mapped]":
    """The maps of the process that take most memory, the largest first."""
    return sorted(_maps(), key=lambda one: (-one.resident, -one.nbytes))[:n]
