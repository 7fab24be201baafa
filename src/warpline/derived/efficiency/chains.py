"""Chains of elementwise kernels on tensors of one size, and what they take when fused."""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.efficiency.attention import attention_groups
from warpline.derived.efficiency.elementwise import elementwise_work, memory_rates
from warpline.derived.efficiency.elementwise_names import ElementwiseKind
from warpline.derived.efficiency.peaks import peaks_of_devices
from warpline.derived.efficiency.stream_order import kernels_by_stream
from warpline.derived.steps.times import step_of_operations
from warpline.derived.work.operations import operations
from warpline.lazy import lazy_pattern
from warpline.ops.arrays import F64, I64, BoolArray, Integers
from warpline.ops.group import distinct_values
from warpline.trace import Run, Trace

_SAME_ELEMENTS = 4_096  # grids round up
_SHORTEST_NS = 4_000  # shorter kernels are bound by their launch
_TRANSPOSES_BELOW = 0.4  # of the peak bandwidth: a slower strided copy transposes
_LEAST_PERIOD = 2
_LONGEST = 64  # kernels that compilers fuse into one
# Instructions per element, of which an SM executes 128 per clock.
_PLAIN_INSTRUCTIONS, _MANY_INSTRUCTIONS = 4, 40
_PER_SM_AND_CLOCK = 128
_USUAL_CLOCK_HZ = 1.5e9
_BACKWARD = lazy_pattern(r"backward|bwd|bprop|dgrad|wgrad|_bw_", re.IGNORECASE)


class Chains(NamedTuple):
    """Chains of elementwise kernels, and the times of one fused kernel for each.

    Attributes:
        kernel: Shape (n,), int64, indices into `operations`, chain by chain.
        first: Shape (chains,), int64, the place in `kernel` where each chain begins.
        low_ns: Shape (chains,), int64, if the fused kernel reads and writes one tensor.
        central_ns: Shape (chains,), int64.
        high_ns: Shape (chains,), int64, if all inputs from outside differ, and, in training, every
            result is written for the backward pass.
    """

    kernel: I64
    first: I64
    low_ns: I64
    central_ns: I64
    high_ns: I64

    def __len__(self) -> int:
        return len(self.first)


@derived
def elementwise_chains(run: Run) -> Chains:
    """Return the chains of two or more elementwise kernels.

    They follow each other in a stream and a step, write equally many elements, and take 4 us or
    more each. Kernels inside attention that is computed in pieces and transposing copies do not
    count. If the names of a run repeat, each repetition is a chain; one name over and over is not.
    """
    trace = run.trace
    if not elementwise_work(trace).elements.any():
        none = np.zeros(0, np.int64)
        return Chains(none, none, none, none, none)
    kernel, low = _runs(run)
    names, high = elementwise_work(trace).name[kernel], np.append(low, len(kernel))[1:]
    if not len(low):
        return Chains(kernel, low, low, low, low)
    differ = np.logical_or.reduceat(names != np.repeat(names[low], high - low), low)
    # Too short to repeat anything but one name.
    is_short = high - low < 2 * _LEAST_PERIOD
    short = np.stack((low, high), axis=1)[is_short & differ]
    pieces = np.concatenate((short, _pieces(names, low[~is_short], high[~is_short])))
    pieces = pieces[np.argsort(pieces[:, 0])]
    count = pieces[:, 1] - pieces[:, 0]
    first = np.cumsum(count) - count
    places = np.repeat(pieces[:, 0] - first, count) + np.arange(int(count.sum()))
    return Chains(kernel[places], first, *_fused(trace, kernel[places], first))


def _pieces(names: Integers, lows: I64, highs: I64) -> I64:
    """Return the bounds of the chains in runs of four or more kernels, shape (chains, 2)."""
    pieces: list[tuple[int, int]] = []
    periods: dict[bytes, int] = {}
    for low, high in zip(lows.tolist(), highs.tolist(), strict=True):
        key = names[low:high].tobytes()
        if key not in periods:
            periods[key] = _period(names[low:high])
        period = periods[key]
        if period >= _LEAST_PERIOD:
            pieces += [(at, min(at + period, high)) for at in range(low, high, period)]
    whole = [(at, end) for at, end in pieces if end - at >= _LEAST_PERIOD]
    return np.array(whole, np.int64).reshape(-1, 2)


def _runs(run: Run) -> tuple[I64, I64]:
    """Return kernels in runs of two or more, and where each run begins."""
    trace = run.trace
    work, moved, order = operations(trace), elementwise_work(trace), kernels_by_stream(trace)
    fits = (moved.kind[order] >= 0) & (moved.elements[order] > 0) & (moved.bytes[order] > 0)
    fits &= (work.end_ns - work.start_ns)[order] >= _SHORTEST_NS
    fits &= ~_transposes(trace)[order]
    fits &= ~attention_groups(trace).members(order)
    device, stream = work.device[order], work.stream[order]
    step, elements = step_of_operations(run)[order], moved.elements[order]
    same = fits[1:] & fits[:-1] & (device[1:] == device[:-1]) & (stream[1:] == stream[:-1])
    same &= (step[1:] == step[:-1]) & (np.abs(np.diff(elements)) <= _SAME_ELEMENTS)
    follows, leads = np.append(False, same), np.append(same, False)
    inside = (follows | leads)[: len(order)]
    starts = np.flatnonzero(~follows[: len(order)][inside])
    return order[inside], starts


def _transposes(trace: Trace) -> BoolArray:
    """Return which strided copies are too slow to read or write in order."""
    work, moved, limits = operations(trace), elementwise_work(trace), peaks_of_devices(trace)
    is_strided_copy = moved.is_copy & (moved.kind == ElementwiseKind.STRIDED)
    peak = limits.bytes_per_s[work.device] if len(limits.bytes_per_s) else np.zeros(len(work))
    rate = moved.bytes * 1e9 / np.maximum(work.end_ns - work.start_ns, 1)
    transposes: BoolArray = is_strided_copy & (rate < _TRANSPOSES_BELOW * peak)
    return transposes


def _period(names: I64) -> int:
    """Return how many kernels of a run belong to one chain, at most 64; 1 if all are equal."""
    for period in range(1, min(len(names) // 2, _LONGEST) + 1):
        if (names[period:] == names[:-period]).all():
            return period
    return min(len(names), _LONGEST)


def _fused(trace: Trace, kernel: I64, first: I64) -> tuple[I64, I64, I64]:
    """Return the durations of one fused kernel for each chain: low, central, and high."""
    if not len(first):
        return first, first, first
    work, moved, limits = operations(trace), elementwise_work(trace), peaks_of_devices(trace)
    device = work.device[kernel[first]]
    now = np.add.reduceat((work.end_ns - work.start_ns)[kernel], first)
    size, inputs = moved.bytes[kernel], moved.fact("inputs")[kernel]
    count = np.diff(np.append(first, len(kernel)))
    bytes_now, read = np.add.reduceat(size, first), np.add.reduceat(inputs, first)
    outer = np.maximum(read - count + 1, 1)  # the others read what the chain wrote
    tensor = bytes_now / (read + count)
    written = (1, np.sqrt(count), count) if _is_training(trace) else (1, 1, 1)
    rates = _rates(trace)[device]
    is_cached = np.maximum.reduceat(size, first) * 2 < limits.l2_bytes[device]
    times = []
    for place, tensors_read in enumerate((1, np.sqrt(outer), outer)):
        bytes_fused = np.minimum((tensors_read + written[place]) * tensor, bytes_now)
        at_rate = bytes_fused * 1e9 / rates[:, 2 - place]
        time = np.where(is_cached, now * bytes_fused / bytes_now, at_rate)
        if place == 2:
            time = np.maximum(time, _instruction_ns(trace, kernel, first))
        time = np.minimum(time, now)
        times.append(np.rint(time).astype(np.int64))
    low, central, high = times
    return low, np.maximum(central, low), np.maximum(high, central)


def _rates(trace: Trace) -> F64:
    """Return the bounds of each GPU's bytes per second; infinite where unknown."""
    unknown = (np.inf, np.inf, np.inf)
    return np.array([*(rate or unknown for rate in memory_rates(trace)), unknown], np.float64)


def _instruction_ns(trace: Trace, kernel: I64, first: I64) -> F64:
    """Return the time of the instructions of each chain; 0 if the number of SMs is unknown."""
    moved, limits = elementwise_work(trace), peaks_of_devices(trace)
    device = operations(trace).device[kernel[first]]
    each = np.where(
        moved.fact("is_transcendental")[kernel] > 0, _MANY_INSTRUCTIONS, _PLAIN_INSTRUCTIONS
    )
    instructions = np.add.reduceat(each * moved.elements[kernel].astype(np.float64), first)
    clock = np.where(limits.clock_hz > 0, limits.clock_hz, _USUAL_CLOCK_HZ)[device]
    rate = limits.sm_count[device] * _PER_SM_AND_CLOCK * clock
    return np.where(rate > 0, instructions * 1e9 / np.maximum(rate, 1), 0.0)


@derived
def _is_training(trace: Trace) -> bool:
    """Return whether a kernel's name says that it computes gradients."""
    if not trace.has("kernel"):
        return False
    ids = distinct_values(trace.columns("kernel", "name_id")["name_id"].values)
    return any(_BACKWARD.search(text[:4096]) for text in trace.strings.texts(ids.tolist()))
