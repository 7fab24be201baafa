"""The paths of a program's modules: the class of the root, then names of attributes.

A module that is called while none is running is a root: it and all modules below it get their
paths. A module that is called within another one and has no path yet was added later, or is in no
attribute; then its class stands for a name: GPT.loss.(MSELoss). Modules are known by their identity
as long as they live, and are not kept alive.

There is no lock, which a fork could find locked: threads that find the same name at the same time
get the same result.
"""

from __future__ import annotations

import contextlib
import sys
import weakref
from collections.abc import Iterator
from typing import Any

from .context import Context
from .wrapping import unnoticed

DOMAIN = "nn.Module"

# Attributes of wrappers for the module that they wrap: not part of a path. Programs may have such
# attributes, too, so only those of these packages' classes are meant.
_WRAPPED = (
    "module",
    "_orig_mod",
    "_fsdp_wrapped_module",
    "_checkpoint_wrapped_module",
    "_forward_module",
    "_original_module",
)
_PACKAGES_WITH_WRAPPERS = {
    "torch",
    "accelerate",
    "apex",
    "deepspeed",
    "fairscale",
    "lightning",
    "lightning_fabric",
    "pytorch_lightning",
}


class Call:
    """A module as its calls are named.

    Attributes:
        handle: The agent's handle of the name.
        path: The path; of a wrapper, its class.
        inside: The path that names of modules in it begin with.
        module: A weak reference to the module.
        root: The class and number of the root, if it is one.
    """

    __slots__ = ("handle", "inside", "module", "path", "root")

    def __init__(self, handle: int, path: str, inside: str, module: Any) -> None:
        self.handle = handle
        self.path = path
        self.inside = inside
        self.module = module
        self.root: tuple[str, int] | None = None


class ModuleNames:
    """The names of the modules that were called.

    Args:
        context: Takes the rows of modules.

    Attributes:
        known: By the identity of a living module.
        nameless: What stands for a module whose name cannot be found.
    """

    def __init__(self, context: Context) -> None:
        self.known: dict[int, Call] = {}
        self.nameless = Call(context.agent.name(DOMAIN, "?"), "?", "?", lambda: None)
        self._context = context
        self._handles: dict[str, int] = {}
        self._numbers: dict[str, set[int]] = {}  # of living roots, by class
        self._not_attributes: set[tuple[str, type]] = set()
        self._told: set[str] = set()
        self._forget = unnoticed(self._forget_module)

    def find(self, module: Any, open_calls: list[Call]) -> Call:
        """Return the name of a module that has none yet, or only as a root.

        Args:
            module: The module.
            open_calls: The calls that it is called in.
        """
        if not open_calls or open_calls[-1] is self.nameless:
            return self._add_root(module)
        found = self._find_attribute(module, open_calls)
        if found is None:
            around = open_calls[-1]
            name = class_name(module)
            if (
                name == "GraphModule"
            ):  # a step of the compiler, or what it made of the module around
                return Call(0, around.path, around.inside, around.module)
            found = f"{around.inside}.({name})"
        self._add_tree(module, found)
        return self.known[id(module)]

    def of_method(self, call: Call, method: str) -> Call:
        """Return the name of a call of a module's method, in which the module is called."""
        path = f"{call.path}.{method}"
        module = call.module()
        if path not in self._told and module is not None:
            self._told.add(path)
            is_training = _row(path, module)[-1]
            row = [path, f"{class_name(module)}.{method}", 0, 0, is_training]
            self._context.add_lines("modules.jsonl", [row])
        return Call(self._handle(path), path, call.inside, call.module)

    def _add_root(self, module: Any) -> Call:
        inner = module
        while (wrapped := _wrapped_in(inner)) is not None:
            inner = wrapped
        of_class = class_name(inner)
        number = 1
        if not getattr(
            module, "_is_replica", False
        ):  # of DataParallel: there are new ones in each step
            taken = self._numbers.setdefault(of_class, set())
            number = next(n for n in range(1, len(taken) + 2) if n not in taken)
            taken.add(number)
        self._add_tree(module, of_class if number == 1 else f"{of_class}#{number}")
        root = self.known[id(module)]
        root.root = (of_class, number)
        return root

    def _find_attribute(self, module: Any, open_calls: list[Call]) -> str | None:
        """Return the path of a module that was added to another one, as far as that is running."""
        for call in reversed(open_calls):
            outer = call.module()
            for name, inner in _inner(outer) if outer is not None else ():
                if inner is module:
                    return _join(call.inside, outer, name)
        innermost = open_calls[-1]
        kind = innermost.path, type(module)
        outer = innermost.module()
        if outer is None or kind in self._not_attributes:
            return None
        for path, inner in _tree(outer, innermost.inside):
            if inner is module:
                return path
        self._not_attributes.add(kind)  # do not look again
        return None

    def _add_tree(self, module: Any, path: str) -> None:
        rows = []
        for inner_path, inner in _tree(module, path):
            known = self.known.get(id(inner))
            if known is not None and (known.root is None or inner is module):
                continue
            is_wrapper = _wrapped_in(inner) is not None
            name = class_name(inner) if is_wrapper else inner_path
            self._add(inner, name, inner_path)
            if not is_wrapper and name not in self._told:
                self._told.add(name)
                rows.append(_row(name, inner))
        if rows:
            self._context.add_lines("modules.jsonl", rows)

    def _add(self, module: Any, name: str, inside: str) -> None:
        key = id(module)
        handle = self._handle(name)
        before = self.known.get(key)
        self.known[key] = call = Call(handle, name, inside, _Reference(module, self._forget))
        call.module.of = key, call
        if before is not None:
            self._free(before)

    def _handle(self, name: str) -> int:
        handle = self._handles.get(name)
        if handle is None:
            handle = self._handles[name] = self._context.agent.name(DOMAIN, name)
        return handle

    def _forget_module(self, reference: _Reference) -> None:
        """Forget a module that died: at any time, on any thread."""
        key, call = reference.of
        if self.known.get(key) is call:
            self.known.pop(key, None)
        self._free(call)

    def _free(self, call: Call) -> None:
        if call.root is not None:
            of_class, number = call.root
            self._numbers.get(of_class, set()).discard(number)


class _Reference(weakref.ref):  # type: ignore[type-arg]
    """A weak reference to a module, with its identity and its name."""

    __slots__ = ("of",)
    of: tuple[int, Call]


def class_name(module: Any) -> str:
    """Return the name of a module's class, as the program wrote it."""
    kind = type(module)
    bases = kind.__bases__
    if len(bases) > 1 and bases[0].__name__ == "FSDPModule":  # fully_shard made a class of both
        kind = bases[1]
    if kind.__module__.startswith("torch.jit."):
        return str(getattr(module, "original_name", kind.__name__))
    return kind.__name__


def _tree(module: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Yield a module and all below it, each once, with the path of what is in it."""
    seen = set()
    todo = [(path, module)]
    while todo:
        at, outer = todo.pop()
        if id(outer) in seen:
            continue
        seen.add(id(outer))
        yield at, outer
        inner = [(_join(at, outer, name), module) for name, module in _inner(outer)]
        todo += reversed(inner)


def _inner(module: Any) -> list[tuple[str, Any]]:
    """Return the modules in attributes of a module, with their names."""
    modules = module._modules.items()  # noqa: SLF001 - a ScriptModule has no other public way, either
    return [(name, inner) for name, inner in list(modules) if inner is not None]


def _join(path: str, outer: Any, name: str) -> str:
    return path if name in _WRAPPED and _is_wrapper_class(outer) else f"{path}.{name}"


def _wrapped_in(module: Any) -> Any:
    """Return what a wrapper wraps; None for any other module."""
    if not _is_wrapper_class(module):
        return None
    return next((inner for name, inner in _inner(module) if name in _WRAPPED), None)


def _is_wrapper_class(module: Any) -> bool:
    return type(module).__module__.partition(".")[0] in _PACKAGES_WITH_WRAPPERS


def _row(path: str, module: Any) -> list[Any]:
    """Return the row of a module: path, class, parameters and their bytes, training.

    Parameters are those of the module itself, not of modules in it.
    """
    numbers: tuple[int | None, int | None] = None, None
    # A tensor of a library's own class may have no size.
    with contextlib.suppress(AttributeError, RuntimeError, TypeError, ValueError):
        own = [item for item in module._parameters.values() if item is not None]  # noqa: SLF001
        if not any(map(sys.modules["torch"].nn.parameter.is_lazy, own)):
            sizes = [(item.numel(), item.element_size()) for item in own]
            numbers = sum(count for count, _ in sizes), sum(count * size for count, size in sizes)
    training = module.__dict__.get("training")
    return [path, class_name(module), *numbers, training if type(training) is bool else None]
