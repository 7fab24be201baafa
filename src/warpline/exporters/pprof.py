"""pprof's format: a gzipped Protocol Buffers message, perftools.profiles.Profile.

Its fields are numbered as in ``proto/profile.proto`` of github.com/google/pprof.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from warpline.derived.flame.call_tree import CallTree, tree_by_thread
from warpline.derived.flame.profiles import Labels, profile
from warpline.derived.flame.threads import ThreadName, thread_name
from warpline.derived.flame.weighted import TITLES, Choice
from warpline.exporters import EXPORTERS, stack_exporter
from warpline.files import complete_file
from warpline.trace import Trace

_SAMPLE_TYPE, _SAMPLE, _MAPPING, _LOCATION, _FUNCTION, _STRING = range(1, 7)
_DURATION, _COMMENT, _DEFAULT_SAMPLE_TYPE = 10, 13, 14
_LEVEL = 6
_LENGTH_DELIMITED = 2


def write(trace: Trace, path: Path, choice: Choice) -> None:
    """Write a sample per thread and stack: how many there are, and their time in ns."""
    tree, labels = tree_by_thread(trace, choice), profile(trace, choice).labels
    threads = {row: thread_name(trace, row) for row in np.unique(tree.group).tolist()}
    texts, kind = _Texts(), choice.of
    start_ns, end_ns = trace.span()
    parts = (
        *(
            _message(_SAMPLE_TYPE, _value_type(texts, name, unit))
            for name, unit in (("samples", "count"), (kind, "nanoseconds"))
        ),
        *_samples(tree, threads, texts),
        *_code(labels, texts),
        _number(_DEFAULT_SAMPLE_TYPE, texts.place(kind)),
        _number(_COMMENT, texts.place(TITLES[kind])),
        _number(_DURATION, max(0, end_ns - start_ns)),
    )
    strings = (_message(_STRING, text.encode("utf-8", "replace")) for text in texts.all)
    # Without a time, equal profiles are equal files.
    packed = gzip.compress(b"".join((*parts, *strings)), _LEVEL, mtime=0)
    with complete_file(path) as unfinished:
        unfinished.write_bytes(packed)


class _Texts:
    """The table of texts, whose first one is empty."""

    def __init__(self) -> None:
        self._places = {"": 0}

    @property
    def all(self) -> Iterable[str]:
        return self._places

    def place(self, text: str) -> int:
        return self._places.setdefault(text, len(self._places))


def _value_type(texts: _Texts, name: str, unit: str) -> bytes:
    return _number(1, texts.place(name)) + _number(2, texts.place(unit))


def _samples(tree: CallTree, threads: dict[int, ThreadName], texts: _Texts) -> Iterable[bytes]:
    """Yield the message of each node where stacks end: its locations, the innermost first."""
    of_thread = {row: _thread_labels(name, texts) for row, name in threads.items()}
    stacks: list[bytes] = []
    columns = (tree.group, tree.parent, tree.label, tree.self_ns, tree.count)
    for group, parent, label, self_ns, count in zip(
        *(each.tolist() for each in columns), strict=True
    ):
        stacks.append(_varint(label + 1) + (stacks[parent] if parent >= 0 else b""))
        if count:
            values = _message(2, _varint(count) + _varint(self_ns))
            yield _message(_SAMPLE, _message(1, stacks[-1]) + values + of_thread[group])


def _thread_labels(name: ThreadName, texts: _Texts) -> bytes:
    thread = _number(1, texts.place("thread")) + _number(2, texts.place(name.text))
    numbers = (
        _number(1, texts.place(key)) + _number(3, value)
        for key, value in (("pid", name.pid), ("tid", name.tid))
    )
    return b"".join(_message(3, label) for label in (thread, *numbers))


def _code(labels: Labels, texts: _Texts) -> Iterable[bytes]:
    """Yield the locations, one per label, and the functions and mappings that they name."""
    functions: dict[tuple[int, str], int] = {}
    mappings: dict[str, int] = {}
    columns = (labels.name, labels.module, labels.file, labels.line, labels.function)
    for place, (name, module, file, line, number) in enumerate(zip(*columns, strict=True), 1):
        function = (number, file)  # a function has lines of other files, where code was inlined
        if function not in functions:
            functions[function] = len(functions) + 1
            text = texts.place(name)
            fields = (functions[function], text, text, texts.place(file))
            yield _message(_FUNCTION, b"".join(map(_number, range(1, 5), fields)))
        if module not in mappings:
            mappings[module] = len(mappings) + 1
            # It has functions, file names and line numbers, so that pprof looks for no binary.
            known = ((1, mappings[module]), (5, texts.place(module)), (7, 1), (8, 1), (9, 1))
            yield _message(_MAPPING, b"".join(_number(*each) for each in known))
        code = _number(1, functions[function]) + _number(2, line)
        yield _message(
            _LOCATION, _number(1, place) + _number(2, mappings[module]) + _message(4, code)
        )


def _number(field: int, value: int) -> bytes:
    """Return a field with a number; one that is 0 is left out."""
    return _varint(field << 3) + _varint(value) if value else b""


def _message(field: int, content: bytes) -> bytes:
    return _varint(field << 3 | _LENGTH_DELIMITED) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    """Return a nonnegative number in groups of seven bits, the lowest first."""
    groups = bytearray()
    while value > 0x7F:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    groups.append(value)
    return bytes(groups)


EXPORTERS.add("pprof", stack_exporter("pprof", "Stacks for pprof, gzipped.", ".pb.gz", write))
