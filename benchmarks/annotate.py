"""Overhead of annotations in a Python program, compared with the plain nvtx package.

Usage: python benchmarks/annotate.py [--rounds 15] [--number 20000]

Both are timed alternately in one process, first without a profiler and then recorded by the agent.
Figures are medians over the rounds in ns per range, without the loop. The second table shows the
overhead of ``python -m warpline.annotate`` per call, for the program's own and for other functions.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import timeit
from pathlib import Path
from typing import Any

from warpline.capture.machine.agent import agent_library
from warpline.capture.session.agent_config import AgentConfig
from warpline.capture.session.facts import session_facts
from warpline.capture.session.session import create_session, reserve_folder

SETUP = """
import nvtx, warpline
def bare(): pass
ours, theirs = warpline.annotate("f")(bare), nvtx.annotate("f")(bare)
our_range, their_range = warpline.annotate("w"), nvtx.annotate("w")
"""

# Operation -> (code with warpline, code with nvtx).
PAIRS = {
    "decorated function": ("ours()", "theirs()"),
    "with annotate(...)": (
        "with warpline.annotate('x'): pass",
        "with nvtx.annotate('x'): pass",
    ),
    "with annotate(..., 3 attributes)": (
        "with warpline.annotate('x', color='red', domain='d', category='c'): pass",
        "with nvtx.annotate('x', color='red', domain='d', category='c'): pass",
    ),
    "with, made before": ("with our_range: pass", "with their_range: pass"),
    "push and pop": (
        "warpline.range_push('x'); warpline.range_pop()",
        "nvtx.push_range('x'); nvtx.pop_range()",
    ),
    "start and end": (
        "warpline.end_range(warpline.start_range('x'))",
        "nvtx.end_range(nvtx.start_range('x'))",
    ),
    "mark": ("warpline.mark('x')", "nvtx.mark('x')"),
}

CALLS = """
import json, timeit
def own(): pass
def times(code): return min(timeit.repeat(code, globals=globals(), number=20000, repeat=9)) / 20000
from posixpath import splitdrive
print(json.dumps({"own": times("own()"), "foreign": times("splitdrive('/x')")}))
"""


def measure(rounds: int, number: int) -> dict[str, tuple[float, float]]:
    """Return the medians of every pair in ns, measured in this process."""
    scope: dict[str, object] = {}
    exec(SETUP, scope)
    loop_ns = min(timeit.repeat("pass", number=number, repeat=rounds)) / number * 1e9
    times: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in PAIRS}
    for _ in range(rounds):
        for name, pair in PAIRS.items():
            for statement, found in zip(pair, times[name], strict=True):
                seconds = timeit.timeit(statement, globals=scope, number=number)
                found.append(seconds / number * 1e9 - loop_ns)
    return {
        name: (statistics.median(ours), statistics.median(theirs))
        for name, (ours, theirs) in times.items()
    }


def run(arguments: list[str], *, is_recorded: bool) -> dict[str, Any]:
    """Return the JSON printed by a Python process, run alone or recorded."""
    with tempfile.TemporaryDirectory() as folder:
        environment = dict(os.environ)
        if is_recorded:
            output = Path(folder, "run.warpline")
            facts = session_facts(output, command=[], options={}, environment={}, collected=[])
            session = create_session(reserve_folder(output), AgentConfig(), facts)
            environment |= session.variables(agent_library())
        done = subprocess.run(
            [sys.executable, *arguments], env=environment, stdout=subprocess.PIPE, check=True
        )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def print_ranges(options: argparse.Namespace) -> None:
    """Print the table of annotations."""
    words = ["--measure", f"--rounds={options.rounds}", f"--number={options.number}"]
    print(f"{'ns per range':34} {'warpline':>9} {'nvtx':>9} {'ratio':>7}")
    for is_recorded in (False, True):
        print("recorded by the agent" if is_recorded else "nothing listens")
        found = run([__file__, *words], is_recorded=is_recorded)
        for name, (ours, theirs) in found.items():
            print(f"  {name:32} {ours:9.0f} {theirs:9.0f} {ours / max(theirs, 1):7.2f}")


def print_calls() -> None:
    """Print the overhead of a range for every function."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "calls.py")
        script.write_text(CALLS, encoding="utf-8")
        bare = run([str(script)], is_recorded=False)
        traced = run(["-m", "warpline.annotate", str(script)], is_recorded=True)
    print(f"{'ns per call, -m warpline.annotate':34} {'recorded':>9} {'alone':>9}")
    for name in bare:
        print(f"  {name + ' function':32} {traced[name] * 1e9:9.0f} {bare[name] * 1e9:9.0f}")


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description="Overhead of annotations.")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--number", type=int, default=20000)
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(options.rounds, options.number)))
        return
    print_ranges(options)
    print_calls()


if __name__ == "__main__":
    main()
