"""A range for every call of a program's own functions.

On Python 3.12 and later with `sys.monitoring`: other code is checked once and then runs at full
speed. On Python 3.11 with the profile hook: it is called for every function of every library, the
program cannot use it for itself meanwhile, and a RecursionError disables it on its thread.

Ranges are pushed and popped on the thread that runs the function. A generator or a coroutine is in
its range while it runs, not while it waits: its range is popped at each yield and pushed again on
resume, so ranges nest in any order of execution.
"""

from __future__ import annotations

import fnmatch
import functools
import sys
import sysconfig
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from warpline.annotate.listener import LISTENER, Domain

DOMAIN = "python"

_IS_FUNCTION = 0x1  # CO_OPTIMIZED: not a module or the body of a class
_FOREIGN_FOLDERS = {"site-packages", "dist-packages"}
_PARTS_OF_A_FUNCTION = {"<genexpr>", "<listcomp>", "<dictcomp>", "<setcomp>"}

Push = Callable[[], Any]


class Choice:
    """Which functions get a range, and its name.

    A function is the program's own if its file is in one of the directories and does not belong to
    an installed package or to Python. A shell pattern (``*``, ``?``, ``[a-z]``) matches the name of
    a function, ``package.module.Class.function``, or of a module or package.

    Args:
        folders: The directories of the program's own files.
        main: The module name to use for ``__main__``.
        include: Patterns of functions from any module that get a range.
        exclude: Patterns of functions without a range.
    """

    def __init__(
        self,
        folders: Iterable[Path],
        main: str,
        include: Iterable[str] = (),
        exclude: Iterable[str] = (),
    ) -> None:
        self._folders = [folder.resolve() for folder in folders]
        self._foreign = _installed_folders()
        self._is_own = functools.cache(self._file_is_own)
        self._main = main
        self._include = tuple(include)
        self._exclude = tuple(exclude)

    def name(self, code: CodeType, module: str) -> str | None:
        """Return the name of a function's range, or None for no range."""
        if not code.co_flags & _IS_FUNCTION or code.co_name in _PARTS_OF_A_FUNCTION:
            return None
        module = self._main if module == "__main__" else module
        name = f"{module}.{code.co_qualname.replace('.<locals>', '')}"
        wanted = _matches(name, self._include) or self._is_own(code.co_filename)
        return name if wanted and not _matches(name, self._exclude) else None

    def _file_is_own(self, file: str) -> bool:
        if file.startswith("<"):  # code without a file
            return False
        path = Path(file).resolve()
        return (
            any(path.is_relative_to(folder) for folder in self._folders)
            and not any(path.is_relative_to(folder) for folder in self._foreign)
            and not _FOREIGN_FOLDERS.intersection(path.parts)
        )


class FunctionRanges:
    """Pushes and pops a range for each call of the chosen functions.

    Args:
        choice: The functions that get a range.

    Raises:
        RuntimeError: There is no profiler.
    """

    def __init__(self, choice: Choice) -> None:
        self._choice = choice
        self._domain = _domain()
        self._lock = threading.Lock()
        # By the id of a code object, which is faster than its hash; `_kept` prevents the reuse of
        # ids.
        self._pushes: dict[int, Push | None] = {}
        self._kept: list[CodeType] = []

    def start(self) -> None:
        """Start, on all threads, until the end of the process and of its forks."""
        if sys.version_info >= (3, 12):
            self._monitor()
        else:
            threading.setprofile(self._profile)
            sys.setprofile(self._profile)

    def _decide(self, code: CodeType, frame: FrameType) -> Push | None:
        """Return the function that pushes a function's range, or None for no range."""
        name = self._choice.name(code, frame.f_globals.get("__name__", "?"))
        if name is None:
            return None
        return self._domain.pushing(self._domain.attributes(name, None, None, None))

    def _keep(self, code: CodeType, push: Push | None) -> None:
        with self._lock:
            if id(code) not in self._pushes:
                self._kept.append(code)
                self._pushes[id(code)] = push

    if sys.version_info >= (3, 12):

        def _monitor(self) -> None:
            monitoring, events = sys.monitoring, sys.monitoring.events
            tool = self._free_tool()
            pushes, pop, disable = self._pushes, self._domain.pop, monitoring.DISABLE
            own = events.PY_RETURN | events.PY_YIELD | events.PY_RESUME

            def on_start(code: CodeType, offset: int) -> Any:
                push = pushes.get(id(code))
                if push is None:
                    push = self._decide(code, sys._getframe(1))  # noqa: SLF001 - the function's
                    if push is None:
                        return disable
                    self._keep(code, push)
                    monitoring.set_local_events(tool, code, own)
                push()
                return None

            def on_resume(code: CodeType, offset: int) -> None:
                push = pushes.get(id(code))
                if push is not None:
                    push()

            def on_throw(code: CodeType, offset: int, error: BaseException) -> None:
                push = pushes.get(id(code))
                if push is not None:
                    push()

            def on_leave(code: CodeType, offset: int, value: object) -> None:
                pop()

            def on_unwind(code: CodeType, offset: int, error: BaseException) -> None:
                if id(code) in pushes:
                    pop()

            for event, callback in (
                (events.PY_START, on_start),
                (events.PY_RESUME, on_resume),
                (events.PY_THROW, on_throw),
                (events.PY_RETURN, on_leave),
                (events.PY_YIELD, on_leave),
                (events.PY_UNWIND, on_unwind),
            ):
                monitoring.register_callback(tool, event, callback)
            # PY_THROW and PY_UNWIND cannot be enabled for individual functions.
            monitoring.set_events(tool, events.PY_START | events.PY_THROW | events.PY_UNWIND)

        @staticmethod
        def _free_tool() -> int:
            monitoring = sys.monitoring
            # The profiler id comes last: cProfile does not run while it is taken.
            for tool in (4, 3, monitoring.PROFILER_ID):
                if monitoring.get_tool(tool) is None:
                    monitoring.use_tool_id(tool, "warpline.annotate")
                    return tool
            raise RuntimeError("all tool ids of sys.monitoring are in use")

    def _profile(self, frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        if event == "call":
            try:
                push = self._pushes[id(code)]
            except KeyError:
                push = self._decide(code, frame)
                self._keep(code, push)
            if push is not None:
                push()
        elif event == "return" and self._pushes.get(id(code)) is not None:
            self._domain.pop()


def _domain() -> Domain:
    domain = LISTENER.domain(DOMAIN)
    if domain is None:
        raise RuntimeError("no NVTX profiler is attached")
    return domain


def _installed_folders() -> list[Path]:
    """Return the directories of Python and Warpline; their functions are not the program's own."""
    paths = sysconfig.get_paths()
    python = {Path(paths[kind]).resolve() for kind in ("stdlib", "platstdlib")}
    return [*python, Path(__file__).resolve().parents[1]]


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    """Return whether a pattern matches a name or one of its dotted prefixes."""
    if not patterns:
        return False
    parts = name.split(".")
    names = [".".join(parts[:length]) for length in range(1, len(parts) + 1)]
    return any(fnmatch.fnmatchcase(part, pattern) for pattern in patterns for part in names)
