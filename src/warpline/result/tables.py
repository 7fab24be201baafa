"""A table that an analysis computed, and the document that renderers get."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from warpline.errors import SchemaError
from warpline.units import Unit


@dataclass(frozen=True)
class Field:
    """One column of a result.

    Attributes:
        name: Our name, with its unit: ``total_ns``; the key in JSON.
        unit: What the numbers count. Values are raw: ns, bytes, ratios in [0, 1].
        doc: One sentence.
        header: The heading in text, CSV and Markdown; nsys's own for the tables it has.
        scale: Text, CSV and Markdown show value times scale: 100 for a ratio under ``Time (%)``.
        digits: Decimals shown there; None shows integers and texts as they are.
        is_detail: Terminals too narrow for all columns may leave it out even if it is a key.
    """

    name: str
    unit: Unit
    doc: str
    header: str | None = None
    scale: float = 1.0
    digits: int | None = None
    is_detail: bool = False

    @property
    def heading(self) -> str:
        """The heading to show."""
        return self.header or self.name


@dataclass(frozen=True)
class Texts:
    """A column of texts, kept as codes into distinct values.

    Attributes:
        codes: Shape (n,), int32; -1 where there is no text.
        values: The distinct texts.
    """

    codes: npt.NDArray[np.int32]
    values: Sequence[str]

    def __len__(self) -> int:
        return len(self.codes)

    def to_list(self) -> list[str | None]:
        """Return the texts, None where there is none."""
        table: list[str | None] = [*self.values, None]
        return [table[code] for code in self.codes.tolist()]


@dataclass(frozen=True)
class Numbers:
    """A column of int64 or float64 numbers.

    Attributes:
        values: Shape (n,).
        valid: Shape (n,), False where there is no number; None when all are there.
    """

    values: npt.NDArray[Any]
    valid: npt.NDArray[np.bool_] | None = None

    def __len__(self) -> int:
        return len(self.values)

    def to_list(self) -> list[Any]:
        """Return Python numbers, None where there is none."""
        values: list[Any] = self.values.tolist()
        if self.valid is None:
            return values
        return [v if ok else None for v, ok in zip(values, self.valid.tolist(), strict=True)]


Values = Texts | Numbers


def column_of(values: Sequence[Any]) -> Values:
    """Return Python values as a column: of numbers if all are, else of texts; None is none."""
    known = [value for value in values if value is not None]
    is_number = all(isinstance(value, int | float) for value in known)
    is_large = any(isinstance(value, int) and abs(value) >= 1 << 63 for value in known)
    if known and is_number and not is_large:
        valid = np.array([value is not None for value in values], np.bool_)
        has_float = any(isinstance(value, float) for value in known)
        numbers = [0 if value is None else value for value in values]
        array = np.array(numbers, np.float64 if has_float else np.int64)
        return Numbers(array, None if valid.all() else valid)
    texts = [None if value is None else _text(value) for value in values]
    places = {
        text: place for place, text in enumerate(dict.fromkeys(t for t in texts if t is not None))
    }
    codes = [-1 if text is None else places[text] for text in texts]
    return Texts(np.array(codes, np.int32), [*places])


def _text(value: Any) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)


@dataclass(frozen=True, repr=False)
class Result:
    """A table that an analysis computed.

    Attributes:
        name: Name of the analysis, with its arguments: ``cuda_gpu_kern_sum:base``.
        title: Heading.
        fields: Columns, in the order in which they are shown.
        columns: Values by field name, all of one length.
        key: Names of the fields that tell rows apart when two results are compared.
        notes: Sentences that a reader of the numbers must know.
    """

    name: str
    title: str
    fields: tuple[Field, ...]
    columns: Mapping[str, Values]
    key: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        declared = [item.name for item in self.fields]
        if declared != list(self.columns):
            raise SchemaError(f"{self.name}: fields {declared} but columns {list(self.columns)}")
        if len({len(values) for values in self.columns.values()}) > 1:
            raise SchemaError(f"{self.name}: columns differ in length")

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()))) if self.columns else 0

    def rows(self) -> list[tuple[Any, ...]]:
        """Return the rows as tuples of raw Python values, None where there is none."""
        return list(zip(*(values.to_list() for values in self.columns.values()), strict=True))

    def to_polars(self) -> Any:
        """Return a Polars DataFrame with our column names and raw values."""
        import polars as pl  # noqa: PLC0415 - slow to import, and not needed to print

        return pl.DataFrame({name: values.to_list() for name, values in self.columns.items()})

    def to_pandas(self) -> Any:
        """Return a pandas DataFrame; needs the extra ``warpline[pandas]``."""
        return self.to_polars().to_pandas()

    def __repr__(self) -> str:
        names = ", ".join(item.name for item in self.fields)
        return f"<Result {self.name}: {len(self):,} rows; {names}>"

    def _repr_html_(self) -> str:
        """Return what a notebook shows."""
        return str(self.to_polars()._repr_html_())

    def head(self, count: int) -> Result:
        """Return the first `count` rows."""
        return self._of_rows(slice(count))

    def sorted_by(self, name: str, *, ascending: bool = False) -> Result:
        """Return the rows in the order of a field: texts by the alphabet, what is missing last.

        Args:
            name: A field's name; KeyError if there is none.
            ascending: Smallest first. Rows with equal values keep their order in either case.
        """
        values = self.columns[name]
        if isinstance(values, Texts):
            used = dict.fromkeys(values.values)
            rank = {text: place for place, text in enumerate(sorted(used))}
            ranks = np.array([*(rank[text] for text in values.values), 0], np.int64)
            keys, missing = ranks[values.codes], values.codes < 0
        else:
            keys = values.values
            none = np.zeros(len(keys), np.bool_)
            missing = none if values.valid is None else ~values.valid
            if keys.dtype.kind == "f":
                missing = missing | np.isnan(keys)
        distinct, place = np.unique(keys, return_inverse=True)
        place = place.reshape(-1) if ascending else len(distinct) - place.reshape(-1)
        return self._of_rows(np.lexsort((place, missing)))

    def _of_rows(self, rows: slice | npt.NDArray[np.int64]) -> Result:
        chosen: dict[str, Values] = {}
        for name, values in self.columns.items():
            if isinstance(values, Texts):
                chosen[name] = Texts(values.codes[rows], values.values)
            else:
                valid = None if values.valid is None else values.valid[rows]
                chosen[name] = Numbers(values.values[rows], valid)
        return Result(self.name, self.title, self.fields, chosen, self.key, self.notes)


@dataclass(frozen=True)
class Skipped:
    """Why an analysis has no result for this trace.

    Attributes:
        name: Name of the analysis.
        reason: What is missing.
        hint: How to record it, or None.
        is_failure: Whether computing it failed: by a defect of ours or of an extension, or because
            the file is damaged.
    """

    name: str
    reason: str
    hint: str | None = None
    is_failure: bool = False


@dataclass(frozen=True)
class Document:
    """What a renderer gets.

    Attributes:
        title: What this is about.
        meta: Facts about the recording, JSON-ready: paths, producer, span, lost, unread.
        sections: Results, and what was skipped, in order.
        warnings: Sentences about the recording that every reader must see.
    """

    title: str
    meta: Mapping[str, Any]
    sections: tuple[Result | Skipped, ...]
    warnings: tuple[str, ...] = ()
