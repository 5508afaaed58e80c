# SPDX-License-Identifier: MIT
"""hetmap.tokens.Dataset against the pattern over numpy.memmap that it replaces."""

import doctest
import multiprocessing
import os
import pickle

import numpy as np
import pytest

import hetmap
from hetmap import tokens as module
from hetmap.tokens import Dataset


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "train.bin"
    np.random.default_rng(1).integers(0, 50000, 10_001).astype("uint16").tofile(path)
    return path


def blocks_of(batches):
    return [bytes(x) for batch, _ in batches for x in batch]


def test_doctests():
    result = doctest.testmod(module)
    assert result.attempted and not result.failed


def test_map_style(path):
    data, dataset = np.memmap(path, "uint16", "r"), Dataset(path, 16)
    assert len(dataset) == 10_000 // 16
    for i in (0, 1, 77, len(dataset) - 1, -1):
        x, y = dataset[i]
        at = i % len(dataset) * 16
        assert x.dtype == y.dtype == np.int64
        assert (x == data[at:at + 16]).all() and (y == data[at + 1:at + 17]).all()
    for i in (len(dataset), -len(dataset) - 1):
        with pytest.raises(IndexError):
            dataset[i]


def test_an_epoch_has_each_block_once(path):
    dataset = Dataset(path, 10, batch=8, seed=3)
    wanted = sorted(bytes(dataset[i][0]) for i in range(len(dataset)))
    first, second = blocks_of(dataset), blocks_of(dataset)
    assert sorted(first) == sorted(second) == wanted and first != second
    dataset.set_epoch(0)
    assert blocks_of(dataset) == first
    assert blocks_of(Dataset(path, 10, batch=8, seed=3)) == first
    assert blocks_of(Dataset(path, 10, batch=8, seed=4)) != first


def test_y_follows_x(path):
    data = np.fromfile(path, "uint16")
    for order in ("shuffled", "in order", "random"):
        for (x, y), _ in zip(Dataset(path, 10, batch=4, order=order), range(20)):
            assert (x[:, 1:] == y[:, :-1]).all() and x.shape == y.shape == (4, 10)
            assert x.max() <= data.max()


def test_members_share_an_epoch(path):
    dataset = Dataset(path, 10)
    wanted = sorted(bytes(dataset[i][0]) for i in range(len(dataset)))
    parts = [Dataset(path, 10, 5, seed=7, rank=rank, ranks=2, worker=worker, workers=2)
             for rank in range(2) for worker in range(2)]
    assert sorted(block for part in parts for block in blocks_of(part)) == wanted


def test_resume(path):
    all_of_it = blocks_of(Dataset(path, 10, 4, seed=5))
    dataset = Dataset(path, 10, 4, seed=5)
    iterator = iter(dataset)
    begin = [next(iterator) for _ in range(30)]
    state = pickle.loads(pickle.dumps(dataset.state()))
    other = Dataset(path, 10, 4, seed=99)
    other.load_state(state)
    assert blocks_of(begin) + blocks_of(other) == all_of_it
    dataset.set_epoch(2)
    later = Dataset(path, 10, 4)
    later.load_state(dataset.state())
    assert blocks_of(later) == blocks_of(dataset)


def total(dataset, results):
    results.put((sum(int(x.sum()) for x, _ in dataset), int(dataset[5][0][0])))


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_workers(path, start):
    dataset = Dataset(path, 10, 4, seed=5)
    wanted = sum(int(x.sum()) for x, _ in dataset), int(dataset[5][0][0])
    dataset.set_epoch(0)
    context = multiprocessing.get_context(start)
    results = context.Queue()
    child = context.Process(target=total, args=(dataset, results))
    child.start()
    assert results.get(timeout=30) == wanted
    child.join(30)


def test_shards_and_npy(tmp_path):
    whole = np.arange(1000, dtype="int32")
    np.save(tmp_path / "a.npy", whole[:400])
    np.save(tmp_path / "b.npy", whole[400:])
    dataset = Dataset([tmp_path / "a.npy", tmp_path / "b.npy"], 9)
    assert dataset.tokens == 1000 and dataset[44][0].tolist() == list(range(396, 405))


def test_refusals(path, tmp_path):
    for wrong in ({"block": 0}, {"block": 4, "order": "none"}, {"block": 4, "dtype": "S1"}):
        with pytest.raises(ValueError):
            Dataset(path, **wrong)
    with pytest.raises(FileNotFoundError):
        Dataset(tmp_path / "none", 4)
    with pytest.raises(ValueError, match="null"):
        Dataset(f"{path}\0.bin", 4)
    with pytest.raises(hetmap.Error):
        next(iter(Dataset(path, 100_000)))
    with pytest.raises(hetmap.Error):
        next(iter(Dataset(path, 10, rank=3, ranks=2)))


def test_cut_file(path):
    dataset = Dataset(path, 16)
    os.truncate(path, 1000)
    with pytest.raises(hetmap.Error):
        dataset[600]


def test_nothing_kept(path, nothing_left):
    for _ in range(100):
        dataset = Dataset(path, 100, 10)
        dataset[0]
        blocks_of(dataset)
    del dataset
