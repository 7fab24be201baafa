"""Reports of Nsight Compute, real and written, read as tables."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

import pytest
from readers.conftest import rows_of
from support import ncu_captures
from support.ncu_files import block, launch, message, metric, report

import warpline
from warpline.trace import Trace

SESSION = block(session=message((11, b"ncu ./program")))


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    return warpline.open(ncu_captures.unpack("target", tmp_path_factory.mktemp("ncu")))


def written(folder: Path, metrics: Sequence[bytes], texts: Sequence[bytes]) -> Trace:
    path = folder / "any.name"
    kernel = launch(metrics=metrics)
    path.write_bytes(report(block([("kernel", kernel)], texts), SESSION))
    return warpline.open(path)


def test_launches_of_a_real_report(target: Trace) -> None:
    launches = rows_of(target, "profiled_kernel", "launch_number", "short_name_id", "grid_x")
    assert launches == [
        (0, "vec_add", 2048),
        (1, "naive_gemm", 32),
        (2, "copy_stream", 2048),
        (3, "strided_read", 16384),
        (4, "smem_conflict", 1024),
    ]
    (device,) = rows_of(target, "device", "name_id", "sm_count", "compute_major", "clock_hz")
    assert device == ("NVIDIA H200", 132, 9, 1_980_000_000)
    assert rows_of(target, "stream", "native_id") == [(13,)]


def test_facts_of_a_real_report(target: Trace) -> None:
    meta = target.meta
    assert meta.format == "ncu-rep"
    assert meta.producer == "Nsight Compute 2025.3.1.0"
    assert meta.software["CUDA"] == "13.0"
    assert not meta.warnings
    assert not meta.unread


def test_values_keep_their_type(target: Trace) -> None:
    frame = target["kernel_metric"]
    registers = frame.filter(frame["name"] == "launch__registers_per_thread")
    assert registers["integer"].to_list() == [16, 32, 16, 20, 17]
    assert registers["value"].to_list() == [16.0, 32.0, 16.0, 20.0, 17.0]
    assert registers["unit"].unique().to_list() == ["register/thread"]
    duration = frame.filter(frame["name"] == "gpu__time_duration.sum")
    assert duration["value"].to_list() == [110208.0, 339104.0, 65440.0, 75520.0, 532256.0]
    assert duration["integer"].null_count() == 5
    policy = frame.filter(frame["name"] == "launch__cluster_scheduling_policy")
    assert policy["text"].unique().to_list() == ["PolicySpread"]


def test_instances_belong_to_instructions_and_opcodes(target: Trace) -> None:
    metrics, instances = target["kernel_metric"], target["metric_instance"]
    assert metrics["instances"].sum() == len(instances)
    named = metrics.with_row_index("row").filter(
        (metrics["name"] == "inst_executed") & (metrics["profiled_kernel_id"] == 0)
    )
    of_first = instances.filter(instances["kernel_metric_id"] == named["row"][0])
    code = target["kernel_instruction"]
    assert set(of_first["key"]) <= set(code["address"])
    per_opcode = metrics.with_row_index("row").filter(
        (metrics["name"] == "sass__inst_executed_per_opcode") & (metrics["profiled_kernel_id"] == 0)
    )
    opcodes = instances.filter(instances["kernel_metric_id"] == per_opcode["row"][0])
    assert "FADD" in opcodes["key_text"].to_list()
    assert opcodes["value"].sum() == per_opcode["value"][0]


def test_samples_of_instructions_are_those_of_the_rules(tmp_path: Path) -> None:
    """A rule names the share of two instructions in all samples of stalled warps."""
    trace = warpline.open(ncu_captures.unpack("uncoalesced.fixed", tmp_path))
    metrics, instances = trace["kernel_metric"], trace["metric_instance"]
    is_stall = metrics["name"].str.contains("pcsamp_warps_issue_stalled")
    is_stall &= ~metrics["name"].str.ends_with("_not_issued")
    rows = is_stall.arg_true().to_list()
    stalls = instances.filter(instances["kernel_metric_id"].is_in(rows))
    addresses, samples = stalls["key"].to_numpy(), stalls["value"].to_numpy()
    named = (140343147942432, 140343147942480)
    shares = [samples[addresses == address].sum() / samples.sum() for address in named]
    assert [f"{share:.1%}" for share in shares] == ["28.4%", "21.7%"]


def test_instructions_have_source_lines(target: Trace) -> None:
    code = target["kernel_instruction"].filter(
        target["kernel_instruction"]["function"].str.contains("vec_add")
    )
    assert code["offset_bytes"].to_list() == [16 * i for i in range(len(code))]
    assert code["file"].str.ends_with("kernels.cuh").all()
    assert code["encoding"].str.len_chars().unique().to_list() == [32]


def test_imported_source_and_ptx(tmp_path: Path) -> None:
    lines = warpline.open(ncu_captures.unpack("uncoalesced.fixed", tmp_path))["source_line"]
    cuda = lines.filter(lines["kind"] == "source")
    assert cuda["file"].unique().to_list() == ["/home/dev/kernels/ab/kpairs.cu"]
    assert "rowsum_warp" in cuda.filter(cuda["line"] == 18)["text"][0]
    ptx = lines.filter(lines["kind"] == "ptx")
    assert ".version 9.0" in ptx["text"].to_list()


def test_rules_are_plain_text(target: Trace) -> None:
    rules = rows_of(target, "kernel_rule", "rule_id", "kind", "speedup_kind", "speedup_percent")
    assert rules[0] == ("SOLBottleneck", "optimization", None, None)
    rule, kind, of, percent = rules[2]
    assert (rule, kind, of) == ("HighPipeUtilization", "optimization", "local")
    assert percent == pytest.approx(81.45, abs=0.005)
    assert not any("@" in text for (text,) in rows_of(target, "kernel_rule", "text_id"))


def test_kinds_of_values(tmp_path: Path) -> None:
    values = [
        message((5, 1 << 40)),
        message((5, (1 << 64) - 1)),
        message((4, 7)),
        message((3, 0.5)),
        b"\x15" + struct.pack("<f", 0.25),
        message((1, b"all")),
        b"",
        None,
    ]
    metrics = [metric(i, value) for i, value in enumerate(values)]
    trace = written(tmp_path, metrics, [b"m%d" % i for i in range(len(values))])
    assert rows_of(trace, "kernel_metric", "value", "integer", "text_id") == [
        (float(1 << 40), 1 << 40, None),
        (float(1 << 64), None, "18446744073709551615"),
        (7.0, 7, None),
        (0.5, None, None),
        (0.25, None, None),
        (None, None, "all"),
        (None, None, None),
        (None, None, None),
    ]


def test_kinds_of_instances(tmp_path: Path) -> None:
    def instance(key: bytes | None, value: bytes) -> bytes:
        return message(*([] if key is None else [(1, key)]), (2, value))

    instances = [
        instance(message((5, 0)), message((3, 1.5))),
        instance(message((5, (1 << 63) - 1)), message((5, 300))),
        instance(message((5, 1 << 63)), message((5, 1 << 63))),
        instance(message((4, 128)), message((3, -2.0))),
        instance(message((1, b"FADD")), message((3, 4.0))),
        instance(message((3, 0.5)), message((1, b"text"))),
        instance(None, message((5, 9))),
        instance(b"", message((5, 9))),
        instance(message((5, 1)), b""),
    ]
    trace = written(tmp_path, [metric(0, None, instances)], [b"m"])
    assert rows_of(trace, "kernel_metric", "instances") == [(9,)]
    columns = ("key", "key_text_id", "value", "integer", "text_id")
    assert rows_of(trace, "metric_instance", *columns) == [
        (0, None, 1.5, None, None),
        ((1 << 63) - 1, None, 300.0, 300, None),
        (None, "9223372036854775808", 2.0**63, None, "9223372036854775808"),
        (128, None, -2.0, None, None),
        (None, "FADD", 4.0, None, None),
        (None, "0.5", None, None, "text"),
        (None, None, 9.0, 9, None),
        (None, None, 9.0, 9, None),
        (1, None, None, None, None),
    ]


def test_sections_show_the_metrics_of_the_gpu(tmp_path: Path) -> None:
    def chips(low: int, high: int) -> bytes:
        return message((1, low), (2, high))

    lines = [
        message((1, b"b"), (2, b"always")),
        message((1, b"c"), (2, b"newer"), (6, chips(100, 120))),
        message((1, b"d"), (2, b"range"), (6, message((3, chips(75, 75)), (3, chips(90, 90))))),
        message((1, b"e"), (2, b"replaced"), (7, message((1, b"a"), (3, chips(90, 90))))),
        message((1, b"f"), (2, b"of ranges only"), (6, message((4, message((1, 2)))))),
    ]
    section = message((1, b"ID"), (2, b"Title"), (3, 5), (4, message(*((2, x) for x in lines))))
    names = [
        b"device__attribute_compute_capability_major",
        b"device__attribute_compute_capability_minor",
        b"a",
    ]
    metrics = [metric(0, message((5, 9))), metric(1, message((5, 0))), metric(2, message((3, 1.0)))]
    path = tmp_path / "run"
    kernel = launch((17, section), metrics=metrics)
    path.write_bytes(report(block([("kernel", kernel)], names), SESSION))
    rows = rows_of(warpline.open(path), "section_metric", "label_id", "name_id", "kernel_metric_id")
    assert rows == [("replaced", "a", 2), ("always", "b", None), ("range", "d", None)]


def test_open_ranges_of_the_launching_thread(tmp_path: Path) -> None:
    def opened(*names: bytes) -> list[tuple[int, bytes]]:
        return [(3, message((1, name))) for name in names]

    state = message(
        (1, message((1, 0), (2, b"<default domain>"))),
        (1, message((1, 3), (2, b"model"))),
        (2, message((1, 8), (2, message((1, 0), *opened(b"other thread"))))),
        (2, message((1, 7), (2, message((1, 0), *opened(b"step", b"forward"))))),
        (2, message((1, 7), (2, message((1, 3), *opened(b"layer"))), (2, message((1, 0))))),
    )
    path = tmp_path / "run"
    kernels = [("kernel", launch((1, 7), (21, state))), ("kernel", launch((1, 9), (21, state)))]
    path.write_bytes(report(block(kernels), SESSION))
    rows = rows_of(warpline.open(path), "profiled_kernel", "nvtx_id")
    assert rows == [("step/forward; layer@model",), (None,)]


@pytest.mark.parametrize(("value", "expected"), [(0, False), (1, True), (2, None)])
def test_whether_clocks_were_locked(value: int, expected: bool | None, tmp_path: Path) -> None:
    path = tmp_path / "run"
    kernel = launch((25, message((1, value))))
    path.write_bytes(report(block([("kernel", kernel)]), SESSION))
    assert rows_of(warpline.open(path), "profiled_kernel", "has_fixed_clocks") == [(expected,)]


FORMER_PAGE = """\
==PROF== Connected to process 20798
"ID","Process ID","Process Name","Host Name","Kernel Name","Kernel Time","Context","Stream",\
"Section Name","Metric Name","Metric Unit","Metric Value"
"0","20798","app","127.0.0.1","void ns::work<int, 4>(float *)","2024-Nov-13 18:14:36","1","7",\
"Command line profiler metrics","gpu__time_duration.sum","usecond","152.19"
"0","20798","app","127.0.0.1","void ns::work<int, 4>(float *)","2024-Nov-13 18:14:36","1","7",\
"GPU Speed Of Light","SM Frequency","cycle/nsecond","1.5"
"0","20798","app","127.0.0.1","void ns::work<int, 4>(float *)","2024-Nov-13 18:14:36","1","7",\
"GPU Speed Of Light","Memory Throughput","Gbyte/second","2"
"""


def test_a_page_of_a_former_version(tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    path.write_text(FORMER_PAGE.replace("\\\n", ""))
    trace = warpline.open(path)
    assert rows_of(trace, "profiled_kernel", "short_name_id") == [("work",)]
    assert rows_of(trace, "kernel_metric", "name_id", "unit_id", "value") == [
        ("gpu__time_duration.sum", "ns", 152190.0),
        ("GPU Speed Of Light: SM Frequency", "hz", 1.5e9),
        ("GPU Speed Of Light: Memory Throughput", "byte/s", 2e9),
    ]


def test_what_is_not_read_is_said(tmp_path: Path) -> None:
    path = tmp_path / "run"
    entries = [("kernel", launch()), ("range", b""), ("graph", b"")]
    path.write_bytes(report(block(entries), version=9))
    meta = warpline.open(path).meta
    assert meta.unread == {"range results": 1, "graph results": 1}
    assert any("format version 9" in warning for warning in meta.warnings)
    assert any("no command line" in warning for warning in meta.warnings)


def test_reports_merge(tmp_path: Path) -> None:
    names = ncu_captures.NAMES
    trace = warpline.open([ncu_captures.unpack(name, tmp_path) for name in names])
    assert trace.row_count("profiled_kernel") == 6
    kernels = warpline.stats(trace, "profiled_kernels").to_polars()
    assert sorted(kernels["kernel"].str.split("(").list.first()) == [
        "copy_stream",
        "naive_gemm",
        "rowsum_warp",
        "smem_conflict",
        "strided_read",
        "vec_add",
    ]


def test_a_report_is_not_merged_with_its_copy(tmp_path: Path) -> None:
    first = ncu_captures.unpack("target", tmp_path)
    copy = tmp_path / "copy"
    copy.write_bytes(first.read_bytes())
    with pytest.raises(warpline.UsageError, match="same run"):
        warpline.open(first, copy)
    other = tmp_path / "other"
    texts = [b"m"]
    for path, value in ((copy, 1.0), (other, 2.0)):
        kernel = launch(metrics=[metric(0, message((3, value)))])
        path.write_bytes(report(block([("kernel", kernel)], texts), SESSION))
    assert warpline.open(copy, other).row_count("profiled_kernel") == 2


def test_filters_keep_the_metrics_of_kept_launches(target: Trace) -> None:
    assert target.select(device=[0]).row_count("kernel_metric") == target.row_count("kernel_metric")
    assert target.select(device=[]).row_count("profiled_kernel") == 0
    assert target.select(device=[]).row_count("metric_instance") == 0


UNITS = {
    "gpu__time_duration.sum": "ns",
    "dram__bytes.sum.per_second": "byte/s",
    "dram__bytes.sum.peak_sustained": "byte/cycle",
    "dram__cycles_elapsed.avg.per_second": "hz",
    "sm__throughput.avg.pct_of_peak_sustained_elapsed": "%",
    "sm__inst_executed.avg.per_cycle_active": "inst/cycle",
    "smsp__warps_active.avg.per_cycle_active": "warp",
    "smsp__warps_active.sum": "",
    "lts__t_sectors.sum.per_second": "sector/s",
    "lts__t_requests.sum": "request",
    "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum": "",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum": "",
    "smsp__average_warps_issue_stalled_wait_per_issue_active.ratio": "inst",
    "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.ratio": "byte/sector",
    "TPC.TriageCompute.sm__cycles_active.avg": "cycle",
    "launch__shared_mem_per_block_static": "byte/block",
    "launch__occupancy_limit_warps": "block",
    "device__attribute_clock_rate": "",
    "smsp__pcsamp_warps_issue_stalled_wait": "warp",
    "derived__memory_l2_theoretical_sectors_global_excessive": "sector",
    "an unknown metric": "",
    "A" * 100_000: "",
}


@pytest.mark.parametrize(("name", "unit"), UNITS.items(), ids=lambda text: text[:40])
def test_units_follow_from_names(name: str, unit: str, tmp_path: Path) -> None:
    trace = written(tmp_path, [metric(0, message((3, 1.0)))], [name.encode()])
    assert rows_of(trace, "kernel_metric", "unit_id") == [(unit or None,)]
