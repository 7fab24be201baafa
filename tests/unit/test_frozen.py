"""Frozen classes behave as frozen dataclasses do."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import pytest

from warpline.frozen import frozen, made, replace


@frozen
class Window:
    start_ns: int
    end_ns: int | None = None
    names: Mapping[str, str] = made(dict)

    @cached_property
    def length_ns(self) -> int:
        return (self.end_ns or 0) - self.start_ns


@dataclasses.dataclass(frozen=True)
class Model:
    start_ns: int
    end_ns: int | None = None
    names: Mapping[str, str] = dataclasses.field(default_factory=dict)


@frozen
class Named(Window):
    label: str = "all"


@frozen
class Own:
    value: int

    def __post_init__(self) -> None:
        if self.value < 0:
            raise ValueError("negative")

    def __repr__(self) -> str:
        return "own"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Own)

    def __hash__(self) -> int:
        return 7


ARGUMENTS: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((1,), {}),
    ((1, 2), {}),
    ((), {"start_ns": 1, "names": {"a": "b"}}),
    ((1, 2, {}), {}),
]
REFUSED: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((), {}),
    ((), {"end_ns": 1}),
    ((1, 2, {}, 4), {}),
    ((1,), {"start_ns": 1}),
    ((1,), {"unknown": 1}),
]


@pytest.mark.parametrize(("values", "named"), ARGUMENTS)
def test_objects_are_those_of_the_dataclass(values: tuple[Any, ...], named: dict[str, Any]) -> None:
    item, model = Window(*values, **named), Model(*values, **named)
    assert repr(item) == repr(model).replace("Model", "Window")
    assert dataclasses.asdict(item) == dataclasses.asdict(model)
    assert item == Window(*values, **named)
    assert item.__eq__(model) is NotImplemented
    assert item != replace(item, start_ns=0)


@pytest.mark.parametrize(("values", "named"), REFUSED)
def test_arguments_are_refused_as_by_the_dataclass(
    values: tuple[Any, ...], named: dict[str, Any]
) -> None:
    for kind in (Window, Model):
        with pytest.raises(TypeError):
            kind(*values, **named)


def test_made_defaults_are_not_shared() -> None:
    assert Window(1).names is not Window(1).names
    assert not hasattr(Window, "names")


def test_nothing_can_be_assigned() -> None:
    item = Window(1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        item.start_ns = 2  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        del item.end_ns
    assert Window(3, 10).length_ns == 7


def test_equal_objects_have_one_hash() -> None:
    assert hash(Own(1)) == 7
    mapping: Any = "x"  # hashable, unlike a dict
    assert len({Named(1, 2, mapping), Named(1, 2, mapping), Named(1, 3, mapping)}) == 2


def test_methods_of_the_class_are_kept() -> None:
    assert repr(Own(1)) == "own"
    assert Own(1) == Own(2)
    with pytest.raises(ValueError, match="negative"):
        Own(-1)


def test_fields_of_bases_come_first() -> None:
    assert Named(1, label="x") == Named(start_ns=1, label="x")
    assert [item.name for item in dataclasses.fields(Named)] == [
        *("start_ns", "end_ns", "names"),
        "label",
    ]
    assert len(dataclasses.fields(Window)) == 3


def test_tools_know_the_fields() -> None:
    assert str(inspect.signature(Window)) == str(inspect.signature(Model))
    assert dataclasses.replace(Window(1), end_ns=5) == replace(Window(1), end_ns=5) == Window(1, 5)
    with pytest.raises(TypeError):
        replace(Window(1), unknown=1)
    assert pickle.loads(pickle.dumps(Window(1, 2))) == copy.deepcopy(Window(1, 2)) == Window(1, 2)


def test_objects_can_be_matched() -> None:
    match Window(4, 5):
        case Window(start, end):
            assert (start, end) == (4, 5)


def test_it_is_a_dataclass() -> None:
    item: object = Window(1)
    assert dataclasses.is_dataclass(item)


def test_mutable_defaults_are_refused() -> None:
    bad = type("Bad", (), {"__annotations__": {"names": "list[str]"}, "names": []})
    with pytest.raises(ValueError, match="names: mutable default"):
        frozen(bad)
