"""A range for every call of a module, named by its path: GPT.blocks.0.attn.

`torch.nn.Module.__call__` is replaced, which compiled code does not go through. Global module hooks
are not used: they fire twice on compiled modules, and setting them discards what was compiled.

Methods that call the module many times, such as `generate` of Transformers, have a range with their
name, too: what they do between these calls belongs to the model. So have the steps of Lightning,
which calls no `forward` of the model: modules in it get their paths by that.

Each range has autograd's sequence number at its begin and its end: the operators of the call, and
so its nodes in the backward pass, have the numbers in between.
"""

from __future__ import annotations

import sys
import threading
from typing import Any

from .context import Context
from .module_names import Call, ModuleNames
from .watch_import import call_after_import, forget
from .wrapping import Wrapping, hide_frame, unnoticed

_METHODS = {"transformers.generation.utils": ("GenerationMixin", "generate")}  # by their file
_LIGHTNING = ("lightning.pytorch.trainer.call", "pytorch_lightning.trainer.call")
_STEP_CALL = "_call_strategy_hook"  # (trainer, name of the method, ...)
_STEPS = ("training_step", "validation_step", "test_step", "predict_step")

_wrapping = Wrapping()
_waiting: list[Any] = []


def start(context: Context) -> None:
    """Record the calls of modules from now on."""
    torch = sys.modules["torch"]
    sequence = getattr(torch._C._autograd, "_get_sequence_nr", None)  # noqa: SLF001
    if sequence is None:
        context.note(
            "--pytorch: this PyTorch has no sequence numbers: no module has a backward pass"
        )
        sequence = _no_number
    names = context.module_names = ModuleNames(context)
    calls = _Calls(context, names, sequence)
    _wrapping.replace(torch.nn.Module, "__call__", calls.wrapper)
    later: dict[str, Any] = {file: _Method(file, calls) for file in _METHODS}
    later.update((file, _LightningSteps(file, calls)) for file in _LIGHTNING)
    for file, function in later.items():
        _waiting.append(context.guarded("modules", function))
        call_after_import(file, _waiting[-1])


def stop() -> None:
    """Record no more calls."""
    while _waiting:
        forget(_waiting.pop())
    _wrapping.restore()


class _Method:
    """Wraps the method of a file once that is imported."""

    def __init__(self, file: str, calls: _Calls) -> None:
        self._file = file
        self._calls = calls

    def __call__(self) -> None:
        of_class, method = _METHODS[self._file]
        owner = getattr(sys.modules[self._file], of_class)
        _wrapping.replace(owner, method, lambda call: self._calls.wrapper(call, method))


class _LightningSteps:
    """Wraps Lightning's call of steps once that is imported."""

    def __init__(self, file: str, calls: _Calls) -> None:
        self._file = file
        self._calls = calls

    def __call__(self) -> None:
        file = sys.modules[self._file]
        if hasattr(file, _STEP_CALL):
            _wrapping.replace(file, _STEP_CALL, self._calls.steps_wrapper)


def _no_number() -> int:
    return -1


class _Calls:
    """The calls of modules, as ranges.

    Args:
        context: Has the agent.
        names: The names of modules.
        sequence: Returns autograd's next sequence number of this thread.
    """

    def __init__(self, context: Context, names: ModuleNames, sequence: Any) -> None:
        self._context = context
        self._names = names
        self._sequence = sequence
        self._local = threading.local()

    def wrapper(self, call: Any, method: str | None = None) -> Any:
        """Return what replaces the function `call` of modules, a method if it has a name.

        It runs for every call of a module: all that it needs is in local variables.
        """
        local, known = self._local, self._names.known
        find = unnoticed(
            self._context.guarded("modules", self._names.find, otherwise=self._names.nameless)
        )
        enter_thread = unnoticed(self._enter_thread)
        places, visit = self._context.safe_places, unnoticed(self._visit)
        agent, sequence = self._context.agent, self._sequence
        push, pop, is_recording = agent.push, agent.pop, agent.is_recording
        is_compiling = sys.modules["torch"].compiler.is_compiling
        nameless, named = self._names.nameless, unnoticed(self._names.of_method)

        def call_module(module: Any, /, *args: Any, **kwargs: Any) -> Any:
            # Dynamo comes here only from a program that names __call__, and goes on to `call`.
            if is_compiling():
                return call(module, *args, **kwargs)
            try:
                open_calls = local.open
            except AttributeError:
                open_calls = enter_thread()
            is_outermost = places and not open_calls
            if is_outermost:
                visit(False, module, (args, kwargs))  # noqa: FBT003
            if is_recording():
                name = known.get(id(module)) or find(module, open_calls)
                if method is not None:
                    name = named(name, method)
                handle = name.handle
                push(handle, sequence())
            elif is_outermost:
                name, handle = nameless, 0
            else:
                return call(module, *args, **kwargs)
            open_calls.append(name)
            try:
                return call(module, *args, **kwargs)
            finally:
                if open_calls:  # not so if the program switches stacks
                    open_calls.pop()
                pop(handle, sequence())
                if is_outermost:
                    visit(True, module, (args, kwargs))  # noqa: FBT003

        return call_module

    def steps_wrapper(self, call: Any) -> Any:
        """Return what replaces the function `call`, by which Lightning calls a model's steps."""

        def call_step(module: Any, trainer: Any, name: str, *args: Any, **kwargs: Any) -> Any:
            return call(trainer, name, *args, **kwargs)

        steps = {name: self.wrapper(call_step, name) for name in _STEPS}
        for step in steps.values():
            hide_frame(step)
        module_class = sys.modules["torch"].nn.Module

        def call_hook(trainer: Any, name: str, *args: Any, **kwargs: Any) -> Any:
            step = steps.get(name)
            module = None if step is None else getattr(trainer, "lightning_module", None)
            if step is None or not isinstance(module, module_class):
                return call(trainer, name, *args, **kwargs)
            return step(module, trainer, name, *args, **kwargs)

        return call_hook

    def _visit(self, is_end: bool, module: Any, inputs: Any) -> None:  # noqa: FBT001 - as theirs
        for visit in self._context.safe_places:
            self._context.guarded("operators", visit)(is_end, module, inputs)

    def _enter_thread(self) -> list[Call]:
        """Return the open calls of a thread, at the first one."""
        open_calls: list[Call] = []
        self._local.open = open_calls
        observer = self._context.parts.get("observer")
        if observer is not None:
            self._context.guarded("observer", observer.enter_thread)()
        return open_calls
