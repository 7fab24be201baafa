"""Kernel names prefixed with the range that launched them: nsys's argument `nvtx-name`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from warpline.derived import derived
from warpline.derived.ranges.threads import innermost_around_launch
from warpline.derived.summaries.kernel_names import (
    KERNEL_NAME_ARGUMENTS,
    kernel_name_column,
    kernel_name_ids,
)
from warpline.derived.texts import number_texts
from warpline.ops.arrays import I32
from warpline.ops.group import factorize_rows
from warpline.result import Texts
from warpline.trace import Trace

PREFIX = "nvtx-name"
PREFIXED_NAME_ARGUMENTS: Mapping[str, str] = {
    PREFIX: "prefix kernel names with the innermost NVTX range around their launch",
    **KERNEL_NAME_ARGUMENTS,
}


def kernel_texts(trace: Trace, arguments: Sequence[str]) -> Texts:
    """Return the name of each kernel under a table's arguments, rows in total order.

    With `PREFIX`, it is ``range/kernel``, or ``kernel`` if no named range contains the whole
    launch call. The range's domain is not part of it. The texts are distinct and unordered.
    """
    return _kernel_texts(trace, kernel_name_column(arguments), is_prefixed=PREFIX in arguments)


@derived
def _kernel_texts(trace: Trace, column: str, *, is_prefixed: bool) -> Texts:
    ids = kernel_name_ids(trace, column, ordered=True)
    codes, distinct = number_texts(ids, len(trace.strings))
    texts = trace.strings.texts(distinct.tolist())
    return _prefixed(trace, codes, texts) if is_prefixed else Texts(codes, texts)


def _prefixed(trace: Trace, codes: I32, texts: Sequence[str]) -> Texts:
    prefix = _innermost_name_ids(trace)
    groups = factorize_rows(prefix, codes)
    parts = zip(prefix[groups.first].tolist(), codes[groups.first].tolist(), strict=True)
    labels = [
        texts[code] if row < 0 else f"{trace.strings.text(row)}/{texts[code]}"
        for row, code in parts
    ]
    place = {label: number for number, label in enumerate(dict.fromkeys(labels))}
    return Texts(np.array([place[t] for t in labels], np.int32)[groups.codes], list(place))


def _innermost_name_ids(trace: Trace) -> I32:
    """Return the name of the innermost range around each kernel's launch; -1 without one."""
    around = innermost_around_launch(trace, "kernel")
    if not around.found.any():
        return np.full(len(around.found), -1, np.int32)
    names: I32 = trace.columns("range", "name_id")["name_id"].filled(-1)
    return np.where(around.found, names[around.row], np.int32(-1))
