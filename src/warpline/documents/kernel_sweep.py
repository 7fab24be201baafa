"""The kernels of a sweep: its recordings as rows, and their document."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from warpline.derived.efficiency.shape_launches import ShapeLaunches, joined, shape_launches
from warpline.documents import sweeps
from warpline.ops.arrays import F64
from warpline.presentation.kernel_names import short_names
from warpline.result import Document, Field, Result, Values
from warpline.sweep.points import Point
from warpline.sweep.state import Attempt, State
from warpline.trace import Trace, counter_runs
from warpline.trace.recording import write_recording
from warpline.units import Unit

NAME = "kernel_sweep"
Open = Callable[[Path], Trace]  # opens a recording
IsAsked = Callable[[str], bool]
_CLOCK = "sm__cycles_elapsed.avg.per_second"


def _share(name: str, doc: str, header: str, *, is_optional: bool = False) -> Field:
    return Field(name, Unit.RATIO, doc, header, 100.0, 1, is_optional=is_optional)


_OF_KERNEL = (
    Field("kernel", Unit.NONE, "Kernel name.", "Kernel", is_optional=True),
    Field("grid", Unit.NONE, "Blocks of the grid.", "Grid", is_detail=True, is_optional=True),
    Field("block", Unit.NONE, "Threads of a block.", "Block", is_detail=True, is_optional=True),
    Field("launches", Unit.COUNT, "Launches that were counted.", "Launches", is_optional=True),
)
_NUMBERS = (
    Field("duration_ns", Unit.NS, "Median time of a launch.", "Time (us)", 1e-3, 2),
    Field("duration_min_ns", Unit.NS, "Shortest time.", "Min (us)", 1e-3, 2),
    Field("duration_max_ns", Unit.NS, "Longest time.", "Max (us)", 1e-3, 2),
    _share("time_ratio", "Share of the counted time of all kernels.", "Of Time (%)"),
    _share("sm_ratio", "Throughput of the SMs, of their peak.", "SM (%)", is_optional=True),
    _share("issue_ratio", "Cycles in which an SM issued.", "Issue (%)", is_optional=True),
    _share("tensor_ratio", "Tensor Core activity.", "TC (%)", is_optional=True),
    _share("dram_ratio", "DRAM throughput, of its peak.", "DRAM (%)", is_optional=True),
    _share("l2_ratio", "L2 throughput, of its peak.", "L2 (%)", is_optional=True),
    Field("flop", Unit.NONE, "FLOP of a launch.", "GFLOP", 1e-9, 4, is_optional=True),
    Field("flop_per_s", Unit.NONE, "FLOP per second.", "TFLOP/s", 1e-12, 3, is_optional=True),
    Field("dram_bytes", Unit.BYTES, "Bytes of DRAM.", "DRAM (MB)", 1e-6, 3, is_optional=True),
    Field("bytes_per_s", Unit.NONE, "Bytes of DRAM per second.", "GB/s", 1e-9, 1, is_optional=True),
    Field("intensity", Unit.NONE, "FLOP per byte of DRAM.", "FLOP/B", 1.0, 2, is_optional=True),
    Field("roof", Unit.NONE, "Nearest ceiling of the roofline.", "Roof", is_optional=True),
    _share("roof_ratio", "Share of this ceiling.", "Roof (%)", is_optional=True),
    _share("occupancy_ratio", "Achieved occupancy.", "Occ (%)", is_optional=True),
    Field("clock_hz", Unit.HZ, "Clock of the SMs.", "GHz", 1e-9, 2, is_optional=True),
)
_FIELDS = (*_OF_KERNEL, *_NUMBERS, sweeps.FAILURE)
# On a screen: what matters most first, as a narrow one leaves out the last ones, and the name at
# the end, where it is shortened. Points that were not measured have the reason there.
_ON_SCREEN = (
    *("duration_ns", "duration_min_ns", "duration_max_ns", "flop_per_s", "bytes_per_s"),
    *("roof_ratio", "roof", "dram_ratio", "occupancy_ratio", "sm_ratio", "tensor_ratio"),
    *("intensity", "l2_ratio", "issue_ratio", "time_ratio", "launches", "grid", "block", "kernel"),
)


def complete(state: State, folder: Path, open_file: Open) -> None:
    """Join the recordings of each run that has several, and save that.

    Each run of the program had its own metrics. Launches that only the first one counted keep its
    metrics.
    """
    for key, made in list(state.attempts.items()):
        if len(made.files) < 2:
            continue
        first, *others = (folder / name for name in made.files)
        traces = [open_file(first), *map(open_file, others)]
        merged = counter_runs.merge_runs(
            traces,
            sorted({name for trace in traces for name in _metrics(trace)}),
            clock=_CLOCK,
            mode="relaxed",
        )
        write_recording(merged, first)
        state.attempts[key] = Attempt(made.files[:1], None, made.seconds, made.notes)
        state.save(folder)
        for other in others:
            other.unlink(missing_ok=True)


def _metrics(trace: Trace) -> list[str]:
    names = trace.columns("kernel_metric", "name_id")["name_id"].values
    return trace.strings.texts(np.unique(names).tolist())


def facts(
    state: State, folder: Path, open_file: Open, top: int, is_asked: IsAsked = lambda _: False
) -> dict[str, Any]:
    """Return what is known of a sweep, as its JSON: docs/kernels-sweep.schema.json.

    Args:
        state: Its runs.
        folder: Its directory.
        open_file: Opens a recording.
        top: Kernels and shapes of each point, those with the most time first; 0 for all.
        is_asked: Whether a metric was asked for by its name, so that it is among the numbers.
    """
    gpus: list[str] = []
    points = [
        _point(
            state.of_point(place),
            state.points[place],
            lambda name: open_file(folder / name),
            is_asked,
            gpus,
        )
        for place in state.shown_order()
    ]
    for point in points:
        point["kernels_counted"] = len(point["kernels"])
        point["kernels"] = point["kernels"][: top or None]
    shown = [kernel for point in points for kernel in point["kernels"]]
    short = short_names({kernel["kernel"] for kernel in shown})
    for kernel in shown:
        kernel["short_name"] = short[kernel["kernel"]]
    known = sweeps.facts_of(state, gpus, points)
    return {**known, "notes": _notes(known)}


def _gpus(trace: Trace) -> list[str]:
    """Return the models of the GPUs of a recording."""
    rows = trace.columns("device", "name_id")["name_id"].to_list() if trace.has("device") else []
    return trace.strings.texts([row for row in rows if row is not None])


def _point(
    made: Sequence[Attempt],
    values: Point,
    open_file: Callable[[str], Trace],
    is_asked: IsAsked,
    gpus: list[str],
) -> dict[str, Any]:
    """Return what is known of a point by its runs; models of GPUs are added to a list."""
    found = sweeps.runs_of(made, values)
    runs = []
    for one in (of for of in made if of.failure is None):
        trace = open_file(one.files[0])
        gpus += _gpus(trace)
        asked = list(filter(is_asked, _metrics(trace))) if trace.has("kernel_metric") else []
        runs.append(shape_launches(trace, asked))
    kernels = _kernels(joined(runs))
    if runs and not kernels and found["failure"] is None:
        found["failure"] = "no kernel was counted"
    return {**found, "kernels": kernels}


def _kernels(found: Sequence[ShapeLaunches]) -> list[dict[str, Any]]:
    """Return the kernels and shapes of a point, those with the most time first."""
    total = sum(float(one.numbers["duration_ns"].sum()) for one in found)
    rows = [_kernel(one, total) for one in found]
    times = [float(one.numbers["duration_ns"].sum()) for one in found]
    order = sorted(range(len(rows)), key=lambda row: -times[row])
    return [rows[row] for row in order]


def _kernel(one: ShapeLaunches, total_ns: float) -> dict[str, Any]:
    medians = {name: _median(values) for name, values in one.numbers.items()}
    times = one.numbers["duration_ns"]
    duration = medians["duration_ns"]
    flop, moved = medians.get("flop"), medians.get("dram_bytes")
    roof, share = _nearest_roof(one, duration)
    return {
        "kernel": one.kernel,
        "grid": _size(one.grid),
        "block": _size(one.block),
        "launches": one.count,
        "duration_ns": duration,
        "duration_min_ns": float(times.min()) if len(times) else None,
        "duration_max_ns": float(times.max()) if len(times) else None,
        "time_ratio": float(times.sum()) / total_ns if total_ns else None,
        **{field.name: medians.get(field.name) for field in _NUMBERS if field.name in medians},
        "flop": flop,
        "flop_per_s": _per_second(flop, duration),
        "dram_bytes": moved,
        "bytes_per_s": _per_second(moved, duration),
        "intensity": flop / moved if flop is not None and moved else None,
        "roof": roof,
        "roof_ratio": share,
        "ceilings": {
            name: ceiling
            for name, (amounts, of) in one.roofs.items()
            if _median(amounts) and (ceiling := _median(of)) is not None
        },
        "metrics": {name: _median(values) for name, values in one.metrics.items()},
    }


def _nearest_roof(one: ShapeLaunches, duration_ns: float | None) -> tuple[str | None, float | None]:
    """Return the precision or memory that is nearest to its ceiling, and its share of that."""
    shares = {}
    for name, (amounts, ceilings) in one.roofs.items():
        rate, ceiling = _per_second(_median(amounts), duration_ns), _median(ceilings)
        if rate is not None and ceiling:
            shares[name] = rate / ceiling
    if not shares:
        return None, None
    name = max(shares, key=lambda of: shares[of])
    return name, shares[name]


def _median(values: F64) -> float | None:
    return float(np.median(values)) if len(values) else None


def _per_second(amount: float | None, duration_ns: float | None) -> float | None:
    return None if amount is None or not duration_ns else amount / duration_ns * 1e9


def _size(axes: Sequence[int]) -> str:
    return "x".join(map(str, axes)) if any(axes) else ""


def document(known: Mapping[str, Any], *, is_screen: bool) -> Document:
    """Return the document of `facts`, which are its ``meta``.

    Args:
        known: The facts.
        is_screen: Whether it is for a screen: short names of kernels, and the main columns.
    """
    kernels = [kernel for point in known["points"] for kernel in point["kernels"]]
    metrics = list(dict.fromkeys(name for kernel in kernels for name in kernel["metrics"]))
    taken = {*(field.name for field in _FIELDS), *metrics}
    names = sweeps.axis_names(known, taken)
    empty = dict.fromkeys(taken)
    rows = [
        {names[name]: value for name, value in point["values"].items()}
        | empty
        | kernel
        | kernel.get("metrics", {})
        | {"failure": point["failure"]}
        for point in known["points"]
        for kernel in point["kernels"] or [{}]
    ]
    if is_screen:
        _shorten(rows)
    own = [Field(name, Unit.NONE, f"Median of {name}.", name, 1.0, 2) for name in metrics]
    of_name = {field.name: field for field in (*_OF_KERNEL, *_NUMBERS, *own, sweeps.FAILURE)}
    shown = _shown(known, rows, metrics) if is_screen else list(of_name)
    fields = (*sweeps.axis_fields(names), *(of_name[name] for name in shown))
    columns = {field.name: _column(field, [row[field.name] for row in rows]) for field in fields}
    key = (*names.values(), *(() if is_screen else ("kernel", "grid", "block")))
    result = Result(NAME, sweeps.heading(known), fields, columns, key, tuple(known["notes"]))
    return Document(known["gpu"] or "sweep", known, (result,))


def _shorten(rows: Sequence[dict[str, Any]]) -> None:
    for row in rows:
        if row["kernel"] is None:
            row["kernel"] = f"not measured: {row['failure']}"
            continue
        row["kernel"] = row["short_name"]
        for name in ("grid", "block"):
            row[name] = row[name].removesuffix("x1").removesuffix("x1")


def _shown(
    known: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], metrics: Sequence[str]
) -> list[str]:
    """Return the columns that a screen shows, in order."""
    hidden = set()
    if known["repeat"] == 1:
        hidden |= {"duration_min_ns", "duration_max_ns"}
    if any(row["sm_ratio"] is not None for row in rows):
        hidden.add("issue_ratio")
    if all(point["kernels_counted"] < 2 for point in known["points"]):
        hidden.add("time_ratio")
    time, *others = (name for name in _ON_SCREEN if name not in hidden)
    return [time, *metrics, *others]


def _column(field: Field, values: Sequence[Any]) -> Values:
    is_text = field in {sweeps.FAILURE, *_OF_KERNEL[:3]} or field.name == "roof"
    return sweeps.column(values, is_text=is_text)


def _notes(known: Mapping[str, Any]) -> list[str]:
    points = known["points"]
    are_measured = [bool(point["kernels"]) for point in points]
    notes = sweeps.first_notes(points, are_measured.count(False))
    hidden = max((p["kernels_counted"] - len(p["kernels"]) for p in points), default=0)
    if hidden > 0:
        notes.append(
            f"Kernels with less counted time are not shown (up to {hidden} of a point): --top 0"
            " shows all, -k NAME counts one."
        )
    return notes + sweeps.run_notes(points, are_measured)
