"""Reading columns of a table: the native scanner compared with sqlite3's two interfaces.

Usage: python benchmarks/sqlite_scan.py RECORDING.sqlite [--table NAME] [--rounds 7]

Prints median milliseconds per reader in one process, with the file in the page cache and including
opening it, and the ratio to the native scanner. benchmarks/make_nsys.py generates recordings of any
size. sqlite3's C interface is measured if a C++ compiler and libsqlite3.so.0 are found.
"""

from __future__ import annotations

import argparse
import shutil
import sqlite3
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from unittest import mock

from warpline import native
from warpline.readers.nsys.database import Database, Kind

FEW = ("start", "end", "demangledName")


def median_ms(work: Callable[[], object], rounds: int) -> float:
    """Return the median time of a call, after one uncounted call."""
    work()
    times = []
    for _ in range(rounds):
        begin_ns = time.perf_counter_ns()
        work()
        times.append((time.perf_counter_ns() - begin_ns) / 1e6)
    return statistics.median(times)


def read(path: Path, table: str, columns: Sequence[str], core: native.Core | None) -> None:
    """Read integer columns with or without the native core."""
    with mock.patch.object(native, "core", return_value=core):
        database = Database.open(path)
        database.read(table, dict.fromkeys(columns, Kind.INT64))
        database.close()


def query(table: str, columns: Sequence[str]) -> str:
    """Return the query that fetches the columns in table order."""
    names = ", ".join(f't."{column}"' for column in columns)
    return f'SELECT {names} FROM "{table}" AS t NOT INDEXED'


def fetch_all(path: Path, sql: str) -> None:
    """Fetch rows as tuples, without conversion to columns."""
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
        connection.execute(sql).fetchall()


def step_ms(path: Path, sql: str, rounds: int) -> float | None:
    """Measure sqlite3's C interface; None if it cannot be built or run here."""
    compiler = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "sqlite_step"
        source = Path(__file__).with_name("sqlite_step.cpp")
        build = [compiler, "-std=c++20", "-O3", str(source), "-o", str(program), "-ldl"]
        if subprocess.run(build, check=False).returncode:
            return None
        run = subprocess.run(
            [program, path, sql, str(rounds + 1)], capture_output=True, text=True, check=False
        )
    return statistics.median(map(float, run.stdout.split()[1:])) if run.returncode == 0 else None


def main() -> None:
    """Print one line per reader and set of columns."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("recording", type=Path)
    parser.add_argument("--table", default="CUPTI_ACTIVITY_KIND_KERNEL")
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    path, table, rounds = arguments.recording, arguments.table, arguments.rounds
    core = native.core()
    if core is None:
        raise SystemExit(f"no native core: {native.status().reason}")
    database = Database.open(path)
    every = [column.name for column in database.tables[table]]
    print(f"{path}: {table}, {database.row_count(table):,} rows")
    database.close()
    for columns in ([name for name in FEW if name in every], every):
        sql = query(table, columns)
        results = {
            "native scanner": median_ms(lambda: read(path, table, columns, core), rounds),  # noqa: B023
            "sqlite3 in C++, to columns": step_ms(path, sql, rounds),
            "sqlite3 in Python, to tuples": median_ms(lambda: fetch_all(path, sql), rounds),  # noqa: B023
            "fallback, to columns": median_ms(lambda: read(path, table, columns, None), rounds),  # noqa: B023
        }
        ours = results["native scanner"] or 1.0
        for name, elapsed in results.items():
            figure = (
                "not measured" if elapsed is None else f"{elapsed:9.1f} ms {elapsed / ours:6.1f}x"
            )
            print(f"{len(columns):3} columns  {name:29} {figure}")


if __name__ == "__main__":
    main()
