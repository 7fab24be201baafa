"""The process of a benchmark: reads a request from standard input, writes JSON lines.

The request is one JSON object: ``benchmark``, ``device``, ``backends`` in the order to try, and
``points``. The first line of the answer is about the GPU and the library, and each further line is
``{"point": NUMBER, "row": {...}}``; the last one has the versions. ``{"failed": REASON}`` is the
answer if nothing can be measured.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn, TypeVar

from warpline.bench import backends, copies, gemms, launches
from warpline.bench.backends import Backend
from warpline.bench.driver import Driver
from warpline.bench.refusals import RefusedError
from warpline.bench.sm_clock import SmClock
from warpline.bench.timing import Timer

T = TypeVar("T")
Write = Callable[[Mapping[str, Any]], None]

_MEASURES = {"gemm": gemms.measure, "copy": copies.measure, "launch": launches.measure}
_LONGEST = 200  # characters of a reason


def answer(request: Mapping[str, Any], write: Write) -> None:
    """Measure all points of a request and write the answer, line by line."""
    driver, reason = _attempt(lambda: Driver(request["device"]))
    if driver is None:
        write({"failed": reason})
        return
    backend, refused = _first_backend(request["backends"], driver)
    if backend is None:
        write({"failed": "; ".join(f"{name}: {why}" for name, why in refused.items())})
        return
    facts = {"device": driver.describe(), "refused": refused, "launched": backend[1].launched}
    write({**facts, "backend": backend[0]})
    stream = backend[1].stream
    timer = Timer(driver, stream, clock=_attempt(lambda: SmClock(driver, stream))[0])
    measure = _MEASURES[request["benchmark"]]
    for number, point in enumerate(request["points"]):

        def rows(point: Mapping[str, Any] = point, number: int = number) -> None:
            for row in measure(backend[1], driver, timer, point):
                write({"point": number, "row": row})

        _, reason = _attempt(rows)
        if reason is not None:
            write({"point": number, "row": {**point, "reason": reason}})
        _attempt(backend[1].free)
    write({"versions": dict(backend[1].versions)})


def _first_backend(
    names: Sequence[str], driver: Driver
) -> tuple[tuple[str, Backend] | None, dict[str, str]]:
    """Return the first backend that can be used with its name, and why others cannot."""
    refused: dict[str, str] = {}
    for name in names:
        backend, reason = _attempt(lambda name=name: backends.load(name, driver))  # type: ignore[misc]
        if backend is not None:
            return (name, backend), refused
        refused[name] = reason or "unknown"
    return None, refused


def _attempt(action: Callable[[], T]) -> tuple[T | None, str | None]:
    """Return what an action returns, or why it failed: libraries raise errors of any kind."""
    try:
        return action(), None
    except Exception as error:  # noqa: BLE001 - a border, see tests/architecture
        return None, reason_of(error)


def reason_of(error: Exception) -> str:
    """Return why a library failed, in one line."""
    if isinstance(error, RefusedError):
        return error.reason
    if isinstance(error, ModuleNotFoundError):
        return f"{error.name} is not installed"
    # Python's and NumPy's are for memory of the host; PyTorch's is none of these.
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return "out of memory"
    text = str(error).strip().split("\n", maxsplit=1)[0]
    return (text or type(error).__name__)[:_LONGEST]


def _main() -> NoReturn:
    # Libraries may print: standard output is the pipe, so they get another one.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def write(line: Mapping[str, Any]) -> None:
        answers.write(json.dumps(line) + "\n")
        answers.flush()

    answer(json.load(sys.stdin), write)
    os._exit(0)  # without the exit handlers of foreign libraries


if __name__ == "__main__":
    _main()
