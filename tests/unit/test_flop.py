"""FLOP of operators and of the GPU operations that they launch, counted by hand."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from warpline.derived.efficiency.operation_flop import flop_notes, operation_flop
from warpline.derived.operators.flops import counted_operators, flop_of
from warpline.trace import MemorySource, Trace

# Batch, heads, rows, width; the keys have fewer heads and more rows, the values another width.
QUERY, KEY, VALUE, RESULT = [2, 4, 8, 16], [2, 2, 10, 16], [2, 2, 10, 6], [2, 4, 8, 6]
SCORES = 2 * 4 * 8 * 10  # in each of 16 products for Q and K, of 6 for V
CONV = ["", "", "", "[2]", "[1]", "[1]", "False", "[0]", "2"]
TRANSPOSED = ["", "", "", "[2]", "[1]", "[1]", "True", "[0]", "2"]
WANTED = ["[8]", "[2]", "[1]", "[1]", "False", "[0]", "2", "[True, True, True]"]


def by_rows(shape: Sequence[int]) -> list[int]:
    batch, heads, rows, width = shape
    return [batch, rows, heads, width]


@pytest.mark.parametrize(
    ("name", "shapes", "values", "flop"),
    [
        ("mm", [[3, 4], [4, 5]], None, 2 * 3 * 4 * 5),
        ("addmm", [[5], [3, 4], [4, 5], [], []], None, 2 * 3 * 4 * 5),
        ("bmm", [[7, 3, 4], [7, 4, 5]], None, 7 * 2 * 3 * 4 * 5),
        ("baddbmm", [[5], [7, 3, 4], [7, 4, 5]], None, 7 * 2 * 3 * 4 * 5),
        ("_scaled_mm", [[3, 4], [4, 5], [], []], None, 2 * 3 * 4 * 5),
        ("mm", [[3, 4], [5, 5]], None, None),
        ("add", [[3, 4], [3, 4]], None, None),
        ("mm", [], None, None),
        # 9 points become (9 + 2 - 2 - 1) / 2 + 1 = 5; two groups: each of 8 outputs sees 2 of 4.
        ("convolution", [[6, 4, 9], [8, 2, 3], [8]], CONV, 6 * 5 * 2 * 8 * 2 * 3),
        # Each of the 9 points of 4 channels goes to 5 of 10 channels and 3 points.
        ("convolution", [[6, 4, 9], [4, 5, 3], [10]], TRANSPOSED, 6 * 9 * 2 * 4 * 5 * 3),
        ("convolution", [[6, 4, 9], [8, 2, 3], [8]], None, None),
        ("cudnn_convolution", [[6, 4, 9], [8, 2, 3]], CONV, None),
        # The gradient of the input as the forward pass. The one of the weight as PyTorch counts it,
        # with all 8 by 4 channels at first, then by the weight's shape: 4 inputs with 9 points.
        (
            "convolution_backward",
            [[6, 8, 5], [6, 4, 9], [8, 2, 3]],
            ["", "", "", *WANTED],
            6 * 5 * 2 * 8 * 2 * 3 + 4 * 3 * 2 * (8 * 6 * 5),
        ),
        ("_scaled_dot_product_flash_attention", [QUERY, KEY, VALUE], None, 2 * SCORES * (16 + 6)),
        ("_scaled_dot_product_cudnn_attention", [QUERY, KEY, [1, 2, 10, 6]], None, None),
        (
            "_scaled_dot_product_efficient_attention_backward",
            [RESULT, QUERY, KEY, VALUE],
            None,
            2 * SCORES * (3 * 16 + 2 * 6),
        ),
        (
            "_flash_attention_forward",
            [*map(by_rows, (QUERY, KEY, VALUE)), [], []],
            None,
            2 * SCORES * (16 + 6),
        ),
        ("_flash_attention_forward", [[20, 4, 16]] * 3 + [[3], [3]], None, None),
        ("_efficient_attention_forward", [[1, 20, 4, 16]] * 3 + [[], [3], [3]], None, None),
        (
            "_efficient_attention_backward",
            [*map(by_rows, (RESULT, QUERY, KEY, VALUE)), [], by_rows(RESULT), [], []],
            None,
            2 * SCORES * (3 * 16 + 2 * 6),
        ),
    ],
)
def test_operators(name, shapes, values, flop):
    others = None if values is None else json.dumps(values)
    assert flop_of(f"aten::{name}", json.dumps(shapes), others) == flop


@pytest.mark.parametrize("shapes", ["", "[", "[[1e9, -4], [-4, 2]]", "[[2, 3], 7]", '{"a": 1}'])
def test_damaged_shapes_count_nothing(shapes):
    assert flop_of("aten::mm", shapes) is None
    assert flop_of("aten::convolution", shapes, shapes) is None


MM = "[[3, 4], [4, 5]]"


def trace_of(operators: Sequence[tuple[Any, ...]], kernels: Sequence[tuple[Any, ...]]) -> Trace:
    """Return a trace of one thread on an H200.

    Args:
        operators: Start, end, name, shapes, types.
        kernels: Time of the launch, duration, name.
    """
    numbers = list(range(len(kernels)))
    starts, ends, names, shapes, types = map(list, zip(*operators, strict=True))
    times, durations, kernel_names = map(list, zip(*kernels, strict=True))
    kernel_starts = [1000 + 100 * number for number in numbers]
    return Trace(
        MemorySource(
            {
                "process": {"pid": [7]},
                "thread": {"process_id": [0], "tid": [70]},
                "device": {"gpu_index": [0], "name": ["NVIDIA H200"]},
                "op": {
                    "start_ns": starts,
                    "end_ns": ends,
                    "name": names,
                    "input_shapes": shapes,
                    "input_dtypes": types,
                },
                "api_call": {
                    "start_ns": times,
                    "end_ns": [time + 1 for time in times],
                    "correlation_id": numbers,
                },
                "kernel": {
                    "start_ns": kernel_starts,
                    "end_ns": [at + d for at, d in zip(kernel_starts, durations, strict=True)],
                    "correlation_id": numbers,
                    "name": kernel_names,
                    "short_name": kernel_names,
                },
            }
        )
    )


def test_the_longest_kernel_has_all_flop_of_an_operator():
    trace = trace_of(
        [
            (0, 100, "aten::addmm", "[[5], [3, 4], [4, 5]]", None),
            (20, 90, "aten::mm", MM, None),  # inside: does not count again
            (200, 300, "aten::relu", "[[3, 5]]", None),
            (400, 500, "aten::mm", MM, None),
        ],
        [(30, 5, "split"), (40, 50, "gemm"), (210, 70, "relu"), (600, 80, "later")],
    )
    assert counted_operators(trace).flop.tolist() == [120, 120]
    assert operation_flop(trace).flop.tolist() == [0, 120, 0, 0]
    assert flop_notes(trace) == ()


def test_the_peak_is_that_of_the_types_or_of_the_kernel():
    size = "[[1000, 1000], [1000, 1000]]"
    trace = trace_of(
        [
            (0, 10, "aten::mm", size, '["c10::BFloat16", "c10::BFloat16"]'),
            (20, 30, "aten::mm", size, '["float", "float"]'),
            (40, 50, "aten::mm", size, '["double", "double"]'),
            (60, 70, "aten::mm", size, None),
        ],
        [(5, 9, "gemm"), (25, 9, "gemm"), (45, 9, "gemm"), (65, 9, "a_kernel")],
    )
    found = operation_flop(trace)
    assert found.flop.tolist() == [2 * 10**9] * 4
    half, single, double, unknown = found.least_ns.tolist()
    assert half < single / 10
    assert single <= double
    assert unknown == 0


def test_what_is_left_out_is_said():
    trace = trace_of([(0, 9, "aten::cudnn_convolution", MM, None)], [(5, 9, "conv")])
    (note,) = flop_notes(trace)
    assert note.startswith("FLOP of 1 operator are unknown, and so are those of their modules")
    assert operation_flop(trace).is_unknown.tolist() == [True]
    without = trace_of([(0, 9, "aten::relu", MM, None)], [(5, 9, "relu")])
    assert flop_notes(without)[0].startswith("no FLOP: input shapes were not recorded")
