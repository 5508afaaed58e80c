# SPDX-License-Identifier: MIT
"""hetmap.trace: faults of this process, where perf_event_open(2) is allowed."""

import os
import shutil
import subprocess

import pytest

import hetmap


@pytest.fixture
def folder(tmp_path):
    """Skips where a trace is refused."""
    if not shutil.which("hetmap"):
        pytest.skip("the command hetmap is not here")
    done = subprocess.run(["hetmap", "trace", "-q", "-o", tmp_path / "try", "--", "true"],
                          capture_output=True, text=True)
    if done.returncode:
        pytest.skip(done.stderr.strip())
    return tmp_path / "trace"


def test_faults(folder, device):
    with hetmap.trace(folder) as faults:
        map = hetmap.Buffer(device, 1 << 20, name="zebra").map()
        map.array()[:] = 1
    text = faults.report()
    assert "zebra" in text and sorted(os.listdir(folder)) == ["about.json", "maps", "perf.data"]
    assert faults._repr_html_().lstrip().startswith(("<svg", "<?xml"))
    with hetmap.trace(folder) as faults:
        pass
    assert os.path.isdir(f"{folder}.old") and "zebra" not in faults.report()


def test_exceptions_are_kept(folder):
    with pytest.raises(KeyError):
        with hetmap.trace(folder):
            raise KeyError
    assert os.path.exists(folder / "about.json")


@pytest.mark.skipif(not shutil.which("hetmap"), reason="the command hetmap is not here")
def test_refusals(tmp_path):
    with pytest.raises(FileNotFoundError):
        with hetmap.trace(tmp_path / "x", command=tmp_path / "none"):
            pass
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").write_text("kept")
    with pytest.raises(OSError, match="hetmap trace"):
        with hetmap.trace(tmp_path / "mine"):
            pass
    assert (tmp_path / "mine" / "file").read_text() == "kept"
    with pytest.raises(OSError, match="hetmap report"):
        hetmap.trace(tmp_path / "none").report()
