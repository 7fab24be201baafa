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
from warpline.sweep.points import Parameter, Point, number, points

FILE = "sweep.json"
ENDINGS = (".warpline", ".log")  # of the files of a run
_FORMAT, _VERSION = "warpline-sweep", 1


@frozen
class Definition:
    """What a sweep runs. Two are the same sweep if all of this is equal.

    Attributes:
        kind: What is recorded: ``kernels``, or ``program`` for timelines.
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
        """Return the points that are known before any is run, in the order of their runs."""
        return points(self.parameters, are_zipped=self.are_zipped)


@frozen
class Attempt:
    """A run of the program at a point.

    Attributes:
        files: Recordings, by name in the sweep's directory; empty if the run failed.
        failure: Why it failed, or was not made, in words; None if it did not fail.
        seconds: How long it took.
        notes: What else is to be said about it.
        results: What was measured of its recordings, for JSON; None if nothing was yet.
    """

    files: tuple[str, ...]
    failure: str | None
    seconds: float
    notes: tuple[str, ...] = ()
    results: Mapping[str, Any] | None = None


@frozen
class Prediction:
    """What a point was predicted to take of a GPU's memory, from the points before it.

    Attributes:
        bytes: Memory at the peak.
        error_bytes: How far off that may be, to either side.
        limit_bytes: The memory that was free for the program.
    """

    bytes: int
    error_bytes: int
    limit_bytes: int

    @property
    def fits(self) -> bool:
        """Whether it may fit, if the prediction is too high by as much as its error."""
        return self.bytes - self.error_bytes <= self.limit_bytes


@dataclass
class State:
    """A sweep and its runs so far.

    Attributes:
        definition: What is run.
        attempts: The runs that were made, by the place of their point and their number from 0.
        points: The points, in the order in which they came to be; by default, those that the
            definition has.
        predicted: The memory that a point was predicted to take before it was run, by its place.
    """

    definition: Definition
    attempts: dict[tuple[int, int], Attempt] = field(default_factory=dict)
    points: list[Point] = field(default_factory=list)
    predicted: dict[int, Prediction] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Begin with the points of the definition."""
        self.points = self.points or self.definition.points()

    def missing(self) -> list[tuple[int, int]]:
        """Return the runs that are to be made: the first of all points, then the second of all.

        A drift of the machine then affects all points alike. A point that failed is not run again.
        """
        failed = {point for (point, _), made in self.attempts.items() if made.failure is not None}
        return [
            (point, number)
            for number in range(self.definition.repeats)
            for point in range(len(self.points))
            if point not in failed and (point, number) not in self.attempts
        ]

    def shown_order(self) -> list[int]:
        """Return the places of the points as they are shown, the first parameter varying slowest.

        Points that were added meanwhile are among the others by their numbers.
        """
        items = self.definition.parameters
        if self.definition.are_zipped or len(self.points) == len(self.definition.points()):
            return list(range(len(self.points)))

        def rank(place: int) -> list[Any]:
            point = self.points[place]
            return [
                number(point[item.name]) if item.is_numeric else item.values.index(point[item.name])
                for item in items
            ]

        return sorted(range(len(self.points)), key=rank)

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
            "vary": {item.name: item.words for item in definition.parameters},
            "zip": definition.are_zipped,
            "repeat": definition.repeats,
            "options": definition.options,
            "points": self.points,
            "predicted": [
                {"point": point, **vars(of)} for point, of in sorted(self.predicted.items())
            ],
            "runs": [
                {
                    "point": point,
                    "run": number,
                    "files": made.files,
                    "failure": made.failure,
                    "seconds": made.seconds,
                    "notes": made.notes,
                    "results": made.results,
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
            f"{folder} has no sweep", hint="name the directory of -o of a sweep"
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
    count = len(state.points)
    names = [name for made in state.attempts.values() for name in made.files]
    is_inside = all(name == Path(name).name and name not in {"", ".", ".."} for name in names)
    places = [*(point for point, _ in state.attempts), *state.predicted]
    if not is_inside or any(not 0 <= point < count for point in places):
        raise _damaged(path)
    return state


def _state(content: Mapping[str, Any]) -> State:
    parameters = [
        Parameter.of_words(name, _texts(words)) for name, words in content["vary"].items()
    ]
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
    names = [item.name for item in parameters]
    points: list[Point] = [
        dict(zip(names, _texts([of[name] for name in names]), strict=True))
        for of in content["points"]
    ]
    return State(
        definition,
        {
            (int(run["point"]), int(run["run"])): Attempt(
                _texts(run["files"]),
                None if run["failure"] is None else str(run["failure"]),
                float(run["seconds"]),
                _texts(run["notes"]),
                None if run["results"] is None else dict(run["results"]),
            )
            for run in content["runs"]
        },
        points,
        {
            int(of["point"]): Prediction(
                int(of["bytes"]), int(of["error_bytes"]), int(of["limit_bytes"])
            )
            for of in content["predicted"]
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
