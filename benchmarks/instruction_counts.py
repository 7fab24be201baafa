"""Guard against slower code that needs no clock: instructions executed by small workloads.

Usage: python benchmarks/instruction_counts.py [--record] [--jobs N] [WORKLOAD...]

callgrind counts the instructions of each native function. They are compared with the counts in
instruction_counts.json that were recorded in the same environment: machine, C library, Python,
numpy, compiler, valgrind. A workload that grew by more than 5% fails, and the functions that grew
are named: native ones by instructions, Python's by bytecodes, because callgrind sees only their
interpreter. Where valgrind or a reference of the environment is missing, only the bytecodes of
Warpline's own functions are compared: they depend on nothing but the version of Python.

`--record` replaces the reference of this environment.
"""

from __future__ import annotations

import argparse
import json
import lzma
import os
import platform
import re
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import callgrind
import finishing
import make_nsys
import numpy as np

ROOT = Path(__file__).parents[1]
REFERENCE = Path(__file__).with_suffix(".json")
LIMIT = 0.05
NAMED_SHARE = 0.005  # functions below this share of a workload are not kept
SHOWN = 5
WARPLINE = "warpline.cli:main"
FINISHING = "warpline.capture.finishing.__main__:main"
COMPILER = re.compile(rb"GCC: \([^)]*\) [\d.]+|clang version [\d.]+")  # as it signs what it made
OWN = "warpline/"  # where the paths of Warpline's functions begin


@dataclass(frozen=True)
class Workload:
    """What is counted.

    Attributes:
        main: MODULE:FUNCTION, which takes the words.
        words: The command line; ``{inputs}`` is the directory of the inputs.
        is_whole: Whether the whole process is counted, with its start and its imports. Otherwise
            the function runs once before it is counted.
    """

    main: str
    words: tuple[str, ...]
    is_whole: bool = False


WORKLOADS: Mapping[str, Workload] = {
    "summary": Workload(WARPLINE, ("{inputs}/kernels.sqlite",), is_whole=True),
    "nvtx_kern_sum": Workload(
        WARPLINE, ("stats", "-r", "nvtx_kern_sum", "-f", "csv", "{inputs}/kernels.sqlite")
    ),
    "analyze": Workload(WARPLINE, ("analyze", "{inputs}/steps.sqlite")),
    "kineto": Workload(
        WARPLINE, ("stats", "-r", "cuda_gpu_kern_sum", "-f", "csv", "{inputs}/kineto.json")
    ),
    "finishing": Workload(
        FINISHING, ("{inputs}/session.raw", "--output", "{inputs}/finished.warpline")
    ),
    "opening": Workload(
        WARPLINE, ("stats", "-r", "cuda_gpu_kern_sum", "-f", "csv", "{inputs}/kernels.warpline")
    ),
}


@dataclass(frozen=True)
class Counts:
    """What a workload executed.

    Attributes:
        instructions: Of the process; None if they were not counted.
        bytecodes: Of Warpline's own Python functions.
        native, python: Instructions and bytecodes of the functions that have a share worth naming.
    """

    instructions: int | None
    bytecodes: int
    native: Mapping[str, int]
    python: Mapping[str, int]


def make_inputs(folder: Path) -> None:
    """Write what the workloads read."""
    make_nsys.make(10_000, folder / "kernels.sqlite")
    words = ("export", "-t", "warpline", "-o", "kernels.warpline", "kernels.sqlite")
    command = [sys.executable, "-m", "warpline", *words]
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    data = ROOT / "tests" / "data"
    for packed, name in (
        ("nsys/pageable_h2d.fixed.sqlite.xz", "steps.sqlite"),
        ("kineto/ddp_step.rank0.json.xz", "kineto.json"),
    ):
        (folder / name).write_bytes(lzma.decompress((data / packed).read_bytes()))
    (folder / "session.raw").mkdir()
    finishing.write_session(folder / "session.raw", 20_000)


def native_core() -> Path | None:
    """Return the native core as it was linked, with the names that the installed one lacks."""
    return next(iter(sorted(ROOT.glob("build/py3-none-*/libwarpline_core.so"))), None)


def settings() -> dict[str, str]:
    """Return the environment variables: the same everywhere, so that counts are."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "PYTHONPATH") if name in os.environ}
    fixed = {"LANG": "C.UTF-8", "COLUMNS": "80", "PYTHONHASHSEED": "0", "OPENBLAS_NUM_THREADS": "1"}
    core = native_core()
    return kept | fixed | ({"WARPLINE_CORE": str(core)} if core else {})


def environment_key() -> str:
    """Return what counts depend on besides the code."""
    core = native_core()
    compiler = COMPILER.search(core.read_bytes() if core else b"")
    options = sysconfig.get_config_var("CONFIG_ARGS") or ""
    built = [name for name in ("optimizations", "with-lto", "shared") if name in options]
    valgrind = subprocess.run(
        ["valgrind", "--version"], check=True, capture_output=True, text=True
    ).stdout
    return ", ".join(
        (
            platform.machine(),
            # valgrind presents one of two processors to the program, by what the real one has.
            "AVX2" if _has_avx2() else "no AVX2",
            " ".join(platform.libc_ver()),
            f"Python {platform.python_version()} ({platform.python_compiler()}, {' '.join(built)})",
            f"numpy {np.__version__}",
            f"core {compiler[0].decode() if compiler else 'missing'}",
            valgrind.strip(),
        )
    )


def _has_avx2() -> bool:
    facts = Path("/proc/cpuinfo")
    return facts.exists() and " avx2 " in facts.read_text(encoding="utf-8")


def count(workload: Workload, folder: Path, *, with_native: bool) -> Counts:
    """Count what a workload executes."""
    words = [word.format(inputs=folder) for word in workload.words]
    program = str(Path(__file__).parent / "counted_program.py")
    with tempfile.TemporaryDirectory() as scratch:
        # First, because it also compiles the modules, as their first import does.
        output = Path(scratch, "bytecodes.json")
        command = [sys.executable, program, workload.main, str(output)]
        first = ["--first"] if workload.is_whole else []
        environment = settings()
        for _ in range(2 if workload.is_whole else 1):
            subprocess.run(
                [*command, *first, *words],
                env=environment,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                check=True,
            )
        python: dict[str, int] = json.loads(output.read_text(encoding="utf-8"))
        own = sum(number for name, number in python.items() if name.startswith(OWN))
        found = Counts(None, own, {}, notable(python))
        if not with_native:
            return found
        region = ["--region", str(callgrind.compile_region(Path(scratch))), *first]
        native = callgrind.count(
            [*command, *region, *words],
            Path(scratch, "callgrind.out"),
            environment,
            whole=workload.is_whole,
        )
    return replace(found, instructions=native.total(), native=notable(native))


def notable(counts: Mapping[str, int]) -> dict[str, int]:
    """Return the functions with a share worth naming, largest first."""
    least = NAMED_SHARE * sum(counts.values())
    kept = [(name, number) for name, number in counts.items() if number >= least]
    return dict(sorted(kept, key=lambda item: (-item[1], item[0])))


def grown(reference: Mapping[str, int], found: Mapping[str, int]) -> list[str]:
    """Return lines that name the functions that execute more than before, by how much."""
    added = {name: number - reference.get(name, 0) for name, number in found.items()}
    largest = sorted(added.items(), key=lambda item: (-item[1], item[0]))[:SHOWN]
    return [
        f"      +{number:,} ({_change(reference.get(name), found[name])}) {name}"
        for name, number in largest
        if number > 0
    ]


def _change(before: int | None, after: int) -> str:
    return f"{after / before - 1:+.1%}" if before else f"was below {NAMED_SHARE:.1%} of the total"


def compare(name: str, reference: Counts, found: Counts) -> tuple[bool, list[str]]:
    """Return whether a workload is within its limit, and lines about it."""
    unit, before, after = "bytecodes", reference.bytecodes, found.bytecodes
    if reference.instructions is not None and found.instructions is not None:
        unit, before, after = "instructions", reference.instructions, found.instructions
    line = f"  {name}: {after:,} {unit} ({_change(before, after)})"
    if after < before * (1 - LIMIT):
        line += "; to keep this, run `make instructions ARGS=--record`"
    if after <= before * (1 + LIMIT):
        return True, [line]
    lines = [f"{line}: FAILED, the limit is +{LIMIT:.0%}"]
    if unit == "instructions":
        lines += ["    native functions, instructions:", *grown(reference.native, found.native)]
    lines += ["    Python functions, bytecodes:", *grown(reference.python, found.python)]
    return False, lines


def references(path: Path = REFERENCE) -> dict[str, dict[str, Counts]]:
    """Return the recorded counts, by environment and workload."""
    if not path.exists():
        return {}
    stored: dict[str, dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
    return {
        key: {name: Counts(**one) for name, one in workloads.items()}
        for key, workloads in stored.items()
    }


def reference_of(
    known: Mapping[str, Mapping[str, Counts]], key: str
) -> tuple[Mapping[str, Counts], str | None]:
    """Return the counts to compare with, and why not instructions, if so."""
    if key in known:
        return known[key], None
    version = "Python {}.{}.".format(*sys.version_info[:2])
    for other, workloads in known.items():
        if version in other:
            without = {name: replace(one, instructions=None) for name, one in workloads.items()}
            return without, f"no reference for this environment: {key}"
    return {}, f"no reference for this environment, nor for its Python: {key}"


def record(key: str, found: Mapping[str, Counts], path: Path = REFERENCE) -> None:
    """Replace the counts of this environment."""
    known = references(path)
    known[key] = {**known.get(key, {}), **found}
    text = {key: {name: asdict(one) for name, one in sets.items()} for key, sets in known.items()}
    path.write_text(json.dumps(text, indent=1) + "\n", encoding="utf-8")


def measure(names: Sequence[str], jobs: int, *, with_native: bool) -> dict[str, Counts]:
    """Count workloads, several at a time."""
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(jobs) as pool:
        make_inputs(Path(folder))

        def one(name: str) -> Counts:
            return count(WORKLOADS[name], Path(folder), with_native=with_native)

        return dict(zip(names, pool.map(one, names), strict=True))


def main() -> int:
    """Compare, or record."""
    parser = argparse.ArgumentParser(description="Compare the instructions of small workloads.")
    parser.add_argument("workloads", nargs="*", metavar="WORKLOAD", help=", ".join(WORKLOADS))
    parser.add_argument("--record", action="store_true", help="replace the reference")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    options = parser.parse_args()
    names = options.workloads or list(WORKLOADS)
    if unknown := set(names) - set(WORKLOADS):
        parser.error(
            f"unknown workload {', '.join(sorted(unknown))}; known: {', '.join(WORKLOADS)}"
        )
    missing = callgrind.missing()
    if missing and options.record:
        parser.error(f"{missing} is missing")
    if native_core() is None:
        parser.error("the native core is missing from build/: run `make .venv/installed`")
    key = "" if missing else environment_key()
    found = measure(names, options.jobs, with_native=not missing)
    if options.record:
        record(key, found)
        print(f"instructions: recorded for {key}")
        return 0
    known, why = reference_of(references(), key)
    if missing:
        why = f"SKIPPED: {missing} is missing"
    print(f"instructions: {f'{why}; only bytecodes are compared' if why else key}")
    checked = [compare(name, known[name], found[name]) for name in names if name in known]
    for _, lines in checked:
        print("\n".join(lines))
    return 0 if all(is_within for is_within, _ in checked) else 1


if __name__ == "__main__":
    sys.exit(main())
