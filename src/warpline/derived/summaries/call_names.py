"""Names of CUDA functions."""

from __future__ import annotations

import numpy as np

from warpline.derived.summaries.events import without_version
from warpline.derived.texts import number_texts
from warpline.ops.arrays import I64
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
