"""Clock errors between files, for the rows of their processes and devices."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from warpline.derived.collectives.matches import collective_matches, file_errors
from warpline.derived.work.operations import operations
from warpline.ops.group import distinct_values
from warpline.trace import Trace
from warpline.viewer.rows import Row


def with_clock_errors(trace: Trace, rows: Iterable[Row]) -> Iterator[Row]:
    """Yield the rows; processes and devices of other files get their clock error.

    The error follows from the ends of collectives after the clocks were aligned: the remaining
    offset between two ranks of different files, plus the spread of single ends around it. The
    first file's clock is the reference. Without collectives no error is known.
    """
    errors = _errors(trace)
    if not errors:
        yield from rows
        return
    of_device = _by_device(trace, errors)
    for row in rows:
        if row.kind != "group" or row.thread is not None:
            yield row
        elif row.device is not None:
            yield replace(row, clock_error_ns=of_device.get(row.device))
        else:
            yield replace(
                row, clock_error_ns=errors.get(-1 if row.process is None else row.process)
            )


def _errors(trace: Trace) -> dict[int, int]:
    """Return the error of each process outside the first file, ns."""
    files = trace.meta.file_of_process
    if len(set(files)) < 2:
        return {}
    of_file = file_errors(collective_matches(trace), files)
    return {process: of_file[file] for process, file in enumerate(files) if file in of_file}


def _by_device(trace: Trace, errors: dict[int, int]) -> dict[int, int]:
    """Return the error of each device that is used only by processes of other files."""
    work = operations(trace)
    of_device = {}
    for low, high in work.bounds_of_devices():
        device, users = int(work.device[low]), distinct_values(work.process[low:high]).tolist()
        if all(process in errors for process in users):
            of_device[device] = max(errors[process] for process in users)
    return of_device
