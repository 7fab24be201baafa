"""The Trace: laziness, order, references, masks, windows and selections."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from warpline.derived import forget
from warpline.derived.work.operations import operations
from warpline.errors import MissingTableError, SchemaError
from warpline.trace import ColumnData, Excluded, MemorySource, Trace, TraceMeta


def _kernels(**columns):
    count = len(next(iter(columns.values())))
    ids = {name: [0] * count for name in ("device_id", "context_id", "stream_id", "process_id")}
    return {**ids, **columns}


@pytest.fixture
def trace():
    return Trace(
        MemorySource(
            {
                "kernel": _kernels(
                    start_ns=[50, 10, 30],
                    end_ns=[60, 20, 40],
                    correlation_id=[3, 1, None],
                    name=["third", "first", "second"],
                ),
                "api_call": {
                    "start_ns": [8, 48],
                    "end_ns": [9, 49],
                    "process_id": [0, 0],
                    "thread_id": [0, 0],
                    "correlation_id": [1, 3],
                    "name": ["cudaLaunchKernel", "cudaLaunchKernel"],
                },
                "range": {
                    "start_ns": [40, 0],
                    "end_ns": [100, 25],
                    "name": ["late", "early"],
                    "source_id": [1, 2],
                },
                "range_payload": {"range_id": [0, 1], "key": ["a", "b"], "int_value": [7, 8]},
                "memset": _kernels(start_ns=[], end_ns=[]),
            }
        )
    )


def test_rows_come_in_their_total_order(trace):
    kernels = trace.table("kernel")
    assert kernels["start_ns"].tolist() == [10, 30, 50]
    assert trace.strings.texts(kernels["name_id"]) == ["first", "second", "third"]


def test_ties_are_broken_by_the_declared_columns_then_by_the_file():
    source = MemorySource(
        {
            "stream": {"process_id": [0, 0], "context_id": [0, 0], "native_id": [7, 8]},
            "kernel": _kernels(
                start_ns=[5, 5, 5, 5],
                end_ns=[9, 9, 8, 9],
                stream_id=[1, 0, 1, 0],
                name=["c", "a", "first", "b"],
            ),
        }
    )
    trace = Trace(source)
    assert trace["kernel"]["name"].to_list() == ["first", "a", "b", "c"]


def test_ties_are_broken_alike_in_small_blocks(monkeypatch):
    monkeypatch.setattr("warpline.trace.store._TIES_PER_BLOCK", 2)
    start, end = [9, 5, 5, 5, 9, 1, 7, 7], [9, 8, 6, 7, 9, 2, 9, 8]
    names = [f"row {row}" for row in range(len(start))]
    trace = Trace(MemorySource({"kernel": _kernels(start_ns=start, end_ns=end, name=names)}))
    rows = sorted(range(len(start)), key=lambda row: (start[row], end[row], row))
    assert trace["kernel"]["name"].to_list() == [names[row] for row in rows]


def test_columns_in_any_order_stay_in_the_order_of_the_first_request(trace):
    unordered = trace.columns("kernel", "start_ns", ordered=False)["start_ns"].values
    assert unordered.tolist() == [50, 10, 30]
    assert trace.table("kernel")["start_ns"].tolist() == [10, 30, 50]
    ends = trace.columns("kernel", "end_ns", ordered=False)["end_ns"].values
    assert (ends - unordered).tolist() == [10, 10, 10]


def test_columns_in_any_order_are_sorted_if_a_sorted_one_came_first(trace):
    assert trace.table("kernel")["start_ns"].tolist() == [10, 30, 50]
    columns = trace.columns("kernel", "start_ns", "end_ns", "name_id", ordered=False)
    assert columns["start_ns"].values.tolist() == [10, 30, 50]
    assert columns["end_ns"].values.tolist() == [20, 40, 60]
    assert trace.strings.texts(columns["name_id"].values) == ["first", "second", "third"]


def test_a_forgotten_result_is_computed_again(trace):
    work = operations(trace)
    assert operations(trace) is work
    forget(trace, operations)
    again = operations(trace)
    assert again is not work
    assert again.start_ns.tolist() == work.start_ns.tolist() == [10, 30, 50]


def test_references_to_ordered_tables_follow_their_rows(trace):
    payload = trace["range_payload"]
    assert payload["range_id"].to_list() == [0, 1]
    assert payload["key"].to_list() == ["b", "a"]
    assert payload["mark_id"].to_list() == [None, None]


def test_a_null_is_a_mask_never_a_float(trace):
    correlation = trace.table("kernel").column("correlation_id")
    assert correlation.values.dtype == np.int64
    assert correlation.to_list() == [1, None, 3]
    assert correlation.filled(-1).tolist() == [1, -1, 3]


def test_columns_are_read_only(trace):
    values = trace.table("kernel")["start_ns"]
    with pytest.raises(ValueError, match="read-only"):
        values[0] = 1


def test_only_the_columns_asked_for_are_read():
    class Spy(MemorySource):
        asked: list[str] = []  # noqa: RUF012

        def load(self, table, columns):
            self.asked.extend(f"{table}.{column}" for column in columns)
            return super().load(table, columns)

    spy = Spy({"kernel": _kernels(start_ns=[1, 2], end_ns=[2, 3])})
    trace = Trace(spy)
    assert spy.asked == []
    trace.columns("kernel", "start_ns", "end_ns")
    trace.columns("kernel", "start_ns", "end_ns")
    assert spy.asked == ["kernel.start_ns", "kernel.end_ns"]
    trace.columns("kernel", "process_id")
    assert spy.asked[2:] == ["kernel.process_id"]


@pytest.mark.parametrize("batch_bytes", [1, 2**26])
def test_columns_that_pass_are_as_others_and_not_kept(monkeypatch, trace, batch_bytes):
    monkeypatch.setattr("warpline.trace.store._BATCH_BYTES", batch_bytes)
    names = ("start_ns", "end_ns", "correlation_id", "name_id", "grid_x")
    loads = []
    load = MemorySource.load

    def spied(source, table, columns):
        loads.append([*columns])
        return load(source, table, columns)

    monkeypatch.setattr(MemorySource, "load", spied)
    passed = {name: data.to_list() for name, data in trace.passing("kernel", *names)}
    first = [*loads]
    assert passed["start_ns"] == [10, 30, 50]
    assert passed["correlation_id"] == [1, None, 3]
    assert all(len(columns) <= 2 for columns in first) == (batch_bytes == 1)
    kept = trace.columns("kernel", "start_ns")["start_ns"].values  # read again
    assert len(loads) > len(first)
    again = {name: data.to_list() for name, data in trace.passing("kernel", *names)}
    assert again == passed
    assert trace.columns("kernel", "start_ns")["start_ns"].values is kept
    ordered = {name: data.to_list() for name, data in trace.columns("kernel", *names).items()}
    assert ordered == passed


def test_columns_that_pass_do_not_change_the_order_of_later_ones(trace):
    unordered = trace.columns("kernel", "start_ns", ordered=False)["start_ns"].values
    assert [data.to_list() for _, data in trace.passing("kernel", "end_ns")] == [[20, 40, 60]]
    ends = trace.columns("kernel", "end_ns", ordered=False)["end_ns"].values
    assert (ends - unordered).tolist() == [10, 10, 10]


def test_the_first_order_holds_when_its_columns_are_gone(trace):
    starts = next(data for _, data in trace.passing("kernel", "start_ns")).values
    ends = trace.columns("kernel", "end_ns", ordered=False)["end_ns"].values
    assert (ends - starts).tolist() == [10, 10, 10]


def test_columns_of_a_part_pass(trace):
    part = trace.window(0, 35)
    assert [data.to_list() for _, data in part.passing("kernel", "end_ns")] == [[20, 40]]


def test_never_recorded_differs_from_empty(trace):
    assert trace.has("memset")
    assert trace.row_count("memset") == 0
    assert trace["memset"].height == 0
    with pytest.raises(MissingTableError, match="has no 'memcpy' table"):
        trace.table("memcpy")
    with pytest.raises(MissingTableError, match="unknown table 'kernels'"):
        trace["kernels"]
    with pytest.raises(SchemaError, match="no column 'begin'"):
        trace.columns("kernel", "begin")


def test_a_window_keeps_overlapping_rows_whole(trace):
    part = trace.window(15, 31)
    assert part.table("kernel")["start_ns"].tolist() == [10, 30]
    assert part.table("kernel")["end_ns"].tolist() == [20, 40]
    assert part.span() == (15, 31)
    assert trace.window(20, 30).row_count("kernel") == 0  # half-open on both sides


def test_a_window_shares_memory_with_the_trace(trace):
    whole = trace.table("kernel")["start_ns"]
    part = trace.window(15, 31).table("kernel")["start_ns"]
    assert np.shares_memory(whole, part)


def test_windows_and_selections_combine(trace):
    assert trace.window(None, 35).window(15, None).row_count("kernel") == 2
    assert trace.select(device=[0], stream=[0], process=[0]).row_count("kernel") == 3
    assert trace.select(device=[1]).row_count("kernel") == 0
    assert trace.select(device=[1]).row_count("api_call") == 2
    assert trace.select(process=[1]).row_count("range") == 0


def test_rows_whose_target_is_gone_go_with_it(trace):
    part = trace.window(30, 200)
    assert part["range"]["name"].to_list() == ["late"]
    assert part["range_payload"].select("range_id", "key").rows() == [(0, "a")]


def test_exclusion_follows_the_launch_not_the_device(trace):
    # The first kernel runs at 10..20 but was launched at 8; the second has no call.
    excluded = Excluded(np.array([0]), np.array([9]), np.array([0]))
    part = trace.filtered(excluded)
    assert part["kernel"]["name"].to_list() == ["second", "third"]
    assert part["range"]["name"].to_list() == ["late"]
    nothing = Excluded(np.array([8]), np.array([8]), np.array([0]))
    assert trace.filtered(nothing).row_count("kernel") == 3
    other_process = Excluded(np.array([0]), np.array([9]), np.array([1]))
    assert trace.filtered(other_process).row_count("kernel") == 3


def test_rows_with_impossible_times_have_no_length_and_are_counted():
    far = 2**63 - 1
    trace = Trace(
        MemorySource(
            {
                "kernel": _kernels(start_ns=[10, 30, -far - 1, 50], end_ns=[20, 25, 40, far]),
                "mark": {"time_ns": [far, 1]},
            }
        )
    )
    assert not trace.meta.warnings
    kernels = trace.columns("kernel", "start_ns", "end_ns")
    lengths = kernels["end_ns"].values - kernels["start_ns"].values
    assert kernels["start_ns"].values.tolist() == [-(2**61), 10, 30, 50]
    assert lengths.tolist() == [0, 10, 0, 0]
    assert trace.table("mark")["time_ns"].tolist() == [1, 2**61]
    assert trace.meta.warnings == (
        "kernel: 3 rows with impossible times, shown with zero duration",
        "mark: 1 row with impossible times, shown with zero duration",
    )


def test_a_reader_that_breaks_its_declaration_is_named():
    class Broken(MemorySource):
        def load(self, table, columns):
            loaded = super().load(table, columns)
            return {name: ColumnData(data.values[:1]) for name, data in loaded.items()}

    trace = Trace(Broken({"kernel": _kernels(start_ns=[1, 2], end_ns=[2, 3])}))
    with pytest.raises(SchemaError, match=r"kernel\.start_ns has shape \(1,\), not \(2,\)"):
        trace.columns("kernel", "start_ns")


def test_frames_show_texts_labels_and_nulls():
    trace = Trace(
        MemorySource(
            {
                "memcpy": _kernels(
                    start_ns=[1, 2],
                    end_ns=[2, 3],
                    bytes=[10, 20],
                    kind=[1, 99],
                    src_memory=[0, None],
                )
            }
        )
    )
    frame = trace.table("memcpy").to_polars(["start_ns", "bytes", "kind", "src_memory"])
    assert frame.rows() == [(1, 10, "Host-to-Device", "Pageable"), (2, 20, "99", None)]
    with pytest.raises(SchemaError, match="no column 'size'"):
        trace.table("memcpy").to_polars(["size"])


def test_repr_says_what_is_there(trace):
    assert repr(trace).startswith("<Trace memory: kernel 3, memset 0, api_call 2, range 2")
    assert "(part)" in repr(trace.window(0, 1))
    assert repr(trace.table("kernel")).startswith("<Table kernel: 3 rows; start_ns, end_ns,")


def test_span_is_what_the_producer_said_widened_to_the_events():
    meta = TraceMeta((Path("x"),), "memory", span_ns=(0, 40))
    source = MemorySource({"kernel": _kernels(start_ns=[-5], end_ns=[20])}, meta)
    assert Trace(source).span() == (-5, 40)
    assert Trace(MemorySource({})).span() == (0, 0)
