"""Properties of traces: order is independent of the file's; windows equal a plain filter."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from warpline.trace import MemorySource, Trace

_EVENTS = st.lists(
    st.tuples(
        st.integers(-20, 20),  # start
        st.integers(0, 10),  # duration
        st.integers(0, 2),  # stream
        st.one_of(st.none(), st.integers(0, 3)),  # correlation
        st.sampled_from(["a", "b"]),
    ),
    max_size=12,
)


def _trace(events):
    starts, lengths, streams, correlations, names = (
        zip(*events, strict=True) if events else [()] * 5
    )
    zeros = [0] * len(events)
    return Trace(
        MemorySource(
            {
                "stream": {"process_id": [0] * 3, "context_id": [0] * 3, "native_id": [7, 8, 9]},
                "kernel": {
                    "start_ns": starts,
                    "end_ns": [s + d for s, d in zip(starts, lengths, strict=True)],
                    "device_id": zeros,
                    "context_id": zeros,
                    "process_id": zeros,
                    "stream_id": streams,
                    "correlation_id": correlations,
                    "name": names,
                },
            }
        )
    )


def _key(row):
    start, length, stream, correlation, _ = row
    return (start, start + length, stream, -1 if correlation is None else correlation)


@given(_EVENTS)
def test_the_total_order_is_a_stable_sort_by_the_declared_columns(events):
    frame = _trace(events).table("kernel").to_polars(["start_ns", "end_ns", "stream_id", "name"])
    expected = [(s, s + d, stream, name) for s, d, stream, _, name in sorted(events, key=_key)]
    assert frame.rows() == expected


@given(_EVENTS, st.integers(-25, 30), st.integers(0, 20))
def test_a_window_equals_a_plain_filter(events, low, length):
    high = low + length
    part = _trace(events).window(low, high)

    def inside(event):
        start, duration = event[:2]
        if duration == 0:
            return low <= start < high
        return start < high and start + duration > low

    kept = sorted((event for event in events if low < high and inside(event)), key=_key)
    assert part.table("kernel")["start_ns"].tolist() == [event[0] for event in kept]
    assert part.row_count("kernel") == len(kept)


@given(_EVENTS, st.sets(st.integers(0, 2)))
def test_a_selection_keeps_columns_aligned(events, streams):
    part = _trace(events).select(stream=sorted(streams))
    columns = part.columns("kernel", "start_ns", "stream_id", "correlation_id")
    assert set(columns["stream_id"].values.tolist()) <= streams
    kept = sorted((event for event in events if event[2] in streams), key=_key)
    assert columns["correlation_id"].to_list() == [event[3] for event in kept]
    assert np.array_equal(columns["start_ns"].values, [event[0] for event in kept])
