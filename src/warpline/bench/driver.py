"""The CUDA driver through ctypes: what benchmarks need of it, with any library above it.

Libraries that use the CUDA runtime work in the primary context of a GPU, and so does this class:
its events can be recorded in their streams.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from ctypes import byref, c_float, c_int, c_size_t, c_uint, c_uint64, c_void_p
from functools import partial
from typing import Any

from warpline.bench.refusals import OutOfMemoryError, RefusedError

LIBRARY = "libcuda.so.1"
_OUT_OF_MEMORY, _NO_DEVICE, _NOT_READY, _PEER_ENABLED = 2, 100, 600, 704
_CAPABILITY, _L2_BYTES = (75, 76), 38  # attributes of a device
_NON_BLOCKING = 1  # a stream that does not wait for the default stream
_CAPTURE_RELAXED = 2

_OUT = c_void_p  # the address of a result
# The parameters of each function; all return a CUresult.
SIGNATURES: Mapping[str, tuple[type, ...]] = {
    "cuInit": (c_uint,),
    "cuDriverGetVersion": (_OUT,),
    "cuDeviceGetCount": (_OUT,),
    "cuDeviceGet": (_OUT, c_int),
    "cuDeviceGetName": (c_void_p, c_int, c_int),
    "cuDeviceGetUuid_v2": (_OUT, c_int),
    "cuDeviceGetAttribute": (_OUT, c_int, c_int),
    "cuDeviceTotalMem_v2": (_OUT, c_int),
    "cuDeviceCanAccessPeer": (_OUT, c_int, c_int),
    "cuDevicePrimaryCtxRetain": (_OUT, c_int),
    "cuCtxSetCurrent": (c_void_p,),
    "cuCtxEnablePeerAccess": (c_void_p, c_uint),
    "cuStreamCreate": (_OUT, c_uint),
    "cuStreamSynchronize": (c_void_p,),
    "cuStreamBeginCapture_v2": (c_void_p, c_int),
    "cuStreamEndCapture": (c_void_p, _OUT),
    "cuGraphInstantiateWithFlags": (_OUT, c_void_p, c_uint64),
    "cuGraphLaunch": (c_void_p, c_void_p),
    "cuGraphExecDestroy": (c_void_p,),
    "cuGraphDestroy": (c_void_p,),
    "cuEventCreate": (_OUT, c_uint),
    "cuEventRecord": (c_void_p, c_void_p),
    "cuEventQuery": (c_void_p,),
    "cuEventElapsedTime": (_OUT, c_void_p, c_void_p),
    "cuMemAlloc_v2": (_OUT, c_size_t),
    "cuMemFree_v2": (c_uint64,),
    "cuMemHostAlloc": (_OUT, c_size_t, c_uint),
    "cuMemFreeHost": (c_void_p,),
    "cuMemsetD8Async": (c_uint64, ctypes.c_ubyte, c_size_t, c_void_p),
    "cuMemcpyHtoDAsync_v2": (c_uint64, c_void_p, c_size_t, c_void_p),
    "cuMemcpyDtoHAsync_v2": (c_void_p, c_uint64, c_size_t, c_void_p),
    "cuMemcpyDtoDAsync_v2": (c_uint64, c_uint64, c_size_t, c_void_p),
    "cuMemcpyPeerAsync": (c_uint64, c_void_p, c_uint64, c_void_p, c_size_t, c_void_p),
    "cuModuleLoadData": (_OUT, c_void_p),
    "cuModuleGetFunction": (_OUT, c_void_p, ctypes.c_char_p),
    "cuLaunchKernel": (c_void_p, *[c_uint] * 7, c_void_p, c_void_p, c_void_p),
}


def prepared(function: Any, *arguments: Any) -> Callable[[], object]:
    """Return a call of a function whose arguments are converted once: that takes longer than it.

    Args:
        function: A function of ctypes with `argtypes`.
        arguments: Its arguments.
    """
    return partial(
        function,
        *(
            kind(argument) if isinstance(argument, int) else argument
            for kind, argument in zip(function.argtypes, arguments, strict=True)
        ),
    )


class Driver:
    """The CUDA driver, with the primary context of one GPU current in this thread.

    Args:
        index: Number of the GPU among those that CUDA_VISIBLE_DEVICES shows.
        library: The library; None to load the driver of this machine.

    Attributes:
        index: The number of the GPU.
        count: The number of GPUs.
        device: The handle of the GPU.
        context: Its primary context.

    Raises:
        RefusedError: There is no driver or no such GPU, or it cannot be used.
    """

    def __init__(self, index: int, library: Any = None) -> None:
        try:
            self._library = ctypes.CDLL(LIBRARY) if library is None else library
        except OSError:
            raise RefusedError(f"no NVIDIA driver was found ({LIBRARY})") from None
        status = self.function("cuInit")(0)
        if status == _NO_DEVICE:
            raise RefusedError("no GPU was found; CUDA_VISIBLE_DEVICES may hide it")
        self.check("cuInit", status)
        self.index = index
        self.count = self._number(c_int, "cuDeviceGetCount")
        if not 0 <= index < self.count:
            raise RefusedError(f"no GPU {index}: this machine has GPUs 0 to {self.count - 1}")
        self.device = self._number(c_int, "cuDeviceGet", index)
        self.context = self.primary_context(self.device)
        self.call("cuCtxSetCurrent", self.context)

    def function(self, name: str) -> Any:
        """Return a function of the driver that returns its status; RefusedError if too old."""
        try:
            found = getattr(self._library, name)
        except AttributeError:
            raise RefusedError(f"the NVIDIA driver is too old: it has no {name}") from None
        found.argtypes, found.restype = SIGNATURES[name], c_int
        return found

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function.

        Raises:
            OutOfMemoryError: There is not enough memory.
            RefusedError: It failed for another reason.
        """
        self.check(name, self.function(name)(*arguments))

    def check(self, name: str, status: int) -> None:
        """Raise the error of a status; see `call`."""
        if status == _OUT_OF_MEMORY:
            raise OutOfMemoryError
        if status:
            raise RefusedError(f"{name} failed (CUDA error {status})")

    def describe(self) -> dict[str, Any]:
        """Return facts about the GPU, JSON-ready."""
        name = ctypes.create_string_buffer(256)
        self.call("cuDeviceGetName", name, len(name), self.device)
        uuid = ctypes.create_string_buffer(16)
        self.call("cuDeviceGetUuid_v2", uuid, self.device)
        digits = uuid.raw.hex()
        parts = (digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])
        return {
            "index": self.index,
            "name": name.value.decode("utf-8", "replace"),
            "uuid": "GPU-" + "-".join(parts),
            "compute_capability": [self.attribute(which) for which in _CAPABILITY],
            "memory_bytes": self._number(c_size_t, "cuDeviceTotalMem_v2", self.device),
            "l2_bytes": self.attribute(_L2_BYTES),
            "cuda_version": self.cuda_version(),
        }

    def cuda_version(self) -> int:
        """Return the highest version of CUDA that the driver supports: 13000 for 13.0."""
        return self._number(c_int, "cuDriverGetVersion")

    def primary_context(self, device: int) -> c_void_p:
        """Return the primary context of a GPU."""
        return self._handle("cuDevicePrimaryCtxRetain", device)

    def peer(self, index: int) -> tuple[c_void_p, bool]:
        """Return the context of another GPU, and whether copies reach it directly."""
        other = self._number(c_int, "cuDeviceGet", index)
        context = self.primary_context(other)
        is_direct = bool(self._number(c_int, "cuDeviceCanAccessPeer", self.device, other))
        if is_direct:
            status = self.function("cuCtxEnablePeerAccess")(context, 0)
            if status != _PEER_ENABLED:
                self.check("cuCtxEnablePeerAccess", status)
        return context, is_direct

    def stream(self) -> c_void_p:
        """Return a new stream."""
        return self._handle("cuStreamCreate", _NON_BLOCKING)

    def event(self) -> c_void_p:
        """Return a new event."""
        return self._handle("cuEventCreate", 0)

    def has_happened(self, event: c_void_p) -> bool:
        """Return whether the work before an event has ended."""
        status = self.function("cuEventQuery")(event)
        if status == _NOT_READY:
            return False
        self.check("cuEventQuery", status)
        return True

    def elapsed_ns(self, begin: c_void_p, end: c_void_p) -> float:
        """Return the time between two events that have happened."""
        milliseconds = c_float()
        self.call("cuEventElapsedTime", byref(milliseconds), begin, end)
        return milliseconds.value * 1e6

    def allocate(self, size: int) -> int:
        """Return the address of new memory of the GPU whose context is current."""
        return self._number(c_uint64, "cuMemAlloc_v2", size)

    def allocate_pinned(self, size: int) -> int:
        """Return the address of new pinned memory of the host."""
        return self._handle("cuMemHostAlloc", size, 0).value or 0

    def kernel(self, ptx: bytes, name: bytes) -> c_void_p:
        """Return a kernel of a module in PTX, which the driver compiles."""
        module = self._handle("cuModuleLoadData", ptx)
        return self._handle("cuModuleGetFunction", module, name)

    def begin_capture(self, stream: c_void_p) -> None:
        """Capture what is launched in a stream from here."""
        self.call("cuStreamBeginCapture_v2", stream, _CAPTURE_RELAXED)

    def end_capture(self, stream: c_void_p) -> c_void_p:
        """Return a CUDA graph of what was captured, ready to be launched."""
        graph = self._handle_last("cuStreamEndCapture", stream)
        executable = self._handle("cuGraphInstantiateWithFlags", graph, 0)
        self.call("cuGraphDestroy", graph)
        return executable

    def idle_call(self) -> Callable[[], object]:
        """Return a call of the driver that does nothing, to compare others with."""
        version = c_int()
        return prepared(self.function("cuDriverGetVersion"), byref(version))

    def _number(self, kind: Any, name: str, *arguments: Any) -> int:
        found = kind()
        self.call(name, byref(found), *arguments)
        return int(found.value)

    def _handle(self, name: str, *arguments: Any) -> c_void_p:
        found = c_void_p()
        self.call(name, byref(found), *arguments)
        return found

    def _handle_last(self, name: str, *arguments: Any) -> c_void_p:
        found = c_void_p()
        self.call(name, *arguments, byref(found))
        return found

    def attribute(self, which: int) -> int:
        """Return an attribute of the GPU, by the driver's number of it."""
        return self._number(c_int, "cuDeviceGetAttribute", which, self.device)
