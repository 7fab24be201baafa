"""Real captures of Nsight Systems: compared with committed dumps, and with sqlite3's own sums.

After a change that is meant to change dumps: ``UPDATE_SNAPSHOTS=1 pytest tests/readers``, then
look at the difference.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from support import captures
from support.backtraces import backtraces
from support.canonical_dump import dump

import warpline
from warpline.trace import Trace

SNAPSHOTS = Path(__file__).parent / "snapshots"
# More exports to check, a folder of the developer's choice.
MORE = os.environ.get("WARPLINE_TRACES", "")

Capture = Callable[[str], Path]


@pytest.mark.parametrize("name", captures.names())
def test_dump_is_the_committed_one(capture: Capture, name):
    found = dump(warpline.open(capture(name)))
    path = SNAPSHOTS / f"{name}.txt"
    if os.environ.get("UPDATE_SNAPSHOTS"):
        path.write_text(found, encoding="utf-8")
    assert found == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["tiny_kernels.fixed", "cuda_graph_level"])
def test_content_decides_not_the_name(capture: Capture, tmp_path, name):
    hidden = tmp_path / "recording"
    shutil.copyfile(capture(name), hidden)
    assert dump(warpline.open(hidden)) == dump(warpline.open(capture(name)))


@pytest.mark.parametrize("name", ["tiny_kernels.fixed", "cuda_graph_level"])
def test_the_same_without_the_native_core(capture: Capture, monkeypatch, name):
    expected = dump(warpline.open(capture(name)))
    monkeypatch.setattr("warpline.native.core", lambda: None)
    assert dump(warpline.open(capture(name))) == expected


def test_columns_do_not_depend_on_what_was_read_before(capture: Capture):
    path = capture("ddp_serial.bad.rank0")
    whole, single = warpline.open(path), warpline.open(path)
    for table in reversed(single.tables):
        for column in reversed(single.table(table).spec.columns):
            one = single.columns(table, column.name)[column.name]
            all_columns = whole.columns(table, *(c.name for c in whole.table(table).spec.columns))
            other = all_columns[column.name]
            assert np.array_equal(one.is_valid(), other.is_valid())
            if column.ref == "string":
                continue  # row numbers of texts depend on the order; the dumps compare them
            assert np.array_equal(one.values, other.values)


def test_two_ranks_merge_on_one_clock(capture: Capture):
    ranks = [warpline.open(capture(f"ddp_serial.bad.rank{rank}")) for rank in (0, 1)]
    merged = warpline.open(*(capture(f"ddp_serial.bad.rank{rank}") for rank in (0, 1)))
    assert merged.row_count("device") == 2
    assert merged.row_count("process") == 2
    assert merged.row_count("kernel") == sum(rank.row_count("kernel") for rank in ranks)
    # An all-reduce ends on both ranks at once: the clocks agree far below its length.
    names = merged.columns("kernel", "short_name_id")["short_name_id"].values
    is_nccl = np.array([text.startswith("nccl") for text in merged.strings.texts(names)])
    table = merged.columns("kernel", "end_ns", "process_id")
    end_ns, process = table["end_ns"].values[is_nccl], table["process_id"].values[is_nccl]
    lag_ns = end_ns[process == 0] - end_ns[process == 1]
    assert abs(float(np.median(lag_ns))) < 50_000


def paths() -> list[Path]:
    return sorted(Path(MORE).rglob("*.sqlite")) if MORE else []


@pytest.mark.parametrize("name", captures.cases())
def test_sums_equal_sqlite3(capture: Capture, name):
    check_against_sqlite3(capture(name))


@pytest.mark.skipif(not paths(), reason="WARPLINE_TRACES names no folder with exports")
@pytest.mark.parametrize("path", paths(), ids=lambda path: path.name)
def test_sums_of_more_exports_equal_sqlite3(path):
    check_against_sqlite3(path)


SUMS = {
    "kernel": (
        "CUPTI_ACTIVITY_KIND_KERNEL",
        {
            "start_ns": "start",
            "end_ns": "end",
            "correlation_id": "correlationId",
            "grid_x": "gridX",
            "block_z": "blockZ",
            "registers_per_thread": "registersPerThread",
            "dynamic_shared_bytes": "dynamicSharedMemory",
            "graph_node_id": "graphNodeId",
        },
    ),
    "memcpy": ("CUPTI_ACTIVITY_KIND_MEMCPY", {"start_ns": "start", "bytes": "bytes"}),
    "memset": ("CUPTI_ACTIVITY_KIND_MEMSET", {"end_ns": "end", "bytes": "bytes"}),
    "api_call": (
        "CUPTI_ACTIVITY_KIND_RUNTIME",
        {"start_ns": "start", "end_ns": "end", "return_value": "returnValue"},
    ),
    "event_record": ("CUPTI_ACTIVITY_KIND_CUDA_EVENT", {"event_id": "eventId"}),
    "memory_event": ("CUDA_GPU_MEMORY_USAGE_EVENTS", {"bytes": "bytes", "address": "address"}),
    "cpu_sample": ("COMPOSITE_EVENTS", {"time_ns": "start", "cycles": "cpuCycles"}),
    "sched_event": ("SCHED_EVENTS", {"time_ns": "start", "is_sched_in": "isSchedIn"}),
    "counter": ("GPU_METRICS", {"time_ns": "timestamp"}),
    "diagnostic": ("DIAGNOSTIC_EVENT", {"time_ns": "timestamp", "severity": "severity"}),
}
STREAM_WAIT = "syncType = 2 AND eventId != 4294967295"
POLLS = """
    SELECT correlationId, globalTid & ~16777215
    FROM CUPTI_ACTIVITY_KIND_RUNTIME JOIN StringIds ON id = nameId
    WHERE value LIKE 'cudaEventQuery%' OR value LIKE 'cudaStreamQuery%'"""
WHERE = {
    "host_wait": (
        "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
        f"NOT ({STREAM_WAIT}) AND (correlationId, globalPid) NOT IN ({POLLS})",
    ),
    "stream_wait": ("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", STREAM_WAIT),
    "os_call": ("OSRT_API", "eventClass != 31"),
    "range": ("NVTX_EVENTS", "eventType in (59, 60)"),
    "mark": ("NVTX_EVENTS", "eventType = 34"),
}


def check_against_sqlite3(path: Path) -> None:
    trace = warpline.open(path)
    base = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)
    tables = {name for (name,) in base.execute("SELECT name FROM sqlite_master")}
    for table, (source, columns) in SUMS.items():
        if trace.has(table) and source in tables:
            for ours, theirs in columns.items():
                query = f'SELECT count(*), coalesce(sum("{theirs}"), 0) FROM "{source}"'
                values = trace.columns(table, ours)[ours].values
                total = sum(map(int, values.tolist()))
                assert (len(values), total) == base.execute(query).fetchone(), (table, ours)
    for table, (source, condition) in WHERE.items():
        if trace.has(table) and source in tables:
            query = f'SELECT count(*), total("end"), total(start) FROM {source} WHERE {condition}'
            count, _, start = base.execute(query).fetchone()
            assert trace.row_count(table) == count, table
            name = trace.table(table).spec.start
            assert name is not None
            assert float(trace.columns(table, name)[name].values.sum()) == start, table
    check_names(trace, base)
    base.close()


def check_names(trace: Trace, base: sqlite3.Connection) -> None:
    """Compare each kernel, call and range with the name that SQL finds for it."""
    by_name = {
        "api_call": "SELECT start, value FROM CUPTI_ACTIVITY_KIND_RUNTIME, StringIds"
        " WHERE id = nameId",
        "kernel": "SELECT start, value FROM CUPTI_ACTIVITY_KIND_KERNEL, StringIds"
        " WHERE id = demangledName",
        "range": "SELECT start, coalesce(value, text) FROM NVTX_EVENTS"
        " LEFT JOIN StringIds ON id = textId WHERE eventType IN (59, 60)",
    }
    for table, query in by_name.items():
        if trace.has(table) and trace.row_count(table):
            data = trace.columns(table, "start_ns", "name_id")
            starts = data["start_ns"].values.tolist()
            ours = sorted(zip(starts, trace.strings.texts(data["name_id"].values), strict=True))
            assert ours == sorted(base.execute(query)), table


def test_nccl_payloads_of_a_real_run(capture: Capture):
    """The program reduces every gradient once a step: 220,836,864 bytes of bfloat16."""
    gradient_bytes = 110_418_432 * 2
    part = warpline.open(capture("ddp_payloads.part.rank0"))["collective"]
    assert part["bytes"].sum() == 2 * gradient_bytes  # two steps
    assert set(part["reduction"]) == {"Sum"}
    assert part["communicator"].n_unique() == 1
    assert part["rank"].null_count() == part.height  # created before the recording began
    whole = warpline.open(capture("ddp_payloads.whole.rank0"))["collective"]
    assert set(whole.select("rank", "rank_count").rows()) == {(0, 2)}
    assert set(whole["operation"]) == {"ncclAllGather", "ncclAllReduce", "ncclBroadcast"}
    assert whole.filter(operation="ncclBroadcast")["bytes"].max() == gradient_bytes


def sampled(trace: warpline.Trace, name: str, gpu: int) -> np.ndarray:
    """Return the values of a metric of a GPU, by time."""
    metric = trace["metric"]["name"].to_list().index(name)
    return trace["counter"].filter(metric_id=metric, device_id=gpu)["value"].to_numpy()


def test_sums_of_sampled_metrics_equal_sqlite3(capture: Capture):
    path = capture("rich_metrics_sampling")
    with sqlite3.connect(path) as base:
        rows = base.execute(
            "SELECT metricName, typeId & 255, count(*), sum(value) FROM GPU_METRICS"
            " JOIN TARGET_INFO_GPU_METRICS USING (typeId, metricId) GROUP BY typeId, metricId"
        ).fetchall()
    trace = warpline.open(path)
    assert len(rows) == trace["counter"]["metric_id"].n_unique() == 22
    for name, gpu, count, total in rows:
        values = sampled(trace, name, gpu)
        divisor = 1e6 if "[MHz]" in name else 2 if "Warps" in name and "[Avg" in name else 1
        assert len(values) == count
        assert values.sum() == pytest.approx(total / divisor, rel=1e-12)


def test_sampled_warps_are_those_of_an_sm(capture: Capture):
    """An SM of this GPU holds 64 warps. nsys writes those of a TPC, which has two SMs."""
    trace = warpline.open(capture("rich_metrics_sampling"))
    warps, share = (
        sampled(trace, f"Compute Warps in Flight [{kind}]", 0)
        for kind in ("Avg Warps per Cycle", "Throughput %")
    )
    assert warps.max() > 60
    assert np.abs(warps - share * 64 / 100).max() <= 0.9  # both are rounded down


CHAINS = {  # table -> its source, the column with the backtrace, the table with the frames
    "api_call": ("CUPTI_ACTIVITY_KIND_RUNTIME", "callchainId", "CUDA_CALLCHAINS"),
    "os_call": ("OSRT_API", "callchainId", "OSRT_CALLCHAINS"),
    "cpu_sample": ("COMPOSITE_EVENTS", "id", "SAMPLING_CALLCHAINS"),
}


@pytest.mark.parametrize("table", CHAINS)
@pytest.mark.parametrize("name", ["rich_metrics_sampling", "host_sync.bad"])
def test_each_backtrace_has_the_frames_of_the_file(capture: Capture, name, table):
    trace, (source, column, frames) = warpline.open(capture(name)), CHAINS[table]
    with sqlite3.connect(capture(name)) as base:
        if not base.execute("SELECT 1 FROM sqlite_master WHERE name = ?", [frames]).fetchall():
            assert not trace.has(table) or trace[table]["stack_id"].null_count() == len(
                trace[table]
            )
            return
        rows = base.execute(
            f"SELECT id, s.value, m.value, unresolved, originalIP FROM {frames}"
            " JOIN (SELECT id AS symbol_id, value FROM StringIds) s ON s.symbol_id = symbol"
            " JOIN (SELECT id AS module_id, value FROM StringIds) m ON m.module_id = module"
            " ORDER BY id, stackDepth"
        ).fetchall()
        used = base.execute(f"SELECT {column} FROM {source}").fetchall()
    chains: dict[int, list[tuple[object, ...]]] = {}
    for chain, symbol, module, unresolved, address in rows:
        chains.setdefault(chain, []).append((symbol, module, bool(unresolved), address))
    expected = sorted(str(chains[chain]) for (chain,) in used if chain in chains)
    columns = ("symbol", "module", "is_unresolved", "address")
    found = [str(frames) for frames in backtraces(trace, table, columns) if frames]
    assert sorted(found) == expected
    assert expected
