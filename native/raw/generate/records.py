"""The declarations in records.toml, parsed and checked."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

_PART = re.compile(r"(?P<name>\w+)(?P<null>\?)?(?::(?P<kind>\w+))?")
# Kinds of a part that are no plain number, and their bits.
_KINDS = {"f64": (64, "real"), "text": (32, "text"), "label": (32, "label"), "flag": (8, "flag")}
_COLUMN = re.compile(r"(?:(?P<name>\w+) = )?(?P<of>\w+)(?P<null>\?)?(?:\((?P<arguments>[^()]*)\))?")
_OWNERS = {  # whose a row is -> the columns of that, each made of the member with the owner's name
    "process": {"process_id": "row_id"},
    "thread": {"process_id": "process_of_thread", "thread_id": "row_id"},
    "place": {
        "device_id": "device_of",
        "context_id": "context_of",
        "stream_id": "stream_of",
        "process_id": "process_of_place",
    },
}


@dataclass(frozen=True)
class Part:
    """A part of a word.

    Attributes:
        name: Its name.
        word: The word's number in the record; 0 is the header, whose low bits are aux.
        shift: Where its bits begin.
        bits: How many there are.
        kind: What it is: number, real, time, text, label or flag.
        is_signed: Whether it may be negative.
        is_nullable: Whether 0 is null.
    """

    name: str
    word: int
    shift: int
    bits: int
    kind: str = "number"
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
class Column:
    """A column: a function of native/core/src/raw/conversions.h makes it of members of the row."""

    name: str
    function: str
    arguments: tuple[str, ...]


@dataclass(frozen=True)
class Table:
    """A table whose rows are records: see records.toml.

    Attributes:
        name: Its name.
        owner: Whose a row is: process, thread or place.
        kept: The parts of the record that a row has.
        joined: The members that code fills in.
        columns: What is stored.
        constants: Columns with one text.
        order: The columns by which rows are sorted.
        is_on_gpu_clock: Whether its times are CUPTI's.
        is_alike: Whether rows differ in their times and correlation only.
        collectors: The names that `-t` has for it.
        collected: Bits of CudaCollects: what was collected if the table was recorded.
    """

    name: str
    owner: str
    kept: tuple[Part, ...]
    joined: tuple[Part, ...]
    columns: tuple[Column, ...]
    constants: dict[str, str]
    order: tuple[str, ...]
    is_on_gpu_clock: bool
    is_alike: bool
    collectors: tuple[str, ...]
    collected: tuple[str, ...]

    @property
    def has_flags(self) -> bool:
        """Whether a row has the flags of its record."""
        return any(part.name == "flags" for part in self.kept)

    def column(self, name: str) -> Column:
        """Return a column by its name."""
        return next(column for column in self.columns if column.name == name)


@dataclass(frozen=True)
class Record:
    """A kind of record.

    `rest` is what follows the words, if that has no fixed place; `lasts` says what takes its place.
    """

    number: int
    name: str
    doc: str
    aux: Word
    words: tuple[Word, ...]
    flags: tuple[Flag, ...]
    rest: str
    is_counted: bool
    lasts: str = ""
    tables: tuple[Table, ...] = ()

    @property
    def parts(self) -> list[Part]:
        """The parts of the header and of the words that every record of this kind has."""
        return [*self.aux, *(part for word in self.words for part in word)]

    @property
    def time_word(self) -> int:
        """The word with the time at which it was complete; 0 if it has none."""
        times = {part.name: part.word for part in self.parts if part.kind == "time"}
        return times.get("end_ns") or times.get("time_ns") or times.get("monotonic_ns") or 0

    @property
    def is_on_gpu_clock(self) -> bool:
        """Whether that is a time of CUPTI's clock."""
        return any(table.is_on_gpu_clock for table in self.tables)

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
        said = match["kind"] or f"u{bits // len(texts)}"
        width, kind = _KINDS[said] if said in _KINDS else (int(said[1:]), "number")
        name = match["name"]
        if name != "0":
            kind = "time" if name.endswith("_ns") and kind == "number" else kind
            is_nullable = match["null"] is not None
            found.append(Part(name, place, shift, width, kind, said[0] == "i", is_nullable))
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
        lasts=entry.get("lasts", ""),
    )
    tables = tuple(_table(record, table) for table in entry.get("table", ()))
    return replace(record, tables=tables)


def _table(record: Record, entry: dict[str, Any]) -> Table:
    owner, order = entry["row_of"], tuple(entry.get("order", ["time_ns"]))
    joined = tuple(part for text in entry.get("joined", ()) for part in parse_word(text, 0))
    optional = [part for flag in record.flags for word in flag.words for part in word]
    # What is joined hides what the record calls the same; what a row is of is no part of it.
    parts = {part.name: part for part in (*record.parts, *optional, *joined, Part(owner, 0, 0, 32))}
    flags = [flag.name for flag in record.flags]
    named = entry.get("collector", ())
    own = (Column(name, how, (owner,)) for name, how in _OWNERS[owner].items())
    texts = entry.get("columns") or [f"{p.name}{'?' * p.is_nullable}" for p in record.parts]
    columns = (*own, *(_column(text, parts, flags) for text in texts))
    used = {name for column in columns for name in column.arguments} | {*entry.get("kept", ())}
    has_flags = not used.isdisjoint([*flags, "flags"])
    hidden = {part.name for part in joined}
    table = Table(
        name=entry["name"],
        owner=owner,
        kept=(
            *(p for p in (*record.parts, *optional) if p.name in used - hidden),
            *((Part("flags", 0, 0, 8),) if has_flags else ()),
        ),
        joined=joined,
        columns=columns,
        constants=entry.get("constants", {}),
        order=order,
        is_on_gpu_clock={"host": False, "gpu": True}[entry.get("clock", "host")],
        is_alike=entry.get("alike", False),
        collectors=(named,) if isinstance(named, str) else tuple(named),
        collected=tuple(entry.get("collected", ())),
    )
    if not record.has_struct or not {*order} <= {column.name for column in columns}:
        raise ValueError(f"{table.name}: its record has a fixed size, and its order names columns")
    return table


def _column(text: str, parts: dict[str, Part], flags: Sequence[str]) -> Column:
    match = _COLUMN.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a column")
    if match["arguments"] is None:
        part = parts[match["of"]]
        name = match["name"] or (f"{part.name}_id" if part.kind == "text" else part.name)
        return Column(name, part.kind + ("_or_null" if match["null"] else ""), (part.name,))
    arguments = tuple(name.strip() for name in match["arguments"].split(","))
    if unknown := {*arguments} - {*parts, *flags, "flags"}:
        raise ValueError(f"{text!r}: the record has no {', '.join(sorted(unknown))}")
    return Column(match["name"], match["of"], arguments)


def _numbers(entry: dict[str, Any]) -> Numbers:
    values = (Value(item["name"], item["is"], _line(item.get("doc"))) for item in entry["values"])
    return Numbers(entry["name"], entry["doc"], entry.get("bits", False), tuple(values))


def _field(entry: dict[str, Any]) -> Field:
    kind, _, count = entry["type"].partition("[")
    return Field(entry["name"], kind, int(count[:-1] or 0) if count else 1, _line(entry.get("doc")))


def _line(text: str | None) -> str:
    return " ".join((text or "").split())
