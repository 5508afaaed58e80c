# SPDX-License-Identifier: MIT
"""The examples of the guide's pages, and of README.md, print what the pages say.

Each public class has a heading in a page of docs/guide/python, and each member of it its name.
"""

import contextlib
import doctest
import importlib
import inspect
import io
import os
import pathlib
import re

import pytest

import hetmap

TOP = pathlib.Path(__file__).parents[2]
GUIDE = TOP / "docs" / "guide"
PAGES = [GUIDE / "python.md", *sorted((GUIDE / "python").glob("*.md"))]
MODULES = ["hetmap", "hetmap.cuda", "hetmap.gguf", "hetmap.pieces", "hetmap.safetensors",
           "hetmap.table", "hetmap.tokens"]


def run(page):
    """The number of its blocks."""
    blocks = re.findall(r"(<!-- printed -->\n)?```(python|text)\n(.*?)```", page.read_text(), re.S)
    names, said = {}, None
    for printed, language, text in blocks:
        if language == "python":
            with contextlib.redirect_stdout(io.StringIO()) as out:
                exec(compile(text, str(page), "exec"), names)
            said = out.getvalue()
        elif printed:
            assert said == text
    return len(blocks)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_page(page, tmp_path, monkeypatch, request):
    if page.stem == "cuda":
        request.getfixturevalue("fake_cuda")
    if page.stem == "table":
        try:
            import hetmap.table  # noqa: F401
        except ImportError as error:
            pytest.skip(str(error))
    monkeypatch.chdir(tmp_path)
    assert run(page) >= 2


def test_readme():
    result = doctest.testfile(os.fspath(TOP / "README.md"), module_relative=False)
    assert result.attempted == 4 and not result.failed


def public_classes():
    for name in MODULES:
        try:
            module = importlib.import_module(name)
        except ImportError:
            continue  # hetmap.table where its library is not
        names = getattr(module, "__all__", None) or [n for n in vars(module) if n[0] != "_"]
        for one in names:
            value = getattr(module, one)
            # Those that a module imports from another one are that one's.
            if inspect.isclass(value) and (value.__module__.startswith("hetmap") and
                                           name in ("hetmap", "hetmap.cuda") or
                                           value.__module__ == name):
                yield name, value


def sections():
    """The text of each heading's section, with the page's name."""
    for page in PAGES:
        for heading, text in re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", page.read_text(),
                                        re.S | re.M):
            yield page.stem, heading, text


# Rows of other classes, of which the pages tell in the section of the class that has them.
PAGE_OF = {"hetmap.cuda": ["cuda"], "hetmap.table": ["table"], "hetmap.tokens": ["tokens"],
           "hetmap.gguf": ["files"], "hetmap.pieces": ["files"], "hetmap.safetensors": ["files"],
           "hetmap": ["objects", "launch", "errors", "watch", "files"]}
IN_TEXT = {"Info", "Tensors"}


def test_each_class_has_its_section():
    found = {(page, heading): text for page, heading, text in sections()}
    lacking = []
    for module, value in public_classes():
        if value.__name__ in IN_TEXT:
            continue
        texts = [found[page, value.__name__] for page in PAGE_OF[module]
                 if (page, value.__name__) in found]
        if not texts:
            lacking.append(f"{module}.{value.__name__}")
            continue
        for member in vars(value) if value.__module__ != "hetmap._objects" else dir(value):
            if member.startswith("_") or issubclass(value, tuple) and member in ("count", "index"):
                continue
            if not re.search(rf"\b{member}\b", texts[0]):
                lacking.append(f"{module}.{value.__name__}.{member}")
    assert not lacking


def test_signatures_of_the_pages():
    """A signature that a page shows is the one of the class."""
    shown = " ".join(" ".join(page.read_text().split()) for page in PAGES)
    from hetmap import pieces, tokens
    for value in (tokens.Dataset, pieces.Pieces.load, pieces.Pieces.to, hetmap.Map.array,
                  hetmap.Map.cpu):
        function = value.__init__ if inspect.isclass(value) else value
        wanted = []
        for parameter in [*inspect.signature(function).parameters.values()][1:]:
            if parameter.kind is parameter.KEYWORD_ONLY and "*" not in wanted:
                wanted.append("*")
            wanted.append(parameter.name if parameter.default is parameter.empty else
                          f"{parameter.name}={parameter.default!r}".replace("'", '"'))
        assert f"{value.__name__}({', '.join(wanted)})" in shown
