"""The CRC-32 of ZIP files, by the native core at memory speed, else by zlib."""

from __future__ import annotations

import sys
import zlib
from typing import TYPE_CHECKING

from warpline import native
from warpline.lazy import lazy

if TYPE_CHECKING:
    import numpy as np
else:  # the capture side imports this module without calling it
    np = lazy("numpy")

# For smaller buffers zlib is faster than taking the address, or than importing numpy for that.
_LEAST_NATIVE_BYTES = 1 << 12
_LEAST_IMPORT_BYTES = 1 << 26


def crc32(data: memoryview) -> int:
    """Return the CRC-32 of contiguous bytes. Releases the GIL for large buffers."""
    least = _LEAST_NATIVE_BYTES if "numpy" in sys.modules else _LEAST_IMPORT_BYTES
    core = native.core() if data.nbytes >= least else None
    if core is None:
        return zlib.crc32(data)
    crc = core.wl_crc32(np.frombuffer(data, np.uint8).ctypes.data, data.nbytes, 0, 0)
    return crc if crc >= 0 else zlib.crc32(data)  # out of memory for threads
