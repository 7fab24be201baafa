"""What to count and how, as the flags of ``warpline kernels`` set it."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from warpline.capture.flags.grammar import ForeignFlag
from warpline.capture.flags.ncu import REFUSED
from warpline.capture.flags.nvtx_ranges import RangeExpression
from warpline.capture.flags.settings import (
    CaptureRange,
    CaptureSettings,
    RangeEnd,
    TargetProcesses,
)
from warpline.capture.session.agent_config import (
    Clocks,
    CountersConfig,
    FilterMode,
    PcSamplingConfig,
    ProcessesConfig,
    RangesConfig,
    Replay,
)
from warpline.counters.request import Request
from warpline.errors import UsageError

DEFAULT_SAMPLE, DEFAULT_OVERHEAD = 5, 5.0
# A period of sampling is 2 ** (5 + interval) cycles, as in ncu.
DEFAULT_INTERVAL, LONGEST_INTERVAL = 9, 26
_SHORTEST_EXPONENT = 5
_BURST = 2  # of these samples, at first and after each doubling of the time

# Kernels that wait for other GPUs or the CPU: if launches are serialized or repeated, they wait
# forever. Parts of mangled names.
_WAITING = (
    "nccl[A-Za-z0-9]*Kernel",
    "nvshmem",
    "rccl",
    "mscclpp",
    "deep_ep",
    "hybrid_ep",
    "internode",
    "intranode",
    "userbuffers",
    "multimem_",
    "cross_device",
    "[Ll]amport",
    "[Aa]ll_?[Rr]educe",
    "[Aa]ll_?[Gg]ather",
    "[Aa]ll_?[Tt]o_?[Aa]ll",
    "[Rr]educe_?[Ss]catter",
    "(barrier|put_signal|wait_signal)_kernel",
    "stream_executor.*[Dd]elay_?[Kk]ernel",  # XLA's: waits for the host, while autotuning
)
THAT_WAIT = "|".join(_WAITING)
_REGEX = "regex:"
_ANY_NUMBER_OF_RANGES = (RangeEnd.REPEAT, 0)


class NameBase(enum.StrEnum):
    """Which name of a kernel is compared or shown."""

    FUNCTION = "function"
    DEMANGLED = "demangled"
    MANGLED = "mangled"


class ReplayMode(enum.StrEnum):
    """How ncu repeats work for several passes; STEPS, each step a pass, is our own."""

    KERNEL = "kernel"
    STEPS = "steps"
    APPLICATION = "application"
    RANGE = "range"
    APP_RANGE = "app-range"


_REPLAYS = {
    ReplayMode.KERNEL: Replay.AUTO,
    ReplayMode.STEPS: Replay.STEPS,
    ReplayMode.APPLICATION: Replay.SERIAL,
    ReplayMode.RANGE: Replay.RANGE,
    ReplayMode.APP_RANGE: Replay.RANGE,
}


class PushPopScope(enum.StrEnum):
    """Whose push/pop ranges a launch is in: those of its thread, or of all threads."""

    THREAD = "thread"
    PROCESS = "process"


class CacheControl(enum.StrEnum):
    """Which caches are flushed before each pass."""

    NONE = "none"
    ALL = "all"


class RunMatch(enum.StrEnum):
    """What launches of several runs must have in common to be the same launch, beside order."""

    NAME = "name"
    GRID = "grid"
    ALL = "all"


class RunMode(enum.StrEnum):
    """Which launches of several runs are kept.

    STRICT: all, which must be in all runs. BALANCED: those that are in all runs. RELAXED: all;
    metrics of runs that a launch is not in are missing.
    """

    STRICT = "strict"
    BALANCED = "balanced"
    RELAXED = "relaxed"


class Page(enum.StrEnum):
    """What to print."""

    SUMMARY = "summary"
    DETAILS = "details"
    RAW = "raw"
    SOURCE = "source"
    SESSION = "session"


class Summary(enum.StrEnum):
    """What launches are summarized by."""

    NONE = "none"
    PER_GPU = "per-gpu"
    PER_KERNEL = "per-kernel"
    PER_NVTX = "per-nvtx"


class Units(enum.StrEnum):
    """How values are scaled."""

    AUTO = "auto"
    BASE = "base"


class Instances(enum.StrEnum):
    """What is shown of the instances of a metric beside its value."""

    NONE = "none"
    VALUES = "values"
    DETAILS = "details"


class Details(enum.StrEnum):
    """What the page details shows of a section: its metrics, its charts and tables, or both."""

    HEADER = "header"
    BODY = "body"
    ALL = "all"


class Source(enum.StrEnum):
    """What the page source lists; by default the hottest lines."""

    HOT = "hot"
    SASS = "sass"
    PTX = "ptx"
    CUDA = "cuda"
    CUDA_SASS = "cuda,sass"


class MetricNames(enum.StrEnum):
    """What metrics are called on the details page."""

    LABEL = "label"
    NAME = "name"


@dataclass
class CountingSettings:
    """The settings of ``warpline kernels``. Attributes are named after the flags that set them.

    Attributes:
        command: The program to run; empty if reports are read.
        imported: The reports to read.
        range_filter: Whether the count of NVTX ranges restarts in each range of cudaProfilerStart
            and -Stop, and which instances of these and of NVTX ranges, in the agent's form.
        ignored: Flags of ncu without effect that were given.
    """

    sets: tuple[str, ...] = ()
    section: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    disable_extra_suffixes: bool = False
    source: bool = False
    sampling_interval: int = DEFAULT_INTERVAL
    import_source: bool = True
    sample: int | None = None
    overhead: float | None = None
    kernel_name: str | None = None
    kernel_name_base: NameBase = NameBase.FUNCTION
    kernel_id: tuple[str, ...] = ()
    launch_skip: int = 0
    launch_count: int | None = None
    launch_skip_before_match: int = 0
    nvtx: bool = False
    nvtx_include: tuple[RangeExpression, ...] = ()
    nvtx_exclude: tuple[RangeExpression, ...] = ()
    nvtx_push_pop_scope: PushPopScope = PushPopScope.THREAD
    range_filter: tuple[bool, str, str] = (False, "", "")
    profile_from_start: bool = True
    steps: int | None = None
    every: int | None = None
    duty: float | None = None
    step_range: tuple[str, str | None] | None = None
    devices: tuple[int, ...] = ()
    filter_mode: FilterMode = FilterMode.GLOBAL
    kill: bool = False
    target_processes: TargetProcesses = TargetProcesses.ALL
    target_processes_filter: tuple[str, ...] = ()
    replay_mode: ReplayMode = ReplayMode.KERNEL
    clock_control: Clocks = Clocks.NONE
    cache_control: CacheControl = CacheControl.NONE
    app_replay_match: RunMatch = RunMatch.GRID
    app_replay_mode: RunMode = RunMode.BALANCED
    check_exit_code: bool = True
    output: str | None = None
    force_overwrite: bool = False
    page: Page | None = None
    csv: bool = False
    json: bool = False
    print_units: Units = Units.AUTO
    print_kernel_base: NameBase = NameBase.DEMANGLED
    print_metric_name: MetricNames = MetricNames.LABEL
    print_details: Details = Details.HEADER
    print_metric_instances: Instances = Instances.NONE
    print_source: Source = Source.HOT
    print_summary: Summary = Summary.NONE
    timeline: tuple[str, ...] = ()
    ceilings: tuple[str, ...] = ()
    log_file: str | None = None
    quiet: bool = False
    imported: list[str] = field(default_factory=list)
    command: tuple[str, ...] = ()
    ignored: list[str] = field(default_factory=list)
    given: set[str] = field(default_factory=set)

    def foreign(self, flag: ForeignFlag, name: str) -> None:
        """Note a flag of ncu without effect; UsageError if it would change what is counted."""
        if flag.effect == REFUSED:
            raise UsageError(f"{name} is not supported: {flag.reason}")
        self.ignored.append(name)

    @property
    def request(self) -> Request:
        """What to count."""
        return Request.of(
            self.sets, self.section, self.metrics, is_exact=self.disable_extra_suffixes
        )

    @property
    def has_filter(self) -> bool:
        """Whether the user chose launches, all of which are then counted."""
        return bool(
            self.kernel_name is not None
            or self.kernel_id
            or self.launch_skip
            or self.launch_count is not None
            or self.launch_skip_before_match
            or self.nvtx_exclude
            or self.has_range
            or self.samples_steps
        )

    @property
    def has_range(self) -> bool:
        """Whether only launches in certain ranges are counted."""
        return bool(self.nvtx_include) or self.has_profiler_ranges

    @property
    def has_profiler_ranges(self) -> bool:
        """Whether only launches between cudaProfilerStart and -Stop are counted."""
        return not self.profile_from_start or bool(self.range_filter[1])

    @property
    def window(self) -> RangeExpression | None:
        """The NVTX range that is counted as a whole, or is a pass."""
        return self.nvtx_include[0] if self.nvtx_include and self.counts_windows else None

    @property
    def counts_windows(self) -> bool:
        """Whether launches are counted by capture ranges: as a whole, or each as a pass."""
        return self.is_range or self.replay_mode is ReplayMode.STEPS

    @property
    def controls_gpu(self) -> bool:
        """Whether the GPU's clocks or caches are to be changed."""
        return self.clock_control is not Clocks.NONE or self.cache_control is not CacheControl.NONE

    @property
    def samples_steps(self) -> bool:
        """Whether only some steps are counted."""
        return self.steps is not None or self.every is not None or self.duty is not None

    @property
    def is_overview(self) -> bool:
        """Whether nothing was chosen: a few launches of each kernel show what bounds it."""
        is_chosen = self.sets or self.section or self.metrics or self.has_filter
        return not is_chosen and self.replay_mode is ReplayMode.KERNEL

    @property
    def is_range(self) -> bool:
        """Whether a range of launches is counted as a whole."""
        return self.replay_mode in {ReplayMode.RANGE, ReplayMode.APP_RANGE}

    @property
    def is_application(self) -> bool:
        """Whether the program runs once for each pass."""
        return self.replay_mode in {ReplayMode.APPLICATION, ReplayMode.APP_RANGE}

    def counters(self, metrics: tuple[tuple[str, str], ...], passes: int) -> CountersConfig:
        """Return the configuration of the agents for planned metrics.

        Args:
            metrics: Full names and units.
            passes: How often a launch must run for them.
        """
        is_expression = (self.kernel_name or "").startswith(_REGEX)
        expression = (self.kernel_name or "").removeprefix(_REGEX)
        sample, overhead, burst = self.sample, self.overhead, 0
        if self.is_overview and sample is None:
            sample, burst = DEFAULT_SAMPLE, _BURST
            overhead = DEFAULT_OVERHEAD if overhead is None else overhead
        return CountersConfig(
            metrics,
            passes,
            replay=_REPLAYS[self.replay_mode],
            name=None if is_expression else self.kernel_name,
            name_regex=expression if is_expression else None,
            name_base=self.kernel_name_base,
            kernel_ids=self.kernel_id,
            skip_before_match=self.launch_skip_before_match,
            skip=self.launch_skip,
            count=self.launch_count or 0,
            exclude=None if self.is_range else THAT_WAIT,
            sample=sample or 0,
            burst=burst,
            budget_ppm=round((overhead or 0) * 10_000),
            devices=self.devices,
            ranges=RangesConfig() if self.counts_windows else self._ranges(),
            window_instances=self.range_filter[1],
            processes=self._processes(),
            filter_mode=self.filter_mode,
            kill=self.kill,
            clocks=self.clock_control,
            flushes_caches=self.cache_control is CacheControl.ALL,
        )

    def _processes(self) -> ProcessesConfig:
        return ProcessesConfig(
            self.target_processes is TargetProcesses.APPLICATION_ONLY,
            filter=self.target_processes_filter,
        )

    def _ranges(self) -> RangesConfig:
        per_window, _, instances = self.range_filter
        return RangesConfig(
            tuple(expression.lines() for expression in self.nvtx_include),
            tuple(expression.lines() for expression in self.nvtx_exclude),
            self.nvtx_push_pop_scope is PushPopScope.PROCESS,
            instances,
            per_window,
        )

    def samples(self) -> PcSamplingConfig:
        """Return how the agents sample program counters."""
        return PcSamplingConfig(
            _SHORTEST_EXPONENT + self.sampling_interval, self.devices, self._processes()
        )

    def capture(self, output: str, counters: CountersConfig | None) -> CaptureSettings:
        """Return the settings of the launcher.

        Args:
            output: Name of the recording.
            counters: What the agents count; None records a timeline instead, or samples program
                counters where that is asked for.
        """
        steps, every = self.steps, self.every
        if self.replay_mode is ReplayMode.STEPS and not self.has_range and self.duty is None:
            # Recording ends after each step, so that the next one is another pass.
            steps, every = steps or 1, every or 2
        # Ranges that bound recording, or start steps, are seen only where NVTX is recorded.
        wants_nvtx = self.nvtx or bool(
            self.nvtx_include or self.nvtx_exclude or steps or every or self.duty
        )
        is_timeline = counters is None and not self.source
        capture = CaptureSettings(
            trace=("cuda", "nvtx") if wants_nvtx or is_timeline else ("cuda",),
            output=output,
            force_overwrite=self.force_overwrite,
            steps=steps,
            every=every,
            duty=self.duty,
            step_range=self.step_range,
            capture_range_end=_ANY_NUMBER_OF_RANGES,
            quiet=self.quiet,
            command=self.command,
            given=set(self.given),
            counters=counters,
            pc_sampling=self.samples() if self.source else None,
            import_source=self.import_source,
        )
        if self.window is not None:
            capture.capture_range = CaptureRange.NVTX
            capture.nvtx_capture = (self.window.names[0], self.window.domain or None)
        elif self.has_profiler_ranges or (self.is_range and not self.samples_steps):
            capture.capture_range = CaptureRange.CUDA_PROFILER_API
        return capture
