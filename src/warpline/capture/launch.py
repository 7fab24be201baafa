"""``warpline profile``, from the words to the recording.

A session is made, the program is started with two variables more in its environment, watched to
its end, and what the agents wrote is finished in a process of its own. Nothing of numpy or Polars
is imported here.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from warpline.capture import capabilities, names, program, reasons
from warpline.capture.control import State
from warpline.capture.cupti import find_cupti
from warpline.capture.flags import Options
from warpline.capture.libraries import agent_library
from warpline.capture.raw_session import abandoned_in
from warpline.capture.session import (
    CUDA_INJECTION_VARIABLE,
    INJECTION_VARIABLE,
    AgentConfig,
    CudaConfig,
    SampleConfig,
    Session,
    create_session,
    session_facts,
)
from warpline.capture.watching import Ending, Signals, Watch
from warpline.errors import CaptureError
from warpline.redaction import Project, redact_command, redact_environment

_DETACH_MS = 1000  # taking CUPTI up again takes 11 ms (H200, CUDA 13.0)
_FINISHING = "warpline.capture.finishing"
_RECORDED = ("ranges", "marks", "kernels", "cuda_calls")  # what makes a recording worth a look

Say = Callable[[str], None]
Progress = Callable[[float], None]


@dataclass(frozen=True)
class Talk:
    """How the user is told something.

    Attributes:
        warn: What must be known to trust the recording.
        note: What may be worth knowing.
        progress: How far finishing has come, from 0 to 1.
    """

    warn: Say
    note: Say
    progress: Progress


@dataclass(frozen=True)
class Outcome:
    """What became of a run.

    Attributes:
        output: The recording.
        finished: What finishing counted.
        ending: How the program ended.
        reason: Why nothing was recorded; None if something was.
    """

    output: Path
    finished: Mapping[str, Any]
    ending: Ending
    reason: reasons.Reason | None


class UnfinishedError(CaptureError):
    """The program has run, but no recording could be made of the session.

    Args:
        message: Why.
        hint: What to do.
        ending: How the program ended.
    """

    def __init__(self, message: str, *, hint: str | None, ending: Ending) -> None:
        super().__init__(message, hint=hint)
        self.ending = ending


def launch(options: Options, talk: Talk) -> Outcome:
    """Run and record the program that the options name.

    Raises:
        WarplineError: Nothing was started: the program, the agent or the place is not there.
        UnfinishedError: The program has run; its session could not be finished.
    """
    environment = environment_of(options)
    path = program.find(options.command[0], environment)
    agent = agent_library()
    _warn(options, environment, agent, talk)
    signals = Signals()
    try:
        program.adopt_orphans()
        child = program.Program(
            path, options.command, mask=signals.before, show_output=options.show_output
        )
        session = _begin(options, environment, child, path, talk)
        try:
            child.start({**environment, **session.variables(agent)})
        except BaseException:
            session.remove()
            raise
        began = time.monotonic()
        ending = Watch(child.pid, session, options, signals, talk.note).run()
        seconds = time.monotonic() - began
        _end(session, child.pid, ending)
    finally:
        signals.give_back()
    counters = session.control.counters()
    finished = _finish(session, options, ending, talk)
    reason = None
    if not any(finished.get(name) for name in _RECORDED):
        told = tuple(finished.get("warnings", ()))
        evidence = reasons.Evidence(options, counters, ending, path, seconds, told)
        reason = reasons.why_nothing(evidence)
    return Outcome(Path(session.facts["output"]), finished, ending, reason)


def environment_of(options: Options) -> dict[str, str]:
    """Return the environment that the program gets, without the session's variables."""
    environment = dict(os.environ) if options.inherit_environment else {}
    environment.update(options.env_var)
    return environment


def end_like(ending: Ending) -> int:
    """Return the exit status to end with; if the program died of a signal, die of it too.

    Where we ended the program ourselves, as its options asked, and it died of that, all went well.
    """
    number = signal.SIGINT if ending.killed and ending.interrupted else _signal_of(ending)
    if number is None:
        return os.waitstatus_to_exitcode(ending.status)
    if number == ending.ended_by and not ending.killed:
        return 0
    with contextlib.suppress(ValueError, OSError):  # one core file, the program's, is enough
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    with contextlib.suppress(OSError, ValueError):  # of SIGKILL and its like
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
    os.kill(os.getpid(), number)
    return 128 + number  # the signal is one that does not end a process here


def _signal_of(ending: Ending) -> int | None:
    return os.WTERMSIG(ending.status) if os.WIFSIGNALED(ending.status) else None


def _warn(options: Options, environment: Mapping[str, str], agent: Path, talk: Talk) -> None:
    for text in options.warnings:
        talk.warn(text)
    for name in names.unset_variables(options.output or "", environment):
        talk.warn(f"-o {options.output}: the environment has no {name}; it stands for nothing")
    replaced = {INJECTION_VARIABLE: "NVTX events"}
    if _looks_at_cuda(options):
        replaced[CUDA_INJECTION_VARIABLE] = "CUDA events"
    for name, events in replaced.items():
        other = environment.get(name)
        if other and Path(other).name != agent.name:
            talk.warn(f"{name}={other} is replaced; that tool will see no {events}")


def _begin(
    options: Options,
    environment: Mapping[str, str],
    child: program.Program,
    path: Path,
    talk: Talk,
) -> Session:
    """Make the session of a program that waits to be started; if it cannot be, let it go."""
    try:
        place = names.reserve(
            options.output,
            environment,
            pid=child.pid,
            overwrite=options.force_overwrite,
            warn=talk.warn,
        )
        _tell_abandoned(place.output.parent, talk)
        facts = _facts(options, environment, place.output)
        facts["program"] = {"pid": child.pid, "exit_status": None, "signal": None}
        return create_session(
            place.folder,
            _config(options, environment, path),
            facts,
            state=State.WAITING if options.delay else State.RECORDING,
            mode=options.mode,
            windows_wanted=options.windows_wanted,
        )
    except BaseException:
        child.abandon()
        raise


def _tell_abandoned(folder: Path, talk: Talk) -> None:
    """Say which earlier recording waits to be finished: whoever killed it may not know."""
    abandoned = abandoned_in(folder)
    if abandoned:
        more = f" ({len(abandoned) - 1} more like it)" if len(abandoned) > 1 else ""
        talk.note(f"an earlier run was never finished: warpline recover {abandoned[0]}{more}")


def _facts(options: Options, environment: Mapping[str, str], output: Path) -> dict[str, Any]:
    is_open = options.keep_environment
    kept = {} if options.discard_environment else redact_environment(environment, keep_all=is_open)
    command: Sequence[str] = options.command
    if not options.keep_command:
        command = redact_command(command, Project(Path.cwd()))
    return session_facts(
        output,
        command=command,
        options=options.plain(),
        environment=kept,
        collected=capabilities.collected(options.trace),
    )


def _config(options: Options, environment: Mapping[str, str], path: Path) -> AgentConfig:
    name, domain = options.nvtx_capture or (None, None)
    sampling = options.sampling
    return AgentConfig(
        sample=None if sampling is None else SampleConfig(**asdict(sampling)),
        nvtx="nvtx" in options.trace,
        domain_include=options.nvtx_domain_include,
        domain_exclude=options.nvtx_domain_exclude,
        range_name=name,
        range_domain=domain,
        cuda=_cuda(options, environment, path),
    )


def _looks_at_cuda(options: Options) -> bool:
    """Return whether the agents look at CUDA: calls that bound capture ranges are CUDA's too."""
    return "cuda" in options.trace or options.capture_range == "cudaProfilerApi"


def _cuda(options: Options, environment: Mapping[str, str], path: Path) -> CudaConfig | None:
    if not _looks_at_cuda(options):
        return None
    return CudaConfig(
        library_paths=tuple(map(str, find_cupti(environment, path))),
        calls="all" if options.cuda_trace_all_apis else "calls",
        graph=options.cuda_graph_trace,
        memory=options.cuda_memory_usage,
        waits=options.cuda_waits,
        chains=options.cudabacktrace,
        flush_ms=options.cuda_flush_interval,
        detach_ms=_DETACH_MS if options.sampling and options.cuda_detach else 0,
        is_silent="cuda" not in options.trace,
    )


def _end(session: Session, pid: int, ending: Ending) -> None:
    number = _signal_of(ending)
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
    }
    with contextlib.suppress(OSError):  # a full disk: finishing goes by the facts that are there
        session.end(**facts)


def _finish(session: Session, options: Options, ending: Ending, talk: Talk) -> Mapping[str, Any]:
    """Turn the session into a recording and remove it; return what was counted."""
    output = Path(session.facts["output"])
    if not session.folder.is_dir():
        raise UnfinishedError(
            f"{session.folder} was deleted while the program ran: nothing is left of the session",
            hint=None,
            ending=ending,
        )
    try:
        finished = run_finishing(session.folder, output, talk.progress)
    except KeyboardInterrupt:
        raise UnfinishedError(
            "interrupted", hint=f"warpline recover {session.folder}", ending=ending
        ) from None
    except CaptureError as error:
        hint = error.hint or f"warpline recover {session.folder}"
        raise UnfinishedError(error.message, hint=hint, ending=ending) from error
    if finished.get("damaged_logs"):
        talk.note(f"{session.folder} is kept: some of it could not be read")
        session.close()
    else:
        session.remove()
    return finished


def run_finishing(folder: Path, output: Path, progress: Progress) -> Mapping[str, Any]:
    """Finish a session in a process of its own and return what was counted.

    Args:
        folder: The session.
        output: The recording to write; it is replaced if it exists.
        progress: Called with how far it has come, from 0 to 1.

    Raises:
        CaptureError: It failed.
    """
    words = [sys.executable, "-P", "-m", _FINISHING, str(folder), "--output", str(output)]
    finished: Mapping[str, Any] | None = None
    said: list[str] = []
    with subprocess.Popen(
        [*words, "--progress"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=_own_environment(),
        encoding="utf-8",
        errors="replace",
    ) as process:
        assert process.stdout is not None  # it is a pipe
        for line in process.stdout:
            message = _message(line)
            if message is None:
                said.append(line.strip())
            elif "finished" in message:
                finished = message["finished"]
            elif "failed" in message:
                failed = message["failed"]
                raise CaptureError(failed["message"], hint=failed.get("hint"))
            else:
                progress(float(message.get("progress", 0.0)))
    if process.returncode != 0 or finished is None:
        why = next((line for line in reversed(said) if line), f"status {process.returncode}")
        raise CaptureError(
            f"the session could not be finished: {why.removeprefix('error: ')}",
            hint=f"warpline recover {folder}",
        )
    return finished


def _message(line: str) -> dict[str, Any] | None:
    """Return what a line of JSON says, or None if it is none."""
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _own_environment() -> dict[str, str]:
    """Return the environment for a Python of ours: the same packages, whatever the folder holds."""
    environment = dict(os.environ)
    own = str(Path(__file__).parents[2])
    paths = [own, environment.get("PYTHONPATH", "")]
    environment["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    return environment
