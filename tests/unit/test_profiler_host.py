"""CUPTI's own answers, where it is installed: no GPU is needed."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.counter_host import real_host

from warpline.counters import nvperf, nvperf_host, pm_sampling, profiler_host
from warpline.counters.host_process import PM_SAMPLING, HostProcess, RefusedError
from warpline.counters.plan import catalogue, plan
from warpline.counters.sets import SETS
from warpline.errors import CounterError

PCT = ".avg.pct_of_peak_sustained_elapsed"
# Passes that metrics need alone on GH100, the same with CUPTI 12.6 to 13.1.
ALONE = {
    f"sm__throughput{PCT}": 8,
    f"sm__memory_throughput{PCT}": 4,
    f"gpu__compute_memory_throughput{PCT}": 5,
    f"gpu__compute_memory_access_throughput{PCT}": 3,
    f"lts__throughput{PCT}": 4,
    "l1tex__throughput.avg.pct_of_peak_sustained_active": 5,
    f"dram__throughput{PCT}": 1,
    "lts__t_sector_hit_rate.pct": 2,
    "l1tex__t_sector_hit_rate.pct": 1,
    "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio": 2,
    "sm__ops_path_tensor_src_fp16.sum": 2,
    "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum": 1,
    "pcie__read_bytes.sum": 1,
}


@pytest.fixture(scope="module")
def host() -> Iterator[HostProcess]:
    with real_host() as process:
        yield process


def test_chips_and_their_metrics(host):
    assert {"TU102", "GA100", "GH100", "AD102"} <= {*host.chips()}
    metrics = {metric.name: metric for metric in host.metrics("GH100")}
    assert len(metrics) > 3000
    assert {metric.kind for metric in metrics.values()} == {*nvperf_host.KINDS}
    described = [metric for metric in metrics.values() if metric.description and metric.hw_unit]
    assert len(described) > 0.95 * len(metrics)
    assert metrics["dram__bytes_read"].unit == "byte"
    assert list(metrics) == sorted(metrics), "each name once, in order"
    if host.with_cupti:
        sampled = host.metrics("GH100", PM_SAMPLING)
        assert 0 < len(sampled) < len(metrics)


@pytest.mark.parametrize("name", ALONE)
def test_passes_of_one_metric(host, name):
    found = host.passes("GH100", [name])
    assert found.count == ALONE[name]
    assert found.of_metric == (tuple(range(found.count)),), "each pass is there for it"
    assert len(found.counters) == found.count


def test_the_basic_set_needs_as_many_passes_as_its_two_throughputs(host):
    throughputs = [f"sm__throughput{PCT}", f"gpu__compute_memory_throughput{PCT}"]
    assert plan(host, "GH100", words=throughputs).passes == 9
    found = plan(host, "GH100", SETS.get("basic").sections)
    assert found.passes == 9
    assert not found.left_out
    assert "LaunchStats" not in {metric.section for metric in found.metrics}, "listed before"


def test_a_breakdown_costs_no_pass(host):
    name = f"sm__throughput{PCT}"
    found = plan(host, "GH100", words=[name, f"breakdown:{name}"])
    assert len(found.metrics) > 20
    assert found.passes == ALONE[name]


@pytest.mark.parametrize(
    "chip",
    [
        "GV100",
        "TU102",
        "TU116",
        "GA100",
        "GA102",
        "GA10B",
        "AD102",
        "GH100",
        "GB100",
        "GB102",
        "GB10B",
        "GB202",
        "GB20B",
    ],
)
def test_the_light_set_is_one_pass_on_every_architecture(host, chip):
    if chip not in host.chips():
        pytest.skip(f"CUPTI {host.version} lacks it")
    found = plan(host, chip, SETS.get("light").sections)
    assert found.passes == 1
    assert all(metric.passes == (1,) for metric in found.metrics)
    bases = {metric.name.split(".")[0] for metric in found.metrics}
    assert {"gpu__time_duration", "sm__warps_active", "sm__inst_executed"} <= bases
    assert "sm__pipe_tensor_cycles_active" in bases
    if chip in {"GH100", "GB100"}:
        assert not found.left_out


def test_links_are_counted_in_a_session_of_their_own(host):
    words = ["sm__inst_executed.sum", "pcie__read_bytes.sum", "gpu__time_duration.sum"]
    sessions = plan(host, "GH100", words=words).sessions
    names = [[metric.name for metric in session.metrics] for session in sessions]
    # Before CUPTI 12.8, anything can be counted together.
    assert names in ([words], [[words[0], words[2]], [words[1]]])


def test_every_rollup_of_the_catalogue_can_be_planned(host):
    metrics = catalogue(host, "GH100")
    for base in ("sm__inst_executed", "lts__t_sector_hit_rate", "lts__throughput"):
        for name in metrics.full_names(base):
            assert host.passes("GH100", [name]).count >= 1, name


def test_an_unknown_metric_is_refused_and_the_process_goes_on(host):
    with pytest.raises(RefusedError):
        host.passes("GH100", ["sm__inst_executed.sum", "no__such_metric.sum"])
    assert host.passes("GH100", ["sm__inst_executed.sum"]).count == 1


def test_structures_are_those_of_nvidias_headers(host, tmp_path):
    folder = host.path.parent.parent / "include"
    compiler = shutil.which("c++")
    if compiler is None or not (folder / "cupti_profiler_host.h").is_file():
        pytest.skip("no headers of CUPTI, or no compiler")
    source = tmp_path / "layouts.cpp"
    (tmp_path / "cuda.h").touch()  # no structure here needs it
    headers = "".join(path.read_text(errors="replace") for path in folder.glob("*.h"))
    source.write_text(_layouts(headers))
    command = [compiler, "-std=c++20", "-fsyntax-only", "-w", f"-I{folder}"]
    command += [f"-I{tmp_path}", str(source)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:4000]


def _layouts(headers: str) -> str:
    lines = [
        '#include "cupti_profiler_host.h"',
        '#include "cupti_pmsampling.h"',
        '#include "nvperf_host.h"',
        '#include "nvperf_cuda_host.h"',
        "#include <cstddef>",
        f"static_assert(sizeof(NVPW_MetricEvalRequest) == {ctypes.sizeof(nvperf.Request)});",
        f"static_assert(sizeof(NVPW_DimUnitFactor) == {ctypes.sizeof(nvperf.DimUnit)});",
    ]
    structures: list[type[ctypes.Structure]] = [*profiler_host.FUNCTIONS, *nvperf.FUNCTIONS]
    structures += pm_sampling.FUNCTIONS
    structures += [nvperf.Request, nvperf.DimUnit, nvperf.RawRequest]
    for structure in structures:
        theirs = nvperf.name_of(structure)
        if theirs not in headers:  # since 13.1, of functions that the library still has
            assert theirs.startswith(("NVPW_RawCounter", "NVPW_CUDA_RawCounter", "NVPW_Config_"))
            continue
        for name in (field[0] for field in structure._fields_):
            place = getattr(structure, name)
            lines.append(f"static_assert(offsetof({theirs}, {name}) == {place.offset});")
            lines.append(f"static_assert(sizeof((({theirs}*)nullptr)->{name}) == {place.size});")
    kinds = ("COUNTER", "RATIO", "THROUGHPUT")
    assert tuple(kind.lower() for kind in kinds) == nvperf_host.KINDS
    for number, kind in enumerate(kinds):
        lines.append(f"static_assert(CUPTI_METRIC_TYPE_{kind} == {number});")
        lines.append(f"static_assert(NVPW_METRIC_TYPE_{kind} == {number});")
    for number, kind in enumerate(("RANGE_PROFILER", "PM_SAMPLING")):
        lines.append(f"static_assert(CUPTI_PROFILER_TYPE_{kind} == {number});")
    for name, value in (
        ("PM_SAMPLING_TRIGGER_MODE_GPU_SYSCLK_INTERVAL", pm_sampling.Trigger.CLOCKS),
        ("PM_SAMPLING_TRIGGER_MODE_GPU_TIME_INTERVAL", pm_sampling.Trigger.TIME),
        ("PM_SAMPLING_DECODE_STOP_REASON_COUNTER_DATA_FULL", pm_sampling.IMAGE_FULL),
        ("PM_SAMPLING_HARDWARE_BUFFER_APPEND_MODE_KEEP_OLDEST", pm_sampling.KEEP_OLDEST),
        ("ERROR_OUT_OF_MEMORY", pm_sampling.OUT_OF_MEMORY),
    ):
        lines.append(f"static_assert(CUPTI_{name} == {int(value)});")
    return "\n".join(lines) + "\n"


CRASHING = """
#include <stdio.h>
__attribute__((constructor)) static void loaded(void) { puts("a library may print"); fflush(0); }
int cuptiGetVersion(unsigned* version) { return VERSION; }
"""


def _library(folder: Path, version: str) -> Path:
    """Return a library that looks like CUPTI, without a profiler host that works."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no compiler: cc")
    stubs = [
        f"int {name}(void* call) {{ return 999; }}" for name in profiler_host.FUNCTIONS.values()
    ]
    source = folder / "cupti.c"
    source.write_text(CRASHING.replace("VERSION", version) + "\n".join(stubs))
    path = folder / f"lib{abs(hash(version))}.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-w", "-o", path, source], check=True)
    return path


def test_a_library_that_crashes_or_fails_is_reported_and_the_next_one_is_used(tmp_path):
    crashing = _library(tmp_path, "*(volatile int*)0")
    failing = _library(tmp_path, "(*version = 130500, 0)")
    old = tmp_path / "old.c"
    old.write_text("int NVPW_InitializeHost(void* call) { return 0; }")
    build = ["cc", "-shared", "-fPIC", "-o", tmp_path / nvperf.LIBRARY_NAME, old]
    subprocess.run(build, check=True)
    no_library = tmp_path / "libcupti.so.12"
    no_library.write_text("text")
    for path, problem in (
        (crashing, r"crashed \(signal 11\) in load"),
        (failing, r"cuptiProfilerHostGetSupportedChips failed \(999\)"),
        (no_library, "file too short|invalid ELF header"),
    ):
        with pytest.raises(CounterError, match=problem) as raised:
            HostProcess([path])
        assert str(path) in raised.value.message
        assert "pip install nvidia-cuda-cupti" in (raised.value.hint or "")
    with real_host() as found, HostProcess([crashing, failing, found.path]) as host:
        assert (host.path, host.with_cupti) == (found.path, found.with_cupti)


def test_where_cupti_needs_a_driver_nvperf_answers_alone(host, tmp_path):
    if not host.with_cupti or host.version.startswith("API"):
        pytest.skip("no CUPTI of CUDA 13 that works here")
    needs_driver = _library(tmp_path, "(*version = 0, 999)")
    real = host.path.with_name(nvperf.LIBRARY_NAME)
    (tmp_path / nvperf.LIBRARY_NAME).symlink_to(real)
    with HostProcess([needs_driver]) as alone:
        assert (alone.with_cupti, alone.version) == (False, None)
        assert alone.chips() == host.chips()
        assert alone.metrics("GH100") == host.metrics("GH100")
        assert alone.sub_metrics("GH100") == host.sub_metrics("GH100")
        sections = SETS.get("detailed").sections
        words = ("pcie__read_bytes.sum", "gpu__time_duration.sum")
        assert plan(alone, "GH100", sections, words) == plan(host, "GH100", sections, words)
        with pytest.raises(CounterError, match="no pmsampling metrics of GH100"):
            catalogue(alone, "GH100", PM_SAMPLING)


def test_without_cupti_the_error_says_how_to_get_it():
    with pytest.raises(CounterError, match="CUPTI was not found") as raised:
        HostProcess([])
    assert "pip install" in (raised.value.hint or "")


def test_a_crash_during_a_question_is_an_error():
    with real_host() as host:
        host._process.kill()
        with pytest.raises(CounterError, match=r"CUPTI crashed \(signal 9\) in passes"):
            host.passes("GH100", ["sm__inst_executed.sum"])
