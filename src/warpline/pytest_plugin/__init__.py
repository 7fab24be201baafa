"""The plug-in for pytest: tests that fail if a step becomes too slow.

    @pytest.mark.warpline(step_ms="<= 12", no_findings="high")
    def test_training():
        train(steps=20)

pytest imports this module in every run, whether it uses the plug-in or not, so what records and
checks is imported when the first test with the marker or the fixture is collected: docs/pytest.md.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from warpline.pytest_plugin.recorder import Recorder

MARKER, FIXTURE = "warpline", "warpline_profile"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options."""
    group = parser.getgroup("warpline", "GPU performance (warpline)")
    group.addoption(
        "--warpline-keep",
        metavar="DIR",
        help="keep all recordings in this folder (default: those of failed tests, in pytest's"
        " temporary folder)",
    )
    group.addoption(
        "--warpline-folder",
        metavar="DIR",
        help="folder of baselines (default: .warpline-baselines in the root folder)",
    )
    group.addoption(
        "--warpline-save",
        action="store_true",
        help="save the baselines that tests name, instead of comparing with them",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker."""
    config.addinivalue_line(
        "markers",
        f"{MARKER}(step_ms='<= 12', idle='<= 10%', memory_peak='<= 8 GiB', no_findings='high',"
        " baseline='main', fail_on='step:2%', undecided='fail', steps=None, trace='cuda,nvtx'):"
        " record the test and fail if a limit does not hold",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Load what records and checks, if a test needs it."""
    used = [item for item in items if _is_used(item)]
    if used:
        _checking().begin(config, used)


def _is_used(item: pytest.Item) -> bool:
    return MARKER in item.keywords or FIXTURE in getattr(item, "fixturenames", ())


@pytest.fixture(name=FIXTURE)
def _profile(request: pytest.FixtureRequest) -> Recorder:
    """Records a block or a command, and returns what the recording says.

    with warpline_profile() as run: ...        # this block
    run = warpline_profile.run(["./train"])    # a command
    run = warpline_profile.open("old.sqlite")  # what was recorded before
    """
    recorder: Recorder = _checking().recorder_of(request.node)
    return recorder


def _checking() -> Any:
    """Import what records and checks; pytest looks at all names here, which would load it."""
    return importlib.import_module("warpline.pytest_plugin.checking")
