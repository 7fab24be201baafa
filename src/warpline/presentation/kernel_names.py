"""Kernel names in short, for screens, reports and the timeline: the only place that makes them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import chain, repeat
from typing import TYPE_CHECKING

from warpline.lazy import lazy, lazy_pattern
from warpline.presentation.cpp_names import Item, Name, parse

if TYPE_CHECKING:
    import zlib
else:
    zlib = lazy("zlib")

# Names may be megabytes long, so every part must match in linear time.
_NOISE = re.compile(
    r"^void |(?:(?<!\w)\w++|<unnamed>|\(anonymous namespace\))::|\([a-z ]++\)(?=\d)"
)
_MANGLED = re.compile(r"_ZN?[KL]?")
_LENGTH = re.compile(r"[1-9][0-9]{0,3}")

_LONGEST = 16_384  # longer names are in no program
_NUMBER = lazy_pattern(r"(?P<value>-?\d++|true|false|nullptr)[uUlL]*+")
_ELEMENT = lazy_pattern(
    r"bool|char|signed|unsigned|short|int|long|float|double|complex|OpaqueType"
    r"|(?:__)?(?:nv_)?(?:[bt]?float|half|u?int)\d*(?:_t|2|_e\dm\d\w*)?",
    re.IGNORECASE,
)
_INDEX = "unsigned int"  # a type of indices and sizes more often than of elements
_SUFFIX = lazy_pattern(r"(?<=\w)(?:_kernel|_cuda|_impl)+$")
# They pass a functor on, which alone says what they do.
_WRAPPERS = frozenset({"ReduceOp", "func_wrapper_t", "gpu_kernel_impl", "gpu_kernel_impl_nocast"})
_WITHOUT_MEANING = frozenset({"kernel", "Kernel", "Kernel2"})


def short_names(names: Iterable[str]) -> dict[str, str]:
    """Return a short name for each kernel name of a recording; no two are equal.

    Names with the same `short_name` keep all template arguments. If these are equal, too, as those
    of two lambdas in a function, the short name ends with a checksum.
    """
    short = {name: short_name(name) for name in names}
    for longer in (_with_all_arguments, _with_checksum, *repeat(_whole, len(short))):
        count = Counter(short.values())
        if len(count) == len(short):
            break
        short |= {name: longer(name) for name, text in short.items() if count[text] > 1}
    return short


def short_name(name: str) -> str:
    """Return the function of a kernel name with its functor or its element types.

    ``void at::native::vectorized_elementwise_kernel<(int)4, at::native::CUDAFunctor_add<float>,
    std::array<char *, (unsigned long)3>>(int, T2, T3)`` becomes
    ``vectorized_elementwise<CUDAFunctor_add<float>>``. A lambda becomes the function that has it,
    with the element types of its parameters. Other texts are only freed of noise.
    """
    return _shortened(name, _telling)


def without_noise(name: str) -> str:
    """Return a kernel name without return type, namespaces and casts of numbers.

    ``void at::native::reduce_kernel<(int)4, at::native::ReduceOp<float>>(T3)`` becomes
    ``reduce_kernel<4, ReduceOp<float>>(T3)``. Of a name that is mangled by the Itanium ABI, the
    function remains: ``_ZN2at6native13reduce_kernelILi512EEEvT_`` becomes ``reduce_kernel<...>``.
    """
    mangled = _MANGLED.match(name)
    if mangled:
        return _function(name, mangled.end()) or name
    return _NOISE.sub("", name)


def _function(name: str, place: int) -> str:
    """Return the last of the names that follow one another, each after its length."""
    last = ""
    while length := _LENGTH.match(name, place):
        place = length.end() + int(length.group())
        if place > len(name):
            return ""
        last = name[length.end() : place]
    # Anything else, such as an operator, would need a whole demangler.
    if name.startswith("_ZN") and not name.startswith(("I", "E"), place):
        return ""
    return f"{last}<...>" if last and name.startswith("I", place) else last


def _shortened(name: str, choose: Callable[[list[Item]], list[str]]) -> str:
    """Return a short name; `choose` shortens the template arguments of the kernel."""
    is_read = len(name) <= _LONGEST and not _MANGLED.match(name)
    tree = parse(name) if is_read else None
    if tree is None or not tree.types:
        return without_noise(name) or name
    path = [part for part in tree.types[-1] if not part.is_lambda]
    if not path or not (path[-1].arguments or path[-1].parameters or len(tree.types) == 1):
        return without_noise(name) or name  # no function of C++
    arguments = choose(path[-1].arguments)
    word = path[-1].word
    if word not in _WITHOUT_MEANING:
        return _with_arguments(word, arguments)
    if len(arguments) == 1 and arguments[0].startswith("cutlass"):
        return arguments[0]
    return _with_arguments("::".join(part.word for part in path[-2:]), arguments)


def _with_arguments(word: str, arguments: Sequence[str]) -> str:
    return f"{_SUFFIX.sub('', word)}<{', '.join(arguments)}>" if arguments else word


def _telling(arguments: list[Item]) -> list[str]:
    """Return the functor if it names element types, otherwise the first class and all elements."""
    values = [item for item in arguments if not item.is_pointer and not _number(item)]
    classes = [item for item in values if not _element(item)]
    functor = next(filter(_mentions_element, classes), None)
    if functor is not None:
        return _texts(functor)
    first = [text for item in classes[:1] for text in _texts(item)]
    elements = [_element(item) for item in values if _element(item)]
    return list(dict.fromkeys((*first, *elements))) or _all(arguments)


def _all(arguments: list[Item]) -> list[str]:
    """Return all arguments, each in short."""
    texts = ([number] if (number := _number(item)) else _texts(item) for item in arguments)
    return list(chain.from_iterable(texts))


def _texts(item: Item) -> list[str]:
    """Return a type in short; of a wrapper, its arguments."""
    if element := _element(item):
        return [f"{element}*" if item.is_pointer else element]
    path = item.types[-1] if item.types else []
    function = _function_of(path)
    if function is None:
        return []
    arguments = _telling(function.arguments)
    if function.word in _WRAPPERS and arguments:
        return arguments
    if not arguments and path[-1].is_lambda:
        arguments = list(dict.fromkeys(filter(None, map(_element, path[-1].parameters))))
    return [_with_arguments(function.word.rstrip("*&"), arguments)]


def _number(item: Item) -> str:
    """Return the number or boolean that an argument is; empty if it is a type."""
    if len(item.paths) != 1 or len(item.paths[0]) != 1:
        return ""
    number = _NUMBER.fullmatch(item.paths[0][0].word)
    return number["value"] if number else ""


def _element(item: Item) -> str:
    """Return the element type that an argument is, such as ``unsigned int``; otherwise empty."""
    words = []
    for path in item.types:
        name = path[-1]
        sizes = [_number(one) for one in name.arguments]
        word = name.word.rstrip("*&")
        if not _ELEMENT.fullmatch(word) or not all(sizes):
            return ""
        words.append(_with_arguments(word, sizes))
    return " ".join(words)


def _mentions_element(item: Item) -> bool:
    """Whether a type has element types among its arguments, or is a lambda."""
    if item.is_pointer:
        return False
    if element := _element(item):
        return element != _INDEX
    path = item.types[-1] if item.types else []
    function = _function_of(path)
    if function is None:
        return False
    return path[-1].is_lambda or any(map(_mentions_element, function.arguments))


def _function_of(path: Sequence[Name]) -> Name | None:
    """Return the last name of a path; of a lambda, the function that has it."""
    return next((name for name in reversed(path) if not name.is_lambda), None)


def _whole(name: str) -> str:
    return name


def _with_all_arguments(name: str) -> str:
    return _shortened(name, _all)


def _with_checksum(name: str) -> str:
    return f"{short_name(name)} #{zlib.crc32(name.encode(errors='replace')):08x}"
