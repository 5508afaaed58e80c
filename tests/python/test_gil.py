# SPDX-License-Identifier: MIT
"""The GIL is another thread's while the library may wait; signals are heard in long calls."""

import os
import pathlib
import re
import signal
import sys
import threading
import time

import numpy as np
import pytest
from test_launch import FUNCTION, address

import hetmap
import hetmap.pieces
from hetmap import safetensors, tokens

SOURCES = pathlib.Path(__file__).parents[2] / "python" / "src"
MIB = 1 << 20

# Calls that wait for nobody: they read a description, count a reference, or end what nobody has.
READY = re.compile(r"(\w+_(ref|unref)|errmsg|warning|version|stats_get|map_address|map_length|"
                   r"pointer_find|dtype_\w+|arg_\w+|kernel_create|fence_query|load_(query|piece)|"
                   r"handler_install|table_(field|group|schema|export|export_device|format_name)|"
                   r"column_(chunk|export)|"
                   r"(gguf|pieces|safetensors|tokens|tensor)_(query|at|tensor|metadata|element|"
                   r"document))$")
# Functions of the module that run in a WITHOUT_GIL() of their caller, and load(), which has more.
INSIDE = {"range_call", "rights_of_all", "rows_announce", "blocks_read", "firsts_read",
          "gguf_handle", "pieces_handle", "model_handle", "pieces_load"}


def without_comments(text):
    return re.sub(r'/\*.*?\*/|//[^\n]*|"(\\.|[^"\\])*"', "", text, flags=re.S)


def without_blocks(text):
    """The text less what is in WITHOUT_GIL(...)."""
    while (begin := text.find("WITHOUT_GIL(")) >= 0:
        depth, at = 1, begin + len("WITHOUT_GIL(")
        while depth:
            depth += {"(": 1, ")": -1}.get(text[at], 0)
            at += 1
        text = text[:begin] + text[at:]
    return text


def calls_with_the_gil(text):
    for function in re.split(r"\n(?=\S[^;\n]*\([^;]*?\)\n\{)", without_comments(text)):
        name = re.search(r"(\w+)\(", function)
        if name and name.group(1) not in INSIDE:
            for call in re.findall(r"\b(?:hm_|table_calls\.)(\w+)\(", without_blocks(function)):
                if not READY.match(call):
                    yield f"{name.group(1)}: {call}"


def test_every_call_that_may_wait():
    if not SOURCES.exists():
        pytest.skip("the sources are not here")
    files = [path for path in SOURCES.glob("*.c")]
    assert len(files) >= 12
    assert [f"{path.name}: {call}" for path in files
            for call in calls_with_the_gil(path.read_text())] == []
    # The search finds what it is for.
    planted = "static int f(int a)\n{\n\tWITHOUT_GIL(hm_a(b(c)));\n\thm_map_sync(map);\n}\n"
    assert [*calls_with_the_gil(planted)] == ["f: map_sync"]


@FUNCTION
def sleeps(part, arguments):
    time.sleep(0.05)
    return 0


class Long:
    """Calls that take a while, by their names."""

    def __init__(self, folder):
        self.map = hetmap.Buffer(hetmap.Device("host"), 128 * MIB).map()
        self.path = folder / "file"
        with open(self.path, "wb") as file:
            file.truncate(256 * MIB)
        self.file = hetmap.Buffer.from_file(self.path).map()
        self.bytes = bytes(128 * MIB)
        self.dataset = tokens.Dataset(self.path, 32 * MIB)
        self.queue = hetmap.Queue(hetmap.Accel("cpu"))

    def write(self):
        self.map.write(self.bytes)

    def read(self):
        self.map.read()

    def prefetch(self):
        self.file.prefetch()

    def sync(self):
        array = self.file.array("uint8")
        array[::4096] += 1
        return self.file.sync

    def resize(self):
        """A shrink releases pages."""
        buffer = hetmap.Buffer(hetmap.Device("host"), 256 * MIB, max_size=256 * MIB)
        buffer.map().prefetch(access=hetmap.READ | hetmap.WRITE)
        return lambda: buffer.resize(4096)

    def tokens(self):
        self.dataset[0]

    def load(self):
        name = self.path.with_suffix(".npy")
        if not name.exists():
            np.save(name, np.zeros(64 * MIB, "uint8"))
        hetmap.pieces.open(name).load()

    def end(self):
        map = hetmap.Buffer(hetmap.Device("host"), 256 * MIB).map()
        map.prefetch(access=hetmap.READ | hetmap.WRITE)
        return map.close

    def wait(self):
        array = self.map.array("int64")[:8]
        kernel = hetmap.Kernel("sleeps", "inout", function=address(sleeps))
        fence = self.queue.launch(kernel, 1, array)
        return lambda: fence.wait(10)


@pytest.fixture(scope="module")
def long(tmp_path_factory):
    return Long(tmp_path_factory.mktemp("long"))


@pytest.mark.parametrize("name", [name for name in vars(Long) if not name.startswith("_")])
def test_released(long, name):
    """Another thread goes on during the call. With the GIL kept it could not even begin."""
    ticks, ends = 0, False

    def tick():
        nonlocal ticks
        while not ends:
            ticks += 1
            time.sleep(0.0005)

    thread = threading.Thread(target=tick)
    # No thread gives the GIL up by itself for so long.
    interval = sys.getswitchinterval()
    try:
        sys.setswitchinterval(5)
        thread.start()
        for _ in range(8):
            call = getattr(long, name)
            prepared = call() if name in ("sync", "resize", "end", "wait") else call
            time.sleep(0.002)
            before = ticks
            prepared()
            # One may be of the return: what ticks more than that has run during the call.
            if ticks > before + 1:
                break
        assert ticks > before + 1
    finally:
        ends = True
        sys.setswitchinterval(interval)
        thread.join()


class Stopped(Exception):
    pass


@pytest.fixture
def alarm():
    """alarm(seconds): Stopped is raised by a signal's handler after that time."""
    def stop(*unused):
        raise Stopped

    old = signal.signal(signal.SIGALRM, stop)
    yield lambda seconds: signal.setitimer(signal.ITIMER_REAL, seconds)
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, old)


def test_signal_in_a_tensor(tmp_path, alarm):
    """A signal ends the load of one long tensor: its last bytes were not read."""
    size, path = 192 * MIB, tmp_path / "long.safetensors"
    header = b'{"x":{"dtype":"U8","shape":[%d],"data_offsets":[0,%d]}}' % (size, size)
    with open(path, "wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        file.truncate(8 + len(header) + size)
        file.seek(-1, os.SEEK_END)
        file.write(b"\1")
    with safetensors.safe_open(path) as file:
        flat = np.zeros(size, "uint8")
        with pytest.raises(Stopped):
            alarm(0.003)
            file._model.read(0, flat)
        assert flat[-1] == 0
        file._model.read(0, flat)
        assert flat[-1] == 1


@pytest.mark.parametrize("name", ["prefetch", "sync"])
def test_signal_in_a_range(long, alarm, name):
    call = getattr(long, name)() or getattr(long.file, name)
    with pytest.raises(Stopped):
        alarm(0.001)
        for _ in range(1000):
            call()


def test_warning_as_an_error(device):
    """Less than was asked for, where warnings are errors: nothing is left."""
    import warnings
    with open("/proc/meminfo") as file:
        free = dict(line.split(":") for line in file).get("HugePages_Free", "0").split()[0]
    if int(free):
        pytest.skip("huge pages are free: nothing is less than asked for")
    before = hetmap.stats()["buffers"]
    with pytest.warns(hetmap.LessWarning):
        hetmap.Buffer(device, 4 * MIB, flags=hetmap.BUFFER_HUGETLB).close()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(hetmap.LessWarning):
            hetmap.Buffer(device, 4 * MIB, flags=hetmap.BUFFER_HUGETLB)
    assert hetmap.stats()["buffers"] == before


def test_exceptions_of_arguments(page_map):
    """What an argument's own methods raise comes through, and holds nothing."""
    class Index:
        def __index__(self):
            raise Stopped

    class Path:
        def __fspath__(self):
            raise Stopped

    calls = [lambda: page_map.read(Index()), lambda: page_map.lock(0, Index()),
             lambda: page_map.buffer.resize(Index()), lambda: hetmap.Buffer.from_file(Path()),
             lambda: hetmap.pieces.open(Path()), lambda: tokens.Dataset(Path(), 4),
             lambda: hetmap.Map(page_map.buffer, Index()),
             lambda: hetmap.Queue(hetmap.Accel("cpu")).launch(
                 hetmap.Kernel("sleeps", "i64", function=address(sleeps)), Index(), 1)]
    for call in calls:
        with pytest.raises(Stopped):
            call()
    assert page_map.exports == 0
    page_map.close()
