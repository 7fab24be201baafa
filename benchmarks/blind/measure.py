"""Record the programs of the blind set, or time both variants of each in turns, on a GPU.

Usage: PYTHONPATH=src:benchmarks python benchmarks/blind/measure.py record|time FOLDER [NAME...]
           [--variant bad] [--group 5] [--turns 6] [--steps 20] [--seconds 1] [--limit SECONDS]
           [--recorded]

record writes FOLDER/NAME.VARIANT.warpline, and FOLDER/recorded.json with the mean recorded step.
time writes FOLDER/times.json: the mean step in ms of each turn of the bad and the fixed variant,
neither of them recorded. With --recorded, both variants also run under Warpline in the same turns,
which writes recordings. Programs start in groups, so that imports overlap; only one works at a
time. The programs in CUDA C++ are compiled with nvcc first. Pairs that need more GPUs than there
are, are skipped. predict.py has the next steps.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import turns
from blind.harness import HERE, Pair, read_pairs

VARIANTS = ("bad", "fixed")
Timed = dict[str, dict[str, list[float]]]


def gpus() -> int:
    """Return the number of GPUs."""
    found = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False)
    return len(found.stdout.splitlines())


def built(pair: Pair, folder: Path) -> Path:
    """Return the compiled program of a pair in CUDA C++."""
    output = folder / pair.name
    if not output.exists():
        words = ["nvcc", "-O2", "-std=c++17", "-arch=native", "-o", str(output)]
        subprocess.run([*words, str(HERE / pair.module)], check=True)
    return output


def program(pair: Pair, variant: str, folder: Path, options: argparse.Namespace) -> list[str]:
    """Return a program's command without the directory of its turns."""
    if pair.framework == "CUDA":
        words = [str(built(pair, folder))]
    else:
        words = [sys.executable]
        if pair.gpus > 1:
            words += ["-m", "torch.distributed.run", "--standalone"]
            words += ["--nproc-per-node", str(pair.gpus)]
        words += [str(HERE / "run.py"), pair.name]
    return [*words, variant, "--steps", str(options.steps), "--seconds", str(options.seconds)]


def started(words: Sequence[str], output: Path | None, folder: str) -> list[str]:
    """Return the whole command, recorded if there is an output."""
    command = [*words, "--turns", folder]
    if output is None:
        return command
    ours = [sys.executable, "-m", "warpline", "profile", "-q", "-f", "true"]
    ours += ["-c", "cudaProfilerApi", "--capture-range-end=repeat", "-o", str(output)]
    return [*ours, "--", *command]


@contextlib.contextmanager
def ready(commands: dict[str, turns.Command]) -> Iterator[dict[str, turns.Worker]]:
    """Start the programs together; a program that fails is reported and left out."""
    running = {name: turns.Worker(command) for name, command in commands.items()}
    able: dict[str, turns.Worker] = {}
    try:
        for name, worker in running.items():
            try:
                worker.wait_until_ready()
                able[name] = worker
            except turns.TurnError as error:
                print(error, flush=True)
        yield able
    finally:
        for worker in running.values():
            worker.finish()
        for worker in running.values():
            worker.close()


def record(
    pairs: Sequence[Pair], build: Path, options: argparse.Namespace, found: dict[str, float]
) -> None:
    """Record one variant of each pair of a group."""
    commands: dict[str, turns.Command] = {}
    for pair in pairs:
        output = options.folder / f"{pair.name}.{options.variant}.warpline"
        words = program(pair, options.variant, build, options)
        commands[pair.name] = partial(started, words, output)
    with ready(commands) as running:
        for name, worker in running.items():
            try:
                found[name] = worker.turn()["mean"]
            except turns.TurnError as error:
                print(error, flush=True)


def take_times(
    pairs: Sequence[Pair], build: Path, options: argparse.Namespace, found: Timed
) -> None:
    """Time all variants of each pair of a group in turns, after an uncounted turn."""
    ours = (False, True) if options.recorded else (False,)
    kinds = [(variant, is_recorded) for is_recorded in ours for variant in VARIANTS]
    commands: dict[str, turns.Command] = {}
    for pair, (variant, is_recorded) in itertools.product(pairs, kinds):
        output = options.folder / f"{pair.name}.{variant}.warpline" if is_recorded else None
        words = program(pair, variant, build, options)
        commands[f"{pair.name} {kind(variant, is_recorded=is_recorded)}"] = partial(
            started, words, output
        )
    with ready(commands) as running:
        for pair in pairs:
            times: dict[str, list[float]] = {kind(v, is_recorded=r): [] for v, r in kinds}
            workers = {name: running.get(f"{pair.name} {name}") for name in times}
            try:
                for turn, (name, worker) in itertools.product(
                    range(options.turns + 1), workers.items()
                ):
                    if worker is None:
                        continue
                    mean = worker.turn()["mean"]
                    if turn:
                        times[name].append(mean)
            except turns.TurnError as error:
                print(error, flush=True)
            found[pair.name] = times


def kind(variant: str, *, is_recorded: bool) -> str:
    """Return the name of a variant's times."""
    return f"{variant} recorded" if is_recorded else variant


def in_groups(
    pairs: Sequence[Pair],
    options: argparse.Namespace,
    work: Callable[[Sequence[Pair]], None],
    write: Callable[[], object],
) -> None:
    """Work through the pairs in groups until the time limit, and write what there is after each."""
    begun = time.monotonic()
    for first in range(0, len(pairs), options.group):
        group = pairs[first : first + options.group]
        if time.monotonic() - begun > options.limit:
            print(f"{group[0].name} and the following pairs skipped: time limit reached")
            return
        work(group)
        write()
        print(f"{time.monotonic() - begun:.0f} s:", *(p.name for p in group), flush=True)


def write_json(path: Path, found: object) -> None:
    """Write what was found so far."""
    path.write_text(json.dumps(found, indent=1) + "\n")


def main() -> int:
    """Record or time."""
    parser = argparse.ArgumentParser(description="Record or time the programs of the blind set.")
    parser.add_argument("what", choices=("record", "time"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--variant", choices=VARIANTS, default="bad", help="of what to record")
    parser.add_argument("--recorded", action="store_true", help="also time recorded programs")
    parser.add_argument("--group", type=int, default=5, help="pairs started together")
    parser.add_argument("--turns", type=int, default=6)
    parser.add_argument("--steps", type=int, default=20, help="per turn, at most")
    parser.add_argument("--seconds", type=float, default=1.0, help="per turn, at most")
    parser.add_argument("--limit", type=float, default=float("inf"), help="no group starts later")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    known = read_pairs()
    there = gpus()
    pairs = [known[n] for n in options.names or known if known[n].gpus <= there]
    with tempfile.TemporaryDirectory() as name:
        build = Path(name)
        if options.what == "record":
            steps: dict[str, float] = {}
            file = options.folder / "recorded.json"
            write = partial(write_json, file, steps)
            in_groups(pairs, options, lambda group: record(group, build, options, steps), write)
        else:
            times: Timed = {}
            file = options.folder / "times.json"
            write = partial(write_json, file, times)
            in_groups(pairs, options, lambda group: take_times(group, build, options, times), write)
    return 0


if __name__ == "__main__":
    sys.exit(main())
