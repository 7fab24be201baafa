"""The straggler of synthetic runs in which it is known, with clocks that disagree."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from support.ranks import KERNEL_NAMES, MadeRun, without_anchor

from warpline import api, plugins
from warpline.derived.collectives.matches import collective_matches
from warpline.derived.collectives.waits import collective_waits
from warpline.derived.ranks.clocks import aligned
from warpline.derived.ranks.waits import rank_waits
from warpline.derived.work.operations import operations
from warpline.derived.work.ranks import rank_of_process
from warpline.documents.report import content
from warpline.errors import CorruptTraceError
from warpline.result import RULES, Skipped
from warpline.trace import MemorySource, Run, Trace
from warpline.trace.merge import merge

plugins.load("analyses")

CLOCKS = {
    "clocks that agree": (0, 0, 0, 0),
    "200 us from rank to rank": (0, 200_000, 400_000, 600_000),
    "one clock 50 ms ahead": (0, 50_000_000, 0, 0),
    "both": (0, 50_200_000, 400_000, 600_000),
    "the first clock an hour behind": (-3_600_000_000_000, 0, 0, 0),
}


def counted_arrivals(run, trace):
    """Return the true arrival time of each rank in the analyzed collectives."""
    found = collective_waits(Run(trace))
    numbers = np.unique(found.matches.collective[found.place])
    assert len(numbers) > 0.9 * run.count
    return run.arrivals()[:, numbers]


@pytest.mark.parametrize("clock_ns", CLOCKS.values(), ids=CLOCKS)
@pytest.mark.parametrize("kernel_name", KERNEL_NAMES)
@pytest.mark.parametrize("has_calls", [False, True])
def test_the_straggler_is_found_whatever_the_clocks_say(clock_ns, kernel_name, has_calls):
    run = MadeRun(clock_ns=clock_ns, kernel_name=kernel_name, has_calls=has_calls)
    trace = aligned(run.sources())
    found = rank_waits(Run(trace))
    assert rank_of_process(trace)[found.process].tolist() == [0, 1, 2, 3]
    assert int(np.argmax(found.caused_ns)) == run.straggler
    arrival = counted_arrivals(run, trace)
    assert found.collectives.tolist() == [arrival.shape[1]] * 4
    true_last = np.bincount(arrival.argmax(axis=0), minlength=4)
    assert abs(int(found.last[run.straggler]) - int(true_last[run.straggler])) <= 0.02 * run.count
    true_wait = (arrival.max(axis=0) - arrival).sum(axis=1)
    # Each wait is off by no more than the remaining clock error.
    assert np.abs(found.wait_ns - true_wait).max() <= 25_000 * run.count
    assert found.wait_ns[run.straggler] == found.wait_ns.min()
    true_behind = np.median(arrival - arrival.min(axis=0), axis=1)
    assert np.abs(found.median_behind_ns - true_behind).max() <= 25_000


@pytest.mark.parametrize("clock_ns", CLOCKS.values(), ids=CLOCKS)
def test_waits_and_transfers_are_all_of_the_kernels_time(clock_ns):
    trace = aligned(MadeRun(clock_ns=clock_ns).sources())
    found, work = collective_waits(Run(trace)), operations(trace)
    assert (found.wait_ns >= 0).all()
    assert (found.transfer_ns >= 0).all()
    duration = work.end_ns[found.operation] - work.start_ns[found.operation]
    assert (found.wait_ns + found.transfer_ns == duration).all()
    ranks = rank_waits(Run(trace))
    assert ranks.caused_ns.sum() == ranks.wait_ns.sum() == found.wait_ns.sum()
    table = api.stats(trace, "collective_waits")
    assert sum(table.columns["wait_ns"].to_list()) == found.wait_ns.sum()
    assert sum(table.columns["kernel_ns"].to_list()) == duration.sum()


def test_a_moved_clock_is_told_and_times_are_moved():
    run = MadeRun(clock_ns=(0, -50_012_000, 0, 0))
    trace = aligned(run.sources())
    said = [text for text in trace.meta.warnings if "clock" in text]
    assert len(said) == 1
    assert said[0].startswith("the clock of trace_rank1.json was moved by +50.01")
    assert "to align the ends of 2,020 collectives" in said[0]
    end = operations(trace).end_ns
    matches = collective_matches(trace)
    ends = end[matches.operation].reshape(-1, 4)
    assert np.abs(ends - ends[:, :1]).max() <= 2 * run.end_jitter_ns
    assert (matches.lead_ns == 0).all()


def test_clocks_that_agree_stay_as_their_anchors_say():
    run = MadeRun(clock_ns=(0, 3_000, -2_000, 10_000))
    trace = aligned(run.sources())
    assert trace.meta.warnings == ()
    expected = Trace(merge(run.sources())).table("kernel")["start_ns"]
    assert trace.table("kernel")["start_ns"].tolist() == expected.tolist()


def test_without_anchors_collectives_alone_align():
    run = MadeRun(clock_ns=(0, 7_000_000_000, 0, 0))
    trace = aligned([without_anchor(source) for source in run.sources()])
    assert not [text for text in trace.meta.warnings if "not aligned" in text]
    assert int(np.argmax(rank_waits(Run(trace)).caused_ns)) == run.straggler


def test_a_clock_that_drifts_is_followed():
    run = MadeRun(drift_ratio=3e-4)  # 400 us over the run
    trace = aligned(run.sources())
    found = rank_waits(Run(trace))
    assert int(np.argmax(found.caused_ns)) == run.straggler
    arrival = counted_arrivals(run, trace)
    true_wait = (arrival.max(axis=0) - arrival).sum(axis=1)
    assert np.abs(found.wait_ns - true_wait).max() <= 25_000 * run.count
    assert any("drifts" in text for text in trace.meta.warnings)


@pytest.mark.parametrize("has_calls", [False, True])
@pytest.mark.parametrize(("first", "last"), [(7, None), (0, -5), (3, -4)])
def test_recordings_that_begin_and_end_apart_are_paired(first, last, has_calls):
    run = MadeRun(clock_ns=(0, 50_000_000, 0, 0), has_calls=has_calls)
    sources = [run.source(rank) for rank in (0, 1, 3)]
    sources.insert(2, run.source(2, first, last))
    trace = aligned(sources)
    count = len(range(run.count)[first:last])
    assert collective_matches(trace).count == count
    assert collective_matches(trace).unmatched == 3 * (run.count - count)
    assert int(np.argmax(rank_waits(Run(trace)).caused_ns)) == run.straggler


def test_collectives_of_another_run_are_not_paired():
    sources = [MadeRun(seed=1).source(0), MadeRun(seed=5).source(1)]
    trace = aligned(sources)
    assert collective_matches(trace).count == 0
    outcome = api.run(trace, "stragglers")
    assert isinstance(outcome, Skipped)
    assert "could be matched" in outcome.reason


def test_ranks_that_share_no_communicator_are_kept_apart():
    one, other = MadeRun(seed=1), MadeRun(seed=5, straggler=3)
    trace = aligned([one.source(0), one.source(2), other.source(1), other.source(3)])
    matches = collective_matches(trace)
    assert matches.count == 2 * one.count
    pairs = {tuple(pair) for pair in matches.rank.reshape(-1, 2).tolist()}
    assert pairs == {(0, 1), (2, 3)}
    found = rank_waits(Run(trace))
    assert found.last.argmax() in (1, 3)
    assert found.last[[0, 2]].max() < 0.2 * one.count


def findings(trace):
    found = RULES.get("straggler").judge(Run(trace))
    assert not isinstance(found, Skipped)
    return found


@pytest.mark.parametrize("clock_ns", CLOCKS.values(), ids=CLOCKS)
def test_the_finding_names_the_straggler_and_what_it_waited_for(clock_ns):
    (found,) = findings(aligned(MadeRun(clock_ns=clock_ns, has_calls=True).sources()))
    assert found.title.startswith("Rank 2 runs behind: the other ranks wait ")
    assert "Each of the 3 other ranks waits" in found.claim
    # It launches each collective later than the others, at the same pace.
    assert found.claim.startswith("Its CPU works about as long per step as that of the other ranks")
    (seen,) = found.evidence
    assert seen.table == "kernel"
    assert all(end - start >= 100_000 for start, end in seen.windows_ns)


def test_no_reason_is_named_where_the_recording_tells_none():
    (found,) = findings(aligned(MadeRun().sources()))
    assert re.match(r"Each of the 3 other ranks waits \S+ ms per step", found.claim)
    assert found.fix == "Compare its work before collectives across ranks."


def test_ranks_that_are_late_in_turn_are_told_so():
    (found,) = findings(aligned(MadeRun(late_ns=0, jitter_ns=300_000).sources()))
    assert re.match(r"Ranks wait for each other \S+ ms per step, no single straggler$", found.title)


def test_ranks_in_step_give_no_finding():
    trace = aligned(MadeRun(late_ns=0, jitter_ns=4_000).sources())
    assert collective_matches(trace).count == 2_020
    assert findings(trace) == []


def test_reports_compare_the_ranks():
    _, tables = content(Run(aligned(MadeRun(straggler=3).sources())))
    names = [table.result.name for table in tables]
    place = names.index("stragglers")
    assert names[place + 1] == "rank_differences"
    _, tables = content(Run(Trace(MadeRun().source(0))))
    (missing,) = [one.result for one in tables if one.result.name == "rank_differences"]
    assert isinstance(missing, Skipped)
    assert missing.reason == "the trace has a single rank"


def test_one_rank_has_nobody_to_wait_for():
    outcome = api.run(Trace(MadeRun().source(0)), "stragglers")
    assert isinstance(outcome, Skipped)
    assert outcome.reason == "the trace contains one rank"
    assert findings(Trace(MadeRun().source(0))) == []


def test_several_ranks_of_one_file_have_one_clock():
    run = MadeRun(clock_ns=(0, 0, 0, 0))
    parts = [run.source(rank) for rank in range(4)]
    whole = Trace(merge(parts))
    kernel = {
        name: whole.table("kernel")[name].tolist()
        for name in ("start_ns", "end_ns", "process_id", "device_id", "stream_id")
    }
    kernel["name"] = [run.kernel_name] * len(kernel["start_ns"])
    tables = {
        "process": {"pid": [1, 2, 3, 4]},
        "device": {"gpu_index": [0, 1, 2, 3]},
        "kernel": kernel,
    }
    trace = Trace(MemorySource(tables))
    assert (collective_matches(trace).error_ns == 0).all()
    found = rank_waits(Run(trace))
    arrival = counted_arrivals(run, trace)
    assert found.wait_ns.tolist() == (arrival.max(axis=0) - arrival).sum(axis=1).tolist()
    assert found.last.tolist() == _strictly_last(arrival)


def _strictly_last(arrival):
    ordered = np.sort(arrival, axis=0)
    last = arrival.argmax(axis=0)[ordered[-1] > ordered[-2]]
    return np.bincount(last, minlength=len(arrival)).tolist()


def test_broadcasts_are_left_out():
    name = "ncclDevKernel_Broadcast_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
    trace = aligned(MadeRun(kernel_name=name).sources())
    outcome = api.run(trace, "stragglers")
    assert isinstance(outcome, Skipped)
    assert outcome.reason == "the trace contains no collectives of several ranks"


def test_ranks_are_told_by_recording_environment_communicator_and_file_name():
    run = MadeRun(ranks=4, steps=1)
    sources = run.sources()
    assert rank_of_process(Trace(merge(sources))).tolist() == [0, 1, 2, 3]
    for rank, source in enumerate(sources):
        source.meta = replace(source.meta, environment={"RANK": str(7 - rank)})
    assert rank_of_process(Trace(merge(sources))).tolist() == [7, 6, 5, 4]
    called = replace(run, has_calls=True)
    backwards = [called.source(3), called.source(0)]
    for source in backwards:
        source.meta = replace(source.meta, paths=(source.meta.paths[0].with_name("trace.json"),))
    assert rank_of_process(Trace(merge(backwards))).tolist() == [3, 0]


def test_numbers_that_do_not_tell_processes_apart_are_no_ranks():
    sources = MadeRun(ranks=2, steps=1, straggler=1).sources()
    for source in sources:
        source.meta = replace(source.meta, environment={"RANK": "0"})
    # The environment of one shell, not of the ranks.
    assert rank_of_process(Trace(merge(sources))).tolist() == [0, 1]


class Damaged:
    """A source with one unreadable table."""

    def __init__(self, source, table):
        self._source, self._table = source, table

    def __getattr__(self, name):
        return getattr(self._source, name)

    def load(self, table, columns):
        if table == self._table:
            raise CorruptTraceError(f"{table} is damaged")
        return self._source.load(table, columns)


def test_clocks_that_damage_keeps_from_being_compared_are_told():
    sources = MadeRun(clock_ns=(0, 50_000_000, 0, 0), has_calls=True).sources()
    assert any("was moved" in text for text in aligned(sources).meta.warnings)
    first, second, *others = sources
    assert aligned([first, Damaged(second, "kernel"), *others]).meta.warnings == (
        "file clocks not aligned by collectives: kernel is damaged",
    )
