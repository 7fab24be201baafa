"""Take the pictures of docs/timeline.md and the README in a real browser.

Usage: python docs/pictures.py

Needs Chromium and the requirements of the browser tests. Run it after a change to the page, and
look at the pictures before committing them.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from playwright.sync_api import sync_playwright  # noqa: E402
from support.browsing import CHROMIUM, Viewer, find_program, new_context  # noqa: E402 - in tests/
from support.captures import unpack  # noqa: E402
from support.kineto_files import unpack as unpack_kineto  # noqa: E402
from support.sampled import sampled  # noqa: E402

import warpline  # noqa: E402
from warpline import api  # noqa: E402

SIZE = {"width": 1280, "height": 800}
SYNC = ("host_sync.bad",)
RANKS = ("ddp_serial.bad.rank0", "ddp_serial.bad.rank1")
SAMPLED = ("sampled",)  # a simulated program with metrics and readings
STEP_OF_PYTORCH = ("ddp_step.rank0", "ddp_step.rank1")  # traces of the PyTorch profiler


class Picture(NamedTuple):
    """What to show: recordings, the page's address, keys to press on it, groups to unfold."""

    names: tuple[str, ...]
    address: str
    keys: str = ""
    theme: str = "light"
    unfolded: tuple[str, ...] = ()


PICTURES = {
    "overview": Picture(SYNC, "#o"),
    "timeline": Picture(RANKS, "#t"),
    "step": Picture(RANKS, "#t", "kkkkk", "dark"),
    # A kernel that starts 6.6 us after its launch, and 60 us around it.
    "close": Picture(SYNC, "#t?v=43154000,43216000&sel=kernel:1204", "", "dark"),
    "finding": Picture(SYNC, "#t", "n"),
    "flame": Picture(STEP_OF_PYTORCH, "#t", "l"),
    "plots": Picture(RANKS, "#p"),
    "metrics": Picture(SAMPLED, "#t", "", "dark", ("gpu0/metrics",)),
}
COMPARED = tuple(f"pageable_h2d.{name}.sqlite" for name in ("bad", "fixed"))  # of the demo


def report_of(names: tuple[str, ...], folder: Path) -> Path:
    """Write the report of recordings, once."""
    path = folder / f"{names[0]}.html"
    if not path.exists():
        if names == SAMPLED:
            warpline.report(sampled(), path)
            return path
        take = unpack_kineto if names == STEP_OF_PYTORCH else unpack
        warpline.report([take(name, folder) for name in names], path)
    return path


def main() -> int:
    """Take all pictures."""
    program = find_program("WARPLINE_CHROMIUM", CHROMIUM)
    if program is None:
        print("error: no Chromium was found", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as made, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--disable-gpu"])
        for name, picture in PICTURES.items():
            context = new_context(browser, viewport=SIZE, color_scheme=picture.theme)
            viewer = Viewer(context.new_page())
            viewer.open(report_of(picture.names, Path(made)), picture.address)
            for group in picture.unfolded:
                viewer.find(f".row-label[data-row='{group}'] .fold").click()
                viewer.page.mouse.move(0, 0)
            for key in picture.keys:
                viewer.press(key)
            if picture.address == "#p":
                viewer.find("figure.plot").last.wait_for()
            if picture.address.startswith("#t"):
                viewer.settle()
            viewer.page.screenshot(path=ROOT / "docs" / "images" / f"{name}.png")
            context.close()
        context = new_context(browser, viewport=SIZE, color_scheme="light")
        take_sides(Viewer(context.new_page()), Path(made) / "sides.html")
        browser.close()
    return 0


def take_sides(viewer: Viewer, path: Path) -> None:
    """Take the picture of two recordings in one page."""
    files = (ROOT / "src" / "warpline" / "data" / name for name in COMPARED)
    path.write_text("".join(api.make_side_by_side(*files)), encoding="utf-8")
    viewer.page.goto(path.as_uri())
    viewer.page.get_by_text("Timelines", exact=True).click()
    before, after = viewer.page.frames[1:]
    for frame in (before, after):
        viewer.wait_in(frame, "marks('warpline-full') > 0")
    before.locator("canvas").first.hover()
    viewer.page.screenshot(path=ROOT / "docs" / "images" / "sides.png")


if __name__ == "__main__":
    sys.exit(main())
