"""NVTX ranges of PyTorch's operators become rows of `op`."""

import pytest

import warpline
from warpline.derived.operators.flops import counted_operators
from warpline.derived.operators.labels import forward_operators
from warpline.trace import MemorySource, Trace
from warpline.trace.annotated_operators import annotation, with_annotated_operators

ADDMM = "aten::addmm, seq = 9, op_id = 7, sizes = [[4], [2, 3], [3, 4], [], []], input_op_ids = []"


@pytest.mark.parametrize(
    ("text", "name", "is_operator", "sequence", "op_id", "sizes"),
    [
        (ADDMM, "aten::addmm", True, 9, 7, "[[4], [2, 3], [3, 4], [], []]"),
        ("aten::mm, seq = -1, op_id = 3", "aten::mm", True, None, 3, None),
        ("aten::mm, op_id = 3", "aten::mm", True, None, 3, None),
        ("aten::mm, seq = 12", "aten::mm", True, 12, None, None),
        ("detach, op_id = 3", "detach", True, None, 3, None),
        ("MmBackward0, op_id = 5", "MmBackward0", True, None, 5, None),
        ("forward, op_id = 5", "forward", False, None, 5, None),
        ("a, b, op_id = 5", "a, b", False, None, 5, None),
        (
            "aten::cat, op_id = 1, sizes = [[2, -1]], input_op_ids = [(3,0), (0,-1)]",
            "aten::cat",
            True,
            None,
            1,
            "[[2, -1]]",
        ),
    ],
)
def test_the_text_of_a_range_says_what_it_is(text, name, is_operator, sequence, op_id, sizes):
    assert annotation(text) == (name, is_operator, sequence, op_id, sizes)


@pytest.mark.parametrize("text", ["forward", "seq = 4", "aten::mm", "step, op_id = x"])
def test_other_texts_are_the_programs(text):
    assert annotation(text) is None


def ranges(names, **more):
    count = len(names)
    starts = [10 * place for place in range(count)]
    table = {"start_ns": starts, "end_ns": [start + 8 for start in starts], "name": names}
    numbers = {"source_id": list(range(count)), "style": [0] * count}
    return {**table, **numbers, **more}


def converted(tables, **options):
    return with_annotated_operators(Trace(MemorySource(tables)), **options)


def texts(trace, table, column):
    return trace[table][column].to_list()


def test_ranges_of_operators_are_operators_and_annotations_keep_their_plain_names():
    trace = converted(
        {"range": ranges(["mine", ADDMM, "step 1, op_id = 8", "MmBackward0, seq = 9"])}
    )
    assert texts(trace, "range", "name") == ["mine", "step 1"]
    assert texts(trace, "op", "name") == ["aten::addmm", "MmBackward0"]
    assert texts(trace, "op", "start_ns") == [10, 30]
    assert texts(trace, "op", "sequence") == [9, 9]
    assert texts(trace, "op", "external_id") == [7, None]
    assert texts(trace, "op", "input_shapes") == ["[[4], [2, 3], [3, 4], [], []]", None]
    assert texts(trace, "op", "input_dtypes") == [None, None]


def test_ranges_of_named_domains_and_other_styles_are_left_alone():
    table = ranges([ADDMM, ADDMM], domain=["mine", None], style=[0, 1])
    trace = Trace(MemorySource({"range": table}))
    assert with_annotated_operators(trace) is trace


def test_an_annotation_is_left_out_where_another_range_has_its_name():
    names = ["step", "step, op_id = 8", "step, op_id = 9", "other, op_id = 10"]
    table = ranges(names, domain=["torch", None, None, None])
    table |= {"start_ns": [0, 1, 50, 60], "end_ns": [40, 39, 55, 70]}
    trace = converted({"range": table})
    assert texts(trace, "range", "name") == ["step", "step", "other"]
    assert texts(trace, "range", "start_ns") == [0, 50, 60]


def test_ranges_of_backward_nodes_may_stay():
    names = ["autograd::engine::evaluate_function: MmBackward0, op_id = 1", "MmBackward0, seq = 9"]
    trace = converted({"range": ranges([*names, ADDMM])}, keeps_backward=True)
    assert texts(trace, "range", "name") == names
    assert trace.row_count("op") == 3


def test_payloads_follow_their_range():
    payload = {"range_id": [0, 2], "key": ["a", "b"], "int_value": [1, 2]}
    trace = converted({"range": ranges(["x", ADDMM, "y"]), "range_payload": payload})
    names = trace["range"]["name"].to_list()
    assert [names[row] for row in trace["range_payload"]["range_id"].to_list()] == ["x", "y"]


def sample(**columns):
    count = len(columns["name"])
    spans = {"start_ns": [1000 + place for place in range(count)], "end_ns": [2000] * count}
    return {**spans, **columns}


def test_operators_like_recorded_ones_have_their_types_and_lists():
    recorded = sample(
        name=["aten::cat", "aten::add", "aten::add"],
        input_shapes=["[[[2],[3]],[]]", "[[2], [2]]", "[[2], [2]]"],
        input_dtypes=['["TensorList"]', '["float"]', '["half"]'],
        input_strides=["[[[1],[1]],[]]", "[[1], [1]]", "[[1], [1]]"],
    )
    names = [
        "aten::cat, sizes = [[2], [3], []]",
        "aten::add, sizes = [[2], [2]]",
        "aten::mm, seq = 1",
    ]
    trace = converted({"range": ranges(names), "op": recorded})
    rows = trace["op"]
    assert rows["input_shapes"].to_list()[:3] == ["[[[2],[3]],[]]", "[[2], [2]]", None]
    assert rows["input_dtypes"].to_list()[:3] == ['["TensorList"]', None, None]
    assert rows["input_strides"].to_list()[:3] == ["[[[1],[1]],[]]", "[[1], [1]]", None]
    assert "4 of 5 operators have element types" in trace.meta.warnings[-1]


def test_operators_of_a_repeated_step_have_the_types_of_their_place():
    recorded = sample(
        name=["aten::add", "aten::add"],
        input_shapes=["[[2]]", "[[2]]"],
        input_dtypes=['["float"]', '["half"]'],
    )
    names = ["aten::mm", *["aten::add"] * 5]
    names = [f"{name}, op_id = {place}, sizes = [[2]]" for place, name in enumerate(names)]
    rows = converted({"range": ranges(names), "op": recorded})["op"]
    # After two repetitions, one operator is left, of which nothing tells which one it is.
    pair = ['["float"]', '["half"]']
    assert rows["input_dtypes"].to_list() == [None, *pair, *pair, None, *pair]


def test_only_convolutions_have_the_values_of_recorded_ones():
    shapes = "[[2, 3, 8, 8], [4, 3, 3, 3], [], [], [], [], [], [], []]"
    values = '["", "", "", "[2, 2]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "1"]'
    recorded = sample(
        name=["aten::convolution", "aten::mul"],
        input_shapes=[shapes, "[[2], []]"],
        input_values=[values, '["", "0.5"]'],
    )
    names = [f"aten::convolution, op_id = 1, sizes = {shapes}", "aten::mul, sizes = [[2], []]"]
    trace = converted({"range": ranges(names), "op": recorded})
    assert trace["op"]["input_values"].to_list()[:2] == [values, None]
    flop = counted_operators(trace).flop.tolist()
    assert flop == [2 * (4 * 4) * (4 * 3 * 3 * 3) * 2] * 2  # of 4 x 4 points


def test_tables_of_operators_read_ranges():
    names = ["step, op_id = 1", "aten::linear, op_id = 2, sizes = [[2, 3]]", "aten::mm, op_id = 3"]
    table = ranges(names) | {"start_ns": [0, 10, 20], "end_ns": [100, 60, 50]}
    trace = Trace(MemorySource({"range": table}))
    found = warpline.stats(trace, "ops:shape")
    columns = [field.name for field in found.fields]
    wanted = [columns.index(name) for name in ("name", "kind", "calls", "self_host_ns", "host_ns")]
    assert sorted(tuple(row[place] for place in wanted) for row in found.rows()) == [
        ("aten::linear", "Operator", 1, 20, 50),
        ("aten::mm", "Operator", 1, 30, 30),
        ("step", "Annotation", 1, 50, 100),
    ]


def test_ranges_alone_are_no_operators():
    with pytest.raises(warpline.MissingTableError, match="no operators were recorded"):
        warpline.stats(Trace(MemorySource({"range": ranges(["mine"])})), "op_sum")


def test_backward_operators_are_known_by_their_names():
    trace = converted({"range": ranges([ADDMM, "AddmmBackward0, seq = 9", "aten::mm, op_id = 4"])})
    links = forward_operators(trace)
    assert (links.backward.tolist(), links.forward.tolist()) == ([1], [0])


def test_operators_have_the_python_stack_of_their_first_launch():
    names = ["aten::linear, op_id = 1", "aten::addmm, op_id = 2", "aten::relu, op_id = 3"]
    table = ranges(names) | {"start_ns": [0, 10, 100], "end_ns": [60, 50, 110]}
    frames = {
        "kind": [3, 3],
        "symbol": ["forward", "main"],
        "module": ["model.py", "train.py"],
        "line": [7, 3],
    }
    stacks = {"frame_id": [1, 0, 0], "parent_id": [None, 0, None], "depth": [0, 1, 0]}
    launches = {
        "start_ns": [12, 20, 30],
        "end_ns": [13, 21, 31],
        "name": ["cudaLaunchKernel"] * 3,
        "stack_id": [None, 1, 2],
    }
    tables = {"range": table, "frame": frames, "stack": stacks, "api_call": launches}
    found = warpline.stats(Trace(MemorySource(tables)), "op_sum:stack")
    columns = [field.name for field in found.fields]
    name, stack = columns.index("name"), columns.index("stack")
    assert {row[name]: row[stack] for row in found.rows()} == {
        "aten::linear": "model.py:7 forward; train.py:3 main",
        "aten::addmm": "model.py:7 forward; train.py:3 main",
        "aten::relu": None,
    }
