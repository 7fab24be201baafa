"""The data of the page of memory: what is left out of a huge recording, and the first layers."""

from __future__ import annotations

import pytest
from support import memory_histories

import warpline
from warpline.documents.memory_page import content
from warpline.trace import Run
from warpline.viewer import memory_report
from warpline.viewer.memory_report import make_memory_report
from warpline.viewer.page import assets

MIB = memory_histories.MIB


@pytest.fixture
def run(tmp_path):
    return Run(warpline.open(memory_histories.training(tmp_path / "run.pickle")), None)


def test_layers_are_what_names_most_of_the_memory(run):
    assert content([run], None, ()).by == "line"
    assert content([run], "operator", ()).by == "operator"


def test_the_head_has_the_peak_and_the_columns(run):
    head = make_memory_report(content([run], None, ()), assets("memory")).head
    (pool,) = head["sides"][0]["pools"]
    assert pool["peak"] == {
        "state": 3,
        "time_ns": 3_000_000,
        "allocated_bytes": 22 * MIB,
        "reserved_bytes": 256 * MIB,
    }
    assert pool["states"]["count"] == 14
    assert pool["blocks"]["count"] == 7
    assert pool["rest"]["count"] == 0
    assert head["notes"] == []


def test_the_smallest_blocks_are_left_out_and_still_counted(run, monkeypatch):
    monkeypatch.setattr(memory_report, "MOST_BLOCKS", 4)
    head = make_memory_report(content([run], None, ()), assets("memory")).head
    (pool,) = head["sides"][0]["pools"]
    assert pool["blocks"]["count"] == 4
    # The three blocks of 4 MiB come and go.
    assert pool["rest"]["count"] == 6
    assert pool["left_out"] == 3
    assert head["notes"] == [
        "run.pickle, GPU 0: the 3 smallest blocks of 7 are not listed. Sums include them."
    ]
