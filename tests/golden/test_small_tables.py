"""Each table on a trace small enough to count by hand."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from warpline import api
from warpline.errors import MissingTableError, UsageError
from warpline.result import Result, Skipped
from warpline.trace import MemorySource, Trace

Columns = Mapping[str, Sequence[Any]]


def trace_of(**tables: Columns) -> Trace:
    return Trace(MemorySource(tables))


def table(trace: Trace, name: str) -> Result:
    return api.stats(trace, name)


def columns(result: Result, *names: str) -> list[tuple[Any, ...]]:
    return list(zip(*(result.columns[name].to_list() for name in names), strict=True))


def kernels(**more: Sequence[Any]) -> Columns:
    """Three runs of one kernel, of 10, 20 and 60 ns, and one of another, of 10 ns."""
    return {
        "start_ns": [0, 10, 40, 100],
        "end_ns": [10, 30, 100, 110],
        "name": ["gemm<int>", "gemm<int>", "gemm<int>", "add(float*)"],
        "short_name": ["gemm", "gemm", "gemm", "add"],
        "mangled_name": ["_Z4gemm", "_Z4gemm", None, "_Z3add"],
        **more,
    }


def test_statistics_of_a_summary() -> None:
    result = table(trace_of(kernel=kernels()), "cuda_gpu_kern_sum")
    assert [field.heading for field in result.fields] == [
        *("Time (%)", "Total Time (ns)", "Instances", "Avg (ns)", "Med (ns)"),
        *("Min (ns)", "Max (ns)", "StdDev (ns)", "Name", "P95 (ns)", "P99 (ns)"),
    ]
    gemm, add = result.rows()
    assert gemm == (
        *(0.9, 90, 3, 30.0, 20.0, 10, 60),
        pytest.approx(26.457513),  # sqrt((20**2 + 10**2 + 30**2) / 2)
        *("gemm<int>", pytest.approx(56.0), pytest.approx(59.2)),
    )
    assert add == (0.1, 10, 1, 10.0, 10.0, 10, 10, 0.0, "add(float*)", 10.0, 10.0)


def test_kernels_by_base_and_mangled_name() -> None:
    trace = trace_of(kernel=kernels())
    base = table(trace, "cuda_gpu_kern_sum:base")
    assert columns(base, "name", "total_ns") == [("gemm", 90), ("add", 10)]
    assert base.name == "cuda_gpu_kern_sum:base"
    # A kernel without a recorded mangled name is listed under its full name.
    mangled = table(trace, "cuda_gpu_kern_sum:mangled")
    assert columns(mangled, "name", "total_ns") == [
        *(("gemm<int>", 60), ("_Z4gemm", 30), ("_Z3add", 10)),
    ]
    assert table(trace, "cuda_gpu_kern_sum:base:mangled").rows() == base.rows()


def test_equal_totals_are_listed_by_name() -> None:
    names = ["b", "C", "a", "é"]
    rows: Columns = {"start_ns": [0, 1, 2, 3], "end_ns": [5, 6, 7, 8], "name": names}
    result = table(trace_of(kernel=rows), "cuda_gpu_kern_sum")
    assert columns(result, "name") == [("C",), ("a",), ("b",), ("é",)]


@pytest.mark.parametrize(("name", "expected"), [("kern_sum", "bca"), ("sum", "abc")])
def test_of_equal_totals_of_kernels_the_rarer_comes_first(name: str, expected: str) -> None:
    rows: Columns = {"start_ns": [0] * 6, "end_ns": [2, 2, 6, 10, 5, 5], "name": list("aaabcc")}
    result = table(trace_of(kernel=rows), f"cuda_gpu_{name}")
    assert columns(result, "name") == [(text,) for text in expected]


def test_many_equal_totals_are_listed_by_name() -> None:
    names = [f"kernel {number:03}" for number in range(300)]
    rows: Columns = {"start_ns": [0] * 300, "end_ns": [5, 6, 7] * 100, "name": names}
    result = table(trace_of(kernel=rows), "cuda_gpu_kern_sum")
    assert [name for (name,) in columns(result, "name")] == names[2::3] + names[1::3] + names[::3]


def test_kernels_by_launch_are_listed_by_name_then_size_as_numbers() -> None:
    rows: Columns = {
        "start_ns": [0] * 5,
        "end_ns": [5] * 5,
        "name": ["b", "a", "a", "a", "a"],
        "grid_x": [1, 100_000, 3, 20, 3],
        "grid_y": [1] * 5,
        "grid_z": [1] * 5,
        "block_x": [32, 32, 1024, 32, 64],
        "block_y": [1] * 5,
        "block_z": [1] * 5,
    }
    result = table(trace_of(kernel=rows), "cuda_gpu_kern_gb_sum")
    assert columns(result, "grid", "block", "name") == [
        ("   3    1    1", "  64    1    1", "a"),
        ("   3    1    1", "1024    1    1", "a"),
        ("  20    1    1", "  32    1    1", "a"),
        ("100000    1    1", "  32    1    1", "a"),
        ("   1    1    1", "  32    1    1", "b"),
    ]


def memory() -> dict[str, Mapping[str, Sequence[Any]]]:
    return {
        "memcpy": {
            "start_ns": [5, 20, 30],
            "end_ns": [9, 26, 30],
            "bytes": [4_000_000, 500, 7],
            "kind": [1, 1, 99],
            "src_memory": [0, 1, None],
            "dst_memory": [2, 2, 2],
        },
        "memset": {"start_ns": [5], "end_ns": [10], "bytes": [1500], "memory": [2]},
    }


def test_memory_operations_by_time_and_size() -> None:
    trace = trace_of(**memory())
    by_time = table(trace, "cuda_gpu_mem_time_sum")
    assert columns(by_time, "name", "total_ns", "instances") == [
        ("[CUDA memcpy Host-to-Device]", 10, 2),
        ("[CUDA memset]", 5, 1),
        ("[CUDA memcpy kind 99]", 0, 1),
    ]
    by_size = table(trace, "cuda_gpu_mem_size_sum")
    assert [field.heading for field in by_size.fields][:3] == ["Total (MB)", "Count", "Avg (MB)"]
    assert columns(by_size, "name", "total_bytes", "median_bytes") == [
        ("[CUDA memcpy Host-to-Device]", 4_000_500, 2_000_250.0),
        ("[CUDA memset]", 1500, 1500.0),
        ("[CUDA memcpy kind 99]", 7, 7.0),
    ]


def test_copies_alone_and_sets_alone_are_enough() -> None:
    for name in ("memcpy", "memset"):
        result = table(trace_of(**{name: memory()[name]}), "cuda_gpu_sum")
        assert {category for (category,) in columns(result, "category")} == {"MEMORY_OPER"}


def test_one_ranking_of_kernels_and_memory_operations() -> None:
    result = table(trace_of(kernel=kernels(), **memory()), "cuda_gpu_sum:base")
    assert columns(result, "category", "name", "total_ns") == [
        ("CUDA_KERNEL", "gemm", 90),
        ("MEMORY_OPER", "[CUDA memcpy Host-to-Device]", 10),
        ("CUDA_KERNEL", "add", 10),
        ("MEMORY_OPER", "[CUDA memset]", 5),
        ("MEMORY_OPER", "[CUDA memcpy kind 99]", 0),
    ]
    shares = [share for (share,) in columns(result, "time_ratio")]
    assert shares[0] == pytest.approx(90 / 115)
    assert sum(shares) == pytest.approx(1)


def test_a_kernel_named_like_a_memory_operation_is_a_kernel() -> None:
    named = kernels(name=["[CUDA memset]"] * 4)
    result = table(trace_of(kernel=named, memset=memory()["memset"]), "cuda_gpu_sum")
    assert columns(result, "category", "instances") == [("CUDA_KERNEL", 4), ("MEMORY_OPER", 1)]


def calls(**more: Sequence[Any]) -> Columns:
    return {
        "start_ns": [0, 10, 20, 30],
        "end_ns": [4, 15, 26, 37],
        "name": ["cudaFree_v3020", "cudaFree", "cudaGraphLaunch_v10000", "cudaFree_v3020"],
        "return_value": [0, 0, 600, 0],
        "correlation_id": [1, 2, None, 4],
        **more,
    }


def test_calls_by_function() -> None:
    result = table(trace_of(api_call=calls()), "cuda_api_sum")
    # As in nsys, four-digit versions are not shown, and versions are not merged.
    assert columns(result, "name", "total_ns", "instances") == [
        ("cudaFree", 11, 2),
        ("cudaGraphLaunch_v10000", 6, 1),
        ("cudaFree", 5, 1),
    ]


def test_calls_and_device_work_in_one_ranking() -> None:
    rows = kernels(name=["cudaFree"] * 4)
    result = table(trace_of(api_call=calls(), kernel=rows), "cuda_api_gpu_sum")
    assert columns(result, "category", "name", "total_ns", "instances") == [
        ("CUDA_KERNEL", "cudaFree", 100, 4),  # nsys would count these kernels as calls
        ("CUDA_API", "cudaFree", 16, 3),
        ("CUDA_API", "cudaGraphLaunch_v10000", 6, 1),
    ]


def test_calls_in_order() -> None:
    trace = trace_of(
        api_call=calls(thread_id=[0, 1, 0, 0], process_id=[0, 0, 0, 0]),
        process={"pid": [4242]},
        thread={
            "process_id": [0, 0],
            "tid": [4242, 4300],
            "name": ["main", None],
            "priority": [20, None],
        },
    )
    assert table(trace, "cuda_api_trace").rows() == [
        (0, 4, "cudaFree", 0, 1, 4242, 4242, 20, "main"),
        (10, 5, "cudaFree", 0, 2, 4242, 4300, None, None),
        (20, 6, "cudaGraphLaunch_v10000", 600, None, 4242, 4242, 20, "main"),
        (30, 7, "cudaFree", 0, 4, 4242, 4242, 20, "main"),
    ]


def device_work() -> Trace:
    return trace_of(
        kernel={
            "start_ns": [5, -7],
            "end_ns": [9, -4],
            "correlation_id": [11, None],
            "name": ["k", "early"],
            "grid_x": [2, 1],
            "grid_y": [1, 1],
            "grid_z": [1, 1],
            "block_x": [128, 1],
            "block_y": [1, 1],
            "block_z": [1, 1],
            "registers_per_thread": [32, 0],
            "static_shared_bytes": [1500, 0],
            "dynamic_shared_bytes": [0, 0],
            "green_context_id": [3, None],
        },
        **memory(),
        device={"gpu_index": [1], "name": ["NVIDIA H200"]},
        process={"pid": [4242]},
    )


def test_device_work_in_order() -> None:
    rows = table(device_work(), "cuda_gpu_trace").rows()
    h200, end = "NVIDIA H200 (1)", 4242
    none = (None,) * 9
    copy = "[CUDA memcpy Host-to-Device]"
    assert rows == [
        (-7, 3, None, 1, 1, 1, 1, 1, 1, 0, 0, 0, *(None,) * 4, h200, 1, None, 7, "early", end),
        # At the same start, kernels come first, then copies, then memsets.
        (5, 4, 11, 2, 1, 1, 128, 1, 1, 32, 1500, 0, *(None,) * 4, h200, 1, 3, 7, "k", end),
        (5, 4, None, *none, 4_000_000, 1e15, "Pageable", "Device", h200, 1, None, 7, copy, end),
        (5, 5, None, *none, 1500, 3e11, "Device", None, h200, 1, None, 7, "[CUDA memset]", end),
        # 166,666,666 copies of 6 ns fit into a second; nsys multiplies by this number.
        (
            20,
            6,
            None,
            *none,
            500,
            83_333_333_000.0,
            "Pinned",
            "Device",
            h200,
            1,
            None,
            7,
            copy,
            end,
        ),
        # No throughput for zero duration; unknown kinds are listed.
        (
            30,
            0,
            None,
            *none,
            7,
            None,
            None,
            "Device",
            h200,
            1,
            None,
            7,
            "[CUDA memcpy kind 99]",
            end,
        ),
    ]


def test_memory_of_an_unknown_kind_is_empty() -> None:
    rows: Columns = {"start_ns": [1], "end_ns": [2], "bytes": [1], "kind": [1]}
    trace = trace_of(
        memcpy={**rows, "src_memory": [0], "dst_memory": [42]},
        memset={"start_ns": [3], "end_ns": [4], "bytes": [1], "memory": [None]},
    )
    result = table(trace, "cuda_gpu_trace")
    assert columns(result, "src_memory", "dst_memory") == [("Pageable", None), (None, None)]


def test_throughput_of_long_copies() -> None:
    copies = {
        "start_ns": [0, 0, 0],
        "end_ns": [2_000_000_000, 600_000_000, 20_000_000],
        "bytes": [3 * 10**9, 3 * 10**9, 10**9],
        "kind": [8, 8, 8],
    }
    result = table(trace_of(memcpy=copies), "cuda_gpu_trace")
    found = columns(result, "duration_ns", "throughput_bytes_per_s")
    # nsys prints 0 MB/s for the first and 3000 MB/s for the second.
    assert found == [(20_000_000, 5e10), (600_000_000, pytest.approx(5e9)), (2_000_000_000, 1.5e9)]


def test_operating_system_calls_keep_their_names() -> None:
    rows: Columns = {"start_ns": [0, 0], "end_ns": [5, 9], "name": ["poll_v7000", "read"]}
    result = table(trace_of(os_call=rows), "osrt_sum")
    assert columns(result, "name", "total_ns") == [("read", 9), ("poll_v7000", 5)]


def ranges() -> Trace:
    return trace_of(
        range={
            "start_ns": [0, 10, 20, 30, 40, 50],
            "end_ns": [9, 15, 25, 35, 45, 50],
            "domain": [None, "lib", None, None, None, "lib"],
            "name": ["step", "step", "lib:step", "step", None, ""],
            "style": [0, 0, 0, 1, 0, 0],
        }
    )


def test_ranges_by_name_and_style() -> None:
    assert columns(table(ranges(), "nvtx_sum"), "style", "name", "total_ns", "instances") == [
        ("PushPop", "lib:step", 10, 2),  # the text is what counts, as in nsys
        ("PushPop", "step", 9, 1),
        ("PushPop", None, 5, 1),
        ("StartEnd", "step", 5, 1),
        ("PushPop", "lib:", 0, 1),
    ]


def test_ranges_of_one_style() -> None:
    pushed = table(ranges(), "nvtx_pushpop_sum")
    assert columns(pushed, "name", "total_ns") == [
        *(("lib:step", 10), ("step", 9), (None, 5), ("lib:", 0)),
    ]
    assert columns(table(ranges(), "nvtx_startend_sum"), "time_ratio", "name") == [(1.0, "step")]
    only_pushed: Columns = {"start_ns": [0], "end_ns": [1], "name": ["x"], "style": [0]}
    outcome = api.run(trace_of(range=only_pushed), "nvtx_startend_sum")
    assert outcome == Skipped("nvtx_startend_sum", "all recorded ranges are push/pop ranges")


def test_share_of_nothing_is_missing() -> None:
    rows: Columns = {"start_ns": [5], "end_ns": [5], "name": ["x"]}
    assert table(trace_of(range=rows), "nvtx_sum").rows()[0][:2] == (None, 0)


def graphs(level: int) -> Columns:
    return {"start_ns": [0, 50], "end_ns": [40, 60], "level": [level] * 2, "node_count": [0, 0]}


def test_a_note_tells_of_graphs_recorded_as_wholes() -> None:
    whole = table(trace_of(kernel=kernels(), graph_launch=graphs(0)), "cuda_gpu_kern_sum")
    assert len(whole.notes) == 1
    assert "2 CUDA graph launches" in whole.notes[0]
    assert "50 ns" in whole.notes[0]
    by_node = table(trace_of(kernel=kernels(), graph_launch=graphs(1)), "cuda_gpu_kern_sum")
    assert by_node.notes == ()


def test_graphs_alone_are_skipped_with_the_option_that_records_kernels() -> None:
    outcome = api.run(trace_of(graph_launch=graphs(0)), "cuda_gpu_trace")
    assert isinstance(outcome, Skipped)
    assert "--cuda-graph-trace=node" in (outcome.hint or "")


def test_a_filtered_trace_is_summed_as_filtered() -> None:
    trace = trace_of(kernel=kernels()).window(35, 105)
    assert columns(table(trace, "cuda_gpu_kern_sum:base"), "name", "total_ns") == [
        *(("gemm", 60), ("add", 10)),
    ]


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("gpukernsum", "cuda_gpu_kern_sum"),
        ("gpukernsum:base", "cuda_gpu_kern_sum:base"),
        ("gpusum", "cuda_gpu_sum"),
        ("gpumemtimesum", "cuda_gpu_mem_time_sum"),
    ],
)
def test_old_names_of_nsys(alias: str, name: str) -> None:
    trace = trace_of(kernel=kernels(), **memory())
    assert table(trace, alias).rows() == table(trace, name).rows()


def test_default_tables_are_nsys_s_in_its_order() -> None:
    assert api.default_tables()[:6] == [
        *("nvtx_sum", "osrt_sum", "cuda_api_sum", "cuda_gpu_kern_sum"),
        *("cuda_gpu_mem_time_sum", "cuda_gpu_mem_size_sum"),
    ]


def test_default_tables_are_found_without_the_other_analyses() -> None:
    code = (
        "import sys; from warpline import api, plugins; found = api.default_tables();"
        "assert 'warpline.analyses.findings' not in sys.modules;"
        "plugins.load('analyses'); assert found == api.default_tables()"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_errors_name_the_table_and_its_arguments() -> None:
    with pytest.raises(UsageError, match="short") as wrong:
        table(trace_of(kernel=kernels()), "cuda_gpu_kern_sum:short")
    assert wrong.value.hint == "arguments: nvtx-name, base, mangled"
    with pytest.raises(MissingTableError, match="no kernel events were recorded"):
        table(trace_of(), "cuda_gpu_kern_sum")
