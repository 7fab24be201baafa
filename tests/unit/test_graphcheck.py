"""Steps that can and cannot be captured as CUDA graphs: each planted offender with its line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from support.graph_programs import CLEAN, PLANTED, Coded, Step, plain
from support.programs import ALL_REDUCE, Program

from warpline import api
from warpline.derived.graph_safety.places import code_place
from warpline.derived.graph_safety.sequences import (
    first_difference,
    occurrences,
    occurs_in_other_order,
)
from warpline.ops.arrays import I32
from warpline.presentation.graphcheck import graph_text
from warpline.result.graphcheck import GraphCheck
from warpline.trace import MemorySource, Trace


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


def test_the_saving_is_of_the_graph_and_the_fixes() -> None:
    found = check(PLANTED["item"][0]).saving
    assert found is not None
    assert found.fixed_ns is not None
    assert found.captured_ns.central < found.fixed_ns.central < found.step_ns.central
    clean = check(CLEAN["plain"]).saving
    assert clean is not None
    assert clean.fixed_ns is None


def test_too_few_steps_decide_nothing_without_an_offender() -> None:
    found = check(CLEAN["plain"], steps=3)  # the first one is warm-up
    assert (found.verdict, found.status) == ("undecided", 4)
    assert "three steps are needed" in found.sentence
    assert check(PLANTED["item"][0], steps=3).verdict == "no"


def test_recordings_without_calls_or_steps() -> None:
    program = Program()
    program.launch(0, 5, (6, 9), name="a")
    found = api.graphcheck(program.trace())
    assert found.sentence.startswith("Cannot decide: the recording has no steps.")
    assert api.graphcheck(Trace(MemorySource({}))).sentence == (
        "Cannot decide: the recording has no CUDA API calls."
    )


def test_a_package_function_is_named_with_the_line_that_calls_it() -> None:
    (offender,) = check(PLANTED["synchronize"][0]).offenders
    assert (offender.place, offender.via) == ("train.py:43 step", "synchronize")
    assert offender.functions == ("cudaDeviceSynchronize",)
    assert offender.stack.split("\n")[0].endswith("/torch/nn/utils.py:5 synchronize")
    assert (offender.per_step, offender.steps, offender.of_steps) == (1.0, 11, 11)


@pytest.mark.parametrize(
    ("stack", "text", "via"),
    [
        ("/a/train.py:3 step\n/a/train.py:9 <module>", "train.py:3 step", ""),
        (
            "/v/lib/python3.12/site-packages/torch/x.py:1 T.item\n/a/b.py:2 M.run",
            "b.py:2 run",
            "item",
        ),
        (
            "/site-packages/c.py:1 clip\n/site-packages/c.py:9 _no_grad_wrapper\n/a/b.py:2 f",
            "b.py:2 f",
            "clip",
        ),
        ("/usr/lib/python3.11/threading.py:5 run", "threading.py:5 run", ""),
        ("/s/warpline/injected/observer.py:5 call\n/a/b.py:2 f", "b.py:2 f", "call"),
        ("<string> f\n/a/b.py:2 g", "b.py:2 g", "f"),
    ],
)
def test_places(stack: str, text: str, via: str) -> None:
    place = code_place(stack)
    assert (place.text, place.via) == (text, via)


def test_conditions_of_clean_steps() -> None:
    kinds = {item.kind for item in check(CLEAN["static inputs"]).conditions}
    assert kinds == {"inputs"}
    assert {item.kind for item in check(CLEAN["dropout"]).conditions} == {"random-numbers"}


def test_an_optimizer_that_needs_to_be_capturable_is_a_condition() -> None:
    machine = Coded().run(plain)
    machine.program.mark("Optimizer.step#AdamW.step", 0, 10, domain="torch")
    for row in machine.program.rows["range"]:
        row.setdefault("domain", None)
    (condition,) = api.graphcheck(machine.recorded(), steps="step_*").conditions
    assert condition.kind == "optimizer"
    assert "AdamW with capturable=True" in condition.text


def test_calls_of_threads_that_launch_nothing_are_a_condition() -> None:
    machine = Coded()
    for number in range(8):
        plain(machine, number)
        with machine.at(5):
            at = machine.now - 500
            machine.program.call("cudaEventQuery_v3020", at, at + 10, thread=1)
        machine.end_step()
    found = api.graphcheck(machine.recorded())
    assert found.verdict == "yes"
    (condition,) = found.conditions
    assert condition.kind == "other-threads"
    assert "cudaEventQuery" in condition.text


def test_collectives_and_dropped_events() -> None:
    def step(machine: Coded, number: int) -> None:
        plain(machine, number)
        machine.launch(9_000, ALL_REDUCE)

    assert [item.kind for item in check(step).conditions] == ["collectives"]
    trace = Coded().run(plain).trace(meta={"lost": {"kernel": 3}})
    assert api.graphcheck(trace).sentence.endswith("events were dropped while recording.")


def test_a_capture_that_failed_names_the_call_that_was_refused() -> None:
    machine = Coded().run(plain)
    with machine.at(63, "item"):
        machine.call("cudaStreamSynchronize_v3020", 1_000)
        machine.call("cudaLaunchKernel_v7000", 1_000)
    for row in machine.program.rows["api_call"]:
        row["return_value"] = 0
    machine.program.rows["api_call"][-2]["return_value"] = 900
    machine.program.rows["api_call"][-1]["return_value"] = 901
    found = api.graphcheck(machine.recorded())
    assert (found.verdict, found.offenders) == ("no", ())
    assert found.sentence == (
        "No: a capture failed. cudaStreamSynchronize at train.py:63 step returned"
        " cudaErrorStreamCaptureUnsupported."
    )
    assert [item.count for item in found.refused] == [1]


def test_the_model_alone_when_offenders_are_outside_of_modules() -> None:
    machine = Coded()
    for number in range(8):
        with machine.at(10):
            begin = machine.now
            plain(machine, number)
            machine.program.mark("GPT", begin, machine.now, domain="nn.Module")
            with machine.at(41):
                machine.read()
        machine.end_step()
    found = api.graphcheck(machine.recorded())
    assert found.how[0].startswith("No offender is inside a module")


def graph_of(*names: str, again: int = 3) -> GraphCheck:
    """Check a program that launches four kernels in warm-up steps, then a graph."""
    machine = Coded()
    for _ in range(3):
        for name in ("embed", "gemm", "gelu", "gemm", "loss"):
            machine.launch(2_000, name)
    program, at = machine.program, machine.now
    for _ in range(again):
        at += 100_000
        times = [(at + 5_000 * place, at + 5_000 * place + 4_000) for place in range(len(names))]
        number = program.launch_graph(at - 10_000, at - 5_000, *times)
        own = [row for row in program.rows["kernel"] if row["correlation_id"] == number]
        for place, (row, name) in enumerate(zip(own, names, strict=True)):
            row |= {"name": name, "short_name": name, "graph_node_id": 100 + place}
    for row in program.rows["kernel"]:
        row.setdefault("graph_node_id", None)
        for axis in "xyz":
            row.setdefault(f"grid_{axis}", 0)
            row.setdefault(f"block_{axis}", 0)
    return api.graphcheck(program.trace())


def test_a_graph_of_the_kernels_of_eager_steps() -> None:
    (graph,) = graph_of("embed", "gemm", "gelu", "gemm", "loss").graphs
    assert (graph.launches, graph.kernels, graph.eager_runs) == (3, 5, 3)
    assert graph_text(graph) == (
        "Graph of 5 kernels, 3 launches: the same kernels in the same order as 3 eager runs."
    )
    (part,) = graph_of("gemm", "gelu", "gemm").graphs
    assert part.eager_runs == 3


def test_graphs_that_are_not_what_the_steps_were() -> None:
    (graph,) = graph_of("embed", "gemm", "gelu", "relu", "loss").graphs
    assert (graph.eager_runs, graph.first_difference) == (0, 3)
    assert graph_text(graph).endswith(
        "differs from the eager run at node 3: relu in place of gemm."
    )
    (graph,) = graph_of("gemm", "embed", "gelu", "gemm", "loss").graphs
    assert graph.is_reordered
    (graph,) = graph_of("other", "kernels").graphs
    assert graph_text(graph).endswith("no similar eager launches were recorded to compare with.")


def test_it_prints_and_shows_in_notebooks() -> None:
    found = check(PLANTED["item"][0])
    assert repr(found).startswith("<GraphCheck of memory: No: the step cannot be captured")
    assert "CPU read of a GPU value" in str(found)
    assert "train.py:41 step -&gt; item" in str(found._repr_html_())


def test_searching_for_sequences() -> None:
    def numbers(*values: int) -> I32:
        return np.array(values, np.int32)

    assert occurrences(numbers(1, 2), numbers(1, 2, 1, 2, 3, 1)) == 2
    assert occurrences(numbers(1), numbers(256, 1)) == 1  # whole numbers, not their bytes
    assert occurrences(numbers(1, 1), numbers(1, 1, 1)) == 1
    assert occurs_in_other_order(numbers(3, 1, 2), numbers(9, 1, 2, 3))
    assert not occurs_in_other_order(numbers(3, 3, 1), numbers(3, 1, 1, 3))
    assert first_difference(numbers(1, 2, 3, 4), numbers(1, 2, 9, 1, 2, 3, 5)) == (3, 5)
    assert first_difference(numbers(1, 2, 3), numbers(7, 1, 2, 3)) == (3, -1)
    assert first_difference(numbers(1, 2, 3, 4), numbers(1, 2, 5)) == (-1, -1)


REAL = {
    "host_sync.bad": "cpu-read",
    "rich_metrics_sampling": "cpu-read",
    "pageable_h2d.fixed": "unjoined-stream",  # it prefetches for the next step
}


@pytest.mark.parametrize("name", REAL)
def test_recorded_programs(name: str, capture: Callable[[str], Path]) -> None:
    found = api.graphcheck(capture(name))
    assert [item.kind for item in found.offenders] == [REAL[name]]


def test_a_step_that_is_a_graph(capture: Callable[[str], Path]) -> None:
    found = api.graphcheck(capture("tiny_kernels.fixed"))
    assert found.sentence == "Yes: the step already runs as a CUDA graph."
    assert (found.verdict, found.saving, found.how) == ("yes", None, ())
    assert [graph.kernels for graph in found.graphs] == [640]
