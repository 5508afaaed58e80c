# SPDX-License-Identifier: MIT
"""A loader with worker processes, as torch's DataLoader is, for where torch is not installed.

Batches of an iterable come from the workers in turn; blocks of a map-style data set by their
numbers. `torch.utils.data` is a module of this file in the workers, which has the one function
that data sets ask for.
"""

import multiprocessing
import queue
import sys
import types


class Info(types.SimpleNamespace):
    pass


def pretend(info):
    torch, utils, data = (types.ModuleType(name) for name in ("torch", "torch.utils",
                                                              "torch.utils.data"))
    data.get_worker_info = lambda: info
    sys.modules.update({"torch": torch, "torch.utils": utils, "torch.utils.data": data})


def iterate(dataset, worker, workers, results):
    pretend(Info(id=worker, num_workers=workers))
    for batch in dataset:
        results.put(batch)
    results.put(None)


def fetch(dataset, jobs, results):
    for index in iter(jobs.get, None):
        results.put((index, dataset[index]))


class Loader:
    """Iterates: Loader(dataset, workers, "fork"). `children` are the workers' processes."""

    def __init__(self, dataset, workers, start, seconds=60):
        self.dataset, self.workers, self.seconds = dataset, workers, seconds
        self.context, self.children = multiprocessing.get_context(start), []

    def _start(self, target, *argument_lists):
        self.children = [self.context.Process(target=target, args=arguments, daemon=True)
                         for arguments in argument_lists]
        for child in self.children:
            child.start()

    def _get(self, results, child):
        for _ in range(self.seconds * 10):
            try:
                return results.get(timeout=0.1)
            except queue.Empty:
                if child.exitcode is not None and child.exitcode != 0:
                    raise RuntimeError(f"worker {child.pid} ended with {child.exitcode}") from None
        raise TimeoutError("a worker gives nothing")

    def __iter__(self):
        if not self.workers:
            yield from self.dataset
            return
        # Two batches ahead, as the original's prefetch_factor.
        results = [self.context.Queue(2) for _ in range(self.workers)]
        self._start(iterate, *((self.dataset, i, self.workers, results[i])
                               for i in range(self.workers)))
        left = list(zip(results, self.children))
        while left:
            for one in list(left):
                batch = self._get(*one)
                if batch is None:
                    left.remove(one)
                else:
                    yield batch
        self.stop()

    def blocks(self, indices):
        """(x, y) of blocks, by their numbers."""
        if not self.workers:
            return {index: self.dataset[index] for index in indices}
        jobs, results = self.context.Queue(), self.context.Queue()
        self._start(fetch, *([(self.dataset, jobs, results)] * self.workers))
        for index in indices:
            jobs.put(index)
        got = dict(self._get(results, self.children[0]) for _ in indices)
        for _ in self.children:
            jobs.put(None)
        self.stop()
        return got

    def stop(self):
        for child in self.children:
            child.join(self.seconds)
            assert child.exitcode == 0
