"""Finishing CUDA: the same tables and reports as from nsys's exports."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from capture.cuda_writer import write_from_nsys

import warpline
from warpline import api, native, plugins
from warpline.capture.finishing.finish import finish
from warpline.render import RENDERERS, Options
from warpline.result import Document, Result
from warpline.trace import Trace

pytestmark = pytest.mark.skipif(native.core() is None, reason="needs the native core")

EXPORTS = [
    "cuda_graph_level",
    "ddp_serial.bad.rank0",
    "host_sync.bad",
    "pageable_h2d.fixed",
    "tiny_kernels.fixed",
]

COMPARED = [
    *("kernel", "memcpy", "memset", "graph_launch", "api_call", "host_wait", "stream_wait"),
    *("event_record", "memory_event", "graph_node", "device", "context", "stream"),
]

# What an agent is not told: the name of the chip, the graph that an instance was made from, and
# the call chains. Priorities are signed, which nsys's exports do not show.
UNTOLD = {"chip", "graph_id", "stack_id", "priority", "thread_id"}

REPORTS = [
    *("cuda_gpu_kern_sum", "cuda_gpu_mem_time_sum", "cuda_gpu_mem_size_sum", "cuda_api_sum"),
    *("cuda_gpu_trace", "cuda_gpu_kern_gb_sum", "cuda_kern_exec_sum", "cuda_api_gpu_sum"),
]


@pytest.fixture(scope="module")
def both(
    capture: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], tuple[Trace, Trace]]:
    """Return the traces of an export and of the session that would have led to it."""
    folder = tmp_path_factory.mktemp("sessions")

    def traces(name: str) -> tuple[Trace, Trace]:
        output = folder / f"{name}.warpline"
        if not output.exists():
            session = write_from_nsys(capture(name), folder / f"{name}.warpline.raw")
            assert finish(session, output).lost == 0
        return warpline.open(capture(name)), warpline.open(output)

    return traces


@pytest.mark.parametrize("name", EXPORTS)
def test_tables_are_those_of_an_export(
    both: Callable[[str], tuple[Trace, Trace]], name: str
) -> None:
    theirs, ours = both(name)
    for table in COMPARED:
        if table not in theirs.tables:
            assert ours.row_count(table) == 0, table
            continue
        kept = [column for column in theirs[table].columns if column not in UNTOLD]
        left, right = theirs[table].select(kept), ours[table].select(kept)
        assert len(left) == len(right), table
        wrong = [c for c in kept if not left[c].equals(right[c], null_equal=True)]
        assert not wrong, (table, wrong)


@pytest.mark.parametrize("name", EXPORTS)
def test_what_an_export_shows_otherwise(
    both: Callable[[str], tuple[Trace, Trace]], name: str
) -> None:
    theirs, ours = both(name)
    unsigned = ours["stream"]["priority"].to_list()
    wrapped = [None if value is None else value % 2**32 for value in unsigned]
    assert wrapped == theirs["stream"]["priority"].to_list()
    calls = [
        trace["api_call"].join(trace["thread"].with_row_index("row"), left_on="thread_id",
                               right_on=pl.col("row").cast(pl.Int32))["tid"].to_list()
        for trace in (theirs, ours)
    ]  # fmt: skip
    assert calls[0] == calls[1]


@pytest.mark.parametrize("name", EXPORTS)
def test_reports_are_those_of_an_export_byte_for_byte(
    both: Callable[[str], tuple[Trace, Trace]], name: str
) -> None:
    plugins.load("renderers")
    theirs, ours = both(name)
    for report in REPORTS:
        assert csv(ours, report) == csv(theirs, report), report


def csv(trace: Trace, report: str) -> str | None:
    outcome = api.run(trace, report)
    if not isinstance(outcome, Result):
        return None
    out = io.StringIO()
    RENDERERS.get("csv").render(Document("", {}, (outcome,)), out, Options())
    return out.getvalue()
