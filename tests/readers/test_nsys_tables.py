"""What becomes of the tables and columns of small exports, of old and new schemas."""

from __future__ import annotations

import sqlite3

import pytest
from support.nsys_exports import (
    OTHER_PROCESS,
    PLACE,
    PROCESS,
    THREAD,
    Rows,
    call,
    kernel,
    strings,
    write_export,
)

import warpline
from warpline.errors import CorruptTraceError, MissingTableError, UnsupportedVersionError
from warpline.readers.nsys.mapping import MAPPING
from warpline.readers.nsys.ranges import NvtxEvents, mark_fields, range_fields
from warpline.schema import TABLES

KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL"
CALLS = "CUPTI_ACTIVITY_KIND_RUNTIME"
SYNC = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"


def test_every_mapped_column_is_declared_and_no_required_one_is_left_out():
    events = NvtxEvents(None, None)  # type: ignore[arg-type]
    fields = [(part.table, part.fields) for parts in MAPPING.values() for part in parts]
    fields += [("range", range_fields(events)), ("mark", mark_fields(events))]
    for table, mapped in fields:
        spec = TABLES[table]
        assert {*mapped} <= {column.name for column in spec.columns}, table
        missing = {c.name for c in spec.columns if not c.nullable} - {*mapped}
        assert missing == set(), table


def test_old_schema_without_late_columns(opened, rows_of):
    trace = opened(
        {"StringIds": strings("k"), KERNELS: [kernel(5, 9, gridX=2, registersPerThread=16)]},
        version="2.9.1",
        meta_table="EXPORT_META_DATA",
    )
    assert trace.meta.format_version == "2.9.1"
    columns = ("start_ns", "end_ns", "grid_x", "registers_per_thread", "static_shared_bytes")
    assert rows_of(trace, "kernel", *columns) == [(5, 9, 2, 16, 0)]
    null = ("cluster_x", "green_context_id", "graph_node_id", "mangled_name_id", "launch_kind")
    assert rows_of(trace, "kernel", *null) == [(None,) * 5]


def test_new_schema_with_unknown_columns_and_tables(opened, rows_of):
    row = kernel(5, 9, clusterX=2, clusterY=1, clusterZ=1, graphId=4, brandNew=1)
    tables = {"StringIds": strings("k"), KERNELS: [row], "BRAND_NEW": [{"a": 1}, {"a": 2}]}
    trace = opened(tables, version="3.99.0")
    assert rows_of(trace, "kernel", "cluster_x", "graph_id") == [(2, 4)]
    assert trace.meta.unread == {"BRAND_NEW": 2}
    assert "3.99.0 is newer" in " ".join(trace.meta.warnings)


def test_another_major_version_is_refused(opened):
    with pytest.raises(UnsupportedVersionError, match=r"schema 4\.0\.1") as caught:
        opened({"StringIds": strings("k")}, version="4.0.1")
    assert "update Warpline" in str(caught.value.hint)


def test_names_of_tables_and_columns_in_another_case(opened, rows_of):
    row = {key.upper(): value for key, value in kernel(5, 9).items()}
    trace = opened({"STRINGIDS": [{"ID": 0, "VALUE": "k"}], KERNELS.lower(): [row]})
    assert rows_of(trace, "kernel", "start_ns", "name_id") == [(5, "k")]


def test_rows_in_any_order_and_negative_times(opened, rows_of):
    kernels = [kernel(30, 40, 1), kernel(-5, 2), kernel(10, 20)]
    trace = opened({"StringIds": strings("a", "b"), KERNELS: kernels})
    assert rows_of(trace, "kernel", "start_ns", "name_id") == [(-5, "a"), (10, "a"), (30, "b")]


def test_string_ids_that_are_sparse_unordered_missing_or_null(opened, rows_of):
    texts = [{"id": 10**12, "value": "far"}, {"id": 3, "value": "near"}]
    kernels = [kernel(1, 2, 3), kernel(2, 3, 10**12), kernel(3, 4, 77), kernel(4, 5, None)]
    trace = opened({"StringIds": texts, KERNELS: kernels})
    names = [name for (name,) in rows_of(trace, "kernel", "name_id")]
    assert names == ["near", "far", "[missing string 77]", "[unknown]"]


def test_runtime_and_driver_are_told_by_the_name(opened, rows_of):
    names = strings("cudaMalloc_v3020", "cuLaunchKernelEx", "custom")
    trace = opened({"StringIds": names, CALLS: [call(i, i + 1, i) for i in range(3)]})
    assert rows_of(trace, "api_call", "api") == [("Runtime",), ("Driver",), (None,)]


def test_waits_are_kept_apart(opened, rows_of):
    sync = {"start": 1, "end": 2, **PLACE, "eventSyncId": 4294967295}
    none = 4294967295
    trace = opened(
        {
            "StringIds": strings("cudaEventQuery_v3020", "cudaStreamSynchronize"),
            CALLS: [call(0, 9, correlationId=1), call(0, 9, 1, correlationId=2)],
            SYNC: [
                {**sync, "syncType": 1, "eventId": 5, "correlationId": 1, "streamId": none},
                {**sync, "syncType": 1, "eventId": 6, "correlationId": 8, "eventSyncId": 3},
                {**sync, "syncType": 2, "eventId": none, "correlationId": 2},
                {**sync, "syncType": 2, "eventId": 7, "correlationId": 9},
                {**sync, "syncType": 3, "eventId": none, "correlationId": 10},
                {**sync, "syncType": 4, "eventId": none, "correlationId": 11, "streamId": none},
                {**sync, "syncType": 77, "eventId": none, "correlationId": 12, "streamId": none},
            ],
        }
    )
    columns = ("correlation_id", "kind", "event_id", "event_sync_id", "stream_id")
    assert rows_of(trace, "host_wait", *columns) == [
        (2, "Stream", None, None, 0),
        (8, "Event", 6, 3, 0),
        (10, "Stream", None, None, 0),
        (11, "Context", None, None, None),
        (12, "Unknown", None, None, None),
    ]
    assert rows_of(trace, "stream_wait", "correlation_id", "event_id") == [(9, 7)]


def test_graph_launches_of_both_levels(opened, rows_of):
    whole = {"start": 100, "end": 150, **PLACE, "correlationId": 9, "graphId": 1, "graphExecId": 2}
    copied = {"start": 12, "end": 90, **PLACE, "correlationId": 5, "graphNodeId": 3, "bytes": 1}
    nodes = [
        kernel(10, 20, correlationId=5, graphNodeId=1, graphId=4, streamId=8),
        kernel(30, 40, correlationId=5, graphNodeId=2, graphId=4),
        kernel(30, 45, correlationId=5, graphNodeId=2, globalPid=OTHER_PROCESS),
        kernel(60, 70, correlationId=6),
        kernel(80, 95, correlationId=None, graphNodeId=1),
    ]
    trace = opened(
        {
            "StringIds": strings("k"),
            KERNELS: nodes,
            "CUPTI_ACTIVITY_KIND_MEMCPY": [{**copied, "copyKind": 8}],
            "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": [whole],
        }
    )
    columns = ("start_ns", "end_ns", "process_id", "level", "node_count", "graph_id")
    assert rows_of(trace, "graph_launch", *columns) == [
        (10, 90, 0, "Node", 3, 4),
        (30, 45, 1, "Node", 1, None),
        (100, 150, 0, "Graph", 0, 1),
    ]
    streams = [s for (s,) in rows_of(trace, "stream", "native_id")]
    first = trace.columns("graph_launch", "stream_id")["stream_id"].values[0]
    assert streams[first] == 8, "the stream of the node that began first"


def test_graph_nodes_of_new_and_old_exports(opened, rows_of):
    node = {"start": 1, "end": 1, "globalTid": THREAD, "nameId": 0}
    new = {"CUDA_GRAPH_NODE_EVENTS": [{**node, "graphNodeId": 7, "originalGraphNodeId": None}]}
    old = {"CUDA_GRAPH_EVENTS": [{**node, "graphNodeId": 8}, {**node, "graphId": 1}]}
    trace = opened({"StringIds": strings("create"), **new, **old})
    assert rows_of(trace, "graph_node", "graph_node_id", "name_id") == [
        (7, "create"),
        (8, "create"),
    ]
    assert trace.meta.unread == {"CUDA_GRAPH_EVENTS": 1}


def test_library_calls(opened, rows_of):
    call = {"start": 5, "end": 9, "globalTid": THREAD}
    tables = {
        "CUBLAS_EVENTS": [{**call, "nameId": 0}],
        "CUDNN_EVENTS": [{**call, "start": 6, "nameId": 1}],
        # The second one never returned.
        "MPI_P2P_EVENTS": [{**call, "start": 7, "textId": 2}, {**call, "end": None, "textId": 2}],
        "OPENMP_EVENT_KIND_PARALLEL": [{**call, "start": 8, "nameId": 3}],
    }
    names = strings("cublasSgemm_v2", "cudnnCreate", "MPI_Send", "Parallel")
    trace = opened({"StringIds": names, **tables})
    columns = ("start_ns", "library_id", "name_id", "arguments_id", "return_value")
    assert rows_of(trace, "library_call", *columns) == [
        (5, "cuBLAS", "cublasSgemm_v2", None, None),
        (6, "cuDNN", "cudnnCreate", None, None),
        (7, "MPI", "MPI_Send", None, None),
        (8, "OpenMP", "Parallel", None, None),
    ]
    assert trace.row_count("thread") == 1


def test_memory_events(opened, rows_of):
    row = {"start": 5, "globalPid": PROCESS, "deviceId": 0, "address": 2**46, "bytes": 64}
    rows = [
        {**row, "contextId": 1, "memKind": 2, "memoryOperationType": 0, "correlationId": 3},
        {**row, "contextId": 0, "memKind": 5, "memoryOperationType": 1, "name": "lut"},
    ]
    trace = opened({"StringIds": strings("x"), "CUDA_GPU_MEMORY_USAGE_EVENTS": rows})
    columns = ("operation", "memory", "bytes", "address", "context_id", "name_id", "correlation_id")
    assert rows_of(trace, "memory_event", *columns) == [
        ("Allocation", "Device", 64, 2**46, 0, None, 3),
        ("Deallocation", "Device Static", 64, 2**46, None, "lut", None),
    ]
    assert trace.row_count("stream") == 0


def test_page_faults_and_migrations_of_unified_memory(opened, rows_of):
    moved = {**PLACE, "contextId": 0, "streamId": 0, "correlationId": 0, "copyKind": 11}
    fault = {"globalPid": OTHER_PROCESS, "address": 2**46}
    trace = opened(
        {
            "StringIds": strings("x", "fill(float*)", "/app"),
            "CUPTI_ACTIVITY_KIND_MEMCPY": [
                {**moved, "start": 1, "end": 2, "bytes": 64, "migrationCause": 2}
                | {"virtualAddress": 2**46},
                {**moved, "start": 3, "end": 4, "bytes": 64, "copyKind": 1},
                {**moved, "start": 5, "end": 6, "bytes": 64, "migrationCause": 77},
            ],
            "CUDA_UM_CPU_PAGE_FAULT_EVENTS": [
                {**fault, "start": 9, "originalFaultPc": 4096, "CpuInstruction": 1, "module": 2},
                {**fault, "start": 7, "CpuInstruction": 1, "module": 2},
            ],
            "CUDA_UM_GPU_PAGE_FAULT_EVENTS": [
                {"start": 1, "end": 5, "globalPid": PROCESS, "deviceId": 0, "address": 2**46}
                | {"numberOfPageFaults": 12, "faultAccessType": 2}
            ],
        }
    )
    assert rows_of(trace, "memcpy", "migration_cause", "virtual_address") == [
        ("Page fault", 2**46),
        (None, None),
        ("Unknown", None),
    ]
    of_cpu = ("time_ns", "address", "pc", "function_id", "module_id")
    assert rows_of(trace, "um_cpu_page_fault", *of_cpu) == [
        (7, 2**46, None, "fill(float*)", "/app"),
        (9, 2**46, 4096, "fill(float*)", "/app"),
    ]
    of_gpu = ("start_ns", "end_ns", "device_id", "address", "faults", "access")
    assert rows_of(trace, "um_gpu_page_fault", *of_gpu) == [(1, 5, 0, 2**46, 12, "Write")]
    pids = trace.table("process")["pid"].tolist()
    of_fault = trace.table("um_cpu_page_fault")["process_id"].tolist()
    assert [pids[row] for row in of_fault] == [4300, 4300]
    assert trace.meta.unread == {}


def test_sampled_metrics(opened, rows_of):
    gpu_1 = (1 << 48) | (1 << 32) | 1
    rows = [(10, 0, 1_980_000_000), (10, 1, 55), (20, 0, 210_000_000), (20, 9, 3)]
    trace = opened(
        {
            "StringIds": strings("x"),
            "TARGET_INFO_GPU_METRICS": [
                {"typeId": gpu_1, "metricId": 1, "metricName": "GR Active [Throughput %]"},
                {"typeId": gpu_1, "metricId": 0, "metricName": "GPC Clock Frequency [MHz]"},
            ],
            "GPU_METRICS": [
                {"timestamp": t, "typeId": gpu_1, "metricId": m, "value": v} for t, m, v in rows
            ],
        }
    )
    assert rows_of(trace, "metric", "name_id") == [
        ("GPC Clock Frequency [MHz]",),
        ("GR Active [Throughput %]",),
        ("metric 9",),
    ]
    assert rows_of(trace, "counter", "time_ns", "metric_id", "value") == [
        (10, 0, 1980.0),
        (10, 1, 55.0),
        (20, 0, 210.0),
        (20, 2, 3.0),
    ]
    assert rows_of(trace, "device", "gpu_index") == [(1,)]


def test_both_overhead_tables_are_one(opened, rows_of):
    row = {"start": 1, "end": 5, "globalTid": THREAD, "nameId": 0}
    tables = {"PROFILER_OVERHEAD": [row], "CUPTI_ACTIVITY_KIND_OVERHEAD": [{**row, "start": 2}]}
    trace = opened({"StringIds": strings("flush"), **tables})
    assert rows_of(trace, "overhead", "start_ns", "name_id") == [(1, "flush"), (2, "flush")]


def test_unknown_numbers_of_enumerations_are_unknown(opened, rows_of):
    copy = {"start": 1, "end": 2, **PLACE, "bytes": 8}
    rows = [{**copy, "copyKind": 99, "srcKind": 99, "dstKind": None}]
    trace = opened({"StringIds": strings("x"), "CUPTI_ACTIVITY_KIND_MEMCPY": rows})
    assert rows_of(trace, "memcpy", "kind", "src_memory", "dst_memory") == [
        ("Unknown", "Unknown", None)
    ]


@pytest.mark.parametrize(
    ("captured", "is_lazy", "expected"),
    [
        (["Cuda"], True, {"kernel", "api_call", "graph_launch"}),
        (["Cuda", "OSRuntime"], True, {"kernel", "os_call"}),
        (["NvtxEvents"], True, {"range", "mark", "collective"}),
    ],
)
def test_what_was_traced_is_recorded_though_it_holds_nothing(opened, captured, is_lazy, expected):
    trace = opened({"StringIds": strings("x")}, captured=captured, is_lazy=is_lazy)
    for table in expected:
        assert trace.has(table)
        assert trace.row_count(table) == 0
    for table in {"kernel", "range", "os_call", "counter", "sched_event"} - expected:
        with pytest.raises(MissingTableError):
            trace.table(table)


def test_empty_tables_of_a_full_export_are_not_recorded_unless_traced(opened):
    empty: dict[str, Rows] = {KERNELS: [], "NVTX_EVENTS": [], "SCHED_EVENTS": []}
    trace = opened({"StringIds": strings("x"), **empty}, captured=["Cuda"], is_lazy=False)
    assert trace.has("kernel")
    assert not trace.has("range")
    assert not trace.has("sched_event")


def test_an_export_of_unknown_origin_answers_by_its_tables(opened):
    trace = opened({"StringIds": strings("x"), KERNELS: []}, version=None)
    assert trace.has("kernel")
    assert not trace.has("memcpy")


def test_zero_rows_in_every_table(opened):
    empty: dict[str, Rows] = {source.source: [] for parts in MAPPING.values() for source in parts}
    trace = opened({"StringIds": [], "NVTX_EVENTS": [], **empty})
    for table in trace.tables:
        columns = trace.columns(table, *(column.name for column in TABLES[table].columns))
        assert all(len(data) == 0 for data in columns.values())
    assert trace.span() == (0, 0)


def test_text_where_a_number_belongs(tmp_path, rows_of):
    rows = [kernel(1, 2, registersPerThread="many", gridX=4), kernel(3, 4, registersPerThread=8)]
    path = write_export(tmp_path / "x.sqlite", {"StringIds": strings("k"), KERNELS: rows})
    trace = warpline.open(path)
    assert rows_of(trace, "kernel", "registers_per_thread") == [(0,), (8,)]
    assert f"{KERNELS}.registersPerThread: 1 values" in " ".join(trace.meta.warnings)


def test_a_row_without_its_time_is_damage(tmp_path):
    rows = [kernel(1, 2), kernel("soon", 4)]
    path = write_export(tmp_path / "x.sqlite", {"StringIds": strings("k"), KERNELS: rows})
    with pytest.raises(CorruptTraceError, match="column start has no number in 1 row"):
        warpline.open(path).columns("kernel", "start_ns")


def test_a_table_without_a_time_column_is_damage(tmp_path):
    rows = [{"end": 4, **PLACE}]
    path = write_export(tmp_path / "x.sqlite", {"StringIds": strings("k"), KERNELS: rows})
    with pytest.raises(CorruptTraceError, match="column start is missing"):
        warpline.open(path).columns("kernel", "start_ns")


def test_64_bit_numbers_stay_exact(opened, rows_of):
    big = 2**59 + 1
    trace = opened({"StringIds": strings("k"), KERNELS: [kernel(big, big + 2, graphNodeId=big)]})
    assert rows_of(trace, "kernel", "start_ns", "end_ns", "graph_node_id") == [(big, big + 2, big)]


def test_texts_that_are_not_utf8_or_hold_nul(tmp_path, rows_of):
    path = write_export(
        tmp_path / "x.sqlite",
        {"StringIds": strings("k"), KERNELS: [kernel(1, 2), kernel(2, 3, 1)]},
    )
    base = sqlite3.connect(path)
    base.execute("UPDATE StringIds SET value = CAST(X'61FF62' AS TEXT)")
    base.execute("INSERT INTO StringIds VALUES (1, ?)", ("a\0b",))
    base.commit()
    base.close()
    names = [name for (name,) in rows_of(warpline.open(path), "kernel", "name_id")]
    assert names == ["a\ufffdb", "a\0b"]
