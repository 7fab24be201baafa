"""Loading and panning of recordings that are too large for a report and are served as tiles.

Usage: python benchmarks/tiles.py [--recording FILE | --kernels 9100000 | --url URL] [--browser]

Without --recording, make_nsys.py generates a recording with about 5.5 events per kernel. The
benchmark starts `warpline view` on it and prints its address, its memory and the time until the
address is available. It then fetches tiles like a page of 1450 pixels, of at most 32 rows each, at
random positions of several zoom levels. It reports the time from request to last byte on the
loopback interface, and the server's CPU time per tile, which does not depend on other load. With
``--browser``, a headless Chromium without a GPU opens the page and pans at each zoom level.
"""

from __future__ import annotations

import argparse
import http.client
import json
import math
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from inputs import Inputs

WIDTHS = (1.0, 0.1, 0.01, 0.001, 0.0001)
PIXELS = 1450
MOST_ROWS = 32
REQUESTS = 60
_HEAD = re.compile(r'<script type="application/json" id="warpline-head">(.*?)</script>', re.DOTALL)

PAN = """async ([start, end, frames]) => {
  const { model } = window.warpline;
  const frame = () => new Promise(requestAnimationFrame);
  const rest = async () => { do await frame(); while (!model.recording.isSettled); };
  model.show({ start, end });
  const began = performance.now();
  await rest();
  const sharp = performance.now() - began;
  performance.clearResourceTimings();
  const between = [];
  for (let i = 0, last = performance.now(); i < frames; i++) {
    const by = (end - start) * 0.02;
    const view = model.view.peek();
    model.show({ start: view.start + by, end: view.end + by }, false);
    await frame();
    between.push(performance.now() - last);
    last = performance.now();
  }
  await rest();
  const fetched = performance.getEntriesByType("resource");
  const tiles = fetched.filter((one) => one.name.includes("/tiles/"));
  return { sharp, between, tiles: tiles.map((one) => one.duration) };
}"""


class Page(NamedTuple):
    """A served page: its address and its head."""

    url: str
    head: dict[str, Any]


def opened(url: str) -> Page:
    """Return the page at an address."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=60)
    connection.request("GET", parts.path)
    found = _HEAD.search(connection.getresponse().read().decode())
    if not found:
        raise SystemExit("not a Warpline page")
    head = json.loads(found[1])
    if not head.get("tiles"):
        raise SystemExit("this recording is too small for tiles")
    return Page(url, head)


def start(recording: Path) -> tuple[subprocess.Popen[str], str]:
    """Start `warpline view`; print the time until its address appears, and what it takes."""
    begin = time.perf_counter()
    words = [sys.executable, "-m", "warpline", "view", "--no-browser", str(recording)]
    server = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    url = server.stdout.readline().strip()
    seconds = time.perf_counter() - begin
    if not url:
        raise SystemExit(f"warpline view ended with {server.wait()}")
    print(f"address printed after {seconds:.1f} s{cost_so_far(server.pid)}")
    return server, url


def cost_so_far(pid: int | None) -> str:
    """Return the CPU time and the peak memory of a process as a text; "" if unknown."""
    status = Path(f"/proc/{pid}/status")
    peak = re.search(r"VmHWM:\s*(\d+)", status.read_text()) if status.exists() else None
    if peak is None:
        return ""
    return f", {cpu_seconds(pid):.1f} s of CPU, {int(peak[1]) / 1e6:.1f} GB at most"


def tiles_of(page: Page, width: float, place: float) -> Iterator[str]:
    """Yield the addresses of the tiles of a view."""
    head, grid = page.head, page.head["tiles"]
    whole = head["end_ns"] - head["start_ns"]
    length = whole * width
    low = head["start_ns"] + place * (whole - length)
    level = min(max(math.floor(math.log2(length / PIXELS)), 0), grid["levels"] - 1)
    tile_ns = grid["bins"] << level
    first = int((low - grid["start_ns"]) // tile_ns)
    last = int(min(low + length, head["end_ns"] - 1) - grid["start_ns"]) // tile_ns
    rows = [place for place, row in enumerate(head["rows"]) if row["count"]]
    for index in range(first, last + 1):
        for begin in range(0, len(rows), MOST_ROWS):
            wanted = ",".join(map(str, rows[begin : begin + MOST_ROWS]))
            yield f"tiles/{level}/{index}?rows={wanted}"


def fetch(page: Page) -> Callable[[str], tuple[float, int]]:
    """Return a function that fetches an address: seconds and bytes."""
    parts = urlsplit(page.url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=60)

    def get(path: str) -> tuple[float, int]:
        begin = time.perf_counter()
        connection.request("GET", parts.path + path)
        answer = connection.getresponse()
        size = len(answer.read())
        assert answer.status == 200, path
        return time.perf_counter() - begin, size

    return get


def wait_for_diagnosis(page: Page, pid: int | None) -> None:
    """Wait until the server has finished its diagnosis; print the time."""
    begin = time.perf_counter()
    parts = urlsplit(page.url)
    while True:
        connection = http.client.HTTPConnection(parts.netloc, timeout=60)
        connection.request("GET", f"{parts.path}state")
        pending = json.loads(connection.getresponse().read())["pending"]
        connection.close()
        if pending is None or "could not" in pending:
            seconds = time.perf_counter() - begin
            print(f"diagnosis ready after {seconds:.1f} s more{cost_so_far(pid)} in all")
            return
        time.sleep(0.5)


def at(values: list[float], share: float) -> float:
    """Return a quantile."""
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def cpu_seconds(pid: int | None) -> float:
    """Return the CPU time of a process; NaN if unknown."""
    status = Path(f"/proc/{pid}/stat")
    if not status.exists():
        return math.nan
    fields = status.read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure_tiles(page: Page, pid: int | None) -> None:
    """Print a row per zoom level."""
    get = fetch(page)
    randomly = random.Random(1)
    events = sum(row["count"] for row in page.head["rows"])
    rows = sum(row["count"] > 0 for row in page.head["rows"])
    print(f"{events:,} events in {rows} rows\n")
    heads = " ".join(f"{head:>8}" for head in ("p50 ms", "p95 ms", "max ms", "CPU ms"))
    print(f"{'view':>8} {'tiles':>6} {heads} {'kB':>6}")
    for width in WIDTHS:
        times: list[float] = []
        sizes: list[float] = []
        used = cpu_seconds(pid)
        while len(times) < REQUESTS:
            for path in tiles_of(page, width, randomly.random()):
                seconds, size = get(path)
                times.append(seconds * 1e3)
                sizes.append(size / 1e3)
        quantiles = " ".join(f"{at(times, share):8.1f}" for share in (0.5, 0.95, 1.0))
        cpu = (cpu_seconds(pid) - used) / len(times) * 1e3
        told = f"{width:8.2%} {len(times):6} {quantiles} {cpu:8.1f} {at(sizes, 0.5):6.0f}"
        print(told, flush=True)


def measure_browser(page: Page) -> None:
    """Print the loading time of the page, and its panning at each zoom level."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - only this needs it

    with sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--disable-gpu"]
        )
        view = browser.new_page(viewport={"width": 1600, "height": 920})
        view.goto(page.url + "#t")
        ready = "() => performance.getEntriesByName('warpline-full')[0]?.startTime ?? 0"
        while not view.evaluate(ready):
            view.wait_for_timeout(20)
        marks = [
            view.evaluate(f"() => performance.getEntriesByName('warpline-{name}')[0]?.startTime")
            for name in ("overview", "full")
        ]
        print(f"\nChromium {browser.version}: overview after {marks[0]:.0f} ms,", end=" ")
        print(f"all rows after {marks[1]:.0f} ms")
        heads = (
            f"{'sharp ms':>9} {'frame p50':>10} {'p95':>6} {'tiles':>6} {'p50 ms':>8} {'p95':>6}"
        )
        print(f"{'view':>8} {heads}")
        low, high = page.head["start_ns"], page.head["end_ns"]
        for width in WIDTHS:
            length = (high - low) * width
            begin = low + 0.4 * (high - low) - length * 0.4
            told = view.evaluate(PAN, [begin, begin + length, 90])
            tiles = told["tiles"] or [math.nan]
            frames = f"{at(told['between'], 0.5):10.1f} {at(told['between'], 0.95):6.1f}"
            fetched = f"{len(told['tiles']):6} {at(tiles, 0.5):8.1f} {at(tiles, 0.95):6.1f}"
            print(f"{width:8.2%} {told['sharp']:9.0f} {frames} {fetched}", flush=True)
        browser.close()


def main() -> None:
    """Serve a recording and measure."""
    parser = argparse.ArgumentParser(description="Tiles of large recordings.")
    parser.add_argument("--recording", type=Path, help="a recording too large for a report")
    parser.add_argument(
        "--kernels", type=int, default=9_100_000, help="kernels of the generated recording"
    )
    parser.add_argument("--quick", action="store_true", help="fetch a tenth of the tiles")
    parser.add_argument("--url", help="address of an already served page")
    parser.add_argument("--pid", type=int, help="id of the process that serves it")
    parser.add_argument("--browser", action="store_true", help="also pan in Chromium")
    options = parser.parse_args()
    kernels = options.kernels // 10 if options.quick else options.kernels
    server = None
    url = options.url
    if url is None:
        recording = options.recording
        if recording is None:
            recording = Inputs(Path(tempfile.gettempdir())).nsys(kernels)
        server, url = start(recording)
    try:
        page = opened(url)
        pid = options.pid if server is None else server.pid
        wait_for_diagnosis(page, pid)
        measure_tiles(page, pid)
        if options.browser:
            measure_browser(page)
    finally:
        if server is not None:
            server.terminate()
            server.wait()


if __name__ == "__main__":
    main()
