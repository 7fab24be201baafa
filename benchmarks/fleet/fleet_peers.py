"""`warpline fleet analyze` beside Holistic Trace Analysis (HTA), on ranks with known faults.

    python benchmarks/fleet/fleet_peers.py TRACE --hta PYTHON [--ranks 8] [--repeat 3]

TRACE is a trace of the PyTorch profiler of one rank with four steps whose collectives do not
overlap, such as ddp_serial.bad.rank1.json.gz, and PYTHON has HolisticTraceAnalysis. Jobs are made
of it in which rank 5 takes 15% longer, or none; in one, clocks are off by up to 50 ms. HTA's
straggler analysis knows collectives by the names that older NCCL gave them, so it is also given
traces with these. Programs run alternately, and each reads all ranks.
"""

from __future__ import annotations

import argparse
import gzip
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from job_timeline import Fault, Job, Timeline, timeline
from job_traces import TraceTemplate, is_collective, template, write

_ONE_RUN = Path(__file__).parents[1] / "one_run.py"
_SLOW = 5
_GPU = ("kernel", "gpu_memcpy", "gpu_memset")
_HTA = """
import json, logging, sys, time, warnings
from pathlib import Path
warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)
from hta.trace_analysis import TraceAnalysis
files = {rank: str(path) for rank, path in enumerate(sorted(Path(sys.argv[1]).iterdir()))}
found, began = {}, time.perf_counter()
analysis = TraceAnalysis(trace_files=files, trace_dir="")
found["load_s"] = time.perf_counter() - began
def ask(name, work):
    try:
        found[name] = work()
    except Exception as error:
        found[name] = f"{type(error).__name__}: {error}"
ask("parts", lambda: analysis.get_temporal_breakdown(visualize=False).to_dict("records"))
ask("overlap", lambda: analysis.get_comm_comp_overlap(visualize=False).to_dict("records"))
ask("stragglers", lambda: [int(r) for r in analysis.get_potential_stragglers(num_candidates=1)])
ask("idle", lambda: analysis.get_idle_time_breakdown(ranks=list(files), visualize=False)[0]
    .groupby(["rank", "idle_category"]).idle_time.sum().unstack().to_dict("index"))
Path(sys.argv[2]).write_text(json.dumps(found, default=str))
"""


@dataclass(frozen=True)
class Case:
    """A job.

    Attributes:
        name: What is planted.
        job: Its ranks and faults.
        slow: The ranks that others wait for.
        is_renamed: Whether collectives have the names of older NCCL.
    """

    name: str
    job: Job
    slow: tuple[int, ...]
    is_renamed: bool = False


def main() -> None:
    """Make the jobs, run both programs on each, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("trace", type=Path)
    parser.add_argument("--hta", required=True, help="a Python with HolisticTraceAnalysis")
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--repeat", type=int, default=3, help="times four steps")
    options = parser.parse_args()
    base = template(options.trace)
    slow = (Fault("slow", (_SLOW,), 1.15),)
    plain = Job(options.ranks, options.repeat, seed=3)
    planted = replace(plain, faults=slow)
    apart = replace(planted, offset_ns=50e6, drift=1e-4)
    cases = (
        Case("rank 5 slow", planted, (_SLOW,)),
        Case("the same, old names", planted, (_SLOW,), is_renamed=True),
        Case("and clocks off", apart, (_SLOW,), is_renamed=True),
        Case("none slow", plain, (), is_renamed=True),
    )
    for case in cases:
        with tempfile.TemporaryDirectory() as folder:
            _case(base, case, Path(folder), options.hta)


def _case(base: TraceTemplate, case: Case, folder: Path, hta: str) -> None:
    traces, answer = folder / "traces", folder / "answer.json"
    traces.mkdir()
    times = timeline(base.step, case.job)
    for rank in range(case.job.ranks):
        write(
            _renamed(base) if case.is_renamed else base, times, rank, traces / f"rank{rank}.json.gz"
        )
    print(f"{case.name}: late ranks {list(case.slow)}", flush=True)
    cost = _run([hta, "-c", _HTA, str(traces), str(answer)])
    found = json.loads(answer.read_text())
    print(f"  HTA: {_said(cost)}, of which loading {found['load_s']:.1f} s")
    print(f"    potential stragglers: {found['stragglers']}")
    print(f"    computing and idle: {_hta_error(found['parts'], traces)}")
    for name in ("overlap", "idle"):
        print(f"    {name}: {str(found[name])[:160]}", flush=True)
    words = ["fleet", "analyze", str(traces / "*"), "--workers", "1", "--format", "json"]
    program = [sys.executable, "-m", "warpline", *words]
    cost = _run(["sh", "-c", 'exec "$@" > "$0"', str(answer), *program])
    found = json.loads(answer.read_text())
    print(f"  Warpline: {_said(cost)}")
    print(f"    {found['verdict']}")
    print(f"    stragglers: {[(one['rank'], one['cause']) for one in found['stragglers']]}")
    print(f"    {_waits(found['ranks'], times, len(base.steps_us))}", flush=True)


def _run(command: list[str]) -> Mapping[str, float]:
    start = [sys.executable, "-I", "-S", str(_ONE_RUN)]
    done = subprocess.run([*start, *command], stdout=subprocess.PIPE, text=True, check=True)
    cost: dict[str, float] = json.loads(done.stdout)
    return cost


def _said(cost: Mapping[str, float]) -> str:
    return f"{cost['wall_s']:.1f} s, {cost['cpu_s']:.1f} s of CPU, {cost['peak_mb']:.0f} MB"


def _renamed(base: TraceTemplate) -> TraceTemplate:
    """Return traces whose collectives have the names that older NCCL gave them."""
    events = [
        {**event, "name": "ncclKernel_AllReduce_RING_LL_Sum_bf16(ncclWorkElem)"}
        if is_collective(event)
        else event
        for event in base.events
    ]
    return replace(base, events=events)


def _hta_error(parts: Any, traces: Path) -> str:
    """Compare the times of each rank with sums over the same window: up to HTA's last kernel.

    The work of a rank is on one stream, so its durations add up to the time that it is busy.
    """
    if isinstance(parts, str):
        return parts
    idle = computing = 0.0
    for row in parts:
        with gzip.open(traces / f"rank{row['rank']}.json.gz", "rt", encoding="utf-8") as file:
            events = json.load(file)["traceEvents"]
        work = sorted((e for e in events if e.get("cat") in _GPU), key=lambda e: e["ts"])
        until = work[0]["ts"] + row["kernel_time(us)"] - 1
        within = [event for event in work if event["ts"] < until]
        window = within[-1]["ts"] + within[-1]["dur"] - work[0]["ts"]
        own = sum(e["dur"] for e in within if e["cat"] == "kernel" and not is_collective(e))
        off = row["idle_time(us)"] / (window - sum(e["dur"] for e in within)) - 1
        idle = max(idle, abs(off))
        computing = max(computing, abs(row["compute_time(us)"] / own - 1))
    return f"off by up to {computing:.1%} and {idle:.1%}"


def _waits(ranks: Any, times: Timeline, steps: int) -> str:
    """Compare the waits of all ranks per training step with the planted ones."""
    planted = (times.arrival_ns.max(axis=0) - times.arrival_ns).sum()
    planted /= times.arrival_ns.shape[1] * steps
    found = sum(row["wait_ns"] for row in ranks)
    return f"waits: {found / 1e6:.2f} ms per step, planted {planted / 1e6:.2f} ms"


if __name__ == "__main__":
    main()
