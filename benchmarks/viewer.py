"""Loading and panning speed of reports in a browser without a GPU.

Usage: python benchmarks/viewer.py [--events 1000000 5000000] [--opens 7] [--folder DIR] [--check]
       python benchmarks/viewer.py --report RUN.html... [--quick] [--markdown]

--quick opens each report three times and pans for a third as long: two minutes in total on two idle
cores, instead of four. --markdown also prints the rows of docs/benchmarks.md.

Every open is a new browser process with an empty profile, from a file, 1600 x 920, after one
uncounted open. Times are from the start of the navigation to the second frame after drawing. The
yardstick is a fixed amount of work (inflating 4 MB, summing bytes) before each open: it shows the
speed of the machine. Requires the package playwright and an installed Chromium.

make_nsys.py generates the recordings, with about 5.5 events per kernel.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from inputs import Inputs, add_argument, inputs_of
from paired import run
from playwright.sync_api import (
    Browser,
    CDPSession,
    Page,
    Playwright,
    ViewportSize,
    sync_playwright,
)

EVENTS_PER_KERNEL = 5.5
WIDTHS = (1.0, 0.1, 0.01, 0.001, 0.0001)
PICTURES = ("overview", "events", "full")
FRAMES = 120
VIEWPORT: ViewportSize = {"width": 1600, "height": 920}
PROBE = Path(__file__).with_name("viewer_probe.js")
PATIENCE_MS = 120_000
FRAME_MS = 1000 / 60


@dataclass(frozen=True)
class Report:
    """A report, and the resources used to write it, if written here."""

    path: Path
    events: int
    wall_s: float | None = None
    peak_mb: float | None = None

    @property
    def size_mb(self) -> float:
        """Size of the file in MB."""
        return self.path.stat().st_size / 1e6


@dataclass(frozen=True)
class Opened:
    """One open: milliseconds until each drawing, then memory and CPU time of the page."""

    drawn_ms: Mapping[str, float]
    yardstick_ms: float
    heap_mb: float
    arrays_mb: float
    resident_mb: float
    cpu_ms: float


@dataclass(frozen=True)
class Motion:
    """Frames while the view moved: script per frame and time between frames, ms."""

    what: str
    throttle: int
    own_ms: Sequence[float]
    apart_ms: Sequence[float]


def count_events(path: Path) -> int:
    """Return the number of events in a report."""
    with path.open(encoding="utf-8") as file:
        found = re.search(r'id="warpline-head">(.*?)</script>', file.read(), re.DOTALL)
    if found is None:
        raise SystemExit(f"{path} is not a report")
    rows = json.loads(found[1])["rows"]
    return sum(part["count"] for row in rows for part in row["parts"])


def write(events: int, inputs: Inputs) -> Report:
    """Generate a recording of about this many events and write its report."""
    recording = inputs.nsys(round(events / EVENTS_PER_KERNEL))
    path = recording.with_suffix(".html")
    path.unlink(missing_ok=True)
    command = (sys.executable, "-m", "warpline", "report", str(recording), "-o", str(path))
    cost = run(command)
    return Report(path, count_events(path), cost.wall_s, cost.peak_mb)


def start(playwright: Playwright, chromium: str) -> Browser:
    """Start a browser that draws without a GPU."""
    flags = ["--disable-gpu", "--disable-background-timer-throttling"]
    return playwright.chromium.launch(executable_path=chromium, args=flags)


def yardstick(browser: Browser) -> float:
    """Return the machine's time for a fixed amount of work, ms."""
    context = browser.new_context()
    context.add_init_script(path=str(PROBE))
    page = context.new_page()
    page.goto("data:text/html,")
    taken_ms = page.evaluate("probe.yardstick()")
    context.close()
    return float(taken_ms)


def open_report(browser: Browser, path: Path, ratio: float) -> tuple[Page, CDPSession]:
    """Open a report's timeline; return its page and a session with its engine."""
    context = browser.new_context(viewport=VIEWPORT, device_scale_factor=ratio)
    context.set_default_timeout(PATIENCE_MS)
    context.add_init_script(path=str(PROBE))
    page = context.new_page()
    page.goto(f"{path.resolve().as_uri()}#t", wait_until="commit", timeout=PATIENCE_MS)
    page.evaluate("probe.finished")
    return page, context.new_cdp_session(page)


def observe(browser: Browser, page: Page, session: CDPSession, yardstick_ms: float) -> Opened:
    """Return drawing times and the page's memory after a garbage collection."""
    drawn = page.evaluate("probe.finished")
    cpu_ms = max(map(_cpu_ms, _renderers(browser)))
    session.send("HeapProfiler.collectGarbage")
    heap = session.send("Runtime.getHeapUsage")
    return Opened(
        {name: float(drawn[name]) for name in PICTURES},
        yardstick_ms,
        heap["usedSize"] / 1e6,
        heap.get("backingStorageSize", 0) / 1e6,
        max(map(_resident_mb, _renderers(browser))),
        cpu_ms,
    )


def _renderers(browser: Browser) -> list[int]:
    """Return the renderer processes; the largest one renders our page."""
    session = browser.new_browser_cdp_session()
    processes = session.send("SystemInfo.getProcessInfo")["processInfo"]
    return [item["id"] for item in processes if item["type"] == "renderer"]


def _resident_mb(process: int) -> float:
    pages = int(Path(f"/proc/{process}/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def _cpu_ms(process: int) -> float:
    text = Path(f"/proc/{process}/stat").read_text(encoding="utf-8")
    user, system = text.rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) * 1000 / os.sysconf("SC_CLK_TCK")


def move(page: Page, session: CDPSession, throttle: int, frames: int) -> Iterator[Motion]:
    """Pan at every width, then zoom from the whole to a ten-thousandth and back."""
    session.send("Emulation.setCPUThrottlingRate", {"rate": throttle})
    for width in WIDTHS:
        got: dict[str, Any] = page.evaluate(f"probe.pan({width}, {frames})")
        yield Motion(f"pan at {width * 100:g}%", throttle, got["own"], got["apart"])
    got = page.evaluate(f"probe.zoom({frames})")
    yield Motion("zoom", throttle, got["own"], got["apart"])
    session.send("Emulation.setCPUThrottlingRate", {"rate": 1})


def quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    """Return the lower quartile, the median and the upper quartile."""
    if len(values) < 2:
        return values[0], values[0], values[0]
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, middle, high


def line(what: str, values: Sequence[float], digits: int, unit: str) -> str:
    """Return one row of the table of opens."""
    low, middle, high = quartiles(values)
    extremes = f"{min(values):.{digits}f} to {max(values):.{digits}f}"
    return (
        f"  {what:24} {middle:9.{digits}f} {unit:2} ({low:.{digits}f} to {high:.{digits}f};"
        f" all {extremes})"
    )


def print_opens(report: Report, opens: Sequence[Opened]) -> None:
    """Print medians, quartiles and extremes."""
    for name in PICTURES:
        print(line(f"{name} drawn", [item.drawn_ms[name] for item in opens], 0, "ms"))
    print(line("yardstick", [item.yardstick_ms for item in opens], 0, "ms"))
    against = [item.drawn_ms["full"] / item.yardstick_ms for item in opens]
    print(line("full / yardstick", against, 1, ""))
    print(line("CPU of the page", [item.cpu_ms for item in opens], 0, "ms"))
    print(line("script heap", [item.heap_mb for item in opens], 1, "MB"))
    print(line("arrays", [item.arrays_mb for item in opens], 1, "MB"))
    per_event = [item.arrays_mb * 1e6 / report.events for item in opens]
    print(line("arrays per event", per_event, 1, "B"))
    print(line("process", [item.resident_mb for item in opens], 0, "MB"))


def print_motions(motions: Sequence[Motion]) -> None:
    """Print script and time per frame."""
    print(f"  {'':24} {'script ms p50':>13} {'p95':>7} {'frame ms p50':>13} {'p95':>7}")
    for motion in motions:
        what = motion.what if motion.throttle == 1 else f"{motion.what}, {motion.throttle} x slower"
        own, apart = (
            statistics.quantiles(values, n=20, method="inclusive")
            for values in (motion.own_ms, motion.apart_ms)
        )
        print(f"  {what:24} {own[9]:13.1f} {own[18]:7.1f} {apart[9]:13.1f} {apart[18]:7.1f}")


def print_markdown(report: Report, opens: Sequence[Opened], motions: Sequence[Motion]) -> None:
    """Print the rows of the tables in docs/benchmarks.md."""
    cells = [f"{report.events / 1e6:.1f} M", f"{report.size_mb:.1f} MB"]
    for name in PICTURES:
        low, middle, high = quartiles([item.drawn_ms[name] / 1000 for item in opens])
        cells.append(f"{middle:.2f} ({low:.2f} to {high:.2f})")
    cells.append(f"{statistics.median(item.cpu_ms for item in opens) / 1000:.2f}")
    cells.append(f"{statistics.median(item.arrays_mb for item in opens) * 1e6 / report.events:.0f}")
    cells.append(f"{statistics.median(item.resident_mb for item in opens):.0f} MB")
    cells.append(f"{statistics.median(item.yardstick_ms for item in opens):.0f} ms")
    print(f"| {' | '.join(cells)} |")
    for throttle in (1, 4):
        cells = [f"{report.events / 1e6:.1f} M" + (", 4 x slower" if throttle == 4 else "")]
        for motion in motions:
            if motion.throttle != throttle:
                continue
            own = statistics.quantiles(motion.own_ms, n=20, method="inclusive")
            cells.append(f"{own[9]:.1f}, {own[18]:.1f}; {statistics.median(motion.apart_ms):.1f}")
        print(f"| {' | '.join(cells)} |")


def measure(
    playwright: Playwright, report: Report, options: argparse.Namespace
) -> tuple[list[Opened], list[Motion]]:
    """Open a report the given number of times; pan in the last one."""
    opens: list[Opened] = []
    motions: list[Motion] = []
    for turn in range(options.opens + 1):
        browser = start(playwright, options.chromium)
        try:
            yardstick_ms = yardstick(browser)
            page, session = open_report(browser, report.path, options.pixel_ratio)
            if turn:
                opens.append(observe(browser, page, session, yardstick_ms))
            if turn == options.opens:
                for throttle in (1, 4):
                    motions.extend(move(page, session, throttle, options.frames))
        finally:
            browser.close()
    return opens, motions


def failures(report: Report, opens: Sequence[Opened], motions: Sequence[Motion]) -> Iterator[str]:
    """Yield the missed targets; times are medians."""
    median = {name: statistics.median(item.drawn_ms[name] for item in opens) for name in PICTURES}
    is_small = report.events < 3_000_000
    limits: list[tuple[str, float, float]] = [
        ("size, MB per 1 M events", report.size_mb / report.events * 1e6, 8 if is_small else 6.4),
        ("events drawn, ms", median["events"], 600 if is_small else 2000),
        ("overview drawn, ms", median["overview"], 400),
        ("full drawing, ms", median["full"], 2000),
    ]
    for motion in motions:
        apart = statistics.median(motion.apart_ms)
        limit = FRAME_MS * (1 if motion.throttle == 1 else 2) + 0.5
        limits.append((f"{motion.what} at {motion.throttle} x, ms a frame", apart, limit))
    for what, value, limit in limits:
        if value > limit:
            yield f"{what}: {value:.1f}, more than {limit:.1f}"


def reports(options: argparse.Namespace) -> Iterator[Report]:
    """Yield the given reports, or generated ones."""
    if options.report:
        for path in options.report:
            yield Report(path, count_events(path))
        return
    inputs = inputs_of(options)
    for events in options.events:
        yield write(events, inputs)


def parse() -> argparse.Namespace:
    """Return the options."""
    parser = argparse.ArgumentParser(description="Loading and panning speed of reports.")
    parser.add_argument("--events", type=int, nargs="+", default=[1_000_000, 5_000_000])
    parser.add_argument("--report", type=Path, nargs="+", help="open these reports instead")
    add_argument(parser)
    parser.add_argument("--opens", type=int, default=7)
    parser.add_argument("--frames", type=int, default=FRAMES, help="frames of each movement")
    parser.add_argument("--quick", action="store_true", help="three opens, a third of the frames")
    parser.add_argument("--markdown", action="store_true", help="print rows of the documentation")
    parser.add_argument("--pixel-ratio", type=float, default=1)
    parser.add_argument("--chromium", default=shutil.which("chromium") or "chromium")
    parser.add_argument("--check", action="store_true", help="fail if a target is missed")
    options = parser.parse_args()
    if options.quick:
        options.opens, options.frames = 3, FRAMES // 3
    return options


def main() -> None:
    """Print one table per report."""
    options = parse()
    missed: list[str] = []
    with sync_playwright() as playwright:
        browser = start(playwright, options.chromium)
        version = browser.version
        browser.close()
        print(f"Chromium {version}, Python {platform.python_version()}, {os.cpu_count()} cores")
        for report in reports(options):
            print(f"{report.path.name}: {report.events:,} events, {report.size_mb:.1f} MB")
            if report.wall_s is not None:
                print(f"  written in {report.wall_s:.1f} s, {report.peak_mb:.0f} MB of memory")
            opens, motions = measure(playwright, report, options)
            print_opens(report, opens)
            print_motions(motions)
            if options.markdown:
                print_markdown(report, opens, motions)
            missed += [f"{report.path.name}: {what}" for what in failures(report, opens, motions)]
            print(f"  load of the machine {os.getloadavg()[0]:.1f}", flush=True)
    for what in missed:
        print(f"missed: {what}")
    if missed and options.check:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
