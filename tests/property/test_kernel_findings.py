"""Whatever counters say, also in a damaged report, findings are finite and in order."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from support.kernel_counters import IDLE, trace

from warpline import plugins
from warpline.derived.kernel_limits.demands import DURATION
from warpline.derived.kernel_limits.launches import Launches
from warpline.derived.kernel_limits.resources import RESOURCES
from warpline.derived.kernel_limits.rules import KERNEL_RULES
from warpline.documents.kernel_filters import Choice
from warpline.documents.kernel_findings import kernel_findings, of_kernels
from warpline.presentation.kernel_findings import findings_screen

plugins.load("kernel-rules")
# All that rules look at: some need a busy pipe first.
_BUSY = {name: 90.0 for resource in RESOURCES for name in resource.metrics if "tensor" not in name}
_JUDGED = Launches(trace([IDLE | _BUSY]))
_PROPOSALS = [proposal for rule in KERNEL_RULES for proposal in rule.judge(_JUDGED)]
NAMES = sorted(
    {*IDLE, *(name for resource in RESOURCES for name in resource.metrics)}
    | {name for proposal in _PROPOSALS for name in proposal.evidence}
)
OPCODES = ("FFMA", "MUFU", "FCHK", "F2I", "F2F")
USUAL = st.one_of(st.floats(0, 100), st.sampled_from([0.5, 4.0, 1e6, 1e9]))
NUMBERS = st.one_of(USUAL, USUAL, st.floats(), st.sampled_from([-1.0, 0.0, 1e18, 1e300]))
METRICS = st.fixed_dictionaries({}, optional=dict.fromkeys(NAMES, NUMBERS))
EXECUTED = st.dictionaries(st.sampled_from(OPCODES), st.floats(-1, 1e12) | st.floats())


@given(st.lists(st.tuples(METRICS, EXECUTED, st.booleans()), min_size=1, max_size=3))
def test_any_counters(launches):
    made = [(IDLE | metrics if is_usual else metrics) for metrics, _, is_usual in launches]
    report = trace(made, [opcodes for _, opcodes, _ in launches])
    with np.errstate(over="raise", divide="raise", invalid="raise"):
        found = kernel_findings(report, Choice())
    for metrics, findings in zip(made, found, strict=True):
        for finding in findings:
            assert 0 <= finding.low_ns <= finding.high_ns <= finding.before_ns
            assert finding.likely_ns is None or (
                finding.low_ns <= finding.likely_ns <= finding.high_ns
            )
            assert finding.evidence
        savings = [finding.saving_ns or 0 for finding in findings]
        assert sum(savings) <= round(metrics.get(DURATION, 0)) if savings else True
    assert len(findings_screen(of_kernels(report, Choice())).blocks) <= len(launches)
