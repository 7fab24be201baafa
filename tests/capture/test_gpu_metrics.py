"""The processes that sample metrics of GPUs, with a stand-in for CUPTI: what they write."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import time
from array import array
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from capture.stand_ins import compiled
from support.launching import environment, until, with_open

from warpline.capture.machine.gpm import METRICS as GPM_METRICS
from warpline.capture.session.control import ControlFile
from warpline.capture.session.sample_file import GpuSamples, path_of, read_samples
from warpline.counters.sampled_sets import SETS

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

# A launcher: it starts the processes, says what the check said, and closes them when a line comes.
LAUNCHER = """
import os, sys
from pathlib import Path
from warpline.capture.collectors.gpu_metrics import GpuMetrics
from warpline.capture.collectors.metrics_request import MetricsRequest
from warpline.counters.sampled_sets import sampled_set
from warpline.errors import UsageError
folder, devices, metrics, hz, *cupti = sys.argv[1:]
request = MetricsRequest(devices, sampled_set(metrics), int(hz))
found = GpuMetrics(request, os.environ, [*map(Path, cupti)])
try:
    found.check()
    print("checked", flush=True)
except UsageError as error:
    print(error.message, "|", error.hint, flush=True)
found.start(Path(folder))
sys.stdin.readline()
found.close()
print("closed", flush=True)
sys.stdin.readline()
"""
GENERAL = [spellings[0] for spellings in SETS["general"].metrics]
HZ = 20_000
STEP_NS = 1_000_000_000 // HZ


class Launcher:
    """A process with samplers for a session in a directory."""

    def __init__(
        self,
        folder: Path,
        devices: str,
        metrics: str,
        hz: int,
        libraries: list[Path],
        **more: str,
    ) -> None:
        self.folder = folder / "x.raw"
        self.folder.mkdir()
        self.control = ControlFile.create(self.folder)
        self.process = subprocess.Popen(
            [sys.executable, "-c", LAUNCHER, self.folder, devices, metrics, str(hz), *libraries],
            env=environment(**more),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            encoding="utf-8",
        )
        assert self.process.stdout is not None
        self.said = self.process.stdout.readline().strip()

    def close(self) -> None:
        """Let it close the samplers, while it goes on."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "closed\n"

    def processes(self) -> list[int]:
        """Return the processes that have the file of samples open."""
        return with_open(path_of(self.folder))

    def sampler(self, gpu: int = 0) -> int:
        """Return the process that samples a GPU."""
        words = b"metric_sampler", b'"number": %d' % gpu
        for pid in self.processes():
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
            if all(word in command for word in words):
                return pid
        raise AssertionError(f"GPU {gpu} is not sampled")

    def gpus(self) -> dict[int, GpuSamples]:
        """Return what was written."""
        found = read_samples(self.folder)
        return {} if found is None else dict(found.gpus)

    def count(self, gpu: int = 0) -> int:
        """Return how many samples of a GPU were written."""
        blocks = self.gpus().get(gpu, GpuSamples()).blocks
        return sum(block.samples for block in blocks if block.metric == 1)


Launch = Callable[..., Launcher]


@pytest.fixture
def launch(tmp_path: Path) -> Iterator[Launch]:
    """Return a function that starts a launcher; all are ended after the test."""
    libraries = tmp_path / "libraries"
    libraries.mkdir()
    for name in ("libcuda.so.1", "libcupti.so.13"):
        (libraries / name).write_bytes(compiled("fake_pm_sampling.c"))
    (libraries / "libnvidia-ml.so.1").write_bytes(compiled("fake_nvml.c"))
    violations = tmp_path / "violations"
    launched: list[Launcher] = []

    def launch_it(
        devices: str = "all",
        metrics: str = "general",
        *,
        hz: int = HZ,
        before: tuple[Path, ...] = (),
        library: bool = True,
        **more: object,
    ) -> Launcher:
        variables = {name: str(value) for name, value in more.items()}
        folder = tmp_path / f"{len(launched)}"
        folder.mkdir()
        cupti = [*before, libraries / "libcupti.so.13"] if library else []
        found = Launcher(
            folder,
            devices,
            metrics,
            hz,
            cupti,
            LD_LIBRARY_PATH=str(libraries),
            FAKE_PM_VIOLATIONS=str(violations),
            **variables,
        )
        launched.append(found)
        return found

    yield launch_it
    for each in launched:
        each.process.kill()
        each.process.communicate()
    assert not violations.exists() or violations.read_text() == ""


def values(gpu: GpuSamples, metric: int) -> list[tuple[int, float]]:
    """Return the start and the value of each sample of a metric."""
    found = []
    for block in gpu.blocks:
        if block.metric == metric:
            codes = array("H", bytes(block.codes)) or array("H", [1] * block.samples)
            length = (block.end_ns - block.start_ns) / block.samples
            found += [
                (round(block.start_ns + place * length), code * block.scale)
                for place, code in enumerate(codes)
            ]
    return sorted(found)


def is_chain(found: list[tuple[int, float]], metric: int) -> bool:
    """Return whether samples follow one another in time, with the values of the stand-in."""
    numbers = [round(value / (metric + 1)) for _, value in found]
    follow = all(abs(after[0] - before[0] - STEP_NS) <= 2 for before, after in pairwise(found))
    return follow and all(after == before % 1000 + 1 for before, after in pairwise(numbers))


def test_metrics_of_all_gpus_until_the_launcher_closes(launch: Launch) -> None:
    before_ns = time.monotonic_ns()
    launcher = launch()
    assert launcher.said == "checked"
    until(lambda: launcher.count(0) > 3000 and launcher.count(1) > 3000)
    launcher.close()
    closed_ns = time.monotonic_ns()
    until(lambda: not launcher.processes())
    assert launcher.process.poll() is None
    gpus = launcher.gpus()
    assert [*sorted(gpus)] == [0, 1]
    for number, gpu in gpus.items():
        assert gpu.facts["metrics"] == GENERAL
        assert gpu.facts["uuids"] == [f"GPU-0000000{number}-0000-0000-0000-000000000000"]
        assert gpu.facts["is_complete"]
        assert (gpu.facts["gaps"], gpu.facts["bad_values"]) == (0, 0)
        for metric in range(len(GENERAL)):
            found = values(gpu, metric)
            assert is_chain(found, metric)
            assert len(found) == gpu.facts["samples"]
            assert before_ns < found[0][0] < found[-1][0] < closed_ns


def test_samples_of_the_last_moments_are_written(launch: Launch) -> None:
    launcher = launch("1", "nvlink")
    until(lambda: launcher.count(1))
    asked_ns = time.monotonic_ns()
    launcher.close()
    (gpu,) = launcher.gpus().values()
    assert [*launcher.gpus()] == [1]
    assert gpu.facts["uuids"] == ["GPU-00000001-0000-0000-0000-000000000000"]
    assert max(block.end_ns for block in gpu.blocks) > asked_ns - 10 * STEP_NS


def test_a_launcher_that_dies_leaves_no_process(launch: Launch) -> None:
    launcher = launch()
    until(lambda: launcher.count(0))
    launcher.process.kill()
    until(lambda: not launcher.processes())
    assert launcher.gpus()[0].facts["is_complete"]


def test_a_sampler_that_dies(launch: Launch) -> None:
    launcher = launch("0")
    until(launcher.count)
    os.kill(launcher.sampler(), signal.SIGKILL)
    until(lambda: "cause" in launcher.gpus()[0].facts)
    launcher.close()
    gpu = launcher.gpus()[0]
    assert "is_complete" not in gpu.facts
    assert gpu.facts["cause"] == "the process that samples ended"
    assert is_chain(values(gpu, 2), 2)


def test_a_process_that_dies_takes_the_samplers_along(launch: Launch) -> None:
    launcher = launch()
    until(launcher.count)
    samplers = {launcher.sampler(0), launcher.sampler(1)}
    (other,) = {*launcher.processes()} - samplers
    os.kill(other, signal.SIGKILL)
    until(lambda: not launcher.processes())
    launcher.close()
    assert launcher.gpus()[0].facts["is_complete"] is False


def test_a_driver_that_blocks_holds_up_nobody(launch: Launch) -> None:
    launcher = launch(FAKE_PM_BLOCKS=3)
    until(launcher.gpus)
    launcher.close()  # after some seconds
    until(lambda: not launcher.processes())
    assert launcher.process.poll() is None


@pytest.mark.parametrize("once", [0, 1])
def test_a_full_buffer_is_a_gap(launch: Launch, once: int) -> None:
    launcher = launch("0", FAKE_PM_OVERFLOW=5, FAKE_PM_ONCE=once)
    until(lambda: launcher.count() > 6000)
    launcher.close()
    facts = launcher.gpus()[0].facts
    assert facts["is_complete"]
    assert facts["overflows"] >= 1
    assert (
        facts["gaps"] <= facts["overflows"]
    )  # none if nothing was lost until it was started again
    assert facts["samples"] == launcher.count()


def test_samples_that_an_image_has_no_room_for(launch: Launch) -> None:
    launcher = launch("0", hz=200_000, FAKE_PM_LOSES=1)
    until(launcher.count)
    sampler = launcher.sampler()
    os.kill(sampler, signal.SIGSTOP)
    time.sleep(0.2)
    os.kill(sampler, signal.SIGCONT)
    launcher.close()
    facts = launcher.gpus()[0].facts
    assert facts["full_images"] >= facts["gaps"] >= 1
    # Times of samples are rounded, so the sum is off by some ns per gap: under load there are many.
    assert facts["missing_ns"] == pytest.approx(2 * 5000 * facts["gaps"], abs=50 * facts["gaps"])
    assert facts["is_complete"]


def test_values_that_are_no_numbers_are_left_out(launch: Launch) -> None:
    launcher = launch("0", FAKE_PM_BAD=100)
    until(lambda: launcher.count() > 500)
    launcher.close()
    gpu = launcher.gpus()[0]
    assert gpu.facts["bad_values"] == 1
    assert len(values(gpu, 0)) == len(values(gpu, 1)) - 1
    (gap,) = [
        before[0]
        for before, after in pairwise(values(gpu, 0))
        if after[0] - before[0] > 1.5 * STEP_NS
    ]
    assert abs(gap - values(gpu, 1)[99][0]) < STEP_NS / 2


def test_samples_that_cannot_be_evaluated_end_it(launch: Launch) -> None:
    launcher = launch("0", FAKE_PM_FAILS=5000)
    until(lambda: launcher.gpus().get(0, GpuSamples()).facts.get("failure"))
    until(lambda: "is_complete" in launcher.gpus()[0].facts)
    launcher.close()
    gpu = launcher.gpus()[0]
    assert gpu.facts["failure"] == "cuptiProfilerHostEvaluateToGpuValues failed (999)"
    assert gpu.facts["is_complete"] is False
    assert 0 < launcher.count() <= 5000


def test_another_cupti_is_tried(launch: Launch, tmp_path: Path) -> None:
    old = tmp_path / "libcupti.so.12"
    old.write_bytes(compiled("fake_nvml.c"))  # a library without any function of CUPTI
    damaged = tmp_path / "libcupti.so.11"
    damaged.write_bytes(b"no library")
    launcher = launch("0", before=(old, damaged))
    assert launcher.said == "checked"
    until(launcher.count)


def test_of_several_cupti_that_do_not_work_the_best_one_is_told(
    launch: Launch, tmp_path: Path
) -> None:
    old = tmp_path / "libcupti.so.12"
    old.write_bytes(compiled("fake_nvml.c"))
    launcher = launch("0", before=(old,), FAKE_PM_REFUSE="cuptiProfilerInitialize=7")
    until(launcher.gpus)
    assert launcher.gpus()[0].facts["cause"] == f"{old} is older than CUPTI 12.6"


@pytest.mark.parametrize(
    ("more", "cause"),
    [
        ({"FAKE_PM_REFUSE": "cuptiPmSamplingGetCounterAvailability=35"}, "this user may not read"),
        ({"FAKE_PM_REFUSE": "cuptiPmSamplingEnable=26"}, "another profiler uses"),
        (
            {"FAKE_PM_REFUSE": "cuptiPmSamplingSetConfig=999"},
            "CUPTI cannot sample this GPU (cuptiPm",
        ),
        ({"FAKE_PM_HIDES": "1"}, "CUDA does not show this GPU"),
        ({"FAKE_PM_CUINIT": "804"}, "CUDA cannot be initialized (error 804)"),
        ({"FAKE_PM_LACKS": "__"}, "GH100 has no metric such as gr__cycles_active"),
        ({"library": False}, "CUPTI was not found"),
    ],
)
def test_what_cannot_be_sampled_is_read_through_nvml(
    launch: Launch, more: dict[str, str], cause: str
) -> None:
    launcher = launch("0", FAKE_NVML_GPM=1, **more)
    until(lambda: len(launcher.gpus().get(0, GpuSamples()).values) >= 3)
    launcher.close()
    (gpu,) = launcher.gpus().values()
    assert gpu.facts["cause"].startswith(cause)
    assert gpu.facts["cure"]
    assert gpu.facts["metrics"] == [*GPM_METRICS]
    assert not gpu.blocks
    at_ns, first = gpu.values[0]
    read = dict(zip(GPM_METRICS, first, strict=True))
    assert read["gpm__sm_util.pct"] == 42
    assert read["gpm__pcie_tx_bytes.sum.per_second"] == 20 << 20
    assert math.isnan(read["gpm__fp16_util.pct"])
    assert at_ns < gpu.values[1][0]


def test_without_gpm_only_the_cause_is_written(launch: Launch) -> None:
    launcher = launch(FAKE_PM_REFUSE="cuptiPmSamplingEnable=26")
    until(lambda: len(launcher.gpus()) == 2)
    launcher.close()
    assert {"source", "metrics"}.isdisjoint(launcher.gpus()[0].facts)


def test_metrics_of_a_set_that_a_gpu_lacks_are_left_out(launch: Launch) -> None:
    launcher = launch("0", FAKE_PM_LACKS="dramc", FAKE_PM_MOST="12")
    until(launcher.count)
    facts = launcher.gpus()[0].facts
    assert len(facts["metrics"]) == 12
    assert "dram__read_throughput.avg.pct_of_peak_sustained_elapsed" in facts["metrics"]
    assert len(facts["left_out"]) == 2


def test_a_file_with_a_metric_that_does_not_fit_is_refused(launch: Launch, tmp_path: Path) -> None:
    path = tmp_path / "mine"
    path.write_text("\n".join(f"sm__m{number}.sum" for number in range(5)))
    launcher = launch("all", str(path), FAKE_PM_MOST=4)
    assert launcher.said.startswith(
        "sm__m4.sum cannot be sampled on GPU 0 (Fake GPU): it does not fit in one pass"
    )
    launcher = launch("all", str(path), FAKE_PM_LACKS="m2")
    assert "sm__m2.sum cannot be sampled on GPU 0 (Fake GPU): the GPU does not" in launcher.said
    launcher = launch("all", str(path))
    assert launcher.said == "checked"
    until(launcher.count)
    assert launcher.gpus()[0].facts["metrics"] == [f"sm__m{number}.sum" for number in range(5)]


def test_a_gpu_that_is_not_there_is_refused(launch: Launch) -> None:
    assert launch("0,2").said == (
        "--gpu-metrics-devices 0,2: there is no GPU 2 | there are 0 (Fake GPU), 1 (Fake GPU)"
    )


def test_gpus_that_the_program_sees(launch: Launch) -> None:
    launcher = launch("cuda-visible", CUDA_VISIBLE_DEVICES="1")
    until(lambda: launcher.count(1))
    launcher.close()
    (gpu,) = launcher.gpus().values()
    assert gpu.facts["uuids"] == ["GPU-00000001-0000-0000-0000-000000000000"]


def test_gpus_that_are_sampled_by_clocks(launch: Launch) -> None:
    launcher = launch("0", FAKE_PM_CHIP="GA100")
    until(lambda: launcher.count() > 100)
    launcher.close()
    assert is_chain(values(launcher.gpus()[0], 1), 1)


def test_a_program_that_ends_at_once(launch: Launch) -> None:
    launcher = launch(FAKE_PM_SLOW="60")
    launcher.close()
    assert launcher.gpus()[0].facts["cause"].startswith("the program ended before sampling began")
    until(lambda: not launcher.processes())
