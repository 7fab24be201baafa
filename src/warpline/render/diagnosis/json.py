"""A diagnosis as one JSON object, as ``analyze --format json`` writes it: see docs/analyze.md."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TextIO

from warpline.render import Options
from warpline.render.json import encoder
from warpline.result import Diagnosis, Document

_LISTS = ("breakdown", "overlap", "phases", "findings", "checklist", "counter_candidates")


def render(document: Document, out: TextIO, options: Options) -> None:
    """Write a diagnosis; `document` must be a Diagnosis."""
    assert isinstance(document, Diagnosis)
    write_object(document, out, options)


def write_object(diagnosis: Diagnosis, out: TextIO, options: Options, end: str = "\n") -> None:
    """Write the object with one line per key, and one per item of the long lists."""
    encode = encoder(options)
    opening = "{"
    for name, value in diagnosis.to_dict().items():
        out.write(f"{opening}\n{encode(name)}: ")
        opening = ","
        if name in _LISTS and isinstance(value, Sequence) and value:
            out.write("[\n" + ",\n".join(map(encode, value)) + "]")
        else:
            out.write(encode(value))
    out.write("\n}" + end)
