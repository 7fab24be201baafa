"""The calls in Python code that Inductor generates, in order, and what they read and write.

``call`` runs kernels one after another; with CUDA graphs it calls functions that do,
``partition_0`` and so on, which share its names of buffers. Before each call, a comment has the
nodes of Dynamo's or AOTAutograd's graph that it was made from, and their operators.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

TRITON, EXTERN, CPP = range(3)

_FUNCTION = re.compile(r"( *)def (\w+)\(")
_DEFINED = re.compile(r"^(\w+) = async_compile\.(\w+)\(\s*(?:'(\w+)'|\"(\w+)\")?", re.MULTILINE)
_NODES = re.compile(r"# .*Source Nodes: \[(.*?)\], Original ATen: \[(.*?)\]")
_RUN = re.compile(r"\b(\w+)\.run\(")
_FALLBACK = re.compile(
    r"\b(?:extern_kernels|aten|inductor_ops|_quantized|torch\.ops\.\w+)\.(\w+)(?:\.\w+)?\("
)
_COPY = re.compile(r"\b\w+\.copy_\(")
_PLAIN = re.compile(r"\b(\w+)\(")
_PARTITION = re.compile(r"\.partitions\[(\d+)\]\(")
_ALIAS = re.compile(r"(\w+) = (?:reinterpret_tensor\((\w+),|(\w+)\[\d+\]|(\w+)(?:;|$|  #))")
_ASSIGNED = re.compile(r"(\w+) = ")
_OUT = re.compile(r"\bout=(\w+)")
_WORD = re.compile(r"\b[a-z]\w*\b")
_MOST_NESTED = 8


class Call(NamedTuple):
    """One call of a kernel.

    Attributes:
        kernel: Name of the Triton or C++ kernel, or of the operator: ``addmm``.
        kind: TRITON, EXTERN or CPP.
        nodes: The nodes that it was made from, in the order of their graph.
        operators: Their operators, such as ``aten.addmm``.
        reads: Names of buffers and inputs among its arguments that were there before.
        writes: Names of buffers that it fills.
    """

    kernel: str
    kind: int
    nodes: tuple[str, ...]
    operators: tuple[str, ...]
    reads: tuple[str, ...]
    writes: tuple[str, ...]


class Code(NamedTuple):
    """A compiled graph.

    Attributes:
        calls: Its calls in order.
        arguments: Names of its inputs, in order.
        results: What it returns: each a name, or None for what is no buffer.
        alias: The buffer that each name is another name of.
    """

    calls: tuple[Call, ...]
    arguments: tuple[str, ...]
    results: tuple[str | None, ...]
    alias: dict[str, str]


def read_code(text: str) -> Code:
    """Return the calls in a generated module; none if it is not one that is known here."""
    functions = dict(_functions(text))
    kernels = {
        match[1]: (match[3] or match[4] or match[1], match[2]) for match in _DEFINED.finditer(text)
    }
    calls: list[Call] = []
    known: set[str] = set()
    alias: dict[str, str] = {}
    nodes: tuple[str, ...] = ()
    operators: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    results: tuple[str | None, ...] = ()
    for depth, line in _lines(functions, "call", 0):
        comment = _NODES.search(line)
        if comment is not None:
            nodes, operators = _words(comment[1]), _words(comment[2])
            continue
        if line.startswith("#"):
            continue
        if line.endswith(" = args") and depth == 0:
            arguments = tuple(_WORD.findall(line[: -len(" = args")]))
            known.update(arguments)
        elif line.startswith("return ") and depth == 0:
            results = tuple(_results(line))
        called = _called(line, kernels)
        if called is None:
            other = _ALIAS.match(line)
            source = None if other is None else other[2] or other[3] or other[4]
            if other is not None and source is not None and other[1] not in alias:
                alias[other[1]] = source
                if other[3] and source in known:
                    known.add(other[1])
            continue
        calls.append(_call(line, called, nodes, operators, known, alias))
        nodes, operators = (), ()
    return Code(tuple(calls), arguments, results, alias)


def _functions(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the name and the lines of each function."""
    lines = text.splitlines()
    starts = [
        (number, match) for number, line in enumerate(lines) if (match := _FUNCTION.match(line))
    ]
    for number, match in starts:
        body = []
        for line in lines[number + 1 :]:
            if line.strip() and len(line) - len(line.lstrip()) <= len(match[1]):
                break
            body.append(line.strip())
        yield match[2], body


def _lines(functions: dict[str, list[str]], name: str, depth: int) -> Iterator[tuple[int, str]]:
    """Yield the lines of a function, and in place of calls of others, theirs."""
    for line in functions.get(name, ()):
        partition = _PARTITION.search(line)
        inner = None if partition is None else f"partition_{partition[1]}"
        if inner is None and line and not line.startswith("#"):
            inner = next((word for word in _PLAIN.findall(line) if word in functions), None)
        if inner in functions and inner != name and depth < _MOST_NESTED:
            yield from _lines(functions, inner, depth + 1)
        else:
            yield depth, line


def _called(line: str, kernels: dict[str, tuple[str, str]]) -> tuple[str, int] | None:
    """Return name and kind of the kernel that a line calls, if any."""
    match = _RUN.search(line)
    if match is not None:
        name, how = kernels.get(match[1], (match[1], ""))
        return name, EXTERN if how == "multi_kernel" else TRITON  # that runs the best of several
    match = _FALLBACK.search(line)
    if match is not None:
        return match[1], EXTERN
    if _COPY.search(line):
        return "copy_", EXTERN
    for word in _PLAIN.findall(line):
        if word in kernels:
            return word, CPP
    return None


def _call(
    line: str,
    called: tuple[str, int],
    nodes: tuple[str, ...],
    operators: tuple[str, ...],
    known: set[str],
    alias: dict[str, str],
) -> Call:
    """Return a call. It fills the buffers that no line before it has filled.

    Those that begin its arguments, and are other names of buffers that were filled, are changed in
    place.
    """
    names = list(dict.fromkeys(_WORD.findall(line.partition("  #")[0])))
    arguments = [name for name in names if name.startswith("buf") or name in known]
    made = [match[1] for match in (_ASSIGNED.match(line), _OUT.search(line)) if match is not None]
    filled = [name for name in names if name.startswith("buf") and name not in known]
    writes = tuple(dict.fromkeys([*made, *filled]))
    first = next((place for place, name in enumerate(arguments) if name in known), len(arguments))
    changed = [alias[name] for name in arguments[:first] if alias.get(name) in known]
    reads = (*changed, *(name for name in names if name in known and name not in made))
    known.update(writes)
    return Call(*called, nodes, operators, reads, writes)


def _results(line: str) -> Iterator[str | None]:
    """Yield the names in a line such as ``return (buf1, None, reinterpret_tensor(buf2, ...))``."""
    inside = line[len("return ") :].strip().strip(";").strip()
    depth, part = 0, ""
    for letter in inside.removeprefix("("):
        if depth == 0 and letter in ",)":
            if part.strip():
                yield _first_name(part)
            part = ""
            continue
        depth += (letter in "([") - (letter in ")]")
        part += letter
    if part.strip():
        yield _first_name(part)


def _first_name(part: str) -> str | None:
    names = _WORD.findall(part.replace("reinterpret_tensor", ""))
    return names[0] if names else None


def _words(text: str) -> tuple[str, ...]:
    return tuple(word for word in text.split(", ") if word)
