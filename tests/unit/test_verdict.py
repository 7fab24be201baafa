"""The sentence that a diagnosis begins with."""

from __future__ import annotations

from dataclasses import replace

from warpline.derived.breakdown.verdict import counted_ns, verdict, what_first
from warpline.result import Breakdown, Finding, Overlap, Part, Severity

MS = 1_000_000


def lane(*parts, count=10, process=7, device=0):
    """Return the time of a device from (category, ms per step); idle ones are the last two."""
    busy = {"gemm", "copy-h2d", "collective"}
    made = tuple(
        Part(name, "busy" if name in busy else "idle", round(ms * MS * max(count, 1)), "so it is")
        for name, ms in parts
    )
    return Breakdown(process, device, "GPU", count, sum(part.ns for part in made), made)


def overlap(exposed_communication=0.0, exposed_copy=0.0, count=10):
    times = (round(ms * MS * count) for ms in (exposed_communication, exposed_copy))
    communication, copy = times
    return Overlap(7, 0, 0, 0, communication, communication, copy, copy)


def test_nothing_ran():
    assert verdict((), ()).startswith("No GPU work was recorded")


def test_idle_by_its_main_cause_and_the_next():
    item = lane(("gemm", 4), ("launch-bound", 5), ("host-sync", 1))
    assert verdict([item], [overlap()]) == (
        "The GPU was busy 40.0% of each 10.0 ms step; most of the idle time (5.00 ms of 6.00 ms)"
        " is launch-bound: so it is; next comes host-sync (1.00 ms)."
    )


def test_one_cause_alone():
    item = lane(("gemm", 4), ("input", 6))
    assert verdict([item], [overlap()]).endswith(
        "; nearly all of the idle time (6.00 ms) is data: so it is."
    )


def test_no_cause_has_most():
    causes = [("launch-bound", 2), ("input", 1.9), ("host-sync", 1.8)]
    said = verdict([lane(("gemm", 4), *causes)], [overlap()])
    assert "; the largest part of the idle time (2.00 ms of 5.70 ms) is launch-bound" in said


def test_steps_of_which_some_are_much_longer():
    item = lane(("gemm", 4), ("launch-bound", 6))
    assert "40.0% of each 10.0 ms step;" in verdict([item], [overlap()], 7 * MS)
    said = verdict([item], [overlap()], 5 * MS)
    assert "40.0% of each 10.0 ms step on average (half of them take at most 5.00 ms);" in said


def test_a_busy_device_by_what_it_does():
    item = lane(("gemm", 9.5), ("launch-bound", 0.5))
    assert verdict([item], [overlap()]) == (
        "The GPU was busy 95.0% of each 10.0 ms step, chiefly with gemm (95.0%)."
    )


def test_busy_with_nothing_computed():
    item = lane(("gemm", 4), ("collective", 3), ("copy-h2d", 3))
    assert verdict([item], [overlap(3, 2)]) == (
        "The GPU was busy 100.0% of each 10.0 ms step, 30.0% in collectives with nothing"
        " computed beside them and 20.0% in copies with no kernel beside them."
    )


def test_without_steps_from_the_first_operation_to_the_last():
    item = lane(("gemm", 99), ("launch-bound", 1), ("tail", 900), count=0)
    assert counted_ns(item) == 100 * MS
    assert verdict([item], [overlap()]) == (
        "The GPU was busy 99.0% of the 100 ms from its first operation to its last, chiefly with"
        " gemm (99.0%)."
    )


def test_of_several_the_slowest_is_told():
    fast = lane(("gemm", 9), ("input", 1))
    slow = lane(("gemm", 9), ("input", 3), process=8, device=1)
    said = verdict([fast, slow], [overlap(), overlap()])
    assert said.startswith("The slowest of 2 GPUs, device 1 (process 8), was busy 75.0%")
    shared = verdict([fast, replace(slow, device=0)], [overlap(), overlap()])
    assert shared.startswith("The slowest of 2 processes, 8 on device 0, had its GPU busy 75.0%")


def test_no_time_at_all():
    assert "no time" in verdict([lane(("gemm", 0))], [overlap()])


def finding(severity: Severity, saving_ns: int | None = None, title: str = "A fault") -> Finding:
    share = None if saving_ns is None else saving_ns / 10_000_000
    return Finding("r", severity, title, "", (), "", "", "F1", saving_ns=saving_ns, share=share)


def test_what_to_do_first_is_the_first_grave_finding() -> None:
    found = (finding("high", 4_710_000), finding("medium", 600_000))
    steps = (Breakdown(7, 0, None, 10, 100, ()),)
    said = what_first(found, steps, is_priced=True)
    assert said == "First: a fault (F1); the fix saves about 4.71 ms (47.1%) per step."
    assert what_first(found, (), is_priced=True).endswith("about 4.71 ms (47.1%).")
    graphs = finding("medium", title="CUDA graphs are made anew")
    assert what_first((graphs,), steps, is_priced=True) == "First: CUDA graphs are made anew (F1)."
    nothing = "Nothing measurable to save was found."
    assert what_first((finding("low", 10_000), finding("info")), steps, is_priced=True) == nothing
    assert what_first((), steps, is_priced=False) == ""
