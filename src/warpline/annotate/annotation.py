"""An annotation: a name with attributes, for `with`, `async with` or as a decorator."""

from __future__ import annotations

import functools
from collections.abc import AsyncGenerator, Callable, Generator
from contextvars import ContextVar
from types import CodeType, TracebackType
from typing import Any, Self, TypeVar, cast

from warpline.annotate.listener import LISTENER, Domain

F = TypeVar("F", bound=Callable[..., Any])
Color = str | int

_GENERATOR = 0x20  # the flags of code objects, as inspect names them; inspect is slow to import
_COROUTINE = 0x80
_ASYNC_GENERATOR = 0x200

# Payloads of other types are mutable, so they are read at every use.
_LASTING_PAYLOADS = (type(None), int, float)


# An open range that any thread can close: the closing function and its argument.
RangeHandle = tuple[Callable[[Any], Any], Any]


# The ranges opened by `async with` in this task, the innermost last.
_open_in_task: ContextVar[tuple[RangeHandle | None, ...]] = ContextVar("open", default=())


class Annotation:
    """A named range. It has no state of its own, so it can be shared, nested and reused.

    - ``with``: a range of the thread. Ranges of a thread nest.
    - ``async with``: a range from entry to exit, whatever runs in between.
    - A decorated function: a range for each call.
    - A decorated coroutine: a range from its start to its end, including waits.
    - A decorated generator: a range for each step, without the consumer's work in between.

    Args:
        message: Name of the range; None: the qualified name of the decorated function.
        color: A name such as "red", or 0xAARRGGBB.
        domain: Name of the NVTX domain; None: the default domain.
        category: Name or number of a category.
        payload: A value to record with the range: a number or, with numpy, a list or an array.
    """

    __slots__ = ("_arguments", "_attributes", "_domain", "pop_now", "push_now")

    # Functions that open and close the range; None until a profiler is found.
    push_now: Callable[[], Any] | None
    pop_now: Callable[[], Any] | None

    def __init__(
        self,
        message: str | None = None,
        color: Color | None = None,
        domain: str | None = None,
        category: str | int | None = None,
        payload: Any = None,
    ) -> None:
        if message is not None and not isinstance(message, str):
            raise TypeError(f"the name of a range must be a str, not {type(message).__name__}")
        LISTENER.is_used = True
        self._arguments = (message, color, domain, category, payload)
        self._attributes: Any = None
        self._domain: Domain | None = None
        self.push_now = None
        self.pop_now = None

    def __repr__(self) -> str:
        return f"annotate{self._arguments!r}"

    def __reduce__(self) -> tuple[Any, ...]:
        return Annotation, self._arguments

    def __enter__(self) -> Self:
        push = self.push_now
        if push is not None:
            push()
        elif not LISTENER.silent:
            self.push()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        pop = self.pop_now
        if pop is not None:
            pop()

    async def __aenter__(self) -> Self:
        _open_in_task.set((*_open_in_task.get(), self.start()))
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        opened = _open_in_task.get()
        if opened:  # empty if another task closes a generator
            _open_in_task.set(opened[:-1])
            end(opened[-1])

    def __call__(self, func: F) -> F:
        """Return the function with a range around each call."""
        target: Any = func
        if isinstance(target, staticmethod | classmethod):
            return cast("F", type(target)(self(target.__func__)))
        if isinstance(target, type) or not callable(target):
            raise TypeError(f"only functions and methods can be annotated, not {target!r}")
        message, *others = self._arguments
        return cast("F", _annotated(target, Annotation(message or _name_of(target), *others)))

    def push(self) -> None:
        """Open a range on this thread, if there is a profiler."""
        if self.push_now is None:
            self._resolved()
        if self.push_now is not None:
            self.push_now()

    def pop(self) -> None:
        """Close the innermost open range of this thread in the domain."""
        if self.pop_now is not None:
            self.pop_now()

    def start(self) -> RangeHandle | None:
        """Open a range that any thread can close; None without a profiler."""
        domain = self._domain or self._resolved()
        if domain is None:
            return None
        return domain.end, domain.start(self._attributes or self._current())

    def mark(self) -> None:
        """Record a mark: a named point in time."""
        domain = self._domain or self._resolved()
        if domain is not None:
            domain.mark(self._attributes or self._current())

    def _resolved(self) -> Domain | None:
        if self._domain is None and LISTENER.listens():
            message, color, name, category, payload = self._arguments
            domain = LISTENER.domain(name)
            if domain is None:
                return None
            self.pop_now = domain.pop
            if isinstance(payload, _LASTING_PAYLOADS):
                self._attributes = domain.attributes(message, color, category, payload)
                self.push_now = domain.pushing(self._attributes)
            else:
                self.push_now = lambda: domain.push(self._current())
            self._domain = domain
        return self._domain

    def _current(self) -> Any:
        """Return the attributes with the current payload."""
        message, color, _, category, payload = self._arguments
        return cast("Domain", self._domain).attributes(message, color, category, payload)


def end(handle: RangeHandle | None) -> None:
    """Close a range opened by `Annotation.start`; None is ignored."""
    if handle is not None:
        close, number = handle
        close(number)


def _annotated(func: Callable[..., Any], annotation: Annotation) -> Callable[..., Any]:
    flags = _code_flags(func)
    if flags & _COROUTINE:
        wrapper = _annotated_coroutine
    elif flags & _ASYNC_GENERATOR:
        wrapper = _annotated_async_generator
    elif flags & _GENERATOR:
        wrapper = _annotated_generator
    else:
        wrapper = _annotated_function
    return wrapper(func, annotation)


def _called_in_the_end(func: Any) -> Any:
    """Return the function wrapped by partials and methods."""
    while isinstance(func, functools.partial):
        func = func.func
    return getattr(func, "__func__", func)


def _name_of(func: Any) -> str:
    called = _called_in_the_end(func)
    return str(getattr(called, "__qualname__", type(called).__qualname__))


def _code_flags(func: Any) -> int:
    """Return the flags of a function's code; 0 if it is not written in Python."""
    code = getattr(_called_in_the_end(func), "__code__", None)
    return code.co_flags if isinstance(code, CodeType) else 0


def _annotated_function(func: Callable[..., Any], annotation: Annotation) -> Callable[..., Any]:
    @functools.wraps(func)
    def annotated(*args: Any, **kwargs: Any) -> Any:
        push = annotation.push_now
        if push is not None:
            push()
        elif LISTENER.silent:
            return func(*args, **kwargs)
        else:
            annotation.push()
        try:
            return func(*args, **kwargs)
        finally:
            if annotation.pop_now is not None:
                annotation.pop_now()

    return annotated


def _annotated_coroutine(func: Callable[..., Any], annotation: Annotation) -> Callable[..., Any]:
    @functools.wraps(func)
    async def annotated(*args: Any, **kwargs: Any) -> Any:
        handle = annotation.start()
        try:
            return await func(*args, **kwargs)
        finally:
            end(handle)

    return annotated


def _annotated_generator(func: Callable[..., Any], annotation: Annotation) -> Callable[..., Any]:
    @functools.wraps(func)
    def annotated(*args: Any, **kwargs: Any) -> Any:
        return (yield from _Steps(func(*args, **kwargs), annotation))

    return annotated


def _annotated_async_generator(
    func: Callable[..., Any], annotation: Annotation
) -> Callable[..., Any]:
    @functools.wraps(func)
    def annotated(*args: Any, **kwargs: Any) -> Any:
        return _AsyncSteps(func(*args, **kwargs), annotation)

    return annotated


class _Steps(Generator[Any, Any, Any]):
    """A generator with a range around each step."""

    def __init__(self, generator: Generator[Any, Any, Any], annotation: Annotation) -> None:
        self._generator = generator
        self._annotation = annotation

    def __next__(self) -> Any:
        with self._annotation:
            return next(self._generator)

    def send(self, value: Any) -> Any:
        with self._annotation:
            return self._generator.send(value)

    def throw(self, *error: Any) -> Any:
        with self._annotation:
            return self._generator.throw(*error)

    def close(self) -> None:
        with self._annotation:
            self._generator.close()


class _AsyncSteps(AsyncGenerator[Any, Any]):
    """An asynchronous generator with a range around each step, including waits."""

    def __init__(self, generator: AsyncGenerator[Any, Any], annotation: Annotation) -> None:
        self._generator = generator
        self._annotation = annotation

    async def asend(self, value: Any) -> Any:
        return await self._step(self._generator.asend(value))

    async def athrow(self, *error: Any) -> Any:
        return await self._step(self._generator.athrow(*error))

    async def aclose(self) -> None:
        await self._step(self._generator.aclose())

    async def _step(self, step: Any) -> Any:
        handle = self._annotation.start()
        try:
            return await step
        finally:
            end(handle)
