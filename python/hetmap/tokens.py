# SPDX-License-Identifier: MIT
"""Files of tokens as a data set: blocks by their number, or batches in a seed's order."""

import os
import sys

import numpy

from . import _hetmap

# enum hm_dtype
_DTYPES = {"uint8": 4, "int8": 5, "int16": 11, "uint16": 12, "float16": 13, "int32": 15,
           "uint32": 16, "float32": 17, "float64": 19, "int64": 20, "uint64": 21}
_ORDERS = {"random": 0, "shuffled": 1, "in order": 2}


class Dataset:
    """Blocks x of `block` tokens, and y, the tokens that follow them, as int64 arrays.

    `paths` is a file or a list of them: raw tokens of `dtype` from the byte `offset` on, or .npy.
    By number, dataset[i] is the block i of len(dataset), without a batch's dimension. As an
    iterable it has the whole batches of one epoch, each of `batch` blocks, in an order that
    `seed` and set_epoch() determine: "shuffled", "in order", or "random", which has no end.

    `paths` may also be NAME.bin of Megatron or NAME.ds of datatrove, whose index beside it gives
    the type and the documents; document(i) has the tokens of one. With `documents=True` no block
    reaches into the next document: `pad_x` and `pad_y` fill those that a document's end makes
    shorter.

    With `tensors=True` all of them are tensors of torch, filled in the same one pass, and with
    `pin=True` in pinned memory. blocks() takes blocks that the caller chooses.

    The blocks are split over `ranks`, and over `workers` of each: within a worker of torch's
    loader its own number is taken. Processes share the pages of the files. The object may be
    pickled and forked; it opens the files where it is used.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "train.bin")
    >>> numpy.arange(1001, dtype="uint16").tofile(path)
    >>> dataset = Dataset(path, block=10, batch=5, order="in order")
    >>> len(dataset), dataset[3][1].tolist()
    (100, [31, 32, 33, 34, 35, 36, 37, 38, 39, 40])
    >>> x, y = next(iter(dataset))
    >>> x.shape, int(x[1, 0]), int(y[1, 0])
    ((5, 10), 10, 11)
    """

    def __init__(self, paths, block, batch=1, order="shuffled", seed=0, rank=0, ranks=1, worker=0,
                 workers=1, dtype="uint16", offset=0, out="int64", *, documents=False, pad_x=0,
                 pad_y=-100, tensors=False, pin=False):
        if isinstance(paths, (str, bytes, os.PathLike)):
            paths = [paths]
        self._paths = tuple(os.fsencode(path) for path in paths)
        if order not in _ORDERS:
            raise ValueError(f"order must be one of {[*_ORDERS]} (got {order!r})")
        for name in (dtype, out):
            if numpy.dtype(name).name not in _DTYPES:
                raise ValueError(f"{name} is no type of tokens: {[*_DTYPES]}")
        self.block, self.batch, self.order, self.seed = int(block), int(batch), order, int(seed)
        if self.block < 1 or self.batch < 1:
            raise ValueError("block and batch must be 1 at least")
        self.rank, self.ranks, self.worker, self.workers = rank, ranks, worker, workers
        self.offset, self.dtype = offset, numpy.dtype(dtype).name
        self.out, self.epoch = numpy.dtype(out), 0
        self.documents, self.pad_x, self.pad_y = bool(documents), pad_x, pad_y
        self.tensors, self.pin = bool(tensors), bool(pin)
        if self.pin and not self.tensors:
            raise ValueError("pin is for tensors: pass tensors=True")
        self._empty(0)
        self._opened, self._source, self._position, self._bounds = None, None, None, None
        self._files()

    def __getstate__(self):
        state = self.__dict__.copy()
        state["_opened"] = state["_source"] = state["_bounds"] = None
        return state

    def _files(self):
        """The files, opened by this process: those of a parent are not its own."""
        if self._opened is None or self._opened[0] != os.getpid():
            files = _hetmap.Tokens(self._paths, _DTYPES[self.dtype], self.offset)
            facts = files.query()
            self._opened = os.getpid(), files, facts["tokens"], facts["documents"]
            self._source = None
        return self._opened[1]

    @property
    def tokens(self) -> int:
        """Tokens of all files."""
        self._files()
        return self._opened[2]

    @property
    def n_documents(self) -> int:
        """Documents of all files; a file without an index is one."""
        self._files()
        return self._opened[3]

    def _documents(self):
        """The first token of each document and the end, and the first block of each likewise."""
        if self._bounds is None:
            firsts = numpy.empty(self.n_documents + 1, "uint64")
            self._files().documents(firsts[:-1])
            firsts[-1] = self.tokens
            firsts = firsts.astype("int64")
            blocks = -(-numpy.maximum(numpy.diff(firsts) - 1, 0) // self.block)
            self._bounds = firsts, numpy.concatenate([[0], numpy.cumsum(blocks)])
        return self._bounds

    def document(self, index) -> "numpy.ndarray | torch.Tensor":  # noqa: F821
        """The tokens of one document."""
        firsts, n = self._documents()[0], self.n_documents
        if not -n <= index.__index__() < n:
            raise IndexError(f"document {index} of {n}")
        first, end = firsts[index % n], firsts[index % n + 1]
        return self._read(int(first), int(end - first))

    def _empty(self, shape, fill=None):
        """An array or a tensor, and its memory as an array."""
        if not self.tensors:
            array = numpy.empty(shape, self.out) if fill is None else numpy.full(shape, fill,
                                                                                 self.out)
            return array, array
        import torch
        dtype = getattr(torch, self.out.name, None)
        if dtype is None:
            raise ValueError(f"torch has no {self.out.name}: choose another out")
        tensor = torch.empty(shape, dtype=dtype, pin_memory=self.pin)
        if fill is not None:
            tensor.fill_(fill)
        return tensor, tensor.numpy()

    def _read(self, first, n):
        tokens, memory = self._empty(n)
        if n:
            self._files().read(first, _DTYPES[self.out.name], memory)
        return tokens

    def blocks(self, starts):
        """x and y of the blocks that begin at the tokens `starts`, as nanoGPT's get_batch() has.

        `starts` are integers, or an array or a tensor of them. Blocks may reach into the next
        document.

        >>> import os, tempfile
        >>> path = os.path.join(tempfile.mkdtemp(), "train.bin")
        >>> numpy.arange(1000, dtype="uint16").tofile(path)
        >>> x, y = Dataset(path, block=3).blocks([7, 500])
        >>> x.tolist(), y.tolist()
        ([[7, 8, 9], [500, 501, 502]], [[8, 9, 10], [501, 502, 503]])
        """
        starts = numpy.ascontiguousarray(starts, "int64").reshape(-1)
        last = self.tokens - self.block - 1
        if starts.size and not 0 <= starts.min() <= starts.max() <= last:
            raise IndexError(f"blocks of {self.block} tokens begin at 0 to {last}, not at "
                             f"{starts.min()} to {starts.max()}")
        (x, x_memory), (y, y_memory) = (self._empty((len(starts), self.block)) for _ in range(2))
        if starts.size:
            self._files().blocks(starts, _DTYPES[self.out.name], x_memory, y_memory)
        return x, y

    def __len__(self):
        if self.documents:
            return int(self._documents()[1][-1])
        return max(self.tokens - 1, 0) // self.block

    def __getitem__(self, index):
        index, n = index.__index__(), len(self)
        if not -n <= index < n:
            raise IndexError(f"block {index} of {n}")
        index %= n
        if not self.documents:
            both = self._read(index * self.block, self.block + 1)
            return both[:-1], both[1:]
        firsts, blocks = self._documents()
        document = int(numpy.searchsorted(blocks, index, "right")) - 1
        first = int(firsts[document]) + (index - int(blocks[document])) * self.block
        tokens = self._read(first, min(self.block + 1, int(firsts[document + 1]) - first))
        x, y = (self._empty(self.block, pad)[0] for pad in (self.pad_x, self.pad_y))
        x[:len(tokens) - 1], y[:len(tokens) - 1] = tokens[:-1], tokens[1:]
        return x, y

    def _member(self):
        """Which part is this process's: (worker, workers)."""
        data = sys.modules.get("torch.utils.data")
        info = data.get_worker_info() if data else None
        return (info.id, info.num_workers) if info else (self.worker, self.workers)

    def set_epoch(self, epoch: int) -> None:
        """The epoch that the next iteration has."""
        self.epoch, self._position, self._source = int(epoch), None, None

    def state(self, batches: "int | None" = None, workers: int = 1) -> dict:
        """Where the iteration is, for load_state() of any number of ranks and workers.

        Of a loader, whose workers are ahead of it: `batches` is the number that it has handed out
        since set_epoch() or load_state(). A round of its `workers` that it has not handed out
        whole comes again.
        """
        if self._source is not None:
            return dict(zip(("seed", "position"), self._source.get()))
        workers = max(workers, 1)
        begin = self.epoch * len(self) if self._position is None else self._position
        done = (batches or 0) // workers * workers * self.batch * self.ranks
        return {"seed": self.seed, "position": begin + done}

    def iterable(self) -> "torch.utils.data.IterableDataset":  # noqa: F821
        """The iteration as a data set that torch's DataLoader iterates: with batch_size=None.

        The object itself is map-style for a DataLoader, which asks for blocks by their number.
        """
        from ._torch import Batches
        return Batches(self)

    def load_state(self, state: dict) -> None:
        """The next iteration goes on there, to the end of that epoch; at its end, with the next."""
        self.seed, self._position = state["seed"], state["position"]
        self._source = None
        self.epoch = 0 if self.order == "random" else self._position // max(len(self), 1)

    def __iter__(self):
        files = self._files()
        worker, workers = self._member()
        members = self.ranks * workers
        self._source = source = _hetmap.Batches(
            files, self.block, self.batch, _ORDERS[self.order], _DTYPES[self.out.name], self.seed,
            self.rank, self.ranks, worker, workers, flags=int(self.documents),
            pad_x=self.pad_x if self.documents else 0, pad_y=self.pad_y if self.documents else 0)
        blocks, first = len(self), self.epoch * len(self)
        position, self._position = self._position, None
        begin = first if position is None else position
        left = None
        if self.order != "random":
            # All members have as many batches: none waits for another at the end.
            left = (blocks - (begin - first)) // members // self.batch
            if position is not None and not left:
                # The state is that of an epoch's end: blocks that fill no batch are left over.
                self.epoch, begin = self.epoch + 1, first + blocks
                left = blocks // members // self.batch
            self.epoch += 1
        if begin:
            source.set(self.seed, begin)
        while left is None or left > 0:
            x, x_memory = self._empty((self.batch, self.block))
            y, y_memory = self._empty((self.batch, self.block))
            source.next(x_memory, y_memory)
            if left is not None:
                left -= 1
            yield x, y
