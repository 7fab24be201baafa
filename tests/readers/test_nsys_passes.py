"""How often the native core goes through the large tables of an export."""

from __future__ import annotations

from collections import Counter

import pytest
from support.nsys_exports import call, event, kernel, strings

import warpline
from warpline import native
from warpline.diagnosis.diagnose import _READ_AT_ONCE, read_large_tables
from warpline.readers.nsys.sqlite_scan import Scanner

KERNELS, CALLS, EVENTS = (
    "CUPTI_ACTIVITY_KIND_KERNEL",
    "CUPTI_ACTIVITY_KIND_RUNTIME",
    "NVTX_EVENTS",
)

pytestmark = pytest.mark.skipif(native.core() is None, reason="needs the native core")


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count the passes over each table."""
    count: Counter[str] = Counter()
    read = Scanner.read

    def counted(self, name, *arguments):
        count[name] += 1
        return read(self, name, *arguments)

    monkeypatch.setattr(Scanner, "read", counted)
    return count


def _tables(nodes: list[int | None]):
    more = {"correlationId": 0, "gridX": 3}
    kernels = [
        kernel(30 + at, 31 + at, 1, graphNodeId=node, **more) for at, node in enumerate(nodes)
    ]
    calls = [call(at, at + 1, 2, correlationId=at) for at in range(4)]
    ranges = [event(at, at + 5, text=f"step {at}", domainId=0) for at in range(3)]
    texts = strings("", "k", "cudaLaunchKernel")
    return {"StringIds": texts, KERNELS: kernels, CALLS: calls, EVENTS: ranges}


def test_the_diagnosis_reads_each_large_table_in_one_pass(opened, passes):
    trace = opened(_tables([None, None, None]))
    read_large_tables(trace)
    trace.row_count("collective")  # looks at the domains of ranges
    assert {passes[name] for name in (KERNELS, CALLS, EVENTS)} == {1}


@pytest.mark.parametrize("nodes", [[None, None, None], [5, None, 9], [7, 7, 7]])
def test_columns_do_not_depend_on_what_was_foreseen(opened, rows_of, nodes):
    at_once = opened(_tables(nodes))
    later = warpline.open(at_once.meta.paths[0])
    read_large_tables(at_once)
    for table, names in _READ_AT_ONCE.items():
        one_by_one = [rows_of(later, table, name) for name in names]
        assert [rows_of(at_once, table, name) for name in names] == one_by_one, table
    assert [node for (node,) in rows_of(at_once, "kernel", "graph_node_id")] == nodes


def test_a_column_with_one_value_takes_no_memory(opened):
    trace = opened(_tables([None, None, None]))
    constant = {"range": ("thread_id", "style"), "api_call": ("thread_id",), "kernel": ("name_id",)}
    for table, names in constant.items():
        for data in trace.columns(table, *names).values():
            assert data.values.strides == (0,)
            assert data.take(data.values[:2].astype("int64")).values.strides == (0,)
    assert trace["range"]["style"].to_list() == ["PushPop"] * 3
    assert trace["kernel"]["name"].n_unique() == 1
