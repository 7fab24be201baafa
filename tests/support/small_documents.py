"""Small documents like those of analyses, and a way to render them."""

from __future__ import annotations

import io
from collections.abc import Sequence

import numpy as np

from warpline import plugins
from warpline.render import RENDERERS, Options
from warpline.result import Document, Field, Numbers, Result, Skipped, Texts, Values
from warpline.units import Unit

FIELDS = (
    Field("time_ratio", Unit.RATIO, "Share.", "Time (%)", 100.0, 1),
    Field("total_ns", Unit.NS, "Sum.", "Total Time (ns)"),
    Field("instances", Unit.COUNT, "How many.", "Instances"),
    Field("mean_ns", Unit.NS, "Mean.", "Avg (ns)", 1.0, 1),
    Field("max_bytes", Unit.BYTES, "Largest.", "Max (MB)", 1e-6, 3),
    Field("name", Unit.NONE, "Name.", "Name"),
    Field("p95_ns", Unit.NS, "95 of 100 are at most this.", None, 1.0, 1),
)
KERNEL = "void at::native::elementwise_kernel<4, at::native::FillFunctor<float>>(int, T2)"
HOSTILE = 'a|b\x1b[31m`c`, "d"\n'


def texts(*values: str | None) -> Texts:
    """Return a column of texts; each distinct one is stored once."""
    known = list(dict.fromkeys(value for value in values if value is not None))
    codes = [-1 if value is None else known.index(value) for value in values]
    return Texts(np.array(codes, dtype=np.int32), known)


def integers(*values: int | None) -> Numbers:
    """Return a column of int64, with a mask if values are missing."""
    valid = None if None not in values else np.array([value is not None for value in values])
    return Numbers(np.array([value or 0 for value in values], dtype=np.int64), valid)


def floats(*values: float) -> Numbers:
    """Return a column of float64."""
    return Numbers(np.array(values, dtype=np.float64))


def table(columns: dict[str, Values], **fields: Field) -> Document:
    """Return a document with one table; columns without a field are plain."""
    declared = (fields.get(name, Field(name, Unit.NONE, "A column.")) for name in columns)
    return Document("", {}, (Result("t", "T", tuple(declared), columns),))


def summary(rows: int = 3, notes: Sequence[str] = ()) -> Result:
    """Return a summary of up to three rows, with missing, non-finite and hostile values."""
    columns: dict[str, Values] = {
        "time_ratio": floats(0.2895, 0.5, 0.0),
        "total_ns": integers(1_234_567, 5, 6),
        "instances": integers(2000, 1, 1),
        "mean_ns": floats(617.25, 1.05, float("nan")),
        "max_bytes": integers(4500, 10**9, None),
        "name": texts(KERNEL, HOSTILE, None),
        "p95_ns": floats(1.0, 2.0, 3.0),
    }
    full = Result("kern_sum:base", "Kernel summary", FIELDS, columns, ("name",), tuple(notes))
    return full.head(rows)


def sample() -> Document:
    """Return a document with two tables, the second empty, and one that was skipped."""
    skipped = Skipped("osrt_sum", "no OS calls were recorded", "record with -t osrt")
    meta = {"paths": ["a.sqlite"], "span_ns": 2**62, "host": None}
    sections = (summary(notes=["Counted once."]), skipped, summary(0))
    return Document("a.sqlite", meta, sections, ("kernels were lost: 4",))


def rendered(name: str, document: Document, options: Options | None = None) -> str:
    """Return a renderer's output."""
    plugins.load("renderers")
    out = io.StringIO()
    RENDERERS.get(name).render(document, out, options or Options())
    return out.getvalue()
