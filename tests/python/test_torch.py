# SPDX-License-Identifier: MIT
"""torch: tensors of tokens in one pass, its DataLoader, and maps as tensors."""

import os
import signal

import numpy as np
import pytest

import hetmap
from hetmap.tokens import Dataset

torch = pytest.importorskip("torch")
WORKERS = pytest.mark.parametrize("workers", [0, 1, 4])
STARTS = pytest.mark.parametrize("start", ["fork", "spawn"])


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "train.bin"
    np.random.default_rng(1).integers(0, 50000, 4001).astype("uint16").tofile(path)
    return path


def load(dataset, workers, start, **more):
    from torch.utils.data import DataLoader
    if workers:
        more["multiprocessing_context"] = start
    return DataLoader(dataset, num_workers=workers, **more)


def test_tensors(path):
    data, dataset = np.fromfile(path, "uint16"), Dataset(path, 16, batch=4, tensors=True)
    x, y = dataset[3]
    assert x.dtype == y.dtype == torch.int64 and x.shape == (16,)
    assert (x.numpy() == data[48:64]).all() and (y.numpy() == data[49:65]).all()
    for (x, y), (own_x, own_y) in zip(dataset, Dataset(path, 16, batch=4)):
        assert x.shape == (4, 16) and x.is_contiguous()
        assert (x.numpy() == own_x).all() and (y.numpy() == own_y).all()
    starts = torch.randint(len(data) - 16, (5,), generator=torch.Generator().manual_seed(1))
    x, y = dataset.blocks(starts)
    stack = torch.stack([torch.from_numpy(data[i:i + 16].astype("int64")) for i in starts])
    assert torch.equal(x, stack) and torch.equal(x[:, 1:], y[:, :-1])
    with pytest.raises(ValueError, match="uint64"):
        Dataset(path, 16, tensors=True, out="uint64")


def test_documents(path, tmp_path):
    np.arange(25, dtype="uint16").tofile(tmp_path / "pair.ds")
    np.array([12, 25], "uint64").tofile(tmp_path / "pair.ds.index")
    dataset = Dataset(tmp_path / "pair.ds", 6, documents=True, tensors=True)
    assert torch.equal(dataset.document(1), torch.arange(12, 25))
    assert dataset[1][1].tolist() == [7, 8, 9, 10, 11, -100]


@WORKERS
@STARTS
def test_iterable(path, workers, start):
    dataset = Dataset(path, 10, batch=5, seed=3, tensors=True)
    wanted = sorted(bytes(dataset[i][0].numpy()) for i in range(len(dataset)))
    loader = load(dataset.iterable(), workers, start, batch_size=None)
    epochs = []
    for epoch in range(2):
        dataset.set_epoch(epoch)
        epochs.append([bytes(x.numpy()) for batch, _ in loader for x in batch])
    assert sorted(epochs[0]) == sorted(epochs[1]) == wanted and epochs[0] != epochs[1]


@WORKERS
def test_map_style(path, workers):
    dataset = Dataset(path, 10, tensors=True)
    loader = load(dataset, workers, "fork", batch_size=8, shuffle=True)
    blocks = [bytes(x.numpy()) for batch, _ in loader for x in batch]
    assert sorted(blocks) == sorted(bytes(dataset[i][0].numpy()) for i in range(len(dataset)))


def test_killed_worker(path):
    dataset = Dataset(path, 10, batch=5, order="random", tensors=True)
    batches = iter(load(dataset.iterable(), 2, "fork", batch_size=None))
    next(batches)
    os.kill(batches._workers[1].pid, signal.SIGKILL)
    # Of torch: that the worker was killed, or that its tensors are not to be had.
    with pytest.raises((RuntimeError, OSError, EOFError)):
        for _ in range(1000):
            next(batches)
    assert len(next(iter(dataset))) == 2


def test_maps_are_tensors(page_map):
    """The same bytes, by DLPack and by the array of them."""
    tensor = torch.from_numpy(page_map.array("float32", (4, 4)))
    tensor.fill_(2.5)
    assert page_map.array("float32")[:17].tolist() == [2.5] * 16 + [0]
    flat = torch.from_dlpack(page_map)
    assert flat.dtype == torch.uint8 and flat.data_ptr() == page_map.address
    with pytest.raises(BufferError):
        page_map.close()
    del tensor, flat
    page_map.close()
    copy = hetmap.from_dlpack(torch.arange(8, dtype=torch.float32))
    assert copy.array("float32")[:8].sum() == 28
