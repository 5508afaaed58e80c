# SPDX-License-Identifier: MIT
"""The examples of docs/guide/python.md, and of README.md, print what the pages say."""

import contextlib
import doctest
import io
import os
import pathlib
import re

TOP = pathlib.Path(__file__).parents[2]
PAGE = TOP / "docs" / "guide" / "python.md"


def test_page(tmp_path):
    blocks = re.findall(r"(<!-- printed -->\n)?```(python|text)\n(.*?)```", PAGE.read_text(), re.S)
    names, said, here = {}, None, os.getcwd()
    os.chdir(tmp_path)
    try:
        for printed, language, text in blocks:
            if language == "python":
                with contextlib.redirect_stdout(io.StringIO()) as out:
                    exec(compile(text, str(PAGE), "exec"), names)
                said = out.getvalue()
            elif printed:
                assert said == text
    finally:
        os.chdir(here)
    assert len(blocks) >= 20


def test_readme():
    result = doctest.testfile(os.fspath(TOP / "README.md"), module_relative=False)
    assert result.attempted == 4 and not result.failed
