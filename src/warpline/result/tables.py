"""A table computed by an analysis, and the document that renderers receive."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from warpline.errors import SchemaError, UsageError
from warpline.frozen import frozen
from warpline.lazy import lazy
from warpline.result.display import Displayed
from warpline.units import Unit

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa
else:  # printing does not need it
    pl = lazy("polars")


@frozen
class Field:
    """One column of a result.

    Attributes:
        name: Name with its unit, such as ``total_ns``; the key in JSON.
        unit: Unit of the numbers. Values are raw: ns, bytes, ratios in [0, 1].
        doc: One sentence.
        header: Heading in text, CSV and Markdown; for tables of nsys, its heading.
        scale: Factor for text, CSV and Markdown: 100 for a ratio under ``Time (%)``.
        digits: Decimals in these formats; None shows integers and texts as they are.
        is_detail: Whether a narrow terminal may omit the column even if it is a key.
        is_optional: Whether text and Markdown omit the column if no row has a value.
    """

    name: str
    unit: Unit
    doc: str
    header: str | None = None
    scale: float = 1.0
    digits: int | None = None
    is_detail: bool = False
    is_optional: bool = False

    @property
    def heading(self) -> str:
        """The heading to show."""
        return self.header or self.name


@frozen
class Texts:
    """A column of texts, stored as codes into distinct values.

    Attributes:
        codes: Shape (n,), int32; -1 for a missing text.
        values: The distinct texts.
    """

    codes: npt.NDArray[np.int32]
    values: Sequence[str]

    def __len__(self) -> int:
        return len(self.codes)

    def to_list(self) -> list[str | None]:
        """Return the texts; None for a missing one."""
        table: list[str | None] = [*self.values, None]
        return [table[code] for code in self.codes.tolist()]


@frozen
class Numbers:
    """A column of int64 or float64 numbers.

    Attributes:
        values: Shape (n,).
        valid: Shape (n,), False for a missing number; None if none is missing.
    """

    values: npt.NDArray[Any]
    valid: npt.NDArray[np.bool_] | None = None

    def __len__(self) -> int:
        return len(self.values)

    def to_list(self) -> list[Any]:
        """Return Python numbers; None for a missing one."""
        values: list[Any] = self.values.tolist()
        if self.valid is None:
            return values
        return [v if ok else None for v, ok in zip(values, self.valid.tolist(), strict=True)]


Values = Texts | Numbers


def column_of(values: Sequence[Any]) -> Values:
    """Return Python values as a column: numbers if all are numbers, else texts. None is missing."""
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


@frozen
class Result(Displayed):
    """A table computed by an analysis.

    `print` shows it as `warpline stats` does, and a notebook as an HTML table. `to_polars`,
    `to_pandas`, `to_arrow` and `rows` return the raw values.

    Attributes:
        name: Name of the analysis, with its arguments: ``cuda_gpu_kern_sum:base``.
        title: Heading.
        fields: Columns, in display order.
        columns: Values by field name, all of the same length.
        key: Names of the fields that identify a row when two results are compared.
        notes: Sentences needed to interpret the numbers.
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
            raise SchemaError(
                f"{self.name}: fields {declared} do not match columns {list(self.columns)}"
            )
        if len({len(values) for values in self.columns.values()}) > 1:
            raise SchemaError(f"{self.name}: columns have different lengths")

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()))) if self.columns else 0

    def rows(self) -> list[tuple[Any, ...]]:
        """Return the rows as tuples of raw Python values; None for a missing one."""
        return list(zip(*(values.to_list() for values in self.columns.values()), strict=True))

    def to_polars(self) -> pl.DataFrame:
        """Return a Polars DataFrame of raw values, its columns named as the fields."""

        def dtype(values: Values) -> type[pl.DataType]:
            if isinstance(values, Texts):
                return pl.String
            return pl.Float64 if values.values.dtype.kind == "f" else pl.Int64

        return pl.DataFrame(
            [
                pl.Series(name, values.to_list(), dtype(values))
                for name, values in self.columns.items()
            ]
        )

    def to_pandas(self) -> pd.DataFrame:
        """Return a pandas DataFrame of raw values. Requires ``pip install 'warpline[pandas]'``.

        Raises:
            UsageError: pandas or pyarrow is not installed.
        """
        _require("to_pandas", "pandas", "pyarrow")
        return self.to_polars().to_pandas()

    def to_arrow(self) -> pa.Table:
        """Return a pyarrow Table of raw values. Requires ``pip install 'warpline[pandas]'``.

        Raises:
            UsageError: pyarrow is not installed.
        """
        _require("to_arrow", "pyarrow")
        return self.to_polars().to_arrow()

    def __repr__(self) -> str:
        names = ", ".join(item.name for item in self.fields)
        return f"<Result {self.name}: {len(self):,} rows; {names}>"

    def without_empty(self) -> Result:
        """Return the table without its optional columns that have no value."""
        empty = {
            field.name
            for field in self.fields
            if field.is_optional and _is_empty(self.columns[field.name])
        }
        if not empty or not len(self):
            return self
        fields = tuple(field for field in self.fields if field.name not in empty)
        columns = {field.name: self.columns[field.name] for field in fields}
        return Result(self.name, self.title, fields, columns, self.key, self.notes)

    def head(self, count: int) -> Result:
        """Return the first `count` rows."""
        return self._of_rows(slice(count))

    def sorted_by(self, name: str, *, ascending: bool = False) -> Result:
        """Return the rows sorted by a field: texts alphabetically, missing values last.

        Args:
            name: Name of the field. An unknown name raises KeyError.
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


def _is_empty(values: Values) -> bool:
    if isinstance(values, Texts):
        return bool((values.codes < 0).all())
    return values.valid is not None and not bool(values.valid.any())


@frozen
class Skipped:
    """The reason why an analysis has no result for this trace.

    Attributes:
        name: Name of the analysis.
        reason: The missing events, or the error.
        hint: How to record them, or None.
        is_failure: Whether the computation failed: because of a defect in Warpline or an extension,
            or because the file is damaged.
    """

    name: str
    reason: str
    hint: str | None = None
    is_failure: bool = False


@dataclass(frozen=True, repr=False)  # Diagnosis extends it
class Document(Displayed):
    """The input of a renderer.

    `print` shows it as the command line does, and a notebook shows it as HTML.

    Attributes:
        title: Name of the recording.
        meta: Facts about the recording, JSON-ready: paths, producer, span, lost, unread.
        sections: Results and skipped analyses, in order.
        warnings: Sentences about the recording that every reader must see.
        suggestions: Commands to run next; ``{files}`` stands for those of the document.
    """

    title: str
    meta: Mapping[str, Any]
    sections: tuple[Result | Skipped, ...]
    warnings: tuple[str, ...] = ()
    suggestions: tuple[str, ...] = ()

    def __repr__(self) -> str:
        names = ", ".join(section.name for section in self.sections)
        return f"<Document of {self.title}: {names or 'no tables'}>"


def _require(method: str, *packages: str) -> None:
    """Raise UsageError if an optional package is not installed."""
    missing = [package for package in packages if importlib.util.find_spec(package) is None]
    if missing:
        raise UsageError(
            f"{method} requires {' and '.join(missing)}",
            hint="install with: pip install 'warpline[pandas]'",
        )
