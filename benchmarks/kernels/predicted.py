"""Predict the repaired time of kernels from their counters, then time the repaired kernels.

Usage: nvcc -std=c++17 -O3 -lineinfo -arch=native -o /tmp/pairs benchmarks/kernels/pairs.cu
       python benchmarks/kernels/predicted.py /tmp/pairs [--ncu] [--keep FOLDER] [--only NAME ...]

Requires a GPU and rights to its counters. The third launch of the bad kernel of each pair in
`pairs.cu` is counted by ``warpline kernels --set full`` and, with --ncu, by ncu, whose report
Warpline reads: all pairs in one run of the program. Predictions are written to a file before any
repaired kernel runs. Then both are timed by ``warpline profile``: the median of 40 launches. A row
per pair and counter says the first finding, the prediction and the truth; ncu's own estimates are
beside them. Last, the results of pairs with equal ones are compared.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

WARPLINE = (sys.executable, "-m", "warpline")
LAUNCHES = 40
_LIMIT_S = 300
_ESTIMATE = re.compile(r"Est\. (?:Local )?Speedup: ([0-9.]+)%")
_PREPARES = "fill"  # kernels with such names make the input
# The rule that finds the fault of each pair; more than one where both say the same.
FAULTS = {
    "aos": {"scattered-data"},
    "barrier": {"barriers"},
    "bytes": {"narrow-access"},
    "columns": {"uncoalesced"},
    "conversions": {"conversions"},
    "copy": {"at-its-roof"},
    "copy_ahead": {"unpipelined-copies"},
    "divergent": {"divergence"},
    "double": {"double-precision"},
    "exact": {"slow-math"},
    "few_blocks": {"few-blocks"},
    "halves": {"narrow-access"},
    "histogram": {"atomics"},
    "l2_passes": {"l2-thrashing"},
    "last_wave": {"last-wave"},
    "local_array": {"local-memory"},
    "misaligned": {"misaligned"},
    "polynomial": {"double-precision"},
    "shared_atomics": {"shared-atomics"},
    "shared_stride": {"bank-conflicts"},
    "shared_swaps": {"shared-atomics"},
    "spills": {"register-spills"},
    "transpose": {"bank-conflicts"},
    "uneven": {"imbalance"},
}
HEADINGS = (
    "pair",
    "counted by",
    "kind",
    "T0",
    "low",
    "expected",
    "high",
    "true",
    "inside",
    "first",
)
WIDTHS = (15, 10, 10, 9, 9, 9, 9, 9, 7, 0)


def run(*words: str) -> str:
    """Return what a command prints."""
    done = subprocess.run(words, capture_output=True, text=True, timeout=_LIMIT_S, check=False)
    if done.returncode:
        print(
            f"{' '.join(words[:6])} ...: {done.returncode}: {done.stderr[-400:]}", file=sys.stderr
        )
    return done.stdout


def findings(counted: Path, names: list[str]) -> dict[str, list[dict[str, Any]]]:
    """Return the findings of the kernel of each pair in a recording or report."""
    printed = run(*WARPLINE, "kernels", str(counted), "--json")
    kernels = json.loads(printed)["kernels"] if printed else []
    if len(kernels) != len(names):
        print(f"{counted.name}: {len(kernels)} launches of {len(names)}", file=sys.stderr)
        return {}
    return {name: kernel["findings"] for name, kernel in zip(names, kernels, strict=True)}


def predict(pairs: str, names: list[str], folder: Path, *, with_ncu: bool) -> dict[str, Any]:
    """Return the findings of the bad kernels, by who counted them, and ncu's estimates."""
    launches = (pairs, "all", "bad", "3")
    ours, report = folder / "bad.warpline", folder / "bad.ncu-rep"
    options = ("--set", "full", "--profile-from-start", "no", "-f", "-o", str(ours))
    run(*WARPLINE, "kernels", *options, "--", *launches)
    said: dict[str, Any] = {"warpline": findings(ours, names)}
    if with_ncu:
        chosen = ("--set", "full", "--import-source", "yes", "--clock-control", "none")
        chosen += ("--profile-from-start", "off", "-f", "-o", str(report.with_suffix("")))
        run("ncu", *chosen, *launches)
        said["ncu"] = findings(report, names)
        said["estimates"] = estimates(report, names)
    return said


def estimates(report: Path, names: list[str]) -> dict[str, list[float]]:
    """Return what the rules of ncu estimate for each pair, in percent, the largest first."""
    page = run("ncu", "--import", str(report), "--page", "details")
    kernels = re.split(r"^  \S.*\), Context \d+, Stream", page, flags=re.MULTILINE)[1:]
    if len(kernels) != len(names):
        return {}
    found = (sorted(map(float, _ESTIMATE.findall(text)), reverse=True) for text in kernels)
    return dict(zip(names, found, strict=True))


def timed(pairs: str, names: list[str], which: str, folder: Path) -> dict[str, float]:
    """Return the median time of the kernel of each pair in ns."""
    recording = folder / f"{which}_timed.warpline"
    options = ("-q", "--no-summary", "-f", "true", "-o", str(recording))
    run(*WARPLINE, "profile", *options, "--", pairs, "all", which, str(LAUNCHES))
    printed = run(*WARPLINE, "stats", str(recording), "-r", "cuda_gpu_trace", "--format", "json")
    rows = json.loads(printed)["tables"][0]["rows"]
    times = [
        row["duration_ns"]
        for row in rows
        if row["grid_x"] is not None and not row["name"].split("::")[-1].startswith(_PREPARES)
    ]
    if len(times) != LAUNCHES * len(names):
        sys.exit(f"{which}: {len(times)} kernels of {LAUNCHES * len(names)}")
    return {
        name: median(times[place * LAUNCHES : (place + 1) * LAUNCHES])
        for place, name in enumerate(names)
    }


def row(name: str, source: str, found: list[dict[str, Any]], bad_ns: float, fixed_ns: float) -> str:
    """Return a line about the first finding beside the truth.

    Predictions are scaled to the time without counters.
    """
    if not found:
        cells = [name, source, "-", f"{bad_ns / 1e3:.1f}", "-", "-", "-", f"{fixed_ns / 1e3:.1f}"]
        return line([*cells, "-", "no finding"])
    first = found[0]
    scale = bad_ns / first["before_ns"] / 1000
    low, high = first["predicted_low_ns"] * scale, first["predicted_high_ns"] * scale
    likely, true = first["predicted_ns"], fixed_ns / 1000
    is_first = first["rule"] in FAULTS.get(name, ())
    others = ", ".join(finding["rule"] for finding in found[1:])
    is_inside = low <= true <= (high if likely is not None else true)
    return line(
        [
            *(name, source, first["outcome"], f"{bad_ns / 1e3:.1f}", f"{low:.1f}"),
            "-" if likely is None else f"{likely * scale:.1f}",
            f"{high:.1f}",
            f"{true:.1f}",
            "yes" if is_inside else "NO",
            f"{'yes' if is_first else 'NO'}: {first['rule']} {first['severity']}; {others}",
        ]
    )


def line(cells: list[str]) -> str:
    """Return cells side by side."""
    return " ".join(f"{cell:<{width}}" for cell, width in zip(cells, WIDTHS, strict=True)).rstrip()


def main() -> None:
    """Predict, then time, then print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("pairs", help="the built pairs.cu")
    parser.add_argument("--ncu", action="store_true", help="count with ncu, too")
    parser.add_argument("--keep", type=Path, help="keep recordings, reports and predictions here")
    args = parser.parse_args()
    names = run(args.pairs, "list").split()
    with tempfile.TemporaryDirectory() as place:
        folder = args.keep or Path(place)
        folder.mkdir(parents=True, exist_ok=True)
        said = predict(args.pairs, names, folder, with_ncu=args.ncu)
        (folder / "predictions.json").write_text(json.dumps(said, indent=1), encoding="utf-8")
        bad, fixed = (timed(args.pairs, names, which, folder) for which in ("bad", "fixed"))
        (folder / "times.json").write_text(json.dumps({"bad": bad, "fixed": fixed}), "utf-8")
    print("Times in us.")
    print(line([*HEADINGS]))
    for name in names:
        for source in ("warpline", "ncu"):
            if name in said.get(source, {}):
                print(row(name, source, said[source][name], bad[name], fixed[name]))
        if name in said.get("estimates", {}):
            print(f"{'':15} ncu's estimates: {said['estimates'][name][:3]} %")
    print("Results of both:")
    print(run(args.pairs, "check"), end="")


if __name__ == "__main__":
    main()
