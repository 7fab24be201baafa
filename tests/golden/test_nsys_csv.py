"""Warpline's CSV equals nsys's byte for byte, in the columns that nsys has."""

from __future__ import annotations

import dataclasses
import io
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

import warpline
from warpline import api, plugins
from warpline.render import RENDERERS, Options
from warpline.result import Document, Result
from warpline.trace import Trace

GOLDEN = Path(__file__).parents[1] / "data" / "golden"


def cases() -> list[tuple[str, str]]:
    """Return every recorded capture and table; nsys printed nothing for some."""
    found = []
    for path in sorted(GOLDEN.glob("*.zip")):
        with zipfile.ZipFile(path) as golden:
            found += [(path.stem, item.removesuffix(".csv")) for item in golden.namelist()]
    return found


def nsys_csv(capture: str, table: str) -> str:
    with zipfile.ZipFile(GOLDEN / f"{capture}.zip") as golden:
        return golden.read(f"{table}.csv").decode("utf-8").rstrip("\n")


def our_csv(result: Result, column_count: int) -> str:
    """Return the CSV of the first columns of a result, without the final newline."""
    fields = result.fields[:column_count]
    kept = {field.name: result.columns[field.name] for field in fields}
    part = dataclasses.replace(result, fields=fields, columns=kept, key=())
    out = io.StringIO()
    RENDERERS.get("csv").render(Document("", {}, (part,)), out, Options())
    return out.getvalue().rstrip("\n")


@pytest.fixture(scope="module")
def trace_of(capture: Callable[[str], Path]) -> Callable[[str], Trace]:
    plugins.load("renderers")
    return cache(lambda name: warpline.open(capture(name)))


@pytest.mark.parametrize(("name", "table"), cases())
def test_csv_equals_nsys(trace_of: Callable[[str], Trace], name: str, table: str) -> None:
    expected = nsys_csv(name, table)
    outcome = api.run(trace_of(name), table)
    if not expected:
        assert not isinstance(outcome, Result) or not len(outcome), "nsys printed nothing"
        return
    assert isinstance(outcome, Result), outcome
    columns = expected.partition("\n")[0].count(",") + 1
    assert our_csv(outcome, columns) == expected


def test_there_is_something_to_compare() -> None:
    assert len(cases()) > 50
