"""PyTorch's profiler state in this process: our part holds it, and steps aside for the program's.

A thread has one state. Ours is one of

- ``backward``: NVTX ranges of autograd's nodes only; the forward pass costs nothing.
- ``nvtx``, ``nvtx-shapes``: NVTX ranges as of ``torch.autograd.profiler.emit_nvtx``.
- ``records``, ``records-shapes``: torch's own records of operators, taken by `operators`.

A state follows into autograd's threads. NVTX ranges begin on each thread that calls modules,
records on the thread that imports torch only: Kineto has one session per process.

PyTorch writes the end of an operator into the memory of the state in which it began, even if that
is gone and another one has begun. So a state of ours ends with the ranges of ``record_function``
that are open, and a second one begins only where no operator of torch can be open on the thread.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

from .wrapping import Wrapping, unnoticed

BACKWARD, NVTX, NVTX_SHAPES = "backward", "nvtx", "nvtx-shapes"
RECORDS, RECORDS_SHAPES = "records", "records-shapes"

_OF_RECORDS = (RECORDS, RECORDS_SHAPES)

# Modules of torch whose frames may be around a place where no operator is open.
_HARMLESS = ("torch.nn.modules.module", "torch.optim", "torch.multiprocessing", "torch.distributed")
_FAILED = object()
_QUIET = 99  # above all of Kineto's levels
_SEVERITY = "_ZN9libkineto6Logger14severityLevel_E"


class Taker:
    """Takes torch's records of operators, a state at a time, on the thread that has it."""

    def wants(self, *, is_end: bool, module: Any) -> str | None:
        """Return the mode in which to go on at a safe place; None to leave it as it is.

        Args:
            is_end: Whether a module's call has ended there, not begun.
            module: The module; None where a thread begins.
        """

    def began(self) -> None:
        """Take note that a state has begun to record."""

    def ending(self) -> None:
        """Take note that the state is about to end; it still records."""

    def take(self, result: Any) -> bool:
        """Take what torch recorded in the state, which has ended; return whether to go on."""
        return True


class Observer:
    """The holder of torch's profiler state.

    Args:
        mode: One of the modes above.
        context: The parts' context.
        taker: Who takes records, and says when there are to be some.
    """

    def __init__(self, mode: str, context: Any, taker: Taker | None = None) -> None:
        self.mode = mode
        self._context = context
        self._taker = taker
        self._torch: Any = sys.modules["torch"]
        self._replaced: list[tuple[Any, str, Any]] = []
        self._calls = Wrapping()
        self._here = threading.local()  # .mode, .ranges, .was_on, .is_calling of each thread
        self._thread = threading.get_ident()
        self._program = 0  # profilers of the program that are on
        self._is_over = False

    def start(self) -> None:
        """Watch the program's profilers, and begin on this thread."""
        self._context.agent.name("torch", "operators")  # the agent's session begins with a name
        self._watch()
        if self._taker is not None and hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._leave_in_fork)
        if "modules" in self._context.asked:
            self._context.safe_places.append(self.safe_place)
        else:
            self._calls.replace(self._torch.nn.Module, "__call__", self._wrapper)
        self.safe_place(is_end=False)

    def stop(self) -> None:
        """End on this thread for good, and leave torch as it was."""
        if not self._is_over:
            self._end()
            self._is_over = True
            self._unwatch()

    @property
    def mode_here(self) -> str | None:
        """Our state on this thread; None if it has none of ours."""
        return getattr(self._here, "mode", None)

    def safe_place(self, is_end: bool, module: Any = None) -> None:  # noqa: FBT001 - hot path
        """Begin or end on this thread as the recording has begun or ended.

        To be called before a module's call begins and after it has ended, outside all others.

        Args:
            is_end: Whether it has ended.
            module: The module.
        """
        if self._is_over:
            return
        is_wanted = bool(self._context.agent.is_recording())
        if self.mode_here is None:
            if is_wanted and self._may_begin():
                self._begin(self.mode)
        elif not is_wanted:
            self._end()
        elif self._taker is not None and self._is_first_thread and outside_operators():
            mode = self._taker.wants(is_end=is_end, module=module)
            if mode is not None:
                self._end()
                self._begin(mode)

    @property
    def _is_first_thread(self) -> bool:
        return threading.get_ident() == self._thread

    def _wrapper(self, call: Any) -> Any:
        """Return what replaces the function `call` of modules: around the outermost is safe."""
        here, safe_place = self._here, unnoticed(self.safe_place)
        is_compiling = self._torch.compiler.is_compiling

        def call_module(module: Any, /, *words: Any, **named: Any) -> Any:
            # Dynamo comes here only from a program that names __call__, and goes on to `call`.
            if is_compiling() or getattr(here, "is_calling", False):
                return call(module, *words, **named)
            here.is_calling = True
            safe_place(False, module)
            try:
                return call(module, *words, **named)
            finally:
                here.is_calling = False
                safe_place(True, module)

        return call_module

    def _may_begin(self) -> bool:
        if self._is_over or self._program or self._torch._C._autograd._profiler_enabled():
            return False
        if self.mode in _OF_RECORDS and not self._is_first_thread:
            self._context.note(
                "only operators of the main thread are recorded: this PyTorch has no NVTX"
            )
            return False
        return not getattr(self._here, "was_on", False) or outside_operators()

    def _begin(self, mode: str) -> None:
        if not self._is_over:
            self._attempt(self._enter, mode)

    def _enter(self, mode: str) -> None:
        """Begin a state of torch's on this thread."""
        autograd, scopes = self._torch._C._autograd, set()
        config, activities = self._config(mode), self._activities(mode)
        if mode == BACKWARD:
            scopes = {self._torch._C._profiler.RecordScope.BACKWARD_FUNCTION}
        if mode in _OF_RECORDS:
            with _silent(self._torch):
                autograd._prepare_profiler(config, activities)
        with _silent(self._torch):  # again: the first one to prepare sets a level
            autograd._enable_profiler(config, activities, scopes)
        self._here.mode, self._here.was_on = mode, True
        if mode in _OF_RECORDS and self._taker is not None:
            self._taker.began()

    def _end(self) -> None:
        mode = self.mode_here
        if mode is None:
            return
        taker = self._taker if mode in _OF_RECORDS else None
        if taker is not None:
            self._attempt(taker.ending)
        result = self._attempt(self._leave)
        if taker is not None and result is not _FAILED and not self._attempt(taker.take, result):
            self._is_over = True

    def _attempt(self, function: Callable[..., Any], *words: Any) -> Any:
        """Call a function; an error is noted and ends our part, not the program."""
        result = self._context.guarded("operators", function, otherwise=_FAILED)(*words)
        self._is_over |= result is _FAILED
        return result

    def _leave(self) -> Any:
        """End torch's state of this thread and the ranges in it; return what torch recorded."""
        self._here.mode = None
        with _silent(self._torch):
            result = self._torch._C._autograd._disable_profiler()
        for one in self._ranges():  # without a state, this writes nothing
            with contextlib.suppress(Exception):
                _original(type(one).__exit__)(one, None, None, None)
        self._ranges().clear()
        return result

    def _leave_in_fork(self) -> None:
        """End the records that a fork has inherited."""
        self._taker = None
        if self.mode_here in _OF_RECORDS:
            self._end()
            self._is_over = True

    def _config(self, mode: str) -> Any:
        profiler = self._torch._C._profiler
        state = profiler.ProfilerState
        kind = state.KINETO if mode in _OF_RECORDS else state.NVTX
        has_shapes = mode in (NVTX_SHAPES, RECORDS_SHAPES)
        return profiler.ProfilerConfig(
            kind, has_shapes, False, False, False, False, _experimental(profiler)
        )

    def _activities(self, mode: str) -> Any:
        is_one = mode in _OF_RECORDS
        return {self._torch._C._profiler.ProfilerActivity.CPU} if is_one else set()

    # The program's own profilers

    def _watch(self) -> None:
        """Take note of the functions with which the program's profilers begin and end."""
        profiler = self._torch.autograd.profiler
        self._replace(profiler, "_prepare_profiler", self._before_program)
        self._replace(profiler, "_enable_profiler", self._program_begins)
        self._replace(profiler, "_disable_profiler", self._program_ends)
        legacy = sys.modules.get("torch.autograd.profiler_legacy")
        if legacy is not None:
            self._replace(legacy, "_enable_profiler_legacy", self._program_begins)
            self._replace(legacy, "_disable_profiler_legacy", self._program_ends)
        if self._taker is not None:
            self._replace(profiler.record_function, "__enter__", self._range_begins)
            self._replace(profiler.record_function, "__exit__", self._range_ends)

    def _unwatch(self) -> None:
        self._calls.restore()
        if self.safe_place in self._context.safe_places:
            self._context.safe_places.remove(self.safe_place)
        for owner, name, ours in reversed(self._replaced):
            if owner.__dict__.get(name) is ours:
                setattr(owner, name, ours.__wrapped__)
        self._replaced.clear()

    def _replace(self, owner: Any, name: str, around: Callable[..., Any]) -> None:
        original = owner.__dict__.get(name)
        if original is None:
            return

        @functools.wraps(original)
        def replacement(*words: Any, **named: Any) -> Any:
            return around(original, *words, **named)

        setattr(owner, name, replacement)
        self._replaced.append((owner, name, replacement))

    def _step_aside(self) -> None:
        if self.mode_here is None:
            return
        self._end()
        self._context.note(
            "the program uses torch.profiler: meanwhile its operators are recorded there, not here;"
            " warpline merge adds them"
        )

    def _before_program(self, original: Callable[..., Any], *words: Any, **named: Any) -> Any:
        self._step_aside()
        return original(*words, **named)

    def _program_begins(self, original: Callable[..., Any], *words: Any, **named: Any) -> Any:
        self._step_aside()
        result = original(*words, **named)  # its errors are the program's
        self._program += 1
        return result

    def _program_ends(self, original: Callable[..., Any], *words: Any, **named: Any) -> Any:
        try:
            return original(*words, **named)
        finally:
            self._program = max(self._program - 1, 0)

    # Ranges of record_function that are open

    def _ranges(self) -> list[Any]:
        if not hasattr(self._here, "ranges"):
            self._here.ranges = []
        ranges: list[Any] = self._here.ranges
        return ranges

    def _range_begins(self, original: Callable[..., Any], one: Any) -> Any:
        result = original(one)
        if self.mode_here in _OF_RECORDS:
            self._ranges().append(one)
        return result

    def _range_ends(self, original: Callable[..., Any], one: Any, *words: Any) -> Any:
        open_ranges = self._ranges()
        if one in open_ranges:
            open_ranges.remove(one)
        return original(one, *words)


def outside_operators() -> bool:
    """Return whether no operator of torch can be open on this thread, by its Python frames.

    Code that runs inside one, such as a custom operator, a node of autograd or compiled code, has a
    frame of torch around it.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        name = frame.f_globals.get("__name__") or ""
        if name.startswith("torch.") and not name.startswith(_HARMLESS):
            return False
        frame = frame.f_back
    return True


def _original(function: Any) -> Any:
    return getattr(function, "__wrapped__", function)


def _experimental(profiler: Any) -> Any:
    """Return torch's experimental settings, with as little work as this version allows."""
    for wanted in (
        {"disable_external_correlation": True, "trace_only": True},
        {"disable_external_correlation": True},
    ):
        with contextlib.suppress(TypeError):
            return profiler._ExperimentalConfig(**wanted)
    return profiler._ExperimentalConfig()


@contextlib.contextmanager
def _silent(torch: Any) -> Iterator[None]:
    """Let Kineto print nothing meanwhile: some versions write lines to standard error."""
    level = _severity(torch)
    if level is None:
        yield
        return
    before = level.value
    level.value = _QUIET
    try:
        yield
    finally:
        if level.value == _QUIET:  # the first that prepares to record sets its own
            level.value = before


@functools.cache
def _severity(torch: Any) -> Any:
    """Return Kineto's level of messages in this process, a C int; None if it is not exported."""
    try:
        library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"))
        return ctypes.c_int.in_dll(library, _SEVERITY)
    except (OSError, ValueError, AttributeError, TypeError):
        return None


_held: Observer | None = None


def start(context: Any) -> None:
    """Begin in the mode that was asked for; torch has been imported.

    Operators that are asked for begin it themselves.
    """
    asked = context.asked
    if asked & {"functions-trace", "functions-trace-shapes"}:
        return
    if not has_nvtx():
        context.note("--pytorch: this PyTorch has no NVTX: no autograd ranges, no backward passes")
        return
    shapes, forward = "autograd-shapes-nvtx" in asked, "autograd-nvtx" in asked
    hold(Observer(NVTX_SHAPES if shapes else NVTX if forward else BACKWARD, context))


def stop() -> None:
    """End for good, and leave torch as it was."""
    global _held
    held, _held = _held, None
    if held is not None:
        held.stop()


def hold(observer: Observer) -> None:
    """Begin with an observer, unless there is one."""
    global _held  # noqa: PLW0603 - a process has one state
    if _held is None:
        _held = observer
        observer.start()


def enter_thread() -> None:
    """Begin on this thread, which is about to call a module."""
    if _held is not None:
        _held.safe_place(is_end=False)


def has_nvtx() -> bool:
    """Return whether torch makes NVTX ranges: builds for the CPU do not."""
    return hasattr(sys.modules["torch"]._C, "_nvtx")
