"""What a sweep is and which of its runs are made: a JSON file in its directory."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from warpline.errors import InputError, UsageError
from warpline.files import complete_file
from warpline.frozen import frozen
from warpline.sweep.points import Parameter, Point, points

FILE = "sweep.json"
ENDINGS = (".warpline", ".log")  # of the files of a run
_FORMAT, _VERSION = "warpline-sweep", 1


@frozen
class Definition:
    """What a sweep runs. Two are the same sweep if all of this is equal.

    Attributes:
        kind: What is recorded: ``kernels``.
        command: The program's command line, with parameters in braces.
        parameters: The parameters that are varied, at least one.
        are_zipped: Whether all vary together, in place of all combinations.
        repeats: How often each point is run.
        options: Options that change what is recorded, as words.
    """

    kind: str
    command: tuple[str, ...]
    parameters: tuple[Parameter, ...]
    are_zipped: bool = False
    repeats: int = 1
    options: tuple[str, ...] = ()

    def points(self) -> list[Point]:
        """Return the points, in the order in which they are run and shown."""
        return points(self.parameters, are_zipped=self.are_zipped)


@frozen
class Attempt:
    """A run of the program at a point.

    Attributes:
        files: Recordings, by name in the sweep's directory; empty if the run failed.
        failure: Why it failed, in words; None if it did not.
        seconds: How long it took.
        notes: What else is to be said about it.
    """

    files: tuple[str, ...]
    failure: str | None
    seconds: float
    notes: tuple[str, ...] = ()


@dataclass
class State:
    """A sweep and its runs so far.

    Attributes:
        definition: What is run.
        attempts: The runs that were made, by the place of their point and their number from 0.
    """

    definition: Definition
    attempts: dict[tuple[int, int], Attempt] = field(default_factory=dict)

    def missing(self) -> list[tuple[int, int]]:
        """Return the runs that are to be made: the first of all points, then the second of all.

        A drift of the machine then affects all points alike. A point that failed is not run again.
        """
        count = len(self.definition.points())
        failed = {point for (point, _), made in self.attempts.items() if made.failure is not None}
        return [
            (point, number)
            for number in range(self.definition.repeats)
            for point in range(count)
            if point not in failed and (point, number) not in self.attempts
        ]

    def forget_failures(self) -> None:
        """Forget the runs that failed, so that they are missing."""
        self.attempts = {key: made for key, made in self.attempts.items() if made.failure is None}

    def of_point(self, point: int) -> list[Attempt]:
        """Return the runs of a point, in their order."""
        return [made for (of, _), made in sorted(self.attempts.items()) if of == point]

    def save(self, folder: Path) -> None:
        """Write the file, at once or not at all."""
        definition = self.definition
        content = {
            "format": _FORMAT,
            "version": _VERSION,
            "kind": definition.kind,
            "command": definition.command,
            "vary": {item.name: item.values for item in definition.parameters},
            "zip": definition.are_zipped,
            "repeat": definition.repeats,
            "options": definition.options,
            "runs": [
                {
                    "point": point,
                    "run": number,
                    "files": made.files,
                    "failure": made.failure,
                    "seconds": made.seconds,
                    "notes": made.notes,
                }
                for (point, number), made in sorted(self.attempts.items())
            ],
        }
        with complete_file(folder / FILE) as unfinished:
            unfinished.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def remove(folder: Path) -> None:
    """Remove the files of a sweep from its directory, if it has one; others stay."""
    if (folder / FILE).exists():
        for ending in ENDINGS:
            for path in folder.glob(f"point-*{ending}"):
                path.unlink()
        (folder / FILE).unlink()


def load(folder: Path) -> State:
    """Return the sweep in a directory.

    Raises:
        InputError: There is none, or its file is damaged.
    """
    path = folder / FILE
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(
            f"{folder} has no sweep", hint="name the directory of -o of warpline kernels sweep"
        ) from None
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from error
    except ValueError as error:
        raise _damaged(path) from error
    if not isinstance(content, dict) or content.get("format") != _FORMAT:
        raise _damaged(path)
    if content.get("version") != _VERSION:
        raise InputError(
            f"{path}: version {content.get('version')} of sweeps is unknown",
            hint="update Warpline",
        )
    try:
        state = _state(content)
    except (KeyError, TypeError, ValueError, AttributeError, UsageError) as error:
        raise _damaged(path) from error
    count = len(state.definition.points())
    names = [name for made in state.attempts.values() for name in made.files]
    is_inside = all(name == Path(name).name and name not in {"", ".", ".."} for name in names)
    if not is_inside or any(not 0 <= point < count for point, _ in state.attempts):
        raise _damaged(path)
    return state


def _state(content: Mapping[str, Any]) -> State:
    parameters = [Parameter(name, _texts(values)) for name, values in content["vary"].items()]
    definition = Definition(
        str(content["kind"]),
        _texts(content["command"]),
        tuple(parameters),
        bool(content["zip"]),
        int(content["repeat"]),
        _texts(content["options"]),
    )
    if not parameters or not definition.points():
        raise ValueError
    return State(
        definition,
        {
            (int(run["point"]), int(run["run"])): Attempt(
                _texts(run["files"]),
                None if run["failure"] is None else str(run["failure"]),
                float(run["seconds"]),
                _texts(run["notes"]),
            )
            for run in content["runs"]
        },
    )


def _texts(values: Sequence[Any]) -> tuple[str, ...]:
    if isinstance(values, str) or not all(isinstance(value, str) for value in values):
        raise ValueError
    return tuple(values)


def _damaged(path: Path) -> InputError:
    return InputError(f"{path} is damaged", hint="sweep again, with --force-overwrite")


def check_same(old: Definition, new: Definition) -> None:
    """Check that a sweep is the one that is to be resumed.

    Raises:
        UsageError: It is not; the message says what differs.
    """
    for what, before, now in (
        ("what is recorded", old.kind, new.kind),
        ("the command", shlex.join(old.command), shlex.join(new.command)),
        (
            "--vary",
            shlex.join(item.word for item in old.parameters),
            shlex.join(item.word for item in new.parameters),
        ),
        ("--zip", _switch(old.are_zipped), _switch(new.are_zipped)),
        ("--repeat", str(old.repeats), str(new.repeats)),
        ("the options", shlex.join(old.options), shlex.join(new.options)),
    ):
        if before != now:
            raise UsageError(
                f"--resume: {what} differs: it was {before or 'none'}, now {now or 'none'}",
                hint="leave out the command to resume the same sweep, or name another directory",
            )


def _switch(is_on: bool) -> str:  # noqa: FBT001 - a value to show, not an option
    return "on" if is_on else "off"
