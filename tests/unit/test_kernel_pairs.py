"""Predictions beside the truth: seven kernels with a known fault, each of which was repaired.

All was predicted from the report of the bad kernel alone. The truth is the duration in the report
of its repair.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

import pytest
from support.kernel_counters import pairs

from warpline.documents.kernel_filters import Choice
from warpline.documents.kernel_findings import kernel_findings
from warpline.result.kernel_findings import KernelFinding

REMOVED = {
    "uncoalesced": "uncoalesced",
    "bank_conflict": "bank-conflicts",
    "small_grid": "few-blocks",
}
REPLACED = {"atomics": "atomics", "slow_math": "slow-math", "no_tensor_cores": "tensor-cores"}
OCCUPANCY = "low_occupancy"
# Documented in docs/kernels.md: at least, expected, at most.
PREDICTED_US = {
    "uncoalesced": (24.9, 27.9, 38.3),
    "bank_conflict": (41.2, 46.7, 65.9),
    "small_grid": (66.0, 72.7, 106.9),
    "atomics": (23.3, None, None),
    "slow_math": (42.2, None, None),
    "no_tensor_cores": (20.7, None, None),
    "low_occupancy": (5012.8, 5300.8, 5300.8),
}


@pytest.fixture(scope="module")
def findings() -> dict[str, Sequence[KernelFinding]]:
    trace, rows = pairs()
    found = kernel_findings(trace, Choice())
    return {name: found[row] for name, row in rows.items()}


@pytest.fixture(scope="module")
def truth_ns() -> dict[str, float]:
    trace, rows = pairs()
    times = trace["kernel_metric"].filter(name="gpu__time_duration.sum")["value"].to_list()
    return {
        name.removesuffix(".fixed"): times[row] for name, row in rows.items() if "fixed" in name
    }


def test_the_first_finding_is_the_fault(findings):
    first = {name: found[0].rule for name, found in findings.items() if name.endswith(".bad")}
    assert first == {
        f"{name}.bad": rule
        for name, rule in {**REMOVED, **REPLACED, OCCUPANCY: "low-occupancy"}.items()
    }
    assert all(findings[f"{name}.bad"][0].severity == "high" for name in (*REMOVED, *REPLACED))


def test_times_after_an_excess_is_removed(findings, truth_ns):
    errors = []
    for name in (*REMOVED, OCCUPANCY):
        first = findings[f"{name}.bad"][0]
        assert first.low_ns <= truth_ns[name] <= first.high_ns
        errors.append(abs(first.likely_ns / truth_ns[name] - 1))
    assert median(errors) < 0.1
    assert max(errors) < 0.1


def test_no_floor_is_beaten(findings, truth_ns):
    for name in REPLACED:
        first = findings[f"{name}.bad"][0]
        assert first.outcome == "floor"
        assert first.saving_ns is None
        assert (first.saving_low_ns, first.saving_high_ns) == (0, first.before_ns - first.low_ns)
        assert first.low_ns <= truth_ns[name]


def test_what_is_documented(findings):
    for name, (low, likely, high) in PREDICTED_US.items():
        first = findings[f"{name}.bad"][0]
        assert first.low_ns / 1e3 == pytest.approx(low, abs=0.06)
        if likely is None:
            assert first.likely_ns is None
        else:
            assert first.likely_ns / 1e3 == pytest.approx(likely, abs=0.06)
            assert first.high_ns / 1e3 == pytest.approx(high, abs=0.06)


def test_more_occupancy_gains_nothing(findings):
    first = findings[f"{OCCUPANCY}.bad"][0]
    assert (first.outcome, first.severity, first.saving_ns) == ("no-gain", "info", 0)
    assert "L2 is at 94.5% of its peak" in first.claim


def test_repaired_kernels_have_no_high_finding(findings):
    repaired = {name: found for name, found in findings.items() if name.endswith(".fixed")}
    assert len(repaired) == 7
    assert not [found for every in repaired.values() for found in every if found.severity == "high"]


def test_savings_never_exceed_the_time(findings):
    for found in findings.values():
        if found:
            time_ns = max(finding.before_ns for finding in found)
            assert sum(finding.saving_ns or 0 for finding in found) <= time_ns
        assert all(finding.evidence and finding.fix and finding.claim for finding in found)
