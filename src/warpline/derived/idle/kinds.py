"""The causes of idle time, and which of them a CUDA API call can be.

Only CUDA functions (and HIP functions, which differ in the prefix) are classified by name. A
program's own names of functions, ranges and kernels do not matter.
"""

from __future__ import annotations

from functools import cache

from warpline.derived.texts import without_version
from warpline.derived.time_parts import TimePart
from warpline.vocabulary import Vocabulary


class CallKind(Vocabulary):
    """Kinds of calls: causes of idle time that hold for every such call, or reasons to look closer.

    A COPY is a function that returns when the copy is complete.
    """

    OTHER = ""
    HOST_SYNC = "host-sync"
    ALLOCATOR = "allocator"
    GRAPH_INSTANTIATION = "graph-instantiation"
    MODULE_LOAD = "module-load-or-JIT"
    LAUNCH = "launch"
    GRAPH_LAUNCH = "graph-launch"
    COPY = "copy"
    BEGIN_CAPTURE = "begin-capture"
    END_CAPTURE = "end-capture"


_ALLOCATOR = (
    *("cudaMalloc", "cudaFree", "cudaHostAlloc", "cudaHostRegister", "cudaHostUnregister"),
    *("cudaIpcOpenMemHandle", "cudaIpcCloseMemHandle", "cudaMemPoolTrimTo", "cudaMemPoolDestroy"),
    *("cuMemAlloc", "cuMemFree", "cuMemHostAlloc", "cuMemHostRegister", "cuMemHostUnregister"),
    *("cuMemCreate", "cuMemRelease", "cuMemMap", "cuMemUnmap", "cuMemSetAccess", "cuMemAddress"),
    *("cuMemPoolTrimTo", "cuMemPoolDestroy", "cuIpcOpenMemHandle", "cuIpcCloseMemHandle"),
    *("cuMemExport", "cuMemImport", "cuMulticast"),
)
_GRAPH = (
    *("cudaGraphInstantiate", "cuGraphInstantiate", "cudaGraphExecUpdate", "cuGraphExecUpdate"),
    *("cudaGraphUpload", "cuGraphUpload", "cudaGraphExecDestroy", "cuGraphExecDestroy"),
    *("cudaGraphDestroy", "cuGraphDestroy", "cudaGraphClone", "cuGraphClone"),
    *("cudaGraphAdd", "cuGraphAdd"),
)
_LOADING = (
    *("cuModuleLoad", "cuModuleUnload", "cuModuleGet", "cuLibrary", "cudaLibrary", "cuLink"),
    *("cuFuncLoad", "cuFuncGetModule", "cuKernelGetFunction", "cudaGetKernel", "cudaGetFuncBySymb"),
    *("cudaFuncGetAttributes", "cudaFuncSetAttribute", "cuFuncGetAttribute", "cuFuncSetAttribute"),
    *("cuKernelGetAttribute", "cuKernelSetAttribute", "cuKernelGetName"),
)
_SYNC = frozenset(
    f"{prefix}{what}Synchronize"
    for prefix in ("cuda", "cu")
    for what in ("Device", "Stream", "Event", "Ctx", "Thread")
)
_LAUNCH = ("cudaLaunch", "cuLaunch", "cudaExtLaunch", "cudaModuleLaunch", "cudaExtModuleLaunch")
_NO_WORK = ("cudaLaunchHostFunc", "cuLaunchHostFunc")  # a callback on the CPU
_GRAPH_LAUNCH = ("cudaGraphLaunch", "cuGraphLaunch")
_COPY = ("cudaMemcpy", "cuMemcpy")
_BEGIN_CAPTURE = ("cudaStreamBeginCapture", "cuStreamBeginCapture")
_END_CAPTURE = ("cudaStreamEndCapture", "cuStreamEndCapture")
_PREFIXES = {
    CallKind.ALLOCATOR: _ALLOCATOR,
    CallKind.GRAPH_INSTANTIATION: _GRAPH,
    CallKind.MODULE_LOAD: _LOADING,
    CallKind.LAUNCH: _LAUNCH,
    CallKind.GRAPH_LAUNCH: _GRAPH_LAUNCH,
    CallKind.COPY: _COPY,
    CallKind.BEGIN_CAPTURE: _BEGIN_CAPTURE,
    CallKind.END_CAPTURE: _END_CAPTURE,
}


@cache
def call_kind(name: str) -> CallKind:
    """Return the kind of a CUDA API function."""
    plain = without_version(name)
    if plain.startswith("hip"):
        plain = f"cuda{plain[3:]}"
    if plain in _SYNC:
        return CallKind.HOST_SYNC
    if plain in _NO_WORK:
        return CallKind.OTHER
    for kind, prefixes in _PREFIXES.items():
        if plain.startswith(prefixes) and not (kind == CallKind.COPY and "Async" in plain):
            return kind
    return CallKind.OTHER


# CUPTI and nsys name the kinds of overhead; some of them are not overhead of the profiler.
_NOT_OVERHEAD = {
    "command buffer full": None,
    "lazy function loading": TimePart.MODULE_LOAD,
    "runtime triggered module loading": TimePart.MODULE_LOAD,
    "driver compiler": TimePart.MODULE_LOAD,
}


@cache
def overhead_cause(name: str) -> TimePart | None:
    """Return the idle cause of a row of the `overhead` table; None for no cause.

    A full command buffer means that the CPU is far ahead and waits for a busy GPU.
    """
    plain = name.lower().removeprefix("cupti").strip(": ")
    return _NOT_OVERHEAD.get(plain, TimePart.PROFILER_OVERHEAD)
