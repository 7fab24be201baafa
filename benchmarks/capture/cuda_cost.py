"""What recording CUDA costs a program: whole processes of each kind take turns.

Usage: PYTHONPATH=src python benchmarks/capture/cuda_cost.py PROGRAM [--rounds 11] [--nsys NSYS]
           [--kinds alone,kernels,ours,rest,nsys,torch] [--limit SECONDS] [--json FILE]

PROGRAM is `launches` or `calls` (cuda_cost.cu; needs nvcc), or `gpt` (workloads.py; needs PyTorch).
Kinds: `alone`; `kernels`, CUPTI's records of kernels and nothing else, the floor of every profiler;
`ours`, `warpline profile`; `rest`, the same before cudaProfilerStart; `nsys`; `torch`, its profiler
(gpt only). Prints per figure the median of each kind, its quintiles, the median of what it adds
(paired within a round), and the ratio of the whole figure to nsys's, paired, with its quintiles.
Rounds end early at --limit.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent
FIGURE = re.compile(r"(\w+) ([0-9.]+)(?= ms|$)", re.MULTILINE)
Figures = dict[str, float]


def build(folder: Path) -> None:
    """Build the program in CUDA, and the library that records kernels alone."""
    program = ["nvcc", "-O2", "-o", folder / "cuda_cost", HERE / "cuda_cost.cu"]
    subprocess.run([str(word) for word in program], check=True)
    root = Path("/usr/local/cuda").resolve()
    headers = [root / "include", root / "extras" / "CUPTI" / "include"]
    found = sorted(root.glob("**/libcupti.so*"))
    if not found:
        print("no CUPTI under /usr/local/cuda: the floor is left out", file=sys.stderr)
        return
    library = ["g++", "-O2", "-shared", "-fPIC", "-o", folder / "kernel_records.so"]
    library += [HERE / "kernel_records.cpp", *(f"-I{path}" for path in headers), found[0]]
    library += [f"-Wl,-rpath,{found[0].parent}"]
    subprocess.run([str(word) for word in library], check=True)


def prefixes(folder: Path, nsys: str | None) -> dict[str, list[str]]:
    """Return what stands before the program, by kind."""
    profile = [sys.executable, "-m", "warpline", "profile", "--no-summary", "-f", "true"]
    profile += ["-o", str(folder / "ours")]
    kinds = {"alone": [], "torch": [], "ours": [*profile, "--"]}
    kinds["rest"] = [*profile, "-c", "cudaProfilerApi", "--"]
    floor = folder / "kernel_records.so"
    if floor.exists():
        kinds["kernels"] = ["env", f"CUDA_INJECTION64_PATH={floor}"]
    if nsys is not None:
        theirs = ["profile", "-t", "cuda,nvtx", "-s", "none", "--cpuctxsw=none", "--export=none"]
        kinds["nsys"] = [nsys, *theirs, "-f", "true", "-o", str(folder / "nsys")]
    return kinds


def program(name: str, kind: str, folder: Path) -> list[str]:
    """Return the program's command."""
    if name != "gpt":
        return [str(folder / "cuda_cost"), name]
    command = [sys.executable, str(HERE.parent / "workloads.py"), "gpt", "bad"]
    return [*command, *(["--kineto", ""] if kind == "torch" else [])]


def measure(command: Sequence[str]) -> Figures:
    """Run a program and return what it printed: the numbers after its words."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = {name: float(value) for name, value in FIGURE.findall(done.stdout)}
    if done.returncode or not found:
        raise SystemExit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return found


def quantile(values: Sequence[float], share: float) -> float:
    """Return the value at a share of the way from the smallest to the largest."""
    return sorted(values)[round(share * (len(values) - 1))]


def line(figure: str, kind: str, rounds: Sequence[dict[str, Figures]]) -> str:
    """Return one row of the table."""
    values = [one[kind][figure] for one in rounds]
    added = [one[kind][figure] - one["alone"][figure] for one in rounds if "alone" in one]
    low, high = quantile(values, 0.2), quantile(values, 0.8)
    text = f"{figure:12} {kind:8} {len(values):3} {statistics.median(values):10.2f}"
    text += f" {low:10.2f} {high:10.2f}"
    text += f" {statistics.median(added):+10.2f}" if added else f" {'':10}"
    if "nsys" in rounds[0]:
        ratios = [one[kind][figure] / one["nsys"][figure] for one in rounds]
        text += f"   {statistics.median(ratios):.3f}"
        text += f" ({quantile(ratios, 0.2):.3f} to {quantile(ratios, 0.8):.3f})"
    return text


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description="What recording CUDA costs a program.")
    parser.add_argument("program", choices=("launches", "calls", "gpt"))
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--kinds", default="alone,kernels,ours,nsys")
    parser.add_argument("--nsys", help="its path")
    parser.add_argument("--limit", type=float, default=float("inf"), help="seconds")
    parser.add_argument("--json", type=Path, help="write every figure here")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp())
    if options.program != "gpt":
        build(folder)
    before = prefixes(folder, options.nsys)
    kinds = [kind for kind in options.kinds.split(",") if kind in before]
    begun = time.monotonic()
    rounds: list[dict[str, Figures]] = []
    while len(rounds) < options.rounds and time.monotonic() - begun < options.limit:
        first = len(rounds) % len(kinds)
        order = [*kinds[first:], *kinds[:first]]
        took = {
            kind: measure([*before[kind], *program(options.program, kind, folder)])
            for kind in order
        }
        rounds.append(took)
        if options.json:
            options.json.write_text(json.dumps(rounds))
    heads = (
        f"{'figure':12} {'kind':8} {'n':>3} {'median':>10} {'p20':>10} {'p80':>10} {'added':>10}"
    )
    print(f"{options.program}: ms for gpt, otherwise ns\n{heads}   to nsys")
    for figure in rounds[0][kinds[0]]:
        for kind in kinds:
            print(line(figure, kind, rounds), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
