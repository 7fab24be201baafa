"""Pages of fleets in a browser: opened, and the color of a place on the map of ranks."""

from __future__ import annotations

from pathlib import Path

from support.browsing import Viewer

PIXEL = """([x, y]) => {
  const copy = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
  copy.drawImage(document.querySelector('#ranks'), -x, -y);
  return [...copy.getImageData(0, 0, 1, 1).data.slice(0, 3)];
}"""


def show(viewer: Viewer, page: Path) -> Viewer:
    """Open a page, and wait until its maps are drawn."""
    viewer.page.goto(page.as_uri())
    viewer.wait("marks('warpline-shown') > 0")
    viewer.frame()
    return viewer
