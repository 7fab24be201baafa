"""Tensors in the arguments, results and state of functions: finding, copying, comparing them."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import FunctionType, MethodType, ModuleType
from typing import Any, Literal

Agreement = Literal["equal", "close", "different"]
# As torch.testing.assert_close has them: relative and absolute tolerance by type.
_TOLERANCES = {
    "torch.float64": (1e-7, 1e-7),
    "torch.float32": (1.3e-6, 1e-5),
    "torch.float16": (1e-3, 1e-5),
    "torch.bfloat16": (1.6e-2, 1e-5),
}
_WRAPPED = ("__wrapped__", "_torchdynamo_orig_callable")
_MOST_DEPTH = 8  # of nested containers
_MOST_OWNERS_DEPTH = 5  # of functions and objects that use each other


@dataclass(frozen=True)
class Difference:
    """How a tensor of a replay agrees with that of the code itself.

    Attributes:
        name: Which tensor: ``result[0]``, ``model.layer.weight``, ``model.layer.weight.grad``.
        agreement: ``equal``: bit by bit. ``close``: within the tolerances of its type.
        largest: The largest absolute difference; infinite for NaN in one of them.
    """

    name: str
    agreement: Agreement
    largest: float


def tensors_of(
    torch: Any, value: Any, name: str, depth: int = _MOST_DEPTH
) -> Iterator[tuple[str, Any]]:
    """Yield the tensors in a tensor, list, tuple, dictionary or dataclass, with their names."""
    if isinstance(value, torch.Tensor):
        yield name, value
    elif depth and isinstance(value, Mapping):
        for key, item in value.items():
            yield from tensors_of(torch, item, f"{name}[{key!r}]", depth - 1)
    elif depth and isinstance(value, list | tuple):
        for place, item in enumerate(value):
            yield from tensors_of(torch, item, f"{name}[{place}]", depth - 1)
    elif depth and hasattr(value, "__dataclass_fields__"):
        for field in value.__dataclass_fields__:
            yield from tensors_of(torch, getattr(value, field), f"{name}.{field}", depth - 1)


def replaced(torch: Any, value: Any, change: Callable[[Any], Any]) -> Any:
    """Return a copy of arguments, with each tensor replaced by what a function returns for it."""
    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, dict):
        return {key: replaced(torch, item, change) for key, item in value.items()}
    if isinstance(value, list | tuple):
        items = [replaced(torch, item, change) for item in value]
        is_named = hasattr(value, "_fields")
        return type(value)(*items) if is_named else type(value)(items)
    return value


def owners_of(torch: Any, fn: Any) -> dict[str, Any]:
    """Return the modules, optimizers and tensors that a function uses, by name.

    Those in its closure, its globals and its arguments, if it is a partial function; the object
    whose method it is; and those of functions and objects that it uses.
    """
    found: dict[str, Any] = {}
    seen: set[int] = set()

    def add(name: str, value: Any, depth: int) -> None:
        if not depth or id(value) in seen:
            return
        seen.add(id(value))
        if isinstance(value, (torch.nn.Module, torch.optim.Optimizer, torch.Tensor)):
            found[_free(name, found)] = value
        else:
            for of, item in _used_by(value):
                add(of, item, depth - 1)

    add(type(fn).__name__, fn, _MOST_OWNERS_DEPTH)
    return found


def _free(name: str, taken: Mapping[str, Any]) -> str:
    number = 2
    free = name
    while free in taken:
        free, number = f"{name}#{number}", number + 1
    return free


def _used_by(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield what a function or an object of the program refers to, with names."""
    if isinstance(value, functools.partial):
        yield "function", value.func
        yield from ((f"args[{place}]", item) for place, item in enumerate(value.args))
        yield from value.keywords.items()
    elif isinstance(value, MethodType):
        yield type(value.__self__).__name__, value.__self__
        yield "function", value.__func__
    elif isinstance(value, FunctionType):
        # What torch.compile and other decorators made it from.
        yield from ((name, vars(value)[name]) for name in _WRAPPED if name in vars(value))
        if not _is_installed(value.__code__.co_filename):
            yield from _variables(value)
    elif isinstance(value, dict):
        yield from ((str(key), item) for key, item in value.items())
    elif isinstance(value, list | tuple):
        yield from ((f"[{place}]", item) for place, item in enumerate(value))
    elif not isinstance(value, type | ModuleType):
        yield from getattr(value, "__dict__", {}).items()


def _variables(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """Yield the variables of a closure, and the globals that a function names."""
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):  # not assigned yet
            yield name, cell.cell_contents
    for name in function.__code__.co_names:
        if name in function.__globals__:
            yield name, function.__globals__[name]


def _is_installed(file: str) -> bool:
    return any(folder in file for folder in ("site-packages", "dist-packages", "<frozen"))


def state_of(torch: Any, owners: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tensors that a function may change: parameters, buffers, gradients, moments."""
    found: dict[str, Any] = {}
    parameters: dict[int, str] = {}
    for name, owner in owners.items():
        if isinstance(owner, torch.nn.Module):
            for path, parameter in owner.named_parameters():
                found[f"{name}.{path}"] = parameter
                parameters[id(parameter)] = f"{name}.{path}"
                if parameter.grad is not None:
                    found[f"{name}.{path}.grad"] = parameter.grad
            found |= {f"{name}.{path}": buffer for path, buffer in owner.named_buffers()}
        elif isinstance(owner, torch.Tensor):
            found[name] = owner
            if owner.is_leaf and owner.grad is not None:
                found[f"{name}.grad"] = owner.grad
    for name, owner in owners.items():
        if isinstance(owner, torch.optim.Optimizer):
            for place, (parameter, values) in enumerate(owner.state.items()):
                of = parameters.get(id(parameter), str(place))
                for key, value in values.items() if isinstance(values, Mapping) else ():
                    if isinstance(value, torch.Tensor):
                        found[f"{name}.{key} of {of}"] = value
    return found


def compared(torch: Any, name: str, replay: Any, eager: Any) -> Difference:
    """Return how two tensors of one shape and type agree."""
    if replay.shape != eager.shape or replay.dtype != eager.dtype:
        return Difference(name, "different", float("inf"))
    both_nan = torch.isnan(replay) & torch.isnan(eager) if replay.is_floating_point() else None
    is_same = replay == eager
    if both_nan is not None:
        is_same = is_same | both_nan
    if bool(is_same.all()):
        return Difference(name, "equal", 0.0)
    if replay.dtype == torch.bool:
        return Difference(name, "different", 1.0)
    is_wide = replay.is_complex()
    left, right = (each if is_wide else each.double() for each in (replay, eager))
    apart = torch.where(is_same, torch.zeros_like((left - right).abs()), (left - right).abs())
    largest = float(apart.max())
    largest = float("inf") if largest != largest else largest  # noqa: PLR0124 - NaN
    relative, absolute = _TOLERANCES.get(str(replay.dtype), (0.0, 0.0))
    is_close = bool((apart <= absolute + relative * right.abs()).all())
    return Difference(name, "close" if is_close else "different", largest)
