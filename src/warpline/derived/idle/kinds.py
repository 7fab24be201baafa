"""The causes of idle time, and which of them a CUDA API call can be.

Only CUDA functions (and HIP functions, which differ in the prefix) are classified by name. A
program's own names of functions, ranges and kernels do not matter.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from warpline.derived.texts import without_version

IDLE_CAUSES: tuple[str, ...] = (
    "launch-bound",
    "host-sync",
    "input",
    "pageable-copy",
    "allocator",
    "graph-instantiation",
    "module-load-or-JIT",
    "dependency",
    "communication-wait",
    "profiler-overhead",
    "tail",
    "unknown",
)

IDLE_MEANINGS: Mapping[str, str] = {
    "launch-bound": "waiting for the next launch",
    "host-sync": "CPU-GPU synchronization",
    "input": "CPU loading or preparing data",
    "pageable-copy": "CPU blocked in a pageable copy",
    "allocator": "CPU allocating or freeing memory",
    "graph-instantiation": "CPU capturing or instantiating a CUDA graph",
    "module-load-or-JIT": "driver loading or compiling code",
    "dependency": "waiting for other GPU operations",
    "communication-wait": "waiting behind a collective",
    "profiler-overhead": "CPU blocked by the profiler",
    "tail": "before the first or after the last operation",
    "unknown": "cause not recorded",
}

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
_GRAPH_LAUNCH = ("cudaGraphLaunch", "cuGraphLaunch")
_COPY = ("cudaMemcpy", "cuMemcpy")
_BEGIN_CAPTURE = ("cudaStreamBeginCapture", "cuStreamBeginCapture")
_END_CAPTURE = ("cudaStreamEndCapture", "cuStreamEndCapture")
_PREFIXES = {
    "allocator": _ALLOCATOR,
    "graph-instantiation": _GRAPH,
    "module-load-or-JIT": _LOADING,
    "launch": _LAUNCH,
    "graph-launch": _GRAPH_LAUNCH,
    "copy": _COPY,
    "begin-capture": _BEGIN_CAPTURE,
    "end-capture": _END_CAPTURE,
}

# Kinds of calls: causes that apply to every such call, and kinds that need a closer look. A "copy"
# is a function that returns when the copy is complete.
CALL_KINDS: tuple[str, ...] = ("", "host-sync", *_PREFIXES)


@cache
def call_kind(name: str) -> int:
    """Return the kind of a CUDA API function, an index into `CALL_KINDS`; 0 for any other."""
    plain = without_version(name)
    if plain.startswith("hip"):
        plain = f"cuda{plain[3:]}"
    if plain in _SYNC:
        return CALL_KINDS.index("host-sync")
    for kind, prefixes in _PREFIXES.items():
        if plain.startswith(prefixes) and not (kind == "copy" and "Async" in plain):
            return CALL_KINDS.index(kind)
    return 0


# CUPTI and nsys name the kinds of overhead; some of them are not overhead of the profiler.
_NOT_OVERHEAD = {
    "command buffer full": None,
    "lazy function loading": "module-load-or-JIT",
    "runtime triggered module loading": "module-load-or-JIT",
    "driver compiler": "module-load-or-JIT",
}


@cache
def overhead_cause(name: str) -> str | None:
    """Return the idle cause of a row of the `overhead` table; None for no cause.

    A full command buffer means that the CPU is far ahead and waits for a busy GPU.
    """
    plain = name.lower().removeprefix("cupti").strip(": ")
    return _NOT_OVERHEAD.get(plain, "profiler-overhead")
