"""Steps that can and cannot be captured as CUDA graphs: each planted offender with its line."""

from __future__ import annotations

import pytest
from support.graph_programs import CLEAN, PLANTED, Coded, Step

from warpline import api
from warpline.result.graphcheck import GraphCheck


def check(step: Step, steps: int = 12) -> GraphCheck:
    return api.graphcheck(Coded().run(step, steps).recorded())


@pytest.mark.parametrize("name", CLEAN)
def test_clean_programs_have_no_offenders(name: str) -> None:
    found = check(CLEAN[name])
    assert not found.offenders
    assert (found.verdict, found.status) == ("yes", 0)


@pytest.mark.parametrize("name", PLANTED)
def test_planted_offenders_are_found_with_their_lines(name: str) -> None:
    step, planted = PLANTED[name]
    found = check(step)
    assert {offender.kind: offender.place for offender in found.offenders} == planted
    assert len(found.offenders) == len(planted)
    assert (found.verdict, found.status) == ("no", 3)
