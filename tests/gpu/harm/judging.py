"""Whether a recorded run did what the program does alone."""

from __future__ import annotations

import signal
from dataclasses import dataclass

from gpu.harm.levels import Level
from gpu.harm.running import Run
from gpu.harm.table import Program


@dataclass(frozen=True)
class Verdict:
    """What recording changed.

    Attributes:
        harm: How the run differs from the program's run alone.
        flaws: What is wrong with the recording, and not stated in it.
        notes: What is to be known beside: losses that the recording states.
    """

    harm: tuple[str, ...] = ()
    flaws: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def is_good(self) -> bool:
        """Return whether nothing is wrong."""
        return not self.harm and not self.flaws


def status_name(status: int | None) -> str:
    """Return a status as people know it."""
    if status is None:
        return "hang"
    if status >= 0:
        return str(status)
    try:
        return signal.Signals(-status).name
    except ValueError:
        return f"signal {-status}"


def fault_of(program: Program, alone: list[Run]) -> str | None:
    """Return what is wrong with the program itself, which must be the same in every run alone."""
    first, *others = alone
    if first.status != program.status:
        last = _last_line(first.stderr) or _last_line(first.stdout)
        return f"ends with {status_name(first.status)}, not {status_name(program.status)}: {last}"
    if any(one.status != first.status for one in others):
        return "its status varies"
    if any(one.stdout != first.stdout for one in others):
        return "its output varies"
    return None


def judge(
    program: Program, level: Level, alone: list[Run], run: Run, *, on_gpu: bool = True
) -> Verdict:
    """Compare a recorded run with the runs alone, and what was recorded with what was told."""
    flaws, notes = _recorded(program, level, alone[0], run, on_gpu=on_gpu)
    return Verdict(_harm(program, level, alone, run), flaws, notes)


def _harm(program: Program, level: Level, alone: list[Run], run: Run) -> tuple[str, ...]:
    harm = []
    if run.status not in {one.status for one in alone}:
        harm.append(f"status {status_name(run.status)}, alone {status_name(alone[0].status)}")
    is_stable = all(one.stdout == alone[0].stdout for one in alone)
    if is_stable and run.stdout != alone[0].stdout:
        harm.append(f"stdout: {_first_difference(alone[0].stdout, run.stdout)}")
    lines = [one.plain_stderr() for one in alone]
    compares = program.compares_stderr and not level.is_in_process
    if compares and all(one == lines[0] for one in lines) and run.plain_stderr() != lines[0]:
        new = [line for line in run.plain_stderr() if line not in lines[0]]
        harm.append(f"stderr: {new[0] if new else 'lines are missing'}")
    return tuple(harm)


def _recorded(
    program: Program, level: Level, alone: Run, run: Run, *, on_gpu: bool
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return what is wrong with the recording, and what it states that it lacks."""
    recording = run.recording
    if recording is None or run.status is None:
        return (), ()
    if recording.error is not None:
        return (f"recording: {recording.error}",), ()
    notes = [f"lost {name}: {count}" for name, count in recording.lost.items()]
    notes += recording.warnings
    expected = _expected(program, level, alone) if on_gpu else None
    if expected is None or recording.kernels == expected:
        too_few = on_gpu and program.kernels != "any" and level.counts == "all"
        is_empty = too_few and recording.kernels + recording.graph_launches == 0
        return (("no kernel recorded",) if is_empty else ()), tuple(notes)
    text = f"kernels {recording.kernels} of {expected}"
    if recording.kernels < expected and recording.lost:
        return (), (text, *notes)
    return (text,), tuple(notes)


def _expected(program: Program, level: Level, alone: Run) -> int | None:
    """Return how many kernels a recording of this level must hold, None where that is not known."""
    if program.kernels != "told":
        return None
    if level.counts == "all":
        return alone.told("kernels")
    if level.counts == "ranged":
        return alone.told("ranged") or 0
    return None


def _first_difference(alone: bytes, recorded: bytes) -> str:
    theirs, ours = (text.decode(errors="replace").splitlines() for text in (alone, recorded))
    for before, after in zip(theirs, ours, strict=False):
        if before != after:
            return f"{after[:80]!r}, alone {before[:80]!r}"
    return f"{len(ours)} lines, alone {len(theirs)}"


def _last_line(text: bytes) -> str:
    lines = [line for line in text.decode(errors="replace").splitlines() if line.strip()]
    return lines[-1][:160] if lines else ""
