"""The clock of the SMs while work runs, as the GPU counts it.

Each SM has a counter of its cycles, and all share a timer in ns. A kernel of one thread per block
writes both down before and after the work. NVML reports the clock of one moment, which changes
within milliseconds under a power limit.
"""

from __future__ import annotations

import ctypes
import statistics
from collections.abc import Sequence
from ctypes import c_void_p

from warpline.bench.driver import Driver

_MOST_SMS = 512
_SM_COUNT = 16  # an attribute of a device
_WORDS = 2 * _MOST_SMS  # of a stamp: timer and cycles of each SM
_STAMP_BYTES = 8 * _WORDS
_KERNEL = b""".version 6.0
.target sm_50
.address_size 64
.visible .entry stamp(.param .u64 into)
{
  .reg .u32 %sm;
  .reg .u64 %to, %at, %ns, %cycles;
  .reg .pred %beyond;
  mov.u32 %sm, %smid;
  setp.ge.u32 %beyond, %sm, 512;
  @%beyond ret;
  ld.param.u64 %to, [into];
  mul.wide.u32 %at, %sm, 16;
  add.u64 %to, %to, %at;
  mov.u64 %ns, %globaltimer;
  mov.u64 %cycles, %clock64;
  st.global.v2.u64 [%to], {%ns, %cycles};
  ret;
}
"""


class SmClock:
    """Measures the clock of the SMs between two places in a stream.

    Args:
        driver: The driver; its GPU is that of the stream.
        stream: The stream.

    Raises:
        OutOfMemoryError: There is no memory for the stamps.
        RefusedError: The kernel cannot be compiled or launched.
    """

    def __init__(self, driver: Driver, stream: c_void_p) -> None:
        self._driver = driver
        self._stream = stream
        self._kernel = driver.kernel(_KERNEL, b"stamp")
        self._memory = driver.allocate(2 * _STAMP_BYTES)
        self._blocks = driver.attribute(_SM_COUNT)

    def begin(self) -> None:
        """Queue the first stamp."""
        self._driver.call("cuMemsetD8Async", self._memory, 0, 2 * _STAMP_BYTES, self._stream)
        self._stamp(self._memory)

    def end(self) -> None:
        """Queue the second stamp."""
        self._stamp(self._memory + _STAMP_BYTES)

    def hz(self) -> float | None:
        """Return the mean clock between the stamps, which have been written; None if unknown."""
        words = (ctypes.c_uint64 * (2 * _WORDS))()
        self._driver.call(
            "cuMemcpyDtoHAsync_v2", ctypes.addressof(words), self._memory, len(words) * 8,
            self._stream,
        )  # fmt: skip
        self._driver.call("cuStreamSynchronize", self._stream)
        return mean_clock_hz(words[:_WORDS], words[_WORDS:])

    def _stamp(self, address: int) -> None:
        into = ctypes.c_uint64(address)
        arguments = (c_void_p * 1)(ctypes.addressof(into))
        self._driver.call(
            "cuLaunchKernel", self._kernel, self._blocks, 1, 1, 1, 1, 1, 0, self._stream,
            ctypes.addressof(arguments), None,
        )  # fmt: skip


def mean_clock_hz(before: Sequence[int], after: Sequence[int]) -> float | None:
    """Return the median over the SMs of cycles by time, in Hz; None if no SM has both stamps.

    Args:
        before: Timer in ns and cycles of each SM in turn; zeros where no block ran.
        after: The same, later.
    """
    clocks = [
        (cycles - cycles_0) / (ns - ns_0) * 1e9
        for ns_0, cycles_0, ns, cycles in zip(
            before[::2], before[1::2], after[::2], after[1::2], strict=True
        )
        if 0 < ns_0 < ns and cycles_0 < cycles
    ]
    return statistics.median(clocks) if clocks else None
