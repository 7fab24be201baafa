"""Graph checks of arbitrary recordings: they end, and say the same whatever the order of rows."""

from __future__ import annotations

import json

from hypothesis import HealthCheck, given, settings
from support.any_trace import AnyTrace, any_traces

from warpline import api


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
@given(any_traces(max_rows=12))
def test_any_recording_is_checked(made: AnyTrace) -> None:
    found = api.graphcheck(made.trace()).to_dict()
    json.dumps(found, allow_nan=False)
    assert found["status"] in {0, 3, 4}
    assert all(0 < item["steps"] <= item["of_steps"] for item in found["offenders"])
    again = api.graphcheck(made.permuted(3).trace()).to_dict()
    assert again["verdict"] == found["verdict"]
    later = api.graphcheck(made.shifted(10**9).trace()).to_dict()
    assert [item["kind"] for item in later["offenders"]] == [
        item["kind"] for item in found["offenders"]
    ]
