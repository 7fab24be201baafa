"""The C++ side of the records: kinds, numbers, the log's header, a struct per record."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from records import Declarations, Field, Numbers, Part, Record, Word

_FIELD_TYPES = {"u32": "std::uint32_t", "u64": "std::uint64_t", "i64": "std::int64_t"}

_BEGIN = """\
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace warpline::raw {
"""

_TOOLS = """\
// The header word of a record: its words, itself included (16 bits) << 48 | flags (8) << 40 |
// kind (8) << 32 | aux (32).
constexpr std::uint64_t header_word(Kind kind, std::uint8_t flags, std::size_t words,
                                    std::uint32_t aux) {
  return std::uint64_t{words} << 48 | std::uint64_t{flags} << 40 |
         std::uint64_t{static_cast<std::uint8_t>(kind)} << 32 | aux;
}
constexpr Kind kind_of(std::uint64_t header) {
  return static_cast<Kind>(static_cast<std::uint8_t>(header >> 32));
}
constexpr std::uint8_t flags_of(std::uint64_t header) {
  return static_cast<std::uint8_t>(header >> 40);
}
constexpr std::size_t words_of(std::uint64_t header) { return header >> 48; }
constexpr std::uint32_t aux_of(std::uint64_t header) { return static_cast<std::uint32_t>(header); }
constexpr std::size_t words_for(std::size_t bytes) { return (bytes + 7) / 8; }

// A number as it is in so many bits: the largest, if it is too large for them.
template <unsigned kBits>
constexpr std::uint64_t fitted(std::uint64_t value) {
  static_assert(kBits < 64);
  return std::min(value, (std::uint64_t{1} << kBits) - 1);
}
template <unsigned kBits>
constexpr std::uint64_t bits_of(std::uint64_t word, unsigned shift) {
  static_assert(kBits < 64);
  return word >> shift & ((std::uint64_t{1} << kBits) - 1);
}

// In the structs below `write` fills the words after the header. `read` returns false for a record
// whose size is not what its flags imply; members whose flag is not set stay as they were.
"""


def header_file(declared: Declarations) -> str:
    """Return the header, without the line that says what made it."""
    lines = [_BEGIN, *_kinds(declared.records)]
    for numbers in declared.numbers:
        lines += _numbers(numbers)
    lines += [*_log_header(declared.header), _TOOLS, *_facts(declared.records)]
    for record in declared.records:
        lines += _struct(record) if record.has_struct else _flags(record)
    return "\n".join([*lines, "}  // namespace warpline::raw", ""])


def comment(text: str, indent: str = "") -> list[str]:
    """Return the lines of a comment."""
    start = f"{indent}// "
    return textwrap.wrap(text, 100, initial_indent=start, subsequent_indent=start)


def _flag(is_set: object) -> str:
    return "true" if is_set else "false"


def _shown(word: Word) -> str:
    return f"[{' | '.join(part.name for part in word)}]"


def _kinds(records: tuple[Record, ...]) -> Iterator[str]:
    yield "enum class Kind : std::uint8_t {"
    for record in records:
        yield f"  k{record.name} = {record.number},"
        if not record.has_struct:
            aux = f" aux: {_shown(record.aux)}" if record.aux else ""
            words = "".join(map(_shown, record.words)) + record.rest
            yield from comment(f"{record.doc}{aux}{' words: ' if words else ''}{words}", "    ")
    yield "};\n"


def _numbers(numbers: Numbers) -> Iterator[str]:
    yield from comment(numbers.doc)
    # Bits are put together, so they are no class; their names say whose they are.
    prefix = f"k{numbers.name.removeprefix('Cuda')}" if numbers.are_bits else "k"
    yield f"enum {'' if numbers.are_bits else 'class '}{numbers.name} : std::uint32_t {{"
    for value in numbers.values:
        yield from comment(value.doc, "  ")
        yield f"  {prefix}{value.name} = {value.number},"
    yield "};\n"


_LASTING = {
    "": "kNever",
    "aux": "kByAux",
    "aux, word": "kByAuxAndWord",
    "word": "kByWord",
    "content": "kByContent",
    "latest": "kLatest",
}


def _facts(records: tuple[Record, ...]) -> Iterator[str]:
    yield "// What takes the place of a record that lasts: see `lasts` in records.toml."
    yield f"enum class Lasting : std::uint8_t {{ {', '.join(_LASTING.values())} }};\n"
    yield "// What is the same for all records of a kind. time_word: the word with the time at"
    yield "// which they were complete, 0: none."
    yield "struct KindFacts {"
    yield "  bool is_known = false;"
    yield "  Lasting lasting = Lasting::kNever;"
    yield "  std::uint8_t time_word = 0;"
    yield "  bool is_on_gpu_clock = false;"
    yield "  bool is_counted = false;"
    yield "};"
    yield "constexpr KindFacts facts_of(Kind kind) {"
    yield "  switch (kind) {"
    for record in records:
        facts = (
            f"Lasting::{_LASTING[record.lasts]}, {record.time_word}, "
            f"{_flag(record.is_on_gpu_clock)}, {_flag(record.is_counted)}"
        )
        yield f"    case Kind::k{record.name}: return {{true, {facts}}};"
    yield "  }"
    yield "  return {};"
    yield "}\n"


def _log_header(fields: tuple[Field, ...]) -> Iterator[str]:
    yield "// The first page of a log."
    yield "struct LogHeader {"
    for field in fields:
        yield from comment(field.doc, "  ")
        count = f"[{field.count}]" if field.count > 1 else ""
        yield f"  {_FIELD_TYPES.get(field.type, field.type)} {field.name}{count};"
    yield "};\n"


def _flags(record: Record) -> Iterator[str]:
    for flag in record.flags:
        yield from comment(f"Of a k{record.name}: {flag.doc}.")
        yield f"inline constexpr std::uint8_t k{record.name}{flag.name} = {flag.bit};\n"


def _struct(record: Record) -> Iterator[str]:
    yield from comment(record.doc)
    yield f"struct {record.name} {{"
    yield f"  static constexpr Kind kKind = Kind::k{record.name};"
    yield f"  static constexpr bool kIsCounted = {_flag(record.is_counted)};"
    for flag in record.flags:
        yield from comment(flag.doc, "  ")
        yield f"  static constexpr std::uint8_t k{flag.name} = {flag.bit};"
    yield f"  static constexpr std::uint8_t kFlags = {sum(flag.bit for flag in record.flags)};\n"
    yield "  std::uint8_t flags = 0;"
    for part in record.parts:
        yield f"  {_type(part)} {part.name} = 0;{'  // aux' if part.word == 0 else ''}"
    for flag in record.flags:
        for part in (part for word in flag.words for part in word):
            yield f"  {_type(part)} {part.name} = 0;  // k{flag.name}"
    yield "\n  constexpr bool has(std::uint8_t flag) const { return (flags & flag) != 0; }"
    yield "  constexpr std::uint32_t aux() const {"
    yield f"    return static_cast<std::uint32_t>({_packed(record.aux)});"
    yield "  }"
    sizes = (f" + (has(k{f.name}) ? {len(f.words)}u : 0u)" for f in record.flags if f.words)
    yield "  constexpr std::size_t words() const {"
    yield f"    return {1 + len(record.words)}u{''.join(sizes)};"
    yield "  }"
    yield from _write(record)
    yield from _read(record)
    yield "};\n"


def _type(part: Part) -> str:
    if part.kind == "real":
        return "double"
    sign = "" if part.is_signed else "u"
    return f"std::{sign}int{64 if part.bits > 32 else 32}_t"


def _packed(word: Word) -> str:
    return " | ".join(map(_put, word)) or "0"


def _put(part: Part) -> str:
    if part.kind == "real":
        return f"std::bit_cast<std::uint64_t>({part.name})"
    value = f"static_cast<std::uint{part.bits}_t>({part.name})" if part.is_signed else part.name
    if part.bits < 64:
        is_whole = part.is_signed or part.bits == 32
        value = f"std::uint64_t{{{value}}}" if is_whole else f"fitted<{part.bits}>({value})"
    return f"{value} << {part.shift}" if part.shift else value


def _got(part: Part, word: str) -> str:
    if part.kind == "real":
        return f"std::bit_cast<double>({word})"
    bits = word if part.bits == 64 else f"bits_of<{part.bits}>({word}, {part.shift})"
    return f"static_cast<{_type(part)}>({bits})"


def _write(record: Record) -> Iterator[str]:
    yield "  constexpr void write(std::uint64_t* room) const {"
    for place, word in enumerate(record.words, 1):
        yield f"    room[{place}] = {_packed(word)};"
    if any(flag.words for flag in record.flags):
        yield f"    std::uint64_t* at = room + {1 + len(record.words)};"
    for flag in (flag for flag in record.flags if flag.words):
        yield f"    if (has(k{flag.name})) {{"
        yield from (f"      *at++ = {_packed(word)};" for word in flag.words)
        yield "    }"
    yield "  }"


def _read(record: Record) -> Iterator[str]:
    yield "  constexpr bool read(const std::uint64_t* record, std::size_t size) {"
    yield "    flags = flags_of(*record);"
    yield "    if (size != words()) return false;"
    for part in record.parts:
        yield f"    {part.name} = {_got(part, f'record[{part.word}]')};"
    if any(flag.words for flag in record.flags):
        yield f"    const std::uint64_t* at = record + {1 + len(record.words)};"
    for flag in (flag for flag in record.flags if flag.words):
        yield f"    if (has(k{flag.name})) {{"
        for place, word in enumerate(flag.words):
            yield from (f"      {part.name} = {_got(part, f'at[{place}]')};" for part in word)
        yield f"      at += {len(flag.words)};"
        yield "    }"
    yield "    return true;"
    yield "  }"
