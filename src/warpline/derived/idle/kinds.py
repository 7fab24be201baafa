"""The causes of idle time, and which of them a call of the CUDA interface may be.

Only functions of CUDA (and of HIP, whose names differ in their first letters) are told apart by
name. What a program calls its own functions, ranges and kernels plays no part.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

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
    "launch-bound": "the host had not launched the next operation yet",
    "host-sync": "the host waited for the device before it launched more",
    "input": "the host waited for data, or prepared it",
    "pageable-copy": "a copy from or to pageable memory held the host",
    "allocator": "the host was allocating or releasing memory",
    "graph-instantiation": "the host was capturing or instantiating a CUDA graph",
    "module-load-or-JIT": "the driver was loading or compiling code",
    "dependency": "the next operation waited for others on the device",
    "communication-wait": "the next operation waited behind a collective",
    "profiler-overhead": "the profiler held the host",
    "tail": "before the first operation or after the last one",
    "unknown": "the recording does not tell",
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

# Kinds of calls: causes that hold of every such call, and what needs a closer look. A "copy" is one
# of the functions that return when the copy is done.
CALL_KINDS: tuple[str, ...] = ("", "host-sync", *_PREFIXES)

_ENDINGS = re.compile(r"(_v[0-9]+|_ptsz|_ptds|_spt)+\Z")


@cache
def call_kind(name: str) -> int:
    """Return what a function of CUDA's interface is, a place in `CALL_KINDS`; 0 for any other."""
    plain = _ENDINGS.sub("", name)
    if plain.startswith("hip"):
        plain = f"cuda{plain[3:]}"
    if plain in _SYNC:
        return CALL_KINDS.index("host-sync")
    for kind, prefixes in _PREFIXES.items():
        if plain.startswith(prefixes) and not (kind == "copy" and "Async" in plain):
            return CALL_KINDS.index(kind)
    return 0


# CUPTI and nsys name what the profiler did; three of the names are waits or work of the driver.
_NOT_OVERHEAD = {
    "command buffer full": None,
    "lazy function loading": "module-load-or-JIT",
    "runtime triggered module loading": "module-load-or-JIT",
    "driver compiler": "module-load-or-JIT",
}


@cache
def overhead_cause(name: str) -> str | None:
    """Return the cause that a row of the `overhead` table stands for; None for no cause.

    A full command buffer means that the host is far ahead, and waits for a busy device.
    """
    plain = name.lower().removeprefix("cupti").strip(": ")
    return _NOT_OVERHEAD.get(plain, "profiler-overhead")
