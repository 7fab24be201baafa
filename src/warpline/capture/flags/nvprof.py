"""Command lines of nvprof, the profiler before nsys and ncu, as those of Warpline."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from warpline.capture.flags.shell_words import Word
from warpline.capture.flags.translation import KERNELS, PROFILE, Translation
from warpline.errors import UsageError

# Metrics -> those of ncu, by NVIDIA's guide for the transition.
METRICS: Mapping[str, str] = {
    "achieved_occupancy": "sm__warps_active.avg.pct_of_peak_sustained_active",
    "branch_efficiency": "smsp__sass_average_branch_targets_threads_uniform.pct",
    "dram_read_bytes": "dram__bytes_read.sum",
    "dram_read_throughput": "dram__bytes_read.sum.per_second",
    "dram_utilization": "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    "dram_write_bytes": "dram__bytes_write.sum",
    "dram_write_throughput": "dram__bytes_write.sum.per_second",
    "gld_efficiency": "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.pct",
    "gst_efficiency": "smsp__sass_average_data_bytes_per_sector_mem_global_op_st.pct",
    "inst_executed": "smsp__inst_executed.sum",
    "ipc": "smsp__inst_executed.avg.per_cycle_active",
    "issued_ipc": "smsp__inst_issued.avg.per_cycle_active",
    "l2_tex_hit_rate": "lts__t_sector_hit_rate.pct",
    "sm_efficiency": "smsp__cycles_active.avg.pct_of_peak_sustained_elapsed",
    "warp_execution_efficiency": "smsp__thread_inst_executed_per_inst_executed.ratio",
}
_TABLES = {
    "print-gpu-trace": "cuda_gpu_trace",
    "print-api-trace": "cuda_api_trace",
    "print-gpu-summary": "cuda_gpu_sum",
    "print-api-summary": "cuda_api_sum",
    "print-summary": "cuda_gpu_sum,cuda_api_sum",
    "print-summary-per-gpu": "cuda_gpu_sum",
    "print-nvtx-trace": "nvtx_pushpop_trace",
}
_SHORT = {
    "-o": "export-profile",
    "-f": "force-overwrite",
    "-i": "import-profile",
    "-m": "metrics",
    "-e": "events",
    "-s": "print-summary",
    "-q": "quiet",
    "-t": "timeout",
    "-u": "normalized-time-unit",
    "-h": "help",
    "-V": "version",
    "-c": "concurrent-kernels",
}
_SWITCHES = frozenset(
    {
        *_TABLES,
        *("analysis-metrics", "csv", "force-overwrite", "quiet", "dependency-analysis"),
        *("profile-child-processes", "profile-all-processes", "print-dependency-analysis-trace"),
        *("print-openacc-summary", "print-openacc-trace", "print-nvlink-topology"),
        *("print-pci-topology", "print-context-trace", "print-openmp-summary", "query-events"),
        *("query-metrics", "help", "version", "replay-mode-disabled"),
    }
)
# Flags that need nothing here.
_NOT_NEEDED = {
    "profile-child-processes": "all processes of the program are recorded",
    "profile-all-processes": "name the program to record; warpline attach PID for one that runs",
    "system-profiling": "clocks, power and temperature are recorded once per second by default",
    "concurrent-kernels": "kernels run as they do alone",
    "dependency-analysis": "warpline analyze says what the GPU waits for",
    "normalized-time-unit": "warpline stats --timeunit",
    "demangling": "names are demangled",
}
_ON = frozenset({"on", "true", "yes", "1"})


@dataclass
class _Read:
    """What a line of nvprof asks for."""

    flags: list[str] = field(default_factory=list)
    tables: list[str] = field(default_factory=list)
    metrics: list[str] = field(default_factory=list)
    kernels: list[str] = field(default_factory=list)
    output: str | None = None
    is_csv: bool = False
    has_counters: bool = False
    imported: str | None = None
    left_out: list[tuple[str, str]] = field(default_factory=list)
    differs: list[str] = field(default_factory=list)


def of_nvprof(words: Sequence[Word], prefix: Sequence[Word]) -> Translation:
    """Translate what follows ``nvprof``.

    Raises:
        UsageError: A value is missing, or there is no program.
    """
    read, program = _read(list(words))
    before = [word.raw for word in prefix]
    if read.imported is not None:
        raise UsageError(
            "files of nvprof cannot be read", hint="record again: warpline profile PROGRAM"
        )
    if not program:
        raise UsageError("the line names no program", hint="such as nvprof ./app")
    if read.has_counters:
        return _counted(read, program, before)
    return _profiled(read, program, before)


def _profiled(read: _Read, program: list[Word], before: list[str]) -> Translation:
    named = ["-o", read.output] if read.output else []
    recording = f"{read.output or 'report1'}.warpline"
    stats = [] if read.tables or read.output else ["--stats=true"]
    flags = [*named, *read.flags, *stats]
    PROFILE.check([*flags, *(word.value for word in program)])
    line = [*before, "warpline", PROFILE.command, *flags, *(word.raw for word in program)]
    lines = [" ".join(line)]
    if read.tables:
        csv = ["-f", "csv"] if read.is_csv else []
        tables = ",".join(dict.fromkeys(read.tables))
        lines.append(" ".join(["warpline", "stats", "-r", tables, *csv, recording]))
    read.differs.append("A recording is kept, with ranges and the state of GPUs, too.")
    return Translation(lines, read.left_out, read.differs)


def _counted(read: _Read, program: list[Word], before: list[str]) -> Translation:
    flags = [*(["-o", read.output] if read.output else []), *read.kernels]
    if read.metrics:
        flags += ["--metrics", ",".join(dict.fromkeys(read.metrics))]
    if read.is_csv:
        flags.append("--csv")
    KERNELS.check([*flags, *(word.value for word in program)])
    line = [*before, "warpline", KERNELS.command, *flags, *(word.raw for word in program)]
    read.differs.append("Counters are those of ncu, per launch; warpline kernels plan lists them.")
    return Translation([" ".join(line)], read.left_out, read.differs)


def _read(words: list[Word]) -> tuple[_Read, list[Word]]:
    read = _Read()
    while words and words[0].value.startswith("-"):
        if words[0].value == "--":
            return read, words
        first = words.pop(0)
        name, equals, value = first.value.partition("=")
        known = _SHORT.get(name) or name.lstrip("-")
        shown = first.raw
        if known not in _SWITCHES and not equals:
            if not words:
                raise UsageError(f"{name} requires a value")
            value, shown = words[0].value, f"{shown} {words.pop(0).raw}"
        _SETTERS.get(known, _other)(read, known, value, shown)
    return read, words


def _table(read: _Read, name: str, value: str, shown: str) -> None:
    read.tables.append(_TABLES[name])


def _output(read: _Read, name: str, value: str, shown: str) -> None:
    # nvprof's %p and %h mean the same here.
    read.output = value.removesuffix(".nvprof").removesuffix(".nvvp") or None


def _force(read: _Read, name: str, value: str, shown: str) -> None:
    read.flags.append("-f=true")


def _csv(read: _Read, name: str, value: str, shown: str) -> None:
    read.is_csv = True


def _quiet(read: _Read, name: str, value: str, shown: str) -> None:
    read.flags.append("--quiet")


def _import(read: _Read, name: str, value: str, shown: str) -> None:
    read.imported = value


def _timeout(read: _Read, name: str, value: str, shown: str) -> None:
    read.flags.append(f"--duration={value}")


def _from_start(read: _Read, name: str, value: str, shown: str) -> None:
    if value not in _ON:
        read.flags += ["-c", "cudaProfilerApi"]
        read.differs.append("The recording ends with the range; cudaProfilerStart opens it.")


def _sampled(read: _Read, name: str, value: str, shown: str) -> None:
    if value in _ON:
        read.flags.append("-s=process-tree")


def _unified(read: _Read, name: str, value: str, shown: str) -> None:
    if value not in {"off", "false"}:
        read.flags += ["--cuda-um-cpu-page-faults=true", "--cuda-um-gpu-page-faults=true"]


def _memory(read: _Read, name: str, value: str, shown: str) -> None:
    if value in _ON:
        read.flags.append("--cuda-memory-usage=true")


def _counters(read: _Read, name: str, value: str, shown: str) -> None:
    read.has_counters = True
    for word in value.split(","):
        if word in {"all", ""}:
            continue
        if word in METRICS:
            read.metrics.append(METRICS[word])
        else:
            read.left_out.append(
                (f"--{name} {word}", "ncu and Warpline have no metric of this name")
            )


def _analysis(read: _Read, name: str, value: str, shown: str) -> None:
    read.has_counters = True
    read.kernels += ["--set", "full"]


def _kernel(read: _Read, name: str, value: str, shown: str) -> None:
    # CONTEXT:STREAM:NAME:INVOCATION, or a regular expression.
    is_id = value.count(":") == 3
    read.kernels += ["--kernel-id", value] if is_id else ["--kernel-name", f"regex:{value}"]


def _other(read: _Read, name: str, value: str, shown: str) -> None:
    read.left_out.append((shown, _NOT_NEEDED.get(name, "not supported")))


_SETTERS: Mapping[str, Callable[[_Read, str, str, str], None]] = {
    **dict.fromkeys(_TABLES, _table),
    "analysis-metrics": _analysis,
    "cpu-profiling": _sampled,
    "csv": _csv,
    "events": _counters,
    "export-profile": _output,
    "force-overwrite": _force,
    "import-profile": _import,
    "kernels": _kernel,
    "metrics": _counters,
    "output-profile": _output,
    "profile-from-start": _from_start,
    "quiet": _quiet,
    "timeout": _timeout,
    "track-memory-allocations": _memory,
    "unified-memory-profiling": _unified,
}
