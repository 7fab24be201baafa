"""The tree of a model's modules.

A module's parent is the module whose path is the longest beginning of its own, as ``GPT.blocks.0``
is of ``GPT.blocks.0.attn``. A module without one, such as a model in DistributedDataParallel, or
any module of PyTorch's profiler, which records classes and numbers (``Linear_3``), is inside the
module that was running when it was first called. So a module that is used in several places is one
row, in the place where it was registered or, with PyTorch's profiler, first called.

A module that was not called itself, as its methods were, or as it was compiled, is there for those
in it: the root always, others if their class was recorded and is not a mere container.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.modules.calls import UNKNOWN, called_modules, module_calls
from warpline.derived.modules.compiled_work import class_of_names, compiled_work
from warpline.lazy import lazy_pattern
from warpline.ops.arrays import I32, I64, BoolArray
from warpline.ops.tree import Nesting, nest
from warpline.trace import Trace

_DIGITS = lazy_pattern(r"[0-9]+")
_INSTANCE = lazy_pattern(r"(?:_[0-9]+|#[0-9]+)$")
_WRAPPERS = lazy_pattern(
    r"DistributedDataParallel|DataParallel|FullyShardedDataParallel|FSDP|DeepSpeedEngine"
)
_NO_MODULES = (None, "ModuleList", "ModuleDict")


class Modules(NamedTuple):
    """The modules of a trace, of all processes, each after its parent and all earlier siblings.

    Attributes:
        names: Paths, such as ``GPT.blocks.0``, or classes with numbers.
        labels: Names relative to the parent, such as ``blocks.0``.
        tree: How they are nested.
    """

    names: tuple[str, ...]
    labels: tuple[str, ...]
    tree: Nesting

    def __len__(self) -> int:
        return len(self.names)

    def parent(self, module: int) -> int:
        """Return the parent of a module, -1 for a root."""
        return int(self.tree.parent[module]) if self.tree.has_parent[module] else UNKNOWN


@derived
def modules(trace: Trace) -> Modules:
    """Return the modules that were called or compiled, and those around them."""
    called, compiled = called_modules(trace), compiled_work(trace)
    around = dict(zip(called.names, _running_at(trace, called.first), strict=True))
    running = dict(zip(compiled.paths, compiled.around, strict=True))
    for name in sorted(running.keys() - around.keys(), key=_with_numbers):
        around[name] = running[name]
    around = _with_outer(around, class_of_names(trace))
    return _in_order(list(around), _parents(list(around), list(around.values())))


def _with_outer(
    around: Mapping[str, str | None], classes: Mapping[str, str]
) -> dict[str, str | None]:
    """Return modules with those around them that were not called, each before those in it.

    Args:
        around: The module in which each was called, None for none.
        classes: The classes of modules.
    """
    found: dict[str, str | None] = {}
    for name, running in around.items():
        root, *rest = name.split(".")
        is_inside = running is not None and running.partition(".")[0] == root
        for depth in range(len(rest)):
            path = ".".join((root, *rest[:depth]))
            if path not in around and (not depth or classes.get(path) not in _NO_MODULES):
                found.setdefault(path, None if is_inside else running)
        found[name] = running
    return found


@derived
def module_of_called(trace: Trace) -> I32:
    """Return the place in `modules` of each of `called_modules`, with -1 for none at the end."""
    return module_of_names(trace, called_modules(trace).names)


def module_of_names(trace: Trace, names: Sequence[str]) -> I32:
    """Return the place in `modules` of each name, with -1 for none at the end."""
    places = {name: place for place, name in enumerate(modules(trace).names)}
    return np.array([*(places[name] for name in names), UNKNOWN], np.int32)


@derived
def wrapper_of_modules(trace: Trace) -> I32:
    """Return the module that communicates for each module, shape (modules,).

    It is the innermost wrapper around it that distributes a model, or the outermost module.
    """
    found = modules(trace)
    wrapper = np.arange(len(found), dtype=np.int32)
    for module, name in enumerate(found.names):
        parent = found.parent(module)
        if parent >= 0 and not _WRAPPERS.match(name.rpartition(".")[2]):
            wrapper[module] = wrapper[parent]
    return wrapper


class Declared(NamedTuple):
    """What was recorded about modules, apart from their calls.

    Attributes:
        classes: The class of each; its name without the number where none was recorded.
        parameters: Shape (modules,), int64, parameters of its own, without modules in it.
        has_parameters: Shape (modules,), bool, whether their number was recorded.
    """

    classes: tuple[str, ...]
    parameters: I64
    has_parameters: BoolArray


@derived
def declared(trace: Trace) -> Declared:
    """Return class and parameters of each module; of several processes, the first one's."""
    names = modules(trace).names
    classes = [_INSTANCE.sub("", name) for name in names]
    parameters, has_parameters = np.zeros(len(names), np.int64), np.zeros(len(names), np.bool_)
    if trace.has("module"):
        columns = trace.columns("module", "name_id", "class_name_id", "parameters")
        texts, of_class = (
            trace.strings.texts(columns[column].values.tolist())
            for column in ("name_id", "class_name_id")
        )
        places = {name: place for place, name in enumerate(names)}
        for row in reversed(range(len(texts))):
            place = places.get(texts[row])
            if place is not None:
                classes[place] = of_class[row]
                parameters[place] = columns["parameters"].values[row]
                has_parameters[place] = columns["parameters"].is_valid()[row]
    return Declared(tuple(classes), parameters, has_parameters)


def merged(found: Modules) -> tuple[Modules, I32]:
    """Return modules in which siblings whose labels differ only in numbers are one.

    Returns:
        The modules, and the new one of each.
    """
    place = np.zeros(len(found), np.int32)
    numbers: dict[tuple[int, str], int] = {}
    names: list[str] = []
    labels: list[list[str]] = []
    parents: list[int] = []
    for module, label in enumerate(found.labels):
        parent = found.parent(module)
        around = UNKNOWN if parent < 0 else int(place[parent])
        key = (around, _DIGITS.sub("*", label))
        number = numbers.setdefault(key, len(numbers))
        if number == len(parents):
            parents.append(around)
            labels.append([])
        labels[number].append(label)
        place[module] = number
    for (around, _), own in zip(numbers, labels, strict=True):
        shown = _pattern(own)
        names.append(shown if around < 0 else f"{names[around]}.{shown}")
    moved = np.zeros(len(names), np.int32)
    moved[_depth_first(parents)] = np.arange(len(names))
    return _in_order(names, parents), moved[place]


def _pattern(labels: Sequence[str]) -> str:
    """Return texts that differ only in numbers as one, with ``*`` for numbers that differ."""
    known = [set(numbers) for numbers in zip(*map(_DIGITS.findall, labels), strict=True)]
    shown = iter("*" if len(numbers) > 1 else next(iter(numbers)) for numbers in known)
    return _DIGITS.sub(lambda _: next(shown), labels[0])


def _with_numbers(name: str) -> list[tuple[int, str]]:
    """Return a key that sorts ``blocks.2`` before ``blocks.10``."""
    return [
        (int(part), "") if part.isdecimal() and len(part) < 18 else (-1, part)
        for part in re.split(r"([0-9]+)", name)
    ]


def _running_at(trace: Trace, first: I64) -> list[str | None]:
    """Return the module in which some calls were made."""
    calls = module_calls(trace)
    around = nest(calls.start_ns, calls.end_ns, calls.thread)
    parent = calls.name[around.parent[first]]
    return [
        trace.strings.text(name) if has_parent else None
        for name, has_parent in zip(parent.tolist(), around.has_parent[first].tolist(), strict=True)
    ]


def _parents(names: Sequence[str], around: Sequence[str | None]) -> list[int]:
    """Return the parent of each module, -1 for none."""
    numbers = {name: number for number, name in enumerate(names)}
    parents = [_longest_beginning(name, numbers) for name in names]
    for number, running in enumerate(around):
        if parents[number] < 0 and running is not None:
            above = numbers[running]
            while above >= 0 and above != number:
                above = parents[above]
            parents[number] = numbers[running] if above < 0 else UNKNOWN
    return parents


def _longest_beginning(name: str, numbers: Mapping[str, int]) -> int:
    rest = name.rpartition(".")[0]
    while rest:
        if rest in numbers:
            return numbers[rest]
        rest = rest.rpartition(".")[0]
    return UNKNOWN


def _depth_first(parents: Sequence[int]) -> list[int]:
    """Return all numbers, each after its parent and all earlier children of that one."""
    inside: list[list[int]] = [[] for _ in range(len(parents) + 1)]
    for number, parent in enumerate(parents):
        inside[parent].append(number)
    order: list[int] = []
    pending = inside[-1][::-1]
    while pending:
        number = pending.pop()
        order.append(number)
        pending.extend(inside[number][::-1])
    return order


def _in_order(names: Sequence[str], parents: Sequence[int]) -> Modules:
    """Return modules in the order of the tree."""
    order = _depth_first(parents)
    place = {number: position for position, number in enumerate(order)}
    depth = np.zeros(len(order), np.int32)
    parent = np.zeros(len(order), np.int64)
    labels = []
    for position, number in enumerate(order):
        up = parents[number]
        labels.append(names[number].removeprefix(f"{names[up]}.") if up >= 0 else names[number])
        if up >= 0:
            parent[position] = place[up]
            depth[position] = depth[place[up]] + 1
    return Modules(
        tuple(names[number] for number in order), tuple(labels), Nesting(parent, depth > 0, depth)
    )
