"""Parquet and Arrow: a directory with one file per table, written by Polars.

Strings and labels replace their ids, as in a DataFrame of the table.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING

from warpline.exporters import EXPORTERS, Exporter
from warpline.files import complete_directory
from warpline.lazy import lazy
from warpline.trace.trace import Trace

if TYPE_CHECKING:
    import polars as pl
else:
    pl = lazy("polars")

_OS_ERROR = re.compile(r"\(os error ([0-9]+)\)")


def write_parquet(trace: Trace, path: Path, tables: Collection[str]) -> None:
    """Write ``TABLE.parquet`` for each table."""
    _write(trace, path, tables, ".parquet", lambda frame, file: frame.write_parquet(file))


def write_arrow(trace: Trace, path: Path, tables: Collection[str]) -> None:
    """Write ``TABLE.arrow``, an Arrow IPC file, for each table."""
    _write(trace, path, tables, ".arrow", lambda frame, file: frame.write_ipc(file))


def _write(
    trace: Trace,
    path: Path,
    tables: Collection[str],
    suffix: str,
    write: Callable[[pl.DataFrame, Path], object],
) -> None:
    with complete_directory(path) as unfinished:
        for table in tables:
            frame = trace[table]
            try:
                write(frame, unfinished / f"{table}{suffix}")
            except (OSError, pl.exceptions.PolarsError) as error:
                raise _system_error(error) from error


def _system_error(error: Exception) -> Exception:
    """Return an error of Polars as an OSError with its number, if its message has one."""
    found = _OS_ERROR.search(str(error))
    if found is None:
        return error
    number = int(found[1])
    return OSError(number, os.strerror(number))


for _name, _title, _function in (
    ("parquet", "Parquet", write_parquet),
    ("arrow", "Arrow IPC (Feather)", write_arrow),
):
    EXPORTERS.add(
        _name,
        Exporter(
            name=_name,
            doc=f"A directory with one {_title} file per table.",
            ending=f".{_name}",
            write=_function,
            is_folder=True,
        ),
    )
