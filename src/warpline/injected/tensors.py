"""Which memory of GPUs belongs to parameters, buffers, gradients, optimizer states and inputs.

The program's modules and optimizers are looked at, and each look is a line: the address and size
of the tensors, or that they are where they were. A tensor is the owner of the block that is live
at its address at that time, so gradients, which are new in each step, are looked at after each
step of an optimizer, and inputs in each outermost call of a module. All others are looked at where
their number or a doubled number of calls suggests that they may have changed.

Nothing is kept alive: tensors are known by identity and weak references.

    PID-tensors.jsonl:
    ["tensor", number, kind, name, module]
    ["seen", time_ns, look, [[number, device, address, bytes], ...]]
    ["same", time_ns, look]
"""

from __future__ import annotations

import gc
import os
import sys
import time
import weakref
from collections.abc import Iterable, Iterator
from typing import Any

from . import memory
from .context import Context
from .module_names import class_name
from .wrapping import Wrapping

PARAMETER, BUFFER, GRADIENT = "Parameter", "Buffer", "Gradient"
STATE, INPUT = "Optimizer state", "Input"

_FILE = "tensors.jsonl"
_MOST_INPUTS = 200  # tensors in the arguments of a call
_DEEPEST = 4  # lists and dictionaries in each other
_MOST_LINES = 1000  # before they are written
_FLUSH_NS = 250_000_000
_NO_SIZE = (AttributeError, NotImplementedError, RuntimeError, TypeError, ValueError)

_tensors: Tensors | None = None


def start(context: Context) -> None:
    """Look at the tensors of the program's modules and optimizers from now on."""
    global _tensors  # noqa: PLW0603 - one per process
    if hasattr(sys.modules["torch"]._C, "_cuda_record_memory_history"):
        _tensors = Tensors(context)
        _tensors.start()


def stop() -> None:
    """Look no more."""
    global _tensors
    tensors, _tensors = _tensors, None
    if tensors is not None:
        tensors.stop()


class Tensors:
    """Looks at the tensors of modules and optimizers.

    Args:
        context: The parts' context.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._torch: Any = sys.modules["torch"]
        self._wrapping = Wrapping()
        self._optimizers: list[_Optimizer] = []
        self._owners: dict[tuple[str, str, str | None], int] = {}
        self._last: dict[str, list[tuple[int, int, int, int]]] = {}
        self._names: dict[int, tuple[Any, str, str | None]] = {}  # of parameters, by identity
        self._lines: list[Any] = []
        self._written_ns = 0
        self._modules = 0
        self._calls = 0
        self._place = context.guarded("memory", self.safe_place)
        self._after_step = context.guarded("memory", self.step_end)

    def start(self) -> None:
        """Begin to look, and take note of new optimizers."""
        if self._torch.cuda.is_initialized():  # the program has been running for a while
            self._find_optimizers()
        self._wrapping.replace(self._torch.optim.Optimizer, "__init__", self._note_optimizers)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget)
        self._context.safe_places.append(self._place)
        self._context.step_ends.append(self._after_step)

    def stop(self) -> None:
        """Write what is left, and leave torch as it was."""
        self._flush()
        self._wrapping.restore()
        for places, ours in (
            (self._context.safe_places, self._place),
            (self._context.step_ends, self._after_step),
        ):
            if ours in places:
                places.remove(ours)

    def safe_place(self, is_end: bool, inputs: Any) -> None:  # noqa: FBT001 - a hot path
        """Look at the inputs of a call that begins, or after it at the modules."""
        if not self._is_wanted():
            return
        if not is_end:
            self._look("inputs", self._inputs(inputs))
            return
        self._calls += 1
        names = self._context.module_names
        if names is not None and (len(names.known) != self._modules or _is_round(self._calls)):
            self._look_at_modules(names)

    def step_end(self) -> None:
        """Look at what the optimizers have changed."""
        if not self._is_wanted():
            return
        self._optimizers = [one for one in self._optimizers if one.reference() is not None]
        for one in self._optimizers:
            optimizer = one.reference()
            if optimizer is None:
                continue
            one.steps += 1
            self._look(f"{one.name} gradients", self._gradients(one.name, optimizer))
            if _is_round(one.steps) or one.steps == 3:  # the first may be special
                self._look(f"{one.name} state", self._states(one.name, optimizer))

    def _is_wanted(self) -> bool:
        if self._context.agent.is_recording() and memory.is_on():
            return True
        self._last.clear()  # all is new after a pause
        return False

    def _find_optimizers(self) -> None:
        """Find the optimizers that there are."""
        kind = self._torch.optim.Optimizer
        for one in gc.get_objects():
            if issubclass(type(one), kind):
                self._note(one)

    def _note_optimizers(self, original: Any) -> Any:
        """Return what replaces `Optimizer.__init__`."""
        note = self._context.guarded("memory", self._note)

        def __init__(self_: Any, *words: Any, **named: Any) -> None:  # noqa: N807
            original(self_, *words, **named)
            note(self_)

        return __init__

    def _note(self, optimizer: Any) -> None:
        if all(one.reference() is not optimizer for one in self._optimizers):
            self._optimizers.append(self._numbered(optimizer))

    def _numbered(self, optimizer: Any) -> _Optimizer:
        """Return an optimizer with the number of its class: the second is AdamW#2."""
        kind = class_name(optimizer)
        taken = {one.name for one in self._optimizers}
        number = next(n for n in range(1, len(taken) + 2) if _numbered(kind, n) not in taken)
        return _Optimizer(_numbered(kind, number), weakref.ref(optimizer))

    # What there is to be seen

    def _look_at_modules(self, names: Any) -> None:
        """Look at all parameters and buffers, and learn their names."""
        self._modules = len(names.known)
        found: dict[int, tuple[str, str, str | None, Any]] = {}
        for call in list(names.known.values()):
            module = call.module()
            if module is None:
                continue
            for kind, tensors in ((PARAMETER, module._parameters), (BUFFER, module._buffers)):
                for key, tensor in list(tensors.items()):
                    if tensor is not None:  # one in two places has the name of the first
                        name = f"{call.inside}.{key}"
                        found.setdefault(id(tensor), (kind, name, call.inside, tensor))
        self._names = {
            key: (weakref.ref(tensor), name, module)
            for key, (_, name, module, tensor) in found.items()
        }
        self._look("modules", found.values())

    def _gradients(self, of: str, optimizer: Any) -> Iterator[tuple[str, str, str | None, Any]]:
        for name, module, parameter in self._parameters(of, optimizer):
            gradient = parameter.grad if parameter.is_leaf else None  # of others, torch warns
            if gradient is not None:
                yield GRADIENT, name, module, gradient

    def _states(self, of: str, optimizer: Any) -> Iterator[tuple[str, str, str | None, Any]]:
        """Yield the tensors of an optimizer's state, and parameters that are in no module."""
        for name, module, parameter in self._parameters(of, optimizer):
            if module is None:
                yield PARAMETER, name, None, parameter
            state = optimizer.state.get(parameter) or {}
            for key, value in list(state.items()):
                if isinstance(value, self._torch.Tensor):
                    yield STATE, f"{of}.{key} of {name}", module, value

    def _parameters(self, of: str, optimizer: Any) -> Iterator[tuple[str, str | None, Any]]:
        for group_number, group in enumerate(optimizer.param_groups):
            for number, parameter in enumerate(group["params"]):
                reference, name, module = self._names.get(id(parameter), (None, "", None))
                if reference is None or reference() is not parameter:
                    name, module = f"{of}.param_groups.{group_number}.params.{number}", None
                yield name, module, parameter

    def _inputs(self, inputs: Any) -> Iterator[tuple[str, str, str | None, Any]]:
        """Yield the tensors in the arguments of a call that no operator has made."""
        words, named = inputs
        parts = [(str(number), value) for number, value in enumerate(words)] + list(named.items())
        for count, (name, tensor) in enumerate(self._tensors_in(parts, 0)):
            if count == _MOST_INPUTS:
                return
            if tensor.grad_fn is None and not tensor.requires_grad:
                yield INPUT, f"input {name}", None, tensor

    def _tensors_in(self, parts: Iterable[tuple[str, Any]], depth: int) -> Iterator[Any]:
        for name, value in parts:
            if isinstance(value, self._torch.Tensor):
                yield name, value
            elif depth < _DEEPEST and type(value) in (list, tuple):
                inner: list[tuple[str, Any]] = [(f"{name}.{n}", one) for n, one in enumerate(value)]
                yield from self._tensors_in(inner, depth + 1)
            elif depth < _DEEPEST and isinstance(value, dict):
                inner = [(f"{name}.{key}", one) for key, one in list(value.items())]
                yield from self._tensors_in(inner, depth + 1)

    # What is written

    def _look(self, look: str, found: Iterable[tuple[str, str, str | None, Any]]) -> None:
        """Write where tensors are: kind, name, module and tensor."""
        now, new, seen = time.monotonic_ns(), [], []
        for kind, name, module, tensor in found:
            for place in self._places(tensor):
                owner = self._owners.get((kind, name, module))
                if owner is None:
                    owner = self._owners[kind, name, module] = len(self._owners)
                    new.append(["tensor", owner, kind, name, module])
                seen.append((owner, *place))
        if seen == self._last.get(look, []):
            if seen:
                new.append(["same", now, look])
        else:
            self._last[look] = seen
            new.append(["seen", now, look, seen])
        self._lines += new
        if len(self._lines) > _MOST_LINES or now - self._written_ns > _FLUSH_NS:
            self._written_ns = now
            self._flush()

    def _flush(self) -> None:
        """Write the lines that have not been written yet, at once: a step may have many looks."""
        lines, self._lines = self._lines, []
        if lines:
            self._context.add_lines(_FILE, lines)

    def _forget(self) -> None:
        """Forget what the parent of a fork has seen."""
        self._lines.clear()
        self._last.clear()
        self._owners.clear()

    def _places(self, tensor: Any) -> Iterator[tuple[int, int, int]]:
        """Yield the device, address and bytes of a tensor's memory on a GPU."""
        flatten = getattr(type(tensor), "__tensor_flatten__", None)
        try:
            if (
                flatten is not None
            ):  # DTensor and others that hold tensors have no memory themselves
                inner = [getattr(tensor, name) for name in flatten(tensor)[0]]
            else:
                inner = []
                gpu = _gpu(tensor)
                address = 0 if gpu is None else tensor.data_ptr()
                if gpu is not None and address:
                    yield gpu, address, _size(tensor)
        except _NO_SIZE:  # of a library's own class
            return
        for part in inner:
            yield from self._places(part)


class _Optimizer:
    """An optimizer of the program, known by a weak reference, and how many steps it made."""

    __slots__ = ("name", "reference", "steps")

    def __init__(self, name: str, reference: Any) -> None:
        self.name = name
        self.reference = reference
        self.steps = 0


def _gpu(tensor: Any) -> int | None:
    """Return the number of the GPU that a tensor is on; None if it is elsewhere."""
    return (tensor.device.index or 0) if tensor.is_cuda else None


def _size(tensor: Any) -> int:
    """Return the bytes from a tensor's first element to its last."""
    sizes, strides = tensor.shape, tensor.stride()
    if 0 in sizes:
        return 0
    last = sum(map(lambda size, stride: (size - 1) * stride, sizes, strides))
    return int((last + 1) * tensor.element_size())


def _numbered(kind: str, number: int) -> str:
    return kind if number == 1 else f"{kind}#{number}"


def _is_round(number: int) -> bool:
    """Return whether a number is a power of two."""
    return number & (number - 1) == 0
