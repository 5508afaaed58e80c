# SPDX-License-Identifier: MIT
"""The example that trains a model has the losses that nanoGPT's own loader leads to."""

import os
import pathlib
import subprocess
import sys

import pytest

TOP = pathlib.Path(__file__).parents[2]


def losses(loader, model, steps):
    texts = sorted((TOP / "docs" / "guide").glob("*.md"))
    # One thread: a sum in another order is another loss.
    env = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    result = subprocess.run(
        [sys.executable, TOP / "python" / "examples" / "train.py", "--loader", loader, "--model",
         model, "--steps", str(steps), *texts], capture_output=True, text=True, timeout=120,
        env=env)
    assert result.returncode == 0, result.stderr
    return [line.split(": loss ") for line in result.stdout.splitlines()]


@pytest.mark.parametrize("model", ["numpy", "torch"])
def test_losses(model):
    if model == "torch":
        pytest.importorskip("torch")
    own, theirs = losses("hetmap", model, 80), losses("numpy", model, 80)
    assert len(own) == 80 and own == theirs
    first, last = float(own[0][1]), sum(float(loss) for _, loss in own[-10:]) / 10
    assert last < first * 0.8
