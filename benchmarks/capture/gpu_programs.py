"""GPU programs with known work, for gpu_check.py: python gpu_programs.py NAME [COUNT].

With --kineto FILE, the same work runs under torch.profiler, and its records are written to FILE as
JSON. Each program prints one line of JSON: its work and duration.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

Told = dict[str, Any]


def _adds(count: int, stream: Any = None) -> None:
    """Launch one small kernel `count` times."""
    with torch.cuda.stream(stream):
        tensor = torch.ones(1024, device="cuda")
        for _ in range(count):
            tensor.add_(1.0)


def many(count: int) -> Told:
    """Launch small kernels and report the CPU time of a launch."""
    tensor = torch.ones(1024, device="cuda")
    for _ in range(200):
        tensor.add_(1.0)
    torch.cuda.synchronize()
    begun = time.perf_counter_ns()
    for _ in range(count):
        tensor.add_(1.0)
    launched = time.perf_counter_ns() - begun
    torch.cuda.synchronize()
    return {"launches": count + 200, "ns_per_launch": launched / count}


def mixed(count: int) -> Told:
    """Run various kernels, copies in both directions, memsets, two streams with events, waits."""
    torch.manual_seed(0)
    side = torch.cuda.Stream()
    pinned = torch.empty(1 << 20, dtype=torch.uint8, pin_memory=True)
    weight = torch.randn(512, 512, device="cuda")
    value = weight
    for _ in range(count):
        device = torch.empty(1 << 20, dtype=torch.uint8, device="cuda")
        with torch.cuda.stream(side):
            device.copy_(pinned, non_blocking=True)
        torch.cuda.current_stream().wait_stream(side)
        value = torch.softmax(torch.relu(value @ weight), dim=-1)
        value = torch.nn.functional.layer_norm(value, (512,))
        device.zero_()
        float(value.sum())
    torch.cuda.synchronize()
    return {"copied_bytes": count * (1 << 20)}


def graph(count: int) -> Told:
    """Capture a graph of 50 kernels and replay it."""
    tensor = torch.ones(1024, device="cuda")
    tensor.add_(1.0)
    torch.cuda.synchronize()
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        for _ in range(50):
            tensor.add_(1.0)
    for _ in range(count):
        captured.replay()
    torch.cuda.synchronize()
    return {"replays": count, "nodes": 50 * count}


def threads(count: int) -> Told:
    """Launch from four threads, each on its own stream."""
    all_threads = [
        threading.Thread(target=_adds, args=(count, torch.cuda.Stream())) for _ in range(4)
    ]
    for thread in all_threads:
        thread.start()
    for thread in all_threads:
        thread.join()
    torch.cuda.synchronize()
    return {"adds": 4 * count}


def graph_before_window(count: int) -> Told:
    """Create graphs before and after cudaProfilerStart; launch all before Stop."""
    _adds(50)
    tensor = torch.zeros(1024, device="cuda")
    tensor.add_(1.0)
    graphs = []

    def make() -> None:
        torch.cuda.synchronize()
        graphs.append(torch.cuda.CUDAGraph())
        with torch.cuda.graph(graphs[-1]):
            for _ in range(10):
                tensor.add_(1.0)

    make()
    graphs[0].replay()
    torch.cuda.cudart().cudaProfilerStart()
    make()
    for _ in range(count):
        for one in graphs:
            one.replay()
    torch.cuda.synchronize()
    torch.cuda.cudart().cudaProfilerStop()
    make()
    for one in graphs:
        one.replay()
    torch.cuda.synchronize()
    return {"replays": 2 * count, "sum": float(tensor[0]), "adds": 1 + 10 * (2 * count + 4)}


def window(count: int) -> Told:
    """Enclose a part in cudaProfilerStart and Stop, with the GPU still busy at its end."""
    cudart = torch.cuda.cudart()
    big = torch.randn(4096, 4096, device="cuda")
    _adds(10)
    torch.cuda.synchronize()
    times = []
    for _ in range(2):
        begun = time.perf_counter_ns()
        cudart.cudaProfilerStart()
        times.append(time.perf_counter_ns() - begun)
        for _ in range(3):
            big @ big
        _adds(count)
        begun = time.perf_counter_ns()
        cudart.cudaProfilerStop()
        times.append(time.perf_counter_ns() - begun)
        _adds(10)
        torch.cuda.synchronize()
    return {"adds": 2 * count, "start_stop_ns": times}


def steps(count: int) -> Told:
    """Mark steps of 20 launches and a synchronization while another thread keeps launching."""
    is_over = threading.Event()

    def launch() -> None:
        with torch.cuda.stream(torch.cuda.Stream()):
            value = torch.ones(64, device="cuda")
            while not is_over.is_set():
                value.mul_(1.0)
                time.sleep(0.0005)

    other = threading.Thread(target=launch)
    other.start()
    tensor = torch.zeros(1024, device="cuda")
    for step in range(count):
        with torch.cuda.nvtx.range(f"step_{step}"):
            for _ in range(20):
                tensor.add_(1.0)
            torch.cuda.synchronize()
            time.sleep(0.002)
    is_over.set()
    other.join()
    return {"adds": 20 * count, "sum": float(tensor[0])}


def resting_graphs(count: int, replays: str = "rests") -> Told:
    """Create a graph in the middle of the steps; launch it in pauses only, or in all steps."""
    tensor = torch.zeros(1024, device="cuda")
    captured, played = torch.cuda.CUDAGraph(), 0
    for step in range(count):
        if step == count // 2 - 60:
            torch.cuda.synchronize()
            with torch.cuda.graph(captured):
                tensor.add_(1.0)
        with torch.cuda.nvtx.range(f"step_{step}"):
            for _ in range(20):
                tensor.add_(1.0)
            if step >= count // 2 - 60 and (replays == "all" or step % 200 > 20):
                captured.replay()
                played += 1
            torch.cuda.synchronize()
            time.sleep(0.002)
    return {"adds": 20 * count + played, "sum": float(tensor[0])}


def replayed_graphs(count: int) -> Told:
    """The same, with the graph also launched in samples."""
    return resting_graphs(count, "all")


def profiled_rest(count: int, after: int = -50) -> Told:
    """Mark steps, 100 of them under torch.profiler, started this many after the middle one."""
    tensor = torch.zeros(1024, device="cuda")
    profiler = torch.profiler.profile(activities=list(torch.profiler.supported_activities()))
    for step in range(count):
        if step == count // 2 + after:
            profiler.start()
        if step == count // 2 + after + 100:
            profiler.stop()
        with torch.cuda.nvtx.range(f"step_{step}"):
            for _ in range(20):
                tensor.add_(1.0)
            torch.cuda.synchronize()
            time.sleep(0.002)
    events = profiler.events()
    on_device = [one for one in events if one.device_type == torch.autograd.DeviceType.CUDA]
    seen = sum("add" in one.name.lower() for one in on_device)
    return {"adds": 20 * count, "sum": float(tensor[0]), "seen_by_torch": seen}


def profiled_sample(count: int) -> Told:
    """The same, starting where the middle step starts a sample."""
    return profiled_rest(count, 2)


def killed(count: int) -> Told:
    """Launch for three seconds and be killed, with nothing of an end."""
    tensor = torch.ones(1024, device="cuda")
    ends = time.monotonic() + 3
    launched = 0
    while time.monotonic() < ends:
        for _ in range(count):
            tensor.add_(1.0)
        launched += count
        torch.cuda.synchronize()
    print(json.dumps({"adds": launched}), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
    return {}


def quit_at_once(count: int) -> Told:
    """End by os._exit."""
    _adds(count)
    torch.cuda.synchronize()
    print(json.dumps({"adds": count}), flush=True)
    os._exit(5)


def fails(count: int) -> Told:
    """End by an exception."""
    _adds(count)
    raise SystemExit(7)


class _Numbers:
    """A data set, as DataLoader takes it."""

    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.full((16,), float(index))


def loader(count: int) -> Told:
    """Feed the device from forked workers, after CUDA is in use."""
    _adds(10)
    data = torch.utils.data.DataLoader(_Numbers(), batch_size=8, num_workers=2)
    total = torch.zeros((), device="cuda")
    for _ in range(count):
        for batch in data:
            total += batch.cuda().sum()
    return {"total": float(total)}


def own_profiler(count: int) -> Told:
    """Use torch.profiler while the agent is attached."""
    with torch.profiler.profile(activities=list(torch.profiler.supported_activities())) as seen:
        _adds(count)
        torch.cuda.synchronize()
    kernels = sum(event.count for event in seen.key_averages() if "add" in event.key.lower())
    return {"adds": count, "seen_by_torch": kernels}


def late(count: int) -> Told:
    """Attach in process, when CUDA is in use already; then leave, and use torch.profiler."""
    agent = ctypes.CDLL(os.environ["GPU_CHECK_AGENT"])
    _adds(50)
    torch.cuda.synchronize()
    folder = os.environ["GPU_CHECK_SESSION"].encode()
    results = [agent.wl_agent_attach(folder), agent.wl_agent_cuda_attach()]
    _adds(count)
    torch.cuda.synchronize()
    agent.wl_agent_cuda_detach()
    results.append(agent.wl_agent_detach())
    _adds(50)
    torch.cuda.synchronize()
    return {"adds": count, "results": results, **own_profiler(count)}


PROGRAMS: dict[str, Callable[[int], Told]] = {
    "many": many,
    "mixed": mixed,
    "graph": graph,
    "threads": threads,
    "window": window,
    "graph_before_window": graph_before_window,
    "steps": steps,
    "resting_graphs": resting_graphs,
    "replayed_graphs": replayed_graphs,
    "profiled_rest": profiled_rest,
    "profiled_sample": profiled_sample,
    "killed": killed,
    "quit": quit_at_once,
    "fails": fails,
    "loader": loader,
    "own_profiler": own_profiler,
    "late": late,
}


def under_kineto(program: Callable[[int], Told], count: int, path: Path) -> Told:
    """Run a program under torch.profiler; write what the device did."""
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profiler:
        told = program(count)
        torch.cuda.synchronize()
    trace = path.with_suffix(".trace")
    profiler.export_chrome_trace(str(trace))
    events = json.loads(trace.read_text())["traceEvents"]
    trace.unlink()
    kernels = Counter(event["name"] for event in events if event.get("cat") == "kernel")
    copies = [event for event in events if event.get("cat") == "gpu_memcpy"]
    seen = {
        "kernels": kernels,
        "copies": len(copies),
        "copied_bytes": sum(event["args"].get("bytes", 0) for event in copies),
        "fills": sum(event.get("cat") == "gpu_memset" for event in events),
    }
    path.write_text(json.dumps(seen))
    return told


def main() -> int:
    """Run one program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=PROGRAMS)
    parser.add_argument("count", nargs="?", type=int, default=100)
    parser.add_argument("--kineto", type=Path)
    options = parser.parse_args()
    program = PROGRAMS[options.name]
    if options.kineto:
        told = under_kineto(program, options.count, options.kineto)
    else:
        told = program(options.count)
    status = Path("/proc/self/status").read_text().splitlines()
    peak = next(line for line in status if line.startswith("VmHWM"))
    print(json.dumps({**told, "peak_kb": int(peak.split()[1])}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
