"""Build the native core for another processor, and run its tests with an emulator.

Usage: python release/check_emulated.py [--emulator QEMU] [--machine MACHINE] [RECORDING...]

The tests are those of native/core, linked with musl into programs that need no library of the other
machine. Tables of recordings (.sqlite; default: those of the demo) are read by the core there, and
compared with what Python's sqlite3 reads here.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

ROOT = Path(__file__).parents[1]
# With fewer rounds than ctest runs: emulation takes some ten times as long.
TESTS = {"crc32_test": [], "raw_fuzz": ["500"], "json_fuzz": ["3000"], "line_table_test": ["20"]}
_KINDS = {"INTEGER": "i", "REAL": "f", "TEXT": "t"}


def main() -> None:
    """Build, and check everything; the exit status is 1 at the first failure."""
    parser = argparse.ArgumentParser(description="Test the native core with an emulator.")
    parser.add_argument("--emulator", default="qemu-aarch64")
    parser.add_argument("--machine", default="aarch64")
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "emulated")
    parser.add_argument("recordings", nargs="*", type=Path)
    args = parser.parse_args()
    emulator = shutil.which(args.emulator)
    if emulator is None:
        sys.exit(f"error: {args.emulator} not found: qemu-user has it, or --emulator=PATH")
    build(args.build, args.machine)
    for name, words in TESTS.items():
        print(f"== {name}", flush=True)
        _run(emulator, args.build / "core" / name, *words)
    data = ROOT / "src" / "warpline" / "data"
    for recording in args.recordings or sorted(data.glob("*.sqlite")):
        tables, rows = compare(recording, [emulator, str(args.build / "core" / "read_table")])
        print(f"{recording.name}: {tables} tables with {rows:,} rows are as sqlite3 reads them")


def build(folder: Path, machine: str) -> None:
    """Build the tests."""
    tools = Path(sys.executable).parent
    env = {**os.environ, "WARPLINE_MACHINE": machine}
    env["PATH"] = os.pathsep.join([str(tools), env["PATH"]])
    settings = {
        "CMAKE_TOOLCHAIN_FILE": ROOT / "release" / "emulated.cmake",
        "CMAKE_BUILD_TYPE": "Release",
        "CMAKE_UNITY_BUILD": "ON",
        "WARPLINE_TESTS": "ON",
    }
    words = [f"-D{name}={value}" for name, value in settings.items()]
    _run(tools / "cmake", "-S", ROOT / "native", "-B", folder, "-G", "Ninja", *words, env=env)
    _run(tools / "cmake", "--build", folder, "--target", *TESTS, "read_table", env=env)


def _run(*words: str | Path, env: dict[str, str] | None = None) -> None:
    subprocess.run([*map(str, words)], check=True, env=env)


def compare(recording: Path, reader: list[str]) -> tuple[int, int]:
    """Compare all tables of a recording; return how many, and the number of their rows."""
    tables = total = 0
    with closing(sqlite3.connect(f"{recording.resolve().as_uri()}?mode=ro", uri=True)) as database:
        database.text_factory = lambda text: text.hex()
        for name, root in list(_tables(database)):
            columns = list(_columns(database, name))
            words = [*reader, str(recording), str(root), *(word for _, word in columns)]
            done = subprocess.run(words, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                sys.exit(f"error: {recording.name}, {name}: {done.stderr.strip()}")
            names = ", ".join(f'"{column}"' for column, _ in columns)
            query = f'SELECT {names} FROM "{name}" ORDER BY rowid'  # noqa: S608
            expected = [list(row) for row in database.execute(query)]
            found = [json.loads(line) for line in done.stdout.splitlines()]
            if found != expected:
                sys.exit(f"error: {recording.name}: {name} differs")
            tables, total = tables + 1, total + len(found)
    return tables, total


def _tables(database: sqlite3.Connection) -> Iterator[tuple[str, int]]:
    query = "SELECT name, rootpage FROM sqlite_master WHERE type = 'table'"
    for name, root in database.execute(query):
        yield bytes.fromhex(name).decode(), root


def _columns(database: sqlite3.Connection, table: str) -> Iterator[tuple[str, str]]:
    """Yield the columns of kinds that are compared, and what names them for the reader."""
    rows = database.execute(f'PRAGMA table_info("{table}")').fetchall()
    keys = sum(row[-1] != 0 for row in rows)
    for place, name, kind, _, _, key in rows:
        column, declared = bytes.fromhex(name).decode(), bytes.fromhex(kind).decode()
        if declared in _KINDS:
            is_rowid = declared == "INTEGER" and key == keys == 1
            yield column, f"{-1 if is_rowid else place}{_KINDS[declared]}"


if __name__ == "__main__":
    main()
