"""kernel_counter_spread: hardware counters of each kernel and shape, over its profiled launches."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from warpline.derived.counters import metric_numbers
from warpline.derived.texts import dimension_texts, labelled
from warpline.frozen import frozen
from warpline.ops.arrays import F64, I32, BoolArray
from warpline.ops.group import RowGroups, factorize_rows
from warpline.result import Arguments, Field, Numbers, Result, Texts, Values, analysis
from warpline.trace import Trace
from warpline.units import Unit

NAME = "kernel_counter_spread"
TITLE = "Spread of hardware counters by kernel and shape"
DRIFT = "clock_drift_max_ratio"
_ELAPSED = "avg.pct_of_peak_sustained_elapsed"
_SPREAD = ("min", "max")


@frozen
class _Measure:
    """A metric in columns: its median, minimum, maximum and variation.

    Attributes:
        name: First part of the columns' names.
        unit: Unit of its columns, and the end of their names.
        label: Heading.
        doc: What it is, in words.
        metrics: The metric's name, and those that replace it on other chips.
        factor: From the metric's unit to that of the columns.
        scale: From the columns' unit to that of the heading.
        digits: Decimals in tables.
    """

    name: str
    unit: Unit
    label: str
    doc: str
    metrics: tuple[str, ...]
    factor: float = 1.0
    scale: float = 1.0
    digits: int = 1

    def column(self, what: str) -> str:
        """Return the name of the column with its median, min or max."""
        return "_".join(part for part in (self.name, what, self.unit.value) if part)

    @property
    def variation(self) -> str:
        """The name of the column with the coefficient of variation."""
        return f"{self.name}_cv_ratio"


def _share(name: str, label: str, doc: str, metric: str) -> _Measure:
    return _Measure(name, Unit.RATIO, f"{label} (%)", doc, (metric,), 0.01, 100.0)


_MEASURES = (
    _Measure("duration", Unit.NS, "Time (us)", "duration", ("gpu__time_duration.sum",), scale=1e-3),
    _share("sm_active", "SM Act", "time that SMs were active", f"sm__cycles_active.{_ELAPSED}"),
    _share("issue", "Issue", "cycles in which an SM issued", f"sm__issue_active.{_ELAPSED}"),
    _Measure(
        "ipc",
        Unit.NONE,
        "IPC",
        "instructions per active cycle of an SM",
        ("sm__inst_executed.avg.per_cycle_active",),
        digits=2,
    ),
    _share(
        "occupancy",
        "Occ",
        "achieved occupancy",
        "sm__warps_active.avg.pct_of_peak_sustained_active",
    ),
    _share("tensor", "Tensor", "Tensor Core activity", f"sm__pipe_tensor_cycles_active.{_ELAPSED}"),
    _share("dram", "DRAM", "DRAM throughput, of its peak", f"gpu__dram_throughput.{_ELAPSED}"),
    _Measure(
        "dram_read",
        Unit.BYTES,
        "DRAM Read (MB)",
        "bytes read from DRAM",
        ("dram__bytes_read.sum", "dram__bytes_op_read.sum"),
        scale=1e-6,
        digits=2,
    ),
    _Measure(
        "dram_write",
        Unit.BYTES,
        "DRAM Write (MB)",
        "bytes written to DRAM",
        ("dram__bytes_write.sum", "dram__bytes_op_write.sum"),
        scale=1e-6,
        digits=2,
    ),
    _share("l1_hit", "L1 Hit", "hit rate of sectors in L1", "l1tex__t_sector_hit_rate.pct"),
    _share("l2_hit", "L2 Hit", "hit rate of sectors in L2", "lts__t_sector_hit_rate.pct"),
    _share(
        "l2_request_hit", "L2 Req Hit", "hit rate of requests in L2", "lts__t_request_hit_rate.pct"
    ),
    _Measure(
        "clock",
        Unit.HZ,
        "Clock (GHz)",
        "clock of the SMs",
        ("sm__cycles_elapsed.avg.per_second",),
        scale=1e-9,
        digits=2,
    ),
)
_LABELS = {"median": "", "min": "Min ", "max": "Max "}
_WORDS = {"median": "Median", "min": "Minimum", "max": "Maximum"}


def _fields() -> Iterator[Field]:
    yield Field("kernel", Unit.NONE, "Kernel name.", "Kernel")
    yield Field("grid", Unit.NONE, "Blocks of the grid in x, y and z.", "Grid")
    yield Field("block", Unit.NONE, "Threads of a block in x, y and z.", "Block")
    yield Field("launches", Unit.COUNT, "Launches that were counted.", "Launches")
    columns = [(measure, "median") for measure in _MEASURES]
    columns += [(measure, what) for measure in _MEASURES for what in (*_SPREAD, "cv")]
    for measure, what in columns:
        if what == "cv":
            doc = f"Standard deviation of the {measure.doc}, over their mean."
            heading = f"CV {measure.label.partition(' (')[0]} (%)"
            yield Field(measure.variation, Unit.RATIO, doc, heading, 100.0, 1)
        else:
            doc = f"{_WORDS[what]} of the {measure.doc}."
            heading = _LABELS[what] + measure.label
            yield Field(
                measure.column(what), measure.unit, doc, heading, measure.scale, measure.digits
            )
    doc = "Largest change of the clock between the passes of a launch, of its maximum."
    yield Field(DRIFT, Unit.RATIO, doc, "Max Drift (%)", 100.0, 1)


FIELDS = tuple(_fields())


@analysis(
    name=NAME,
    title=TITLE,
    fields=FIELDS,
    needs=("profiled_kernel",),
    missing_hint="pass a report of Nsight Compute (.ncu-rep)",
)
def kernel_counter_spread(trace: Trace, arguments: Arguments) -> Result:
    """Hardware counters of each kernel, grid and block: medians and spread over its launches.

    What it measures: For all profiled launches with the same kernel name, grid and block: the
        median, minimum, maximum and coefficient of variation of duration, SM activity, issue slots,
        instructions per cycle, occupancy, Tensor Core activity, DRAM throughput and traffic, hit
        rates of L1 and L2, and clock.
    Why it matters: Launches of one shape do the same work, so a kernel has one line, and a large
        variation shows that its data, its clock or other work on the GPU makes a difference.
    How it is computed: From the metrics of set light: gpu__time_duration, sm__cycles_active,
        sm__issue_active, sm__inst_executed, sm__warps_active, sm__pipe_tensor_cycles_active,
        gpu__dram_throughput, dram__bytes_read, dram__bytes_write, l1tex__t_sector_hit_rate,
        lts__t_sector_hit_rate, lts__t_request_hit_rate and sm__cycles_elapsed. Each column is over
        the launches that have its metric, and empty if none has. The coefficient of variation is
        the standard deviation of the sample over the mean: empty for a single launch. The drift of
        the clock is known where several passes were made and their clock was read.
    Limits: The L2 hit rate of sectors, ncu's, needs a second pass: set light has that of requests.
        It is lower for kernels that write much, because sectors that are written always hit.
    Source: Warpline.
    """
    axes = [f"{of}_{axis}" for of in ("grid", "block") for axis in "xyz"]
    columns = trace.columns("profiled_kernel", "name_id", *axes)
    sizes = [columns[axis].values for axis in axes]
    shapes = factorize_rows(columns["name_id"].values, *sizes)
    launches = np.bincount(shapes.codes, minlength=shapes.n_groups)
    found = {measure.name: _Spread.of(trace, measure, shapes) for measure in _MEASURES}
    total = found["duration"].median * launches  # null medians are 0
    order = np.lexsort((shapes.first, -launches, -total))
    first = shapes.first[order]
    values: dict[str, Values] = {
        "kernel": dimension_texts(trace.strings, columns["name_id"], first),
        "grid": _dimensions(*(size[first] for size in sizes[:3])),
        "block": _dimensions(*(size[first] for size in sizes[3:])),
        "launches": Numbers(launches[order]),
    }
    for measure in _MEASURES:
        values |= found[measure.name].columns(measure, order)
    drift = trace.columns("profiled_kernel", "clock_drift_ratio")["clock_drift_ratio"]
    is_known = drift.is_valid()
    spread = _Spread.over(drift.values[is_known], shapes.codes[is_known], shapes.n_groups)
    values[DRIFT] = Numbers(spread.maximum[order], (spread.count > 0)[order])
    in_order = {field.name: values[field.name] for field in FIELDS}
    return Result(NAME, TITLE, FIELDS, in_order, ("kernel", "grid", "block"))


@frozen
class _Spread:
    """Values of a metric over the launches of each group.

    Attributes:
        count: Launches that have the metric, shape (groups,).
        median: Shape (groups,), 0 without a launch.
        minimum: The same.
        maximum: The same.
        variation: Coefficient of variation; not finite if unknown.
    """

    count: np.ndarray
    median: F64
    minimum: F64
    maximum: F64
    variation: F64

    @classmethod
    def of(cls, trace: Trace, measure: _Measure, groups: RowGroups) -> _Spread:
        """Return the values of a measure over launches."""
        value, is_known = _values(trace, measure)
        return cls.over(value[is_known] * measure.factor, groups.codes[is_known], groups.n_groups)

    @classmethod
    def over(cls, value: F64, codes: I32, n_groups: int) -> _Spread:
        """Return the spread of values, shape (n,), over groups with these numbers."""
        count = np.bincount(codes, minlength=n_groups)
        ordered = value[np.lexsort((value, codes))]
        begin = np.cumsum(count) - count
        has_any = count > 0

        def at(place: np.ndarray) -> F64:
            found = np.zeros(n_groups)
            found[has_any] = ordered[(begin + place)[has_any]]
            return found

        mean = np.bincount(codes, value, n_groups) / np.maximum(count, 1)
        squares = np.bincount(codes, (value - mean[codes]) ** 2, n_groups)
        with np.errstate(divide="ignore", invalid="ignore"):
            variation = np.sqrt(squares / (count - 1)) / np.abs(mean)
        median = (at((count - 1) // 2) + at(count // 2)) / 2
        return cls(count, median, at(np.zeros_like(count)), at(count - 1), variation)

    def columns(self, measure: _Measure, order: np.ndarray) -> dict[str, Values]:
        """Return the columns of a result, with the groups in an order."""
        has_any = (self.count > 0)[order]
        by_name = {"median": self.median, "min": self.minimum, "max": self.maximum}
        found: dict[str, Values] = {
            measure.column(what): Numbers(values[order], has_any)
            for what, values in by_name.items()
        }
        variation = self.variation[order]
        is_finite = np.isfinite(variation) & (self.count[order] > 1)
        found[measure.variation] = Numbers(np.where(is_finite, variation, 0.0), is_finite)
        return found


def _values(trace: Trace, measure: _Measure) -> tuple[F64, BoolArray]:
    """Return the value of each launch, by the first of the metrics that it has."""
    values, is_known = metric_numbers(trace, measure.metrics[0])
    for name in measure.metrics[1:]:
        others, have = metric_numbers(trace, name)
        values, is_known = np.where(is_known, values, others), is_known | have
    return values, is_known


def _dimensions(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> Texts:
    """Return sizes as texts, empty for ranges, which have none."""
    distinct = factorize_rows(x, y, z)
    sizes = [[int(axis[row]) for axis in (x, y, z)] for row in distinct.first.tolist()]
    texts = ["x".join(map(str, size)) if any(size) else "" for size in sizes]
    return labelled(distinct.codes, texts)
