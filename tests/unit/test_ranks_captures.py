"""Real recordings of two ranks: rank 1 is late, because its CPU launches more slowly."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support import captures, kineto_files

import warpline
from warpline import api, plugins
from warpline.derived.collectives.matches import collective_matches
from warpline.derived.collectives.waits import collective_waits
from warpline.derived.ranks.clocks import aligned
from warpline.derived.ranks.waits import rank_waits
from warpline.derived.work.operations import operations
from warpline.result import RULES, Numbers, Skipped
from warpline.trace import Run, read

SHARED = Path(__file__).parents[3] / "shared" / "data"
PAIRS = {"nsys": 894, "kineto": None}
plugins.load("analyses")
plugins.load("readers")


@pytest.fixture(params=sorted(PAIRS))
def pair(request, tmp_path_factory):
    """Return the paths of two recordings, one per rank."""
    if request.param == "nsys":
        folder = tmp_path_factory.mktemp("nsys")
        return [captures.unpack(f"ddp_serial.bad.rank{rank}", folder) for rank in (0, 1)]
    folder = tmp_path_factory.mktemp("kineto")
    return [kineto_files.unpack(f"ddp_step.rank{rank}", folder) for rank in (0, 1)]


def test_every_collective_finds_its_counterpart(pair):
    trace = warpline.open(*pair)
    found = collective_matches(trace)
    assert found.unmatched == 0
    assert found.count > 0
    end = operations(trace).end_ns[found.operation].reshape(-1, 2)
    assert np.abs(end[:, 1] - end[:, 0]).max() < 25_000
    # One clock: nothing to move.
    assert not any("moved" in text for text in trace.meta.warnings)


class Ahead:
    """A recording with its clock set ahead."""

    def __init__(self, source, by_ns):
        self._source = source
        self.meta = replace(source.meta, origin_utc_ns=source.meta.origin_utc_ns + by_ns)

    def __getattr__(self, name):
        return getattr(self._source, name)


@pytest.mark.parametrize("ahead_ns", [50_000_000, -200_000])
def test_a_wrong_anchor_changes_nothing_that_matters(pair, ahead_ns):
    right = rank_waits(Run(warpline.open(*pair)))
    sources = [read(path) for path in pair]
    trace = aligned([sources[0], Ahead(sources[1], ahead_ns)])
    found = rank_waits(Run(trace))
    assert any("was moved by" in text for text in trace.meta.warnings)
    assert found.collectives.tolist() == right.collectives.tolist()
    # The clocks then differ as much as the ends of a collective: by microseconds.
    error = 20_000 * int(found.collectives[0])
    assert np.abs(found.wait_ns - right.wait_ns).max() <= error
    assert np.argmax(found.caused_ns) == np.argmax(right.caused_ns)


def test_waits_and_transfers_sum_to_the_kernels(pair):
    trace = warpline.open(*pair)
    found, work = collective_waits(Run(trace)), operations(trace)
    duration = work.end_ns[found.operation] - work.start_ns[found.operation]
    assert (found.wait_ns + found.transfer_ns == duration).all()
    assert (found.exposed_ns <= found.wait_ns).all()


def test_the_slow_rank_is_found_with_its_reason(tmp_path):
    paths = [captures.unpack(f"ddp_serial.bad.rank{rank}", tmp_path) for rank in (0, 1)]
    trace = warpline.open(*paths)
    found = RULES.get("straggler").judge(Run(trace))
    assert not isinstance(found, Skipped)
    (finding,) = found
    assert finding.title == "Rank 1 runs behind: the other rank waits 10.1 ms per step"
    assert finding.severity == "high"
    assert "97.3% of 745 collectives" in finding.claim
    assert "10.1 ms per step" in finding.claim
    assert "launch-bound" in finding.claim
    # Transfers take 2.0 ms of each step on both ranks.
    table = api.stats(trace, "stragglers")
    transfer = table.columns["transfer_ns"]
    assert isinstance(transfer, Numbers)
    assert (np.abs(transfer.values / 5 - 2.0e6) < 0.1e6).all()


def test_analyze_tells_waiting_from_communication(tmp_path):
    paths = [captures.unpack(f"ddp_serial.bad.rank{rank}", tmp_path) for rank in (0, 1)]
    found = warpline.analyze(warpline.open(*paths))
    assert [item.rank for item in found.breakdown] == [0, 1]
    first, second = found.overlaps
    assert first.waiting_ns is not None
    assert second.waiting_ns is not None
    assert 0.8 * first.communication_ns < first.waiting_ns <= first.communication_ns
    assert second.waiting_ns < 0.01 * second.communication_ns
    # GPU 0 has longer steps, in which it waits.
    assert "The slowest of 2 GPUs, GPU 1 " in found.verdict


@pytest.mark.skipif(not SHARED.exists(), reason="the shared recordings are not here")
@pytest.mark.parametrize("kind", ["bad", "fixed"])
@pytest.mark.parametrize(("folder", "suffix"), [("nsys", "sqlite"), ("kineto", "json.gz")])
def test_rank_1_is_late_in_all_recordings_of_the_program(kind, folder, suffix):
    paths = [SHARED / folder / f"ddp_serial.{kind}.rank{rank}.{suffix}" for rank in (0, 1)]
    trace = warpline.open(*paths)
    found = rank_waits(Run(trace))
    assert collective_matches(trace).unmatched == 0
    assert int(np.argmax(found.caused_ns)) == 1
    assert found.last[1] > 0.7 * found.collectives[1]
