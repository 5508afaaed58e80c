# SPDX-License-Identifier: MIT
"""hetmap.tokens.Dataset against the pattern over numpy.memmap that it replaces."""

import doctest
import multiprocessing
import os
import pickle
import struct

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
    # At the end of an epoch, which has blocks left over.
    first = Dataset(path, 10, 7, seed=5)
    blocks_of(first)
    later = Dataset(path, 10, 7)
    later.load_state(first.state())
    assert blocks_of(later) == blocks_of(first) and len(dataset) % 7
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


def write_pair(folder, kind, documents):
    """Documents as Megatron and datatrove write them; the path to open."""
    whole = np.concatenate(documents).astype("uint16")
    sizes = [len(document) for document in documents]
    if kind == "datatrove":
        whole.tofile(folder / "pair.ds")
        np.cumsum(sizes).astype("uint64").tofile(folder / "pair.ds.index")
        return folder / "pair.ds"
    whole.tofile(folder / "pair.bin")
    with open(folder / "pair.idx", "wb") as file:
        file.write(b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 8, len(sizes), len(sizes) + 1))
        np.array(sizes, "int32").tofile(file)
        (np.cumsum([0] + sizes[:-1]) * 2).astype("int64").tofile(file)
        np.arange(len(sizes) + 1, dtype="int64").tofile(file)
    return folder / "pair.bin"


@pytest.mark.parametrize("kind", ["megatron", "datatrove"])
def test_documents(tmp_path, kind):
    random = np.random.default_rng(2)
    documents = [random.integers(1, 50000, n) for n in (25, 1, 10, 11, 2, 300, 1, 21)]
    path = write_pair(tmp_path, kind, documents)
    dataset = Dataset(path, 10, batch=1, order="in order", documents=True)
    assert dataset.n_documents == 8 and dataset.tokens == 371
    for i in (*range(8), -1):
        assert (dataset.document(i) == documents[i]).all()
    with pytest.raises(IndexError):
        dataset.document(8)
    wanted = []
    for document in documents:
        for at in range(0, len(document) - 1, 10):
            x, y = document[at:at + 10][:len(document) - 1 - at], document[at + 1:at + 11]
            wanted.append((np.pad(x, (0, 10 - len(x))),
                           np.pad(y, (0, 10 - len(y)), constant_values=-100)))
    assert len(dataset) == len(wanted)
    for got in ([dataset[i] for i in range(len(dataset))], [(x[0], y[0]) for x, y in dataset]):
        assert all((a == b).all() for one, other in zip(got, wanted) for a, b in zip(one, other))
    mixed = Dataset(path, 10, 3, seed=4, documents=True, pad_x=7)
    blocks = sorted(bytes(dataset[i][1]) for i in range(len(dataset)))
    assert set(bytes(y) for _, batch in mixed for y in batch) <= set(blocks)
    assert (mixed[2][0] == [*documents[0][20:24], *[7] * 6]).all()
    flat = Dataset(path, 10)
    assert len(flat) == 37 and not flat.documents and (flat[2][0][:5] == documents[0][20:]).all()


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
