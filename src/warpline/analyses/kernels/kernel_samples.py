"""kernel_samples: kernels by the samples of their program counters."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from warpline.ops.arrays import F64, I32, I64
from warpline.ops.group import factorize, factorize_rows, group_sums
from warpline.result import Arguments, Field, Numbers, Result, Texts, Values, analysis
from warpline.trace import Trace
from warpline.units import Unit

NAME = "kernel_samples"
TITLE = "Kernels by samples"


def _share(name: str, doc: str, heading: str) -> Field:
    return Field(name, Unit.RATIO, doc, heading, 100.0, 1)


FIELDS = (
    Field("kernel", Unit.NONE, "Kernel name.", "Kernel"),
    Field("samples", Unit.NONE, "Number of samples.", "Samples"),
    _share("samples_ratio", "Share of the samples of all kernels.", "Samples (%)"),
    Field("stall", Unit.NONE, "Most frequent stall reason; null if none was sampled.", "Stall"),
    _share("stall_ratio", "Share of the kernel's samples with that reason.", "Stall (%)"),
    _share(
        "issued_ratio",
        "Share of the kernel's samples in whose cycle the scheduler issued an instruction.",
        "Issued (%)",
    ),
    Field("instructions", Unit.NONE, "Number of instructions with samples.", "Instructions"),
)
_PLACE = ("module_checksum", "function_id", "offset_bytes")
_ISSUED = "selected"  # no stall: the warp did issue


@analysis(
    name=NAME,
    title=TITLE,
    fields=FIELDS,
    needs=("pc_sample",),
    missing_hint="sample program counters with warpline kernels --source",
)
def kernel_samples(trace: Trace, arguments: Arguments) -> Result:
    """Kernels by the samples of their program counters, with their most frequent stall reason.

    What it measures: How many samples of warps were in each kernel of the whole recording, and why
        most of its warps did not issue.
    Why it matters: Each busy SM is sampled once in a period: the first kernels are those that take
        most of the GPU, and the stall reason is what their warps wait for.
    How it is computed: Samples of the instructions of all functions with a name are added up, over
        processes and GPUs. The stall reason is the one with most samples, other than selected.
    Limits: A kernel on few SMs has few samples for its time. Kernels that run for less than some
        periods of sampling in all have few samples or none.
    Source: CUPTI's PC sampling.
    """
    rows = trace.columns(
        "pc_sample", "name_id", "stall_id", "function_id", "module_checksum", "offset_bytes"
    )
    counts = trace.columns("pc_sample", "samples", "not_issued_samples")
    samples = counts["samples"].values
    kernels = factorize(rows["name_id"].values)
    of_kernel = group_sums(kernels.codes, samples, kernels.n_groups)
    idle = group_sums(kernels.codes, counts["not_issued_samples"].values, kernels.n_groups)
    places = factorize_rows(kernels.codes, *(rows[name].values for name in _PLACE))
    instructions = np.bincount(kernels.codes[places.first], minlength=kernels.n_groups)
    names = trace.strings.texts(kernels.uniques.tolist())
    stalls = factorize(rows["stall_id"].values)
    reasons = trace.strings.texts(stalls.uniques.tolist())
    stall, of_stall = _main_stalls(kernels.codes, stalls.codes, samples, reasons, kernels.n_groups)
    order = np.lexsort((_ranks(names), -of_kernel))
    is_stalled = stall >= 0
    all_samples = np.full_like(of_kernel, samples.sum())
    values: dict[str, Values] = {
        "kernel": Texts(order.astype(np.int32), names),
        "samples": Numbers(of_kernel[order]),
        "samples_ratio": Numbers(_ratio(of_kernel, all_samples)[order]),
        "stall": Texts(stall[order].astype(np.int32), reasons),
        "stall_ratio": Numbers(_ratio(of_stall, of_kernel)[order], is_stalled[order]),
        # Damaged files may have more of them than there are.
        "issued_ratio": Numbers(np.maximum(1 - _ratio(idle, of_kernel)[order], 0.0)),
        "instructions": Numbers(instructions[order].astype(np.int64)),
    }
    return Result(NAME, TITLE, FIELDS, values, ("kernel",))


def _main_stalls(
    kernels: I32, stalls: I32, samples: I64, reasons: Sequence[str], n_kernels: int
) -> tuple[I64, I64]:
    """Return the most frequent stall reason of each kernel, -1 without any, and its samples.

    Args:
        kernels: Shape (n,), kernel of each row.
        stalls: Shape (n,), place in `reasons` of each row.
        samples: Shape (n,).
        reasons: Texts.
        n_kernels: Number of kernels.
    """
    found, of_stall = np.full(n_kernels, -1, np.int64), np.zeros(n_kernels, np.int64)
    if not len(samples):
        return found, of_stall
    pairs = factorize_rows(kernels, stalls)
    sums = group_sums(pairs.codes, samples, pairs.n_groups)
    kernel, stall = kernels[pairs.first], stalls[pairs.first]
    is_stall = np.array([reason != _ISSUED for reason in reasons])[stall] & (sums > 0)
    # The last one of a kernel in this order is its largest; of equal ones the first by name.
    order = np.lexsort((-_ranks(reasons)[stall], sums))
    order = order[is_stall[order]]
    found[kernel[order]], of_stall[kernel[order]] = stall[order], sums[order]
    return found, of_stall


def _ranks(texts: Sequence[str]) -> I64:
    """Return the place of each text in their alphabetical order."""
    ranks = np.empty(len(texts), np.int64)
    ranks[sorted(range(len(texts)), key=texts.__getitem__)] = np.arange(len(texts))
    return ranks


def _ratio(parts: I64, of: I64) -> F64:
    """Return parts of numbers; 0 where these are 0."""
    return parts / np.maximum(of, 1)
