# SPDX-License-Identifier: MIT
"""hetmap.cuda on a driver of the tests' own, which has no device: tests/python/fake_cuda."""

import ctypes
import doctest
import errno
import gc
import os
import signal
import subprocess
import sys
import threading
import warnings

import numpy as np
import pytest

import hetmap
import hetmap.pieces
from hetmap import _cuda_device, _cuda_driver, cuda

MIB = 1 << 20


@pytest.fixture
def fake(fake_cuda):
    """The fake's own functions; a test leaves no object behind."""
    yield fake_cuda
    gc.collect()
    assert fake_cuda.fake_live() == 0


def test_layouts(fake):
    """As cuda.h has them, where it is installed."""
    assert fake.fake_size(1) == ctypes.sizeof(_cuda_driver.Allocation) == 32
    assert fake.fake_size(2) == ctypes.sizeof(_cuda_driver.Access) == 12


def test_devices(fake):
    assert cuda.devices() == ["cuda:0", "cuda:1"]
    with cuda.Device("cuda:1") as device:
        facts = device.query()
        assert facts["description"] == "a second fake" and facts["compute"] == (9, 0)
        assert facts["memory_total"] == facts["memory_free"] == 64 * MIB
        assert facts["resizes"] and facts["registers"] and not facts["registers_read_only"]
    assert device.closed
    with pytest.raises(ValueError):
        device.query()
    with pytest.raises(hetmap.Error) as caught:
        cuda.Device("cuda:7")
    assert caught.value.errno == errno.ENODEV and "devices()" in caught.value.remedy
    for name in ("opencl:0", "cuda:x", "cuda:-1"):
        with pytest.raises(ValueError):
            cuda.Device(name)


def test_no_driver(tmp_path):
    with pytest.raises(hetmap.Error) as caught:
        cuda.open_driver(tmp_path / "libcuda.so.1")
    assert caught.value.errno == errno.ENODEV and "install" in caught.value.remedy
    with pytest.raises(hetmap.Error) as caught:
        cuda.open_driver("libm.so.6")
    assert caught.value.errno == errno.ENOSYS and "cuInit" in str(caught.value)


def test_register(fake, page_map):
    device = cuda.Device()
    with cuda.register(page_map, device) as registration:
        assert registration.nbytes == len(page_map)
        assert registration.pointer != page_map.address
        assert fake.fake_flags(page_map.address) == 3
        facts = cuda.attributes(page_map.address + 4096)
        assert facts.kind == "host" and facts.device == "cuda:0"
        assert facts.device_pointer == registration.pointer + 4096
        assert facts.host_pointer == page_map.address + 4096 and facts.nbytes == len(page_map)
        assert cuda.attributes(registration.pointer).host_pointer == page_map.address
        # Nothing moves or ends the map.
        with pytest.raises(BufferError):
            page_map.close()
        with pytest.raises(BufferError):
            page_map.buffer.resize(1 << 17)
        with pytest.raises(hetmap.Error) as caught:
            cuda.register(page_map, device)
        assert caught.value.errno == errno.EEXIST
        with pytest.raises(BufferError):
            device.close()
    assert registration.closed and cuda.attributes(page_map.address) is None
    registration.close()
    page_map.close()
    device.close()


def test_register_for_reading(fake, tmp_path):
    (tmp_path / "file").write_bytes(bytes(8192))
    map = hetmap.Buffer.from_file(tmp_path / "file").map(access=hetmap.READ)
    with cuda.register(map):
        assert fake.fake_flags(map.address) == 11
    with pytest.raises(hetmap.Error) as caught:
        cuda.register(map, "cuda:1")
    assert caught.value.errno == errno.EOPNOTSUPP
    map.close()


def test_buffer(fake):
    device = cuda.Device()
    buffer = cuda.Buffer(device, 100, max_size=16 * MIB)
    address, data = buffer.pointer, np.arange(100, dtype="uint8")
    buffer.write(data)
    assert fake.fake_taken(0) == 2 * MIB and buffer.size == 100
    facts = cuda.attributes(address)
    assert facts.kind == "device" and facts.device == "cuda:0" and facts.host_pointer == 0
    buffer.resize(5 * MIB)
    assert buffer.pointer == address and fake.fake_taken(0) == 6 * MIB
    array = buffer.array("uint8", 100)
    assert (array.numpy() == data).all()
    far = np.random.default_rng(1).random(1000)
    buffer.write(far, 5 * MIB - far.nbytes)
    assert (buffer.array("float64", 1000, 5 * MIB - far.nbytes).numpy() == far).all()
    del array
    buffer.resize(1)
    assert fake.fake_taken(0) == 2 * MIB
    buffer.resize(16 * MIB)
    assert fake.fake_taken(0) == 16 * MIB and (buffer.array(shape=100).numpy() == data).all()
    for size in (0, -1, 16 * MIB + 1):
        with pytest.raises(ValueError):
            buffer.resize(size)
    with pytest.raises(IndexError):
        buffer.write(b"ab", 16 * MIB - 1)
    with pytest.raises(IndexError):
        buffer.array("float32", 5, 16 * MIB - 16)
    with pytest.raises(BufferError):
        device.close()
    buffer.close()
    with pytest.raises(ValueError):
        buffer.write(b"a")
    device.close()


def test_arrays(fake):
    with cuda.Buffer("cuda:1", 4096) as buffer:
        matrix = np.arange(12, dtype="float32").reshape(3, 4)
        buffer.write(matrix)
        array = buffer.array("float32", (3, 4))
        assert array.__cuda_array_interface__ == {
            "shape": (3, 4), "typestr": "<f4", "version": 3, "data": (buffer.pointer, False),
            "strides": None}
        assert (array.numpy() == matrix).all()
        buffer.write(np.asfortranarray(matrix))
        array = buffer.array("float32", (3, 4), order="F")
        assert array.__cuda_array_interface__["strides"] == (4, 12)
        assert (array.numpy() == matrix).all()
        with pytest.raises(BufferError, match="release"):
            buffer.close()
        with pytest.raises(BufferError):
            buffer.resize(40)
        buffer.resize(48)
        ml_dtypes = pytest.importorskip("ml_dtypes")
        half = buffer.array(ml_dtypes.bfloat16, 2)
        assert half.__cuda_array_interface__["typestr"] == "<i2"
        assert half.numpy().dtype == ml_dtypes.bfloat16
        with pytest.raises(BufferError):
            buffer.write(matrix[:, ::2])
        del array, half
    assert fake.fake_taken(1) == 0


def test_out_of_memory(fake):
    """Nothing is left of a buffer that is too large; a resize that fails leaves it as it was."""
    with pytest.raises(hetmap.Error) as caught:
        cuda.Buffer("cuda:0", 65 * MIB)
    assert caught.value.errno == errno.ENOMEM and caught.value.remedy
    del caught  # it has the frames
    gc.collect()
    assert fake.fake_live() == 0
    with cuda.Buffer("cuda:0", 1 * MIB, 80 * MIB) as buffer:
        buffer.write(b"kept")
        with pytest.raises(hetmap.Error):
            buffer.resize(80 * MIB)
        assert buffer.size == MIB and fake.fake_taken(0) == 2 * MIB
        assert bytes(buffer.array(shape=4).numpy()) == b"kept"


def test_undo(fake, page_map, model):
    def register():
        with cuda.register(page_map):
            pass

    def buffer():
        with cuda.Buffer("cuda:0", MIB, 8 * MIB) as made:
            made.resize(4 * MIB)
            made.write(b"x")

    path, _ = model
    for function, least in ((register, 4), (buffer, 12),
                            (lambda: hetmap.pieces.open(path).to("cuda:0"), 15)):
        fails_in_turn(fake, function, least)


# Nobody can undo these: the driver reports what fails there.
ENDS = {"cuMemHostUnregister", "cuMemRelease", "cuMemUnmap", "cuMemAddressFree",
        "cuStreamDestroy_v2", "cuDevicePrimaryCtxRelease_v2", "cuCtxPopCurrent_v2",
        "cuCtxPushCurrent_v2"}


def fails_in_turn(fake, function, least):
    """Each call of the driver that makes something fails once, and no object is left."""
    driver = _cuda_device._get_driver()
    real, left = driver._calls, 0

    def failing(name):
        def call(*arguments):
            nonlocal left
            left -= name not in ENDS
            return 2 if left == 0 and name not in ENDS else real[name](*arguments)
        return call

    driver._calls = {name: failing(name) for name in real}
    try:
        for n in range(1, 200):
            left = n
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    function()
            except OSError as error:
                assert error.errno == errno.ENOMEM and "OUT_OF_MEMORY" in str(error)
            gc.collect()
            assert fake.fake_live() == 0, f"the failure of call {n} left objects"
            if left > 0:
                assert n > least
                return
    finally:
        driver._calls = real
    raise AssertionError("the function makes more calls than that")


def test_lost(fake, monkeypatch):
    """A context that has ended is DeviceLost, and close() gives up what is left."""
    buffer, driver = cuda.Buffer("cuda:0", MIB), _cuda_device._get_driver()
    with monkeypatch.context() as patch:
        for name in ("cuStreamSynchronize", "cuMemUnmap"):
            patch.setitem(driver._calls, name, lambda *unused: 719)
        with pytest.raises(hetmap.DeviceLost) as caught:
            buffer.write(b"x")
        assert caught.value.errno == errno.EIO
        buffer.close()
    assert buffer.closed
    del buffer
    gc.collect()
    # A real driver frees by itself what the fake still has.
    fake.fake_reset()


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    """A safetensors file of several tensors, and they."""
    from safetensors.numpy import save_file
    random = np.random.default_rng(3)
    tensors = {f"layer.{i}.weight": random.random((64, 100 + i), "float32") for i in range(9)}
    tensors["empty"] = np.empty((0, 4), "float32")
    tensors["scale"] = np.array(2.5, "float64")
    path = tmp_path_factory.mktemp("model") / "model.safetensors"
    save_file(tensors, path)
    return path, tensors


@pytest.mark.parametrize("window", [1, 60_000, 1 << 20])
def test_model(fake, model, window):
    path, tensors = model
    steps = []
    loaded = hetmap.pieces.open(path).to(
        "cuda:0", progress=lambda done, total: steps.append((done, total)), window=window)
    assert sorted(loaded) == sorted(tensors) and len(loaded) == len(tensors)
    for name, wanted in tensors.items():
        array = loaded[name]
        assert array.shape == wanted.shape and array.pointer % 256 == 0
        assert (array.numpy() == wanted).all()
    total = sum(wanted.nbytes for wanted in tensors.values())
    assert steps[-1] == (total, total) and steps == sorted(steps)
    assert len(steps) == {1: 10, 60_000: 5, 1 << 20: 1}[window]
    some = hetmap.pieces.open(path).to("cuda:1", names=["scale", "layer.3.weight"])
    assert list(some) == ["scale", "layer.3.weight"] and some["scale"].numpy() == 2.5
    with pytest.raises(KeyError):
        hetmap.pieces.open(path).to("cuda:0", names=["none"])
    assert hetmap.pieces.open(path).to("soft:0")["scale"] == 2.5
    del array, loaded, some


def test_order_of_fortran(fake, tmp_path):
    matrix = np.asfortranarray(np.arange(12, dtype="int32").reshape(3, 4))
    np.save(tmp_path / "f.npy", matrix)
    loaded = hetmap.pieces.open(tmp_path / "f.npy").to("cuda:0")
    (array,) = loaded.values()
    assert (array.numpy() == matrix).all()
    del array, loaded


def test_exception_of_progress(fake, model):
    path, _ = model

    def stop(done, total):
        raise KeyError("enough")

    before = hetmap.stats()["maps"]
    with pytest.raises(KeyError, match="enough"):
        hetmap.pieces.open(path).to("cuda:0", progress=stop, window=60_000)
    gc.collect()
    assert fake.fake_live() == 0 and hetmap.stats()["maps"] == before


def test_interrupt(fake, model):
    path, _ = model
    with pytest.raises(KeyboardInterrupt):
        hetmap.pieces.open(path).to(
            "cuda:0", progress=lambda *unused: os.kill(os.getpid(), signal.SIGINT), window=1)
    gc.collect()
    assert fake.fake_live() == 0


def test_pages_that_are_not_pinned(fake, model, monkeypatch):
    """A copy all the same, with a warning."""
    path, tensors = model
    driver = _cuda_device._get_driver()
    monkeypatch.setitem(driver._calls, "cuMemHostRegister_v2", lambda *unused: 801)
    with pytest.warns(hetmap.LessWarning, match="pinned"):
        loaded = hetmap.pieces.open(path).to("cuda:0")
    assert (loaded["layer.0.weight"].numpy() == tensors["layer.0.weight"]).all()
    del loaded


def test_threads(fake):
    """Each thread has the context during its calls only."""
    device, errors = cuda.Device(), []

    def work(i):
        try:
            for _ in range(50):
                with cuda.Buffer(device, MIB) as buffer:
                    buffer.write(bytes([i]) * 1000)
                    assert bytes(buffer.array(shape=1000).numpy()) == bytes([i]) * 1000
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    device.close()


def test_fork(fake, page_map):
    """A child leaves the parent's driver alone, and says so."""
    registration = cuda.register(page_map)
    child = os.fork()
    if not child:
        try:
            cuda.Device("cuda:0")
        except hetmap.Error as error:
            registration.close()
            os._exit(0 if error.errno == errno.EOWNERDEAD else 2)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    registration.close()


@pytest.mark.parametrize("code", [
    "", "del device", "buffer.close()", "registration.close()", "import sys; sys.modules.clear()",
    "array = buffer.array()", "loop = [buffer, array]; loop.append(loop)",
])
def test_end_of_interpreter(fake_cuda, code):
    head = f"""
import hetmap
from hetmap import cuda
cuda.open_driver({fake_cuda._name!r})
device = cuda.Device()
buffer, map = cuda.Buffer(device, 4096), hetmap.Buffer(hetmap.Device("host"), 4096).map()
array, registration = buffer.array(), cuda.register(map, device)
del array
array = None
"""
    result = subprocess.run([sys.executable, "-c", head + code], capture_output=True, text=True)
    assert result.returncode == 0 and not result.stderr, result.stderr


def test_doctests():
    for module in (cuda, _cuda_device, _cuda_driver):
        assert not doctest.testmod(module).failed
