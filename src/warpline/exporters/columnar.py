"""Parquet and Arrow: a folder with one file for each table, as Polars writes them.

Texts and labels stand in place of their numbers, as in a DataFrame of the table.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from warpline.errors import InputError
from warpline.exporters import EXPORTERS, Exporter
from warpline.files import complete_file
from warpline.trace.trace import Trace


def write_parquet(trace: Trace, path: Path, tables: Collection[str]) -> None:
    """Write ``TABLE.parquet`` for each table."""
    for table, file in _files(path, tables, ".parquet"):
        with complete_file(file) as unfinished:
            trace[table].write_parquet(unfinished)


def write_arrow(trace: Trace, path: Path, tables: Collection[str]) -> None:
    """Write ``TABLE.arrow``, an Arrow IPC file, for each table."""
    for table, file in _files(path, tables, ".arrow"):
        with complete_file(file) as unfinished:
            trace[table].write_ipc(unfinished)


def _files(path: Path, tables: Collection[str], ending: str) -> list[tuple[str, Path]]:
    try:
        path.mkdir(exist_ok=True)
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror or error}") from error
    return [(table, path / f"{table}{ending}") for table in tables]


for _name, _title, _write in (
    ("parquet", "Parquet", write_parquet),
    ("arrow", "Arrow IPC (Feather)", write_arrow),
):
    EXPORTERS.add(
        _name,
        Exporter(
            name=_name,
            doc=f"A folder with one {_title} file for each table.",
            ending=f".{_name}",
            write=_write,
            is_folder=True,
        ),
    )
