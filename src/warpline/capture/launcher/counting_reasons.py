"""Why no kernel was counted or sampled: the most specific reason, in one line."""

from __future__ import annotations

from dataclasses import replace

from warpline.capture.flags.settings import CaptureRange
from warpline.capture.launcher.reasons import Evidence, Reason, common_reasons
from warpline.capture.session.agent_config import CountersConfig

_DOCTOR_HINT = "run warpline doctor to check whether CUDA can be recorded on this machine"
_NOT_COUNTED = (
    "kernels in CUDA graphs, and those that wait for other GPUs, such as NCCL's, are not counted"
)


def why_nothing(evidence: Evidence, counters: CountersConfig) -> Reason:
    """Return why no kernel was counted."""
    # What counts is CUDA, whatever else is recorded.
    evidence = replace(evidence, settings=replace(evidence.settings, trace=("cuda",)))
    found = common_reasons(evidence) or _no_cuda(evidence) or _no_window(evidence)
    return found or _not_chosen(evidence) or _filters(counters)


def why_no_samples(evidence: Evidence) -> Reason:
    """Return why no program counter was sampled."""
    found = common_reasons(evidence) or _no_cuda(evidence) or _not_chosen(evidence)
    return found or Reason(
        "no kernel ran long enough to be sampled", "use a smaller --sampling-interval"
    )


def _no_cuda(evidence: Evidence) -> Reason | None:
    if evidence.counters.cuda_bound:
        return None
    return Reason("no process initialized CUDA", _DOCTOR_HINT)


def _no_window(evidence: Evidence) -> Reason | None:
    """Recording never began: no step, no range, or no call of cudaProfilerStart."""
    settings, counters = evidence.settings, evidence.counters
    if counters.windows_done or counters.windows_open:
        return None
    if settings.sampling is not None:
        return Reason(
            "no step was found", "name the NVTX range that starts a step: --step-range 'it_*'"
        )
    if settings.capture_range is CaptureRange.CUDA_PROFILER_API:
        return Reason(
            "the program never called cudaProfilerStart",
            "remove --profile-from-start or --range-filter to count from the start",
        )
    if settings.capture_range is CaptureRange.NVTX:
        name, domain = settings.nvtx_capture or ("", None)
        where = "the default domain" if domain is None else f"domain {domain!r}"
        return Reason(
            f"no NVTX range is named {name!r} in {where}", "use --nvtx-include DOMAIN@RANGE"
        )
    return None


def _not_chosen(evidence: Evidence) -> Reason | None:
    """The agent saw why no launch was chosen: by NVTX ranges, or the process's name."""
    if not evidence.not_chosen:
        return None
    text, _, hint = evidence.not_chosen[0].partition("\t")
    return Reason(text, hint or None)


def _filters(counters: CountersConfig) -> Reason:
    ranges = counters.ranges
    given = {
        f"-k {counters.name}": counters.name is not None,
        f"-k regex:{counters.name_regex}": counters.name_regex is not None,
        f"--kernel-id {' '.join(counters.kernel_ids)}": bool(counters.kernel_ids),
        f"--launch-skip-before-match {counters.skip_before_match}": bool(
            counters.skip_before_match
        ),
        f"-s {counters.skip}": bool(counters.skip),
        f"--devices {','.join(map(str, counters.devices))}": bool(counters.devices),
        "--nvtx-include": bool(ranges.include),
        "--nvtx-exclude": bool(ranges.exclude),
        "--range-filter": bool(ranges.instances or counters.window_instances),
    }
    flags = [flag for flag, is_given in given.items() if is_given]
    if flags:
        return Reason(
            f"no launch matched {' '.join(flags)}, or it was one that is not counted",
            f"count without filters; {_NOT_COUNTED}",
        )
    return Reason("no kernel was launched that can be counted", _NOT_COUNTED)
