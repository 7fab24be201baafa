"""The timeline of the page as a PNG, drawn by the page itself in a headless Chromium."""

from __future__ import annotations

import importlib
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from warpline.errors import WarplineError
from warpline.viewer.chosen import Chosen

_PROGRAMS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
_HINT = "pip install 'warpline[png]' and playwright install chromium, or write an SVG: -o FILE.svg"
_WIDTH, _HEIGHT, _MOST_HEIGHT = 1400, 400, 4000
_SCALE = 2
_LIMIT_MS = 60_000
_ONLY_TIMELINE = (
    ".page>:not(main),main>:not(.timeline),.hover,.minimap,.hidden-rows{display:none!important}"
)
_IS_COMPLETE = "() => window.warpline?.model?.isComplete.value === true"
_SHOW = """([start, end]) => {
  const { model } = window.warpline;
  const offset = BigInt(model.recording.head.offset_ns);
  const time = (text) => Number(BigInt(text) - offset);
  model.page.value = "timeline";
  model.show({ start: time(start), end: time(end) });
  const { pinnedHeight, scrolledHeight } = model.rowsShown.value;
  return pinnedHeight + scrolledHeight;
}"""
_PAINTED = """() => new Promise((done) =>
  requestAnimationFrame(() => requestAnimationFrame(() => requestAnimationFrame(done))))"""


def require_playwright() -> Any:
    """Return the module that drives browsers; WarplineError if it is not installed."""
    try:
        return importlib.import_module("playwright.sync_api")
    except ImportError:
        raise WarplineError("a PNG needs Playwright, which is not installed", hint=_HINT) from None


def screenshot(pieces: Iterable[str], chosen: Chosen) -> bytes:
    """Return the PNG of a report's timeline in a time range.

    Args:
        pieces: The report.
        chosen: The time range.

    Raises:
        WarplineError: Playwright or Chromium is not installed, or the page could not be drawn.
    """
    playwright = require_playwright()
    with tempfile.TemporaryDirectory(prefix="warpline-") as folder:
        path = Path(folder) / "report.html"
        with path.open("wb") as file:
            file.writelines(piece.encode() for piece in pieces)
        try:
            with playwright.sync_playwright() as driver:
                return _drawn(driver, path.as_uri(), chosen)
        except playwright.Error as error:
            reason = str(error).strip().splitlines()[0]
            raise WarplineError(f"Chromium cannot draw the PNG: {reason}", hint=_HINT) from None


def _drawn(driver: Any, url: str, chosen: Chosen) -> bytes:
    program = next(filter(None, map(shutil.which, _PROGRAMS)), None)
    browser = driver.chromium.launch(executable_path=program, args=["--disable-gpu"])
    # The page allows no styles but its own, and it is ours.
    page = browser.new_page(
        viewport={"width": _WIDTH, "height": _HEIGHT},
        device_scale_factor=_SCALE,
        color_scheme="light",
        bypass_csp=True,
    )
    page.set_default_timeout(_LIMIT_MS)
    page.goto(f"{url}#t")
    page.wait_for_function(_IS_COMPLETE)
    page.add_style_tag(content=_ONLY_TIMELINE)
    height = page.evaluate(_SHOW, [str(chosen.start_ns), str(chosen.end_ns)])
    ruler = 24
    page.set_viewport_size({"width": _WIDTH, "height": int(min(height + ruler, _MOST_HEIGHT))})
    page.evaluate(_PAINTED)
    image: bytes = page.locator(".timeline").screenshot()
    browser.close()
    return image
