"""The agent's cost, in ns and instructions: per launch, call and NVTX range; a PyTorch step.

Usage: python benchmarks/capture/agent_cost.py [--nsys NSYS] [--out DIRECTORY] [--limit 240]
           [--include DIRECTORY] [--stand-in BUILD]

On a GPU machine with nvcc; PyTorch for the step. Programs live together and work in turn
(../turns.py): `alone`, `cupti` (only CUPTI's records of kernels, the lower bound for every
profiler), `warpline` and `nsys`. A step is 1,000 launches of PyTorch and a synchronization.

Instructions are those of the program's thread in user mode, counted step by step (instructions.c),
which works where the machine has no hardware counters; whether perf_event_open could count them is
said, too. The agent's part of a launch is `warpline` less `cupti`.

--stand-in names a build of native/ with WARPLINE_TESTS=ON: its stand-in for CUDA replaces the GPU.
Where valgrind is there, the instructions of the agent are then listed by function, those of
the thread that decodes CUPTI's buffers among them. Its nanoseconds say nothing about CUDA.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import platform
import shutil
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import callgrind  # noqa: E402 - beside this directory
import cuda_cost  # noqa: E402
import nvtx_cost  # noqa: E402
import turns  # noqa: E402

COUNTED = 20  # of each kind, step by step: stepping takes some 3 us an instruction
STEPPING_S = 15.0  # at most, of a program
REPEATED = 2_000  # of each kind under callgrind, and twice as many
TURNS, WARM = 40, 4
LAUNCHES = 1_000  # of a step
KINDS = ("launch", "call", "range")
NAMES = {"alone": "alone", "kernels": "cupti", "ours": "warpline", "nsys": "nsys"}
Figures = dict[str, dict[str, float]]  # kind of event -> profiler -> figure


def build(folder: Path, include: Path, *, has_gpu: bool) -> Path:
    """Compile the program."""
    program, source = folder / "agent_cost", HERE / "agent_cost.cu"
    compiler = ["nvcc"] if has_gpu else [os.environ.get("CXX", "g++"), "-x", "c++", "-std=c++17"]
    command = [*compiler, "-O2", f"-I{include}", "-o", program, source, "-ldl"]
    subprocess.run([str(word) for word in command], check=True)
    if has_gpu:
        cuda_cost.build_floor(folder)
    return program


def prefixes(folder: Path, nsys: str | None) -> dict[str, list[str]]:
    """Return the command prefix by profiler."""
    every = cuda_cost.prefixes(folder, nsys)
    return {name: every[kind] for kind, name in NAMES.items() if kind in every}


def torch_step(folder: str) -> None:
    """Take turns; each is a step of PyTorch, in microseconds."""
    import torch  # noqa: PLC0415 - the program alone needs it

    values = torch.zeros(64, device="cuda")

    def work() -> turns.Figures:
        begun = time.perf_counter()
        for _ in range(LAUNCHES):
            values.add_(1.0)
        torch.cuda.synchronize()
        return {"step": (time.perf_counter() - begun) * 1e6}

    turns.serve(folder, work)


def in_sets(
    before: Mapping[str, Sequence[str]], program: Callable[[str], list[str]], until: float
) -> list[cuda_cost.Set]:
    """Return sets of turns, as many as fit; at least one."""
    commands = {
        name: partial(lambda prefix, folder: [*prefix, *program(folder)], prefix)
        for name, prefix in before.items()
    }
    sets: list[cuda_cost.Set] = []
    longest = 0.0
    while not sets or time.monotonic() + longest < until:
        begun = time.monotonic()
        sets.append(turns.in_turn(commands, TURNS, WARM))
        longest = max(longest, time.monotonic() - begun)
    return sets


def medians(sets: Sequence[cuda_cost.Set]) -> Figures:
    """Return the medians of the sets: alone as it is, of others what they add to it."""
    found: Figures = {}
    for figure in sets[0][0]["alone"]:
        found[figure] = {
            name: statistics.median(
                turns.median(one, name, figure)
                if name == "alone"
                else turns.added(one, name, "alone", figure)
                for one in sets
            )
            for name in sets[0][0]
        }
    return found


def instructions(before: Mapping[str, Sequence[str]], program: Path, folder: Path) -> Figures:
    """Return the instructions of the program's thread per event, in the same way."""
    counter = folder / "instructions"
    source = HERE / "instructions.c"
    subprocess.run([os.environ.get("CC", "cc"), "-O2", "-o", counter, source], check=True)
    counts: dict[str, list[float]] = {}
    for name, prefix in before.items():
        file = folder / f"{name}.counts"
        words = [*prefix, counter, file, program, "step", COUNTED]
        if not _ends([str(word) for word in words]):
            print(f"{name}: stepping took more than {STEPPING_S:.0f} s or failed", file=sys.stderr)
            continue
        *every, nothing = (int(line) / COUNTED for line in file.read_text().split())
        counts[name] = [value - nothing for value in every]
    if "alone" not in counts:
        return {}
    return {
        kind: {
            name: values[place] - (0 if name == "alone" else counts["alone"][place])
            for name, values in counts.items()
        }
        for place, kind in enumerate(KINDS)
    }


def _ends(command: Sequence[str]) -> bool:
    """Run a command and return whether it ends well in time; what it started ends with it."""
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(command, stdout=quiet, stderr=quiet, start_new_session=True)
    try:
        return process.wait(STEPPING_S) == 0
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return False


def by_function(prefix: Sequence[str], program: Path, folder: Path) -> dict[str, Counter[str]]:
    """Return the instructions per event of each function, of all threads, under callgrind."""
    found = {}
    for kind in KINDS:
        counts = []
        for times in (REPEATED, 2 * REPEATED):  # the difference is without what happens once
            output = folder / f"{kind}.{times}"
            words = [*prefix, "valgrind", "--tool=callgrind", f"--callgrind-out-file={output}"]
            words += [str(program), "times", kind, str(times)]
            subprocess.run(words, check=True, capture_output=True)
            counts.append(callgrind.parse(output.read_text(errors="replace")))
        counts[1].subtract(counts[0])
        found[kind] = Counter({name: round(n / REPEATED, 1) for name, n in counts[1].items()})
    return found


def perf_event() -> str:
    """Say whether the kernel lets a process count its own instructions in hardware."""
    numbers = {"x86_64": 298, "aarch64": 241}
    if platform.machine() not in numbers:
        return "unknown on this machine"
    # type hardware, size, instructions, no sample, and bits: disabled, not kernel, not hypervisor
    attributes = struct.pack("<IIQQQQQ", 0, 120, 1, 0, 0, 0, 1 | 1 << 5 | 1 << 6).ljust(120, b"\0")
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = libc.syscall(numbers[platform.machine()], attributes, 0, -1, -1, 0)
    if descriptor < 0:
        return f"not permitted: {os.strerror(ctypes.get_errno())}"
    os.close(descriptor)
    return "permitted"


def table(title: str, figures: Figures, form: str) -> list[str]:
    """Return the rows of figures."""
    names = list(next(iter(figures.values())))
    heads = ["alone", *(f"+{name}" for name in names[1:])]
    lines = [f"{title:28}" + "".join(f"{head:>12}" for head in heads) + f"{'of nsys':>10}"]
    for kind, values in figures.items():
        has_both = values.get("nsys") and "warpline" in values
        share = values["warpline"] / values["nsys"] if has_both else None
        cells = "".join(f"{format(value, form):>12}" for value in values.values())
        lines.append(f"  {kind:26}{cells}" + (f"{share:>9.2f}x" if share is not None else ""))
    return lines


def functions(found: Mapping[str, Counter[str]]) -> list[str]:
    """Return the functions of the agent by event, what they take most first."""
    lines = []
    for kind, counts in found.items():
        agent = Counter({n: c for n, c in counts.items() if "warpline_agent" in n})
        lines.append(f"{kind}: {sum(agent.values()):.0f} instructions in the agent, all threads")
        for name, count in agent.most_common():
            if count >= 1:
                function = name.partition(": ")[2].replace("(anonymous namespace)::", "")
                function = function.partition("(")[0].replace("warpline::agent::", "")
                lines.append(f"  {count:8.1f}  {function}")
        rest = [(name, count) for name, count in counts.most_common() if name not in agent]
        others = ", ".join(f"{name} {count:.0f}" for name, count in rest[:4])
        lines.append(f"  elsewhere {sum(count for _, count in rest):.0f}: {others}")
    return lines


def stand_in(build_folder: Path) -> dict[str, str]:
    """Return the variables that name the stand-in for CUDA, and the build's agent."""
    tests = build_folder.resolve() / "agent" / "tests"
    named = {"FAKE_CUDA": tests / "libcuda.so.1", "FAKE_CUPTI": tests / "cupti13/libcupti.so.13"}
    # The installed one has no names of functions.
    named["WARPLINE_AGENT"] = build_folder.resolve() / "libwarpline_agent.so"
    for path in named.values():
        if not path.exists():
            raise SystemExit(f"no {path}: build native/ with -DWARPLINE_TESTS=ON")
    return {name: str(path) for name, path in named.items()}


def measure(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Return all figures."""
    begun = time.monotonic()
    has_gpu = options.stand_in is None
    if not has_gpu:
        os.environ.update(stand_in(options.stand_in))
    program = build(folder, options.include or nvtx_cost.find_headers(), has_gpu=has_gpu)
    before = prefixes(folder, options.nsys if has_gpu else None)
    found: dict[str, Any] = {"perf_event_open": perf_event(), "machine": platform.node()}
    if has_gpu:
        found["instructions"] = instructions(before, program, folder)
    shares = (0.55, 0.95) if has_gpu else (0.3, 0.3)
    sets = in_sets(
        before, lambda at: [str(program), "turns", at], begun + shares[0] * options.limit
    )
    found |= {"ns": medians(sets), "sets": len(sets)}
    if has_gpu:
        own = [sys.executable, __file__, "--torch-step"]
        sets = in_sets(before, lambda at: [*own, at], begun + shares[1] * options.limit)
        found |= {"step_us": medians(sets), "step_sets": len(sets)}
    elif callgrind.missing() is None:
        found["functions"] = by_function(before["warpline"], program, folder)
    return found | {"seconds": round(time.monotonic() - begun, 1)}


def main() -> int:
    """Print the table and write agent_cost.json."""
    parser = argparse.ArgumentParser(description="What the agent costs.")
    parser.add_argument("--nsys", default=os.environ.get("NSYS"), help="its path")
    parser.add_argument("--out", type=Path, default=Path(os.environ.get("OUT", ".")))
    parser.add_argument("--limit", type=float, default=240.0, help="seconds")
    parser.add_argument("--include", type=Path, help="the directory of nvtx3/")
    parser.add_argument("--stand-in", type=Path, help="a build with the stand-in for CUDA")
    parser.add_argument("--torch-step", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.torch_step:
        torch_step(options.torch_step)
        return 0
    if options.stand_in is None and shutil.which("nvcc") is None:
        print("nvcc is not found: use --stand-in BUILD without a GPU", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as name:
        found = measure(options, Path(name))
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "agent_cost.json").write_text(json.dumps(found, indent=1))
    lines = functions(found.get("functions", {}))
    if found.get("instructions"):
        lines += table(f"instructions, {COUNTED} of each", found["instructions"], ",.0f")
    lines.append(f"  perf_event_open: {found['perf_event_open']}")
    lines += table(f"ns, {found['sets']} sets of {TURNS} turns", found["ns"], ",.0f")
    if "step_us" in found:
        title = f"us, {found['step_sets']} sets of {TURNS} turns"
        lines += table(title, found["step_us"], ",.0f")
    print("\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
