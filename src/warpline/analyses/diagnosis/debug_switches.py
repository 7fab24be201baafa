"""debug-switch: settings that are meant for finding errors and slow every run down."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from warpline.derived.ranges.names import range_names
from warpline.derived.ranges.stacks import range_nesting
from warpline.derived.work.operations import operations
from warpline.ops.arrays import I64
from warpline.result import SEVERITIES, Evidence, Finding, Severity, rule
from warpline.trace import Trace

NAME = "debug-switch"
TITLE = "Settings for finding errors that slow the program down"

_ROWS_SHOWN = 5
_BLOCKING_RATIO = 0.9  # of launches: a launch now and then may find its kernel done
_LEAST_LAUNCHES = 20
_ANOMALY_CHECK = "aten::_is_any_true"  # what PyTorch asks of every gradient in anomaly mode
_BACKWARD = "autograd::engine::evaluate_function"


class Switch(NamedTuple):
    """An environment variable, the values that matter, and what they do."""

    variable: str
    values: str  # a regular expression that the whole value matches, in any case
    severity: Severity
    title: str
    effect: str
    fix: str = ""


_ON = "1|true|yes|on|y"
_ANY = ".*"
# Sources: the CUDA C++ programming guide on environment variables, the environment variables of
# the NCCL user guide, cuBLAS's and cuDNN's pages on logging, and PyTorch's notes on its own.
SWITCHES = (
    Switch(
        "CUDA_LAUNCH_BLOCKING",
        "[1-9][0-9]*",
        "high",
        "Every launch waits for its kernel",
        "the host waits for each kernel before it launches the next one, so that nothing overlaps",
    ),
    Switch(
        "PYTORCH_NO_CUDA_MEMORY_CACHING",
        _ANY,
        "high",
        "PyTorch's memory cache is off",
        "every tensor is a cudaMalloc and a cudaFree, which wait for the device",
    ),
    Switch(
        "TORCH_DISTRIBUTED_DEBUG",
        "DETAIL",
        "medium",
        "Every collective is checked",
        "PyTorch compares the shapes of all ranks before each collective, which is another"
        " collective and a wait",
    ),
    Switch(
        "TORCH_NCCL_BLOCKING_WAIT|NCCL_BLOCKING_WAIT",
        _ON,
        "medium",
        "The host waits for collectives",
        "waiting for a collective blocks the host instead of a stream",
        "unset it; TORCH_NCCL_ASYNC_ERROR_HANDLING finds collectives that hang",
    ),
    Switch(
        "NCCL_P2P_DISABLE|NCCL_SHM_DISABLE|NCCL_IB_DISABLE",
        _ON,
        "medium",
        "NCCL may not use a fast path",
        "messages take a slower way between the GPUs",
        "unset it, unless the fast path does not work on this machine",
    ),
    Switch(
        "NVIDIA_TF32_OVERRIDE",
        "0",
        "medium",
        "TF32 is turned off for all libraries",
        "float32 matrix products and convolutions do not use tensor cores",
        "unset it, unless the full precision of float32 is needed everywhere",
    ),
    Switch(
        "TORCHDYNAMO_DISABLE|TORCH_COMPILE_DISABLE",
        _ON,
        "medium",
        "torch.compile is turned off",
        "what the program compiles runs operator by operator instead",
    ),
    Switch(
        "TORCH_SHOW_DISPATCH_TRACE",
        _ON,
        "medium",
        "PyTorch prints every operator",
        "each call of the dispatcher writes a line",
    ),
    Switch(
        "CUDA_DISABLE_PERF_BOOST",
        _ON,
        "low",
        "The driver does not raise clocks",
        "the GPU may stay at lower clocks while the program runs",
    ),
    Switch(
        "CUDA_CACHE_DISABLE",
        _ON,
        "low",
        "Compiled kernels are not kept",
        "kernels compiled when they are loaded are compiled again at each start",
    ),
    Switch(
        "CUDA_FORCE_PTX_JIT",
        _ON,
        "low",
        "All kernels are compiled when they are loaded",
        "the start takes longer, and libraries may run other kernels than those built for the GPU",
    ),
    Switch(
        "TORCH_COMPILE_DEBUG",
        _ON,
        "low",
        "torch.compile writes what it does",
        "compiling writes its stages to files",
    ),
    Switch(
        "NCCL_DEBUG",
        "TRACE",
        "low",
        "NCCL writes a trace",
        "the host writes lines for every collective",
        "unset it or use NCCL_DEBUG=WARN",
    ),
    Switch(
        "NCCL_CHECK_POINTERS",
        _ON,
        "low",
        "NCCL checks every pointer",
        "each collective asks the driver about its buffers",
    ),
    Switch(
        "CUBLAS_LOGINFO_DBG|CUDNN_LOGINFO_DBG",
        _ON,
        "low",
        "A library writes a log",
        "the host writes lines for every call of the library",
    ),
    Switch(
        "CUBLASLT_LOG_LEVEL|CUDNN_LOGLEVEL_DBG",
        "[1-9]",
        "low",
        "A library writes a log",
        "the host writes lines for calls of the library",
    ),
    Switch(
        "CUBLAS_WORKSPACE_CONFIG",
        ":(?:4096:2:16:8|4096:8|16:8)",
        "info",
        "cuBLAS is asked for results that repeat",
        "cuBLAS keeps to algorithms that give the same bits each time; they may be slower",
        "unset it if results need not repeat bit by bit",
    ),
    Switch(
        "NCCL_DEBUG",
        "INFO",
        "info",
        "NCCL writes what it does",
        "the host writes lines, most of them when communicators are made",
        "unset it or use NCCL_DEBUG=WARN",
    ),
    Switch(
        "CUDA_MODULE_LOADING",
        "EAGER",
        "info",
        "All kernels are loaded at the start",
        "the start takes longer and more memory; steps are no slower",
        "unset it: kernels are then loaded when they are first used",
    ),
    Switch(
        "CUDA_DEVICE_MAX_CONNECTIONS",
        "1",
        "info",
        "All streams share one hardware queue",
        "work of different streams starts in the order of the launches. Some ways of splitting a"
        " model need that; where they are not used it takes away overlap",
        "unset it unless the framework asks for it",
    ),
)


@rule(name=NAME, title=TITLE)
def debug_switch(trace: Trace, steps: str | None) -> list[Finding]:
    """Settings that are meant for finding errors and slow every run down.

    What it finds: Environment variables of the recorded program that turn on checks, logs or
        waiting; and, whatever the environment says, programs in which launches wait for their
        kernels, and PyTorch's anomaly mode.
    Why it matters: Such a setting is easily forgotten, and it hides every other bottleneck: with
        CUDA_LAUNCH_BLOCKING=1 no other finding is worth following.
    How it is found: By name and value in the environment that the recording keeps. A launch
        waited if its call ended after its kernel had; launches block if 9 in 10 did, of at least
        20. Anomaly mode asks of every gradient whether it holds a NaN: an operator
        aten::_is_any_true in at least half of the functions of the backward pass.
    What to do: Unset the variable, record again, and then look at what remains.
    Limits: Only recordings of Warpline keep the environment. What a program sets in itself, such
        as torch.use_deterministic_algorithms, is not seen. Anomaly mode needs ranges or
        operators of PyTorch.
    Source: The documentation of CUDA, NCCL, cuBLAS, cuDNN and PyTorch about their variables.
    """
    blocking = _blocking_launches(trace)
    found = [*_by_environment(trace.meta.environment, blocking)]
    if blocking is not None and not any("CUDA_LAUNCH_BLOCKING" in item.claim for item in found):
        found.append(_launches_block(blocking))
    anomaly = _anomaly_mode(trace)
    if anomaly is not None:
        found.append(anomaly)
    return sorted(found, key=lambda item: SEVERITIES.index(item.severity))


def _by_environment(environment: Mapping[str, str], blocking: Evidence | None) -> Iterator[Finding]:
    for switch in SWITCHES:
        for variable in switch.variable.split("|"):
            value = environment.get(variable)
            if value is None or not re.fullmatch(switch.values, value, re.IGNORECASE):
                continue
            setting = f"{variable}={value}"
            seen = [Evidence(f"{setting} is in the environment of the recorded program")]
            if blocking is not None and variable == "CUDA_LAUNCH_BLOCKING":
                seen.append(blocking)
            yield Finding(
                NAME,
                switch.severity,
                switch.title,
                f"With {setting} {switch.effect}.",
                tuple(seen),
                switch.fix or f"unset {variable}",
                f"record again without {variable}",
            )


@dataclass(frozen=True)
class _Launched:
    """Kernels whose launch call is known: their rows, and when they and their calls ended."""

    row: I64
    end_ns: I64
    call_start_ns: I64
    call_end_ns: I64


def _kernels(trace: Trace) -> _Launched | None:
    """Return kernels with calls of their own: those of a graph share one."""
    if not trace.has("kernel") or not trace.has("api_call"):
        return None
    work = operations(trace)
    kernels = work.of_table("kernel")
    kernels = kernels[work.call[kernels] >= 0]
    shared = np.bincount(work.call[kernels]) if len(kernels) else np.zeros(1, np.int64)
    kernels = kernels[shared[work.call[kernels]] == 1]
    calls = trace.columns("api_call", "start_ns", "end_ns")
    call = work.call[kernels]
    return _Launched(
        work.row[kernels],
        work.end_ns[kernels],
        calls["start_ns"].values[call],
        calls["end_ns"].values[call],
    )


def _blocking_launches(trace: Trace) -> Evidence | None:
    """Return what shows that launch calls wait for their kernels, if they do."""
    found = _kernels(trace)
    if found is None or len(found.row) < _LEAST_LAUNCHES:
        return None
    waited = np.flatnonzero(found.call_end_ns >= found.end_ns)
    if len(waited) < _BLOCKING_RATIO * len(found.row):
        return None
    first = waited[np.argsort(found.call_start_ns[waited], kind="stable")[:_ROWS_SHOWN]]
    times = (found.call_start_ns, found.call_end_ns)
    windows = zip(*(time[first].tolist() for time in times), strict=True)
    return Evidence(
        f"{len(waited):,} of {len(found.row):,} launch calls ended after their kernel had",
        "kernel",
        tuple(found.row[first].tolist()),
        len(waited),
        tuple(windows),
    )


def _launches_block(seen: Evidence) -> Finding:
    return Finding(
        NAME,
        "high",
        "Every launch waits for its kernel",
        "Launch calls do not return before their kernel has ended, so that nothing overlaps:"
        " CUDA_LAUNCH_BLOCKING=1, a debugger or a sanitizer does that.",
        (seen,),
        "unset CUDA_LAUNCH_BLOCKING; run without debuggers and sanitizers",
        "record again: launch calls then take a few microseconds",
    )


def _anomaly_mode(trace: Trace) -> Finding | None:
    """Return PyTorch's anomaly mode: each function of the backward pass checks its gradients."""
    if not trace.has("range") or not trace.row_count("range"):
        return None
    names, nesting = range_names(trace), range_nesting(trace)
    texts = [text or "" for text in names.texts]
    is_check = np.array([text.split(",")[0] == _ANOMALY_CHECK for text in texts], np.bool_)
    is_backward = np.array([text.startswith(_BACKWARD) for text in texts], np.bool_)
    if not is_check.any() or not is_backward.any():
        return None
    functions = np.flatnonzero(is_backward[names.codes])
    checks = np.flatnonzero(is_check[names.codes] & nesting.has_parent)
    checks = checks[is_backward[names.codes[nesting.parent[checks]]]]
    checked = np.unique(nesting.parent[checks])
    if 2 * len(checked) < len(functions):
        return None
    times = trace.columns("range", "start_ns", "end_ns")
    first = checks[:_ROWS_SHOWN]
    windows = zip(*(times[name].values[first].tolist() for name in times), strict=True)
    seen = Evidence(
        f"{len(checked):,} of {len(functions):,} functions of the backward pass hold a check"
        f" for NaN ({_ANOMALY_CHECK})",
        "range",
        tuple(first.tolist()),
        len(checks),
        tuple(windows),
    )
    return Finding(
        NAME,
        "high",
        "PyTorch's anomaly mode is on",
        "Each function of the backward pass looks for NaN in its gradients and waits for the"
        " answer, so that the host cannot run ahead of the device.",
        (seen,),
        "turn off torch.autograd.set_detect_anomaly, or detect_anomaly around the loop",
        f"record again: no {_ANOMALY_CHECK} below {_BACKWARD}",
    )
