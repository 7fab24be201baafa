"""Why a recording is empty: the most specific reason, in one line."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from warpline.capture.flags import capabilities
from warpline.capture.flags.settings import CaptureSettings
from warpline.capture.launcher.ending import Ending
from warpline.capture.machine import processes
from warpline.capture.session.control import Counters, RangeMode

_PLAIN_HINT = "add ranges with nvtx, torch.cuda.nvtx or python -m warpline.annotate SCRIPT"
_CUDA_HINT = "run warpline doctor to check whether CUDA can be recorded on this machine"


@dataclass(frozen=True)
class Reason:
    """Why nothing was recorded, and the next action."""

    text: str
    hint: str | None = None


@dataclass(frozen=True)
class Evidence:
    """Facts about a run.

    Attributes:
        settings: The settings of the recording.
        counters: The agents' counters.
        ending: How the program ended.
        executable: The program.
        seconds: How long it ran.
        unrecorded: Why CUDA could not be recorded, from finishing.
        not_chosen: Why processes counted no launch, each with a tab and the next action.
    """

    settings: CaptureSettings
    counters: Counters
    ending: Ending
    executable: Path
    seconds: float
    unrecorded: tuple[str, ...] = ()
    not_chosen: tuple[str, ...] = ()


def why_nothing(evidence: Evidence) -> Reason:
    """Return why no event was recorded."""
    reason = _asked_for_nothing(evidence) or common_reasons(evidence)
    for explain in (_no_cuda, _no_steps, _no_window, _filters):
        reason = reason or explain(evidence)
    if reason is not None:
        return reason
    os_calls = evidence.settings.os_calls
    if os_calls is not None:
        return Reason(
            f"no call of the C library took {os_calls.threshold_ns:,} ns while recording was on",
            "use a lower --osrt-threshold",
        )
    if evidence.counters.cuda_bound and not evidence.counters.nvtx_bound:
        return Reason("CUDA was loaded, but not called while recording was on")
    return Reason("NVTX was loaded, but not called while recording was on", _PLAIN_HINT)


def common_reasons(evidence: Evidence) -> Reason | None:
    """Return why the agent did not record at all; None if it did."""
    reason = None
    for explain in (_agent_failed, _too_short, _no_agent, _no_cupti):
        reason = reason or explain(evidence)
    return reason


def unrecorded(ending: Ending) -> str | None:
    """Return the warning about processes without the session's variables, or None."""
    if not ending.unrecorded:
        return None
    pid, name = next(iter(ending.unrecorded.items()))
    more = len(ending.unrecorded) - 1
    if not more:
        who, was = f"process {pid} ({name})", "was"
    else:
        who, was = f"process {pid} ({name}) and {more} other{'s' if more > 1 else ''}", "were"
    return (
        f"{who} {was} not recorded: WARPLINE_SESSION is missing from"
        f" {'its' if not more else 'their'} environment"
    )


def _asked_for_nothing(evidence: Evidence) -> Reason | None:
    trace = evidence.settings.trace
    if capabilities.collected(trace):
        return None
    return Reason(f"-t {','.join(trace)} selects no supported API", "use -t cuda,nvtx")


def _agent_failed(evidence: Evidence) -> Reason | None:
    counters = evidence.counters
    if counters.out_of_space:
        return Reason("the disk was full", "use -o FILE to record to another disk")
    if not counters.agent_errors:
        return None
    return Reason(f"the agent could not record: {counters.first_error or 'unknown error'}")


def _too_short(evidence: Evidence) -> Reason | None:
    delay = evidence.settings.delay
    if not delay or evidence.seconds >= delay:
        return None
    return Reason(
        f"the program ended after {evidence.seconds:.1f} s, before --delay {delay:g} elapsed",
        "use a shorter --delay",
    )


def _no_agent(evidence: Evidence) -> Reason | None:
    """No process made an NVTX or CUDA call that reached the agent."""
    counters = evidence.counters
    if counters.attached or counters.nvtx_bound or counters.cuda_bound:
        return None
    unloadable = dict(evidence.ending.unloadable)
    why = processes.cannot_be_recorded(str(evidence.executable))
    if why:
        unloadable = {str(evidence.executable): why, **unloadable}
    for executable, text in unloadable.items():
        return Reason(f"{executable} {text}")
    lost = unrecorded(evidence.ending)
    if lost is not None:
        return Reason(lost, "pass the environment on when the program starts processes")
    if evidence.settings.os_calls is not None:
        return Reason("the agent could not be loaded", "run warpline doctor")
    trace = evidence.settings.trace
    wanted = [name.upper() for name in capabilities.DEFAULT if name in trace]
    if not wanted:
        return _no_calls(trace)
    hint = _PLAIN_HINT if "NVTX" in wanted else _CUDA_HINT
    return Reason(f"no process called {' or '.join(reversed(wanted))}", hint)


def _no_calls(trace: tuple[str, ...]) -> Reason:
    """Only libraries are traced, and no call of one was recorded."""
    wanted = " or ".join(capabilities.collectors(trace))
    return Reason(f"no call of {wanted} was recorded", "see docs/library-calls.md for the limits")


def _no_cupti(evidence: Evidence) -> Reason | None:
    """CUPTI could not be used in a process."""
    return Reason(evidence.unrecorded[0]) if evidence.unrecorded else None


def _no_cuda(evidence: Evidence) -> Reason | None:
    """Only CUDA is traced, and no process called it."""
    trace = evidence.settings.trace
    if not {*capabilities.DEFAULT, capabilities.OS_CALLS} & {*trace}:
        return _no_calls(trace)
    wants_more = {"nvtx", capabilities.OS_CALLS} & {*capabilities.collected(trace)}
    if wants_more or evidence.counters.cuda_bound:
        return None
    return Reason("no process called CUDA", _CUDA_HINT)


def _no_steps(evidence: Evidence) -> Reason | None:
    """Step sampling was on, and no step was recorded."""
    settings, counters = evidence.settings, evidence.counters
    if settings.sampling is None or counters.windows_done or counters.windows_open:
        return None
    if counters.step_processes:
        return Reason(
            f"the program ran only {counters.steps_begun:,} steps, too few for --duty",
            "use --steps and --every to record from the first step",
        )
    if settings.sampling.by_calls:
        return Reason("the program never called cudaProfilerStart")
    if settings.step_range is not None:
        return Reason("no range matched --step-range", "use RANGE@* to match any domain")
    pattern = ", and launches did not repeat periodically" if "cuda" in settings.trace else ""
    return Reason(
        f"no range that starts a step was found{pattern}",
        "name the range, such as --step-range 'it_*'",
    )


def _no_window(evidence: Evidence) -> Reason | None:
    """The capture range never began."""
    settings, counters = evidence.settings, evidence.counters
    if settings.mode is RangeMode.NONE or counters.windows_done or counters.windows_open:
        return None
    if settings.mode is RangeMode.CUDA_PROFILER_API:
        return Reason(
            "the program never called cudaProfilerStart", "use -c none to record the whole run"
        )
    name, domain = settings.nvtx_capture or ("", None)
    where = {None: "the default domain", "*": "any domain"}.get(domain, f"domain {domain!r}")
    if counters.range_misses:
        hint = None if domain == "*" else f"use -p '{name}@*' to match any domain"
        return Reason(f"-p matched no range: no range is named {name!r} in {where}", hint)
    return Reason(f"range {name!r} of -p never started: the program opened no range", _PLAIN_HINT)


def _filters(evidence: Evidence) -> Reason | None:
    settings = evidence.settings
    for flag, domains in (
        ("--nvtx-domain-include", settings.nvtx_domain_include),
        ("--nvtx-domain-exclude", settings.nvtx_domain_exclude),
    ):
        if domains:
            return Reason(
                f"{flag} {','.join(domains)} excluded all events", f"profile again without {flag}"
            )
    return None
