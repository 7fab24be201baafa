"""The configuration of a session's agents: the content of agent.conf."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from urllib.parse import quote

from warpline.capture.session.sampling import Sampling

CONFIG_NAME = "agent.conf"

# Kinds of CUDA records that are on by default in agent.conf.
_CUDA_KINDS = (
    "cuda_kernel",
    "cuda_memcpy",
    "cuda_memset",
    "cuda_sync",
    "cuda_event",
    "cuda_overhead",
)


class ApiCalls(enum.StrEnum):
    """Which CUDA API calls are recorded; by default without queries."""

    DEFAULT = "calls"
    ALL = "all"
    NONE = "none"


class GraphTrace(enum.StrEnum):
    """What is recorded of a CUDA graph: its launches, or each of its nodes."""

    GRAPH = "graph"
    NODE = "node"


class WaitSource(enum.StrEnum):
    """Where synchronization and event records come from: API calls, or CUPTI's own records."""

    CALLS = "calls"
    CUPTI = "cupti"


@dataclass(frozen=True)
class CudaConfig:
    """What the agents record of CUDA.

    Attributes:
        library_paths: Candidate paths of CUPTI, in the order to try them.
        calls: Which API calls are recorded.
        graph: The level of detail for CUDA graphs.
        memory: Whether allocations and frees are recorded.
        cpu_faults: Whether CPU page faults of unified memory are recorded, with its migrations.
        gpu_faults: The same of GPU page faults.
        waits: Source of synchronization and event records.
        chains: Which calls get backtraces: kind of call -> minimum duration in ns.
        python_chains: The same for Python backtraces.
        flush_ms: Interval between flushes; at most this much is missing when a program is killed.
        detach_ms: Minimum expected pause between samples for detaching CUPTI; 0: never detach.
        is_silent: Record nothing; only detect calls of cudaProfilerStart and -Stop.
    """

    library_paths: tuple[str, ...] = ()
    calls: ApiCalls = ApiCalls.DEFAULT
    graph: GraphTrace = GraphTrace.NODE
    memory: bool = False
    cpu_faults: bool = False
    gpu_faults: bool = False
    waits: WaitSource = WaitSource.CALLS
    chains: Mapping[str, int] = field(default_factory=dict)
    python_chains: Mapping[str, int] = field(default_factory=dict)
    flush_ms: int = 1000
    detach_ms: int = 0
    is_silent: bool = False

    def pairs(self) -> list[tuple[str, str]]:
        """Return the keys and values for agent.conf."""
        found = [("cuda", "1"), *(("cupti_path", path) for path in self.library_paths)]
        found.append(("cuda_flush_ms", str(self.flush_ms)))
        if self.detach_ms:
            found.append(("cuda_detach_ms", str(self.detach_ms)))
        if self.is_silent:
            return [*found, ("cuda_api", ApiCalls.NONE), *((key, "0") for key in _CUDA_KINDS)]
        return [
            *found,
            ("cuda_api", self.calls),
            ("cuda_graph", self.graph),
            ("cuda_memory", str(int(self.memory))),
            ("cuda_cpu_faults", str(int(self.cpu_faults))),
            ("cuda_gpu_faults", str(int(self.gpu_faults))),
            ("cuda_waits", self.waits),
            *((f"cuda_chains_{kind}", str(ns)) for kind, ns in self.chains.items()),
            *((f"cuda_python_chains_{kind}", str(ns)) for kind, ns in self.python_chains.items()),
        ]


class Replay(enum.StrEnum):
    """How launches are counted: the values of counter_replay.

    AUTO is SERIAL for metrics of one pass, otherwise KERNEL. SERIAL keeps the profiler on, which
    runs one kernel at a time. KERNEL has CUPTI run each launch once per pass. STEPS makes each
    capture range a pass; all must launch the same kernels. RANGE counts all launches of a capture
    range together, in one pass, and they still overlap.
    """

    AUTO = "auto"
    KERNEL = "kernel"
    SERIAL = "serial"
    STEPS = "steps"
    RANGE = "range"


class FilterMode(enum.StrEnum):
    """What skip and count are applied to, each by itself; values of counter_filter_mode."""

    GLOBAL = "global"
    PER_GPU = "per-gpu"
    PER_LAUNCH_CONFIG = "per-launch-config"


class Clocks(enum.StrEnum):
    """What the GPU's clocks are locked to while counting; values of counter_clocks."""

    NONE = "none"
    BASE = "base"
    BOOST = "boost"


@dataclass(frozen=True)
class RangesConfig:
    """Which launches are counted by the NVTX ranges that are open.

    Attributes:
        include: Expressions in the agent's form, one of which must hold; empty for all launches.
        exclude: Expressions, none of which may hold.
        per_process: Push/pop ranges of all threads are one stack.
        instances: Which instances of what `include` matches, in the agent's form; empty for all.
        per_window: Their count restarts in each capture range.
    """

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    per_process: bool = False
    instances: str = ""
    per_window: bool = False

    def pairs(self) -> list[tuple[str, str]]:
        """Return the keys and values for agent.conf."""
        found = [("counter_nvtx_include", text) for text in self.include]
        found += [("counter_nvtx_exclude", text) for text in self.exclude]
        if self.per_process:
            found.append(("counter_nvtx_scope", "process"))
        if self.instances:
            found.append(("counter_nvtx_instances", self.instances))
        if self.per_window:
            found.append(("counter_nvtx_per_window", "1"))
        return found


@dataclass(frozen=True)
class ProcessesConfig:
    """In which processes launches are counted.

    Attributes:
        only_program: Only in the process that the launcher started.
        program: That process; None before it is started.
        filter: ``NAME``, ``regex:EXPRESSION``, ``exclude:NAME`` and ``exclude-tree:NAME``, for
            names of executables; the first that matches decides.
    """

    only_program: bool = False
    program: int | None = None
    filter: tuple[str, ...] = ()

    def pairs(self) -> list[tuple[str, str]]:
        """Return the keys and values for agent.conf."""
        found = [("counter_processes", text) for text in self.filter]
        if self.program is not None and (self.only_program or self.filter):
            found.append(("counter_program", str(self.program)))
            found.append(("counter_only_program", str(int(self.only_program))))
        return found


@dataclass(frozen=True)
class CountersConfig:
    """Which hardware counters the agents collect, and of which launches.

    Attributes:
        metrics: Full names and units of the metrics.
        passes: How often a launch must run for them.
        replay: How launches are counted.
        name: Count kernels with this name; None for all.
        name_regex: Count kernels in whose name this expression is found; None for all.
        name_base: Which name is compared: ``function``, ``demangled`` or ``mangled``.
        kernel_ids: Count these launches: ``context:stream:name:invocation``; empty for all.
        skip_before_match: Launches of any kernel to skip first.
        skip: Launches to skip, of those that the other filters take.
        count: Launches to count after them; 0: no limit.
        exclude: Never count kernels in whose mangled name this expression is found; None for none.
        sample: Launches to count of each kernel and shape; 0: all.
        burst: How many of these at most before time has passed, so that they are spread over the
            run; 0: no limit.
        budget_ppm: Share of a process's time that counting may take; 0: no limit.
        devices: CUDA ordinals of the GPUs; empty for all.
        ranges: In which NVTX ranges.
        window_instances: In which capture ranges, in the agent's form; empty for all.
        processes: In which processes.
        filter_mode: What `skip` and `count` are applied to.
        kill: Stop the program once `count` launches are counted.
        clocks: What the GPU's clocks are locked to.
        flushes_caches: Flush the GPU's caches before each pass.
    """

    metrics: tuple[tuple[str, str], ...]
    passes: int
    replay: Replay = Replay.AUTO
    name: str | None = None
    name_regex: str | None = None
    name_base: str = "function"
    kernel_ids: tuple[str, ...] = ()
    skip_before_match: int = 0
    skip: int = 0
    count: int = 0
    exclude: str | None = None
    sample: int = 0
    burst: int = 0
    budget_ppm: int = 0
    devices: tuple[int, ...] = ()
    ranges: RangesConfig = RangesConfig()
    window_instances: str = ""
    processes: ProcessesConfig = ProcessesConfig()
    filter_mode: FilterMode = FilterMode.GLOBAL
    kill: bool = False
    clocks: Clocks = Clocks.NONE
    flushes_caches: bool = False

    def pairs(self) -> list[tuple[str, str]]:
        """Return the keys and values for agent.conf."""
        found = [("counters", "1")]
        found += [("counter_metric", f"{name} {unit}".rstrip()) for name, unit in self.metrics]
        found.append(("counter_replay", self.replay))
        for key, text in (
            ("counter_name", self.name),
            ("counter_name_regex", self.name_regex),
            ("counter_exclude", self.exclude),
        ):
            if text is not None:
                found.append((key, text))
        found.append(("counter_name_base", self.name_base))
        found += [("counter_kernel_id", text) for text in self.kernel_ids]
        found += [
            ("counter_skip_before_match", str(self.skip_before_match)),
            ("counter_skip", str(self.skip)),
            ("counter_count", str(self.count)),
            ("counter_sample", str(self.sample)),
            ("counter_burst", str(self.burst)),
            ("counter_budget_ppm", str(self.budget_ppm)),
        ]
        if self.devices:
            found.append(("counter_devices", ",".join(map(str, self.devices))))
        found += self.ranges.pairs()
        if self.window_instances:
            found.append(("counter_window_instances", self.window_instances))
        found += self.processes.pairs()
        for key, text, is_given in (
            ("counter_filter_mode", self.filter_mode, self.filter_mode is not FilterMode.GLOBAL),
            ("counter_kill", "1", self.kill),
            ("counter_clocks", self.clocks, self.clocks is not Clocks.NONE),
            ("counter_caches", "all", self.flushes_caches),
        ):
            if is_given:
                found.append((key, text))
        return found


@dataclass(frozen=True)
class PcSamplingConfig:
    """How program counters are sampled.

    Attributes:
        period_exponent: The period is 2 to the power of this, in cycles of an SM; 5 to 31.
        devices: CUDA ordinals of the GPUs; empty for all.
        processes: In which processes.
    """

    period_exponent: int
    devices: tuple[int, ...] = ()
    processes: ProcessesConfig = ProcessesConfig()

    def pairs(self) -> list[tuple[str, str]]:
        """Return the keys and values for agent.conf."""
        found = [("pc_sampling", str(self.period_exponent))]
        if self.devices:
            found.append(("counter_devices", ",".join(map(str, self.devices))))
        return found + self.processes.pairs()


@dataclass(frozen=True)
class CpuSamplesConfig:
    """How the agents themselves sample CPU stacks, where the kernel does not let others do so.

    Attributes:
        hz: Samples per second of a thread's CPU time.
        python: Whether stacks have Python frames.
    """

    hz: int
    python: bool = False

    def pairs(self) -> list[tuple[str, str]]:
        """Return the keys and values for agent.conf."""
        return [
            ("cpu_samples.hz", str(self.hz)),
            ("cpu_samples.python", str(int(self.python))),
            ("collect", "cpu_samples"),
        ]


@dataclass(frozen=True)
class OsCallsConfig:
    """Which calls of the C library are recorded.

    Attributes:
        threshold_ns: Calls that take at least this long.
        chains_ns: Calls that take at least this long have backtraces; None: none.
    """

    threshold_ns: int
    chains_ns: int | None = None

    def pairs(self) -> list[tuple[str, str]]:
        """Return the keys and values for agent.conf."""
        found = [("os_threshold", str(self.threshold_ns))]
        if self.chains_ns is not None:
            found.append(("os_chains", str(self.chains_ns)))
        return found


@dataclass(frozen=True)
class AgentConfig:
    """Configuration of the agents.

    Attributes:
        nvtx: Whether NVTX events are recorded.
        domain_include: Record only these NVTX domains; empty for all. "default" is the unnamed one.
        domain_exclude: Exclude these NVTX domains.
        range_name: The NVTX range that opens a capture range, or None.
        range_domain: Its domain; None for the default domain, "*" for any.
        sample: Which steps are recorded; None for all.
        block_bytes: Increment by which a log grows.
        keep_free_bytes: Logs stop growing when the file system has less space left.
        cuda: What is recorded of CUDA, or None.
        collect: The collectors that run, besides NVTX and CUDA.
        counters: Which hardware counters are collected, in place of a timeline, or None.
        pc_sampling: How program counters are sampled, in place of a timeline, or None.
        cpu_samples: How the agents sample CPU stacks; None if they do not.
        os_calls: Which calls of the C library are recorded, or None.
        library_chains_ns: Calls of libraries that take at least this long have backtraces; None:
            none.
        preload: Names of libraries beside the agent that programs are started with.
    """

    nvtx: bool = True
    domain_include: tuple[str, ...] = ()
    domain_exclude: tuple[str, ...] = ()
    range_name: str | None = None
    range_domain: str | None = None
    sample: Sampling | None = None
    block_bytes: int = 1 << 20
    keep_free_bytes: int = 64 << 20
    cuda: CudaConfig | None = None
    collect: tuple[str, ...] = ()
    counters: CountersConfig | None = None
    pc_sampling: PcSamplingConfig | None = None
    cpu_samples: CpuSamplesConfig | None = None
    os_calls: OsCallsConfig | None = None
    library_chains_ns: int | None = None
    preload: tuple[str, ...] = ()

    def text(self) -> str:
        """Return the content of agent.conf."""
        pairs: list[tuple[str, str]] = [("version", "1"), ("nvtx", str(int(self.nvtx)))]
        pairs += [("domain_include", name) for name in self.domain_include]
        pairs += [("domain_exclude", name) for name in self.domain_exclude]
        if self.range_name is not None:
            pairs.append(("range_name", self.range_name))
        if self.range_domain is not None:
            pairs.append(("range_domain", self.range_domain))
        if self.sample is not None:
            pairs += self.sample.pairs()
        pairs.append(("block_bytes", str(self.block_bytes)))
        pairs.append(("keep_free_bytes", str(self.keep_free_bytes)))
        if self.cuda is not None:
            pairs += self.cuda.pairs()
        if self.counters is not None:
            pairs += self.counters.pairs()
        if self.pc_sampling is not None:
            pairs += self.pc_sampling.pairs()
        if self.cpu_samples is not None:
            pairs += self.cpu_samples.pairs()
        if self.os_calls is not None:
            pairs += self.os_calls.pairs()
        if self.library_chains_ns is not None:
            pairs.append(("library_chains", str(self.library_chains_ns)))
        pairs += [("collect", name) for name in self.collect]
        return config_lines(pairs)


def config_lines(pairs: Iterable[tuple[str, str]]) -> str:
    """Return lines of agent.conf."""
    return "".join(
        f"{key}={quote(value, safe='', errors='surrogateescape')}\n" for key, value in pairs
    )
