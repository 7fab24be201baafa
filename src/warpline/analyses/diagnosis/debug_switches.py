"""debug-switch: debug settings that slow the program down."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from warpline.derived.breakdown.step_scope import step_scope
from warpline.derived.idle.nan_checks import nan_checks
from warpline.derived.idle.result_reads import result_reads
from warpline.derived.ranges.names import range_names
from warpline.derived.ranges.stacks import range_nesting
from warpline.derived.work.operations import operations
from warpline.ops.arrays import I64
from warpline.ops.group import distinct_values
from warpline.result import Evidence, Finding, Severity, rule, severity_rank
from warpline.trace import Run, Trace

NAME = "debug-switch"
TITLE = "Debug settings slow the program"

_ROWS_SHOWN = 5
_BLOCKING_RATIO = 0.9  # of launches: a few may return after their kernel by chance
_LEAST_LAUNCHES = 20
_LEAST_CHECKS = 20  # for NaN, per step
_ANOMALY_CHECK = "aten::_is_any_true"  # in anomaly mode, PyTorch runs it on every gradient
_BACKWARD = "autograd::engine::evaluate_function"


class Switch(NamedTuple):
    """An environment variable, the values that matter, and their effect."""

    variable: str
    values: str  # a regular expression for the whole value, ignoring case
    severity: Severity
    title: str
    effect: str
    fix: str = ""


_ON = "1|true|yes|on|y"
_ANY = ".*"
# Sources: documentation of environment variables in the CUDA C++ programming guide, the NCCL user
# guide and PyTorch, and of logging in cuBLAS and cuDNN.
SWITCHES = (
    Switch(
        "CUDA_LAUNCH_BLOCKING",
        "[1-9][0-9]*",
        "high",
        "Kernel launches are synchronous",
        "the CPU waits for each kernel before it launches the next one, so nothing overlaps",
    ),
    Switch(
        "PYTORCH_NO_CUDA_MEMORY_CACHING",
        _ANY,
        "high",
        "PyTorch's caching allocator is off",
        "every tensor needs a cudaMalloc and a cudaFree, which synchronizes with the GPU",
    ),
    Switch(
        "TORCH_DISTRIBUTED_DEBUG",
        "DETAIL",
        "medium",
        "Every collective is verified",
        "PyTorch compares shapes across ranks before each collective, which adds another"
        " collective and a synchronization",
    ),
    Switch(
        "TORCH_NCCL_BLOCKING_WAIT|NCCL_BLOCKING_WAIT",
        _ON,
        "medium",
        "Waiting for collectives blocks the CPU",
        "waiting for a collective blocks the CPU instead of a stream",
        "Unset it. TORCH_NCCL_ASYNC_ERROR_HANDLING detects collectives that hang.",
    ),
    Switch(
        "NCCL_P2P_DISABLE|NCCL_SHM_DISABLE|NCCL_IB_DISABLE",
        _ON,
        "medium",
        "A fast NCCL transport is disabled",
        "messages between GPUs take a slower path",
        "Unset it, unless the transport does not work on this machine.",
    ),
    Switch(
        "NVIDIA_TF32_OVERRIDE",
        "0",
        "medium",
        "TF32 is disabled for all libraries",
        "FP32 GEMMs and convolutions do not use Tensor Cores",
        "Unset it, unless all operations need full FP32 precision.",
    ),
    Switch(
        "TORCHDYNAMO_DISABLE|TORCH_COMPILE_DISABLE",
        _ON,
        "medium",
        "torch.compile is disabled",
        "compiled code runs in eager mode instead",
    ),
    Switch(
        "TORCH_SHOW_DISPATCH_TRACE",
        _ON,
        "medium",
        "PyTorch prints every operator",
        "each operator dispatch prints a line",
    ),
    Switch(
        "CUDA_DISABLE_PERF_BOOST",
        _ON,
        "low",
        "The driver does not boost clocks",
        "the GPU may run at lower clocks",
    ),
    Switch(
        "CUDA_CACHE_DISABLE",
        _ON,
        "low",
        "Compiled kernels are not cached",
        "JIT-compiled kernels are recompiled at every start",
    ),
    Switch(
        "CUDA_FORCE_PTX_JIT",
        _ON,
        "low",
        "All kernels are JIT-compiled",
        "startup takes longer, and libraries may not run the kernels built for the GPU",
    ),
    Switch(
        "TORCH_COMPILE_DEBUG",
        _ON,
        "low",
        "torch.compile writes debug output",
        "compilation writes its stages to files",
    ),
    Switch(
        "NCCL_DEBUG",
        "TRACE",
        "low",
        "NCCL writes trace logs",
        "the CPU writes log lines for every collective",
        "Unset it or use NCCL_DEBUG=WARN.",
    ),
    Switch(
        "NCCL_CHECK_POINTERS",
        _ON,
        "low",
        "NCCL checks every pointer",
        "each collective queries the driver about its buffers",
    ),
    Switch(
        "CUBLAS_LOGINFO_DBG|CUDNN_LOGINFO_DBG",
        _ON,
        "low",
        "A library writes logs",
        "the CPU writes log lines for every library call",
    ),
    Switch(
        "CUBLASLT_LOG_LEVEL|CUDNN_LOGLEVEL_DBG",
        "[1-9]",
        "low",
        "A library writes logs",
        "the CPU writes log lines for library calls",
    ),
    Switch(
        "CUBLAS_WORKSPACE_CONFIG",
        ":(?:4096:2:16:8|4096:8|16:8)",
        "info",
        "cuBLAS is set to be deterministic",
        "cuBLAS uses only algorithms with bitwise reproducible results, which may be slower",
        "Unset it if results need not be bitwise reproducible.",
    ),
    Switch(
        "NCCL_DEBUG",
        "INFO",
        "info",
        "NCCL writes info logs",
        "the CPU writes log lines, mostly when communicators are created",
        "Unset it or use NCCL_DEBUG=WARN.",
    ),
    Switch(
        "CUDA_MODULE_LOADING",
        "EAGER",
        "info",
        "All kernels are loaded at startup",
        "startup takes more time and memory, but steps are not slower",
        "Unset it to load kernels on first use.",
    ),
    Switch(
        "CUDA_DEVICE_MAX_CONNECTIONS",
        "1",
        "info",
        "All streams share one hardware queue",
        "work of different streams starts in launch order. Some forms of model parallelism"
        " require this. Without them it reduces overlap",
        "Unset it unless the framework requires it.",
    ),
)


@rule(name=NAME, title=TITLE)
def debug_switch(run: Run) -> list[Finding]:
    """Debug settings that slow the program down.

    What it finds: Environment variables of the recorded program that enable checks, logs or
        synchronization. Regardless of the environment: synchronous kernel launches, and PyTorch's
        anomaly mode.
    Why it matters: Such a setting is easily forgotten and hides every other bottleneck. With
        CUDA_LAUNCH_BLOCKING=1, no other finding is meaningful.
    How it is found: By name and value in the recorded environment. Launches are synchronous if
        at least 9 in 10 of at least 20 launch calls end after their kernel. Anomaly mode checks
        every gradient for NaN: operator aten::_is_any_true runs in at least half of the functions
        of the backward pass. Without ranges or operators: at least 20 times per step, the CPU
        reads whether a tensor has a NaN, and at least half of all results that it reads are such.
    What to do: Unset the variable, profile again, then look at the other findings.
    Limits: Only Warpline's own recordings contain the environment. Settings made in code, such as
        torch.use_deterministic_algorithms, go unnoticed. Without PyTorch's ranges or operators,
        the program's own checks for NaN look like anomaly mode.
    Source: The documentation of environment variables of CUDA, NCCL, cuBLAS, cuDNN and PyTorch.
    """
    blocking = _blocking_launches(run.trace)
    findings = [*_by_environment(run.trace.meta.environment, blocking)]
    if blocking is not None and not any("CUDA_LAUNCH_BLOCKING" in item.claim for item in findings):
        findings.append(_launches_block(blocking))
    anomaly = _anomaly_mode(run.trace) or _nan_checks(run)
    if anomaly is not None:
        findings.append(anomaly)
    return sorted(findings, key=lambda item: severity_rank(item.severity))


def _by_environment(environment: Mapping[str, str], blocking: Evidence | None) -> Iterator[Finding]:
    for switch in SWITCHES:
        for variable in switch.variable.split("|"):
            value = environment.get(variable)
            if value is None or not re.fullmatch(switch.values, value, re.IGNORECASE):
                continue
            setting = f"{variable}={value}"
            seen = [Evidence(f"The recorded program ran with {setting}")]
            if blocking is not None and variable == "CUDA_LAUNCH_BLOCKING":
                seen.append(blocking)
            yield Finding(
                NAME,
                switch.severity,
                switch.title,
                f"With {setting}, {switch.effect}.",
                tuple(seen),
                switch.fix or f"Unset {variable}.",
                f"Profile again without {variable}.",
            )


@dataclass(frozen=True)
class _Launched:
    """Kernels with a known launch call: their rows, their ends and their calls."""

    row: I64
    end_ns: I64
    call: I64


def _kernels(trace: Trace) -> _Launched | None:
    """Return kernels that do not share their launch call, as kernels of a graph do."""
    if not trace.has("kernel") or not trace.has("api_call"):
        return None
    work = operations(trace)
    kernels = work.of_table("kernel")
    call = work.call[kernels]
    # The first count is of kernels without a call.
    is_alone = np.bincount(call + 1, minlength=1)[call + 1] == 1
    is_alone &= call >= 0
    if not is_alone.all():
        kernels, call = kernels[is_alone], call[is_alone]
    return _Launched(work.row[kernels], work.end_ns[kernels], call)


def _blocking_launches(trace: Trace) -> Evidence | None:
    """Return evidence of synchronous launches, if there is any."""
    kernels = _kernels(trace)
    if kernels is None or len(kernels.row) < _LEAST_LAUNCHES:
        return None
    calls = trace.columns("api_call", "start_ns", "end_ns")
    start_ns, end_ns = (column.values for column in calls.values())
    waited = np.flatnonzero(end_ns[kernels.call] >= kernels.end_ns)
    if len(waited) < _BLOCKING_RATIO * len(kernels.row):
        return None
    first = waited[np.argsort(start_ns[kernels.call[waited]], kind="stable")[:_ROWS_SHOWN]]
    windows = zip(*(time[kernels.call[first]].tolist() for time in (start_ns, end_ns)), strict=True)
    return Evidence(
        f"{len(waited):,} of {len(kernels.row):,} launch calls ended after their kernel",
        "kernel",
        tuple(kernels.row[first].tolist()),
        len(waited),
        tuple(windows),
    )


def _launches_block(seen: Evidence) -> Finding:
    return Finding(
        NAME,
        "high",
        "Kernel launches are synchronous",
        "Launch calls return only after their kernel ends, so nothing overlaps. The cause is"
        " CUDA_LAUNCH_BLOCKING=1, a debugger or a sanitizer.",
        (seen,),
        "Unset CUDA_LAUNCH_BLOCKING. Run without debuggers and sanitizers.",
        "Profile again: launch calls take a few microseconds.",
    )


def _anomaly_mode(trace: Trace) -> Finding | None:
    """Return a finding if the functions of the backward pass check their gradients for NaN."""
    if not trace.has("range") or not trace.row_count("range"):
        return None
    names = range_names(trace)
    texts = [text or "" for text in names.texts]
    is_check = np.array([text.split(",")[0] == _ANOMALY_CHECK for text in texts], np.bool_)
    is_backward = np.array([text.startswith(_BACKWARD) for text in texts], np.bool_)
    if not is_check.any() or not is_backward.any():
        return None
    nesting = range_nesting(trace)
    functions = np.flatnonzero(is_backward[names.codes])
    checks = np.flatnonzero(is_check[names.codes] & nesting.has_parent)
    checks = checks[is_backward[names.codes[nesting.parent[checks]]]]
    checked = distinct_values(nesting.parent[checks])
    if 2 * len(checked) < len(functions):
        return None
    times = trace.columns("range", "start_ns", "end_ns")
    first = checks[:_ROWS_SHOWN]
    windows = zip(*(times[name].values[first].tolist() for name in times), strict=True)
    seen = Evidence(
        f"{len(checked):,} of {len(functions):,} functions of the backward pass check for NaN"
        f" ({_ANOMALY_CHECK})",
        "range",
        tuple(first.tolist()),
        len(checks),
        tuple(windows),
    )
    return Finding(
        NAME,
        "high",
        "PyTorch's anomaly mode is on",
        "Each function of the backward pass checks its gradients for NaN and waits for the"
        " result, so the CPU cannot run ahead of the GPU.",
        (seen,),
        "Remove torch.autograd.set_detect_anomaly(True) or detect_anomaly().",
        f"Profile again: no {_ANOMALY_CHECK} inside {_BACKWARD}.",
    )


def _nan_checks(run: Run) -> Finding | None:
    """Return a finding if the CPU keeps asking whether tensors have a NaN."""
    scope, checks = step_scope(run), nan_checks(run.trace)
    places = np.zeros(len(operations(run.trace)), np.bool_)
    places[checks] = True
    number = round(scope.number_of(places))
    if number < _LEAST_CHECKS or 2 * len(checks) < len(result_reads(run.trace).copy):
        return None
    many = f"{number:,} times{scope.each}"
    return Finding(
        NAME,
        "high",
        "Tensors are checked for NaN all the time, as in PyTorch's anomaly mode",
        f"The CPU reads {many} whether a tensor has a NaN, and waits for each result, so it cannot"
        " run ahead of the GPU. Anomaly mode also records a Python stack for each operation.",
        (scope.show_operations(f"{many}: comparison, any(), and a copy to the CPU", places),),
        "Remove torch.autograd.set_detect_anomaly(True) or detect_anomaly(), and checks with"
        " torch.isnan() in the training loop. Check the loss only, every N steps.",
        "Profile again: fewer copies to the CPU in `warpline stats -r cuda_gpu_mem_time_sum`.",
    )
