"""A report opens: it draws, reports no problems, and makes no requests."""

from __future__ import annotations

import pytest

RECORDINGS = (
    "bundled/pageable_h2d.bad",
    "nsys/rich_metrics_sampling",
    "kineto/pageable_h2d.bad",
    "faults/allocator.bad",
)


@pytest.mark.parametrize("name", RECORDINGS)
def test_a_report_opens_and_asks_for_nothing(viewer, report, name):
    path = report(name)
    viewer.open(path, "")
    assert viewer.find("#warpline-static").is_visible()
    viewer.press("2")
    viewer.drawn()
    assert viewer.ask("performance.getEntriesByName('warpline-overview').length") == 1
    assert viewer.ask("model.recording.rows.filter((row) => row.error).length") == 0
    documents = [url for url in viewer.requests if not url.startswith("blob:")]
    assert documents == [path.as_uri()]
