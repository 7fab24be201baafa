"""Predict the repaired time of kernels from their counters, then time the repaired kernels.

Usage: nvcc -std=c++17 -O3 -lineinfo -arch=native -o /tmp/pairs benchmarks/kernels/pairs.cu
       python benchmarks/kernels/predicted.py /tmp/pairs [--ncu] [--keep FOLDER] [--only NAME ...]

Requires a GPU and rights to its counters. The third launch of the bad kernel of each pair in
`pairs.cu` is counted by ``warpline kernels --set full`` and, with --ncu, by ncu, whose report
Warpline reads: all pairs in one run of the program. Predictions are written to a file before any
repaired kernel runs. Then the repaired kernels are counted in the same way: their duration is the
truth. Both are also timed by ``warpline profile``, which does not change caches and clocks: the
median of 40 launches. A row per pair and counter says the first finding, the prediction and the
truth; ncu's own estimates are beside them. Last, the results of pairs with equal ones are compared.
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
    *("pair", "counted by", "kind", "T0", "low", "expected", "high", "true", "inside"),
    *("alone", "first"),
)
WIDTHS = (15, 10, 10, 9, 9, 9, 9, 9, 7, 19, 0)
DURATION = "gpu__time_duration.sum"


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
        chosen = (
            *("--set", "full", "--import-source", "yes", "--clock-control", "none"),
            *("--profile-from-start", "off", "-f", "-o", str(report.with_suffix(""))),
        )
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


def repaired(
    pairs: str, names: list[str], folder: Path, *, with_ncu: bool
) -> dict[str, dict[str, float]]:
    """Return the durations of repaired kernels in ns, by who counted them."""
    launches = (pairs, "all", "fixed", "3")
    ours, report = folder / "fixed.warpline", folder / "fixed.ncu-rep"
    options = ("--set", "full", "--profile-from-start", "no", "-f", "-o", str(ours))
    run(*WARPLINE, "kernels", *options, "--", *launches)
    counted = {"warpline": ours}
    if with_ncu:
        chosen = ("--metrics", DURATION, "--clock-control", "none", "--profile-from-start", "off")
        run("ncu", *chosen, "-f", "-o", str(report.with_suffix("")), *launches)
        counted["ncu"] = report
    found = {}
    for source, path in counted.items():
        printed = run(*WARPLINE, "kernels", str(path), "--json")
        kernels = json.loads(printed)["kernels"] if printed else []
        if len(kernels) == len(names):
            times = (kernel["metrics"][DURATION] for kernel in kernels)
            found[source] = dict(zip(names, times, strict=True))
    return found


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


def row(
    name: str,
    source: str,
    found: list[dict[str, Any]],
    true_ns: float,
    alone_ns: tuple[float, float],
) -> str:
    """Return a line about the first finding beside the truth."""
    alone = " -> ".join(f"{time / 1e3:.1f}" for time in alone_ns)
    first: dict[str, Any] = (
        found[0] if found else {"rule": "no finding", "severity": "", "outcome": "-"}
    )
    low, likely, high, before = (
        first.get(key)
        for key in ("predicted_low_ns", "predicted_ns", "predicted_high_ns", "before_ns")
    )
    is_inside = (
        low is not None
        and high is not None
        and low <= true_ns
        and (likely is None or true_ns <= high)
    )
    is_first = first["rule"] in FAULTS.get(name, ())
    others = ", ".join(finding["rule"] for finding in found[1:])
    times = ["-" if time is None else f"{time / 1e3:.1f}" for time in (before, low, likely, high)]
    return line(
        [
            *(name, source, first["outcome"], *times, f"{true_ns / 1e3:.1f}"),
            *("yes" if is_inside else "NO", alone),
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
        true = repaired(args.pairs, names, folder, with_ncu=args.ncu)
        bad, fixed = (timed(args.pairs, names, which, folder) for which in ("bad", "fixed"))
        times = {"bad": bad, "fixed": fixed, "counted": true}
        (folder / "times.json").write_text(json.dumps(times, indent=1), encoding="utf-8")
    print("Times in us.")
    print(line([*HEADINGS]))
    for name in names:
        for source in ("warpline", "ncu"):
            if name in said.get(source, {}) and source in true:
                alone = bad[name], fixed[name]
                print(row(name, source, said[source][name], true[source][name], alone))
        if name in said.get("estimates", {}):
            print(f"{'':15} ncu's estimates: {said['estimates'][name][:3]} %")
    print("Results of both:")
    print(run(args.pairs, "check"), end="")


if __name__ == "__main__":
    main()
