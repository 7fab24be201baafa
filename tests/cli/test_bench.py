"""`warpline bench` on GPUs that only check and count: see support/fake_cuda.c for their rates."""

from __future__ import annotations

import csv
import importlib.util
import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support import fake_gpus
from support.json_schema import violations

from warpline.cli import main
from warpline.hardware import peaks_of
from warpline.hardware.measured import measured_ceilings, saved_files

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the fake driver is an ELF library")

Bench = Callable[..., dict[str, Any]]


@pytest.fixture(scope="session")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fake_gpus.build(tmp_path_factory.mktemp("cuda"))


@pytest.fixture
def on_gpus(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in fake_gpus.environment(machine).items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def schema(repository: Path) -> Any:
    return json.loads((repository / "docs" / "bench.schema.json").read_text(encoding="utf-8"))


@pytest.fixture
def bench(on_gpus: None, run: Any, schema: Any) -> Bench:
    def bench(*words: str, status: int = 0) -> dict[str, Any]:
        done = run("bench", *words, "--json")
        assert (done.status, done.err) == (status, "")
        facts: dict[str, Any] = json.loads(done.out)
        assert violations(facts, schema) == []
        return facts

    return bench


def test_gemms(bench: Bench) -> None:
    types = "fp64,fp32,tf32,fp16,bf16"
    facts = bench("gemm", "--backend", "ctypes", "--sizes", "64,1000x500x200", "--dtype", types)
    rows = facts["rows"]
    assert [(row["dtype"], row["m"]) for row in rows] == [
        (dtype, m) for dtype in types.split(",") for m in (64, 1000)
    ]
    assert [row["reason"] for row in rows] == [None] * 10
    small, large = rows[:2]
    # 3 us, and 1 ns for 100,000 operations; events have 24 bits.
    assert small["gpu_ns"] == pytest.approx(3005, rel=1e-4)
    assert small["flop_per_s"] == pytest.approx(2 * 64**3 / 3005e-9, rel=1e-4)
    assert large["gpu_ns"] == pytest.approx(5000, rel=1e-4)
    assert large["flop_per_s"] == pytest.approx(2e8 / 5e-6, rel=1e-4)
    assert all(row["batches"] * row["batch_calls"] * row["gpu_ns"] >= 49e6 for row in rows)
    assert all(row["spread_ratio"] < 1e-3 for row in rows)
    assert all(row["idle_ratio"] == max(0, 1 - row["gpu_ns"] / row["launch_ns"]) for row in rows)


def test_the_clock_of_gemms_is_saved(bench: Bench, tmp_path: Path) -> None:
    facts = bench("gemm", "--backend", "ctypes", "--sizes", "512", "--dtype", "bf16")
    (row,) = facts["rows"]
    assert row["sm_clock_hz"] == pytest.approx(1.5e9, rel=1e-6)
    (tmp_path / "gemm.json").write_text(json.dumps(facts))
    (found,) = measured_ceilings(tmp_path / "gemm.json")
    assert found.flop_per_cycle["bf16"] == row["flop_per_s"] / row["sm_clock_hz"]


def test_shares_are_of_the_peak_of_the_type(bench: Bench) -> None:
    facts = bench("gemm", "--backend", "ctypes", "--sizes", "512", "--dtype", "bf16,fp32,fp64")
    bf16, fp32, fp64 = facts["rows"]
    peaks = peaks_of(fake_gpus.GPU)
    assert peaks is not None
    assert peaks.half_flop_per_s is not None
    assert bf16["share_of_peak"] == pytest.approx(bf16["flop_per_s"] / peaks.half_flop_per_s)
    assert fp32["share_of_peak"] == pytest.approx(fp32["flop_per_s"] / peaks.fp32_flop_per_s)
    assert fp64["share_of_peak"] is None


def test_facts(bench: Bench) -> None:
    facts = bench("gemm", "--backend", "ctypes", "--sizes", "8", "--dtype", "fp32")
    assert facts["gpu"] == {
        "index": 0,
        "name": fake_gpus.GPU,
        "uuid": "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f",
        "compute_capability": [9, 0],
        "memory_bytes": 2**30,
        "l2_bytes": 2**20,
    }
    assert facts["driver_cuda_version"] == "13.0"
    assert facts["versions"]["cublas"] == "12.8.4"
    assert facts["backend"] == "ctypes"


def test_what_a_library_lacks_is_a_row(bench: Bench) -> None:
    facts = bench("gemm", "--backend", "ctypes", "--sizes", "8,48", "--dtype", "fp8,fp32")
    odd, unsupported, *fp32 = facts["rows"]
    assert odd["reason"] == "FP8 requires multiples of 16"
    assert unsupported["reason"] == "cuBLASLt has no FP8 GEMM for this GPU and size"
    assert (odd["flop_per_s"], odd["share_of_peak"], odd["idle_ratio"]) == (None, None, None)
    assert [row["reason"] for row in fp32] == [None, None]
    words = ("gemm", "--backend", "ctypes", "--sizes", "8", "--dtype", "fp8")
    assert bench(*words, status=1)["rows"][0]["reason"]


def test_fp8(bench: Bench) -> None:
    facts = bench("gemm", "--backend", "ctypes", "--sizes", "1600x800x320", "--dtype", "fp8")
    (row,) = facts["rows"]
    peaks = peaks_of(fake_gpus.GPU)
    assert peaks is not None
    assert peaks.fp8_flop_per_s is not None
    operations = 2 * 1600 * 800 * 320
    assert row["gpu_ns"] == pytest.approx(3000 + operations // 200_000, rel=1e-4)
    assert row["flop_per_s"] == pytest.approx(operations / row["gpu_ns"] * 1e9, rel=1e-4)
    assert row["share_of_peak"] == pytest.approx(row["flop_per_s"] / peaks.fp8_flop_per_s)
    assert facts["versions"]["cublaslt"] == "12.8.4"


def test_too_large_matrices_are_a_row(bench: Bench) -> None:
    sizes = "20000,13,64"  # 1.6 GB of the GPU's 1; cuBLAS cannot allocate for 13
    facts = bench("gemm", "--backend", "ctypes", "--sizes", sizes, "--dtype", "fp32")
    assert [row["reason"] for row in facts["rows"]] == ["out of memory", "out of memory", None]


def test_copies(bench: Bench) -> None:
    facts = bench("copy", "--sizes", "1M,4MiB")
    peaks = peaks_of(fake_gpus.GPU)
    assert peaks is not None
    assert peaks.pcie_bytes_per_s is not None
    rows = {(row["kind"], row["bytes"]): row for row in facts["rows"]}
    rates = {"h2d-pinned": 50, "h2d-pageable": 10, "d2h-pinned": 40, "d2h-pageable": 8, "d2d": 1000}
    for kind, rate in rates.items():
        for size in (2**20, 2**22):
            row = rows[kind, size]
            assert row["bytes_per_s"] == pytest.approx(rate * 1e9, rel=1e-3)
            if kind != "d2d":
                share = row["bytes_per_s"] / peaks.pcie_bytes_per_s
                assert (row["limit"], row["share_of_peak"]) == ("PCIe", pytest.approx(share))
    # The L2 cache has 1 MiB. Each byte is read and written.
    assert (rows["d2d", 2**20]["limit"], rows["d2d", 2**20]["share_of_peak"]) == ("L2", None)
    large = rows["d2d", 2**22]
    share = 2 * large["bytes_per_s"] / peaks.memory_bytes_per_s
    assert (large["limit"], large["share_of_peak"]) == ("DRAM", pytest.approx(share))
    assert rows["p2p", 2**20]["reason"] == "only one GPU is visible"


def test_copies_to_each_other_gpu(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_GPUS", "3")
    facts = bench("copy", "--sizes", "64K", "--kinds", "p2p", "--device", "1")
    peaks = peaks_of(fake_gpus.GPU)
    assert peaks is not None
    assert peaks.nvlink_bytes_per_s is not None
    assert facts["gpu"]["index"] == 1
    assert [row["peer"] for row in facts["rows"]] == [0, 2]
    for row in facts["rows"]:
        assert row["bytes_per_s"] == pytest.approx(200e9, rel=1e-2)
        share = row["bytes_per_s"] / peaks.nvlink_bytes_per_s
        assert (row["limit"], row["share_of_peak"]) == ("NVLink", pytest.approx(share))


def test_launches(bench: Bench) -> None:
    facts = bench("launch", "--graph-kernels", "1,100")
    rows = facts["rows"]
    assert [(row["mode"], row["kernels"]) for row in rows] == [
        ("call", 0),
        ("back-to-back", 1),
        ("synchronized", 1),
        ("graph", 1),
        ("graph", 100),
    ]
    assert all(row["reason"] is None and row["launch_ns"] > 0 for row in rows)
    kernel_ns = [row["kernel_ns"] for row in rows]
    assert kernel_ns == [None, pytest.approx(2000), None, pytest.approx(1000), pytest.approx(1000)]
    assert facts["kernel"] == "empty kernel"


def test_a_crash_is_a_row(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_CRASH", "cuMemcpyHtoDAsync")
    facts = bench("copy", "--sizes", "64K", "--kinds", "d2d,h2d-pinned,d2h-pinned")
    crash = "the benchmark's process crashed (signal 11)"
    assert [row["reason"] for row in facts["rows"]] == [None, crash, crash]


def test_frameworks_that_cannot_be_used_are_named(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "torch.py").write_text("class cuda: is_available = staticmethod(lambda: False)\n")
    (tmp_path / "cupy.py").write_text("raise ImportError('no libnvrtc')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    facts = bench("gemm", "--sizes", "8", "--dtype", "fp32")
    assert facts["refused"] == {"torch": "this PyTorch has no CUDA", "cupy": "no libnvrtc"}
    assert facts["backend"] == "ctypes"


def test_a_library_that_is_not_installed_is_named(on_gpus: None, run: Any) -> None:
    if importlib.util.find_spec("cupy") is not None:
        pytest.skip("CuPy is installed")
    done = run("bench", "launch", "--backend", "cupy")
    assert done.status == 1
    assert done.err == (
        "error: cannot run the benchmark: cupy: cupy is not installed\n"
        "hint: use --backend ctypes, which needs the NVIDIA driver and, for GEMMs, cuBLAS\n"
    )


def test_no_driver(run: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "libcuda.so.1").write_text("no library\n")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    done = run("bench", "gemm")
    assert done.status == 1
    assert "no NVIDIA driver was found (libcuda.so.1)" in done.err
    assert "hint:" in done.err


@pytest.mark.parametrize(
    ("gpus", "device", "reason"),
    [("0", "0", "no GPU was found"), ("2", "2", "no GPU 2: this machine has GPUs 0 to 1")],
)
def test_no_gpu(
    on_gpus: None, run: Any, monkeypatch: pytest.MonkeyPatch, gpus: str, device: str, reason: str
) -> None:
    monkeypatch.setenv("FAKE_GPUS", gpus)
    done = run("bench", "copy", "--device", device)
    assert (done.status, done.out) == (1, "")
    assert reason in done.err


def test_text_and_csv(on_gpus: None, run: Any) -> None:
    words = ("bench", "gemm", "--backend", "ctypes", "--sizes", "8,32x64x16", "--dtype", "fp32,fp8")
    done = run(*words)
    assert done.status == 0
    assert (
        f"GEMMs on GPU 0 {fake_gpus.GPU}, through ctypes (cublas 12.8.4, cublaslt 12.8.4)"
        in done.out
    )
    assert "Clocks are not locked." in done.out
    rows = list(csv.DictReader(io.StringIO(run(*words, "--csv").out)))
    assert [(row["Type"], row["Size"]) for row in rows] == [
        ("fp32", "8"),
        ("fp32", "32x64x16"),
        ("fp8", "8"),
        ("fp8", "32x64x16"),
    ]
    assert rows[3]["Not Measured"] == ""
    assert float(rows[0]["GPU (us)"]) == 3.0
    assert rows[2]["TFLOP/s"] == ""
    assert rows[2]["Not Measured"] == "FP8 requires multiples of 16"


def test_ceilings_are_saved_on_request(on_gpus: None, run: Any, tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("gemm.json", "copy.json", "launch.json")]
    gemm = ("gemm", "--backend", "ctypes", "--sizes", "8,256", "--dtype", "fp32,fp8")
    copy = ("copy", "--sizes", "1M,4M", "--kinds", "d2d,h2d-pinned,p2p")
    launch = ("launch", "--graph-kernels", "10")
    for path, words in zip(paths, (gemm, copy, launch), strict=True):
        done = run("bench", *words, "-o", str(path))
        assert done.status == 0
        assert f"wrote {path}" in done.err
    (found,) = measured_ceilings(*paths)
    assert found.gpu_uuid == "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f"
    assert found.flop_per_s == {
        "fp32": pytest.approx(2 * 256**3 / 3335e-9, rel=1e-3),
        "fp8": pytest.approx(2 * 256**3 / 3167e-9, rel=1e-3),
    }
    assert found.copy_bytes_per_s == {
        "d2d": pytest.approx(1e12, rel=1e-3),
        "h2d-pinned": pytest.approx(50e9, rel=1e-3),
    }
    assert set(found.launch_ns) == {"call", "back-to-back", "synchronized", "graph"}
    assert found.launch_ns["graph"] == pytest.approx(1000, rel=1e-3)
    again = run("bench", *gemm, "-o", str(paths[0]))
    assert again.status == 2
    assert "already exists" in again.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "missing benchmark"),
        (("gem",), "no benchmark 'gem'"),
        (("gemm", "--sizes", "8x8"), "'8x8' is not a size"),
        (("gemm", "--sizes", "0"), "'0' is not a whole number"),
        (("gemm", "--dtype", "int8"), "unknown 'int8'"),
        (("gemm", "--backend", "jax"), "unknown 'jax'"),
        (("gemm", "--device", "-1"), "must be 0 or more"),
        (("gemm", "-o", "out.csv"), "results are saved as JSON"),
        (("copy", "--sizes", "1X"), "'1X' is not a size"),
        (("copy", "--kinds", "up"), "unknown 'up'"),
        (("launch", "--graph-kernels", "1,x"), "'x' is not a whole number"),
    ],
)
def test_usage_errors(run: Any, words: tuple[str, ...], said: str) -> None:
    done = run("bench", *words)
    assert done.status == 2
    assert said in done.err


def test_cuda_and_frameworks_stay_out_of_the_command(
    on_gpus: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", "launch", "--graph-kernels", "1"]) == 0
    assert "libcuda.so.1" not in Path("/proc/self/maps").read_text(encoding="utf-8")
    assert "torch" not in sys.modules


def test_results_are_kept_for_the_gpu_model(
    on_gpus: None, run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    words = ("bench", "copy", "--sizes", "256MiB", "--kinds", "d2d", "--save")
    assert run(*words, "-q").err == ""
    (path,) = tmp_path.rglob("*.json")
    assert path.parent == tmp_path / "warpline" / "ceilings"
    (found,) = measured_ceilings(path)
    assert saved_files({"XDG_DATA_HOME": str(tmp_path)}, found.gpu_name) == [path]
    assert run(*words).err == f"note: wrote {path}, which warpline kernels reads\n"
    monkeypatch.setenv("XDG_DATA_HOME", str(path))
    assert run(*words).err.startswith("error: cannot write ")
    monkeypatch.delenv("XDG_DATA_HOME")
    monkeypatch.delenv("HOME", raising=False)
    assert "set XDG_DATA_HOME" in run(*words).err
