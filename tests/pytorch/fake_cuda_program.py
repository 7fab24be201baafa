"""A program whose operators launch kernels of the fake CUDA, profiled by warpline.torch.

Arguments: libraries of the fake driver and of the fake CUPTI, a folder for files. Prints JSON.
"""

import contextlib
import ctypes
import json
import sys
import threading
import time
import warnings
from pathlib import Path

import torch

from warpline.capture.in_process import profile as in_process
from warpline.torch import ProfilerActivity, profile, record_function, schedule

LAUNCH = (2, 13)  # cudaLaunchKernel, in the fake CUPTI
CPU, CUDA = ProfilerActivity.CPU, ProfilerActivity.CUDA

driver, cupti, folder = sys.argv[1:]
in_process.find_cupti = lambda *_: [Path(cupti)]  # type: ignore[attr-defined]
torch.cuda.is_available = lambda: True
torch.cuda.synchronize = lambda *_: None
kept: list[bytes] = []  # names, for as long as records point to them


def launch(name, ns):
    """A call of 20 us at least, and a kernel that begins in it."""
    library = ctypes.CDLL(cupti)
    kept.append(name.encode())
    correlation = 100 + len(kept)
    library.fake_call(*LAUNCH, 0, correlation, 0)
    library.fake_kernel(correlation, kept[-1], ctypes.c_uint64(0), ctypes.c_uint64(ns))
    time.sleep(2e-5)
    library.fake_call(*LAUNCH, 1, correlation, 0)


def operator(x, name, ns):
    y = x.clone()
    launch(name, ns)
    return y


library = torch.library.Library("fake", "DEF")
library.define("launch(Tensor x, str name, int ns) -> Tensor")
library.impl("launch", operator, "CPU")


def step(number):
    x = torch.ones(4)
    with record_function("forward"):
        torch.ops.fake.launch(x, "first", 1000)
        torch.ops.fake.launch(x, "second", 3000)
    thread = threading.Thread(target=launch, args=("elsewhere", 500))  # without operators
    thread.start()
    thread.join()
    launch(f"outside_{number}", 2000)


def rows(averages):
    """Everything of a table that the fake decides."""
    return sorted(
        [
            row.key,
            row.count,
            row.device_type.name,
            *map(_us, (row.self_device_time_total, row.device_time_total)),
        ]
        for row in averages
    )


def _us(time_us):
    return round(time_us, 2)


def events(prof):
    return [
        [event.name, [[kernel.name, _us(kernel.duration)] for kernel in event.kernels]]
        for event in prof.events()
        if event.kernels
    ]


def scheduled():
    seen = []
    with profile(
        activities=[CPU, CUDA],
        schedule=schedule(wait=1, warmup=1, active=2, repeat=2),
        on_trace_ready=lambda prof: seen.append([prof.step_num, rows(prof.key_averages())]),
    ) as prof:
        for number in range(9):
            step(number)
            prof.step()
    seen.append(events(prof))
    seen.append(prof.key_averages().table(sort_by="self_cuda_time_total"))
    prof.export_chrome_trace(str(Path(folder, "trace.json")))
    return seen


def accumulated():
    with profile(
        activities=[CPU, CUDA], schedule=schedule(wait=0, warmup=1, active=1), acc_events=True
    ) as prof:
        for number in range(4):
            step(number)
            prof.step()
    return rows(prof.key_averages())


def without_operators():
    with profile(activities=[CUDA]) as prof:
        step(0)
    prof.export_chrome_trace(str(Path(folder, "cuda.json.gz")))
    return rows(prof.key_averages())


def kernels_only():
    with profile(activities=[CPU, {CUDA: ["CONCURRENT_KERNEL"]}]) as prof:
        step(0)
    return [row for row in rows(prof.key_averages()) if "cuda" in row[0].lower()]


def paused():
    with profile(activities=[CPU, CUDA]) as prof:
        step(0)
        prof.toggle_collection_dynamic(False, [CUDA])
        step(1)
        prof.toggle_collection_dynamic(True, [CUDA])
        step(2)
    return [row for row in rows(prof.key_averages()) if "outside" in row[0]]


def kept_recording():
    path = Path(folder, "kept.warpline")
    with profile(
        activities=[CPU, CUDA],
        schedule=schedule(wait=0, warmup=1, active=2, repeat=2),
        path=path,
        overwrite=True,
        record_shapes=True,
    ) as prof:
        for number in range(6):
            step(number)
            prof.step()
    return [str(prof.path)]


def refused():
    in_process.agent_library = lambda: Path("/nowhere/agent.so")  # type: ignore[attr-defined]
    with (
        contextlib.suppress(AssertionError, RuntimeError),
        warnings.catch_warnings(record=True) as told,
    ):
        warnings.simplefilter("always")
        with profile(activities=[CPU, CUDA]):
            torch.ones(2).sum()
    return [str(one.message) for one in told if "Warpline" in str(one.message)]


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    ctypes.CDLL(driver, mode=ctypes.RTLD_GLOBAL).cuInit(0)
    parts = (
        scheduled,
        accumulated,
        without_operators,
        kernels_only,
        paused,
        kept_recording,
        refused,
    )
    json.dump({part.__name__: part() for part in parts}, sys.stdout)
