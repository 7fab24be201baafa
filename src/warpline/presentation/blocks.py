"""The blocks that a presentation consists of: plain data, numbers already formatted.

Texts may be names from a recording and are hostile: whoever writes a block escapes them. A writer
ignores what its medium lacks, such as links on a terminal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal, NamedTuple, TypeAlias

from warpline.result import CheckState, Evidence, Part, Severity


class Link(NamedTuple):
    """What a text of the page leads to.

    Attributes:
        kind: A table, the intervals of a part of a GPU's time, or the ranges of a name.
        target: The name of the table, ``GPU/category``, or the name of the ranges.
    """

    kind: Literal["table", "part", "range"]
    target: str


class Cell(NamedTuple):
    """A text with its role.

    Attributes:
        text: The text.
        link: What it leads to: a link, or an evidence with its rows and times.
        is_code: Whether it is a name or a command, shown unchanged.
        state: The state of a check, if the text is one.
        full: What the text is short for; empty if it is whole.
    """

    text: str
    link: Link | Evidence | None = None
    is_code: bool = False
    state: CheckState | None = None
    full: str = ""


class Fit(Enum):
    """What happens to the texts of a column that are too long for the screen."""

    KEEP = "keep"
    SHORTEN = "shorten"
    CUT = "cut"  # at the end: the beginning of a kernel's name says most
    WRAP = "wrap"
    DROP = "drop"  # the whole column


class Column(NamedTuple):
    """A column of a table.

    Attributes:
        heading: Its heading; may be empty.
        short: The heading on a narrow screen; empty if the same.
        width: Characters on a screen: at least, or reserved for a column that may be dropped.
        is_number: Whether its cells are numbers, aligned on the right.
        fit: What happens to texts that are too long.
    """

    heading: str
    short: str = ""
    width: int = 0
    is_number: bool = False
    fit: Fit = Fit.KEEP


class Row(NamedTuple):
    """A row of a table.

    Attributes:
        cells: One per column.
        depth: Depth of the row in the tree that the table shows.
        is_sum: Whether it is the sum of the rows below.
        part: The part of time that the row is about: its color is the key of the bar.
    """

    cells: tuple[Cell, ...]
    depth: int = 0
    is_sum: bool = False
    part: Part | None = None


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table.

    Attributes:
        columns: Its columns.
        rows: Its rows.
        title: Its title, where it has no section of its own.
        look: Name of its style on the page.
        is_tree: Whether rows have a depth.
    """

    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    title: str = ""
    look: str = ""
    is_tree: bool = False


class Line(NamedTuple):
    """A sentence or two; `is_faint` marks remarks."""

    text: str
    is_faint: bool = False


@dataclass(frozen=True)
class Items:
    """A list; each item consists of one or several texts."""

    items: tuple[tuple[Cell, ...], ...]
    is_ordered: bool = False


class Entry(NamedTuple):
    """A named entry of a list, with its state, a text, and a remark."""

    state: CheckState
    name: str
    text: str
    remark: str


@dataclass(frozen=True)
class Entries:
    """A list of named entries."""

    entries: tuple[Entry, ...]


class Piece(NamedTuple):
    """A piece of a bar: a part of time and its share in tenths of a percent."""

    part: Part
    share: int
    link: Link


@dataclass(frozen=True)
class Bar:
    """A bar of pieces, which sum to 100%.

    Attributes:
        label: What the bar shows.
        pieces: In the order of the bar.
    """

    label: str
    pieces: tuple[Piece, ...]


class WaterfallRow(NamedTuple):
    """A bar of a waterfall.

    Attributes:
        label: What it is.
        before: Its value before, as text; may be empty.
        after: Its value after, as text; may be empty.
        delta: The difference, as text; empty for sums.
        low: Where the bar begins, in thousandths of the width.
        high: Where it ends, not before.
        direction: 1 for a part that grew, -1 for one that shrank, 0 for a sum.
        remark: What the part is, in a few words.
    """

    label: str
    before: str
    after: str
    delta: str
    low: int
    high: int
    direction: int
    remark: str = ""


@dataclass(frozen=True)
class Waterfall:
    """How the parts of a difference add up: the sum before, each difference, the sum after."""

    rows: tuple[WaterfallRow, ...]
    heading: str = ""


class Card(NamedTuple):
    """A number worth a frame of its own."""

    label: str
    value: Cell
    note: str


@dataclass(frozen=True)
class Cards:
    """The numbers to see first."""

    cards: tuple[Card, ...]


@dataclass(frozen=True)
class StepTimes:
    """A plot of step times: a list of steps from the container of the page."""

    steps: Mapping[str, Any]


@dataclass(frozen=True)
class FindingBlock:
    """A finding.

    Attributes:
        id: ``F1``, ``F2``...; may be empty.
        severity: Its severity.
        title: A few words.
        rule: Name of the rule.
        claim: The facts, and why they matter.
        evidence: The facts in the recording.
        saving: The estimated saving; empty if none is predicted.
        facts: What to do, as names and texts.
    """

    id: str
    severity: Severity
    title: str
    rule: str
    claim: str
    evidence: tuple[Cell, ...]
    saving: str
    facts: tuple[tuple[str, str], ...]

    @property
    def heading(self) -> str:
        """The title with id and severity."""
        return f"{self.id} {self.severity}: {self.title}".strip()


@dataclass(frozen=True)
class Commands:
    """Commands to copy, so they are never shortened.

    Attributes:
        commands: The commands.
        label: What they are for.
        takes_recordings: Whether the recordings follow as arguments.
    """

    commands: tuple[str, ...]
    label: str = ""
    takes_recordings: bool = True


@dataclass(frozen=True)
class Head:
    """What comes first.

    Attributes:
        title: Name of the recording.
        ended: How the run ended, if abnormally.
        verdict: Where the time went.
        advice: What to fix first; may be empty.
        warnings: Warnings about the data.
        facts: Facts about the recording.
        command: Command line of the program.
    """

    title: str
    ended: str
    verdict: str
    advice: str
    warnings: tuple[str, ...] = ()
    facts: tuple[str, ...] = ()
    command: str = ""


@dataclass(frozen=True)
class Warnings:
    """Warnings about the data, where they are not part of the head."""

    texts: tuple[str, ...]


@dataclass(frozen=True)
class Section:
    """Blocks that belong together.

    Attributes:
        title: The heading; may be empty.
        blocks: Its content.
        id: Its name on the page.
        summary: A few words beside the heading.
    """

    title: str
    blocks: tuple[Block, ...]
    id: str = ""
    summary: str = ""


Block: TypeAlias = (
    Bar
    | Cards
    | Commands
    | Entries
    | FindingBlock
    | Head
    | Items
    | Line
    | Section
    | StepTimes
    | Table
    | Warnings
    | Waterfall
)


class Presentation(NamedTuple):
    """What one medium shows of a diagnosis.

    Attributes:
        blocks: In order.
        recordings: Paths of the recordings, the arguments of commands.
    """

    blocks: Sequence[Block]
    recordings: tuple[str, ...]
