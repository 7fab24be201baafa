"""Compare recordings of the same program by `warpline profile` and `nsys profile`.

Usage: python benchmarks/capture/beside_nsys.py --nsys NSYS [--flags=FLAG...] -- PROGRAM [ARGUMENTS]

Prints one line per comparison, based on Warpline's tables of both recordings: kernels and ranges by
name and count, copies by direction, count and bytes, memsets, CUDA API calls that both record, and
the ratio of the kernels' total and median times. `ok` marks agreement. Durations come from two
runs, so they only agree within a few percent. The exit status is 1 on any mismatch.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

Rows = list[dict[str, Any]]
# Time ratio of all kernels beyond which the runs are not the same work.
TIME_TOLERANCE = 0.05
MOST_SHOWN = 5


def record(command: Sequence[str], recording: Path) -> None:
    """Run a profiler; its program's output goes to stderr."""
    done = subprocess.run(command, stdout=sys.stderr, check=False)
    if not recording.exists():
        raise SystemExit(f"{command[0]} left no recording, and status {done.returncode}")


def rows_of(recording: Path, table: str) -> Rows:
    """Return the rows of a Warpline table; empty if the recording lacks its data."""
    import warpline  # noqa: PLC0415 - after the programs have run

    try:
        result: Any = warpline.stats(warpline.open(recording), table)
    except warpline.MissingTableError:
        return []
    names = [field.name for field in result.fields]
    return [dict(zip(names, row, strict=True)) for row in result.rows()]


def counts(rows: Rows, *keys: str) -> dict[tuple[Any, ...], int]:
    """Return the number of instances by key."""
    found: dict[tuple[Any, ...], int] = {}
    for row in rows:
        key = tuple(row[name] for name in keys)
        found[key] = found.get(key, 0) + int(row["instances"])
    return found


class Comparison:
    """Prints lines and remembers failures."""

    def __init__(self, ours: Path, theirs: Path) -> None:
        self.recordings = (ours, theirs)
        self.is_same = True

    def say(self, text: str, *, is_ok: bool = True) -> None:
        """Print one line."""
        self.is_same &= is_ok
        print("ok " if is_ok else "BAD", text)

    def rows(self, table: str) -> tuple[Rows, Rows]:
        """Return a table of both recordings."""
        ours, theirs = (rows_of(path, table) for path in self.recordings)
        return ours, theirs

    def same_counts(self, what: str, table: str, *keys: str) -> None:
        """Compare instances by key."""
        ours, theirs = (counts(rows, *keys) for rows in self.rows(table))
        differ = [
            (key, ours.get(key, 0), theirs.get(key, 0))
            for key in sorted({*ours, *theirs}, key=str)
            if ours.get(key, 0) != theirs.get(key, 0)
        ]
        text = f"{what}: {len(ours)} kinds, {sum(ours.values())} here"
        text += f", {len(theirs)} kinds, {sum(theirs.values())} in nsys"
        self.say(text, is_ok=not differ)
        for key, here, there in differ[:MOST_SHOWN]:
            print(f"      {here} here, {there} in nsys: {' '.join(map(str, key))[:100]}")

    def same_bytes(self) -> None:
        """Compare the bytes copied and set, by direction."""
        ours, theirs = (
            {row["name"]: (row["instances"], row["total_bytes"]) for row in rows}
            for rows in self.rows("cuda_gpu_mem_size_sum")
        )
        text = f"copies and fills: {ours}" + ("" if ours == theirs else f" but {theirs} in nsys")
        self.say(text, is_ok=ours == theirs)

    def same_times(self) -> None:
        """Compare kernel times: in total, and by the median of each name."""
        ours, theirs = (
            {row["name"]: row for row in rows} for rows in self.rows("cuda_gpu_kern_sum")
        )
        total = [sum(row["total_ns"] for row in rows.values()) or 1 for rows in (ours, theirs)]
        medians = [
            ours[name]["median_ns"] / theirs[name]["median_ns"]
            for name in ours.keys() & theirs.keys()
        ]
        ratio = total[0] / total[1]
        text = f"kernel time: {total[0] / 1e6:.3f} ms here, {ratio:.4f} of nsys's"
        if medians:
            text += f"; medians by name: {statistics.median(medians):.4f}"
            text += f" ({min(medians):.3f} to {max(medians):.3f})"
        self.say(text, is_ok=abs(ratio - 1) < TIME_TOLERANCE)

    def same_calls(self) -> None:
        """Compare the calls recorded by Warpline; nsys also records some uninformative ones."""
        ours, theirs = (counts(rows, "name") for rows in self.rows("cuda_api_sum"))
        differ = {
            key: (ours[key], theirs.get(key, 0)) for key in ours if ours[key] != theirs.get(key, 0)
        }
        left_out = sorted(key[0] for key in theirs.keys() - ours.keys())
        self.say(
            f"calls: {sum(ours.values())} here, {sum(theirs.values())} in nsys;"
            f" differ: {dict(list(differ.items())[:MOST_SHOWN])}; left out: {left_out}",
        )


def main() -> int:
    """Record twice and compare."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--nsys", required=True)
    parser.add_argument("--flags", default="", help="for both, such as --cuda-graph-trace=node")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    args = parser.parse_args()
    command = (
        [word for word in args.command if word != "--"]
        if args.command[:1] == ["--"]
        else args.command
    )
    flags = args.flags.split()
    with tempfile.TemporaryDirectory() as folder:
        ours, theirs = Path(folder, "ours.warpline"), Path(folder, "theirs.sqlite")
        record(
            [
                sys.executable,
                "-m",
                "warpline",
                "profile",
                "-q",
                "-o",
                str(ours),
                *flags,
                "--",
                *command,
            ],
            ours,
        )
        nsys = [args.nsys, "profile", "-t", "cuda,nvtx", "-s", "none", "--cpuctxsw=none"]
        nsys += ["--export=sqlite", "-o", str(theirs.with_suffix("")), *flags, *command]
        record(nsys, theirs)
        os.environ.pop("WARPLINE_SESSION", None)
        found = Comparison(ours, theirs)
        found.same_counts("kernels", "cuda_gpu_kern_sum", "name")
        found.same_times()
        found.same_bytes()
        found.same_counts("ranges", "nvtx_sum", "name")
        found.same_calls()
    return 0 if found.is_same else 1


if __name__ == "__main__":
    sys.exit(main())
