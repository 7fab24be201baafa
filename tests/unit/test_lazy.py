"""Modules that are imported on first use."""

from __future__ import annotations

import contextlib
import importlib
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from warpline.lazy import lazy

THREADS = 8


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A module of this name that notes when it is imported."""
    (tmp_path / "deferred_here.py").write_text(
        "import os, time\n"
        "os.environ['DEFERRED_HERE'] = os.environ.get('DEFERRED_HERE', '') + 'x'\n"
        "time.sleep(0.05)\n"
        "answer = 42\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("DEFERRED_HERE", "")
    yield "deferred_here"
    sys.modules.pop("deferred_here", None)


def test_it_is_imported_on_first_use(module):
    found = lazy(module)
    assert repr(found) == "<lazy module 'deferred_here'>"
    assert module not in sys.modules
    assert found.answer == 42
    assert module in sys.modules


def test_threads_see_a_complete_module_that_ran_once(module, monkeypatch):
    import os

    found, begin = lazy(module), threading.Barrier(THREADS)

    def use(_):
        begin.wait()
        return found.answer

    with ThreadPoolExecutor(THREADS) as pool:
        assert [*pool.map(use, range(THREADS))] == [42] * THREADS
    assert os.environ["DEFERRED_HERE"] == "x"


def test_what_is_missing_is_told_when_it_is_used(module):
    with pytest.raises(AttributeError, match="no attribute 'question'"):
        _ = lazy(module).question
    nowhere = lazy("no_such_module_anywhere")
    with pytest.raises(ModuleNotFoundError, match="no_such_module_anywhere"):
        _ = nowhere.answer


def test_the_import_is_within_a_context(module):
    seen = []

    @contextlib.contextmanager
    def within():
        seen.append(module in sys.modules)
        yield
        seen.append(module in sys.modules)

    found = lazy(module, within)
    assert seen == []
    assert [found.answer, found.answer] == [42, 42]
    assert seen == [False, True]


def test_names_of_a_package_are_imported_on_first_use(tmp_path, monkeypatch):
    folder = tmp_path / "package_here"
    folder.mkdir()
    (folder / "__init__.py").write_text(
        "from warpline.lazy import lazy_names\n"
        "__getattr__ = lazy_names(__name__, {'part': ('answer',)})\n"
    )
    (folder / "part.py").write_text("answer, other = [42], 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    try:
        package = importlib.import_module("package_here")
        assert "package_here.part" not in sys.modules
        with pytest.raises(AttributeError, match="'package_here' has no attribute 'other'"):
            _ = package.other
        assert "package_here.part" not in sys.modules
        assert package.answer is package.answer
        assert vars(package)["answer"] == [42]
    finally:
        for name in ("package_here", "package_here.part"):
            sys.modules.pop(name, None)
