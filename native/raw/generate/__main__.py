"""Generate the C++ and the Python side of records.toml.

    python native/raw/generate             writes the files
    python native/raw/generate --check     fails if one of them is not current

It needs the standard library only.
"""

from __future__ import annotations

import sys
from pathlib import Path

import cpp
import python
import records
import tables

RAW = Path(__file__).resolve().parents[1]
RECORDS = RAW / "warpline_records.h"
TABLES = RAW / "warpline_tables.h"
PYTHON = RAW.parents[1] / "src" / "warpline" / "capture" / "session" / "raw_numbers.py"
MADE = "Generated from native/raw/records.toml by `python native/raw/generate`."


def main(words: list[str]) -> int:
    """Write the files, or check them; return the exit status."""
    declared = records.parse((RAW / "records.toml").read_text(encoding="utf-8"))
    made = {
        RECORDS: f"// The records of a raw session.\n// {MADE}\n{cpp.header_file(declared)}",
        TABLES: f"// The tables of a raw session.\n// {MADE}\n{tables.header_file(declared)}",
        PYTHON: f'"""The numbers in raw logs.\n\n{MADE}\n"""\n\n{python.module(declared)}',
    }
    is_check = "--check" in words
    stale = [p for p in made if not p.exists() or p.read_text(encoding="utf-8") != made[p]]
    for path in stale:
        if is_check:
            sys.stderr.write(f"{path.name} is not current: run python native/raw/generate\n")
        else:
            path.write_text(made[path], encoding="utf-8")
    return int(is_check and bool(stale))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
