"""Layers of one pass and steps, told apart in small programs; ranges that might be steps."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from support.machine import Machine

from warpline.derived.steps.candidates import step_candidates
from warpline.derived.steps.passes import one_pass
from warpline.derived.steps.times import Steps, measure_windows, steps
from warpline.errors import UsageError
from warpline.result import StepCandidate
from warpline.trace import Run, Trace

MS = 1_000_000
LAYERS = 12
LAYER = ("norm", "gemm", "softmax", "gemm", "add", "gelu", "gemm", "add", "scale")
EMBEDDING = ("gather", "arange", "cos", "sin", "cat")


def layers(machine: Machine, count: int = LAYERS) -> list[tuple[int, int]]:
    """Launch layers, and return when each began and ended on the CPU."""
    times = []
    for _ in range(count):
        begun = machine.now
        for name in LAYER:
            machine.launch(10_000, name)
        times.append((begun, machine.now))
    return times


def embed(machine: Machine, names: Sequence[str] = EMBEDDING) -> None:
    for name in names:
        machine.launch(5_000, name)


Named = tuple[str, str | None, tuple[int, int]]


def traced(machine: Machine, ranges: Sequence[Named] = ()) -> Trace:
    """Return the recording with ranges: name, domain, and times."""
    machine.program.rows.pop("range", None)
    rows = [
        {
            "name": name,
            "domain": domain,
            "start_ns": start,
            "end_ns": end,
            "thread_id": 0,
            "process_id": 0,
            "style": 0,
            "is_truncated": False,
            "source_id": number,
        }
        for number, (name, domain, (start, end)) in enumerate(ranges)
    ]
    if rows:
        machine.program.rows["range"] = rows
    return machine.trace()


def found(trace: Trace) -> tuple[Steps, str]:
    return steps(Run(trace)), one_pass(trace) or ""


def test_layers_after_an_embedding_are_one_pass():
    machine = Machine()
    embed(machine)
    layers(machine)
    run_steps, why = found(traced(machine))
    assert (run_steps.source, len(run_steps)) == ("none", 0)
    assert run_steps.notes == (why,)
    # A launch takes 6 us on the CPU.
    assert why == (
        "launches repeat 12 times (54.0 us each) after work that occurs once: probably parts of"
        " one pass, not steps"
    )
    windows = measure_windows(Run(traced(machine)))
    assert len(windows.device) == 1  # the whole recording


@pytest.mark.parametrize("sign", ["copy", "wait", "read", "nothing before", "a step before"])
def test_repetitions_without_the_signs_of_layers_are_steps(sign: str):
    machine = Machine()
    if sign == "a step before":  # with what only the first step does
        embed(machine, ("tune_a", "tune_b", "tune_c", *LAYER[:5]))
    elif sign != "nothing before":
        embed(machine)
    for _ in range(LAYERS):
        layers(machine, 1)
        if sign == "copy":
            machine.copy(1_000, pinned=True)
        if sign == "wait":
            machine.wait()
        if sign == "read":
            machine.read()
    run_steps, why = found(traced(machine))
    assert (run_steps.source, len(run_steps), why) == ("periodicity", LAYERS, "")


@pytest.mark.parametrize(("other_us", "is_step"), [(1_000, False), (100, True)])
def test_one_operation_that_repeats_in_less_than_half_of_gpu_time_is_no_step(
    other_us: int, is_step: bool
):
    machine = Machine()
    machine.launch(other_us * 1_000, "load")
    for _ in range(12):
        machine.launch(10_000, "small")
    run_steps, why = found(traced(machine))
    if is_step:  # 120 of 220 us
        assert (run_steps.source, why) == ("periodicity", "")
    else:
        assert (run_steps.source, run_steps.notes) == ("none", (why,))
        assert why == (
            "launches repeat 12 times, but take only 10.7% of GPU time: probably not steps"
        )


def test_the_last_repetition_counts_as_much_as_the_others():
    machine = Machine()
    for _ in range(12):
        machine.launch(1 * MS, "gemm")
    machine.launch(30 * MS, "save")  # a single launch counts as the last repetition
    run_steps, why = found(traced(machine))
    assert run_steps.source == "none"
    assert "repeat 13 times, but take only 31.0% of GPU time" in why  # 13 of 42 ms


def test_two_repetitions_need_most_of_the_gpu_time():
    machine = Machine()
    machine.launch(1 * MS, "load")
    layers(machine, 2)  # 90 us each
    run_steps, why = found(traced(machine))
    assert run_steps.source == "none"
    assert why == "launches repeat twice, but take only 15.3% of GPU time: probably not steps"
    # More repetitions of several launches are evidence enough.
    machine = Machine()
    machine.launch(10 * MS, "load")
    layers(machine, 3)
    assert found(traced(machine))[0].source == "periodicity"


def test_long_repetitions_are_steps():
    machine = Machine()
    embed(machine)
    for _ in range(LAYERS):
        layers(machine, 1)
        machine.work(6 * MS)
    assert found(traced(machine))[0].source == "periodicity"


def test_repetitions_within_one_module_call_are_layers():
    machine = Machine()
    begun = machine.now
    machine.launch(5_000, "gather")
    of_layers = layers(machine)
    module = "nn.Module"
    modules: list[Named] = [("Model_0", module, (begun, machine.now))]
    modules += [(f"Layer_{place}", module, times) for place, times in enumerate(of_layers)]
    run_steps, why = found(traced(machine, modules))
    assert run_steps.source == "none"
    assert "within one module call: parts of one pass" in why
    # A range of another domain says nothing: it may be the training loop.
    loop: list[Named] = [(name, None, times) for name, _, times in modules]
    assert found(traced(machine, loop[:1]))[0].source == "periodicity"


def test_repetitions_with_a_module_call_each_are_steps():
    machine = Machine()
    embed(machine)
    calls: list[Named] = [("Model_0", "nn.Module", times) for times in layers(machine)]
    outer: Named = ("ProfilerStep#3", None, (0, machine.now))
    trace = traced(machine, [*calls, outer])
    run_steps, why = found(trace)
    assert (run_steps.source, len(run_steps), why) == ("periodicity", LAYERS, "")
    held = LAYERS * len(LAYER) / (LAYERS * len(LAYER) + len(EMBEDDING))
    assert step_candidates(trace) == (StepCandidate("Model_0", LAYERS, held),)


def test_one_range_named_like_a_step_is_the_step():
    machine = Machine()
    machine.launch(5_000, "gather")
    machine.launch(5_000, "scatter")
    layers(machine)
    step: Named = ("ProfilerStep#6", None, (0, machine.now))
    run_steps, why = found(traced(machine, [step]))
    assert run_steps.source == "none"
    assert "12 times (54.0 us each) within the only ProfilerStep#6: parts of a step" in why
    # Not if the repetitions are all that it does: a loop within it.
    machine = Machine()
    layers(machine)
    step = ("ProfilerStep#6", None, (0, machine.now))
    assert found(traced(machine, [step]))[0].source == "periodicity"


def test_steps_named_by_ranges_are_never_one_pass():
    machine = Machine()
    embed(machine)
    ranges: list[Named] = [
        (f"step_{place}", None, times) for place, times in enumerate(layers(machine))
    ]
    assert steps(Run(traced(machine, ranges))).source == "range:step_*"


def test_repeating_launches_on_request():
    machine = Machine()
    embed(machine)
    times = layers(machine)
    ranges: list[Named] = [(f"step_{place}", None, each) for place, each in enumerate(times)]
    for trace in (traced(machine), traced(machine, ranges)):
        run_steps = steps(Run(trace, "launches"))
        assert (run_steps.source, len(run_steps)) == ("periodicity", LAYERS)
    # Ranges of that name come first.
    named: list[Named] = [("launches", None, each) for each in times[:3]]
    assert steps(Run(traced(machine, named), "launches")).source == "range:launches"
    once = Machine()
    embed(once)
    with pytest.raises(UsageError, match="launches do not repeat"):
        steps(Run(traced(once), "launches"))


def test_candidates_are_ranges_that_hold_most_of_the_work_and_repeat():
    machine = Machine()
    ranges: list[Named] = []
    for place in range(6):
        begun = machine.now
        (first,) = layers(machine, 1)
        (second,) = layers(machine, 1)
        ranges += [("inner", None, first), ("inner", None, second)]
        machine.launch(10_000, "update")
        ranges += [
            (f"round[{place}]", None, (begun, machine.now)),
            (f"around {place}", None, (begun, machine.now)),
            ("optimizer", None, (begun, machine.now)),
            ("empty", None, (begun, begun + 1)),
        ]
    trace = traced(machine, ranges)
    every, each = 6 * (2 * len(LAYER) + 1), 12 * len(LAYER)
    outer, inner = step_candidates(trace)
    # Brackets act in a pattern, so the choice is the name without its number.
    assert outer in (StepCandidate("round", 6, 1.0), StepCandidate("around *", 6, 1.0))
    assert inner == StepCandidate("inner", 12, each / every)
    for name in ("round", "around *", "inner"):
        assert len(steps(Run(trace, name))) in (6, 12)


def test_no_candidates_without_ranges_or_work():
    machine = Machine()
    layers(machine)
    assert step_candidates(traced(machine)) == ()
    idle = Machine()
    idle.program.call("cudaFree_v3020", 0, 10)
    ranges: list[Named] = [("a", None, (0, 5)), ("a", None, (5, 9))]
    assert step_candidates(traced(idle, ranges)) == ()
