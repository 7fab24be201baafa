"""How a diagnosis is presented: its sections, their order, and what is left out at which size.

`outlines` turns a Diagnosis into blocks: plain data without markup or line lengths. The terminal,
Markdown, a notebook and the page each write the same blocks. A new section is a function that
returns blocks and a line in the outlines that show it; the writers need no code for it.
"""

from typing import TYPE_CHECKING

from warpline.lazy import lazy_names

if TYPE_CHECKING:
    from warpline.presentation.blocks import (
        Bar,
        Block,
        Card,
        Cards,
        Cell,
        Column,
        Commands,
        Entries,
        Entry,
        FindingBlock,
        Fit,
        Head,
        Items,
        Line,
        Link,
        Piece,
        Presentation,
        Row,
        Section,
        StepTimes,
        Table,
        Warnings,
        Waterfall,
        WaterfallRow,
    )
else:
    __getattr__ = lazy_names(
        __name__,
        {
            "blocks": (
                "Bar",
                "Block",
                "Card",
                "Cards",
                "Cell",
                "Column",
                "Commands",
                "Entries",
                "Entry",
                "FindingBlock",
                "Fit",
                "Head",
                "Items",
                "Line",
                "Link",
                "Piece",
                "Presentation",
                "Row",
                "Section",
                "StepTimes",
                "Table",
                "Warnings",
                "Waterfall",
                "WaterfallRow",
            )
        },
    )

__all__ = [
    "Bar",
    "Block",
    "Card",
    "Cards",
    "Cell",
    "Column",
    "Commands",
    "Entries",
    "Entry",
    "FindingBlock",
    "Fit",
    "Head",
    "Items",
    "Line",
    "Link",
    "Piece",
    "Presentation",
    "Row",
    "Section",
    "StepTimes",
    "Table",
    "Warnings",
    "Waterfall",
    "WaterfallRow",
]
