"""GPU work by module and phase: recordings small enough to count by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

import warpline
from warpline import api
from warpline.comparison.tables import compare_tables
from warpline.derived.modules.attribution import attribution, coverage_of_modules
from warpline.derived.modules.places import Phase
from warpline.derived.modules.tree import merged, modules
from warpline.derived.steps.times import steps as run_steps
from warpline.derived.work.operations import operations
from warpline.errors import MissingTableError
from warpline.result import Result, Skipped
from warpline.schema.labels import COMPILED_KERNEL_KINDS
from warpline.schema.ranges import COMPILED_DOMAIN, MODULE_DOMAIN
from warpline.trace import MemorySource, Run, Trace

MAIN, WORKER = 0, 1
KINDS = {label: number for number, label in COMPILED_KERNEL_KINDS.items()}

# Start, end, thread, domain, name, first and last sequence number.
Range = tuple[int, int, int, str | None, str, int | None, int | None]


def module(start: int, end: int, name: str, numbers: tuple[int, int], thread: int = MAIN) -> Range:
    return start, end, thread, MODULE_DOMAIN, name, *numbers


def node(start: int, end: int, name: str, number: int) -> Range:
    text = f"{name}, seq = {number}, op_id = {start}"
    return start, end, WORKER, None, text, None, None


def plain(start: int, end: int, name: str) -> Range:
    return start, end, MAIN, None, name, None, None


def trace_of(ranges: Sequence[Range], launches: Sequence[tuple[Any, ...]], **more: Any) -> Trace:
    """Return a trace of one process.

    Args:
        ranges: See `Range`.
        launches: Time, thread, and name of a kernel, which runs 10 ns, 1000 ns later.
        more: Further tables.
    """
    payloads = [
        (row, key, value)
        for row, each in enumerate(ranges)
        for key, value in (("sequence", each[5]), ("end_sequence", each[6]))
        if value is not None
    ]
    numbers = range(len(launches))
    return Trace(
        MemorySource(
            {
                "process": {"pid": [7]},
                "thread": {"process_id": [0, 0], "tid": [70, 71]},
                "range": {
                    "start_ns": [each[0] for each in ranges],
                    "end_ns": [each[1] for each in ranges],
                    "thread_id": [each[2] for each in ranges],
                    "domain": [each[3] for each in ranges],
                    "name": [each[4] for each in ranges],
                    "source_id": range(1, len(ranges) + 1),
                },
                "range_payload": {
                    "range_id": [each[0] for each in payloads],
                    "key": [each[1] for each in payloads],
                    "int_value": [each[2] for each in payloads],
                },
                "api_call": {
                    "start_ns": [one[0] for one in launches],
                    "end_ns": [one[0] + 1 for one in launches],
                    "thread_id": [one[1] for one in launches],
                    "correlation_id": numbers,
                },
                "kernel": {
                    "start_ns": [one[0] + 1000 for one in launches],
                    "end_ns": [one[0] + 1010 for one in launches],
                    "correlation_id": numbers,
                    "name": [one[2] for one in launches],
                    "short_name": [one[2] for one in launches],
                },
                **more,
            }
        )
    )


def found(trace: Trace) -> list[tuple[str | None, str]]:
    """Return module and phase of the kernels, by their start."""
    names = (*modules(trace).names, None)
    own = attribution(trace)
    assert len(operations(trace)) == len(own.module)
    return [
        (names[place], Phase.at(phase).label)
        for place, phase in zip(own.module.tolist(), own.phase.tolist(), strict=True)
    ]


TRAINING = (
    module(0, 100, "GPT", (5, 9)),
    module(10, 40, "GPT.blocks.0", (5, 7)),
    module(50, 90, "GPT.blocks.1", (7, 8)),
    node(200, 210, "LossBackward0", 9),
    node(220, 230, "HeadBackward0", 8),
    node(240, 250, "AddmmBackward0", 7),
    node(260, 270, "MulBackward0", 5),
    plain(300, 350, "Optimizer.step#AdamW.step"),
    plain(360, 370, "Optimizer.zero_grad#AdamW.zero_grad"),
)


def test_forward_backward_and_optimizer():
    launches = [
        (5, MAIN, "embedding"),
        (20, MAIN, "gemm"),
        (60, MAIN, "gemm"),
        (110, MAIN, "loss"),
        (205, WORKER, "loss_backward"),
        (225, WORKER, "head_backward"),
        (245, WORKER, "gemm_backward"),
        (255, WORKER, "accumulate"),
        (265, WORKER, "mul_backward"),
        (310, MAIN, "adam"),
        (365, MAIN, "zero"),
    ]
    trace = trace_of(TRAINING, launches)
    assert found(trace) == [
        ("GPT", "forward"),
        ("GPT.blocks.0", "forward"),
        ("GPT.blocks.1", "forward"),
        (None, "other"),
        (None, "backward"),  # made after the model's call
        ("GPT", "backward"),
        ("GPT.blocks.1", "backward"),
        ("GPT.blocks.1", "backward"),  # after the function whose gradient it adds
        ("GPT.blocks.0", "backward"),
        (None, "optimizer"),
        (None, "optimizer"),
    ]
    assert coverage_of_modules(trace) == (110, 70, 20)


def test_tables_add_up():
    launches = [(20, MAIN, "gemm"), (60, MAIN, "gemm"), (245, WORKER, "gemm"), (310, MAIN, "adam")]
    declared = {
        "process_id": [0, 0],
        "name": ["GPT", "GPT.blocks.1"],
        "class_name": ["GPT", "Block"],
        "parameters": [3, 4],
    }
    trace = trace_of(TRAINING, launches, module=declared)
    tree = warpline.stats(trace, "modules")
    assert isinstance(tree, Result)
    names = ("name", "device_ns", "forward_ns", "backward_ns", "host_ns", "kernels", "parameters")
    rows = list(zip(*(tree.columns[name].to_list() for name in names), strict=True))
    assert rows == [
        ("GPT", 30, 20, 10, 100, 3, 7),
        ("  blocks.0", 10, 10, 0, 30, 1, None),
        ("  blocks.1", 20, 10, 10, 40, 2, 4),
        ("(optimizers)", 10, 0, 0, 0, 1, None),
    ]
    assert sum(warpline.stats(trace, "module_sum").columns["device_ns"].to_list()) == 40
    phases = warpline.stats(trace, "step_phases")
    spent = zip(*(phases.columns[key].to_list() for key in ("phase", "busy_ns")), strict=True)
    assert list(spent) == [("forward", 20), ("backward", 10), ("optimizer", 10)]
    assert sum(phases.columns["total_ns"].to_list()) == 300  # from the first to the last kernel
    assert len(warpline.stats(trace, "modules:depth=0").rows()) == 2
    assert warpline.stats(trace, "modules:merged").columns["name"].to_list() == [
        "GPT",
        "  blocks.*",
        "(optimizers)",
    ]


def test_a_checkpoint_repeats_forward_work_in_the_backward_pass():
    ranges = (
        module(0, 100, "GPT", (1, 10)),
        module(10, 40, "GPT.block", (1, 2)),
        node(200, 300, "CheckpointFunctionBackward", 1),
        module(210, 240, "GPT.block", (1, 3), WORKER),
        node(250, 260, "MulBackward0", 2),  # counted by the thread that repeated the block
        node(310, 320, "AddBackward0", 8),
    )
    launches = [(220, WORKER, "again"), (255, WORKER, "inner"), (315, WORKER, "outer")]
    assert found(trace_of(ranges, launches)) == [
        ("GPT.block", "backward"),
        ("GPT.block", "backward"),
        ("GPT", "backward"),
    ]


def test_numbers_of_an_earlier_step_are_not_taken():
    ranges = (
        module(0, 10, "A.x", (0, 5)),
        node(20, 30, "MulBackward0", 3),
        module(40, 50, "A.y", (5, 9)),
        node(60, 70, "MulBackward0", 6),
    )
    launches = [(25, WORKER, "k"), (65, WORKER, "k")]
    assert found(trace_of(ranges, launches)) == [("A.x", "backward"), ("A.y", "backward")]


def test_collectives_of_hooks_belong_to_the_wrapper():
    ranges = (
        module(0, 100, "DistributedDataParallel", (1, 5)),
        module(10, 90, "GPT", (1, 5)),
        module(20, 80, "GPT.head", (1, 5)),
        node(200, 210, "AddmmBackward0", 2),
    )
    launches = [
        (205, WORKER, "gemm"),
        (215, WORKER, "ncclDevKernel_AllReduce_Sum_f32_RING_LL"),
        (216, WORKER, "add"),
    ]
    trace = trace_of(ranges, launches)
    assert found(trace) == [
        ("GPT.head", "backward"),
        ("DistributedDataParallel", "backward"),
        ("GPT.head", "backward"),
    ]
    tree = modules(trace)
    assert [tree.labels[row] for row in range(3)] == ["DistributedDataParallel", "GPT", "head"]
    assert tree.tree.depth.tolist() == [0, 1, 2]


def test_nodes_of_graphs_belong_to_the_module_that_captured_them():
    ranges = (
        module(0, 100, "Net", (0, 0)),
        module(10, 40, "Net.a", (0, 0)),
        module(50, 90, "Net.b", (0, 0)),
    )
    kernel = {
        "start_ns": [1000, 1020, 1040],
        "end_ns": [1010, 1030, 1050],
        "correlation_id": [1, 1, 1],
        "name": ["x", "y", "z"],
        "short_name": ["x", "y", "z"],
        "graph_node_id": [11, 12, 13],
    }
    node_rows = {
        "time_ns": [20, 60, 61, 120],
        "thread_id": [0, 0, 0, 0],
        "graph_node_id": [1, 2, 11, 12],
        "original_graph_node_id": [None, None, 1, 2],
        "name": ["x"] * 4,
    }
    call = {"start_ns": [500], "end_ns": [501], "thread_id": [0], "correlation_id": [1]}
    trace = trace_of(ranges, [], kernel=kernel, graph_node=node_rows, api_call=call)
    assert found(trace) == [("Net.a", "forward"), ("Net.b", "forward"), (None, "other")]


def test_modules_of_the_pytorch_profiler_are_nested_by_their_calls():
    ranges = (
        module(0, 100, "Net_0", (0, 0)),
        module(10, 40, "Block_0", (0, 0)),
        module(20, 30, "Linear_0", (0, 0)),
        module(50, 90, "Block_1", (0, 0)),
        module(60, 70, "Linear_1", (0, 0)),
        module(75, 80, "Linear_0", (0, 0)),  # shared: stays where it was first called
    )
    trace = trace_of(ranges, [(65, MAIN, "k")])
    tree = modules(trace)
    assert tree.names == ("Net_0", "Block_0", "Linear_0", "Block_1", "Linear_1")
    assert tree.tree.depth.tolist() == [0, 1, 2, 1, 2]
    grouped, place = merged(tree)
    assert grouped.labels == ("Net_0", "Block_*", "Linear_*")
    assert place.tolist() == [0, 1, 2, 1, 2]


def test_without_modules_tables_say_how_to_record_them():
    trace = trace_of((plain(0, 10, "forward"),), [(5, MAIN, "k")])
    for name, hint in (("modules", "--pytorch=modules"), ("step_phases", "--pytorch=all")):
        with pytest.raises(MissingTableError) as failed:
            warpline.stats(trace, name)
        assert hint in (failed.value.hint or "")


def test_compiled_kernels_belong_to_the_module_that_was_compiled():
    block = "CompiledFxGraph 0/0 forward"
    ranges = (
        module(0, 100, "GPT", (0, 0)),
        module(10, 40, "GPT.blocks.0", (0, 0)),
        (15, 35, MAIN, COMPILED_DOMAIN, block, None, None),
        module(50, 90, "GPT.blocks.1", (0, 0)),
        (55, 85, MAIN, COMPILED_DOMAIN, block, None, None),
    )
    names = ["triton_poi_fused_add_0", "triton_poi_fused_mul_1"]
    launches = [(time + place, MAIN, name) for time in (20, 60) for place, name in enumerate(names)]
    trace = trace_of(
        ranges,
        launches,
        module={
            "process_id": [0, 0, 0],
            "name": ["GPT", "GPT.blocks.0", "GPT.blocks.1"],
            "class_name": ["GPT", "Block", "Block"],
        },
        compiled_kernel={
            "process_id": [0, 0],
            "graph": [block, block],
            "position": [0, 1],
            "kernel": names,
            "kind": [KINDS["Triton"]] * 2,
            "module": ["Block.attn", "Block.mlp"],
        },
    )
    assert found(trace) == [
        ("GPT.blocks.0.attn", "forward"),
        ("GPT.blocks.0.mlp", "forward"),
        ("GPT.blocks.1.attn", "forward"),
        ("GPT.blocks.1.mlp", "forward"),
    ]
    assert modules(trace).labels == (
        *("GPT", "blocks.0", "attn", "mlp"),
        *("blocks.1", "attn", "mlp"),
    )


def test_a_compiled_model_is_inside_the_wrapper_that_was_called():
    graph = "CompiledFxGraph 0/0 forward"
    ranges = (
        module(0, 100, "OptimizedModule", (0, 0)),
        (15, 35, MAIN, COMPILED_DOMAIN, graph, None, None),
    )
    names = ["triton_poi_fused_add_0", "triton_poi_fused_mul_1", "triton_poi_fused_sub_2"]
    launches = [(20 + place, MAIN, name) for place, name in enumerate(names)]
    trace = trace_of(
        ranges,
        launches,
        module={
            "process_id": [0] * 4,
            "name": ["GPT", "GPT.blocks", "GPT.blocks.0", "GPT.blocks.0.attn"],
            "class_name": ["GPT", "ModuleList", "Block", "Attention"],
        },
        compiled_kernel={
            "process_id": [0] * 3,
            "graph": [graph] * 3,
            "position": [0, 1, 2],
            "kernel": names,
            "kind": [KINDS["Triton"]] * 3,
            "module": ["GPT.blocks.0.attn.q", "GPT.blocks.0.mlp", None],
        },
    )
    table = warpline.stats(trace, "layers")
    shown = zip(*(table.columns[key].to_list() for key in ("name", "path", "kernels")), strict=True)
    assert list(shown) == [
        ("OptimizedModule", "OptimizedModule", 3),
        ("  GPT", "GPT", 2),
        ("    blocks.0", "GPT.blocks.0", 2),
        ("      attn", "GPT.blocks.0.attn", 1),
        ("        q", "GPT.blocks.0.attn.q", 1),
        ("      mlp", "GPT.blocks.0.mlp", 1),
    ]


def test_modules_called_by_other_methods_are_inside_the_model():
    ranges = (module(0, 10, "Net.encoder", (0, 0)), module(20, 30, "Net.decoder", (0, 0)))
    trace = trace_of(ranges, [(5, MAIN, "k"), (25, MAIN, "k")])
    assert modules(trace).labels == ("Net", "encoder", "decoder")
    assert warpline.stats(trace, "modules").columns["calls"].to_list() == [0, 1, 1]


def test_layers_are_modules_unless_ranges_are_asked_for():
    trace = trace_of(TRAINING, [(20, MAIN, "gemm"), (245, WORKER, "gemm")])
    tree, same = warpline.stats(trace, "modules"), warpline.stats(trace, "layers")
    assert (same.fields, same.rows()) == (tree.fields, tree.rows())
    assert warpline.stats(trace, "layers:merged").columns["name"].to_list()[1] == "  blocks.*"
    for arguments in ("ranges", "skip=1", "apart", "autograd", "ranges:merged"):
        assert "parent_ratio" in warpline.stats(trace, f"layers:{arguments}").columns
    assert isinstance(compare_tables(same, warpline.stats(trace, "layers:ranges")), Skipped)
    assert isinstance(compare_tables(same, tree), Result)
    shown = api.summary(trace, with_layers=True).sections
    assert "layers" in [section.name for section in shown]


def test_steps_end_with_the_optimizer_if_no_range_names_them():
    ranges = []
    launches = []
    for step in range(5):
        at = step * 1000
        ranges += [
            module(at, at + 100, "GPT", (step * 2, step * 2 + 2)),
            (at + 300, at + 350, MAIN, "torch", "Optimizer.step#AdamW.step", None, None),
        ]
        launches += [(at + 10, MAIN, "gemm"), (at + 20, MAIN, "add"), (at + 310, MAIN, "adam")]
    trace = trace_of(ranges, launches)
    tree = warpline.stats(trace, "modules")
    columns = {name: tree.columns[name].to_list() for name in ("name", "device_ns", "calls")}
    assert columns == {
        "name": ["GPT", "(optimizers)"],
        "device_ns": [20, 10],
        "calls": [1, 0],
    }
    assert "step" in tree.notes[0]
    assert run_steps(Run(trace)).source == "between optimizer steps"
    assert run_steps(Run(trace)).host_start_ns.tolist() == [350, 1350, 2350, 3350]
