"""Predict the repaired time of kernels from their counters, then time the repaired kernels.

Usage: nvcc -std=c++17 -O3 -arch=native -o /tmp/pairs benchmarks/kernels/pairs.cu
       python benchmarks/kernels/predicted.py /tmp/pairs [--ncu] [--out predictions.json]

Requires a GPU and rights to its counters. For each pair of `pairs.cu`, the third launch of the bad
kernel is counted by ``warpline kernels --set full``, and with --ncu by ncu, whose report Warpline
reads. Predictions are written before any repaired kernel runs. Then both are timed by
``warpline profile``: the median of 40 launches. A line per pair says the first finding, the
prediction and the truth; ncu's own estimates are beside it.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

WARPLINE = (sys.executable, "-m", "warpline")
LAUNCHES = 40
_LIMIT_S = 120
_ESTIMATE = re.compile(r"Est\. (?:Local )?Speedup: ([0-9.]+)%")


def run(*words: str) -> str:
    """Return what a command prints."""
    done = subprocess.run(words, capture_output=True, text=True, timeout=_LIMIT_S, check=False)
    return done.stdout


def findings(counted: Path) -> list[dict[str, Any]]:
    """Return the findings of the first launch in a recording or report."""
    said = json.loads(run(*WARPLINE, "kernels", str(counted), "--json"))
    found: list[dict[str, Any]] = said["kernels"][0]["findings"]
    return found


def predict(program: str, name: str, folder: Path, *, with_ncu: bool) -> dict[str, Any]:
    """Return the findings of a bad kernel, by who counted it, and ncu's estimates in percent."""
    launch = (program, name, "bad", "3")
    ours, report = folder / f"{name}.warpline", folder / f"{name}.ncu-rep"
    run(
        *(*WARPLINE, "kernels", "--set", "full", "-s", "2", "-c", "1"),
        *("-f", "-o", str(ours), "--", *launch),
    )
    said: dict[str, Any] = {"warpline": findings(ours)}
    if with_ncu:
        chosen = ("--set", "full", "--clock-control", "none", "-s", "2", "-c", "1")
        run("ncu", *chosen, "-f", "-o", str(report.with_suffix("")), *launch)
        said["ncu"] = findings(report)
        page = run("ncu", "--import", str(report), "--page", "details")
        said["estimates"] = sorted(map(float, _ESTIMATE.findall(page)), reverse=True)
    return said


def timed(program: str, name: str, which: str, folder: Path) -> float:
    """Return the median time of a kernel in ns."""
    recording = folder / "timed.warpline"
    options = ("-q", "--no-summary", "-f", "true", "-o", str(recording))
    run(*WARPLINE, "profile", *options, "--", program, name, which, str(LAUNCHES))
    said = json.loads(
        run(*WARPLINE, "stats", str(recording), "-r", "cuda_gpu_kern_sum", "--format", "json")
    )
    return float(said["tables"][0]["rows"][0]["median_ns"])


def line(first: dict[str, Any], bad_ns: float, fixed_ns: float) -> str:
    """Return a finding beside the truth; predictions are scaled to the time without counters."""
    scale = bad_ns / first["before_ns"] / 1000
    low, high = first["predicted_low_ns"] * scale, first["predicted_high_ns"] * scale
    is_inside = low <= fixed_ns / 1000 <= high
    likely = "" if first["predicted_ns"] is None else f"{first['predicted_ns'] * scale:.1f} "
    return (
        f"{first['rule']} ({first['severity']}, {first['outcome']}):"
        f" {likely}({low:.1f} to {high:.1f}) us, {'inside' if is_inside else 'OUTSIDE'}"
    )


def main() -> None:
    """Predict, then time, then print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("pairs", help="the built pairs.cu")
    parser.add_argument("--ncu", action="store_true", help="count with ncu, too")
    parser.add_argument("--out", type=Path, default=Path("predictions.json"))
    args = parser.parse_args()
    names = run(args.pairs).split()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        said = {name: predict(args.pairs, name, folder, with_ncu=args.ncu) for name in names}
        args.out.write_text(json.dumps(said, indent=1), encoding="utf-8")
        for name, found in said.items():
            bad_ns, fixed_ns = (
                timed(args.pairs, name, which, folder) for which in ("bad", "fixed")
            )
            print(f"{name}: {bad_ns / 1000:.1f} -> {fixed_ns / 1000:.1f} us")
            for source in ("warpline", "ncu"):
                if source in found:
                    first = next(iter(found[source]), None)
                    shown = line(first, bad_ns, fixed_ns) if first else "no finding"
                    print(f"  counted by {source}: {shown}")
            if "estimates" in found:
                print(f"  ncu's estimates: {found['estimates'][:3]} %")


if __name__ == "__main__":
    main()
