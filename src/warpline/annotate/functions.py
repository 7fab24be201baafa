"""A range for every call of a program's own functions.

From Python 3.12 on by `sys.monitoring`: code that is not the program's own is looked at once and
then runs at full speed. Python 3.11 has the profile hook only, which is called for every function
of every library, which the program cannot use for itself meanwhile, and which a RecursionError
ends on the thread that it strikes.

Ranges are pushed and popped on the thread that runs the function. A generator or a coroutine is in
its range while it runs, not while it waits: its range is popped where it yields and pushed again
where it goes on, so ranges nest whatever order the program resumes things in.
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

_IS_FUNCTION = 0x1  # CO_OPTIMIZED: neither a module nor the body of a class
_FOREIGN_FOLDERS = {"site-packages", "dist-packages"}
_PARTS_OF_A_FUNCTION = {"<genexpr>", "<listcomp>", "<dictcomp>", "<setcomp>"}

Push = Callable[[], Any]


class Choice:
    """Which functions get a range, and under which name.

    A function is the program's own if its file lies in one of the folders and is not of an
    installed package or of Python itself. A pattern is that of a shell (``*``, ``?``, ``[a-z]``)
    for a function's name, ``package.module.Class.function``, or for a module or package.

    Args:
        folders: Where the program's own files are.
        main: What functions of the module ``__main__`` are called after.
        include: Patterns of functions that get a range wherever they are from.
        exclude: Patterns of functions that get none.
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
        """Return the name of a function's range, or None if it gets none."""
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
    """The ranges of functions, pushed and popped as they run.

    Args:
        choice: Which functions get a range.

    Raises:
        RuntimeError: Nothing listens.
    """

    def __init__(self, choice: Choice) -> None:
        self._choice = choice
        self._domain = _domain()
        self._lock = threading.Lock()
        # By the id of a code object, which is quicker than its hash; `_kept` keeps ids from being
        # used again.
        self._pushes: dict[int, Push | None] = {}
        self._kept: list[CodeType] = []

    def start(self) -> None:
        """Begin, on every thread; for the rest of the process and of its forks."""
        if sys.version_info >= (3, 12):
            self._monitor()
        else:
            threading.setprofile(self._profile)
            sys.setprofile(self._profile)

    def _decide(self, code: CodeType, frame: FrameType) -> Push | None:
        """Return what pushes the range of a function, or None if it gets none."""
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
            # Errors that pass through functions cannot be asked for by function.
            monitoring.set_events(tool, events.PY_START | events.PY_THROW | events.PY_UNWIND)

        @staticmethod
        def _free_tool() -> int:
            monitoring = sys.monitoring
            # The one for profilers last: cProfile refuses to run when it is taken.
            for tool in (4, 3, monitoring.PROFILER_ID):
                if monitoring.get_tool(tool) is None:
                    monitoring.use_tool_id(tool, "warpline.annotate")
                    return tool
            raise RuntimeError("every number that sys.monitoring has for a profiler is in use")

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
        raise RuntimeError("nothing listens to NVTX")
    return domain


def _installed_folders() -> list[Path]:
    """Return where Python and Warpline are, whose functions are never the program's own."""
    paths = sysconfig.get_paths()
    python = {Path(paths[kind]).resolve() for kind in ("stdlib", "platstdlib")}
    return [*python, Path(__file__).resolve().parents[1]]


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    """Return whether a pattern fits a name or one of the names that it begins with."""
    if not patterns:
        return False
    parts = name.split(".")
    names = [".".join(parts[:length]) for length in range(1, len(parts) + 1)]
    return any(fnmatch.fnmatchcase(part, pattern) for pattern in patterns for part in names)
