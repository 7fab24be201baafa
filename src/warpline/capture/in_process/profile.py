"""``with warpline.profile("run.warpline"):`` records the current process.

The agent is loaded into this process and joins a session, as in a program started by ``warpline
profile``. Child processes started during the profile inherit it. One difference: NVTX domains and
strings that a library registered before the profile started are not known. Ranges in such domains
are in the default one; those that such strings name have no name. The nvtx package stays silent if
it was used before: a warning says so. ``warpline.annotate`` alone has none of these limits.

numpy and Polars are not imported here, and finishing runs in a separate process.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from warpline.capture.flags import capabilities
from warpline.capture.flags.pytorch import parse_pytorch, with_ranges
from warpline.capture.in_process.agent import Agent
from warpline.capture.in_process.run import ACTIVE, RangeOfAnother, Run, is_recorded, one_line
from warpline.capture.in_process.warning import warn
from warpline.capture.machine.agent import agent_library
from warpline.capture.machine.cupti import find_cupti
from warpline.capture.session import names
from warpline.capture.session.agent_config import AgentConfig, CudaConfig
from warpline.capture.session.control import State
from warpline.capture.session.facts import session_facts
from warpline.capture.session.session import create_session
from warpline.errors import CaptureError, UsageError
from warpline.lazy import lazy
from warpline.redaction import Project, redact_command, redact_environment

if TYPE_CHECKING:
    from warpline import api
    from warpline.trace import Trace
else:  # a layer above: what reads recordings enters this process only on request
    api = lazy("warpline.api")


class Profile:
    """Record this process, from `start` to `stop` or as a ``with`` block.

    In a program that is recorded by ``warpline profile``, the profile becomes a range in that
    recording, in the NVTX domain "warpline", and writes no recording.

    Args:
        path: Output file, with the patterns of ``warpline profile -o``: %p %h %n %q{NAME}. None:
            the first free name of report1.warpline, report2.warpline and so on.
        trace: APIs to trace, as for ``warpline profile -t``: "nvtx", "cuda,nvtx".
        nvtx_domain_include: Record only these NVTX domains; "default" is the unnamed domain.
        nvtx_domain_exclude: Exclude these NVTX domains.
        overwrite: Overwrite an existing recording.
        keep_environment: Store all environment variables unmasked. By default, only those that
            explain a profile are stored.
        keep_command: Store the command line unmasked. By default, only the program, the names of
            its flags and values known to be harmless are stored; the rest becomes ``***``.
        pytorch: What to record of PyTorch, as for ``warpline profile --pytorch``: "all",
            "modules,optimizer".
        cuda_memory_usage: Record allocations and frees of GPU memory.

    Attributes:
        path: Path of the recording; None before `start`, and for a nested profile.
        finished: Counts of the recorded events; empty until `stop`.
    """

    _NAME = "warpline.profile"
    _EMPTY = (
        "contains no events: no traced API was called, or all NVTX domains were excluded; "
        "use warpline.annotate(...) to add ranges"
    )

    def __init__(  # noqa: PLR0913 - the options of a command
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        trace: str | Iterable[str] = capabilities.DEFAULT,
        nvtx_domain_include: Iterable[str] = (),
        nvtx_domain_exclude: Iterable[str] = (),
        overwrite: bool = False,
        keep_environment: bool = False,
        keep_command: bool = False,
        pytorch: str | Iterable[str] = (),
        cuda_memory_usage: bool = False,
    ) -> None:
        self._pattern = None if path is None else os.fspath(path)
        self._trace = _wanted(trace)
        words = pytorch if isinstance(pytorch, str) else ",".join(pytorch)
        self._pytorch = parse_pytorch(words, name="pytorch")
        exclude = tuple(nvtx_domain_exclude)
        self._trace, include, notes = with_ranges(
            self._pytorch, self._trace, tuple(nvtx_domain_include), exclude
        )
        for note in notes:
            warn(note)
        self._config = AgentConfig(
            nvtx="nvtx" in self._trace,
            domain_include=include,
            domain_exclude=exclude,
            cuda=cuda_config(memory=cuda_memory_usage) if "cuda" in self._trace else None,
            collect=capabilities.collectors(self._trace),
        )
        self._overwrite = overwrite
        self._keep_environment = keep_environment
        self._keep_command = keep_command
        self._run: Run | RangeOfAnother | None = None
        self.path: Path | None = None
        self.finished: Mapping[str, Any] = {}

    def __repr__(self) -> str:
        state = "recording" if self._run else "recorded" if self.finished else "not started"
        return f"<{self._NAME} {self.path or self._pattern or ''}: {state}>"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is None:
            self.stop()
            return
        try:
            self.stop()
        except CaptureError as failure:  # must not hide the program's own error
            warnings.warn(one_line(failure), RuntimeWarning, stacklevel=2)

    def start(self) -> None:
        """Start recording.

        Raises:
            UsageError: The output file exists.
            AgentMissingError: The agent is not installed.
            CaptureError: Another profile is running, or the output directory is not writable.
        """
        self._run = ACTIVE.begin(self._begin)
        self.path = self._run.output
        self.finished = {}

    def stop(self) -> None:
        """Stop recording and write the recording. Does nothing if the profile is not running.

        Raises:
            CaptureError: The recording cannot be written; the hint has the command to recover it.
        """
        run, self._run = self._run, None
        if run is not None:
            self.finished = ACTIVE.end(run)

    @property
    def trace(self) -> Trace:
        """The opened recording; CaptureError before `stop`."""
        if not self.finished or self.path is None:
            raise CaptureError("the recording is not available yet", hint="call stop() first")
        return api.open(self.path)

    def _begin(self) -> Run | RangeOfAnother:
        if is_recorded():
            return RangeOfAnother(self._pattern or self._NAME)
        agent = Agent(agent_library())
        try:
            place = names.reserve(
                self._pattern, os.environ, pid=os.getpid(), overwrite=self._overwrite, warn=warn
            )
        except UsageError as error:
            hint = "pass overwrite=True, or use %n in the name to number the files"
            raise UsageError(error.message, hint=hint) from None
        facts = self._facts(place.output)
        session = create_session(place.folder, self._config, facts, state=State.WAITING)
        return Run(agent, session, place.output, self._EMPTY)

    def _facts(self, output: Path) -> dict[str, Any]:
        command = sys.orig_argv
        if not self._keep_command:
            command = redact_command(command, Project(Path.cwd()))
        return session_facts(
            output,
            command=command,
            options={
                "in_process": True,
                "trace": list(self._trace),
                "nvtx_domain_include": list(self._config.domain_include),
                "nvtx_domain_exclude": list(self._config.domain_exclude),
                "pytorch": list(self._pytorch),
            },
            environment=redact_environment(os.environ, keep_all=self._keep_environment),
            collected=self._collected(),
            pytorch=self._pytorch,
        )

    def _collected(self) -> list[str]:
        return capabilities.collected(self._trace)


def profile(  # noqa: PLR0913 - the options of a command
    path: str | os.PathLike[str] | None = None,
    *,
    trace: str | Iterable[str] = capabilities.DEFAULT,
    nvtx_domain_include: Iterable[str] = (),
    nvtx_domain_exclude: Iterable[str] = (),
    overwrite: bool = False,
    keep_environment: bool = False,
    keep_command: bool = False,
    pytorch: str | Iterable[str] = (),
    cuda_memory_usage: bool = False,
) -> Profile:
    """Record this process: ``with warpline.profile("run.warpline") as run:``, then `run.trace`.

    The arguments are those of `Profile`. Call its `start` and `stop` where a ``with`` block does
    not fit.
    """
    return Profile(
        path,
        trace=trace,
        nvtx_domain_include=nvtx_domain_include,
        nvtx_domain_exclude=nvtx_domain_exclude,
        overwrite=overwrite,
        keep_environment=keep_environment,
        keep_command=keep_command,
        pytorch=pytorch,
        cuda_memory_usage=cuda_memory_usage,
    )


def _wanted(trace: str | Iterable[str]) -> tuple[str, ...]:
    """Return the APIs to trace; UsageError if one is unknown."""
    words = trace.split(",") if isinstance(trace, str) else list(trace)
    wanted = tuple(_without_alias(word.strip().lower()) for word in words)
    unknown = [word for word in wanted if word not in capabilities.KNOWN]
    if unknown:
        raise UsageError(f"trace={unknown[0]!r}: unknown API", hint='use trace="cuda,nvtx"')
    if capabilities.OS_CALLS in wanted:
        warn("osrt is not recorded (only programs started by warpline profile -t osrt are)")
        wanted = tuple(word for word in wanted if word != capabilities.OS_CALLS)
    if wanted != capabilities.DEFAULT:
        for word in capabilities.lacking(wanted):
            warn(f"{word} is not recorded ({capabilities.WHY_NOT})")
    return wanted


def _without_alias(word: str) -> str:
    return capabilities.ALIASES.get(word, word)


def cuda_config(*, memory: bool = False) -> CudaConfig:
    """Return what is recorded of CUDA in this process, with or without its allocations."""
    return CudaConfig(library_paths=tuple(map(str, find_cupti(os.environ))), memory=memory)
