"""unfused-attention: attention computed in pieces, GEMM by GEMM."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.breakdown.step_scope import StepScope, step_scope
from warpline.derived.efficiency.attention import (
    AttentionGroups,
    attention_groups,
    copies_beside_attention,
)
from warpline.derived.efficiency.elementwise import memory_rates
from warpline.derived.efficiency.peaks import peaks_of_devices
from warpline.derived.efficiency.products import Arithmetic, products
from warpline.derived.efficiency.stream_order import kernels_by_stream
from warpline.derived.severity import severity_of
from warpline.derived.work.operations import operations
from warpline.estimate import Estimate
from warpline.ops.arrays import F64, I64, BoolArray
from warpline.ops.group import distinct_values
from warpline.result import Finding, rule
from warpline.result.changes import Change, DropOperations, SetDurations
from warpline.trace import Run, Trace
from warpline.units import format_ns, format_ratio, plural

NAME = "unfused-attention"
TITLE = "Attention is computed in pieces"

# Of the peak that a fused kernel reaches; the shortest time is that of the highest share. Hopper
# and later: published times of FlashAttention-2, FlashAttention-3, and cuDNN on H100. Before:
# FlashAttention-2 on A100.
_FORWARD = Estimate(0.22, 0.42, 0.63)
_BACKWARD = Estimate(0.20, 0.35, 0.55)
_FORWARD_BEFORE_HOPPER = Estimate(0.40, 0.60, 0.73)
_BACKWARD_BEFORE_HOPPER = Estimate(0.30, 0.50, 0.63)
_HOPPER = 9  # compute capability
_FLOP_FORWARD, _FLOP_BACKWARD = 4, 10  # per score and element of a head: two and five GEMMs
_HEAD_DIMS = Estimate(64, 90, 128)  # where unknown
# Causal attention computes half of the scores, at 0.8 of the speed.
_CAUSAL = 0.5 / 0.8
_MAYBE_CAUSAL = 0.7
_SHORTEST_NS = 4_000
_TENSORS_FORWARD, _TENSORS_BACKWARD = 4, 8  # of rows x head dimension, read or written once
_ELEMENT_BYTES = 2
_STAYS_AT_WORST = Estimate(0.0, 0.0, 1.0)


@rule(name=NAME, title=TITLE)
def unfused_attention(run: Run) -> list[Finding]:
    """A softmax between GEMMs, instead of one fused attention kernel.

    What it finds: Softmax kernels with GEMMs before and after them in their stream, and only
        elementwise kernels and copies between, if they take at least 5% of the step together.
    Why it matters: The scores, one for each pair of a query and a key, are written to memory and
        read again by each kernel. A fused kernel keeps them on the chip.
    How it is found: By kernel names and order. The size of the scores follows from the grids of the
        softmax kernel and of an elementwise kernel next to it. Predicted is a fused kernel at 0.22
        to 0.63 (forward, H100) of the GPU's peak for the FLOP of the scores; on A100 at 0.40 to
        0.73. The upper bound of the saving assumes causal attention, the lower bound does not.
    What to do: Call scaled_dot_product_attention, or let the model use it.
    Limits: Not possible where the attention weights are returned. Some masks select a slower
        fused kernel. The head dimension is unknown if no kernel nearby works on queries, keys, or
        values: 64 to 128 is assumed. Softmax kernels that Triton or XLA compiled are not detected.
    Source: The times of FlashAttention-2 (arXiv 2307.08691) and FlashAttention-3 (arXiv
        2407.08608). Checked on synthetic recordings and on one public recording, without a fused
        counterpart to compare with.
    """
    trace, scope = run.trace, step_scope(run)
    groups = attention_groups(trace)
    members = np.zeros(len(operations(trace)), np.bool_)
    order = kernels_by_stream(trace)
    members[order[groups.members(order)]] = True
    weight = scope.weigh(members)
    if not weight.is_measurable:
        return []
    many = plural(max(round(weight.number), 1), "kernel")
    return [
        Finding(
            NAME,
            severity_of(weight.share),
            f"Unfused attention takes {format_ratio(weight.share)} of the time",
            f"Attention in pieces, {many}{scope.each}, takes {weight.time}."
            f" {_sizes(groups, scope)}",
            (scope.show_operations(f"{many}{scope.each} in {format_ns(weight.ns)}", members),),
            "Use torch.nn.functional.scaled_dot_product_attention (in Transformers,"
            " attn_implementation='sdpa' or 'flash_attention_2') if the attention weights are not"
            " needed. Pass is_causal=True instead of a causal mask.",
            "Profile again: `warpline stats -r kernel_class_sum` shows kernels of the category"
            " attention.",
            fix_cuda="Use cuDNN's fused attention (sdpa), FlashAttention, or a CUTLASS kernel for"
            " fused multi-head attention.",
            fix_in={
                "jax": "Use jax.nn.dot_product_attention(..., implementation='cudnn') if the"
                " attention weights are not needed."
            },
            changes=_changes(trace, groups, members),
            on_devices=weight.on_devices,
        )
    ]


def _sizes(groups: AttentionGroups, scope: StepScope) -> str:
    """Return a sentence on the sizes of the largest group, and what the estimate assumes."""
    is_counted = scope.operations[groups.softmax]
    largest = int(np.where(is_counted, groups.rows * groups.columns, 0).argmax())
    head, columns = int(groups.head_dim[largest]), int(groups.columns[largest])
    about = "" if columns == groups.least_columns[largest] else "at most "
    heads = f"heads of {head} elements" if head else "heads of unknown size"
    return (
        f"Scores have {int(groups.rows[largest]):,} rows and {about}{columns:,} columns, with"
        f" {heads}. {_assumption(scope.run.trace, groups)}"
    )


def _assumption(trace: Trace, groups: AttentionGroups) -> str:
    if groups.is_causal.any() or _makes_causal_masks(trace):
        return "The estimate assumes causal attention."
    if groups.is_masked.any():
        return "The saving is larger if the mask is causal."
    return "The estimate assumes attention without a causal mask."


@derived
def _makes_causal_masks(trace: Trace) -> bool:
    """Return whether a kernel anywhere makes triangular matrices."""
    if not trace.has("kernel"):
        return False
    ids = distinct_values(trace.columns("kernel", "name_id")["name_id"].values)
    return any("triu_tril_kernel" in text for text in trace.strings.texts(ids.tolist()))


class _Fused(NamedTuple):
    """Durations of fused kernels, each of shape (groups,)."""

    low_ns: F64
    central_ns: F64
    high_ns: F64


def _changes(trace: Trace, groups: AttentionGroups, members: BoolArray) -> tuple[Change, ...]:
    """Return what fused kernels change; nothing on GPUs with unknown peaks."""
    work, limits = operations(trace), peaks_of_devices(trace)
    peak, rate = _peak(trace, groups), _memory_rate(trace, groups)
    if not len(groups) or not (peak > 0).all():
        return ()
    major = limits.compute_major[work.device[groups.softmax]]
    is_late = (major >= _HOPPER) | (major == 0)  # the slower, where unknown
    now = _durations(trace, groups)
    fused = _fused(trace, groups, peak, rate, is_late)
    # At worst, a program keeps its kernels.
    low, central, high = (np.minimum(np.rint(part), now).astype(np.int64) for part in fused)
    others = np.setdiff1d(np.flatnonzero(members), groups.softmax)
    changes: list[Change] = [
        SetDurations(groups.softmax, low, central, high),
        DropOperations(others),
    ]
    copies = copies_beside_attention(trace)
    if len(copies):
        changes.append(DropOperations(copies, remaining=_STAYS_AT_WORST))
    return tuple(changes)


def _durations(trace: Trace, groups: AttentionGroups) -> I64:
    """Return the time of the kernels of each group."""
    work, order = operations(trace), kernels_by_stream(trace)
    total = np.append(0, np.cumsum((work.end_ns - work.start_ns)[order]))
    durations: I64 = total[groups.last + 1] - total[groups.first]
    return durations


def _peak(trace: Trace, groups: AttentionGroups) -> F64:
    """Return the peak FLOP per second that a fused kernel of each group may use; 0 if unknown."""
    work, order = operations(trace), kernels_by_stream(trace)
    product = order[groups.first]
    is_plain = products(trace).fact("arithmetic")[product] == int(Arithmetic.PLAIN)
    peaks = np.zeros((len(peaks_of_devices(trace).model) + 1, 2))
    for device, model in enumerate(peaks_of_devices(trace).model):
        if model is not None:
            peaks[device] = model.half_flop_per_s or model.fp32_flop_per_s, model.fp32_flop_per_s
    of_group: F64 = peaks[work.device[product], is_plain.astype(np.int64)]
    return of_group


def _memory_rate(trace: Trace, groups: AttentionGroups) -> F64:
    rates = [rate.central if rate else np.inf for rate in memory_rates(trace)]
    of_group: F64 = np.array([*rates, np.inf])[operations(trace).device[groups.softmax]]
    return of_group


def _fused(
    trace: Trace, groups: AttentionGroups, peak: F64, rate: F64, is_late: BoolArray
) -> _Fused:
    """Return the times of fused kernels: for their FLOP, but at least to read and write once."""
    is_known = groups.is_causal | _makes_causal_masks(trace)
    maybe = np.where(groups.is_masked, _MAYBE_CAUSAL, 1.0)
    part_done = (_CAUSAL, np.where(is_known, _CAUSAL, maybe), 1.0)
    columns = (groups.least_columns, groups.columns, groups.columns)
    times = []
    for place in range(3):
        head = np.where(groups.head_dim > 0, groups.head_dim, _HEAD_DIMS[place])
        flop = np.where(groups.is_backward, _FLOP_BACKWARD, _FLOP_FORWARD) * head
        flop = flop * groups.rows * columns[place] * part_done[place]
        reached = np.where(
            groups.is_backward,
            np.where(is_late, _BACKWARD[-1 - place], _BACKWARD_BEFORE_HOPPER[-1 - place]),
            np.where(is_late, _FORWARD[-1 - place], _FORWARD_BEFORE_HOPPER[-1 - place]),
        )
        tensors = np.where(groups.is_backward, _TENSORS_BACKWARD, _TENSORS_FORWARD)
        moved = tensors * groups.rows * head * _ELEMENT_BYTES
        computed = flop / (reached * peak) * 1e9
        times.append(np.maximum(np.maximum(computed, moved / rate * 1e9), _SHORTEST_NS))
    return _Fused(*times)
