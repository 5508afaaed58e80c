# SPDX-License-Identifier: MIT
"""tree() and top(): what the process has mapped."""

import doctest
import os
import subprocess
import sys

import pytest

import hetmap
from hetmap import _tree


def named(name):
    return [one for one in hetmap.tree() if one.buffer == name]


def test_doctests():
    result = doctest.testmod(_tree)
    assert result.attempted and not result.failed


def test_facts(device):
    buffer = hetmap.Buffer(device, 1 << 16, name="facts")
    map = buffer.map()
    part = buffer.map(8192, 4096)
    whole, second = sorted(named("facts"), key=lambda one: -one.nbytes)
    assert (whole.device, whole.address, whole.nbytes) == ("host", map.address, 1 << 16)
    assert (second.offset, second.nbytes, second.serial) == (8192, 4096, whole.serial)
    assert whole.serial == buffer.query()["serial"]
    map.write(b"x" * 8192)
    map.lock(0, 4096)
    with map.cpu():
        whole = max(named("facts"), key=lambda one: one.nbytes)
        assert whole.brackets == 1 and whole.locked == 4096 and whole.resident >= 8192
    assert not whole.in_flight and not whole.lost
    part.close(), map.close()
    assert not named("facts")


def test_text(device):
    map = hetmap.Buffer(device, 3 << 20, name="shown").map()
    text = str(hetmap.tree())
    assert text.startswith("host") or "\nhost\n" in text
    assert "  shown, number" in text and f"3.0 MiB at {map.address:#x}" in text


def test_top(device):
    maps = [hetmap.Buffer(device, size << 20, name="top").map() for size in (1, 2, 3)]
    for map in maps:
        map.prefetch(access=hetmap.READ | hetmap.WRITE)
    order = [one.nbytes for one in hetmap.top(100) if one.buffer == "top"]
    assert order == [3 << 20, 2 << 20, 1 << 20] and len(hetmap.top(2)) == 2


def test_lost():
    device = hetmap.Device("soft:0")
    map = hetmap.Buffer(device, 4096, name="lost").map()
    assert not named("lost")[0].lost and named("lost")[0].device == "soft:0"
    device.sim_unplug()
    with pytest.raises(hetmap.DeviceLost):
        map.begin_cpu()
    assert named("lost")[0].lost and "lost" in str(hetmap.tree())
    map.close()
    hetmap.sim_plug("soft:0")


@pytest.mark.parametrize("folder", ["", "0", "."])
def test_where_the_table_is(folder, tmp_path):
    code = """
import hetmap
assert not len(hetmap.tree()) and str(hetmap.tree()) == "nothing is mapped"
map = hetmap.Buffer(hetmap.Device("host"), 4096, name="one").map()
try:
    print(hetmap.top()[0].buffer)
except RuntimeError as error:
    print("PUBLISH" in str(error))
"""
    environment = dict(os.environ, HETMAP_PUBLISH=str(tmp_path) if folder == "." else folder)
    if not folder:
        del environment["HETMAP_PUBLISH"]
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                            env=environment)
    assert result.stdout == ("True\n" if folder == "0" else "one\n"), result.stderr
