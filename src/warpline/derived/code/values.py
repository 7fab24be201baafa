"""Values of metrics at instructions, of launches and of the whole program."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.code.functions import functions
from warpline.derived.code.metrics import (
    IDEALS,
    SAMPLES,
    STALLED,
    metric_named,
    parts_of,
    rank,
)
from warpline.frozen import frozen
from warpline.ops.arrays import F64, I64
from warpline.ops.group import factorize_rows
from warpline.ops.join import lookup_rows
from warpline.result.kernel_code import CodeMetric
from warpline.trace import Trace

NO_ROW = -1


@frozen
class CodeValues:
    """Values of metrics at instructions, one row each; several of one instruction add up.

    Attributes:
        kernel: Launch: row of `profiled_kernel`; of samples of the whole program, number in
            `sampled_kernels`; shape (n,).
        function: Number in `functions`, or `NO_ROW` without code, shape (n,).
        instruction: Row of `kernel_instruction`, or `NO_ROW`, shape (n,).
        offset: Bytes from the start of the function, shape (n,).
        metric: Number in `metrics`, shape (n,).
        value: Value, shape (n,).
        metrics: The metrics, in the order in which they are shown.
        is_by_launch: Whether kernels are launches.
    """

    kernel: I64
    function: I64
    instruction: I64
    offset: I64
    metric: I64
    value: F64
    metrics: tuple[CodeMetric, ...]
    is_by_launch: bool

    def __len__(self) -> int:
        return len(self.value)


@derived
def launch_values(trace: Trace) -> CodeValues:
    """Return the values that a report has for the instructions of its launches."""
    if not trace.has("metric_instance") or not trace.has("kernel_instruction"):
        return _gathered([], (), is_by_launch=True)
    metrics = trace.columns("kernel_metric", "profiled_kernel_id", "name_id")
    instances = trace.columns("metric_instance", "kernel_metric_id", "key", "value")
    names = metrics["name_id"].values
    parts = {row: parts_of(trace.strings.text(row)) for row in np.unique(names).tolist()}
    shown = tuple(sorted({name for of in parts.values() for name, _ in of}, key=rank))
    is_meant = np.zeros(len(trace.strings), np.bool_)
    is_meant[[row for row, of in parts.items() if of]] = True
    owner, value = instances["kernel_metric_id"].values, instances["value"].values
    chosen = is_meant[names[owner]] & instances["key"].is_valid() & np.isfinite(value)
    chosen &= instances["value"].is_valid()
    owner, key, value = owner[chosen], instances["key"].values[chosen], value[chosen]
    launch = metrics["profiled_kernel_id"].values[owner].astype(np.int64)
    process = trace.columns("profiled_kernel", "process_id")["process_id"].values[launch]
    code = trace.columns("kernel_instruction", "process_id", "address", "offset_bytes")
    known = np.flatnonzero(code["address"].is_valid())
    place, found = lookup_rows(
        (process.astype(np.int64), key),
        (code["process_id"].values[known].astype(np.int64), code["address"].values[known]),
    )
    owner, launch, value = owner[found], launch[found], value[found]
    row = known[place[found]]
    rows = _Rows(launch, functions(trace).of_row[row], row, code["offset_bytes"].values[row])
    pieces = []
    for text, of in parts.items():
        at = np.flatnonzero(names[owner] == text)
        for name, sign in of:
            taken = at
            if name in IDEALS:
                taken = at[np.isin(launch[at], _launches_with(trace, IDEALS[name]))]
            pieces.append(_Piece(rows.take(taken), shown.index(name), sign * value[taken]))
    return _gathered(pieces, shown, is_by_launch=True)


@frozen
class SampledKernels:
    """Kernels whose program counters were sampled while the whole program ran.

    Processes and GPUs that ran the same kernel are one.

    Attributes:
        of_row: Kernel of each row of `pc_sample`, shape (n,).
        first: A row of `pc_sample` of each kernel, shape (kernels,).
    """

    of_row: I64
    first: I64


@derived
def sampled_kernels(trace: Trace) -> SampledKernels:
    """Return the kernels, by module and function."""
    samples = trace.columns("pc_sample", "module_checksum", "function_id")
    groups = factorize_rows(*(column.values.astype(np.int64) for column in samples.values()))
    return SampledKernels(groups.codes.astype(np.int64), groups.first)


@derived
def sampled_values(trace: Trace) -> CodeValues:
    """Return the samples of instructions while the whole program ran."""
    if not trace.has("pc_sample"):
        return _gathered([], (), is_by_launch=False)
    wanted = ("module_checksum", "function_id", "offset_bytes", "stall_id")
    samples = trace.columns("pc_sample", *wanted, "samples", "not_issued_samples")
    keys = [samples[name].values.astype(np.int64) for name in wanted[:3]]
    function = row = np.full(len(keys[0]), NO_ROW, np.int64)
    if trace.has("kernel_instruction") and trace.row_count("kernel_instruction"):
        code = trace.columns("kernel_instruction", *wanted[:3])
        place, found = lookup_rows(
            keys,
            [
                code["module_checksum"].filled(NO_ROW),
                *(code[name].values.astype(np.int64) for name in wanted[1:3]),
            ],
        )
        row = np.where(found, place, NO_ROW)
        function = np.where(found, functions(trace).of_row[place], NO_ROW)
    rows = _Rows(sampled_kernels(trace).of_row, function, row, keys[2])
    stalls = samples["stall_id"].values
    names = {text: STALLED + trace.strings.text(text) for text in np.unique(stalls).tolist()}
    shown = tuple(sorted({SAMPLES, "samples_not_issued", *names.values()}, key=rank))
    counts = samples["samples"].values.astype(np.float64)
    not_issued = samples["not_issued_samples"].values.astype(np.float64)
    pieces = [
        _Piece(rows, shown.index(SAMPLES), counts),
        _Piece(rows, shown.index("samples_not_issued"), not_issued),
    ]
    for text, name in names.items():
        at = np.flatnonzero(stalls == text)
        pieces.append(_Piece(rows.take(at), shown.index(name), counts[at]))
    return _gathered(pieces, shown, is_by_launch=False)


class _Rows(NamedTuple):
    """Kernel, function, instruction and offset of values."""

    kernel: I64
    function: I64
    instruction: I64
    offset: I64

    def take(self, rows: I64) -> _Rows:
        return _Rows(*(column[rows] for column in self))


class _Piece(NamedTuple):
    """Values of one metric."""

    rows: _Rows
    metric: int
    value: F64


def _gathered(pieces: list[_Piece], names: tuple[str, ...], *, is_by_launch: bool) -> CodeValues:
    empty = np.zeros(0, np.int64)
    rows = [of.rows for of in pieces] or [_Rows(empty, empty, empty, empty)]
    kernel, function, instruction, offset = (
        np.concatenate(columns) for columns in zip(*rows, strict=True)
    )
    return CodeValues(
        kernel,
        function,
        instruction,
        offset,
        np.concatenate([empty, *(np.full(len(of.value), of.metric) for of in pieces)]),
        np.concatenate([np.zeros(0), *(of.value for of in pieces)]),
        tuple(metric_named(name) for name in names),
        is_by_launch,
    )


def _launches_with(trace: Trace, name: str) -> I64:
    """Return the launches that have a metric."""
    metrics = trace.columns("kernel_metric", "profiled_kernel_id", "name_id")
    text = trace.strings.find(name)
    if text is None:
        return np.zeros(0, np.int64)
    rows = metrics["profiled_kernel_id"].values[metrics["name_id"].values == text]
    return np.unique(rows).astype(np.int64)
