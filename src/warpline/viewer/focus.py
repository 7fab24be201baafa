"""Steps and findings on the timeline."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from warpline.derived.steps.times import Steps, steps
from warpline.derived.work.busy import DEVICE_TABLES
from warpline.ops.arrays import I64
from warpline.result import Diagnosis, Evidence, Finding
from warpline.trace import Run, Trace
from warpline.viewer.device_rows import device_label

_HOST_KEYS = {
    "api_call": "api",
    "range": "range",
    "mark": "mark",
    "op": "op",
    "python_frame": "python",
    "os_call": "os",
    "overhead": "overhead",
    "library_call": "library",
}


def step_lists(run: Run, offset_ns: int) -> list[dict[str, Any]]:
    """Return the steps on each device, slowest first; without GPU steps, those on the CPU.

    Args:
        run: The trace, and the choice of its steps.
        offset_ns: Subtracted from all times.
    """
    run_steps = steps(run)
    if not len(run_steps):
        return []
    lists = []
    for device in _by_median(run_steps):
        places = np.flatnonzero(run_steps.window_device == device)
        places = places[np.argsort(run_steps.window_start_ns[places], kind="stable")]
        step = run_steps.window_step[places]
        windows = run_steps.window_start_ns[places], run_steps.window_end_ns[places]
        rows = [f"gpu{device}"]
        lists.append(
            _list(run_steps, device_label(run.trace, device), rows, step, windows, offset_ns)
        )
    if lists:
        return lists
    order = np.argsort(run_steps.host_start_ns, kind="stable")
    windows = run_steps.host_start_ns[order], run_steps.host_end_ns[order]
    rows = [f"process{process}" for process in np.unique(run_steps.process).tolist()]
    return [_list(run_steps, "CPU", rows, order, windows, offset_ns)]


def _by_median(run_steps: Steps) -> list[int]:
    """Return the devices with steps by falling median of the included steps."""
    length = run_steps.window_end_ns - run_steps.window_start_ns
    included = run_steps.included[run_steps.window_step]
    medians = {}
    for device in np.unique(run_steps.window_device).tolist():
        here = run_steps.window_device == device
        chosen = length[here & included]
        medians[device] = float(np.median(chosen if len(chosen) else length[here]))
    return sorted(medians, key=lambda device: -medians[device])


def _list(
    run_steps: Steps,
    label: str,
    rows: list[str],
    step: I64,
    windows: tuple[I64, I64],
    offset_ns: int,
) -> dict[str, Any]:
    labels = run_steps.label.to_list()
    numbers = run_steps.index[step].tolist()
    texts = [labels[place] or "" for place in step.tolist()]
    count_of = Counter(texts)
    return {
        "label": label,
        "rows": rows,
        "start_ns": (windows[0] - offset_ns).tolist(),
        "end_ns": (windows[1] - offset_ns).tolist(),
        "index": numbers,
        "text": [
            _step_name(text, number, is_repeated=count_of[text] > 1)
            for text, number in zip(texts, numbers, strict=True)
        ],
        "excluded": (~run_steps.included[step]).tolist(),
    }


def _step_name(text: str, number: int, *, is_repeated: bool) -> str:
    """Return the name of a step: that of its range; with its number if others have it, too."""
    needs_number = not text or (is_repeated and not text[-1].isdigit())
    return f"{text} {number}".strip() if needs_number else text


def focuses(
    trace: Trace, diagnosis: Diagnosis, row_ids: Iterable[str], offset_ns: int
) -> list[dict[str, Any]]:
    """Return the view of each finding.

    Args:
        trace: The trace.
        diagnosis: Of that trace.
        row_ids: Ids of all rows.
        offset_ns: Subtracted from all times.
    """
    known = frozenset(row_ids)
    return [_focus(trace, finding, known, offset_ns) for finding in diagnosis.findings]


def _focus(trace: Trace, finding: Finding, known: frozenset[str], offset_ns: int) -> dict[str, Any]:
    windows = sorted({window for item in finding.evidence for window in item.windows_ns})
    events = [f"{item.table}:{row}" for item in finding.evidence if item.table for row in item.rows]
    rows = [row for item in finding.evidence for row in _rows_of(trace, item)]
    is_of_host = any(item.table in _HOST_KEYS for item in finding.evidence)
    return {
        "id": finding.id,
        "windows_ns": [[start - offset_ns, end - offset_ns] for start, end in windows],
        "rows": [row for row in dict.fromkeys(rows) if row in known],
        "events": list(dict.fromkeys(events)),
        "colour": "cause" if is_of_host else "category",
    }


def _rows_of(trace: Trace, item: Evidence) -> list[str]:
    """Return the ids of the rows with the evidence, and of the affected state rows."""
    if item.table is None or not item.rows:
        return []
    rows = np.array(item.rows, np.int64)
    if item.table in DEVICE_TABLES:
        columns = trace.columns(item.table, "device_id", "stream_id")
        cells = _pairs(columns["device_id"].values[rows], columns["stream_id"].values[rows])
        states = [f"gpu{device}/state" for device, _ in cells]
        return [*states, *(f"gpu{device}/stream{stream}" for device, stream in cells)]
    if item.table in _HOST_KEYS:
        columns = trace.columns(item.table, "thread_id")
        threads = np.unique(columns["thread_id"].filled(-1)[rows]).tolist()
        return [f"thread{thread}/{_HOST_KEYS[item.table]}" for thread in threads]
    return []


def _pairs(one: Any, other: Any) -> Sequence[tuple[int, int]]:
    return sorted(set(zip(one.tolist(), other.tolist(), strict=True)))
