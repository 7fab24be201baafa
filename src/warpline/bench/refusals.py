"""Why a point of a benchmark was not measured. In its process only: rows have the text."""

from __future__ import annotations


class RefusedError(Exception):
    """A library, the driver or the GPU cannot do what was asked for.

    Args:
        reason: Why, as a row shows it.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class OutOfMemoryError(RefusedError):
    """There is not enough memory."""

    def __init__(self) -> None:
        super().__init__("out of memory")
