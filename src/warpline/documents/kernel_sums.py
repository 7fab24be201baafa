"""The counters of each kernel and shape, as `warpline kernels` shows them."""

from __future__ import annotations

from dataclasses import replace

from warpline.documents.tables import document
from warpline.errors import MissingTableError
from warpline.presentation.kernel_names import short_names
from warpline.result import Document, Result, Skipped, Texts
from warpline.trace import Trace

NAME = "kernel_counter_sum"


def kernel_sums(trace: Trace, *, has_short_names: bool) -> Document:
    """Return the counters of each kernel and shape.

    Args:
        trace: The trace.
        has_short_names: Whether to shorten the names of kernels, as on a screen.

    Raises:
        MissingTableError: The trace has no profiled launches.
    """
    found = document(trace, [NAME])
    for section in found.sections:
        if isinstance(section, Skipped):
            raise MissingTableError(section.reason, hint=section.hint)
    if not has_short_names:
        return found
    return replace(found, sections=tuple(map(_with_short_names, found.sections)))


def _with_short_names(section: Result | Skipped) -> Result | Skipped:
    if isinstance(section, Skipped):
        return section
    kernels = section.columns["kernel"]
    assert isinstance(kernels, Texts)
    short = short_names(kernels.values)
    texts = Texts(kernels.codes, [short[name] for name in kernels.values])
    return replace(section, columns={**section.columns, "kernel": texts})
