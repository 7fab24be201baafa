"""What happens around a test with the marker or the fixture: recording, checking, keeping."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections import Counter
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

import pytest

from warpline.comparison import baselines
from warpline.errors import UsageError, WarplineError
from warpline.pytest_plugin import verdict
from warpline.pytest_plugin.marker import Wanted, of_markers
from warpline.pytest_plugin.recorder import Recorder
from warpline.render.escaping import visible

_NAME = "warpline-checking"
_RECORDER: pytest.StashKey[Recorder] = pytest.StashKey()
_MARKER, _FIXTURE = "warpline", "warpline_profile"
_PLAIN = re.compile(r"[A-Za-z0-9_.:/-]{1,100}(\[[A-Za-z0-9_.-]{1,40}\])?")
_OTHERS = re.compile(r"[^A-Za-z0-9_.-]+")


def begin(config: pytest.Config, items: Sequence[pytest.Item]) -> None:
    """Watch tests from now on; `items` are those that use the plug-in."""
    found = config.pluginmanager.get_plugin(_NAME)
    if found is None:
        found = Checking(config)
        config.pluginmanager.register(found, _NAME)
    found.count_baselines(items)


def recorder_of(item: pytest.Item) -> Recorder:
    """Return the recorder of a test, also of one that asks for the fixture while it runs."""
    begin(item.config, ())
    if _RECORDER not in item.stash:
        checking = item.config.pluginmanager.get_plugin(_NAME)
        assert isinstance(checking, Checking)
        item.stash[_RECORDER] = checking.recorder(item, Wanted())
    return item.stash[_RECORDER]


class Checking:
    """The hooks, registered in runs that use the plug-in."""

    def __init__(self, config: pytest.Config) -> None:
        keep = config.getoption("warpline_keep")
        self._keep = None if keep is None else Path(keep).absolute()
        folder = config.getoption("warpline_folder") or config.rootpath / baselines.FOLDER
        is_saving = bool(config.getoption("warpline_save"))
        self._folder = verdict.Folder(Path(folder), is_saving=is_saving)
        self._users: Counter[str] = Counter()

    def count_baselines(self, items: Sequence[pytest.Item]) -> None:
        """Count the tests of each baseline; all workers of pytest-xdist collect the same ones."""
        for item in items:
            try:
                name = _wanted(item).baseline
            except UsageError:  # shown when the test is set up
                continue
            self._users[name or ""] += 1

    def recorder(self, item: pytest.Item, wanted: Wanted) -> Recorder:
        """Return a new recorder of a test."""

        def folder() -> Path:
            if self._keep is not None:
                self._keep.mkdir(parents=True, exist_ok=True)
                return self._keep
            if not made:
                factory = item.config._tmp_path_factory  # type: ignore[attr-defined]  # noqa: SLF001 - that of the fixture tmp_path_factory
                made.append(factory.mktemp("warpline"))
            return made[0]

        made: list[Path] = []
        return Recorder(wanted, folder, _stem(item.nodeid))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Read the marker, before anything of the test runs."""
        if not (_MARKER in item.keywords or _FIXTURE in getattr(item, "fixturenames", ())):
            return
        try:
            wanted = _wanted(item)
            if wanted.baseline is not None:
                self._check_baseline(wanted.baseline)
        except UsageError as error:
            raise _failure(error) from None
        item.stash[_RECORDER] = self.recorder(item, wanted)

    def _check_baseline(self, name: str) -> None:
        baselines.path_of(self._folder.path, name)
        if self._folder.is_saving and self._users[name] > 1:
            raise UsageError(
                f"{self._users[name]} tests would save the baseline {name}",
                hint='give each its own: baseline="main-{test}"',
            )

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Record a test that does not do so itself, and check the limits of both."""
        recorder = item.stash.get(_RECORDER, None)
        if recorder is None:
            return (yield)
        with contextlib.ExitStack() as stack:
            if _FIXTURE not in getattr(item, "fixturenames", ()):
                try:
                    stack.enter_context(recorder())
                except WarplineError as error:
                    raise _failure(error) from None
            result = yield
        if recorder.wanted.has_limits:
            try:
                self._check(item, recorder)
            except WarplineError as error:
                raise _failure(error) from None
        return result

    def _check(self, item: pytest.Item, recorder: Recorder) -> None:
        recorded = recorder.result
        if not recorded.paths:
            why = recorder.why_not or "the test recorded nothing: use warpline_profile in it"
            pytest.fail(f"warpline: cannot check limits: {why}", pytrace=False)
        found = verdict.of(recorded, recorder.wanted, self._folder)
        found = found._replace(notes=(*found.notes, *recorder.notes))
        item.user_properties += [
            (f"warpline.{held.metric}", held.value)
            for held in found.limits
            if held.value is not None
        ]
        if not found.is_failure:
            return
        workers = os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")
        if workers.isdecimal() and int(workers) > 1:
            note = f"{workers} workers of pytest-xdist share CPU and GPU; times alone: -n 0"
            found = found._replace(notes=(*found.notes, note))
        pytest.fail(found.text, pytrace=False)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Name the recordings of a failed test, and remove those of others."""
        report = yield
        recorder = item.stash.get(_RECORDER, None)
        if recorder is None or not recorder.made:
            return report
        if report.failed:
            recorder.is_kept = True
            report.sections.append((_MARKER, _kept(recorder.made)))
        if call.when == "teardown" and not recorder.is_kept and self._keep is None:
            for path in recorder.made:
                path.unlink(missing_ok=True)
        return report


def _wanted(item: pytest.Item) -> Wanted:
    return of_markers(item.iter_markers(_MARKER), item.name)


def _kept(paths: Sequence[Path]) -> str:
    lines = [f"recording kept: {visible(str(path))}" for path in paths]
    return "\n".join([*lines, f"what to change: warpline analyze {visible(str(paths[0]))}"])


def _failure(error: WarplineError) -> BaseException:
    """Return what makes a test fail with one line, and no traceback of ours."""
    said = (
        f"warpline: {error.message}; {error.hint}" if error.hint else f"warpline: {error.message}"
    )
    return pytest.fail.Exception(visible(said), pytrace=False)


def _stem(nodeid: str) -> str:
    """Return a file name for a test; a digest keeps apart those that differ in other characters."""
    plain = _OTHERS.sub("-", nodeid).strip("-.")
    if _PLAIN.fullmatch(nodeid):
        return plain
    return f"{plain[:100]}-{hashlib.sha256(nodeid.encode()).hexdigest()[:8]}"
