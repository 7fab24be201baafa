"""Overhead of an NVTX range: without a profiler, under the agent, under nsys.

Usage: python benchmarks/capture/nvtx_cost.py [--include DIRECTORY] [--nsys NSYS] [--python PYTHON]
                                              [--rounds 9] [--count 200000]

Whole programs run in turn, one of each kind per round. Columns, in ns for one range (start and
end) or mark, medians over the rounds:

    alone     no profiler
    no tool   a tool without event handlers: the overhead of NVTX and the nvtx package alone
    warpline  `warpline profile`
    nsys      `nsys profile -t nvtx`, if its path is given
    added     warpline minus no tool, with minimum and maximum over the rounds

nsys versions before 2025 do not record the nvtx package 0.2.12 and later: set --python to an
interpreter with 0.2.11.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import statistics
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

HERE = Path(__file__).parent
HEADER = "nvtx3/nvToolsExt.h"
ATTEMPTS = 3
FORM = re.compile(r"(push-pop|start-end|mark|py)-.*")

Figures = dict[str, dict[str, list[float]]]  # form -> kind -> ns


def find_headers() -> Path:
    """Return the directory of NVTX's headers, from the package nvidia-nvtx or the toolkit."""
    packages = Path(sysconfig.get_path("platlib")) / "nvidia"
    places = [*packages.glob("*/include"), Path("/usr/local/cuda/include")]
    for place in places:
        if (place / HEADER).is_file():
            return place
    raise SystemExit(f"{HEADER} is not found: pip install nvidia-nvtx, or --include FOLDER")


def build(source: str, target: Path, *flags: str) -> Path:
    """Compile a program or library."""
    command = [os.environ.get("CC", "cc"), "-O2", *flags, str(HERE / source), "-o", str(target)]
    subprocess.run([*command, "-ldl"], check=True)
    return target


def run(command: Sequence[str], environment: Mapping[str, str]) -> dict[str, float]:
    """Run a program and return its output: form -> ns. Retry if the profiler fails."""
    for _ in range(ATTEMPTS):
        done = subprocess.run(command, check=False, capture_output=True, text=True, env=environment)
        if done.returncode == 0:
            lines = (line.split() for line in done.stdout.splitlines())
            return {
                words[0]: float(words[1])
                for words in lines
                if len(words) == 2 and FORM.fullmatch(words[0])
            }
        print(f"status {done.returncode}: {done.stderr.strip()}", file=sys.stderr)
    raise SystemExit(f"failed: {' '.join(command)}")


def wrap(kind: str, command: Sequence[str], folder: Path, nsys: str) -> list[str]:
    """Return the command that runs a program under a profiler."""
    out = str(folder / kind)
    if kind == "warpline":
        ours = [sys.executable, "-m", "warpline", "profile", "-q", "-f", "true", "-o", out]
        return [*ours, "--", *command]
    if kind == "nsys":
        flags = ["-t", "nvtx", "-s", "none", "--cpuctxsw=none", "-f", "true", "-o", out]
        return [nsys, "profile", *flags, *command]
    return list(command)


def measure(
    programs: Sequence[Sequence[str]], kinds: Sequence[str], folder: Path, args: argparse.Namespace
) -> Figures:
    """Run all kinds in turn."""
    no_tool = build("no_tool.c", folder / "libno_tool.so", "-shared", "-fPIC")
    figures: Figures = {}
    for turn in range(args.rounds + 1):
        for program in programs:
            for kind in kinds:
                environment = dict(os.environ)
                if kind == "no tool":
                    environment["NVTX_INJECTION64_PATH"] = str(no_tool)
                found = run(wrap(kind, program, folder, args.nsys), environment)
                for form, ns in found.items():
                    if turn:  # the first round fills caches
                        figures.setdefault(form, {}).setdefault(kind, []).append(ns)
    return figures


def line(form: str, kinds: Sequence[str], by_kind: Mapping[str, list[float]]) -> str:
    """Format a row of the report."""
    medians = {kind: statistics.median(by_kind[kind]) for kind in kinds}
    added = [ours - own for ours, own in zip(by_kind["warpline"], by_kind["no tool"], strict=True)]
    columns = "".join(f"{medians[kind]:10.1f}" for kind in kinds)
    interval = f"{statistics.median(added):9.1f} ({min(added):.1f} to {max(added):.1f})"
    if "nsys" not in medians:
        return f"{form:22}{columns}{interval}"
    ratios = sorted(
        theirs / ours for theirs, ours in zip(by_kind["nsys"], by_kind["warpline"], strict=True)
    )
    times = f"{statistics.median(ratios):8.2f}x ({ratios[0]:.2f} to {ratios[-1]:.2f})"
    return f"{form:22}{columns}{interval}{times}"


def main() -> None:
    """Build, run and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--include", type=Path, help="folder that holds nvtx3/")
    parser.add_argument("--nsys", default="", help="path of nsys")
    parser.add_argument("--python", default=sys.executable, help="interpreter that has nvtx")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--count", type=int, default=200_000)
    args = parser.parse_args()
    kinds = ["alone", "no tool", "warpline", *(["nsys"] if args.nsys else [])]
    folder = Path(tempfile.mkdtemp(prefix="nvtx-cost-"))
    try:
        include = args.include or find_headers()
        program = build("nvtx_cost.c", folder / "nvtx_cost", f"-I{include}")
        script = str(HERE / "nvtx_cost_python.py")
        programs = [
            [str(program), str(args.count)],
            [args.python, script, str(args.count // 4)],
        ]
        figures = measure(programs, kinds, folder, args)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    heading = "".join(f"{kind:>10}" for kind in kinds)
    print(f"{'ns, median':22}{heading}{'added':>9}" + ("   nsys/warpline" if args.nsys else ""))
    for form, by_kind in sorted(figures.items()):
        print(line(form, kinds, by_kind))


if __name__ == "__main__":
    main()
