"""What becomes of a table or a rule that fails: an error, or a mark in the document.

A mark keeps one defect from costing all the other tables.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from warpline.errors import CorruptTraceError, InputError, UsageError
from warpline.result import Skipped

T = TypeVar("T")


def raised(name: str, compute: Callable[[], T]) -> T | Skipped:
    """Compute a table or a rule; its errors are raised."""
    return compute()


def marked(name: str, compute: Callable[[], T]) -> T | Skipped:
    """Compute a table or a rule. A defect becomes a Skipped that is marked as failed.

    Errors of the file or the arguments are raised.
    """
    try:
        return compute()
    except (InputError, UsageError):
        raise
    except Exception as error:  # noqa: BLE001 - one failing table must not prevent the others
        reason = f"internal error: {type(error).__name__}: {error}"
        hint = "report this bug; --debug shows the traceback"
        return Skipped(name, reason, hint, is_failure=True)


def marked_if_damaged(name: str, compute: Callable[[], T]) -> T | Skipped:
    """Compute a table. A defect, or damaged data, becomes a Skipped that is marked as failed."""
    try:
        return marked(name, compute)
    except CorruptTraceError as error:
        return Skipped(name, error.message, error.hint, is_failure=True)
