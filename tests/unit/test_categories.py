"""Classification of kernels: hand-labelled names, other evidence, user rules, hostile names."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.any_trace import AnyTrace, any_traces

import warpline
from warpline.derived.kernels.categories import (
    CollectiveKernel,
    collective_kernel,
    kernel_class,
    operation_categories,
    operation_origins,
)
from warpline.derived.kernels.rules import (
    KERNEL_CATEGORIES,
    VARIABLE,
    Origin,
    parse_name,
    read_rules,
    rules,
)
from warpline.derived.time_parts import BUSY, TimePart
from warpline.derived.work.operations import operations
from warpline.errors import InputError
from warpline.schema.labels import COPY_KINDS
from warpline.trace import MemorySource, Trace

Rows = list[dict[str, Any]]


def labels() -> list[tuple[str, str, str]]:
    path = Path(__file__).parent.parent / "data" / "kernel_names.tsv"
    lines = path.read_text("utf-8").splitlines()
    rows = [line.split("\t") for line in lines if not line.startswith("#")]
    return [(category, origin, name) for category, origin, name in rows]


def make(**tables: Rows) -> Trace:
    columns = {
        name: {key: [row[key] for row in rows] for key in rows[0]} for name, rows in tables.items()
    }
    return Trace(MemorySource({"process": {"pid": [1]}, "thread": {"tid": [10]}, **columns}))


def kernel(start: int, name: str, correlation: int = 0) -> dict[str, Any]:
    return {"start_ns": start, "end_ns": start + 5, "name": name, "correlation_id": correlation}


def named(trace: Trace) -> list[tuple[str, str]]:
    codes = zip(
        operation_categories(trace).tolist(), operation_origins(trace).tolist(), strict=True
    )
    return [(TimePart.at(category).label, Origin.at(origin).label) for category, origin in codes]


def test_every_name_has_the_class_that_was_given_to_it_by_hand():
    wrong = []
    for category, origin, name in labels():
        found = kernel_class(name)
        if (found.category, found.origin) != (category, origin):
            wrong.append(f"{category} {origin} -> {found} for {name[:120]}")
    assert not wrong, "\n".join(wrong)


def test_the_labels_cover_every_category_and_no_name_twice():
    assert {category for category, _, _ in labels()} == set(KERNEL_CATEGORIES)
    names = [name for _, _, name in labels()]
    assert len(names) == len(set(names))


def test_built_in_rules_have_unique_names_and_reasons():
    text = Path(warpline.__file__).parent / "data" / "kernel_rules.json"
    items = json.loads(text.read_text("utf-8"))["rules"]
    assert len({item["id"] for item in items}) == len(items) == len(rules())
    assert all(item["why"].endswith(".") for item in items)


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("void a::b<int, c<d> >(int, e<f>)", "a::b"),
        ("std::enable_if<(((8)>(0)))&&v::t<h>::ok, void>::type v::norm<h, 8>(h*)", "v::norm"),
        ("void (anonymous namespace)::soft<float>(float*)", "soft"),
        ("void <unnamed>::soft<float, (int)6>(T2 *)", "soft"),
        ("triton_poi_fused_add_3", "triton_poi_fused_add"),
        ("triton_poi_fused_add_0d1d2d3de", "triton_poi_fused_add"),
        ("_ZN2at6native13reduce_kernelILi512EEEvT_", "at::native::reduce_kernel"),
        ("_Z5saxpyPfS_f", "saxpy"),
        ("ampere_sgemm_128x64_nn", "ampere_sgemm_128x64_nn"),
        ("plain", "plain"),
        ("", ""),
    ],
)
def test_the_function_is_found_within_a_name(name, function):
    assert parse_name(name).function == function


@given(st.text(alphabet="ab<>():, _0*Z{}#&", max_size=60))
def test_any_text_is_classified(name):
    found = kernel_class(name)
    assert found.category in KERNEL_CATEGORIES
    assert found.origin in Origin.labels()


@pytest.mark.parametrize("unit", ["<", "(", "a<", ")>", "gemm<", "_Z9", "at::native::", "a*"])
def test_hostile_names_cost_little(unit):
    began = time.perf_counter()
    kernel_class(unit * 1_000_000)
    assert time.perf_counter() - began < 0.5


PIECES = st.text(alphabet="ab", min_size=1, max_size=3)


@given(
    st.lists(PIECES, min_size=1, max_size=4),
    st.booleans(),
    st.booleans(),
    st.text(alphabet="abc", max_size=12),
)
def test_patterns_mean_what_the_regular_expression_means(pieces, at_start, at_end, text):
    pattern = ("^" if at_start else "") + "*".join(pieces) + ("$" if at_end else "")
    expression = ("^" if at_start else "") + ".*".join(pieces) + (r"\Z" if at_end else "")
    rule = {"name": [pattern], "category": "gemm"}
    (found,) = read_rules(json.dumps({"version": 1, "rules": [rule]}), "test")
    assert found.matches(parse_name(text)) == bool(re.search(expression, text))


def test_rules_of_the_user_go_first_and_leave_the_rest(tmp_path, monkeypatch):
    before = kernel_class("void mine::attend<float>(float*)")
    assert (before.category, before.origin) == ("other", "user")
    path = tmp_path / "rules.json"
    mine = [
        {"function": ["^mine::"], "category": "attention"},
        {"base": ["^nccl"], "origin": "library"},
    ]
    path.write_text(json.dumps({"version": 1, "rules": mine}))
    monkeypatch.setenv(VARIABLE, str(path))
    found = kernel_class("void mine::attend<float>(float*)")
    assert (found.category, found.origin) == ("attention", "user")
    found = kernel_class("ncclDevKernel_AllGather_RING_LL(x)")
    assert (found.category, found.origin) == ("collective", "library")


def test_the_former_spelling_of_a_category_is_accepted(tmp_path, monkeypatch):
    path = tmp_path / "rules.json"
    rule = {"function": ["^mine::"], "category": "normalisation"}
    path.write_text(json.dumps({"version": 1, "rules": [rule]}))
    monkeypatch.setenv(VARIABLE, str(path))
    assert kernel_class("void mine::scale<float>(float*)").category == "normalization"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "is not JSON"),
        ("[]", 'missing list "rules"'),
        ('{"version": 2, "rules": []}', '"version" is 2, expected 1'),
        ('{"version": 1, "rules": [3]}', "rule 1: not a JSON object"),
        ('{"version": 1, "rules": [{"id": "x", "nam": []}]}', "rule 1 (x): unknown key 'nam'"),
        ('{"version": 1, "rules": [{"category": "gemm"}]}', "needs at least one of name, fun"),
        ('{"version": 1, "rules": [{"name": ["a"]}]}', "needs a category or an origin"),
        ('{"version": 1, "rules": [{"name": "a", "category": "gemm"}]}', "not a list of patterns"),
        ('{"version": 1, "rules": [{"name": ["^*$"], "category": "gemm"}]}', "matches everything"),
        ('{"version": 1, "rules": [{"name": ["a"], "category": "gem"}]}', "'gem' is not one of"),
        ('{"version": 1, "rules": [{"name": ["a"], "category": ["x"]}]}', "is not one of"),
        (
            '{"version": 1, "rules": [{"name": ["a"], "origin": "cub", "collective": {"x": 1}}]}',
            "'collective' accepts only family",
        ),
    ],
)
def test_a_wrong_file_of_rules_is_one_line_with_a_hint(tmp_path, monkeypatch, text, said):
    path = tmp_path / "rules.json"
    path.write_text(text)
    monkeypatch.setenv(VARIABLE, str(path))
    with pytest.raises(InputError, match=re.escape(said)) as raised:
        kernel_class("any")
    assert "\n" not in raised.value.message
    assert str(path) in raised.value.message
    assert "kernel-classes.md" in (raised.value.hint or "")


def test_a_file_of_rules_that_is_no_text_is_named(tmp_path, monkeypatch):
    path = tmp_path / "rules.json"
    path.write_bytes(b"\xff\xfe")
    monkeypatch.setenv(VARIABLE, str(path))
    with pytest.raises(InputError, match="not UTF-8"):
        kernel_class("any")


def test_a_missing_file_of_rules_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, str(tmp_path / "nowhere.json"))
    with pytest.raises(InputError, match=r"nowhere\.json"):
        kernel_class("any")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
            CollectiveKernel("AllReduce", "RING", "LL", "bf16", "Sum", "nccl", True),
        ),
        (
            "ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)",
            CollectiveKernel("AllReduce", "RING", "LL", "f32", "Sum", "nccl", True),
        ),
        (
            "ncclKernel_AllReduce_TREE_LL128_Sum___nv_bfloat16(ncclWorkElem)",
            CollectiveKernel("AllReduce", "TREE", "LL128", "bf16", "Sum", "nccl"),
        ),
        (
            "ncclDevKernel_AllReduce_Sum_f32_NVLS_TREE_SIMPLE(x)",
            CollectiveKernel("AllReduce", "NVLS_TREE", "SIMPLE", "f32", "Sum", "nccl"),
        ),
        (
            "ncclDevKernel_ReduceScatter_Sum_f16_COLLNET_DIRECT_SIMPLE",
            CollectiveKernel("ReduceScatter", "COLLNET_DIRECT", "SIMPLE", "f16", "Sum", "nccl"),
        ),
        (
            "ncclDevKernel_AllGather_PAT_SIMPLE(x)",
            CollectiveKernel("AllGather", "PAT", "SIMPLE", None, None, "nccl"),
        ),
        (
            "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclWorkElem)",
            CollectiveKernel("SendRecv", "RING", "SIMPLE", None, None, "nccl"),
        ),
        (
            "ncclKernel_AllReduce_RING_LL_Max_uint8_t(ncclWorkElem)",
            CollectiveKernel("AllReduce", "RING", "LL", "u8", "Max", "nccl", True),
        ),
        (
            "ncclDevKernel_Reduce_PreMulSum_u8_TREE_LL(x)",
            CollectiveKernel("Reduce", "TREE", "LL", "u8", "PreMulSum", "nccl", True),
        ),
        (
            "ncclKernel_ReduceScatter_RING_SIMPLE_Prod_int32_t(ncclWorkElem)",
            CollectiveKernel("ReduceScatter", "RING", "SIMPLE", "i32", "Prod", "nccl"),
        ),
        (
            "ncclKernel_AllReduce_TREE_SIMPLE_Min_uint64_t(ncclWorkElem)",
            CollectiveKernel("AllReduce", "TREE", "SIMPLE", "u64", "Min", "nccl"),
        ),
        (
            "ncclDevKernel_AllToAll_RING_SIMPLE(x)",
            CollectiveKernel("AllToAll", "RING", "SIMPLE", None, None, "nccl"),
        ),
        (
            "_Z40ncclDevKernel_AllReduce_Sum_bf16_TREE_LLP11ncclDevCommmP8ncclWork",
            CollectiveKernel("AllReduce", "TREE", "LL", "bf16", "Sum", "nccl", True),
        ),
        (
            "ncclSymkDevKernel_AllReduce_RSxLDMC_AGxSTMC_sum_f32(ncclSymkDevWorkArgs4K)",
            CollectiveKernel("AllReduce", "RSxLDMC_AGxSTMC", "SYMMETRIC", "f32", "Sum", "nccl"),
        ),
        (
            "ncclAllReduceRingLLKernel_sum_f32(ncclColl)",
            CollectiveKernel("AllReduce", "RING", "LL", "f32", "Sum", "nccl"),
        ),
        (
            "ncclDevKernel_Generic_4(ncclDevKernelArgsStorage<4096ul>)",
            CollectiveKernel(family="rccl"),
        ),
        (
            "void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>(int)",
            CollectiveKernel("AllReduce", "two-shot", "MULTIMEM", "bf16", None, "symmetric-memory"),
        ),
        (
            "void vllm::cross_device_reduce_1stage<__half, 2>(vllm::RankData*)",
            CollectiveKernel("AllReduce", "one-shot", None, "f16", None, "custom-all-reduce"),
        ),
        (
            "void deep_ep::internode_ll::dispatch<true, 3, 10, 7168>(void*)",
            CollectiveKernel("Dispatch", None, None, None, None, "deepep"),
        ),
        ("nvjet_tst_64x8_64x16_1x1_h_bz_TNT", None),
        ("void deep_ep::internode::get_dispatch_layout<256, 32, 8>(long const*)", None),
    ],
)
def test_a_collective_kernel_is_read_from_its_name(name, expected):
    assert collective_kernel(name) == expected


def test_copies_sets_and_whole_graphs_are_told_by_their_tables():
    times = {"start_ns": 0, "end_ns": 5}
    kinds = {label: kind for kind, label in COPY_KINDS.items()}
    copied = ["Host-to-Device", "Device-to-Host", "Device-to-Device", "Peer-to-Peer", "Unknown"]
    rows = [
        {**times, "start_ns": place, "kind": kinds[label], "src_device_id": 0, "dst_device_id": 0}
        for place, label in enumerate(copied)
    ]
    across = {**rows[2], "start_ns": 5, "dst_device_id": 1}
    trace = make(
        memcpy=[*rows, across],
        memset=[{"start_ns": 6, "end_ns": 7}],
        graph_launch=[{"start_ns": 8, "end_ns": 9, "level": 0}],
        device=[{"gpu_index": 0}, {"gpu_index": 1}],
    )
    expected = ["copy-h2d", "copy-d2h", "copy-d2d", "copy-p2p", "copy-other", "copy-p2p"]
    assert named(trace) == [(name, "driver") for name in (*expected, "memset", "graph")]


def test_an_unknown_kernel_launched_inside_a_call_of_nccl_is_a_collective():
    thread = {"thread_id": 0, "process_id": 0}
    spans = [(0, 10, "NCCL"), (20, 30, "other"), (40, 50, None)]
    trace = make(
        api_call=[
            {**thread, "start_ns": start, "end_ns": start + 1, "correlation_id": number}
            for number, start in enumerate((5, 6, 25, 45, 60))
        ],
        kernel=[
            kernel(100, "strange", 0),
            kernel(110, "void at::native::vectorized_elementwise_kernel<4>(int)", 1),
            kernel(120, "strange", 2),
            kernel(130, "strange", 3),
            kernel(140, "strange", 4),
        ],
        range=[
            {**thread, "start_ns": start, "end_ns": end, "domain": domain, "style": 0}
            for start, end, domain in spans
        ],
        collective=[{**thread, "start_ns": 40, "end_ns": 50, "range_id": 2}],
    )
    assert named(trace) == [
        ("collective", "nccl"),
        ("elementwise", "framework"),
        ("other", "user"),
        ("collective", "nccl"),
        ("other", "user"),
    ]


@settings(max_examples=40)
@given(any_traces(), st.integers(0, 99))
def test_categories_do_not_depend_on_the_order_of_rows(any_trace: AnyTrace, seed: int):
    trace, other = any_trace.trace(), any_trace.permuted(seed).trace()
    for compute, names in (
        (operation_categories, BUSY),
        (operation_origins, Origin),
    ):
        codes = compute(trace)
        assert len(codes) == len(operations(trace))
        assert codes.dtype == np.int8
        assert not len(codes) or 0 <= codes.min() <= codes.max() < len(names)
        assert np.array_equal(np.sort(codes), np.sort(compute(other)))


@pytest.mark.parametrize("name", ["host_sync.bad", "tiny_kernels.fixed", "ddp_serial.bad.rank0"])
def test_every_operation_of_our_captures_is_known(capture: Callable[[str], Path], name: str):
    trace = warpline.open(capture(name))
    assert "other" not in {category for category, _ in named(trace)}


def test_nothing_recorded_has_no_categories():
    trace = Trace(MemorySource({}))
    assert len(operation_categories(trace)) == len(operation_origins(trace)) == 0


SHARED = Path(__file__).parents[3] / "shared" / "data"
FOLDERS = ("nsys/*.sqlite", "public/nsys/*.sqlite", "kineto/*.gz", "public/kineto/*.gz")
RECORDINGS = sorted(path for folder in FOLDERS for path in SHARED.glob(folder))


@pytest.mark.skipif(not RECORDINGS, reason="the larger captures are not here")
@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.name)
def test_next_to_no_kernel_time_of_the_larger_captures_is_unknown(path: Path):
    trace = warpline.open(path)
    listed = operations(trace)
    other = operation_categories(trace) == TimePart.OTHER
    durations = listed.end_ns - listed.start_ns
    assert durations[other].sum() <= 0.01 * durations.sum()


def test_the_page_about_classes_names_all_of_them_and_its_example_is_right(repository: Path):
    page = (repository / "docs" / "kernel-classes.md").read_text("utf-8")
    missing = [
        name for name in [each.label for each in (*BUSY, *Origin)] if f"`{name}`" not in page
    ]
    assert not missing
    examples = re.findall(r"```json\n(.*?)```", page, re.DOTALL)
    (text,) = examples
    assert len(read_rules(text, "the page")) == 2
    name = re.search(r"\| for `(.*)` \|", page)
    assert name is not None
    parsed = parse_name(name.group(1))
    assert f"| `function` | `{parsed.function}`" in page
    assert f"| `base` | `{parsed.base}`" in page
