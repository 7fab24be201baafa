"""Recordings made from logs written by tests, and their content."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

from capture.cuda_writer import CudaLog
from capture.raw_writer import Log, write_session

import warpline
from warpline.capture.finishing.finish import Finished, finish
from warpline.container import Container
from warpline.trace import Trace


def read(folder: Path, *logs: Log, **facts: Any) -> tuple[Trace, Finished]:
    """Finish the session of some logs; `facts` go into its session.json."""
    session = write_session(folder / "x.warpline.raw", *logs, **facts)
    finished = finish(session, folder / "x.warpline")
    return warpline.open(folder / "x.warpline"), finished


def read_cuda(folder: Path, *logs: CudaLog, **facts: Any) -> tuple[Trace, Finished]:
    """Finish a session in which CUDA was asked for."""
    return read(folder, *logs, **{"collected": ["cuda"], **facts})


def of_process(pid: int = 100, **more: Any) -> CudaLog:
    """Return a log of a process with one device and one context."""
    log = CudaLog(pid, **more)
    log.collecting(0)
    log.device()
    log.context()
    return log


def rows(trace: Trace, table: str, *names: str) -> list[tuple[Any, ...]]:
    """Return columns of a table, row by row."""
    return trace[table].select(names).rows()


def stored(folder: Path, column: str) -> list[int]:
    """Return a column of 64-bit numbers in the order of the file."""
    container = Container.open(folder / "x.warpline")
    array = container.members[f"{column}.npy"].array
    assert array is not None
    return list(struct.unpack_from(f"<{array.count}q", container.data, array.offset_bytes))
