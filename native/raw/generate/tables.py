"""The C++ side of the tables: a struct per table, with its columns and the order of its rows."""

from __future__ import annotations

from collections.abc import Iterator

from cpp import comment
from records import Column, Declarations, Part, Record, Table

_BEGIN = """\
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <tuple>

#include "warpline_records.h"

namespace warpline {

// Whose a row is.
enum class RowOf : std::uint8_t { kProcess, kThread, kPlace };

// In a row `take` copies what it has of its record; `text_of` returns the text of a CudaName
// record's number. In ColumnsOf a row, `visit` calls visitor(name, a function of a row) for every
// column, visitor.shared instead where that needs only what rows of AlikeRows share, and
// visitor.constant(name, text); `first` and `others` are what rows are sorted by. The functions
// that make a column are those of raw/conversions.h.
template <typename Row>
struct ColumnsOf;
"""

_OWN = {"start_ns", "end_ns", "correlation"}  # what each row of AlikeRows has for itself


def header_file(declared: Declarations) -> str:
    """Return the header, without the line that says what made it."""
    tables = [(record, table) for record in declared.records for table in record.tables]
    lines = [_BEGIN]
    for number, (record, table) in enumerate(tables):
        lines += _struct(number, record, table)
    names = ",\n                         ".join(_struct_name(table) for _, table in tables)
    lines += ["// All of them.", "template <typename... Row>", "struct RowTypes {};"]
    lines += [f"using AllRows = RowTypes<{names}>;", ""]
    return "\n".join([*lines, "}  // namespace warpline", ""])


def _struct_name(table: Table) -> str:
    return "".join(word.capitalize() for word in table.name.split("_")) + "Row"


def _struct(number: int, record: Record, table: Table) -> Iterator[str]:
    yield from comment(f"A row of {table.name}, made of a {record.name} record.")
    yield f"struct {_struct_name(table)} {{"
    yield f"  using Record = raw::{record.name};"
    yield f"  static constexpr std::size_t kNumber = {number};"
    yield f'  static constexpr std::string_view kTable = "{table.name}";'
    yield f"  static constexpr RowOf kOwner = RowOf::k{table.owner.capitalize()};"
    yield f"  static constexpr bool kIsOnGpuClock = {str(table.is_on_gpu_clock).lower()};"
    yield f"  static constexpr bool kIsAlike = {str(table.is_alike).lower()};\n"
    owner = Part(table.owner, 0, 0, 32, is_signed=table.owner == "process")
    members = [owner, *table.joined, *table.kept]
    for part in sorted(members, key=lambda part: -part.bits):
        none = "-1" if part.kind == "text" or (part.is_signed and part in table.joined) else "0"
        yield f"  {_type(part)} {part.name} = {none};"
    unused = -sum(_bytes(part) for part in members) % 8
    if table.is_alike and unused:
        yield f"  std::uint8_t unused[{unused}] = {{}};  // no gap: compared by bytes"
    yield ""
    if table.has_flags:
        yield "  bool has(std::uint8_t flag) const { return (flags & flag) != 0; }"
    yield "  void take(const Record &record, [[maybe_unused]] const auto &text_of) {"
    for part in table.kept:
        yield f"    {part.name} = {_taken(part)};"
    yield "  }"
    yield "};\n"
    yield "template <>"
    yield f"struct ColumnsOf<{_struct_name(table)}> {{"
    yield from _columns(record, table)
    yield from _order(record, table)
    yield "};\n"


def _type(part: Part) -> str:
    if part.kind == "real":
        return "double"
    is_signed = part.is_signed or part.kind in {"text", "time"}
    return f"std::{'' if is_signed else 'u'}int{_bytes(part) * 8}_t"


def _bytes(part: Part) -> int:
    return next(size for size in (1, 2, 4, 8) if size * 8 >= part.bits)


def _taken(part: Part) -> str:
    if part.kind == "text":
        return f"text_of(record.{part.name})"
    return f"static_cast<{_type(part)}>(record.{part.name})"


def _call(record: Record, column: Column) -> str:
    flags = {flag.name for flag in record.flags}
    arguments = (
        f"row.has(raw::{record.name}::k{name})" if name in flags else f"row.{name}"
        for name in column.arguments
    )
    return f"{column.function}(in, {', '.join(arguments)})"


def _columns(record: Record, table: Table) -> Iterator[str]:
    row = f"const {_struct_name(table)} &row"
    yield "  static void visit(const auto &visitor) {"
    for column in table.columns:
        is_shared = table.is_alike and _OWN.isdisjoint(column.arguments)
        visit = "visitor.shared" if is_shared else "visitor"
        yield f'    {visit}("{column.name}", [](const auto &in, {row}) {{'
        yield f"      return {_call(record, column)};"
        yield "    });"
    for name, text in table.constants.items():
        yield f'    visitor.constant("{name}", "{text}");'
    yield "  }"


def _order(record: Record, table: Table) -> Iterator[str]:
    first, *others = (f"{_call(record, table.column(name))}.value" for name in table.order)
    row = f"const {_struct_name(table)} &row"
    yield f"  static auto first(const auto &in, {row}) {{"
    yield f"    return {first};"
    yield "  }"
    yield f"  static auto others([[maybe_unused]] const auto &in, [[maybe_unused]] {row}) {{"
    indent = "\n                      "
    yield f"    return std::tuple({f',{indent}'.join(others)});"
    yield "  }"
