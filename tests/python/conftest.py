# SPDX-License-Identifier: MIT
"""What the tests of the Python package share."""

import gc
import os

import pytest

import hetmap


@pytest.fixture
def device():
    with hetmap.Device("host") as device:
        yield device


@pytest.fixture
def page_map(device):
    return hetmap.Buffer(device, 1 << 16, max_size=1 << 20, name="page_map").map()


def alive():
    """Objects of the library, and descriptors of the process."""
    gc.collect()
    counts = hetmap.stats()
    return counts["buffers"], counts["maps"], len(os.listdir("/proc/self/fd"))


@pytest.fixture
def nothing_left():
    before = alive()
    yield
    assert alive() == before
