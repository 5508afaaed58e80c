# SPDX-License-Identifier: MIT
"""Interpreters and systems that the package can't work in get an ImportError that says why."""

import pathlib
import shutil
import subprocess
import sys

import pytest

import hetmap


def import_of(folder, code):
    return subprocess.run([sys.executable, "-c", code + "\nimport hetmap"], capture_output=True,
                          text=True, env={"PYTHONPATH": str(folder)})


@pytest.fixture
def without_module(tmp_path):
    """The package as an interpreter sees it that knows no module of the limited API."""
    shutil.copytree(pathlib.Path(hetmap.__file__).parent, tmp_path / "hetmap",
                    ignore=shutil.ignore_patterns("*.so*", "__pycache__"))
    return tmp_path


def test_free_threaded(without_module):
    result = import_of(without_module, "import sysconfig\nreal = sysconfig.get_config_var\n"
                       "sysconfig.get_config_var = lambda name: name == 'Py_GIL_DISABLED' or "
                       "real(name)")
    assert result.returncode == 1
    assert "ImportError: hetmap needs a build of Python with the GIL" in result.stderr


def test_no_module(without_module):
    result = import_of(without_module, "")
    assert result.returncode == 1 and "No module named 'hetmap._hetmap'" in result.stderr


def test_no_loader_of_opencl():
    from hetmap._missing import explain
    told = explain(ImportError("libOpenCL.so.1: cannot open shared object file"))
    assert "ocl-icd-libopencl1" in str(told)
    other = ImportError("libfoo.so.1: cannot open shared object file")
    assert explain(other) is other


def test_table_without_its_library():
    """Only hetmap.table needs libhetmap-table, and its import says so."""
    try:
        from hetmap import table
    except ImportError as error:
        assert "libhetmap-table" in str(error)
    else:
        assert table.open
    assert "table" not in hetmap.__all__
