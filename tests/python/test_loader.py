# SPDX-License-Identifier: MIT
"""Data sets in loaders with worker processes: torch's where it is installed, and one like it."""

import os
import pickle
import signal

import numpy as np
import pytest
from loader import Loader

import hetmap
from hetmap.tokens import Dataset

WORKERS = pytest.mark.parametrize("workers", [0, 1, 4])
STARTS = pytest.mark.parametrize("start", ["fork", "spawn"])


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "train.bin"
    np.random.default_rng(1).integers(0, 50000, 4001).astype("uint16").tofile(path)
    return path


def blocks_of(batches):
    return [bytes(memoryview(np.asarray(x))) for batch, _ in batches for x in batch]


@WORKERS
@STARTS
def test_iterable(path, workers, start):
    """An epoch has each block once, whoever has fetched it; the next one has another order."""
    dataset = Dataset(path, 10, batch=5, seed=3)
    wanted = sorted(bytes(dataset[i][0]) for i in range(len(dataset)))
    epochs = []
    for epoch in range(2):
        dataset.set_epoch(epoch)
        epochs.append(blocks_of(Loader(dataset, workers, start)))
    assert sorted(epochs[0]) == sorted(epochs[1]) == wanted and epochs[0] != epochs[1]
    # The same order again, in each of the processes that may fetch it.
    dataset.set_epoch(0)
    assert blocks_of(Loader(dataset, workers, start)) == epochs[0]


@WORKERS
@STARTS
def test_map_style(path, workers, start):
    dataset = Dataset(path, 10)
    got = Loader(dataset, workers, start).blocks(range(0, 100, 3))
    assert sorted(got) == [*range(0, 100, 3)]
    for index, (x, y) in got.items():
        assert (x == dataset[index][0]).all() and (y == dataset[index][1]).all()


@pytest.mark.parametrize("workers", [1, 4])
def test_ranks(path, workers):
    """Two ranks with so many workers each: no block is another one's."""
    parts = []
    for rank in range(2):
        dataset = Dataset(path, 10, batch=5, seed=3, rank=rank, ranks=2)
        parts += blocks_of(Loader(dataset, workers, "fork"))
    dataset = Dataset(path, 10)
    assert sorted(parts) == sorted(bytes(dataset[i][0]) for i in range(len(dataset)))


@WORKERS
def test_resume(path, workers):
    """A run that ended after some batches goes on: no block is lost, and none comes twice."""
    dataset = Dataset(path, 10, batch=5, seed=3)
    loader, begin = Loader(dataset, workers, "fork"), []
    for n, batch in enumerate(loader, 1):
        begin.append(batch)
        if n == 32:
            break
    state = pickle.loads(pickle.dumps(dataset.state(n, workers)))
    for child in loader.children:
        child.kill()
        child.join()
    later = Dataset(path, 10, batch=5, seed=9)
    later.load_state(state)
    # By as many workers, and by another number of them.
    whole = sorted(bytes(dataset[i][0]) for i in range(len(dataset)))
    for n in (workers, 2):
        later.load_state(state)
        assert sorted(blocks_of(begin) + blocks_of(Loader(later, n, "fork"))) == whole


@STARTS
def test_killed_worker(path, start):
    """The loader tells of it; the data set, and the file's pages, are as they were."""
    dataset = Dataset(path, 10, batch=5, seed=3, order="random")
    before = hetmap.stats()
    loader = Loader(dataset, 2, start)
    batches = iter(loader)
    next(batches)
    os.kill(loader.children[1].pid, signal.SIGKILL)
    with pytest.raises(RuntimeError, match="-9"):
        for _ in range(1000):
            next(batches)
    loader.children[0].kill()
    assert hetmap.stats() == before
    dataset = Dataset(path, 10, batch=5, seed=3)
    again = blocks_of(Loader(dataset, 2, start))
    dataset.set_epoch(0)
    assert sorted(again) == sorted(blocks_of(dataset))


def test_no_file_of_a_parent(path):
    """A child by fork opens the files itself, also where its parent iterates."""
    dataset = Dataset(path, 10, batch=5, seed=3)
    batches = iter(dataset)
    next(batches)
    dataset.set_epoch(0)
    assert len(blocks_of(Loader(dataset, 1, "fork"))) == 400
    assert len(blocks_of(batches)) == 395


def test_state_of_a_loader(path):
    dataset = Dataset(path, 10, batch=5, seed=3, ranks=2)
    assert dataset.state(8, 4) == {"seed": 3, "position": 80}
    # A round that is not whole comes again.
    assert dataset.state(11, 4) == {"seed": 3, "position": 80}
    dataset.set_epoch(1)
    assert dataset.state(0, 4) == {"seed": 3, "position": 400}
