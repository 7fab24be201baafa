"""Whether a recorded run behaved like the program alone."""

from __future__ import annotations

import signal
from dataclasses import dataclass

from gpu.harm.levels import Level
from gpu.harm.running import Run
from gpu.harm.table import Program


@dataclass(frozen=True)
class Verdict:
    """The effects of recording.

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
        """Return whether there is neither harm nor a flaw."""
        return not self.harm and not self.flaws


def status_name(status: int | None) -> str:
    """Return a readable status: an exit status or the name of a signal."""
    if status is None:
        return "hang"
    if status >= 0:
        return str(status)
    try:
        return signal.Signals(-status).name
    except ValueError:
        return f"signal {-status}"


def fault_of(program: Program, alone: list[Run]) -> str | None:
    """Return why the program itself is faulty: it must behave the same in every run alone."""
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
    """Compare a recorded run with the runs alone, and its kernels with the program's own count."""
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
    """Return the flaws of the recording, and the losses that it reports."""
    recording = run.recording
    if recording is None or run.status is None:
        return (), ()
    if recording.error is not None:
        return (f"recording: {recording.error}",), ()
    notes = [f"missing {name}: {count}" for name, count in recording.lost.items()]
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
    """Return the number of kernels expected in a recording of this level; None if unknown."""
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
