"""Tables of sampled program counters of a recording, and the warnings about them."""

from __future__ import annotations

from array import array
from collections.abc import Mapping

from warpline.capture.finishing.counter_tables import cause_and_cure, has_failed
from warpline.capture.finishing.raw_session import RawSession
from warpline.capture.finishing.told import INFO, WARNING, Told
from warpline.capture.session.raw_numbers import CudaNote
from warpline.units import plural

PC_SAMPLES = "pc samples"  # what session.json calls them, among what is collected
TABLES = ("pc_sample", "pc_sampling")

_UNAVAILABLE = (CudaNote.NO_SAMPLING,)
_NOTES: Mapping[int, tuple[int, str]] = {
    CudaNote.SAMPLING: (INFO, "program counters are sampled: {}"),
    CudaNote.SAMPLING_DOUBT: (WARNING, "program counters are sampled, but {}"),
}


def recorded(session: RawSession, *, is_asked_for: bool) -> list[str]:
    """Return the tables of samples of a sealed session.

    Both are present if there was a context to sample, or if program counters could have been
    sampled and there was none.

    Args:
        session: The decoded logs.
        is_asked_for: Whether samples were requested.
    """
    could_be = is_asked_for and not has_failed(session, _UNAVAILABLE)
    return [*TABLES] if session.rows("pc_sampling") or could_be else []


def tell_samples(told: Told, session: RawSession) -> None:
    """Add the warnings about samples in a sealed session; missing ones come first."""
    others, told.warnings = told.warnings, []
    told.add_unrecorded(session, PC_SAMPLES, _UNAVAILABLE, cause_and_cure)
    told.warnings += others
    told.add_notes(session, _NOTES)
    total, dropped, non_user, left_out = (
        sum(session.facts("pc_sampling", name))
        for name in ("total_samples", "dropped_samples", "non_user_samples", "modules_left_out")
    )
    if dropped:
        told.warnings.append(
            f"the GPU dropped {dropped:,} of {plural(total, 'sample')}: use a larger"
            " --sampling-interval"
        )
    elif _was_buffer_full(session):
        told.warnings.append(
            "samples are missing: the GPU's buffer was full, as a kernel that runs for seconds can"
            " fill it; use a larger --sampling-interval"
        )
    if non_user:
        told.warnings.append(
            f"{non_user:,} of {plural(total, 'sample')} are in kernels of the driver, of which"
            " CUPTI returns no instructions"
        )
    told.warn_of_each(_unclosed(session), "ended without notice")
    if left_out:
        told.warnings.append(
            f"the code of {plural(left_out, 'module')} was not kept, for lack of space: their"
            " samples have no source lines"
        )


def _unclosed(session: RawSession) -> list[str]:
    """Return a sentence about each sampled process that did not write its last samples down."""
    sampled = array("i")
    for part in session.values("pc_sampling/process_id", session.rows("pc_sampling"), 4):
        sampled.frombytes(part)
    columns = (session.facts("process", name) for name in ("pid", "is_closed", "is_alive"))
    return [
        f"process {pid} was killed or called _exit: up to an eighth of its samples, the last ones,"
        " may be missing"
        for process, (pid, is_closed, is_alive) in enumerate(zip(*columns, strict=True))
        if process in sampled and not is_closed and not is_alive
    ]


def _was_buffer_full(session: RawSession) -> bool:
    rows = session.rows("pc_sampling")
    return any(b"".join(session.values("pc_sampling/hardware_buffer_full", rows, 1)))
