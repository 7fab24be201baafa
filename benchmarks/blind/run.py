"""Run a program of the blind set as published ("bad") or with its published fix ("fixed").

Usage: PYTHONPATH=benchmarks python benchmarks/blind/run.py NAME bad|fixed [--steps N]
           [--seconds S] [--turns FOLDER] [--tiny] [--device cpu] [--check]

Prints `ms_per_step VALUE`: the mean over N steps after the warm-up, or over as many as S seconds
allow. --check compares the results of both variants instead. --turns runs steps on request from
turns.py. The measured steps are enclosed by cuProfilerStart and -Stop. Programs for several ranks
are started by torchrun.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import itertools
import os
import sys
from collections.abc import Callable
from typing import Any

import turns
from blind.harness import (
    RANK,
    RANKS,
    Framework,
    Setting,
    Step,
    capture_range,
    compare,
    read_pairs,
    timed,
    warmed,
)

CHECKED_STEPS = 3


def marked(step: Step, marks: str) -> Callable[[], object]:
    """Return a function that runs the next step, in an NVTX range if the program has one."""
    numbers = itertools.count()
    if not marks:
        return lambda: step(next(numbers))
    import torch  # noqa: PLC0415 - the programs that have ranges are PyTorch's

    def following() -> object:
        number = next(numbers)
        with torch.cuda.nvtx.range(marks.format(number)):
            return step(number)

    return following


def take_turns(
    folder: str, step: Callable[[], object], framework: Framework, options: argparse.Namespace
) -> None:
    """Run steps on request, after an uncounted one; a profiler records only the counted ones."""
    if RANKS > 1:
        import workloads  # noqa: PLC0415 - has programs in PyTorch

        def quiet() -> None:
            step()

        workloads.take_turns(folder, quiet, options.steps, bounded=False)
        return

    def work() -> dict[str, float]:
        framework.finish(step())
        with capture_range():
            return timed(step, framework, options.steps, options.seconds)

    turns.serve(folder, work)


def check(make: Callable[[Setting], Step], framework: Framework, options: Any) -> int:
    """Compare the variants, print the difference and return the exit status."""
    pair = read_pairs()[options.name]
    settings = [Setting(bad, options.device, options.tiny) for bad in (True, False)]
    found = compare(make, framework, settings, CHECKED_STEPS)
    if RANK == 0:
        print(f"{pair.name}: results differ by {found:.2e}, tolerance {pair.tolerance:.0e}")
    return int(not found <= pair.tolerance)


def main() -> int:
    """Run one program."""
    pairs = read_pairs()
    parser = argparse.ArgumentParser(description="Run a program of the blind set.")
    parser.add_argument("name", choices=[p.name for p in pairs.values() if p.framework != "CUDA"])
    parser.add_argument("variant", choices=("bad", "fixed"), nargs="?", default="bad")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--turns", metavar="FOLDER", help="run steps on request from turns.py")
    parser.add_argument("--tiny", action="store_true", help="tiny sizes")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--check", action="store_true", help="compare the variants' results")
    options = parser.parse_args()
    if options.device == "cpu":
        os.environ.setdefault("TRITON_INTERPRET", "1")
    module = importlib.import_module(f"blind.{pairs[options.name].module}")
    make: Callable[[Setting], Step] = getattr(module, options.name)
    framework: Framework = module.FRAMEWORK
    with contextlib.ExitStack() as around:
        if RANKS > 1:
            around.enter_context(module.process_group(options.device))
        if options.check:
            return check(make, framework, options)
        setting = Setting(options.variant == "bad", options.device, options.tiny)
        step = marked(warmed(make, framework, setting), pairs[options.name].marks)
        if options.turns is not None:
            take_turns(options.turns, step, framework, options)
            return 0
        with capture_range():
            found = timed(step, framework, options.steps, options.seconds)
        if RANK == 0:
            print(f"ms_per_step {found['mean']:.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
