"""pcie-saturated: the PCIe link of a GPU is at its peak for much of the time."""

from __future__ import annotations

from typing import NamedTuple

from warpline.derived.breakdown.partition import step_partition
from warpline.derived.health.shown import gpus_in_words
from warpline.derived.metrics.known import RATE, KnownSeries, known_series
from warpline.derived.severity import MEASURABLE_RATIO
from warpline.derived.work.pcie import pcie_bytes_per_s
from warpline.ops.interval import intersect, total, union
from warpline.result import Evidence, Finding, rule
from warpline.trace import Run, Trace
from warpline.units import format_ratio

NAME = "pcie-saturated"
TITLE = "PCIe bandwidth limits the program"

# Of a link's rate: packet headers and flow control take the rest, at 55 of 63 GB/s on an H100.
_AT_PEAK = 0.8
_SHOWN = 5
_DIRECTIONS = {"pcie_rx": "to", "pcie_tx": "from"}


class _Saturated(NamedTuple):
    """How long a link is at its peak.

    Attributes:
        device: Row of the device table.
        direction: ``to`` or ``from`` the GPU.
        share: Time at the peak as a share of the analyzed time that was sampled.
        shown: Start and end of the first samples at the peak.
    """

    device: int
    direction: str
    share: float
    shown: tuple[tuple[int, int], ...]


@rule(name=NAME, title=TITLE)
def pcie_saturated(run: Run) -> list[Finding]:
    """PCIe links at 80% or more of their rate for at least 5% of the time.

    What it finds: Samples of the PCIe traffic of a GPU, in either direction, at 80% or more of what
        its link can do, for at least 5% of the steps.
    Why it matters: Faster copies are not possible then, whether from pinned memory or not, in one
        call or in many. Only fewer bytes help, or work to do meanwhile.
    How it is found: By sampled metrics: the share of the peak, or bytes compared with the highest
        generation and width of the link. Payload does not reach the rate of the lanes: copies of an
        H100 reach 55 of 63 GB/s.
    What to do: Copy fewer bytes: smaller types, less padding, data that stays on the GPU. Or
        overlap copies with kernels.
    Limits: Needs sampled metrics, and for bytes also the link of the GPU, which readings of its
        state have. Traffic of other programs on the GPU counts, too. No saving is estimated: the
        rule exposed-copies has that of overlap.
    Source: PCI Express Base Specification (rates per lane). Synthetic recordings.
    """
    peaks: dict[tuple[int, str], tuple[KnownSeries, float]] = {}
    for (device, meaning), series in known_series(run.trace).items():
        direction = _DIRECTIONS.get(meaning.removesuffix(RATE)) if device >= 0 else None
        if direction is None:
            continue
        peak = _peak_rate(run.trace, device) if meaning.endswith(RATE) else 1.0
        if peak > 0:
            peaks[device, direction] = series, peak
    found = [_saturated(run, *key, *peaks[key]) for key in sorted(peaks)]
    return [_finding(run, each) for each in found if each.share >= MEASURABLE_RATIO]


def _peak_rate(trace: Trace, device: int) -> float:
    """Return the rate of a GPU's link in bytes per second at its best; 0 if unknown."""
    columns = trace.columns("device", "pcie_generation", "pcie_width").values()
    return pcie_bytes_per_s(*(int(column.filled(0)[device]) for column in columns))


def _saturated(
    run: Run, device: int, direction: str, known: KnownSeries, peak: float
) -> _Saturated:
    windows, samples = step_partition(run).windows, known.samples
    own = windows.device == device
    analyzed = union(windows.start_ns[own], windows.end_ns[own])
    is_at_peak = samples.value >= _AT_PEAK * peak
    at_peak = samples.start_ns[is_at_peak], samples.end_ns[is_at_peak]
    ns = total(*intersect(analyzed, union(*at_peak)))
    sampled_ns = total(*intersect(analyzed, union(samples.start_ns, samples.end_ns)))
    first = zip(*(times[:_SHOWN].tolist() for times in at_peak), strict=True)
    return _Saturated(device, direction, ns / max(sampled_ns, 1), tuple(first))


def _finding(run: Run, each: _Saturated) -> Finding:
    gpu = gpus_in_words(run.trace, (each.device,))
    share = format_ratio(each.share)
    return Finding(
        NAME,
        "low",
        f"PCIe {each.direction} {gpu} is at its peak {share} of the time",
        f"In {share} of the analyzed time, PCIe traffic {each.direction} {gpu} is at"
        f" {format_ratio(_AT_PEAK)} or more of what the link can do. Copies cannot be faster.",
        (Evidence(f"samples at the peak, {each.direction} {gpu}", windows_ns=each.shown),),
        "Copy fewer bytes: smaller types (uint8 images, BF16), no padding, data that stays on the"
        " GPU. Overlap the rest with kernels: pinned memory, non_blocking=True, and a stream of its"
        " own.",
        "Profile again with the same metrics: `warpline stats -r gpu_time_util:steps` shows less"
        " PCIe traffic.",
        fix_cuda="Copy fewer bytes: smaller types, no padding, data that stays on the GPU. Overlap"
        " the rest with kernels in another stream.",
    )
