"""The modules that kernels of compiled code are from, by the source that Inductor compiled."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.ops.arrays import I32, I64
from warpline.trace import Trace


class CompiledWork(NamedTuple):
    """Operations of compiled code whose module is known.

    Attributes:
        operation: Shape (n,), int64, places in `operations`, ascending.
        path: Shape (n,), int32, places in `paths`.
        paths: The names of modules.
    """

    operation: I64
    path: I32
    paths: tuple[str, ...]


@derived
def compiled_work(trace: Trace) -> CompiledWork:
    """Return the operations of compiled code whose module is known."""
    return CompiledWork(np.zeros(0, np.int64), np.zeros(0, np.int32), ())
