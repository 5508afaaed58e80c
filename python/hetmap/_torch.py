# SPDX-License-Identifier: MIT
"""Data sets in the classes of torch, which only this file needs."""

import torch.utils.data


class Batches(torch.utils.data.IterableDataset):
    """What Dataset.iterable() returns: the batches of one epoch, in each iteration."""

    def __init__(self, dataset):
        super().__init__()
        self.dataset = dataset

    def __iter__(self):
        return iter(self.dataset)
