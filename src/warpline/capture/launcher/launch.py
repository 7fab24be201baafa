"""A program under ``warpline profile`` or ``kernels``, from the settings to the recording.

Create a session, start the program with two more environment variables, watch it until it ends, and
write the recording from the agents' logs in a separate process. numpy and Polars are not imported
here.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from warpline.capture.finishing.process import Progress, run_finishing
from warpline.capture.finishing.raw_session import abandoned_in
from warpline.capture.flags import capabilities
from warpline.capture.flags.settings import CaptureRange, CaptureSettings
from warpline.capture.launcher import counting_reasons, program, reasons
from warpline.capture.launcher.beside import Beside
from warpline.capture.launcher.ending import Ending
from warpline.capture.launcher.recorded import Recorded
from warpline.capture.launcher.signals import Signals
from warpline.capture.launcher.watching import Watch, WholeRun
from warpline.capture.machine.agent import (
    CUDA_INJECTION_VARIABLE,
    INJECTION_VARIABLE,
    agent_library,
)
from warpline.capture.machine.cupti import find_cupti
from warpline.capture.machine.obstacles import Obstacle
from warpline.capture.session import names
from warpline.capture.session.agent_config import (
    AgentConfig,
    ApiCalls,
    CpuSamplesConfig,
    CudaConfig,
)
from warpline.capture.session.control import State
from warpline.capture.session.facts import session_facts
from warpline.capture.session.session import Session, create_session
from warpline.errors import CaptureError
from warpline.redaction import Project, redact_command, redact_environment

_DETACH_MS = 1000  # attaching CUPTI again takes 11 ms (H200, CUDA 13.0)

Say = Callable[[str], None]


@dataclass(frozen=True)
class Talk:
    """Functions that print messages to the user.

    Attributes:
        warn: Print a warning about the recording.
        note: Print additional information.
        progress: Show the progress of writing the recording, from 0 to 1.
    """

    warn: Say
    note: Say
    progress: Progress


@dataclass(frozen=True)
class Outcome:
    """The result of a run.

    Attributes:
        output: The recording.
        finished: Counts from finishing.
        ending: How the program ended.
        reason: Why nothing was recorded, or counted; None if something was.
        pid: The program.
    """

    output: Path
    finished: Mapping[str, Any]
    ending: Ending
    reason: reasons.Reason | None
    pid: int


class UnfinishedError(CaptureError):
    """The program ran, but the recording could not be written.

    Args:
        message: What went wrong.
        hint: The next action.
        ending: How the program ended.
    """

    def __init__(self, message: str, *, hint: str | None, ending: Ending) -> None:
        super().__init__(message, hint=hint)
        self.ending = ending


def launch(settings: CaptureSettings, talk: Talk) -> Outcome:
    """Run and record the program given in the settings.

    Raises:
        WarplineError: The program was not started: it, the agent or the output directory is
        missing. UnfinishedError: The program ran, but the recording could not be written.
    """
    environment = environment_of(settings)
    path = program.find(settings.command[0], environment)
    agent = agent_library()
    warn_before(settings, environment, agent, talk)
    signals = Signals()
    beside = Beside(settings, environment, path, agent)
    try:
        beside.check()
        program.adopt_orphans()
        child = program.Program(
            path,
            settings.command,
            mask=signals.before,
            output=settings.output_file or (None if settings.show_output else Path(os.devnull)),
            has_input=settings.output_file is None,
            reader=beside.reader,
        )
        session = _begin(settings, environment, child, path, talk)
        try:
            obstacle = beside.sample(session.folder, child.pid)
            if obstacle is not None:
                _sample_within(session, settings, obstacle, talk)
            child.start({**environment, **session.variables(agent, environment)})
        except BaseException:
            session.remove()
            raise
        beside.read(session.folder, child.pid, os.getpid())
        began = time.monotonic()
        own = {signals.listener, *beside.pids}
        whole = WholeRun(Recorded(child.pid, session, settings, talk.note))
        ending = Watch(child.pid, whole, settings, signals, talk.note, own=own).run()
        beside.close()
        seconds = time.monotonic() - began
        end_session(session, child.pid, ending, beside.counts)
    finally:
        beside.close()
        signals.give_back()
        program.adopt_orphans(is_wanted=False)  # the listener of the next launch must be init's
    counters = session.control.counters()
    finished = _finish(session, settings, ending, talk)
    unrecorded = tuple(finished.get("unrecorded", ()))
    not_chosen = tuple(finished.get("not_chosen", ()))
    evidence = reasons.Evidence(
        settings, counters, ending, path, seconds, unrecorded, not_chosen=not_chosen
    )
    reason = None
    if settings.counters is not None:
        if not finished.get("counted_kernels"):
            reason = counting_reasons.why_nothing(evidence, settings.counters)
    elif settings.pc_sampling is not None:
        if not finished.get("pc_samples"):
            reason = counting_reasons.why_no_samples(evidence)
    elif finished["is_empty"]:
        reason = reasons.why_nothing(evidence)
    return Outcome(Path(session.facts["output"]), finished, ending, reason, child.pid)


def _sample_within(
    session: Session, settings: CaptureSettings, obstacle: Obstacle, talk: Talk
) -> None:
    """Have the agents sample by timers what the kernel does not let other processes sample."""
    sampling = settings.cpu_sampling
    left_out = {capabilities.CONTEXT_SWITCHES}
    if sampling is None or not sampling.period_ns:
        talk.warn(f"context switches are not recorded: {obstacle.cause}; {obstacle.cure}")
    else:
        hz = max(round(1e9 / sampling.period_ns), 1)
        session.sample_within(CpuSamplesConfig(hz, python=True))
        lacks = ", without context switches" if sampling.has_switches else ""
        talk.warn(
            f"{obstacle.cause}: CPU samples come from timers in the program{lacks}; {obstacle.cure}"
        )
    session.write_facts(
        collected=[name for name in session.facts["collected"] if name not in left_out]
    )


def environment_of(settings: CaptureSettings) -> dict[str, str]:
    """Return the program's environment, without the session's variables."""
    environment = dict(os.environ) if settings.inherit_environment else {}
    environment.update(settings.env_var)
    return environment


def end_like(ending: Ending) -> int:
    """Return the exit status; if a signal killed the program, end by the same signal.

    The status is 0 if the program was stopped by the signal that the settings ask for.
    """
    number = signal.SIGINT if ending.killed and ending.interrupted else ending.signal
    if number is None:
        return os.waitstatus_to_exitcode(ending.status)
    if number == ending.ended_by and not ending.killed:
        return 0
    with contextlib.suppress(ValueError, OSError):  # no second core file
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    with contextlib.suppress(OSError, ValueError):  # signals without a handler, such as SIGKILL
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
    os.kill(os.getpid(), number)
    return 128 + number  # the signal does not end this process


def warn_before(
    settings: CaptureSettings, environment: Mapping[str, str], agent: Path, talk: Talk
) -> None:
    """Print the warnings about the settings and the environment."""
    for text in settings.warnings:
        talk.warn(text)
    for name in names.unset_variables(settings.output or "", environment):
        talk.warn(
            f"-o {settings.output}: environment variable {name} is not set; using an empty value"
        )
    replaced = {INJECTION_VARIABLE: "NVTX events"}
    if looks_at_cuda(settings) or capabilities.collectors(settings.trace):
        replaced[CUDA_INJECTION_VARIABLE] = "CUDA events"
    for name, events in replaced.items():
        other = environment.get(name)
        if other and Path(other).name != agent.name:
            talk.warn(f"replaced {name}={other}: that tool gets no {events}")


def _begin(
    settings: CaptureSettings,
    environment: Mapping[str, str],
    child: program.Program,
    path: Path,
    talk: Talk,
) -> Session:
    """Create the session of a program that waits to be started; on errors, end that process."""
    try:
        place = names.reserve(
            settings.output,
            environment,
            pid=child.pid,
            overwrite=settings.force_overwrite,
            warn=talk.warn,
            exports=settings.export,
        )
        _tell_abandoned(place.output.parent, talk)
        facts = _facts(settings, environment, place.output)
        facts["program"] = {"pid": child.pid, "exit_status": None, "signal": None}
        return create_session(
            place.folder,
            config_of(settings, cupti_for(settings, environment, path), child.pid),
            facts,
            state=State.WAITING if settings.delay else State.RECORDING,
            mode=settings.mode,
            windows_wanted=settings.windows_wanted,
            is_trimmed=settings.kept is not None,
        )
    except BaseException:
        child.abandon()
        raise


def _tell_abandoned(folder: Path, talk: Talk) -> None:
    """Mention an unfinished recording in the same directory."""
    abandoned = abandoned_in(folder)
    if abandoned:
        more = f" ({len(abandoned) - 1} more)" if len(abandoned) > 1 else ""
        talk.note(f"unfinished recording found; run warpline recover {abandoned[0]}{more}")


def told_of(
    settings: CaptureSettings, environment: Mapping[str, str]
) -> tuple[Sequence[str], dict[str, str]]:
    """Return the command line and the environment as a recording may show them."""
    is_open = settings.keep_environment
    kept = {} if settings.discard_environment else redact_environment(environment, keep_all=is_open)
    command: Sequence[str] = settings.command
    if not settings.keep_command:
        command = redact_command(command, Project(Path.cwd()))
    return command, kept


def _facts(
    settings: CaptureSettings, environment: Mapping[str, str], output: Path
) -> dict[str, Any]:
    command, kept = told_of(settings, environment)
    return session_facts(
        output,
        command=command,
        options=settings.plain(),
        environment=kept,
        collected=collected_by(settings),
        pytorch=settings.pytorch,
    )


def collected_by(settings: CaptureSettings) -> list[str]:
    """Return what the recording has, even if there were no such events."""
    found = capabilities.collected(settings.trace)
    if settings.is_timeline:
        sampling = settings.cpu_sampling
        if sampling is not None and sampling.period_ns:
            found.append(capabilities.CPU_SAMPLES)
        if sampling is not None and sampling.has_switches:
            found.append(capabilities.CONTEXT_SWITCHES)
        if settings.python_sampling:
            found.append(capabilities.PYTHON_SAMPLES)
        return found
    instead = capabilities.PC_SAMPLES if settings.counters is None else capabilities.COUNTERS
    return [instead, *(name for name in found if name != "cuda")]


def config_of(settings: CaptureSettings, library_paths: Sequence[str], pid: int) -> AgentConfig:
    """Return the configuration of the agents.

    Args:
        settings: The settings of the recording.
        library_paths: CUPTI's libraries to try, from `cupti_for`.
        pid: The program.
    """
    name, domain = settings.nvtx_capture or (None, None)
    counters, samples = settings.counters, settings.pc_sampling
    if counters is not None:
        counters = replace(counters, processes=replace(counters.processes, program=pid))
    if samples is not None:
        samples = replace(samples, processes=replace(samples.processes, program=pid))
    return AgentConfig(
        sample=settings.sampling,
        nvtx="nvtx" in settings.trace,
        domain_include=settings.nvtx_domain_include,
        domain_exclude=settings.nvtx_domain_exclude,
        range_name=name,
        range_domain=domain,
        cuda=_cuda(settings, library_paths),
        collect=capabilities.collectors(settings.trace),
        counters=counters,
        pc_sampling=samples,
        os_calls=settings.os_calls,
        library_chains_ns=settings.library_backtrace_threshold,
        preload=settings.preload,
    )


def looks_at_cuda(settings: CaptureSettings) -> bool:
    """Return whether the agents use CUPTI: cudaProfilerStart and -Stop are CUDA API calls too."""
    return "cuda" in settings.trace or settings.capture_range is CaptureRange.CUDA_PROFILER_API


def cupti_for(
    settings: CaptureSettings, environment: Mapping[str, str], path: Path
) -> tuple[str, ...]:
    """Return CUPTI's libraries that a program may use, the best first; none if not needed."""
    return tuple(map(str, find_cupti(environment, path))) if looks_at_cuda(settings) else ()


def _cuda(settings: CaptureSettings, library_paths: Sequence[str]) -> CudaConfig | None:
    if not looks_at_cuda(settings):
        return None
    is_timeline = settings.is_timeline
    return CudaConfig(
        library_paths=tuple(library_paths),
        calls=ApiCalls.ALL if settings.cuda_trace_all_apis else ApiCalls.DEFAULT,
        graph=settings.cuda_graph_trace,
        memory=settings.cuda_memory_usage,
        cpu_faults=settings.cuda_um_cpu_page_faults,
        gpu_faults=settings.cuda_um_gpu_page_faults,
        waits=settings.cuda_waits,
        chains=settings.cudabacktrace,
        python_chains=settings.python_chains,
        flush_ms=settings.cuda_flush_interval,
        detach_ms=_DETACH_MS if is_timeline and settings.sampling and settings.cuda_detach else 0,
        is_silent="cuda" not in settings.trace or not is_timeline,
    )


def end_session(session: Session, pid: int, ending: Ending, sampled: Mapping[str, int]) -> None:
    """Stop recording for good, and store how the program ended.

    Args:
        session: The session.
        pid: The program.
        ending: How it ended.
        sampled: Counts of the process that sampled CPUs.
    """
    number = ending.signal
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    notes = list(session.facts["notes"])
    lost = reasons.unrecorded(ending)
    if lost is not None:
        notes.append(lost)
    facts: dict[str, Any] = {
        **ending.sampled,
        **ending.stop_facts(),
        "program": {
            "pid": pid,
            "exit_status": None if number else os.WEXITSTATUS(ending.status),
            "signal": number,
        },
        "user_cpu_ns": round(used.ru_utime * 1e9),
        "system_cpu_ns": round(used.ru_stime * 1e9),
        "notes": notes,
        "cpu_sampler": dict(sampled),
    }
    with contextlib.suppress(OSError):  # a full disk: finishing uses the facts written earlier
        session.end(**facts)


def _finish(
    session: Session, settings: CaptureSettings, ending: Ending, talk: Talk
) -> Mapping[str, Any]:
    """Write the recording and remove the session; return the counts."""
    output = Path(session.facts["output"])
    if not session.folder.is_dir():
        raise UnfinishedError(
            f"{session.folder} was deleted while the program ran; no recording was written",
            hint="profile again, and keep the .raw directory until the recording is written",
            ending=ending,
        )
    try:
        finished = run_finishing(session.folder, output, talk.progress)
    except KeyboardInterrupt:
        ending.asked = ending.asked or signal.SIGINT
        raise UnfinishedError(
            "interrupted while writing the recording",
            hint=f"run warpline recover {session.folder}",
            ending=ending,
        ) from None
    except CaptureError as error:
        hint = error.hint or f"run warpline recover {session.folder}"
        raise UnfinishedError(error.message, hint=hint, ending=ending) from error
    if finished.get("damaged_logs"):
        talk.note(f"kept {session.folder}: some of it could not be read")
        session.close()
    else:
        session.remove()
    return finished
