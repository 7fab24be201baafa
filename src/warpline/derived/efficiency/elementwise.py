"""Elements, bytes and speed of elementwise kernels, from their names and grids."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from warpline.derived import derived
from warpline.derived.efficiency.elementwise_names import (
    ElementwiseKind,
    ElementwiseName,
    elementwise_name,
)
from warpline.derived.efficiency.launch_shapes import launch_shapes
from warpline.derived.efficiency.peaks import peaks_of_devices
from warpline.derived.kernels.named import names_of_operations
from warpline.derived.work.operations import operations
from warpline.estimate import Estimate
from warpline.ops.arrays import F64, I8, I32, I64, BoolArray, repeated
from warpline.ops.group import distinct_values
from warpline.trace import Trace

_ABOVE_PEAK = 1.02  # of the data sheet's bandwidth: clocks differ a little
_LEAST_OF_PEAK = 0.6  # slower kernels are not bound by memory
_OF_PEAK = Estimate(0.80, 0.90, 0.93)  # vectorized kernels, in recordings of H100 and H200
_QUARTER_FASTEST = 75  # percentile
_FASTEST = 95
# Kernels that move this many times the L2 cache are bound by DRAM; at half of that, they are not
# much faster.
_BEYOND_L2 = 4
_NEARLY_BEYOND_L2 = 2
_MANY, _FEW = 8, 4  # elements of a thread of vectorized kernels, in new and in old PyTorch
_MANY_OF_BYTES = 16


@dataclass(frozen=True)
class ElementwiseWork:
    """The elementwise kernels among the GPU operations.

    Attributes:
        names: What the distinct names say; None for other kernels.
        name: Shape (operations,), int32, places in `names`, -1 for operations that are no kernels.
        elements: Shape (operations,), int64, elements of the written tensor, too many by less than
            `slack`; 0 for other operations.
        slack: Shape (operations,), int64, elements of a block.
        bytes: Shape (operations,), int64, bytes read and written; 0 if unknown.
        kind: Shape (operations,), int8, members of `ElementwiseKind`, -1 for other operations.
        is_copy: Shape (operations,), bool, whether it only copies or casts.
    """

    names: tuple[ElementwiseName | None, ...]
    name: I32
    elements: I64
    slack: I64
    bytes: I64
    kind: I8
    is_copy: BoolArray

    def fact(self, attribute: str) -> I64:
        """Return an attribute of each operation's name, shape (operations,), 0 without one."""
        values = _of_names(self.names, attribute, 0)
        return values[self.name] if values.any() else repeated(values[:1], len(self.name))


@derived
def elementwise_work(trace: Trace) -> ElementwiseWork:
    """Return the sizes of the elementwise kernels of a trace.

    Elements are blocks x threads x elements per thread. Vectorized kernels do not give the last:
    it is 4 in old PyTorch. In new PyTorch, whose longest vectors have 8 elements or more, it is 16
    for one-byte elements and 8 for two-byte elements. For longer ones it is 8, unless that would
    exceed the peak memory bandwidth.
    """
    name, distinct = names_of_operations(trace)
    # The last entry stands for operations that are no kernels.
    names = (*map(elementwise_name, trace.strings.texts(distinct.tolist())), None)
    if not any(names):
        return _none(len(name))
    shapes = launch_shapes(trace)
    threads = shapes.blocks * shapes.block_threads
    per_thread, size = _of_names(names, "per_thread", 0), _of_names(names, "bytes_per_element", 0)
    kind = _of_names(names, "kind", -1)
    is_vectorized = kind == ElementwiseKind.VECTORIZED
    per_thread[is_vectorized] = _per_vectorized_thread(trace, names, name, threads)[is_vectorized]
    elements = threads * per_thread[name]
    return ElementwiseWork(
        names,
        name,
        elements,
        shapes.block_threads * per_thread[name],
        elements * size[name],
        kind[name].astype(np.int8),
        _of_names(names, "is_copy", 0)[name] > 0,
    )


@derived
def memory_rates(trace: Trace) -> tuple[Estimate | None, ...]:
    """Return the bytes per second that vectorized kernels reach on each GPU; None if unknown.

    It is what three quarters of the large vectorized kernels of the trace exceed or reach, or else
    a share of the peak.
    """
    limits, moved = peaks_of_devices(trace), elementwise_work(trace)
    work = operations(trace)
    is_large = _is_large(trace, moved.bytes, _BEYOND_L2)
    is_large &= moved.kind == ElementwiseKind.VECTORIZED
    rate = _rates(trace, moved.bytes)
    rates: list[Estimate | None] = [
        Estimate(*(of * peak for of in _OF_PEAK)) if peak else None
        for peak in limits.bytes_per_s.tolist()
    ]
    for device in distinct_values(work.device[is_large]).tolist():
        peak = int(limits.bytes_per_s[device])
        of_device = rate[is_large & (work.device == device)]
        reached = float(np.percentile(of_device, _QUARTER_FASTEST))
        if _LEAST_OF_PEAK * peak <= reached <= _ABOVE_PEAK * peak:
            rates[device] = Estimate(reached, reached, reached)
    return tuple(rates)


def _none(count: int) -> ElementwiseWork:
    """Return what operations without elementwise kernels have."""
    zeros, no = np.zeros(count, np.int64), np.zeros(count, np.bool_)
    none = np.full(count, -1, np.int8)
    return ElementwiseWork((None,), none.astype(np.int32), zeros, zeros, zeros, none, no)


def _per_vectorized_thread(
    trace: Trace, names: tuple[ElementwiseName | None, ...], name: I32, threads: I64
) -> I64:
    """Return the elements of a thread of each name, if it is a vectorized kernel."""
    narrow = np.minimum(*(_narrowest(names, of) for of in ("input_bytes", "output_bytes")))
    is_new = int(_of_names(names, "vector", 0).max(initial=0)) > _FEW
    per_thread = np.where(is_new, np.where(narrow == 1, _MANY_OF_BYTES, _MANY), _FEW)
    # Four-byte elements have equal names in old and new PyTorch.
    is_wide = (_of_names(names, "kind", -1) == ElementwiseKind.VECTORIZED) & (narrow >= _FEW)
    size = _of_names(names, "bytes_per_element", 0)
    moved = np.where(is_wide, size, 0)[name] * threads * _MANY
    is_large = _is_large(trace, moved, _NEARLY_BEYOND_L2)
    if is_large.any():
        peak = peaks_of_devices(trace).bytes_per_s[operations(trace).device[is_large]]
        of_peak = _rates(trace, moved)[is_large] / np.maximum(peak, 1)
        fits = float(np.percentile(of_peak, _FASTEST)) <= _ABOVE_PEAK
        per_thread[is_wide] = _MANY if fits else _FEW
    return per_thread.astype(np.int64)


def _is_large(trace: Trace, moved: I64, beyond_l2: int) -> BoolArray:
    limits, device = peaks_of_devices(trace), operations(trace).device
    if not len(limits.l2_bytes):
        return np.zeros(len(moved), np.bool_)
    known: BoolArray = limits.bytes_per_s[device] > 0
    return known & (moved >= beyond_l2 * limits.l2_bytes[device])


def _rates(trace: Trace, moved: I64) -> F64:
    """Return bytes per second of each operation."""
    work = operations(trace)
    rates: F64 = moved * 1e9 / np.maximum(work.end_ns - work.start_ns, 1)
    return rates


def _narrowest(names: tuple[ElementwiseName | None, ...], attribute: str) -> I64:
    """Return a size of each name; a large number where there is none."""
    size = _of_names(names, attribute, 0)
    return np.where(size > 0, size, _MANY_OF_BYTES)


def _of_names(names: tuple[ElementwiseName | None, ...], attribute: str, missing: int) -> I64:
    values = [missing if each is None else int(getattr(each, attribute)) for each in names]
    return np.array(values, np.int64)
