"""Images of the timeline that the page itself draws."""

from __future__ import annotations

import struct

import pytest

import warpline
from warpline import api
from warpline.errors import WarplineError
from warpline.viewer import screenshot


def size_of(image):
    assert image.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", image[16:24])
    return width, height


def pixels(viewer, image):
    """Return the share of white pixels and the number of colors of a PNG."""
    import base64

    return viewer.page.evaluate(
        """async (data) => {
          const image = new Image();
          image.src = `data:image/png;base64,${data}`;
          await image.decode();
          const canvas = new OffscreenCanvas(image.width, image.height);
          const pen = canvas.getContext("2d");
          pen.drawImage(image, 0, 0);
          const { data: bytes } = pen.getImageData(0, 0, image.width, image.height);
          const all = new Uint32Array(bytes.buffer);
          return [all.filter((one) => one === 0xffffffff).length / all.length, new Set(all).size];
        }""",
        base64.b64encode(image).decode(),
    )


def test_a_png_of_a_step_has_all_rows(recording, report, open_viewer):
    # In a process of its own would be slow; the driver of the tests occupies this thread's loop.
    from concurrent.futures import ThreadPoolExecutor

    trace = warpline.open(recording("bundled/pageable_h2d.bad"))
    with ThreadPoolExecutor(1) as pool:
        make = pool.submit(api.make_picture, trace, select="step:2", is_png=True)
        image = make.result()
    width, height = size_of(image)
    assert width == 2800
    viewer = open_viewer()
    viewer.open(report("bundled/pageable_h2d.bad"))
    rows = viewer.ask("model.rowsShown.value.pinnedHeight + model.rowsShown.value.scrolledHeight")
    assert height == 2 * (rows + 24)  # and the ruler
    white, colors = pixels(viewer, image)
    assert 0.1 < white < 0.9
    assert colors > 20


def test_a_browser_that_cannot_start_is_an_error_with_a_hint(recording, monkeypatch, tmp_path):
    from concurrent.futures import ThreadPoolExecutor

    program = tmp_path / "chromium"
    program.write_text("#!/bin/sh\nexit 3\n")
    program.chmod(0o755)
    monkeypatch.setattr(screenshot, "_PROGRAMS", (str(program),))
    trace = warpline.open(recording("bundled/pageable_h2d.bad"))
    with ThreadPoolExecutor(1) as pool:
        make = pool.submit(api.make_picture, trace, is_png=True)
        with pytest.raises(WarplineError, match="Chromium cannot draw the PNG") as caught:
            make.result()
    assert "playwright install chromium" in (caught.value.hint or "")
