"""What to record and how, as the flags of ``warpline profile`` set it."""

from __future__ import annotations

import enum
import signal
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from warpline.capture.collectors.cpu_sampling import CpuSampling
from warpline.capture.collectors.metrics_request import HELP, NONE, MetricsRequest
from warpline.capture.flags import capabilities
from warpline.capture.flags.grammar import ForeignFlag
from warpline.capture.session.agent_config import (
    CountersConfig,
    GraphTrace,
    OsCallsConfig,
    PcSamplingConfig,
    WaitSource,
)
from warpline.capture.session.control import RangeMode
from warpline.capture.session.keeping import KeepLast
from warpline.capture.session.preload import LOADER, SHIM
from warpline.capture.session.sampling import Sampling
from warpline.capture.session.triggers import Triggers
from warpline.counters import sampled_sets


class CaptureRange(enum.StrEnum):
    """What opens a capture range: the values of ``-c``."""

    NONE = "none"
    CUDA_PROFILER_API = "cudaProfilerApi"
    NVTX = "nvtx"
    HOTKEY = "hotkey"


class RangeEnd(enum.StrEnum):
    """What happens when a capture range ends: the first words of ``--capture-range-end``."""

    NONE = "none"
    STOP = "stop"
    STOP_SHUTDOWN = "stop-shutdown"
    REPEAT = "repeat"
    REPEAT_SHUTDOWN = "repeat-shutdown"

    @property
    def repeats(self) -> bool:
        """Whether further capture ranges are recorded."""
        return self in {RangeEnd.REPEAT, RangeEnd.REPEAT_SHUTDOWN}

    @property
    def stops_program(self) -> bool:
        """Whether the program is stopped after the last one."""
        return self in {RangeEnd.STOP_SHUTDOWN, RangeEnd.REPEAT_SHUTDOWN}


class SampleScope(enum.StrEnum):
    """Whose CPU samples are taken: the values of ``-s``."""

    PROCESS_TREE = "process-tree"
    CPU = "cpu"
    SYSTEM_WIDE = "system-wide"  # another word of nsys for it
    NONE = "none"


class SwitchScope(enum.StrEnum):
    """Whose context switches are recorded: the values of ``--cpuctxsw``."""

    PROCESS_TREE = "process-tree"
    SYSTEM_WIDE = "system-wide"
    NONE = "none"


class Backtrace(enum.StrEnum):
    """How the callers of a sampled function are found: the values of ``-b``."""

    DWARF = "dwarf"
    FP = "fp"
    LBR = "lbr"
    NONE = "none"


class Wait(enum.StrEnum):
    """What the launcher waits for: the values of ``--wait``."""

    PRIMARY = "primary"
    ALL = "all"


class TargetProcesses(enum.StrEnum):
    """In which processes something is done: the values of ``--target-processes``."""

    ALL = "all"
    APPLICATION_ONLY = "application-only"


# The supported values of -c besides none.
# Words of --pytorch with which operators have the Python stack of their first launch.
_WITH_BACKTRACES = frozenset(("functions-trace", "functions-trace-shapes"))
# What may have secrets is not in the recording.
_NOT_TOLD = frozenset(("env_var", "on_finish"))
_RANGE_MODES = {
    CaptureRange.NVTX: RangeMode.NVTX,
    CaptureRange.CUDA_PROFILER_API: RangeMode.CUDA_PROFILER_API,
}


@dataclass
class CaptureSettings:
    """The settings of a recording. Attributes are named after the flags that set them.

    No flag sets `counters` and `pc_sampling`, which collect hardware counters, or sampled program
    counters, in place of a timeline, and `output_file`, to which the program prints; its standard
    input is then empty.
    """

    GOES_ON: ClassVar[bool] = False  # the program goes on after the recording

    trace: tuple[str, ...] = capabilities.DEFAULT
    output: str | None = None
    force_overwrite: bool = False
    env_var: dict[str, str] = field(default_factory=dict)
    inherit_environment: bool = True
    show_output: bool = True
    delay: float = 0.0
    duration: float | None = None
    kill: int | None = signal.SIGTERM
    stop_on_exit: bool = True
    wait: Wait = Wait.ALL
    capture_range: CaptureRange = CaptureRange.NONE
    nvtx_capture: tuple[str, str | None] | None = None
    capture_range_end: tuple[RangeEnd, int] = (RangeEnd.STOP_SHUTDOWN, 0)
    steps: int | None = None
    every: int | None = None
    duty: float | None = None
    step_range: tuple[str, str | None] | None = None
    keep_last: str | None = None
    when: str | None = None
    host: str | None = None
    host_dir: str | None = None
    host_python: str | None = None
    nvtx_domain_include: tuple[str, ...] = ()
    nvtx_domain_exclude: tuple[str, ...] = ()
    cuda_graph_trace: GraphTrace = GraphTrace.NODE
    cuda_memory_usage: bool = False
    cuda_um_cpu_page_faults: bool = False
    cuda_um_gpu_page_faults: bool = False
    cuda_trace_all_apis: bool = False
    cuda_waits: WaitSource = WaitSource.CALLS
    cuda_detach: bool = True
    cuda_flush_interval: int = 1000
    cudabacktrace: dict[str, int] = field(default_factory=dict)
    pytorch: tuple[str, ...] = ()
    python_backtrace: dict[str, int] = field(default_factory=dict)
    osrt_threshold: int = 1000
    osrt_backtrace_threshold: int = 80_000
    library_backtrace_threshold: int | None = None
    gpu_health: float = 1.0
    gpu_metrics_devices: str = NONE
    gpu_metrics_set: str = sampled_sets.DEFAULT
    gpu_metrics_frequency: int = 10_000
    sample: SampleScope = SampleScope.NONE
    sampling_frequency: int = 1000
    backtrace: Backtrace = Backtrace.DWARF
    cpuctxsw: SwitchScope | None = None  # as `sample`
    python_sampling: bool = False
    python_sampling_frequency: int = 1000
    export: tuple[str, ...] = ()
    max_size: int | None = None  # bytes; 0: no limit, None: one in jobs of many ranks
    on_finish: str | None = None
    stats: bool = False
    stop_on_range_end: bool = False
    discard_environment: bool = False
    keep_environment: bool = False
    keep_command: bool = False
    no_summary: bool = False
    quiet: bool = False
    command: tuple[str, ...] = ()
    warnings: list[str] = field(default_factory=list)
    given: set[str] = field(default_factory=set)
    counters: CountersConfig | None = None
    output_file: Path | None = None
    pc_sampling: PcSamplingConfig | None = None
    import_source: bool = True

    def foreign(self, flag: ForeignFlag, name: str) -> None:
        """Warn about a flag of nsys that has no effect."""
        self.warnings.append(f"{name} is {flag.effect} ({flag.reason})")

    @property
    def python_chains(self) -> dict[str, int]:
        """Python backtraces: as given, or of kernel launches if operators are recorded."""
        is_given = "python_backtrace" in self.given
        records_operators = not _WITH_BACKTRACES.isdisjoint(self.pytorch)
        return {"kernel": 0} if records_operators and not is_given else self.python_backtrace

    @property
    def cpu_sampling(self) -> CpuSampling | None:
        """The samples of CPUs and of Python, and context switches to record; None for none."""
        is_sampled = self.sample is not SampleScope.NONE
        has_switches = is_sampled
        if self.cpuctxsw is not None:
            has_switches = self.cpuctxsw is not SwitchScope.NONE
        is_wanted = {"samples": self.python_sampling, "gil": capabilities.PYTHON_GIL in self.trace}
        python = tuple(name for name, wanted in is_wanted.items() if wanted)
        if not (is_sampled or has_switches or python):
            return None
        return CpuSampling(
            period_ns=round(1e9 / self.sampling_frequency) if is_sampled else 0,
            backtrace=self.backtrace,
            has_switches=has_switches,
            python_period_ns=round(1e9 / self.python_sampling_frequency),
            python=python,
        )

    @property
    def reads_python(self) -> bool:
        """Whether memory of Python processes is read."""
        return self.cpu_sampling is not None and bool(self.cpu_sampling.python)

    @property
    def sampling(self) -> Sampling | None:
        """Which steps to record; None for all."""
        if self.kept is not None and (self.kept.steps or self.triggers.needs_steps):
            # All of them, so that they are found.
            return Sampling.of(1, 1, None, step_range=self.step_range, by_calls=False)
        if self.steps is None and self.every is None and self.duty is None:
            return None
        return Sampling.of(
            self.steps,
            self.every,
            self.duty,
            step_range=self.step_range,
            by_calls=self.capture_range is CaptureRange.CUDA_PROFILER_API,
        )

    @property
    def kept(self) -> KeepLast | None:
        """What is kept of the recording; None for all of it."""
        return None if self.keep_last is None else KeepLast.of(self.keep_last)

    @property
    def triggers(self) -> Triggers:
        """When what is kept is written."""
        return Triggers() if self.when is None else Triggers.of(self.when)

    @property
    def is_timeline(self) -> bool:
        """Whether a timeline is recorded, not something in its place."""
        return self.counters is None and self.pc_sampling is None

    @property
    def asks_for_lists(self) -> bool:
        """Whether only the GPUs and sets of metrics that can be chosen are asked for."""
        return HELP in {self.gpu_metrics_devices, self.gpu_metrics_set}

    @property
    def gpu_metrics(self) -> MetricsRequest | None:
        """Which metrics to sample, of which GPUs; None for none.

        Raises:
            UsageError: The set of metrics is unknown.
        """
        if self.gpu_metrics_devices == NONE:
            return None
        metrics = sampled_sets.sampled_set(self.gpu_metrics_set)
        return MetricsRequest(self.gpu_metrics_devices, metrics, self.gpu_metrics_frequency)

    @property
    def os_calls(self) -> OsCallsConfig | None:
        """Which calls of the C library to record; None for none."""
        if capabilities.OS_CALLS not in self.trace or not self.is_timeline:
            return None
        return OsCallsConfig(self.osrt_threshold, self.osrt_backtrace_threshold or None)

    @property
    def preload(self) -> tuple[str, ...]:
        """Names of libraries, beside the agent, that the program is started with."""
        shim = () if self.os_calls is None else (SHIM,)
        # Programs may use MPI without CUDA and NVTX, which would load the agent.
        return (*shim, LOADER) if capabilities.MPI in self.trace else shim

    @property
    def mode(self) -> RangeMode:
        """What opens a capture range, among the supported triggers."""
        if self.sampling is not None:
            return RangeMode.STEPS
        return _RANGE_MODES.get(self.capture_range, RangeMode.NONE)

    @property
    def windows_wanted(self) -> int:
        """The number of capture ranges after which recording stops; 0: no limit."""
        end, count = self.capture_range_end
        if self.mode in {RangeMode.NONE, RangeMode.STEPS} or end is RangeEnd.NONE:
            return 0
        return count if end.repeats else 1

    @property
    def ends_when_counted(self) -> bool:
        """Whether to stop the program once all launches that are wanted are counted."""
        return self.counters is not None and self.counters.kill

    @property
    def ends_program(self) -> bool:
        """Whether to stop the program after the last capture range."""
        return bool(self.windows_wanted) and self.capture_range_end[0].stops_program

    def plain(self) -> dict[str, Any]:
        """Return the given options as plain values, for session.json."""
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in sorted(vars(self).items())
            if name in self.given and name not in _NOT_TOLD
        }
