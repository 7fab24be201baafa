"""Benchmarks: the arithmetic of times on a GPU and a CPU with clocks of our own, and backends."""

from __future__ import annotations

import ctypes
import importlib
import json
import sys
from ctypes import c_void_p
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest

from warpline.bench import ceilings, gemms, libraries, operands, worker
from warpline.bench.backends import DTYPES, KINDS
from warpline.bench.driver import SIGNATURES, Driver
from warpline.bench.refusals import OutOfMemoryError, RefusedError
from warpline.bench.sm_clock import mean_clock_hz
from warpline.bench.timing import Batches, Timer
from warpline.errors import InputError, UnsupportedVersionError
from warpline.hardware.measured import measured_ceilings

H100 = {"name": "NVIDIA H100 80GB HBM3", "l2_bytes": 50 * 2**20}


class Machine:
    """A CPU that queues work on a GPU: both have a clock, which only calls advance."""

    def __init__(self, call_cpu_ns: int, call_gpu_ns: int, memset_ns: int = 100_000) -> None:
        self.cpu_ns = self.gpu_ns = 0
        self.call_cpu_ns, self.call_gpu_ns, self.memset_ns = call_cpu_ns, call_gpu_ns, memset_ns
        self.calls = self.memsets = 0
        self.largest = 1 << 30
        self.times: dict[int, int] = {}
        self.timer = Timer(self, c_void_p(7), lambda: self.cpu_ns)  # type: ignore[arg-type]

    def work(self) -> None:
        self.calls += 1
        self.cpu_ns += self.call_cpu_ns
        self.gpu_ns = max(self.gpu_ns, self.cpu_ns) + self.call_gpu_ns

    def event(self) -> c_void_p:
        return c_void_p(1)

    def allocate(self, size: int) -> int:
        if size > self.largest:
            raise OutOfMemoryError
        return 1 << 20

    def call(self, name: str, *arguments: Any) -> None:
        if name == "cuEventRecord":
            self.times[id(arguments[0])] = max(self.gpu_ns, self.cpu_ns)
        elif name == "cuMemsetD8Async":
            self.memsets += 1
            self.gpu_ns = max(self.gpu_ns, self.cpu_ns) + self.memset_ns
        elif name == "cuStreamSynchronize":
            self.cpu_ns = max(self.gpu_ns, self.cpu_ns)

    def has_happened(self, event: c_void_p) -> bool:
        return self.times[id(event)] <= self.cpu_ns

    def elapsed_ns(self, begin: c_void_p, end: c_void_p) -> float:
        return self.times[id(end)] - self.times[id(begin)]


def test_a_summary_has_the_median_and_the_middle_half() -> None:
    found = Batches.of([10.0, 30.0, 20.0, 50.0, 40.0], 7)
    assert found[:4] == (30.0, (40 - 20) / 30, 5, 7)
    assert found.columns() == {"spread_ratio": 2 / 3, "batches": 5, "batch_calls": 7}


def test_short_calls_are_measured_in_batches_of_5_ms() -> None:
    machine = Machine(call_cpu_ns=1_000, call_gpu_ns=10_000)
    found = machine.timer.batches(machine.work)
    assert found.call_ns == pytest.approx(10_000, rel=1e-2)
    assert found.calls == pytest.approx(500, abs=5)
    assert found.batches * found.calls * found.call_ns >= 50e6


def test_the_clock_is_measured_around_each_batch() -> None:
    machine = Machine(call_cpu_ns=1_000, call_gpu_ns=10_000)
    calls: list[tuple[str, int]] = []

    class Clock:
        def begin(self) -> None:
            calls.append(("begin", machine.calls))

        def end(self) -> None:
            calls.append(("end", machine.calls))

        def hz(self) -> float | None:
            return [None, 1.5e9, 1.7e9][len(calls) // 2 % 3]

    found = Timer(
        machine, c_void_p(7), lambda: machine.cpu_ns, Clock()  # type: ignore[arg-type]
    ).batches(machine.work)  # fmt: skip
    assert len(calls) == 2 * found.batches
    for (first, before), (second, after) in zip(calls[::2], calls[1::2], strict=True):
        assert (first, second, after - before) == ("begin", "end", found.calls)
    assert found.sm_clock_hz == pytest.approx(1.6e9, abs=1e8)


def test_the_clock_is_that_of_the_sms_with_both_stamps() -> None:
    before = [1_000, 50, 2_000, 7_000, 0, 0, 500, 90]
    after = [2_000, 1_750, 3_000, 8_500, 3_000, 9_000, 500, 95]
    assert mean_clock_hz(before, after) == pytest.approx(1.6e9)  # of 1.7 and 1.5 GHz
    assert mean_clock_hz(before, [0] * 8) is None


def test_launches_limit_the_rate_of_shorter_kernels() -> None:
    machine = Machine(call_cpu_ns=10_000, call_gpu_ns=2_000)
    assert machine.timer.batches(machine.work).call_ns == pytest.approx(10_000, rel=1e-2)


def test_long_calls_are_measured_five_times() -> None:
    machine = Machine(call_cpu_ns=10_000, call_gpu_ns=200_000_000)
    found = machine.timer.batches(machine.work)
    assert (found.batches, found.calls) == (5, 1)
    assert machine.calls == 3 + 1 + 5


@pytest.mark.parametrize(("cpu_ns", "gpu_ns"), [(10_000, 200), (5_000, 2_000), (1_000, 900_000)])
def test_queued_calls_have_a_time_on_each_side(cpu_ns: int, gpu_ns: int) -> None:
    machine = Machine(cpu_ns, gpu_ns)
    found = machine.timer.queued(machine.work, max(cpu_ns, gpu_ns))
    assert found is not None
    assert tuple(found) == pytest.approx((gpu_ns, cpu_ns))


def test_a_gpu_that_cannot_be_kept_busy_has_no_time_of_its_own() -> None:
    machine = Machine(call_cpu_ns=1_000_000, call_gpu_ns=1_000, memset_ns=1_000)
    assert machine.timer.queued(machine.work, 1_000_000) is None
    assert machine.memsets <= 1 + 10 + 2 * 300


def test_memory_to_keep_the_gpu_busy_is_as_much_as_there_is() -> None:
    machine = Machine(10_000, 200)
    machine.largest = 1 << 23
    assert machine.timer.queued(machine.work, 10_000) is not None
    machine = Machine(10_000, 200)
    machine.largest = 1 << 10
    assert machine.timer.queued(machine.work, 10_000) is None


def test_launches_are_timed_on_both_sides() -> None:
    machine = Machine(call_cpu_ns=3_000, call_gpu_ns=500)
    cpu, gpu = machine.timer.launches(machine.work, 500)
    assert cpu.call_ns == pytest.approx(3_000)
    assert gpu.call_ns == pytest.approx(3_000, rel=1e-2)


def test_calls_that_wait_are_timed_on_the_cpu() -> None:
    machine = Machine(call_cpu_ns=3_000, call_gpu_ns=500)

    def and_wait() -> None:
        machine.work()
        machine.timer.synchronize()

    assert machine.timer.cpu_calls(and_wait, 50).call_ns == pytest.approx(3_500)


def gemm_row(m: int, gpu_us: float | None, launch_us: float | None, **more: Any) -> dict[str, Any]:
    times = {
        "gpu_ns": None if gpu_us is None else gpu_us * 1e3,
        "launch_ns": None if launch_us is None else launch_us * 1e3,
    }
    return {"dtype": "bf16", "m": m, "n": m, "k": m, "flop_per_s": 1e12, **times, **more}


def test_idle_time_is_what_a_launch_takes_longer() -> None:
    rows = [gemm_row(32, 0.2, 10), gemm_row(256, 8, 10), gemm_row(4096, 200, 10)]
    made = ceilings.complete("gemm", rows, H100)
    assert [row["idle_ratio"] for row in made] == [0.98, pytest.approx(0.2), 0.0]
    assert [row["share_of_peak"] for row in made] == [pytest.approx(1e12 / 989.4e12, rel=1e-3)] * 3
    assert ceilings.notes("gemm", made)[0] == (
        "BF16: launch-bound up to 256: a launch takes 10.0 us and the GEMM 8.00 us, so the GPU is"
        " idle 20.0%."
    )


def test_no_size_is_launch_bound() -> None:
    made = ceilings.complete("gemm", [gemm_row(4096, 200, 10), gemm_row(8, None, None)], H100)
    assert ceilings.notes("gemm", made)[0] == "BF16: none of these sizes is launch-bound."


def test_an_unknown_gpu_has_no_shares() -> None:
    unknown = {"name": "Another GPU", "l2_bytes": 2**20}
    assert ceilings.complete("gemm", [gemm_row(8, 1, 2)], unknown)[0]["share_of_peak"] is None
    copies = [{"kind": kind, "bytes": 2**30, "bytes_per_s": 1e9} for kind in KINDS]
    made = ceilings.complete("copy", copies, unknown)
    assert [row["share_of_peak"] for row in made] == [None] * 6
    assert [row["limit"] for row in made] == ["PCIe"] * 4 + ["DRAM", "PCIe"]


def test_copies_without_direct_access_go_through_pcie() -> None:
    copy = {"kind": "p2p", "bytes": 2**20, "bytes_per_s": 32e9, "peer": 1}
    direct, indirect = ceilings.complete(
        "copy", [{**copy, "is_direct": True}, {**copy, "is_direct": False}], H100
    )
    assert (direct["limit"], indirect["limit"]) == ("NVLink", "PCIe")


def test_a_gemm_has_two_operations_per_element_and_inner_element() -> None:
    assert gemms.flop({"m": 2, "n": 3, "k": 5}) == 60
    points = gemms.points([(8, 8, 8), (1, 2, 3)], ["bf16", "fp8"])
    assert points[1] == {"dtype": "bf16", "m": 1, "n": 2, "k": 3}
    assert len(points) == 4


def test_pieces_cover_a_matrix() -> None:
    numbers = operands.numbers("fp32")
    assert abs(float(numbers.mean())) < 0.01
    assert float(numbers.std()) == pytest.approx(1, abs=0.01)
    pieces = list(operands.pieces(3_000_000))
    assert pieces == [(0, 1_048_573), (1_048_573, 1_048_573), (2_097_146, 902_854)]
    bits = operands.numbers("bf16")[0]
    value = ctypes.c_float.from_buffer(ctypes.c_uint32(int(bits) << 16)).value
    assert value == pytest.approx(float(numbers[0]), rel=1e-2)


def test_fp8_numbers_are_finite() -> None:
    bits = operands.numbers("fp8")
    exponents = bits >> 3 & 15
    assert (int(exponents.min()), int(exponents.max())) == (4, 8)
    assert len(set(bits.tolist())) == 2 * 5 * 8
    operands.check_fp8_shape((16, 32, 48))
    with pytest.raises(RefusedError, match="FP8 requires multiples of 16"):
        operands.check_fp8_shape((16, 32, 8))


def test_an_old_driver_is_named() -> None:
    library = MagicMock(spec=["cuInit"])
    library.cuInit.return_value = 0
    with pytest.raises(RefusedError, match="too old: it has no cuDeviceGetCount"):
        Driver(0, library)


def test_every_function_of_the_driver_has_a_signature() -> None:
    source = Path(sys.modules[Driver.__module__].__file__ or "").parent
    text = "".join(path.read_text("utf-8") for path in source.rglob("*.py"))
    assert all(text.count(f'"{name}"') >= 2 for name in SIGNATURES), "declared and used"


def test_cublas_of_a_newer_cuda_is_not_loaded(tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "lib64").mkdir()
    for version in (12, 13):
        (tmp_path / "lib64" / f"libcublas.so.{version}").touch()
    tried: list[str] = []

    def load(path: str, mode: int = 0) -> Any:
        tried.append(path)
        raise OSError(f"{path}: file too short")

    monkeypatch.setattr(ctypes, "CDLL", load)
    monkeypatch.setattr(sys, "path", [])
    with pytest.raises(RefusedError, match=r"cuBLAS cannot be loaded: .*; pip install nvidia"):
        libraries.load_cublas("libcublas", {"CUDA_HOME": str(tmp_path)}, newest=12)
    assert tried[0] == str(tmp_path / "lib64" / "libcublas.so.12")
    assert not any("so.13" in path for path in tried)
    assert "libcublas.so.12" in tried  # by the system's search


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> MagicMock:
    stand_in = MagicMock(__version__="1.2")
    stand_in.cuda.Stream.return_value.cuda_stream = 77
    monkeypatch.setitem(sys.modules, "torch", stand_in)
    monkeypatch.delitem(sys.modules, "warpline.bench.backends.with_torch", raising=False)
    return stand_in


@pytest.fixture
def cupy(monkeypatch: pytest.MonkeyPatch) -> MagicMock:
    stand_in = MagicMock(__version__="1.2")
    stand_in.cuda.Stream.return_value.ptr = 78
    stand_in.cuda.runtime.runtimeGetVersion.return_value = 12090
    monkeypatch.setitem(sys.modules, "cupy", stand_in)
    monkeypatch.delitem(sys.modules, "warpline.bench.backends.with_cupy", raising=False)
    return stand_in


def loaded(name: str, index: int = 1) -> Any:
    module = importlib.import_module(f"warpline.bench.backends.with_{name}")
    return module.Loaded(MagicMock(index=index))


def test_torch_multiplies_in_the_type_that_is_asked_for(torch: MagicMock) -> None:
    backend = loaded("torch")
    assert backend.stream.value == 77
    torch.cuda.set_device.assert_called_once_with(1)
    for dtype, precision in (("tf32", "high"), ("fp32", "highest"), ("bf16", "highest")):
        torch.reset_mock()
        backend.gemm((4, 6, 8), dtype)()
        torch.set_float32_matmul_precision.assert_called_once_with(precision)
        kind = torch.bfloat16 if dtype == "bf16" else torch.float32
        shapes = [call.args for call in torch.randn.call_args_list]
        assert shapes == [(4, 8), (8, 6)]
        assert all(call.kwargs["dtype"] is kind for call in torch.randn.call_args_list)
        torch.mm.assert_called_once()


def test_torch_multiplies_fp8_of_multiples_of_16(torch: MagicMock) -> None:
    backend = loaded("torch")
    backend.gemm((16, 32, 48), "fp8")()
    torch._scaled_mm.assert_called_once()
    assert torch._scaled_mm.call_args.kwargs["out_dtype"] is torch.bfloat16
    with pytest.raises(RefusedError, match="FP8 requires multiples of 16"):
        backend.gemm((16, 8, 16), "fp8")
    del torch._scaled_mm
    with pytest.raises(RefusedError, match="has no FP8 GEMM"):
        backend.gemm((16, 16, 16), "fp8")


@pytest.mark.parametrize("kind", KINDS)
def test_torch_copies(torch: MagicMock, kind: str) -> None:
    loaded("torch").copy(kind, 1024, 3)()
    made = [call.kwargs for call in torch.ones.call_args_list]
    assert all(call.args == (1024,) for call in torch.ones.call_args_list)
    pinned = [places["pin_memory"] for places in made if "pin_memory" in places]
    devices = [places["device"] for places in made if "device" in places]
    assert pinned == ([] if kind in {"d2d", "p2p"} else [kind.endswith("pinned")])
    assert devices == (["cuda", "cuda:3"] if kind == "p2p" else ["cuda"] * (2 - len(pinned)))
    torch.ones.return_value.copy_.assert_called_once_with(
        torch.ones.return_value, non_blocking=True
    )


def test_a_torch_without_cuda_is_refused(torch: MagicMock) -> None:
    torch.cuda.is_available.return_value = False
    with pytest.raises(RefusedError, match="this PyTorch has no CUDA"):
        loaded("torch")


def test_cupy_multiplies_in_the_type_that_is_asked_for(cupy: MagicMock) -> None:
    cupy.empty.side_effect = lambda *_: MagicMock(__len__=lambda _: 64)
    backend = loaded("cupy")
    assert (backend.stream.value, backend.versions["cuda"]) == (78, "12.9")
    algebra = cupy._core._routines_linalg
    for dtype in DTYPES:
        algebra.reset_mock()
        if dtype in {"bf16", "fp8"}:
            with pytest.raises(RefusedError, match=f"CuPy has no GEMM of {dtype.upper()}"):
                backend.gemm((8, 8, 8), dtype)
            continue
        backend.gemm((8, 8, 8), dtype)()
        kinds = [call.args[1] for call in algebra.set_compute_type.call_args_list]
        tf32, default = algebra.COMPUTE_TYPE_TF32, algebra.COMPUTE_TYPE_DEFAULT
        assert kinds == {"tf32": [tf32], "fp32": [default]}.get(dtype, [])


@pytest.mark.parametrize("kind", KINDS)
def test_cupy_copies(cupy: MagicMock, kind: str) -> None:
    runtime = cupy.cuda.runtime
    loaded("cupy").copy(kind, 1024, 3)()
    here = cupy.ones.return_value.data.ptr
    if kind == "p2p":
        runtime.memcpyPeerAsync.assert_called_once_with(here, 3, here, 1, 1024, 78)
        return
    runtime.memcpyAsync.assert_called_once()
    to, from_, size, direction, stream = runtime.memcpyAsync.call_args.args
    assert (size, stream) == (1024, 78)
    if kind.startswith("h2d"):
        assert (to, direction) == (here, runtime.memcpyHostToDevice)
    elif kind.startswith("d2h"):
        assert (from_, direction) == (here, runtime.memcpyDeviceToHost)
    else:
        assert direction == runtime.memcpyDeviceToDevice
    assert cupy.cuda.alloc_pinned_memory.called == kind.endswith("pinned")


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("{", InputError, "not JSON"),
        ("[]", InputError, "not a file of warpline bench"),
        ('{"benchmark": "gemm", "schema_version": 2}', UnsupportedVersionError, "version 2"),
        ('{"benchmark": "gemm", "schema_version": 1}', InputError, "not a file of warpline bench"),
        (None, InputError, "cannot read"),
    ],
)
def test_other_files_are_not_ceilings(
    tmp_path: Path, text: str | None, error: type[Exception], message: str
) -> None:
    path = tmp_path / "x.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(error, match=message):
        measured_ceilings(path)


def test_the_best_of_several_files_counts_for_each_gpu(tmp_path: Path) -> None:
    def save(uuid: str, benchmark: str, rows: list[dict[str, Any]]) -> Path:
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}.json"
        facts = {"schema_version": 1, "benchmark": benchmark, "rows": rows}
        path.write_text(json.dumps({**facts, "gpu": {"name": "G", "uuid": uuid}}))
        return path

    paths = [
        save("GPU-1", "gemm", [{"dtype": "bf16", "flop_per_s": 5.0}]),
        save("GPU-2", "gemm", [{"dtype": "fp8", "flop_per_s": None}]),
        save("GPU-1", "gemm", [{"dtype": "bf16", "flop_per_s": 7.0}]),
        save("GPU-1", "launch", [{"mode": "call", "launch_ns": x} for x in (3.0, 2.0, None)]),
    ]
    first, second = measured_ceilings(*paths)
    assert (first.gpu_uuid, first.flop_per_s, first.launch_ns) == (
        "GPU-1",
        {"bf16": 7.0},
        {"call": 2.0},
    )
    assert (second.gpu_uuid, second.flop_per_s) == ("GPU-2", {})
    assert first.flop_per_cycle == {}, "files of older versions have no clock"


def test_the_most_flop_per_cycle_may_be_of_another_gemm_than_the_fastest(tmp_path: Path) -> None:
    rows = [
        {"dtype": "bf16", "flop_per_s": 600e12, "sm_clock_hz": 1.2e9},
        {"dtype": "bf16", "flop_per_s": 700e12, "sm_clock_hz": 1.75e9},
        {"dtype": "bf16", "flop_per_s": 900e12, "sm_clock_hz": None},
        {"dtype": "fp8", "flop_per_s": None, "sm_clock_hz": None},
    ]
    facts = {"schema_version": 1, "benchmark": "gemm", "gpu": {"name": "G", "uuid": "GPU-1"}}
    (tmp_path / "gemm.json").write_text(json.dumps({**facts, "rows": rows}))
    (found,) = measured_ceilings(tmp_path / "gemm.json")
    assert (found.flop_per_s, found.flop_per_cycle) == ({"bf16": 900e12}, {"bf16": 500_000.0})


OF_TORCH = type("OutOfMemoryError", (RuntimeError,), {})


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (RefusedError("FP8 requires multiples of 16"), "FP8 requires multiples of 16"),
        (OutOfMemoryError(), "out of memory"),
        (OF_TORCH("CUDA out of memory. Tried to allocate 9 GiB."), "out of memory"),
        (np.exceptions.DTypePromotionError("first line\nsecond"), "first line"),
        (MemoryError(), "out of memory"),
        (ModuleNotFoundError("No module named 'cupy'", name="cupy"), "cupy is not installed"),
        (RuntimeError(), "RuntimeError"),
        (RuntimeError("x" * 500), "x" * 200),
    ],
)
def test_errors_of_libraries_become_reasons(error: Exception, reason: str) -> None:
    assert worker.reason_of(error) == reason
