"""Programs that run at the same time and take turns, so that machine state affects all equally.

Machine state persists for seconds: it distorts comparisons of processes that run one after another,
but not of turns of a few milliseconds. A program that takes turns gets a directory. It opens
DIRECTORY/ask and DIRECTORY/answer and answers "ready". It then answers every line by working once
and returning figures: "NAME VALUE NAME VALUE".
"""

from __future__ import annotations

import contextlib
import os
import select
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

Figures = dict[str, float]
Command = Callable[[str], Sequence[str]]  # from the folder
START_S = 120.0
TURN_S = 60.0
END_S = 120.0


class TurnError(RuntimeError):
    """A program exited early or does not answer."""


def serve(folder: str, work: Callable[[], Figures]) -> None:
    """Take turns inside a program until there are no more requests."""
    with Path(folder, "ask").open() as asked, Path(folder, "answer").open("w") as answer:
        print("ready", file=answer, flush=True)
        for _ in asked:
            figures = work()
            print(*(f"{name} {value}" for name, value in figures.items()), file=answer, flush=True)


class Worker:
    """A program that takes turns."""

    def __init__(self, command: Command) -> None:
        self._folder = tempfile.TemporaryDirectory()
        folder = Path(self._folder.name)
        for name in ("ask", "answer"):
            os.mkfifo(folder / name)
        # Opened for reading and writing, a FIFO does not block until the other end opens.
        self._ask = os.open(folder / "ask", os.O_RDWR)
        self._answer = os.open(folder / "answer", os.O_RDWR)
        self._printed = (folder / "printed").open("w+")
        self._words = list(command(str(folder)))
        self._process = subprocess.Popen(
            self._words, stdin=subprocess.DEVNULL, stdout=self._printed, stderr=subprocess.STDOUT
        )
        self._rest = b""

    def wait_until_ready(self) -> None:
        """Wait until it is ready."""
        self._line(START_S)

    def turn(self) -> Figures:
        """Request one turn."""
        os.write(self._ask, b"\n")
        words = self._line(TURN_S).split()
        return {name: float(value) for name, value in zip(words[::2], words[1::2], strict=True)}

    def _line(self, limit_s: float) -> str:
        end = time.monotonic() + limit_s
        while b"\n" not in self._rest:
            if select.select([self._answer], [], [], 0.2)[0]:
                self._rest += os.read(self._answer, 4096)
            elif self._process.poll() is not None or time.monotonic() > end:
                raise TurnError(self._why())
        line, _, self._rest = self._rest.partition(b"\n")
        return line.decode()

    def _why(self) -> str:
        status = self._process.poll()
        state = "does not answer" if status is None else f"ended with {status}"
        self._printed.seek(0)
        return f"{' '.join(self._words)}: {state}\n{self._printed.read()[-2000:]}"

    def finish(self) -> None:
        """Signal that there are no more turns."""
        os.close(self._ask)

    def close(self) -> None:
        """Wait for its exit, or kill it."""
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._answer)
        self._printed.close()
        self._folder.cleanup()


@contextlib.contextmanager
def workers(commands: Mapping[str, Command]) -> Iterator[dict[str, Worker]]:
    """Start all programs at once and wait until they are ready."""
    running: dict[str, Worker] = {}
    try:
        for name, command in commands.items():
            running[name] = Worker(command)
        for worker in running.values():
            worker.wait_until_ready()
        yield running
    finally:
        for worker in running.values():
            worker.finish()
        for worker in running.values():
            worker.close()


def in_turn(commands: Mapping[str, Command], turns: int, warm: int = 0) -> list[dict[str, Figures]]:
    """Return the programs' figures of each turn after the first `warm` ones; the order rotates.

    Raises TurnError with the end of the program's output.
    """
    told = []
    with workers(commands) as running:
        names = list(running)
        for number in range(warm + turns):
            first = number % len(names)
            order = [*names[first:], *names[:first]]
            figures = {name: running[name].turn() for name in order}
            if number >= warm:
                told.append(figures)
    return told


def median(turns: Iterable[Mapping[str, Figures]], name: str, figure: str) -> float:
    """Return the median of a program's figure."""
    return statistics.median(turn[name][figure] for turn in turns)


def added(turns: Iterable[Mapping[str, Figures]], name: str, other: str, figure: str) -> float:
    """Return the median difference of a figure to that of another program, over all turns."""
    return statistics.median(turn[name][figure] - turn[other][figure] for turn in turns)


def ratio(turns: Iterable[Mapping[str, Figures]], name: str, other: str, figure: str) -> float:
    """Return the median ratio of a figure to that of another program, over all turns."""
    return statistics.median(turn[name][figure] / turn[other][figure] for turn in turns)


def quintiles(values: Iterable[float]) -> tuple[float, float, float]:
    """Return the median and the outer quintiles."""
    ordered = sorted(values)
    last = len(ordered) - 1
    return statistics.median(ordered), ordered[round(0.2 * last)], ordered[round(0.8 * last)]
