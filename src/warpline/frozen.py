"""Frozen dataclasses that share their methods, so that commands start fast.

    @frozen
    class Window:
        start_ns: int
        end_ns: int | None = None
        names: Mapping[str, str] = made(dict)

`dataclasses.dataclass` writes the source of six methods for each class and compiles it: a sixth of
all instructions of the summary of a small recording. The methods here are the same for all classes.
They take longer to run, so classes with very many objects remain dataclasses.

Type checkers, `inspect.signature` and the functions of `dataclasses` take them for dataclasses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, cast, dataclass_transform

from warpline.lazy import lazy

if TYPE_CHECKING:
    import dataclasses
    import inspect
else:
    dataclasses = lazy("dataclasses")
    inspect = lazy("inspect")

T = TypeVar("T")

_REQUIRED: Any = object()  # the default of a field without one


class _Made:
    """A default that is made for each object."""

    __slots__ = ("make",)

    def __init__(self, make: Callable[[], Any]) -> None:
        self.make = make


def made(factory: Callable[[], T]) -> T:
    """Return the default of a field whose value a function makes for each object: ``dict``."""
    return cast("T", _Made(factory))


@dataclass_transform(frozen_default=True)
def frozen(cls: type[T]) -> type[T]:
    """Return the class with the methods of a frozen dataclass, except those that it defines.

    Fields of its bases come first. ``__post_init__`` is called if it exists.

    Raises:
        ValueError: A default is mutable; use `made`.
    """
    defaults = dict(_defaults(cls))
    for name in cls.__annotations__:
        default = defaults[name] = cls.__dict__.get(name, _REQUIRED)
        if type(default).__hash__ is None:
            raise ValueError(f"{cls.__qualname__}.{name}: mutable default {default!r}, use made()")
        if isinstance(default, _Made):
            delattr(cls, name)
    own = {name for name, value in cls.__dict__.items() if value is not None}
    for name, method in _METHODS.items():
        if name not in own:
            setattr(cls, name, method)
    type.__setattr__(cls, "_frozen_defaults", defaults)
    type.__setattr__(cls, "__match_args__", tuple(defaults))
    return cls


def replace(item: T, /, **changes: Any) -> T:
    """Return an object with some fields changed, as `dataclasses.replace` does."""
    values = {name: getattr(item, name) for name in _defaults(type(item))}
    return type(item)(**{**values, **changes})


def _defaults(cls: type) -> Mapping[str, Any]:
    """Return the fields of a class by name, with their defaults."""
    found: Mapping[str, Any] = getattr(cls, "_frozen_defaults", {})
    return found


def _init(self: Any, /, *values: Any, **named: Any) -> None:
    defaults = _defaults(type(self))
    state = self.__dict__  # not by setattr, which fails
    state.update(zip(defaults, values, strict=False))
    if len(values) > len(defaults) or not named.keys() <= defaults.keys() - state.keys():
        unfit = sorted(named.keys() - (defaults.keys() - state.keys())) or f"{len(values)} values"
        raise TypeError(f"{type(self).__qualname__}: unexpected or repeated arguments: {unfit}")
    state.update(named)
    if len(state) < len(defaults):
        for name, default in defaults.items():
            if name not in state:
                if default is _REQUIRED:
                    raise TypeError(f"{type(self).__qualname__}: missing argument {name!r}")
                state[name] = default.make() if isinstance(default, _Made) else default
    if hasattr(self, "__post_init__"):
        self.__post_init__()


def _values(self: Any) -> tuple[Any, ...]:
    return tuple(getattr(self, name) for name in _defaults(type(self)))


def _repr(self: Any) -> str:
    parts = (f"{name}={getattr(self, name)!r}" for name in _defaults(type(self)))
    return f"{type(self).__qualname__}({', '.join(parts)})"


def _eq(self: Any, other: object) -> Any:
    return _values(self) == _values(other) if type(other) is type(self) else NotImplemented


def _hash(self: Any) -> int:
    return hash(_values(self))


def _set(self: Any, name: str, value: Any) -> NoReturn:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _delete(self: Any, name: str) -> NoReturn:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


class _OnRequest:
    """An attribute of a class that only tools ask for, made when one does."""

    __slots__ = ("_make", "_name")

    def __init__(self, name: str, make: Callable[[type], Any]) -> None:
        self._name = name
        self._make = make

    def __get__(self, item: object, cls: type) -> Any:
        value = self._make(cls)
        type.__setattr__(cls, self._name, value)
        return value


def _as_dataclass(cls: type, *, init: bool) -> type:
    annotations: dict[str, Any] = {}
    for base in reversed(cls.__mro__[:-1]):
        annotations.update(base.__annotations__)
    fields = []
    for name, default in _defaults(cls).items():
        if default is _REQUIRED:
            field = dataclasses.field()
        elif isinstance(default, _Made):
            field = dataclasses.field(default_factory=default.make)
        else:
            field = dataclasses.field(default=default)
        fields.append((name, annotations[name], field))
    return dataclasses.make_dataclass(cls.__name__, fields, init=init, repr=False, eq=False)


def _signature(cls: type) -> inspect.Signature:
    return inspect.signature(_as_dataclass(cls, init=True))


def _fields(cls: type) -> Mapping[str, dataclasses.Field[Any]]:
    found: Mapping[str, dataclasses.Field[Any]]
    found = vars(_as_dataclass(cls, init=False))["__dataclass_fields__"]
    return found


_METHODS: dict[str, Any] = {
    "__init__": _init,
    "__repr__": _repr,
    "__eq__": _eq,
    "__hash__": _hash,
    "__setattr__": _set,
    "__delattr__": _delete,
    "__replace__": replace,  # for copy.replace of Python 3.13
    "__signature__": _OnRequest("__signature__", _signature),
    "__dataclass_fields__": _OnRequest("__dataclass_fields__", _fields),
}
