"""Sets of metrics that are sampled beside a program, in one pass.

What a chip calls a metric differs, and how many fit in one pass, so a metric of a set has several
spellings, the best first. What does not fit beside the metrics before it is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from warpline.errors import UsageError
from warpline.frozen import frozen

DEFAULT = "general"

_PERCENT = ".avg.pct_of_peak_sustained_elapsed"
_TPC = "TPC.TriageCompute."
_MOST_BYTES = 1 << 16
_MOST_METRICS = 64

Spellings = tuple[str, ...]


@frozen
class SampledSet:
    """Metrics that are sampled together.

    Attributes:
        name: Its name; of a file, its path.
        text: What it is about, in a few words.
        metrics: The spellings of each metric, those first that matter most.
        is_strict: Whether each of them is wanted, or only those that a chip has and that fit.
    """

    name: str
    text: str
    metrics: tuple[Spellings, ...]
    is_strict: bool = False


def _percent(*names: str) -> Spellings:
    return tuple(name + _PERCENT for name in names)


_SM_ACTIVE = _percent("sm__cycles_active")
_ISSUE = _percent("sm__inst_executed_realtime")
_TENSOR = _percent("sm__pipe_tensor_cycles_active_realtime")
_CLOCK = ("gpc__cycles_elapsed.avg.per_second",)
_DRAM_BYTES = (("dram__bytes_read.sum",), ("dram__bytes_write.sum",))

# What fits in one pass was asked of CUPTI 13.0 for GA100, GH100, GB100, AD102 and GB202.
SETS: Mapping[str, SampledSet] = {
    each.name: each
    for each in (
        SampledSet(
            DEFAULT,
            "SM and Tensor Core activity, occupancy, memory, PCIe, clocks",
            (
                _percent("gr__cycles_active"),
                _SM_ACTIVE,
                _percent("sm__warps_active_realtime"),
                _ISSUE,
                _TENSOR,
                _percent("dram__throughput"),
                _percent("dram__read_throughput"),
                _percent("dram__write_throughput"),
                *_DRAM_BYTES,
                ("pcie__read_bytes.sum", "PCI.TriageCompute.pcie__read_bytes.sum"),
                ("pcie__write_bytes.sum", "PCI.TriageCompute.pcie__write_bytes.sum"),
                _CLOCK,
                ("sys__cycles_elapsed.avg.per_second",),
            ),
        ),
        SampledSet(
            "nvlink",
            "NVLink bytes received and sent",
            (
                _SM_ACTIVE,
                _CLOCK,
                ("nvlrx__bytes.sum",),
                ("nvltx__bytes.sum",),
                ("nvlrx__bytes_data_user.sum",),
                ("nvltx__bytes_data_user.sum",),
            ),
        ),
        SampledSet(
            "l2",
            # The hit rates that fit in one pass were half of ncu's on GH100.
            "L2 sectors and requests, memory",
            (
                _SM_ACTIVE,
                _CLOCK,
                ("lts__t_sectors.sum",),
                _percent("lts__t_sectors"),
                ("lts__t_requests.sum",),
                *_DRAM_BYTES,
                _percent("dram__throughput"),
            ),
        ),
        SampledSet(
            "pipes",
            "activity of the SM's pipelines: Tensor Cores, FP64, FP32, FP16, integer, memory",
            (
                _SM_ACTIVE,
                _CLOCK,
                _ISSUE,
                _TENSOR,
                _percent(
                    f"{_TPC}sm__pipe_tensor_op_hmma_cycles_active_realtime",
                    f"{_TPC}sm__pipe_tensor_subpipe_hmma_cycles_active_realtime",
                ),
                _percent(
                    f"{_TPC}sm__pipe_tensor_op_imma_cycles_active_realtime",
                    f"{_TPC}sm__pipe_tensor_subpipe_imma_cycles_active_realtime",
                ),
                _percent(
                    "sm__pipe_fp64_cycles_active",
                    f"{_TPC}sm__pipe_fp64_cycles_active_realtime",
                ),
                _percent(
                    "sm__pipe_fma_cycles_active",
                    f"{_TPC}sm__inst_executed_pipe_fma_realtime",
                    f"{_TPC}sm__pipe_fma_cycles_active_realtime",
                    "sm__inst_executed_pipe_fma_realtime",
                    "sm__inst_executed_pipe_fmaheavy_realtime",
                ),
                _percent("sm__inst_executed_pipe_fma_type_fp16"),
                _percent(
                    f"{_TPC}sm__inst_executed_pipe_alu_realtime",
                    "sm__inst_executed_pipe_alu_realtime",
                    "sm__inst_executed_pipe_alu",
                ),
                _percent(
                    "SM_A.TriageCompute.sm__inst_executed_pipe_xu_realtime",
                    "sm__inst_executed_pipe_xu_realtime",
                    "sm__inst_executed_pipe_xu",
                ),
                _percent("sm__inst_executed_pipe_lsu"),
                _percent("sm__inst_executed_pipe_l1tex_realtime"),
                _percent("l1tex__data_pipe_lsu_wavefronts"),
            ),
        ),
    )
}


def sampled_set(word: str) -> SampledSet:
    """Return a set by its name, or the metrics in a file: one name per line, ``#`` for comments.

    Raises:
        UsageError: There is no such set and no such file, or the file has no metric.
    """
    found = SETS.get(word.lower())
    if found is not None:
        return found
    try:
        with Path(word).open("rb") as file:
            text = file.read(_MOST_BYTES).decode("utf-8")
    except (OSError, ValueError):
        raise UsageError(
            f"there is no set of metrics {word!r}, and no such file",
            hint=f"use {', '.join(SETS)}, or a file with one metric per line",
        ) from None
    lines = (line.partition("#")[0].strip() for line in text.splitlines())
    names = list(dict.fromkeys(filter(None, lines)))
    if not names or len(names) > _MOST_METRICS:
        raise UsageError(
            f"{word} has {len(names) or 'no'} metrics",
            hint=f"write one metric per line, at most {_MOST_METRICS}",
        )
    return SampledSet(word, "", tuple((name,) for name in names), is_strict=True)


@frozen
class Fitting:
    """The metrics of a set that a chip can sample together.

    Attributes:
        names: Their names.
        left_out: The others, by their best spelling, and why.
    """

    names: tuple[str, ...]
    left_out: Mapping[str, str]


def fitting(metrics: Sequence[Spellings], passes: Callable[[Sequence[str]], int]) -> Fitting:
    """Return which metrics take one pass together, the first ones first.

    Args:
        metrics: The spellings of each.
        passes: Returns the passes that metrics take together; 0 if the chip does not have one.
    """
    best = [spellings[0] for spellings in metrics]
    if passes(best) == 1:
        return Fitting(tuple(best), {})
    names: list[str] = []
    left_out: dict[str, str] = {}
    for spellings in metrics:
        counts = []
        for name in spellings:
            counts.append(passes([*names, name]))
            if counts[-1] == 1:
                names.append(name)
                break
        else:
            reason = "the GPU does not have it"
            if max(counts) > 1:
                reason = "it does not fit in one pass with the others"
            left_out[spellings[0]] = reason
    return Fitting(tuple(names), left_out)
