"""Startup time: interleaved runs of whole processes, medians in ms.

Usage: python benchmarks/startup.py [--rounds 21] [--recording FILE]

Run this with the Python of the environment in which warpline is installed.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path


def elapsed_ms(command: Sequence[str]) -> float:
    """Return the wall time of one run; raise if it fails."""
    begin_ns = time.perf_counter_ns()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return (time.perf_counter_ns() - begin_ns) / 1e6


def medians_ms(commands: Mapping[str, Sequence[str]], rounds: int) -> dict[str, float]:
    """Run every command once per round, so that machine load affects all commands equally."""
    for command in commands.values():
        elapsed_ms(command)  # fills the file cache and the compiled modules
    times: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(rounds):
        for name, command in commands.items():
            times[name].append(elapsed_ms(command))
    return {name: statistics.median(values) for name, values in times.items()}


def installed_command() -> list[str]:
    """Return the `warpline` script next to this Python, or the module if not installed."""
    beside = shutil.which("warpline", path=str(Path(sys.executable).parent))
    return [beside] if beside else [sys.executable, "-m", "warpline"]


def main() -> None:
    """Print one line per command."""
    parser = argparse.ArgumentParser(description="Startup time.")
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--recording", help="also time `warpline stats` on this file")
    options = parser.parse_args()
    python, warpline = sys.executable, installed_command()
    commands = {
        "python -c pass": [python, "-c", "pass"],
        "python -c 'import warpline'": [python, "-c", "import warpline"],
        "warpline --help": [*warpline, "--help"],
        "warpline --version": [*warpline, "--version"],
    }
    if options.recording:
        stats = [*warpline, "stats", "-r", "cuda_gpu_kern_sum", options.recording]
        commands["warpline stats -r cuda_gpu_kern_sum"] = stats
    medians = medians_ms(commands, options.rounds)
    bare_ms = medians["python -c pass"]
    print(f"{'command':38} {'median ms':>10} {'above bare':>10}")
    for name, median_ms in medians.items():
        print(f"{name:38} {median_ms:10.1f} {median_ms - bare_ms:10.1f}")


if __name__ == "__main__":
    main()
