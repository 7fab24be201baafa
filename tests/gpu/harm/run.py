"""Run the harm test: every program alone and recorded, compared and shown as a table.

    python -m tests.gpu.harm [--only NAME...] [--levels LEVEL...] [--jobs 6] [--repeat N]
                             [--limit SECONDS] [--out FOLDER] [--markdown FILE]

The exit status is 1 where recording changed what a program did or a recording is wrong, 2 where a
program itself failed or runs were left out, 3 where nothing could be built.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from threading import Lock

from gpu.harm import judging, outcome
from gpu.harm.building import ROOT, BuildError, build, find_nvcc
from gpu.harm.levels import LEVELS
from gpu.harm.outcome import Outcome, Row
from gpu.harm.running import Run, run
from gpu.harm.table import PROGRAMS, Program

ALONE_RUNS = 2


@dataclass
class Machine:
    """What the programs run on.

    Attributes:
        fills: Values for the placeholders in a program's command and environment.
        gpus: The number of GPUs; 0 with --cpu.
    """

    fills: dict[str, str] = field(default_factory=dict)
    gpus: int = 1

    def fill(self, text: str) -> str:
        """Return a word with its placeholders in braces filled in."""
        for name, value in self.fills.items():
            text = text.replace(f"{{{name}}}", value)
        return text

    def words_of(self, program: Program) -> list[str]:
        """Return a program's command, without words that become empty."""
        filled = (self.fill(word) for word in program.words)
        return [word for word in filled if word]

    def lacks(self, program: Program) -> str | None:
        """Return why a program cannot run here, or None."""
        if not self.gpus and not program.runs_on_cpu:
            return "requires a GPU"
        if self.gpus and program.gpus > self.gpus:
            return f"requires {program.gpus} GPUs"
        if program.words[0].startswith("{cuda}") and not Path(self.words_of(program)[0]).exists():
            return "nvcc is not installed"
        for module in program.modules:
            if not _is_installed(module):
                return f"{module} is not installed"
        return None


def _is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # of the package that it is in
        return False


@dataclass(frozen=True)
class Task:
    """One run to make."""

    row: Row
    level: str
    number: int


class Bench:
    """Makes the runs concurrently and keeps the output of those that differ."""

    def __init__(self, machine: Machine, scratch: Path, args: argparse.Namespace) -> None:
        self.machine = machine
        self.scratch = scratch
        self.args = args
        self.ends = time.monotonic() + args.limit
        self._lock = Lock()
        self._done = 0
        self._waits: Counter[str] = Counter()  # runs that a program still waits for

    def run(self, programs: Iterable[Program]) -> list[Row]:
        """Run all programs at their levels and judge them."""
        rows = [Row(program, self.machine.lacks(program)) for program in programs]
        tasks = [task for row in rows if not row.skipped for task in self._tasks(row)]
        # Long ones first; a program's runs together, those alone before the others.
        tasks.sort(key=lambda task: -task.row.program.seconds)
        self._waits.update(task.row.program.name for task in tasks)
        with ThreadPoolExecutor(self.args.jobs) as pool:
            for done in [pool.submit(self._make, task, len(tasks)) for task in tasks]:
                done.result()
        return rows

    def _tasks(self, row: Row) -> list[Task]:
        wanted = self.args.levels or row.program.levels
        levels = [level for level in row.program.levels if level in wanted]
        if not self.machine.gpus:  # nothing to count
            levels = [level for level in levels if LEVELS[level].command != "kernels"]
        tasks = [Task(row, "alone", number) for number in range(ALONE_RUNS)]
        tasks += [
            Task(row, level, number) for level in levels for number in range(self.args.repeat)
        ]
        return tasks

    def _make(self, task: Task, total: int) -> None:
        program = task.row.program
        made = None if time.monotonic() > self.ends else self._run(task)
        with self._lock:
            if made is None:
                task.row.left_out.append(task.level)
            else:
                task.row.runs.setdefault(task.level, []).append(made)
                self._done += 1
                status = judging.status_name(made.status)
                text = f"{program.name} {task.level}: {status}, {made.seconds:.1f} s"
                if made.recording is not None and made.recording.counted:
                    text += f", {made.recording.counted} launches counted"
                outcome.progress(f"[{self._done}/{total}] {text}")
            self._waits[program.name] -= 1
            if self._waits[program.name] == 0:
                self._judge(task.row)
                # At once: whatever ends the whole test, what was found is known.
                for line in outcome.details([task.row]):
                    outcome.progress(f"  {line}")

    def _run(self, task: Task) -> Run:
        program = task.row.program
        environment = self._environment(program)
        folder = self.scratch / f"{program.name}.{task.level}.{task.number}"
        words = self.machine.words_of(program)
        level = None if task.level == "alone" else LEVELS[task.level]
        made = run(words, environment, folder, self.args.hang, level)
        shutil.rmtree(folder, ignore_errors=True)
        return made

    def _environment(self, program: Program) -> dict[str, str]:
        given = {name: self.machine.fill(value) for name, value in program.environment.items()}
        return {**os.environ, **given}

    def _judge(self, row: Row) -> None:
        alone = row.runs.get("alone")
        if not alone:
            return
        row.fault = judging.fault_of(row.program, alone)
        on_gpu = (
            self.machine.gpus > 0 and row.fault is None
        )  # else nothing follows from its kernels
        for level, runs in row.runs.items():
            if level == "alone":
                continue
            row.verdicts[level] = [
                judging.judge(row.program, LEVELS[level], alone, one, on_gpu=on_gpu) for one in runs
            ]
        self._keep_what_differs(row)

    def _keep_what_differs(self, row: Row) -> None:
        kept = [
            (f"{level}.{number}", row.runs[level][number])
            for level, verdicts in row.verdicts.items()
            for number, verdict in enumerate(verdicts)
            if not verdict.is_good
        ]
        if kept or row.fault:
            kept += [(f"alone.{number}", one) for number, one in enumerate(row.runs["alone"])]
        for label, one in kept:
            self._keep(row.program, label, one)

    def _keep(self, program: Program, label: str, one: Run) -> None:
        kept = Path(self.args.out) / "kept"
        kept.mkdir(parents=True, exist_ok=True)
        (kept / f"{program.name}.{label}.stdout").write_bytes(one.stdout[-200_000:])
        (kept / f"{program.name}.{label}.stderr").write_bytes(one.stderr[-200_000:])


def base_environment(scratch: Path, *, on_cpu: bool) -> dict[str, str]:
    """Return the variables that make programs deterministic and considerate of the machine."""
    paths = (str(ROOT / "src"), str(ROOT / "tests"), os.environ.get("PYTHONPATH"))
    variables = {
        "PYTHONPATH": os.pathsep.join(path for path in paths if path),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
        "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
        "OMP_NUM_THREADS": "2",
        "TORCHINDUCTOR_COMPILE_THREADS": "2",
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
        "TF_CPP_MIN_LOG_LEVEL": "2",
        "TOKENIZERS_PARALLELISM": "false",
        "HF_HUB_OFFLINE": "1",
        "TORCHINDUCTOR_CACHE_DIR": str(scratch / "inductor"),
        "TRITON_CACHE_DIR": str(scratch / "triton"),
        "CUPY_CACHE_DIR": str(scratch / "cupy"),
        "TMPDIR": str(scratch / "tmp"),
        "XDG_RUNTIME_DIR": str(scratch / "tmp"),  # where sessions are
    }
    if on_cpu:
        variables |= {"HARM_DEVICE": "cpu", "JAX_PLATFORMS": "cpu"}
    return variables


def _gpus() -> list[tuple[str, str]]:
    """Return each GPU's UUID and compute capability; empty without GPUs."""
    command = ["nvidia-smi", "--query-gpu=uuid,compute_cap", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    except OSError:
        return []
    lines = done.stdout.splitlines() if done.returncode == 0 else []
    parts = (line.split(", ") for line in lines)
    return [(words[0], words[1]) for words in parts if len(words) == 2]


def prepare(args: argparse.Namespace) -> Machine:
    """Build what is needed, set the environment and return facts about the machine.

    Raises:
        BuildError: Something could not be built.
    """
    gpus = [] if args.cpu else _gpus()
    if not gpus and not args.cpu:
        raise BuildError("no GPU found; use --cpu to run programs without one")
    architecture = f"sm_{gpus[0][1].replace('.', '')}" if gpus else "sm_90"
    folder = Path(args.build)
    os.environ |= build(folder, architecture, with_cuda=not args.cpu)
    if not args.cpu and find_nvcc() is None:
        outcome.progress("nvcc was not found: the CUDA programs are skipped")
    uuid = gpus[0][0] if gpus else ""
    fills = {"python": sys.executable, "cuda": str(folder), "uuid": uuid}
    return Machine({**fills, "small": "--small" if args.cpu else ""}, len(gpus))


def chosen(names: Sequence[str] | None) -> list[Program]:
    """Return the programs matching names or patterns such as 'graphs.*'; all by default."""
    if not names:
        return list(PROGRAMS)
    unknown = [name for name in names if not any(fnmatch(one.name, name) for one in PROGRAMS)]
    if unknown:
        known = ", ".join(one.name for one in PROGRAMS)
        raise SystemExit(f"error: no program {', '.join(unknown)}\nhint: there are {known}")
    return [one for one in PROGRAMS if any(fnmatch(one.name, name) for name in names)]


def _arguments(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.gpu.harm", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--only", nargs="+", metavar="NAME", help="programs to run; accepts *")
    parser.add_argument("--levels", nargs="+", choices=sorted(LEVELS), help="run these levels")
    parser.add_argument("--jobs", type=int, default=6, help="number of concurrent runs")
    parser.add_argument("--repeat", type=int, default=1, help="number of runs per level")
    parser.add_argument("--limit", type=float, default=720, help="start no run after SECONDS")
    parser.add_argument("--hang", type=float, default=150, help="time limit of a run in seconds")
    parser.add_argument("--out", default="build/harm", help="directory for the results")
    parser.add_argument("--markdown", help="write the table to this page, between its markers")
    parser.add_argument("--build", default="/tmp/warpline-harm", help="directory for build output")
    parser.add_argument("--cpu", action="store_true", help="run the programs without a GPU")
    parser.add_argument("--list", action="store_true", help="print the programs and their levels")
    return parser.parse_args(words)


def main(words: Sequence[str] | None = None, programs: Sequence[Program] | None = None) -> int:
    """Run the test and return its exit status."""
    args = _arguments(words)
    programs = chosen(args.only) if programs is None else programs
    if args.list:
        for program in programs:
            sys.stdout.write(f"{program.name}: {' '.join(program.levels)}\n")
        return 0
    begun = time.monotonic()
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    with tempfile.TemporaryDirectory(prefix="harm-", ignore_cleanup_errors=True) as folder:
        scratch = Path(folder)
        (scratch / "tmp").mkdir()
        os.environ |= base_environment(scratch, on_cpu=args.cpu)
        try:
            machine = prepare(args)
        except BuildError as error:
            sys.stderr.write(f"error: {error}\n")
            return 3
        outcome.progress(f"built in {time.monotonic() - begun:.0f} s")
        rows = Bench(machine, scratch, args).run(programs)
        found = Outcome(rows, outcome.versions(), time.monotonic() - begun)
    _show(found, args)
    return found.status()


def _show(found: Outcome, args: argparse.Namespace) -> None:
    out = Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    (out / "harm.json").write_text(outcome.as_json(found))
    text = outcome.as_text(found)
    (out / "harm.txt").write_text(text + "\n")
    sys.stdout.write(f"{text}\n")
    if args.markdown:
        outcome.write_markdown(Path(args.markdown), found)
