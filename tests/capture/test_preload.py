"""LD_PRELOAD of recorded programs: our libraries, in front of the user's."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from warpline.capture.session.preload import LOADER, SHIM, preload_variables
from warpline.errors import AgentMissingError, CaptureError


@pytest.fixture
def agent(tmp_path):
    for name in (LOADER, SHIM):
        (tmp_path / name).touch()
    return tmp_path / "libwarpline_agent.so"


def test_nothing_is_set_without_a_library(agent):
    assert preload_variables(agent, (), {"LD_PRELOAD": "/lib/mine.so"}) == {}


def test_the_users_own_libraries_come_after_ours(agent):
    found = preload_variables(agent, (SHIM,), {"LD_PRELOAD": "/lib/one.so /lib/two.so"})
    assert found["LD_PRELOAD"] == f"{agent.with_name(SHIM)}:/lib/one.so /lib/two.so"
    found = preload_variables(agent, (LOADER,), {"LD_PRELOAD": ""})
    assert found["LD_PRELOAD"] == str(agent.with_name(LOADER))


def test_the_shim_loads_the_agent_itself(agent):
    found = preload_variables(agent, (LOADER, SHIM), {})
    assert found["LD_PRELOAD"] == str(agent.with_name(SHIM))


def test_address_sanitizer_is_told_that_it_need_not_be_first(agent):
    found = preload_variables(agent, (SHIM,), {})
    assert found["ASAN_OPTIONS"] == "verify_asan_link_order=0"
    found = preload_variables(agent, (SHIM,), {"ASAN_OPTIONS": "detect_leaks=0"})
    assert found["ASAN_OPTIONS"] == "detect_leaks=0:verify_asan_link_order=0"


def test_what_cannot_be_preloaded_is_said(agent):
    (agent.parent / "a b").mkdir()
    with pytest.raises(AgentMissingError, match=SHIM):
        preload_variables(agent.parent / "a b" / agent.name, (SHIM,), {})
    (agent.parent / "a b" / SHIM).touch()
    with pytest.raises(CaptureError, match="space or a colon"):
        preload_variables(agent.parent / "a b" / agent.name, (SHIM,), {})


def test_the_page_lists_the_functions_that_are_recorded():
    root = Path(__file__).parents[2]
    declared = (root / "native/shim/src/calls.def").read_text()
    listed = (root / "docs/osrt.md").read_text().partition("## Functions")[2]
    names = re.findall(r"^(?:LOCK|THREAD)\((\w+)", declared, re.MULTILINE)
    with_result = r"^(?:CALL|NEWER|CHECKED|VARIADIC|NEWER_VARIADIC)\([^,]+, (\w+)"
    names += re.findall(with_result, declared, re.MULTILINE)
    assert set(re.findall(r"`(\w+)`", listed)) == set(names)
