"""Compare recorded runs of GPU programs that are alike, or slower by a known share.

Usage: PYTHONPATH=src:benchmarks python benchmarks/compare/planted.py alike|slowed FOLDER [NAME...]
           [--runs 24] [--shares 0.01 0.03 0.05 0.1] [--steps 30] [--group 26] [--limit S] [--cpu]
       PYTHONPATH=src:benchmarks python benchmarks/compare/planted.py judge FOLDER

`alike` records each program --runs times. `slowed` records it --runs times as it is, and as often
with each share planted in a kernel, in the CPU's work and in a copy, or in communication; in each
round every variant runs once, in an order that changes. Every run is a process of its own. A group
of processes starts together, so that imports overlap; then one works after the other, and none
starts or ends meanwhile. Both write FOLDER/runs.json and a profile of each run for `judge`, which
compares them: alike runs in turn (3 pairs), one group after another (3 and 3), and one with one;
slowed runs in 10 and in 5 pairs, and their originals with each other, as alike runs (4 pairs).
planted_programs.py describes the programs, and planted_ranks.py `data_parallel`, which needs two
GPUs and runs only if named. Exits with 1 if there was nothing to compare.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import gzip
import itertools
import json
import os
import pickle
import random
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeVar

import turns
from compare.false_alarms import limits
from compare.planted_programs import KINDS, PROGRAMS

import warpline
from warpline.comparison.compare import compare
from warpline.documents.comparison import profile
from warpline.result.comparison import Comparison
from warpline.result.profile import Profile
from warpline.trace import Run

HERE = Path(__file__).resolve().parent
T = TypeVar("T")
PLANTED_KERNEL = "scaled"
OF_RANKS = "data_parallel"  # planted_ranks.py; the others are of one GPU
RANKS = 2
PAIRS = (10, 5)  # of slowed runs
ALIKE_PAIRS = 3  # of programs as they are
ORIGINAL_PAIRS = 4  # of the runs without a plant beside slowed ones


class Variant(NamedTuple):
    """A program with a plant.

    Attributes:
        program: Its name.
        kind: What is made slower: none, kernel, host, copy or communication.
        share: By how much of a step.
    """

    program: str
    kind: str = "none"
    share: float = 0.0


class Made(NamedTuple):
    """One run.

    Attributes:
        variant: What ran.
        round: Number of its round.
        base_ns: A step before the plant, measured by the program.
        mean_ns: The mean counted step, likewise.
        name: Name of its recording and of its profile.
    """

    variant: Variant
    round: int
    base_ns: float
    mean_ns: float
    name: str


def command(made: Variant, output: Path, options: argparse.Namespace, folder: str) -> list[str]:
    """Return the command of a recorded run."""
    words = [sys.executable, "-m", "warpline", "profile", "-q", "-f", "true", "-o", str(output)]
    if not options.cpu:
        words += ["-c", "cudaProfilerApi", "--capture-range-end=stop"]
    words += ["--", sys.executable]
    if made.program == OF_RANKS:
        words += ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(RANKS)]
        words += [str(HERE / "planted_ranks.py")]
    else:
        words += [str(HERE / "planted_programs.py"), made.program]
    words += ["--plant", made.kind, "--share", str(made.share), "--steps", str(options.steps)]
    return [*words, "--turns", folder, *(["--cpu"] if options.cpu else [])]


def planned(options: argparse.Namespace) -> Iterator[tuple[int, Variant]]:
    """Yield the runs of each program, round by round."""
    for name in options.names or PROGRAMS:
        variants = [Variant(name)]
        if options.what == "slowed":
            kinds = ("communication",) if name == OF_RANKS else KINDS[1:]
            slow = itertools.product(kinds, options.shares)
            variants += [Variant(name, kind, share) for kind, share in slow]
        order = random.Random(name)
        for number in range(options.runs):
            order.shuffle(variants)
            for variant in variants:
                yield number, variant


def make(options: argparse.Namespace) -> list[Made]:
    """Run everything in groups, until the time limit."""
    begun = time.monotonic()
    found: list[Made] = []
    for group in chunks(list(planned(options)), options.group):
        if time.monotonic() - begun > options.limit:
            print(f"stopped before {group[0]}: time limit reached")
            break
        names = {f"{len(found) + at:04}": item for at, item in enumerate(group)}
        commands: dict[str, turns.Command] = {
            name: partial(command, item[1], options.folder / f"{name}.warpline", options)
            for name, item in names.items()
        }
        with turns.workers(commands) as running:
            for name, worker in running.items():
                figures = worker.turn()
                number, variant = names[name]
                found.append(Made(variant, number, figures["base"], figures["mean"], name))
        write_runs(options.folder, found)
        done = f"{len(found)} runs, {group[-1][1].program}"
        print(f"{time.monotonic() - begun:.0f} s: {done}", flush=True)
    return found


def chunks(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Yield successive parts of a sequence; the last one may be shorter."""
    for first in range(0, len(items), size):
        yield items[first : first + size]


def write_runs(folder: Path, found: Sequence[Made]) -> None:
    """Write what ran."""
    (folder / "runs.json").write_text(json.dumps(found, indent=None))


def read_runs(folder: Path) -> list[Made]:
    """Return what ran."""
    rows = json.loads((folder / "runs.json").read_text())
    return [Made(Variant(*row[0]), *row[1:]) for row in rows]


def profiled(path: Path) -> Profile:
    """Return the profile of a recording."""
    return profile(Run(warpline.open(path), None), keep_going=False)


def write_profiles(folder: Path, found: Sequence[Made]) -> None:
    """Profile all recordings, and delete them."""
    paths = [folder / f"{made.name}.warpline" for made in found]
    with concurrent.futures.ProcessPoolExecutor(os.cpu_count()) as pool:
        profiles = dict(zip([made.name for made in found], pool.map(profiled, paths), strict=True))
    for program in dict.fromkeys(made.variant.program for made in found):
        own = {made.name: profiles[made.name] for made in found if made.variant.program == program}
        with gzip.open(folder / f"{program}.pickle.gz", "wb", compresslevel=6) as file:
            pickle.dump(own, file)
    for path in paths:
        path.unlink()


class Judged(NamedTuple):
    """What `compare` says of two sides, and what is true.

    Attributes:
        program: Name of the program.
        how: Which runs were compared.
        planted: The variant of the second side.
        clock: Ratio of the steps by the program's clock, the median over pairs.
        comparison: What `compare` says.
    """

    program: str
    how: str
    planted: Variant
    clock: float
    comparison: Comparison


def judged(
    how: str,
    before: Sequence[Made],
    after: Sequence[Made],
    profiles: dict[str, Profile],
    *,
    paired: bool,
) -> Judged:
    """Compare two sides."""
    sides = [[profiles[made.name] for made in side] for side in (before, after)]
    clock = statistics.median(b.mean_ns / a.mean_ns for a, b in zip(before, after, strict=True))
    variant = after[0].variant
    return Judged(variant.program, how, variant, clock, compare(*sides, paired=paired))


def alike(
    found: Sequence[Made], profiles: dict[str, Profile], pairs: int = ALIKE_PAIRS
) -> Iterator[Judged]:
    """Compare runs of the same program: each run once in turn, once not, some once alone."""
    for program in dict.fromkeys(made.variant.program for made in found):
        runs = [m for m in found if m.variant == Variant(program)]
        size = 2 * pairs
        for first in range(0, len(runs) - size + 1, size):
            some = runs[first : first + size]
            # The order of a pair alternates, as `warpline gate` runs them.
            even = [some[2 * pair + pair % 2] for pair in range(pairs)]
            odd = [some[2 * pair + 1 - pair % 2] for pair in range(pairs)]
            yield judged("in turn", even, odd, profiles, paired=True)
            halves = some[:pairs], some[pairs:]
            yield judged("not in turn", *halves, profiles, paired=False)
            yield judged("one run each", some[:1], some[-1:], profiles, paired=False)


def slowed(found: Sequence[Made], profiles: dict[str, Profile]) -> Iterator[Judged]:
    """Compare slower runs with the original ones of the same rounds."""
    by_variant: dict[Variant, dict[int, Made]] = {}
    for made in found:
        by_variant.setdefault(made.variant, {})[made.round] = made
    for variant, rounds in by_variant.items():
        if variant.kind == "none":
            continue
        own = by_variant[Variant(variant.program)]
        shared = sorted(rounds.keys() & own.keys())
        for pairs in PAIRS:
            for some in chunks(shared, pairs):
                if len(some) == pairs:
                    sides = [own[n] for n in some], [rounds[n] for n in some]
                    yield judged(f"{pairs} pairs", *sides, profiles, paired=True)


def is_top(said: Judged) -> bool:
    """Return whether the planted part is the largest contribution."""
    if not said.comparison.parts:
        return False
    top = said.comparison.parts[0]
    if said.planted.kind == "host":
        return top.kind == "idle"
    if said.planted.kind == "copy":
        return top.category == "copy-h2d"
    if said.planted.kind == "communication":
        return top.category == "collective"
    kernels = [item for item in said.comparison.items if item.kind == "kernel"]
    return top.kind == "busy" and PLANTED_KERNEL in max(kernels, key=lambda i: abs(i.delta_ns)).name


def line(said: Judged) -> str:
    """Return a comparison in one line."""
    step, parts = said.comparison.step, said.comparison.parts
    ratio = "-"
    if step is not None and step.low is not None and step.high is not None:
        bounds = f"{step.low - 1:+.2%} to {step.high - 1:+.2%}"
        ratio = f"{step.ratio - 1:+.2%} ({bounds}, p {step.p:.2g})"
    kind = f"{said.planted.kind} {said.planted.share:.0%}" if said.planted.share else "-"
    top = f"{parts[0].category} ({parts[0].kind}) {parts[0].delta_ns / 1e6:+.3f}" if parts else "-"
    ms = "-" if step is None else f"{step.before_ns / 1e6:.3f} to {step.after_ns / 1e6:.3f} ms"
    return (
        f"{said.program:16} {said.how:12} {kind:16} clock {said.clock - 1:+.2%}"
        f"  {said.comparison.verdict:9} {ms}, {ratio}  {top}"
    )


def judge(folder: Path) -> int:
    """Print what `compare` says of everything that ran, and shares with their limits."""
    found = read_runs(folder)
    profiles: dict[str, Profile] = {}
    for path in sorted(folder.glob("*.pickle.gz")):
        with gzip.open(path, "rb") as file:
            profiles |= pickle.load(file)
    is_slowed = any(made.variant.kind != "none" for made in found)
    said = list(alike(found, profiles, ORIGINAL_PAIRS if is_slowed else ALIKE_PAIRS))
    if is_slowed:
        said += slowed(found, profiles)
    for item in said:
        print(line(item))
    print()
    groups: dict[tuple[str, float], list[Judged]] = {}
    for item in said:
        groups.setdefault((item.how, item.planted.share), []).append(item)
    for (how, share), items in sorted(groups.items()):
        verdicts = [item.comparison.verdict for item in items]
        what = f"{share:.0%} slower, {how}" if share else f"alike, {how}"
        counts = ", ".join(f"{verdicts.count(v)} {v}" for v in dict.fromkeys(sorted(verdicts)))
        wanted = [v == "slower" if share else v in ("faster", "slower") for v in verdicts]
        low, high = limits(sum(wanted), len(wanted))
        name = "found" if share else "flagged"
        share_text = f"{sum(wanted)} of {len(wanted)} ({low:.0%} to {high:.0%})"
        print(f"{what:28} {name} {share_text}: {counts}")
        if share:
            top = sum(map(is_top, items))
            low, high = limits(top, len(items))
            print(f"{'':28} planted part on top {top} of {len(items)} ({low:.0%} to {high:.0%})")
    return 0 if said else 1


def main() -> int:
    """Make runs or judge them."""
    parser = argparse.ArgumentParser(description="Compare GPU programs, alike or slowed.")
    parser.add_argument("what", choices=("alike", "slowed", "judge"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", help=f"of {', '.join([*PROGRAMS, OF_RANKS])}")
    parser.add_argument("--runs", type=int, default=24)
    parser.add_argument("--shares", type=float, nargs="+", default=[0.01, 0.03, 0.05, 0.10])
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--group", type=int, default=26, help="processes that start together")
    parser.add_argument("--limit", type=float, default=float("inf"), help="no group starts later")
    parser.add_argument("--cpu", action="store_true", help="without a GPU")
    options = parser.parse_args()
    if options.what == "judge":
        return judge(options.folder)
    options.folder.mkdir(parents=True, exist_ok=True)
    found = make(options)
    write_profiles(options.folder, found)
    return judge(options.folder)


if __name__ == "__main__":
    sys.exit(main())
