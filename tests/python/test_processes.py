# SPDX-License-Identifier: MIT
"""Other processes, threads of signals, and the end of the interpreter."""

import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
import time

import pytest

import hetmap


def add_one(map, index):
    array = map.array("int64")
    array[index] += 1


def worker(jobs, results):
    for map, index in iter(jobs.get, None):
        add_one(map, index)
        results.put((index, map))


def test_plain_pickle_raises(page_map):
    for thing in (page_map, page_map.buffer):
        with pytest.raises(TypeError, match="multiprocessing"):
            pickle.dumps(thing)


def test_spawn(page_map):
    child = multiprocessing.get_context("spawn").Process(target=add_one, args=(page_map, 3))
    child.start()
    child.join(30)
    assert child.exitcode == 0 and page_map.array("int64")[3] == 1


def test_fork(page_map):
    """A child by fork has the pages, through arrays and through new views."""
    child = multiprocessing.get_context("fork").Process(target=add_one, args=(page_map, 4))
    child.start()
    child.join(30)
    assert child.exitcode == 0 and page_map.array("int64")[4] == 1


def test_fork_without_the_pages():
    """A device's map is not in the child: a new view there is an error, not a signal."""
    map = hetmap.Buffer(hetmap.Device("soft:0"), 4096).map()
    child = os.fork()
    if not child:
        try:
            memoryview(map)[0]
            os._exit(1)
        except BufferError as error:
            os._exit(0 if "inherited" in str(error) else 2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize("workers", [1, 4])
def test_queue(page_map, workers):
    context = multiprocessing.get_context("spawn" if workers == 1 else "fork")
    jobs, results = context.Queue(), context.Queue()
    children = [context.Process(target=worker, args=(jobs, results)) for _ in range(workers)]
    for child in children:
        child.start()
    for i in range(20):
        jobs.put((page_map, i))
    back = [results.get(timeout=30) for _ in range(20)]
    for _ in children:
        jobs.put(None)
    for child in children:
        child.join(30)
        assert child.exitcode == 0
    assert page_map.array("int64")[:20].tolist() == [1] * 20
    back[0][1].array("int64")[100] = 5
    assert page_map.array("int64")[100] == 5


def test_killed_worker(page_map):
    child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(60,))
    child.start()
    os.kill(child.pid, signal.SIGKILL)
    child.join(30)
    add_one(page_map, 0)


def test_map_of_a_part_and_for_reading(device):
    buffer = hetmap.Buffer(device, 16384)
    part = buffer.map(4096, 4096, hetmap.READ)
    buffer.map().write(b"part", 4096)
    ours, theirs = multiprocessing.Pipe()
    child = multiprocessing.get_context("fork").Process(target=answer, args=(theirs,))
    child.start()
    ours.send(part)
    assert ours.recv() == (b"part", 4096, True)
    child.join(30)


def answer(end):
    map = end.recv()
    end.send((map.read(0, 4), map.nbytes, memoryview(map).readonly))


def test_soft_is_not_sent():
    map = hetmap.Buffer(hetmap.Device("soft:0"), 4096).map()
    ours, theirs = multiprocessing.Pipe()
    with pytest.raises(hetmap.Error):
        ours.send(map)


HEAD = """
import sys, hetmap, numpy
device = hetmap.Device("host")
buffer = hetmap.Buffer(device, 65536)
map = buffer.map()
array = map.array("int32")
"""


def python(code, **more):
    return subprocess.run([sys.executable, "-c", HEAD + code], capture_output=True, text=True,
                          timeout=60, **more)


@pytest.mark.parametrize("code", [
    "",
    "del device, buffer, map",
    "del array; map.close(); buffer.close(); device.close()",
    "sys.modules.clear()",
    "loop = [array, map]; loop.append(loop)",
    "class Late:\n  def __del__(self): array[0] = 1; map.close(deferred=True)\nlate = Late()",
    "capsule = map.__dlpack__(max_version=(1, 0)); keep = numpy.from_dlpack(map)",
    "import atexit; atexit.register(lambda: (map.close(deferred=True), array.sum()))",
    "import threading, time\nthreading.Thread(target=lambda: (time.sleep(.2), map.read()),"
    " daemon=True).start()",
    "import threading\ndef f():\n  while True: map.read(); buffer.map()\n"
    "threading.Thread(target=f, daemon=True).start()",
    "sys.exit(0)",
    "import os; os.fork()",
])
def test_end_of_interpreter(code):
    result = python(code)
    assert result.returncode == 0, result.stderr
    assert not result.stderr


def test_sub_interpreter_refuses():
    code = """
try:
    import _xxsubinterpreters as inner
except ImportError:
    import _interpreters as inner
try:
    said = inner.run_string(inner.create(), "import hetmap")
except Exception as error:
    said = error
assert "hetmap" in str(said), said
"""
    result = python(code)
    assert result.returncode == 0, result.stderr


def test_interrupt_of_a_wait():
    code = """
import os, signal, threading, time
threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
begin = time.monotonic()
try:
    while True:
        map.prefetch()
except KeyboardInterrupt:
    assert time.monotonic() - begin < 5
    print("stopped")
"""
    assert python(code).stdout == "stopped\n"


def test_interrupt_of_a_receive():
    code = """
import os, signal, socket, threading
ours, theirs = socket.socketpair()
threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    hetmap.Buffer.receive(device, theirs)
except KeyboardInterrupt:
    print("stopped")
"""
    assert python(code).stdout == "stopped\n"


def test_interrupt_of_a_launch():
    """The wait ends, the work goes on: cpu's own work is done when its launch returns."""
    if "opencl:0" not in [entry["name"] for entry in hetmap.Accel.list()]:
        pytest.skip("no OpenCL driver is installed")
    code = """
import os, signal, threading, time
kernel = hetmap.Kernel("slow", "u64 inout", "kernel void slow(ulong n, global uint *x) {"
    "uint v = x[0]; for (ulong i = 0; i < n; i++) v = v * 1664525 + x[v & 1023]; x[0] = v; }")
queue = hetmap.Queue(hetmap.Accel("opencl:0"))
queue.launch(kernel, 1, 1, array).wait()
fence = queue.launch(kernel, 1, 1 << 29, array)
threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    fence.wait()
except KeyboardInterrupt:
    print("stopped" if not fence.query()["done"] else "too late")
fence.wait()
"""
    result = python(code)
    assert result.stdout == "stopped\n", result.stderr


def test_fault_handler_stays():
    """A fault of others is still theirs: faulthandler tells of it."""
    code = """
import faulthandler, ctypes
faulthandler.enable()
map.read(0, 1)
ctypes.string_at(8)
"""
    result = python(code)
    assert result.returncode == -signal.SIGSEGV and "Segmentation fault" in result.stderr


def test_views_in_threads(page_map):
    array = page_map.array("int64")

    def work(i):
        for _ in range(2000):
            view = page_map.array("int64")
            view[i] += 1

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert array[:4].tolist() == [2000] * 4
    del array
    assert page_map.exports == 0


def test_fast_import():
    """Processor time of the fastest of five: other work of the machine is not ours."""
    best = 9.0
    for _ in range(5):
        code = "import time; t = time.process_time(); import hetmap; print(time.process_time() - t)"
        out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        best = min(best, float(out.stdout))
    assert best < 0.1
