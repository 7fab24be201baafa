"""What looking at a recording in progress takes of a core, by GPU operations per second.

    python benchmarks/live_cost.py --seconds 60 0 3000 9000 20000 50000
    python benchmarks/live_cost.py --page 9000 20000

A program launches through the fake CUDA of the tests, so a build with -DWARPLINE_TESTS=ON is
needed: WARPLINE_AGENT and WARPLINE_CORE name its libraries. `top` runs on a terminal of its own;
with --page, the server of `view --live` is asked once per second, as by a page. A rate is what the
program aims at; on a busy machine it reaches less, so what it reached is printed.
"""

from __future__ import annotations

import argparse
import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

import warpline
from warpline.capture.machine.agent import agent_library
from warpline.capture.session.session import measure

_MODULE = [sys.executable, "-m", "warpline"]
_PERIOD_US = 20_000  # of a burst of launches and a pause
_LAUNCH_US = 2.2  # what a launch takes, about


def main() -> None:
    """Print a line for each rate."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("rates", nargs="+", type=int, help="GPU operations per second")
    parser.add_argument("--seconds", type=float, default=60, help="how long each is measured")
    parser.add_argument("--before", type=float, default=20, help="seconds that are not measured")
    parser.add_argument("--page", action="store_true", help="the server of view --live")
    args = parser.parse_args()
    for rate in args.rates:
        with tempfile.TemporaryDirectory() as folder:
            _measure(rate, args, Path(folder))


def _measure(rate: int, args: argparse.Namespace, folder: Path) -> None:
    agent = agent_library()
    fakes = agent.parent / "agent" / "tests"
    cupti = folder / "packages/nvidia/cu13/lib/libcupti.so.13"
    cupti.parent.mkdir(parents=True)
    shutil.copy(fakes / "cupti13/libcupti.so.13", cupti)
    source = Path(warpline.__file__).parents[1]
    environment = {
        **os.environ,
        "PYTHONPATH": f"{folder / 'packages'}:{source}",
        "XDG_RUNTIME_DIR": str(folder),
        "TERM": "xterm",
    }
    program = [fakes / "cuda_app", fakes / "libcuda.so.1", cupti, "init", *_words(rate)]
    profile = [*_MODULE, "profile", "-q", "-t", "cuda,nvtx", "-o", "run", "--", *map(str, program)]
    recorded = subprocess.Popen(profile, env=environment, cwd=folder)
    try:
        time.sleep(3)
        look = _page if args.page else _top
        process, last = look(folder, environment)
        time.sleep(args.before)
        before = _cpu_s(process.pid), time.monotonic(), measure(folder / "run.warpline.raw").events
        time.sleep(args.seconds)
        after = _cpu_s(process.pid), time.monotonic(), measure(folder / "run.warpline.raw").events
        cpu_s, elapsed_s, events = (b - a for a, b in zip(before, after, strict=True))
        print(
            f"wanted {rate:6,}/s, got {events / 2 / elapsed_s:6,.0f}/s (a call and its work are two"
            f" events): {cpu_s / elapsed_s:.2%} of a core, {_resident_mb(process.pid):.0f} MB",
            last(),
            sep="\n",
            flush=True,
        )
        process.send_signal(signal.SIGINT)
        process.wait(20)
    finally:
        recorded.send_signal(signal.SIGINT)
        recorded.wait(120)


def _words(rate: int) -> list[str]:
    launches = rate * _PERIOD_US // 10**6
    if not launches:
        return ["repeat", "1000000000", "u50000"]
    pause = max(int(_PERIOD_US - launches * _LAUNCH_US), 0)
    return ["repeat", "1000000000", f"k1x{launches},k2,u{pause}"]


def _top(
    folder: Path, environment: dict[str, str]
) -> tuple[subprocess.Popen[bytes], Callable[[], str]]:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*_MODULE, "top", "run"],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environment,
        cwd=folder,
        start_new_session=True,
    )
    os.close(theirs)
    read = [b""]

    def drain() -> None:
        while True:
            try:
                read[0] = (read[0] + os.read(ours, 1 << 16))[-4000:]
            except OSError:
                return

    threading.Thread(target=drain, daemon=True).start()

    def last() -> str:
        screen = read[0].decode(errors="replace").rpartition("\x1b[H")[2]
        return re.sub(r"\x1b\[[0-9;]*[A-Za-z]|\r", "", screen)

    return process, last


def _page(
    folder: Path, environment: dict[str, str]
) -> tuple[subprocess.Popen[bytes], Callable[[], str]]:
    process = subprocess.Popen(
        [*_MODULE, "view", "--live", "--no-browser", "run"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environment,
        cwd=folder,
    )
    assert process.stdout is not None
    found = None
    while found is None:
        found = re.search(rb"http://\S+", process.stdout.readline())
    url, versions = found[0].decode(), [0]

    def ask() -> None:
        while process.poll() is None:
            with urllib.request.urlopen(f"{url}live?known={versions[-1]}") as answer:
                versions.append(json.load(answer)["version"])
            time.sleep(1)

    threading.Thread(target=ask, daemon=True).start()
    return process, lambda: f"{versions[-1]} pictures, {len(versions)} answers"


def _cpu_s(pid: int) -> float:
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


def _resident_mb(pid: int) -> float:
    text = Path(f"/proc/{pid}/status").read_text()
    return int(text.partition("VmRSS:")[2].split()[0]) / 1024


if __name__ == "__main__":
    main()
