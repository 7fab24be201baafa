"""The Python side of the records: what finishing reads by itself."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator

from records import Declarations, Field, Numbers

_TYPES = {
    "char": "ctypes.c_char",
    "u32": "ctypes.c_uint32",
    "u64": "ctypes.c_uint64",
    "i64": "ctypes.c_int64",
}

_BEGIN = """\
from __future__ import annotations

import ctypes
import enum
from collections.abc import Mapping
"""


def module(declared: Declarations) -> str:
    """Return the module, without its docstring."""
    lines = [_BEGIN]
    for numbers in declared.numbers:
        lines += _enum(numbers)
    lines += _log_header(declared.header)
    rows = [table for record in declared.records for table in record.tables]
    collectors = [f'    "{row.collector}": "{row.name}",' for row in rows if row.collector]
    tables = "".join(f'\n    "{row.name}",' for row in rows)
    lines += [
        "",
        "# The tables whose rows are records.",
        f"ROW_TABLES: tuple[str, ...] = ({tables}\n)",
        "",
        "# What -t can name beside CUDA and NVTX, and the table that it adds.",
        "COLLECTORS: Mapping[str, str] = {" + "".join(f"\n{line}" for line in collectors),
    ]
    return "\n".join(lines) + ("\n}\n" if collectors else "}\n")


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).upper()


def _enum(numbers: Numbers) -> Iterator[str]:
    kind = "IntFlag" if numbers.are_bits else "IntEnum"
    yield f'\nclass {numbers.name}(enum.{kind}):\n    """{numbers.doc}"""\n'
    for value in numbers.values:
        start = "    # "
        yield from textwrap.wrap(value.doc, 96, initial_indent=start, subsequent_indent=start)
        yield f"    {_snake(value.name)} = {value.number}"
    yield ""


def _log_header(fields: tuple[Field, ...]) -> Iterator[str]:
    yield '\nclass LogHeader(ctypes.LittleEndianStructure):\n    """The first page of a log."""\n'
    yield "    _fields_ = ("
    for field in fields:
        count = f" * {field.count}" if field.count > 1 else ""
        yield f'        ("{field.name}", {_TYPES[field.type]}{count}),'
    yield "    )\n"
