"""`warpline view --live`: the page of a recording in progress, while it goes on and after its end.

With WARPLINE_LIVE_MINUTES=10 it watches for so long, and prints what it measured.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from live.conftest import WAIT_S, Shell, cuda, recorded_again, shell

import warpline
from warpline.trace import Trace

__all__ = ["cuda", "shell"]

WATCH_S = 60 * float(os.environ.get("WARPLINE_LIVE_MINUTES", "0")) or 4
IS_LONG = WATCH_S >= 60
STEPS = ("repeat", 100_000_000, "k1x20,k2,u20000")
# What the page has of the moment: the numbers, and of which rows and time its timeline is.
SEEN = """() => {
  const { model } = window.warpline, { head } = model.recording;
  const streams = head.rows.filter((row) => row.kind === "stream");
  const events = model.recording.rows.map(({ events }) => events?.count ?? 0);
  return {
    update: model.live.value?.update ?? null,
    limits: [model.limits.start, model.limits.end],
    operations: streams.reduce((sum, row) => sum + row.count, 0),
    events: head.rows.every((row, place) => row.count === events[place]),
    rows: head.rows.length,
  };
}"""


def heap_bytes(viewer: Any) -> int:
    """Return the size of the page's objects that are in use."""
    link = viewer.page.context.new_cdp_session(viewer.page)
    link.send("HeapProfiler.collectGarbage")
    used = link.send("Runtime.getHeapUsage")["usedSize"]
    link.detach()
    return int(used)


def memory_bytes(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) << 10


def watch(viewer: Any, seconds: float) -> list[dict[str, Any]]:
    """Return each state of the page that has other numbers than the one before."""
    seen: list[dict[str, Any]] = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        state = viewer.page.evaluate(SEEN)
        if state["update"]["second"] and (not seen or state["update"] != seen[-1]["update"]):
            seen.append(state)
        time.sleep(0.1)
    return seen


def test_the_page_follows_a_recording_and_stays_after_its_end(
    open_viewer: Any, shell: Shell
) -> None:
    program = shell.start("profile", "-t", "cuda,nvtx", "-o", "run", "--", *shell.program(*STEPS))
    shell.wait_for_kernels("run")
    server, address = served(shell, "run", "--window", 3)
    check_addresses(address)
    viewer = open_viewer()
    viewer.page.goto(address)
    viewer.wait("model.isComplete.value && model.live.value?.update.times")
    watch(viewer, 2)  # until the window is full and caches are warm
    before = heap_bytes(viewer), memory_bytes(server.pid)
    began = time.monotonic()
    seen = watch(viewer, WATCH_S)
    told = check_pace(seen, time.monotonic() - began)
    told += check_memory(before, (heap_bytes(viewer), memory_bytes(server.pid)))
    check_pause(viewer)
    program.send_signal(signal.SIGINT)
    program.wait(WAIT_S)
    viewer.find("text=Recording has ended.").wait_for(timeout=WAIT_S * 1000)
    assert viewer.page.evaluate(SEEN)["rows"] > 5
    assert viewer.problems == []
    assert all(url.startswith((address, "blob:")) for url in viewer.requests)
    told += check_numbers(seen, warpline.open(shell.folder / "run.warpline"))
    if IS_LONG:
        sys.stdout.write(f"{told}\n")


def served(shell: Shell, *words: object) -> tuple[subprocess.Popen[bytes], str]:
    """Start the server of a page; return it and the page's address."""
    server = shell.start("view", "--live", "--no-browser", *words, stdout=subprocess.PIPE)
    assert server.stdout is not None
    return server, server.stdout.readline().decode().strip()


def check_pace(seen: list[dict[str, Any]], took_s: float) -> str:
    """The numbers come once per second, and the timeline moves with them."""
    ends = sorted({state["update"]["second"]["end_ns"] for state in seen})
    assert len(ends) >= 0.8 * (took_s - 1)
    limits = sorted({state["limits"][1] for state in seen})
    assert len(limits) >= 0.5 * (took_s - 1)
    assert limits[-1] - limits[0] >= 0.5 * (took_s - 1) * 10**9
    rate = 60 / took_s
    return f"{took_s:.0f} s: {len(ends) * rate:.1f} updates/min, {len(limits) * rate:.1f} pictures"


def check_memory(before: tuple[int, int], after: tuple[int, int]) -> str:
    """Page and server do not grow."""
    if IS_LONG:
        assert after[0] < before[0] + (8 << 20)
        assert after[1] < before[1] + (32 << 20)
    heap, server = ([size >> 10 for size in of] for of in zip(before, after, strict=True))
    return f"; heap {heap[0]} to {heap[1]} KiB; server {server[0]} to {server[1]} KiB"


def check_pause(viewer: Any) -> None:
    """Whoever zooms keeps the picture; the numbers go on, and V follows again."""
    viewer.press("w")
    viewer.wait("model.live.value.isFollowing === false")
    kept = viewer.page.evaluate(SEEN)
    later = watch(viewer, 2.5)[-1]
    assert later["limits"] == kept["limits"]
    assert later["update"]["second"]["end_ns"] > kept["update"]["second"]["end_ns"]
    viewer.find("text=The timeline is paused.").wait_for()
    viewer.press("v")
    viewer.wait(f"model.live.value.isFollowing && model.limits.end > {kept['limits'][1]}")


def check_numbers(seen: list[dict[str, Any]], trace: Trace) -> str:
    """What was settled equals the recording's numbers, and the timeline has its events."""
    settled = pictures = 0
    for state in seen:
        update = state["update"]
        again = recorded_again(trace, update)
        for name in ("second", "times", "steps"):
            if update[name]["is_settled"]:
                settled += 1
                assert again[name] == update[name], name
        times = update["times"]
        if state["limits"][1] == times["end_ns"] and times["is_settled"]:
            pictures += 1
            assert state["operations"] == len(trace.window(*state["limits"])["kernel"])
            assert state["events"]
    assert settled >= 2 * len(seen)
    assert pictures
    return f"; {len(seen)} updates, {settled} parts and {pictures} pictures equal to the recording"


def check_addresses(address: str) -> None:
    """Without the secret, nothing is answered."""
    root = address.rsplit("/", 2)[0]
    assert root.startswith("http://127.0.0.1:")
    with urllib.request.urlopen(f"{address}live") as answer:
        assert answer.status == 200
    for other in (f"{root}/live", f"{root}/", f"{address}other", f"{address}live/0"):
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(other)
