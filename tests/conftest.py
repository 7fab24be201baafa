"""Fixtures and settings shared by all tests."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings
from support import captures

settings.register_profile("dev", deadline=None)
# The same examples each time, so more of them would find nothing new.
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True, max_examples=30)
settings.load_profile("ci" if os.environ.get("CI") else "dev")

ROOT = Path(__file__).parent.parent

# What `warpline bench --save` has kept for the user is no input of tests.
os.environ["XDG_DATA_HOME"] = str(ROOT / "tests" / "nothing")

# Tests start programs in folders of their own, where a relative path names nothing.
for _variable in ("WARPLINE_AGENT", "WARPLINE_CORE"):
    if os.environ.get(_variable):
        os.environ[_variable] = str(Path(os.environ[_variable]).absolute())

# Under nohup it is ignored, and programs inherit that: tests that send it would wait forever. With
# a handler that does nothing, tests ignore it, and programs start with the default.
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda *_: None)


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the source tree."""
    return ROOT


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The directory of sample files, described in its INDEX.md."""
    return ROOT / "tests" / "data"


@pytest.fixture(scope="session")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return the path of a capture in tests/data/nsys by its name; see support/captures.py."""
    folder = tmp_path_factory.mktemp("captures")
    return lambda name: captures.unpack(name, folder)


def pytest_collection_finish() -> None:
    """Keep what has been collected out of garbage collections: some million objects that stay.

    Comparisons collect garbage before they open the next recording, and each collection would
    look at all of them.
    """
    gc.collect()
    gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """One and a half workers per core: for a third of the time tests wait for others' programs."""
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    return cores + (cores + 1) // 2


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Report prominently that browser tests did not run: a skipped line is easily missed."""
    reasons = {
        str(report.longrepr[2]).removeprefix("Skipped: ")
        for report in terminalreporter.stats.get("skipped", ())
        if "tests/browser/" in report.nodeid and isinstance(report.longrepr, tuple)
    }
    for reason in sorted(reasons):
        terminalreporter.write_line(f"browser tests did not run: {reason}", yellow=True, bold=True)
