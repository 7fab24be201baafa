"""Names of CUDA functions."""

from __future__ import annotations

import numpy as np

from warpline.derived.summaries.events import without_version
from warpline.derived.texts import number_texts
from warpline.ops.arrays import I64
from warpline.ops.group import factorize_rows
from warpline.result import Texts
from warpline.trace import Trace


def function_names(trace: Trace, rows: I64) -> Texts:
    """Return the function names of some rows of `api_call`, without version suffixes.

    Args:
        trace: The trace.
        rows: Shape (n,), rows in the total order of calls.

    Returns:
        Distinct texts, in ascending order.
    """
    if not len(rows):
        return Texts(np.zeros(0, np.int32), [])
    ids = trace.columns("api_call", "name_id")["name_id"].values[rows]
    codes, distinct = number_texts(ids, len(trace.strings))
    texts = [without_version(name) for name in trace.strings.texts(distinct.tolist())]
    place = {text: number for number, text in enumerate(sorted(set(texts)))}
    return Texts(np.array([place[text] for text in texts], np.int32)[codes], list(place))


def recorded_once(trace: Trace, rows: I64) -> I64:
    """Leave out calls inside another record of the same call.

    Nsight Systems records runtime calls twice if it is asked for their backtraces:
    `cudaLaunchKernel`, and inside it `cudaLaunchKernel_v7000` with the same correlation id.

    Args:
        trace: The trace.
        rows: Shape (n,), rows of `api_call`, ascending: those of outer calls come first.

    Returns:
        Shape (m,), the rows that remain, ascending.
    """
    calls = trace.columns("api_call", "name_id", "process_id", "correlation_id")
    codes, distinct = number_texts(calls["name_id"].values[rows], len(trace.strings))
    plain = [without_version(name) for name in trace.strings.texts(distinct.tolist())]
    number = {name: place for place, name in enumerate(dict.fromkeys(plain))}
    if len(number) == len(plain):
        return rows
    named = np.array([number[name] for name in plain], np.int64)[codes]
    process, correlation = (
        calls[name].filled(-1)[rows] for name in ("process_id", "correlation_id")
    )
    is_left = correlation < 0
    is_left[factorize_rows(process, correlation, named).first] = True
    return rows[is_left]
