"""Which profiled launches the filters of ncu choose."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache

from warpline.documents.table_rows import Rows, native_id
from warpline.errors import UsageError
from warpline.frozen import frozen
from warpline.trace import Trace

NAMES = {"function": "short_name", "demangled": "name", "mangled": "mangled_name"}
_REGEX = "regex:"
# Nsight Compute shows integers among template arguments without their type.
_CAST = re.compile(r"(?<=[<\s])\(int\)(?=-?\d)")


@frozen
class Choice:
    """Which launches to show, as ncu's filters say it.

    Attributes:
        name: ``--kernel-name``: a name, or ``regex:`` and an expression; None takes all.
        name_base: ``--kernel-name-base``: what the name is compared with.
        ids: ``--kernel-id``: ``context:stream:name:invocation`` each; a launch must match one.
        skip: ``--launch-skip``: launches to skip, of those that the other filters take.
        count: ``--launch-count``: launches to take after them; None takes all.
        skip_before_match: ``--launch-skip-before-match``: launches to skip, whatever their name.
        sections: ``--section``: identifiers of sections to show; empty takes all.
        metrics: ``--metrics``: names of metrics to return; empty takes all.
        attributes: Attributes of the GPU to return, by name, wherever they are recorded.
    """

    name: str | None = None
    name_base: str = "function"
    ids: tuple[str, ...] = ()
    skip: int = 0
    count: int | None = None
    skip_before_match: int = 0
    sections: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    attributes: tuple[str, ...] = ()


def chosen_rows(trace: Trace, table: Rows, choice: Choice) -> list[int]:
    """Return the rows of the chosen launches."""
    files = trace.meta.file_of_process
    processes = table["process_id"]
    order = sorted(
        range(len(table)),
        key=lambda row: (files[processes[row]] if files else 0, table["launch_number"][row]),
    )
    order = order[choice.skip_before_match :]
    show = cache(shown)
    names = [show(name or "") for name in table[NAMES[choice.name_base]]]
    matches = any_of([] if choice.name is None else [choice.name])
    rows = [row for row in order if matches(names[row])]
    if choice.ids:
        rows = _with_ids(trace, table, rows, names, choice.ids)
    end = None if choice.count is None else choice.skip + choice.count
    return rows[choice.skip : end]


def any_of(texts: Sequence[str]) -> Callable[[str], bool]:
    """Return whether a name matches one of some; of none, every name does."""
    matchers = [matcher(text) for text in texts]
    return lambda name: not matchers or any(matches(name) for matches in matchers)


def shown(name: str) -> str:
    """Return the name of a kernel as Nsight Compute shows it."""
    return _CAST.sub("", name)


def matcher(text: str) -> Callable[[str], bool]:
    """Return whether names match a name, or ``regex:`` and an expression found in them.

    Raises:
        UsageError: The expression is invalid.
    """
    if not text.startswith(_REGEX):
        return lambda name: name == text
    try:
        pattern = re.compile(text.removeprefix(_REGEX))
    except re.error as error:
        raise UsageError(f"invalid expression {text!r}: {error}") from None
    return lambda name: pattern.search(name) is not None


def _with_ids(
    trace: Trace, table: Rows, rows: list[int], names: list[str], ids: Sequence[str]
) -> list[int]:
    """Return the rows that match one of ``context:stream:name:invocation``; empty parts match."""
    contexts = [native_id(trace, "context", row) for row in table["context_id"]]
    streams = [native_id(trace, "stream", row) for row in table["stream_id"]]
    taken = set()
    for text in ids:
        context, stream, name, invocation = _id_parts(text)
        matches = any_of([name] if name else [])
        calls: Counter[object] = Counter()
        for row in rows:
            if not (
                context in ("", str(contexts[row]))
                and stream in ("", str(streams[row]))
                and matches(names[row])
            ):
                continue
            calls[names[row]] += 1
            if not invocation or _is_invocation(invocation, calls[names[row]]):
                taken.add(row)
    return [row for row in rows if row in taken]


def _id_parts(text: str) -> tuple[str, str, str, str]:
    context, _, rest = text.partition(":")
    stream, _, rest = rest.partition(":")
    name, colon, invocation = rest.rpartition(":")
    if not colon:
        raise UsageError(
            f"invalid --kernel-id {text!r}",
            hint="use CONTEXT:STREAM:NAME:INVOCATION, such as ::vec_add:2; parts may be empty",
        )
    return context, stream, name, invocation


def _is_invocation(text: str, number: int) -> bool:
    """Return whether all of a number matches an expression, such as ``3`` or ``.*5|3``."""
    try:
        return re.fullmatch(text.removeprefix(_REGEX), str(number)) is not None
    except re.error as error:
        raise UsageError(f"invalid expression {text!r} in --kernel-id: {error}") from None
