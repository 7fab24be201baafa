"""Check completeness and overhead of recording CUDA, on a machine with a GPU and PyTorch.

Usage: PYTHONPATH=src:tests WARPLINE_AGENT=.../libwarpline_agent.so \
           python benchmarks/capture/gpu_check.py [--only NAME]... [--launches 100000] [--rounds 7]

Each check prints one line, `ok` or `BAD`, with its observations. The programs are those of
gpu_programs.py. The agent's output is read by the tests' own decoder. The last lines compare the
time of a launch: alone, with parts of the agent, under torch.profiler. Whole processes run in turn;
figures are medians with minimum and maximum.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from agent_cuda import cuda_logs as logs

from warpline.capture.machine.agent import agent_library
from warpline.capture.session.agent_config import AgentConfig
from warpline.capture.session.control import RangeMode, State
from warpline.capture.session.session import Session, create_session

PROGRAMS = Path(__file__).with_name("gpu_programs.py")
DEVICE_WORK = (logs.KERNEL, logs.COPY, logs.FILL, logs.GRAPH)


@dataclass
class Run:
    """A finished program: its output and the agent's records."""

    status: int
    told: dict[str, Any]
    errors: str
    seconds: float
    written: list[logs.CudaLog] = field(default_factory=list)

    def found(self, *kinds: int) -> list[logs.Found]:
        """Return the records of some kinds."""
        return [one for log in self.written for one in log.found if one.kind in kinds]

    def notes(self) -> list[str]:
        """Return the agent's notes about CUDA."""
        return [f"{kind}: {text}" for log in self.written for kind, text in log.notes if kind >= 64]

    def adds(self) -> int:
        """Return the number of the small kernels that the programs launch in bulk."""
        return sum("add" in (one.name or "").lower() for one in self.found(logs.KERNEL))


class Bench:
    """Runs programs in separate sessions, in one scratch directory."""

    def __init__(self, scratch: Path) -> None:
        self.scratch = scratch
        self.agent = agent_library()
        self.bad = 0

    def session(self, mode: RangeMode, keys: dict[str, object]) -> Session:
        """Make a session with keys for its agent.conf."""
        folder = Path(tempfile.mkdtemp(suffix=".warpline.raw", dir=self.scratch))
        facts = {"version": 1, "started_monotonic_ns": time.monotonic_ns()}
        made = create_session(folder, AgentConfig(), facts, state=State.RECORDING, mode=mode)
        with (folder / "agent.conf").open("a") as file:
            for key, value in {"cuda": 1, **keys}.items():
                file.write(f"{key}={quote(str(value), safe='')}\n")
        return made

    def run(
        self,
        *words: object,
        mode: RangeMode = RangeMode.NONE,
        injected: bool = True,
        reads: bool = True,
        **keys: object,
    ) -> Run:
        """Run a program under the agent."""
        session = self.session(mode, keys)
        environment = dict(os.environ)
        if injected:
            environment |= session.variables(self.agent)
            environment["CUDA_INJECTION64_PATH"] = str(self.agent)
        environment["GPU_CHECK_AGENT"] = str(self.agent)
        environment["GPU_CHECK_SESSION"] = str(session.folder)
        done = _run(words, environment)
        if reads:
            done.written = logs.read(session.folder)
        return done

    def alone(self, *words: object) -> Run:
        """Run a program without the agent."""
        return _run(words, dict(os.environ))

    def say(self, name: str, text: str, *, is_good: bool = True) -> None:
        """Print the outcome of a check."""
        self.bad += not is_good
        print(f"{'ok ' if is_good else 'BAD'} {name}: {text}", flush=True)


def _run(words: Sequence[object], environment: dict[str, str]) -> Run:
    command = [sys.executable, str(PROGRAMS), *(str(word) for word in words)]
    begun = time.monotonic()
    done = subprocess.run(
        command, env=environment, check=False, capture_output=True, text=True, timeout=240
    )
    lines = done.stdout.strip().splitlines()
    told = json.loads(lines[-1]) if lines else {}
    return Run(done.returncode, told, done.stderr[-2000:], time.monotonic() - begun)


def check_library(bench: Bench) -> None:
    """Check the CUPTI version and the GPU's description."""
    run = bench.run("many", 100)
    devices = [one.fields for one in run.found(logs.DEVICE)]
    is_good = run.status == 0 and bool(run.found(logs.KERNEL)) and bool(devices)
    bench.say("library", f"{run.notes()} {devices} {run.errors}", is_good=is_good)
    contexts = [one.fields for one in run.found(logs.CONTEXT)]
    streams = [one.fields for one in run.found(logs.STREAM)]
    bench.say("contexts and streams", f"{contexts} {streams}", is_good=bool(contexts))


def check_complete(bench: Bench) -> None:
    """Compare kernels, copies and memsets with torch.profiler's."""
    for words in (("mixed", 50), ("threads", 500), ("graph", 20)):
        path = bench.scratch / "kineto.json"
        bench.alone(*words, "--kineto", path)
        theirs = json.loads(path.read_text())
        run = bench.run(*words, cuda_graph="node")
        kernels = Counter(one.name for one in run.found(logs.KERNEL))
        copies = run.found(logs.COPY)
        counts = sorted(kernels.values()), sorted(theirs["kernels"].values())
        bytes_ = sum(one.bytes for one in copies), theirs["copied_bytes"]
        fills = len(run.found(logs.FILL)), theirs["fills"]
        is_good = counts[0] == counts[1] and bytes_[0] == bytes_[1] and fills[0] == fills[1]
        bench.say(
            f"complete: {words[0]}",
            f"ours, torch's: kernels by name {counts}, copied bytes {bytes_}, fills {fills}, "
            f"copies {(len(copies), theirs['copies'])}",
            is_good=is_good and run.status == 0,
        )


def check_correlations(bench: Bench) -> None:
    """Check that every GPU operation has one launch call, which starts before it."""
    run = bench.run("mixed", 50)
    calls = {call.correlation: call for call in run.found(logs.CALL)}
    work = run.found(*DEVICE_WORK)
    lone = [one.fields for one in work if one.correlation not in calls]
    early = [one for one in work if one.correlation in calls and _is_early(one, calls)]
    untold = [one for one in work if one.correlation in calls and not _launches(one, calls)]
    launches = [call for call in calls.values() if call.flags & 1]
    answered = {one.correlation for one in work}
    silent = Counter(call.name for call in launches if call.correlation not in answered)
    lags = [one.start - calls[one.correlation].end for one in work if one.correlation in calls]
    bench.say(
        "work has a call", f"{len(work)} of work, {len(lone)} without: {lone[:3]}", is_good=not lone
    )
    bench.say("work begins after its call does", f"{len(early)} early", is_good=not early)
    bench.say("its call is one that launches", f"{len(untold)} are not", is_good=not untold)
    bench.say("launching calls without work", f"{dict(silent)}")
    bench.say("calls", f"{Counter(call.name for call in calls.values())}")
    bench.say("start after the call's end, ns", f"least {min(lags)}, {_quartiles(lags)}")
    aimed = Counter(
        call.name for call in calls.values() if call.place is not None or call.event is not None
    )
    bench.say("calls with a stream or an event", f"{dict(aimed)}", is_good=bool(aimed))


def check_waits(bench: Bench) -> None:
    """Check that CUPTI's own synchronization records, on request, link to their calls."""
    run = bench.run("mixed", 50, cuda_waits="cupti")
    calls = {call.correlation for call in run.found(logs.CALL)}
    waits = run.found(logs.WAIT)
    syncs = {one.sync for one in run.found(logs.EVENT) if one.sync}
    joined = sum(one.sync in syncs for one in waits if one.type in (1, 2))
    bench.say(
        "waits",
        f"by kind {Counter(one.type for one in waits)}; joined to events {joined}; "
        f"lead to calls {sum(one.correlation in calls for one in waits)} of {len(waits)}",
        is_good=bool(waits),
    )


def _is_early(one: logs.Found, calls: dict[int, logs.Found]) -> bool:
    return bool(one.start < calls[one.correlation].start)


def _launches(one: logs.Found, calls: dict[int, logs.Found]) -> bool:
    return bool(calls[one.correlation].flags & 1)


def _quartiles(values: Sequence[int]) -> list[float]:
    return statistics.quantiles(values, n=4) if len(values) > 1 else []


def check_graphs(bench: Bench) -> None:
    """Check CUDA graphs at graph level and at node level."""
    whole = bench.run("graph", 40)
    graphs = whole.found(logs.GRAPH)
    bench.say(
        "graphs as a whole", f"{len(graphs)} of 40; {whole.notes()}", is_good=len(graphs) == 40
    )
    nodes = bench.run("graph", 40, cuda_graph="node")
    kernels = [one for one in nodes.found(logs.KERNEL) if one.node is not None]
    known = {one.node for one in nodes.found(logs.GRAPH_NODE)}
    named = sum(one.node[0] in known for one in kernels)
    bench.say(
        "graphs node by node",
        f"{len(kernels)} of 2000 kernels; {len(known)} nodes created; {named} kernels of them",
        is_good=len(kernels) == 2000,
    )


def check_windows(bench: Bench) -> None:
    """Check capture ranges by cudaProfilerStart and Stop while the GPU is busy."""
    run = bench.run("window", 1000, mode=RangeMode.CUDA_PROFILER_API)
    calls = sum(call.flags & 1 for call in run.found(logs.CALL))
    before = bench.run("graph_before_window", 20, mode=RangeMode.CUDA_PROFILER_API)
    launched = {call.correlation for call in before.found(logs.CALL)}
    # Those of the rest have no call, and are left out when a session is finished.
    graphs = sum(one.correlation in launched for one in before.found(logs.GRAPH))
    is_right = before.status == 0 and before.told["sum"] == before.told["adds"]
    bench.say(
        "window, graphs made before it and in it",
        f"status {before.status}, sum {'right' if is_right else 'WRONG'}, {graphs} of 40 graphs;"
        f" {before.notes()} {before.errors}",
        is_good=is_right and graphs == 40,
    )
    bench.say(
        "window",
        f"{run.adds()} of 2000 kernels; {calls} launching calls; Start, Stop took "
        f"{run.told.get('start_stop_ns')} ns; {run.notes()} {run.errors}",
        is_good=run.adds() == 2000,
    )


def check_detach(bench: Bench) -> None:
    """Check step sampling with detached CUPTI: complete samples, and unique correlation ids."""
    # torch.profiler keeps CUPTI once it has had it, from the middle on; in a sample it cannot.
    programs = {"steps": 1000, "resting_graphs": 1000, "replayed_graphs": 1025}
    programs |= {"profiled_rest": 500, "profiled_sample": 1000}
    for name, wanted in programs.items():
        run = bench.run(
            *(name, 2000),
            mode=RangeMode.STEPS,
            sample_steps=5,
            sample_every=200,
            cuda_graph="node",
            cuda_detach_ms=200,
        )
        calls = run.found(logs.CALL)
        ids = {call.correlation: call for call in calls}
        work = run.found(*DEVICE_WORK)
        lone = sum(one.correlation not in ids for one in work)
        early = sum(_is_early(one, ids) for one in work if one.correlation in ids)
        twice = len(calls) - len(ids)
        is_right = run.status == 0 and run.told["sum"] == run.told["adds"]
        streams = sorted({one.stream for one in run.found(logs.KERNEL)})
        bench.say(
            f"detached between samples: {name}",
            f"status {run.status}, sum {'right' if is_right else 'WRONG'}, {run.adds()} adds of"
            f" {wanted}, {lone} without a call, {early} before theirs; {twice} ids twice;"
            f" streams {streams}; torch saw {run.told.get('seen_by_torch')} of 2000;"
            f" {run.notes()} {run.errors}",
            is_good=is_right and run.adds() == wanted and lone == early == twice == 0,
        )


def check_ends(bench: Bench) -> None:
    """Check that a normal exit keeps everything, and any other exit drops little."""
    for name, status in (("quit", 5), ("fails", 7), ("loader", 0)):
        run = bench.run(name, 20)
        calls = len(run.found(logs.CALL))
        text = f"status {run.status}, {calls} calls, {len(run.found(logs.KERNEL))} kernels"
        bench.say(f"end: {name}", f"{text} {run.errors[-300:]}", is_good=run.status == status)
    run = bench.run("killed", 1000)
    launches = [call for call in run.found(logs.CALL) if call.flags & 1]
    last = max((one.end for one in run.found(logs.KERNEL)), default=0)
    lost_ns = max(call.end for call in launches) - last
    bench.say(
        "end: killed",
        f"{len(launches)} launching calls, {run.adds()} kernels; the last "
        f"{lost_ns / 1e6:.0f} ms have none",
        is_good=run.status == -signal.SIGKILL and lost_ns < 1_500_000_000,
    )


def check_others(bench: Bench) -> None:
    """Check torch.profiler inside the program, and late attachment."""
    run = bench.run("own_profiler", 200)
    text = f"status {run.status}, {run.told}, ours {run.adds()} kernels; {run.errors[-500:]}"
    bench.say("torch.profiler within", text, is_good=run.status == 0 and run.adds() >= 200)
    run = bench.run("late", 300, injected=False)
    is_good = run.status == 0 and run.adds() == 300
    streams = len(run.found(logs.STREAM))
    text = f"{run.told}, ours {run.adds()} kernels, {streams} streams; {run.notes()} {run.errors}"
    bench.say("attached late", text, is_good=is_good)


def check_long(bench: Bench) -> None:
    """Check many kernels: no dropped records, constant memory."""
    alone = bench.alone("many", 1_000_000)
    run = bench.run("many", 1_000_000)
    lost = sum(one.records for one in run.found(logs.LOST))
    added = run.told["peak_kb"] - alone.told["peak_kb"]
    bench.say(
        "long",
        f"{run.adds()} of {run.told['launches']} kernels, {lost} lost, {added} kB of memory added, "
        f"{run.seconds:.1f} s for {alone.seconds:.1f}; buffers {len(run.found(logs.BUFFER))}",
        is_good=run.adds() == run.told["launches"] and lost == 0 and added < 300_000,
    )


def measure_cost(bench: Bench, launches: int, rounds: int) -> None:
    """Measure the CPU time of a launch, in whole processes in turn."""
    ways: dict[str, Callable[[], Run]] = {
        "alone": lambda: bench.alone("many", launches),
        "agent": lambda: bench.run("many", launches, reads=False),
        "agent, no events and waits": lambda: bench.run(
            "many", launches, reads=False, cuda_sync=0, cuda_event=0
        ),
        "agent, kernels only": lambda: bench.run("many", launches, reads=False, cuda_api="none"),
        "agent, calls only": lambda: bench.run(
            "many", launches, reads=False, cuda_kernel=0, cuda_sync=0, cuda_event=0
        ),
        "agent, at rest": lambda: bench.run(
            "many", launches, reads=False, mode=RangeMode.CUDA_PROFILER_API
        ),
        "torch.profiler": lambda: bench.alone(
            "many", launches, "--kineto", bench.scratch / "cost.json"
        ),
    }
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            times[name].append(way().told["ns_per_launch"])
    for name, values in times.items():
        print(
            f"cost {name}: median {statistics.median(values):.0f} ns per launch "
            f"({min(values):.0f} to {max(values):.0f}, {rounds} processes)",
            flush=True,
        )


CHECKS: dict[str, Callable[[Bench], None]] = {
    "library": check_library,
    "complete": check_complete,
    "correlations": check_correlations,
    "waits": check_waits,
    "graphs": check_graphs,
    "windows": check_windows,
    "detach": check_detach,
    "ends": check_ends,
    "others": check_others,
    "long": check_long,
}


def main() -> int:
    """Run the checks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", action="append", choices=[*CHECKS, "cost"])
    parser.add_argument("--launches", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        bench = Bench(Path(scratch))
        for name, check in CHECKS.items():
            if options.only and name not in options.only:
                continue
            try:
                check(bench)
            except (AssertionError, KeyError, OSError, ValueError, subprocess.SubprocessError) as e:
                bench.say(name, f"{type(e).__name__}: {e}", is_good=False)
        if not options.only or "cost" in options.only:
            measure_cost(bench, options.launches, options.rounds)
    return 1 if bench.bad else 0


if __name__ == "__main__":
    sys.exit(main())
