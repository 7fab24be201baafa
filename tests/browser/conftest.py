"""A browser per worker, a new context per test, and shared reports."""

from __future__ import annotations

import contextlib
import lzma
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from support import browsing, captures, kernel_pages, kineto_files

import warpline
from warpline.trace import Trace

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Playwright

FOLDER = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test in this directory."""
    for item in items:
        if FOLDER in item.path.parents:
            item.add_marker(pytest.mark.browser)


def leave_out(reason: str) -> None:
    """Skip a test without a browser; fail if a browser is required."""
    if os.environ.get("WARPLINE_REQUIRE_BROWSER"):
        pytest.fail(f"WARPLINE_REQUIRE_BROWSER is set, but there is {reason}", pytrace=False)
    pytest.skip(reason)


@pytest.fixture(scope="package")
def playwright() -> Iterator[Playwright]:
    """The browser driver; it ends with this directory, because it keeps an event loop open."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        leave_out("no Playwright; pip install playwright")
    with sync_playwright() as driver:
        yield driver


@pytest.fixture(scope="package")
def chromium(playwright: Playwright) -> Iterator[Browser]:
    """A headless Chromium that resolves only the names of this machine."""
    program = browsing.find_program("WARPLINE_CHROMIUM", browsing.CHROMIUM)
    if program is None:
        leave_out("no Chromium; apt-get install chromium-headless-shell")
    rules = "MAP attacker.example 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"
    browser = playwright.chromium.launch(
        executable_path=program, args=["--disable-gpu", f"--host-resolver-rules={rules}"]
    )
    yield browser
    browser.close()


@pytest.fixture
def open_viewer(chromium: Browser) -> Iterator[Callable[..., browsing.Viewer]]:
    """Open a context with Playwright options; the caller checks the problems of the page."""
    with contextlib.ExitStack() as stack:

        def open_viewer(**options: Any) -> browsing.Viewer:
            context = stack.enter_context(browsing.new_context(chromium, **options))
            return browsing.Viewer(context.new_page())

        yield open_viewer


@pytest.fixture
def viewer(open_viewer: Callable[..., browsing.Viewer]) -> Iterator[browsing.Viewer]:
    """A page that must report no problems and request nothing except the opened file."""
    viewer = open_viewer()
    yield viewer
    assert viewer.problems == []
    assert browsing.strangers(viewer.requests) == []


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory that all workers share."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base) / "browser"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def recording(
    repository: Path, data_dir: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Path]:
    """Return the path of a recording: ``bundled/NAME``, ``nsys/``, ``kineto/`` or ``faults/``."""
    folder = tmp_path_factory.mktemp("recordings")

    def recording(name: str) -> Path:
        kind, _, own = name.partition("/")
        if kind == "nsys":
            return captures.unpack(own, folder)
        if kind == "kineto":
            return kineto_files.unpack(own, folder)
        if kind == "bundled":
            return repository / "src" / "warpline" / "data" / f"{own}.sqlite"
        target = folder / f"{own}.warpline"
        target.write_bytes(lzma.decompress((data_dir / kind / f"{own}.warpline.xz").read_bytes()))
        return target

    return recording


@pytest.fixture(scope="session")
def report(shared: Path, recording: Callable[[str], Path]) -> Callable[..., Path]:
    """Return the report of recordings, created once for all workers."""

    def report(*names: str, max_bytes: int | None = None) -> Path:
        stem = "+".join(name.replace("/", "-") for name in names)
        path = shared / f"{stem}{max_bytes or ''}.html"
        if not path.exists():
            trace = warpline.open(*map(recording, names))
            warpline.report(trace, path, max_bytes=max_bytes, overwrite=True)
        return path

    return report


@pytest.fixture(scope="session")
def kernel_report(shared: Path, data_dir: Path) -> Callable[[str], kernel_pages.Written]:
    """Return the page of a committed report of kernels and its JSON, made once for all workers."""
    return lambda name: kernel_pages.written(name, shared, data_dir)


@pytest.fixture
def source_page(
    viewer: browsing.Viewer, kernel_report: Callable[[str], kernel_pages.Written]
) -> kernel_pages.Page:
    """The page of the report of kernels that has source."""
    return kernel_pages.Page(viewer, *kernel_report("uncoalesced.fixed"))


@pytest.fixture
def subject(request: pytest.FixtureRequest) -> str:
    """The recording of a module, from its ``pytest.mark.shows(NAME)``."""
    marker = request.node.get_closest_marker("shows")
    assert marker is not None, "pytestmark = pytest.mark.shows(NAME)"
    name: str = marker.args[0]
    return name


@pytest.fixture
def show(
    viewer: browsing.Viewer, report: Callable[..., Path], subject: str
) -> Callable[..., browsing.Viewer]:
    """Open the subject's report on its timeline or at an address."""

    def show(address: str = "#t") -> browsing.Viewer:
        viewer.open(report(subject), address)
        return viewer

    return show


@pytest.fixture
def opened(show: Callable[..., browsing.Viewer]) -> browsing.Viewer:
    """The timeline of the subject."""
    return show()


@pytest.fixture
def trace(recording: Callable[[str], Path], subject: str) -> Trace:
    """The subject."""
    return warpline.open(recording(subject))


@pytest.fixture
def ask_file(
    recording: Callable[[str], Path], subject: str
) -> Callable[..., list[tuple[Any, ...]]]:
    """Query the subject's database directly, without Warpline code."""

    def ask_file(query: str, *values: object) -> list[tuple[Any, ...]]:
        with contextlib.closing(sqlite3.connect(recording(subject))) as connection:
            return connection.execute(query, values).fetchall()

    return ask_file


@pytest.fixture
def attacked(recording: Callable[[str], Path], tmp_path: Path) -> Path:
    """A copy of a recording for changes."""
    return Path(shutil.copy(recording("bundled/pageable_h2d.bad"), tmp_path / "attacked.sqlite"))
