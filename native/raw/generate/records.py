"""The declarations in records.toml, parsed and checked."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

_PART = re.compile(r"(?P<name>\w+)(?P<null>\?)?(?::(?P<kind>\w+))?")
# Kinds of a part that are no plain number -> bits, and how it becomes a column.
_KINDS = {"f64": (64, "Real"), "text": (32, "Text"), "label": (32, "Label"), "flag": (8, "Flag")}
_MAX_SORTED = 4  # columns, the time included: RowRecord::order


@dataclass(frozen=True)
class Part:
    """A part of a word.

    Attributes:
        name: Its name.
        word: The word's number in the record; 0 is the header, whose low bits are aux.
        shift: Where its bits begin.
        bits: How many there are.
        column: How it becomes a column: Number, Real, Time, Text, Label or Flag.
        is_signed: Whether it may be negative.
        is_nullable: Whether 0 is null.
    """

    name: str
    word: int
    shift: int
    bits: int
    column: str = "Number"
    is_signed: bool = False
    is_nullable: bool = False


Word = tuple[Part, ...]


@dataclass(frozen=True)
class Flag:
    """A flag, and the words that follow where it is set."""

    name: str
    bit: int
    words: tuple[Word, ...]
    doc: str


@dataclass(frozen=True)
class Row:
    """How a record is a row of a table: see records.toml."""

    table: str
    is_of_thread: bool
    constants: dict[str, str]
    order: tuple[str, ...]
    collector: str | None


@dataclass(frozen=True)
class Record:
    """A kind of record; `rest` is what follows the words, if that has no fixed place."""

    number: int
    name: str
    doc: str
    aux: Word
    words: tuple[Word, ...]
    flags: tuple[Flag, ...]
    rest: str
    is_counted: bool
    row: Row | None

    @property
    def parts(self) -> list[Part]:
        """The parts of the header and of the words that every record of this kind has."""
        return [*self.aux, *(part for word in self.words for part in word)]

    @property
    def has_struct(self) -> bool:
        """Whether everything has a fixed place, so that a struct can have it."""
        return bool(self.words) and not self.rest


@dataclass(frozen=True)
class Value:
    """A name of a number."""

    name: str
    number: int
    doc: str


@dataclass(frozen=True)
class Numbers:
    """Numbers with names, or bits."""

    name: str
    doc: str
    are_bits: bool
    values: tuple[Value, ...]


@dataclass(frozen=True)
class Field:
    """A field of the header of a log: char, u32, u64 or i64, and how many."""

    name: str
    type: str
    count: int
    doc: str


@dataclass(frozen=True)
class Declarations:
    """What records.toml declares."""

    records: tuple[Record, ...]
    numbers: tuple[Numbers, ...]
    header: tuple[Field, ...]


def parse(source: str) -> Declarations:
    """Parse the text of records.toml.

    Raises:
        ValueError: A declaration is malformed, or two records have the same number or name.
    """
    declared = tomllib.loads(source)
    flags = {entry["name"]: entry.get("optional", []) for entry in declared["record"]}
    records = tuple(_record(entry, flags) for entry in declared["record"])
    for names in ([r.number for r in records], [r.name for r in records]):
        if len({*names}) != len(names):
            raise ValueError(f"two records have the same number or name: {names}")
    return Declarations(
        records,
        tuple(_numbers(entry) for entry in declared["numbers"]),
        tuple(_field(entry) for entry in declared["header"]["fields"]),
    )


def parse_word(text: str, place: int, bits: int = 64) -> Word:
    """Parse a word of so many bits, such as ``device | context`` or ``grid_x:u32 | grid_y:u16``.

    Raises:
        ValueError: A part is malformed, or the parts do not fit.
    """
    texts = [part.strip() for part in text.split("|")]
    found: list[Part] = []
    shift = 0
    for part in texts:
        match = _PART.fullmatch(part)
        if match is None or (match["kind"] is None and len(texts) > 2):
            raise ValueError(f"{text!r}: {part!r} is not a part of a word")
        kind = match["kind"] or f"u{bits // len(texts)}"
        width, column = _KINDS[kind] if kind in _KINDS else (int(kind[1:]), "Number")
        name = match["name"]
        if name != "0":
            column = "Time" if name == "time_ns" else column
            is_nullable = match["null"] is not None
            found.append(Part(name, place, shift, width, column, kind[0] == "i", is_nullable))
        shift += width
    if shift > bits:
        raise ValueError(f"{text!r} has more than {bits} bits")
    return tuple(found)


def _words(texts: Sequence[str], first: int) -> tuple[Word, ...]:
    return tuple(parse_word(text, place) for place, text in enumerate(texts, first))


def _record(entry: dict[str, Any], flags: dict[str, Any]) -> Record:
    optional = entry.get("optional", [])
    if isinstance(optional, str):
        optional = flags[optional]
    text, tail = entry.get("text"), entry.get("tail")
    record = Record(
        number=entry["number"],
        name=entry["name"],
        doc=_line(entry["doc"]),
        aux=parse_word(entry["aux"], 0, 32) if "aux" in entry else (),
        words=_words(entry.get("words", []), 1),
        flags=tuple(
            Flag(
                item["flag"], item["bit"], _words(item.get("words", []), 0), _line(item.get("doc"))
            )
            for item in optional
        ),
        rest=f"[bytes][{text}]" if text else f"[{tail}...]" if tail else "",
        is_counted=entry.get("counted", False),
        row=_row(entry) if "table" in entry else None,
    )
    if record.row is not None:
        _check_row(record, record.row)
    return record


def _row(entry: dict[str, Any]) -> Row:
    return Row(
        table=entry["table"],
        is_of_thread={"thread": True, "process": False}[entry["row_of"]],
        constants=entry.get("constants", {}),
        order=("time_ns", *entry.get("order", [])),
        collector=entry.get("collector"),
    )


def _check_row(record: Record, row: Row) -> None:
    names = {part.name for part in record.parts}
    if not record.has_struct or any(flag.words for flag in record.flags):
        raise ValueError(f"{record.name}: the words of a row have fixed places")
    if not {*row.order} <= names or len(row.order) > _MAX_SORTED:
        raise ValueError(f"{record.name}: a row has time_ns and the columns in its order")


def _numbers(entry: dict[str, Any]) -> Numbers:
    values = (Value(item["name"], item["is"], _line(item.get("doc"))) for item in entry["values"])
    return Numbers(entry["name"], entry["doc"], entry.get("bits", False), tuple(values))


def _field(entry: dict[str, Any]) -> Field:
    kind, _, count = entry["type"].partition("[")
    return Field(entry["name"], kind, int(count[:-1] or 0) if count else 1, _line(entry.get("doc")))


def _line(text: str | None) -> str:
    return " ".join((text or "").split())
