"""The Python side of the records: what finishing reads by itself."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence

from records import Declarations, Field, Numbers, Table

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
    (call,) = (record for record in declared.records if record.name == "Call")
    lines += ["", "# The kind of the records of CUDA calls.", f"CALL_KIND = {call.number}"]
    tables = [(record, table) for record in declared.records for table in record.tables]
    collectors = [f'"{name}": "{table.name}"' for _, table in tables for name in table.collectors]
    collected = [f'"{table.name}": {_bits(table)}' for _, table in tables if table.collected]
    counted = [f'"{t.name}"' for record, t in tables if record.is_counted or t.collectors]
    lines += [
        "",
        "# The tables whose rows are records.",
        *_display("ROW_TABLES: tuple[str, ...]", [f'"{t.name}"' for _, t in tables], "()"),
        "# Those with what a program did: a recording that has no row of any is empty.",
        *_display("EVENT_TABLES: tuple[str, ...]", counted, "()"),
        "# CUDA's tables, and what was collected if one was recorded.",
        *_display("CUDA_TABLES: Mapping[str, CudaCollects]", collected, "{}"),
        "# What -t can name beside CUDA and NVTX, and the table that it adds.",
        *_display("COLLECTORS: Mapping[str, str]", collectors, "{}"),
    ]
    return "\n".join(lines)


def _display(name: str, items: Sequence[str], brackets: str) -> list[str]:
    """Return the lines of a tuple or a dictionary."""
    if not items:
        return [f"{name} = {brackets}", ""]
    return [f"{name} = {brackets[0]}", *(f"    {item}," for item in items), brackets[1], ""]


def _bits(table: Table) -> str:
    return " | ".join(f"CudaCollects.{_snake(name)}" for name in table.collected)


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
