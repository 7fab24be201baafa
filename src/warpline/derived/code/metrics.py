"""What is known of instructions: samples, executions and memory accesses, from metrics of ncu."""

from __future__ import annotations

from warpline.derived.counters.instructions import EXECUTED, STALL
from warpline.result.kernel_code import CodeMetric

NOT_ISSUED = "_not_issued"
SAMPLES = "samples"
STALLED = "stall_"
OWN_STALL = f"{STALLED}selected"


_COUNTS = (
    CodeMetric("executed", "Executed", "inst", has_all=True),
    CodeMetric("thread_executed", "Thread executed", "inst", has_all=True),
    CodeMetric("thread_executed_on", "Predicated-on thread executed", "inst", has_all=True),
    CodeMetric("divergent_branches", "Divergent branches", "branch"),
    CodeMetric("tag_requests_global", "L1 tag requests", "request"),
    CodeMetric("sectors_global", "L2 sectors, global", "sector"),
    CodeMetric("excess_sectors_global", "Excess L2 sectors, global", "sector"),
    CodeMetric("sectors_local", "L2 sectors, local", "sector"),
    CodeMetric("wavefronts_shared", "Wavefronts, shared", "wavefront"),
    CodeMetric("excess_wavefronts_shared", "Excess wavefronts, shared", "wavefront"),
)
_NOT_ISSUED_SAMPLES = CodeMetric("samples_not_issued", "Not issued", "sample", has_all=True)
_SAMPLES = CodeMetric(SAMPLES, "Samples", "sample", has_all=True)
_RANK = {
    metric.name: place for place, metric in enumerate((_SAMPLES, _NOT_ISSUED_SAMPLES, *_COUNTS))
}
_NAMED = {metric.name: metric for metric in (_SAMPLES, _NOT_ISSUED_SAMPLES, *_COUNTS)}

_SECTORS, _WAVEFRONTS = "memory_l2_theoretical_sectors_global", "memory_l1_wavefronts_shared"
# Metric of ncu -> what it adds to. An excess is what was needed less the ideal.
_PARTS: dict[str, tuple[tuple[str, int], ...]] = {
    EXECUTED: (("executed", 1),),
    "thread_inst_executed": (("thread_executed", 1),),
    "thread_inst_executed_true": (("thread_executed_on", 1),),
    "smsp__branch_targets_threads_divergent": (("divergent_branches", 1),),
    "memory_l1_tag_requests_global": (("tag_requests_global", 1),),
    _SECTORS: (("sectors_global", 1), ("excess_sectors_global", 1)),
    f"{_SECTORS}_ideal": (("excess_sectors_global", -1),),
    "memory_l2_theoretical_sectors_local": (("sectors_local", 1),),
    _WAVEFRONTS: (("wavefronts_shared", 1), ("excess_wavefronts_shared", 1)),
    f"{_WAVEFRONTS}_ideal": (("excess_wavefronts_shared", -1),),
}
IDEALS = {
    "excess_sectors_global": f"{_SECTORS}_ideal",
    "excess_wavefronts_shared": f"{_WAVEFRONTS}_ideal",
}
"""An excess is known where its ideal is."""


def parts_of(name: str) -> tuple[tuple[str, int], ...]:
    """Return the metrics of code that a metric of ncu adds to, and with which sign."""
    if not name.startswith(STALL):
        return _PARTS.get(name, ())
    stall = name.removeprefix(STALL)
    if stall.endswith(NOT_ISSUED):
        return ((_NOT_ISSUED_SAMPLES.name, 1),)
    return ((SAMPLES, 1), (STALLED + stall, 1))


def metric_named(name: str) -> CodeMetric:
    """Return a metric of code."""
    if not name.startswith(STALLED):
        return _NAMED[name]
    return CodeMetric(name, stall_label(name.removeprefix(STALLED)), "sample", has_all=True)


def rank(name: str) -> tuple[int, str]:
    """Return the place of a metric among others: samples, counts, then reasons of stalls."""
    return _RANK.get(name, len(_RANK)), name


def stall_label(stall: str) -> str:
    """Return the reason of a stall as ncu labels it."""
    return stall.replace("_", " ").capitalize()
