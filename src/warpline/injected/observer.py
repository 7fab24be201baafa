"""PyTorch's profiler state in this process: our part holds it, and steps aside for the program's.

A thread has one state. Ours is one of

- ``backward``: NVTX ranges of autograd's nodes only; the forward pass costs nothing.
- ``nvtx``, ``nvtx-shapes``: NVTX ranges as of ``torch.autograd.profiler.emit_nvtx``.
- ``records``, ``records-shapes``: torch's own records of operators, taken by `operators`.

A state follows into autograd's threads. NVTX ranges begin on each thread that runs modules, records
on the thread that imports torch only: Kineto has one session per process.

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

BACKWARD, NVTX, NVTX_SHAPES = "backward", "nvtx", "nvtx-shapes"
RECORDS, RECORDS_SHAPES = "records", "records-shapes"

_MODES = {  # what was asked for -> mode, the first that was asked for
    "functions-trace-shapes": RECORDS_SHAPES,
    "functions-trace": RECORDS,
    "autograd-shapes-nvtx": NVTX_SHAPES,
    "autograd-nvtx": NVTX,
    "modules": BACKWARD,
}
# Modules of torch whose frames may be around a place where no operator is open.
_HARMLESS = ("torch.nn.modules.module", "torch.optim", "torch.multiprocessing", "torch.distributed")
_QUIET = 99  # above all of Kineto's levels
_SEVERITY = "_ZN9libkineto6Logger14severityLevel_E"


class Taker:
    """Takes torch's records of operators, a state at a time, on the thread that has it."""

    def began(self) -> None:
        """Take note that a state has begun to record."""

    def is_enough(self) -> bool:
        """Return whether the records should be taken, and the next state begin."""
        return False

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
        records: Who takes the records, in a mode that has them.
    """

    def __init__(
        self,
        mode: str,
        context: Any,
        records: Taker | None = None,
    ) -> None:
        self.mode = mode
        self._context = context
        self._torch: Any = sys.modules["torch"]
        self._has_records = mode in (RECORDS, RECORDS_SHAPES)
        self._taker = records
        self._replaced: list[tuple[Any, str, Any]] = []
        self._here = threading.local()  # .is_on, .ranges, .was_on of each thread
        self._thread = threading.get_ident()
        self._program = 0  # profilers of the program that are on
        self._is_over = False
        self._noted: dict[str, bool] = {}

    def start(self) -> None:
        """Watch the program's profilers, and begin on this thread."""
        self._context.agent.name("torch", "operators")  # the agent's session begins with a name
        self._watch()
        if self._has_records and hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._leave_in_fork)
        self.safe_place()

    def stop(self) -> None:
        """End on this thread for good, and leave torch as it was."""
        if not self._is_over:
            self._end()
            self._is_over = True
            self._unwatch()

    @property
    def is_on(self) -> bool:
        """Whether the state of this thread is ours."""
        return bool(getattr(self._here, "is_on", False))

    def safe_place(self) -> None:
        """Begin or end on this thread as the recording has begun or ended.

        To be called where modules and optimizers begin or end, outside all others.
        """
        is_wanted = bool(self._context.agent.is_recording())
        if not self.is_on:
            if is_wanted and self._may_begin():
                self._begin()
        elif not is_wanted:
            self._end()
        elif self._taker is not None and self._taker.is_enough() and outside_operators():
            self._end()
            self._begin()

    def _may_begin(self) -> bool:
        if self._is_over or self._program:
            return False
        if self._has_records and threading.get_ident() != self._thread:
            self._note_once("operators of the main thread only are recorded: torch has one session")
            return False
        return not getattr(self._here, "was_on", False) or outside_operators()

    def _begin(self) -> None:
        autograd, scopes = self._torch._C._autograd, set()
        config, activities = self._config(), self._activities()
        if self.mode == BACKWARD:
            scopes = {self._torch._C._profiler.RecordScope.BACKWARD_FUNCTION}
        with self._noting_errors():
            if self._has_records:
                autograd._prepare_profiler(config, activities)  # the first one sets Kineto's level
            with _silent(self._torch):
                autograd._enable_profiler(config, activities, scopes)
        if self._is_over:
            return
        self._here.is_on = self._here.was_on = True
        if self._taker is not None:
            with self._noting_errors():
                self._taker.began()

    def _end(self) -> None:
        if not self.is_on:
            return
        if self._taker is not None:
            with self._noting_errors():
                self._taker.ending()
        with self._noting_errors(), _silent(self._torch):
            result = self._leave()
            if self._taker is not None and not self._taker.take(result):
                self._is_over = True

    def _leave(self) -> Any:
        """End torch's state of this thread and the ranges in it; return what torch recorded."""
        self._here.is_on = False
        result = self._torch._C._autograd._disable_profiler()
        for one in self._ranges():  # without a state, this writes nothing
            with contextlib.suppress(Exception):
                _original(type(one).__exit__)(one, None, None, None)
        self._ranges().clear()
        return result

    def _leave_in_fork(self) -> None:
        """End the state that a fork has inherited, and its records with it."""
        self._taker = None
        self._end()
        self._is_over = True

    @contextlib.contextmanager
    def _noting_errors(self) -> Iterator[None]:
        """Whatever fails ends the recording of operators, and not the program."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 - noted
            self._is_over = True
            why = str(error).splitlines()[0] if str(error) else type(error).__name__
            self._note_once(f"torch's operators are not recorded, or not all: {why}")

    def _note_once(self, text: str) -> None:
        if text not in self._noted:
            self._noted[text] = True
            self._context.note(text)

    def _config(self) -> Any:
        profiler = self._torch._C._profiler
        state = profiler.ProfilerState
        has_shapes = self.mode in (NVTX_SHAPES, RECORDS_SHAPES)
        kind = state.KINETO if self._has_records else state.NVTX
        return profiler.ProfilerConfig(
            kind, has_shapes, False, False, False, False, _experimental(profiler)
        )

    def _activities(self) -> Any:
        return {self._torch._C._profiler.ProfilerActivity.CPU} if self._has_records else set()

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
        if self._has_records:
            self._replace(profiler.record_function, "__enter__", self._range_begins)
            self._replace(profiler.record_function, "__exit__", self._range_ends)

    def _unwatch(self) -> None:
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
        if self.is_on:
            self._end()
            self._note_once(
                "the program uses torch's profiler: its operators are recorded there meanwhile, not"
                " here; warpline merge adds its trace"
                if self._has_records
                else "the program uses torch's profiler: torch's NVTX ranges are missing meanwhile"
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
        if self.is_on:
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


def mode_of(asked: Any) -> str | None:
    """Return the mode for what was asked for; None if none is needed."""
    return next((mode for word, mode in _MODES.items() if word in asked), None)


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
    """Begin in the mode that was asked for; torch has been imported. Records begin `operators`."""
    mode = mode_of(context.asked)
    if mode is not None and mode not in (RECORDS, RECORDS_SHAPES):
        hold(Observer(mode, context))


def stop() -> None:
    """End for good, and leave torch as it was."""
    global _held
    held, _held = _held, None
    if held is not None:
        held.stop()


def hold(observer: Observer) -> None:
    """Begin with an observer, unless there is one."""
    global _held  # noqa: PLW0603
    if _held is None:
        _held = observer
        observer.start()


def safe_place() -> None:
    """Say that no operator of torch is open on this thread: between calls of modules or steps."""
    if _held is not None:
        _held.safe_place()
