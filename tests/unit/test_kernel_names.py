"""Short names of kernels: readable, and never the same for two kernels of a recording."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import captures

import warpline
from warpline.presentation.kernel_names import short_name, short_names

DATA = Path(__file__).parent.parent / "data"
A = "at::native::"
COPY = "direct_copy_kernel_cuda(at::Tensors&)::{lambda()#3}::operator()() const::"


@pytest.mark.parametrize(
    ("name", "short"),
    [
        (
            (
                f"void {A}vectorized_elementwise_kernel<4, {A}CUDAFunctor_add<float>,"
                f" std::array<char*, 3ul> >(int, {A}CUDAFunctor_add<float>, std::array<char*, 3ul>)"
            ),
            "vectorized_elementwise<CUDAFunctor_add<float>>",
        ),
        (
            (
                f"void {A}vectorized_elementwise_kernel<(int)4, {A}rsqrt_kernel_cuda("
                "at::Tensors &)::[lambda() (instance 2)]::operator ()() const::"
                "[lambda(c10::BFloat16) (instance 1)], std::array<char *, (unsigned long)2>>"
                "(int, T2, T3)"
            ),
            "vectorized_elementwise<rsqrt<BFloat16>>",
        ),
        (
            (
                f"void {A}elementwise_kernel<128, 4, {A}gpu_kernel_impl_nocast<{A}CUDAFunctor_add"
                f"<c10::BFloat16> >(at::Tensors&, {A}CUDAFunctor_add<c10::BFloat16> const&)"
                "::{lambda(int)#1}>(int)"
            ),
            "elementwise<CUDAFunctor_add<BFloat16>>",
        ),
        (
            (
                f"void {A}reduce_kernel<(int)128, (int)4, {A}ReduceOp<float, {A}func_wrapper_t<"
                f"float, {A}sum_functor<float, float, float>::operator ()(at::Tensors &)::"
                "[lambda(float, float) (instance 1)]>, unsigned int, float, (int)4, (int)8>>(T3)"
            ),
            "reduce<sum_functor<float>>",
        ),
        (
            (
                f"void {A}<unnamed>::multi_tensor_apply_kernel<{A}<unnamed>::TensorListMetadata<"
                f"(int)2>, {A}<unnamed>::FusedAdamMathFunctor<c10::BFloat16, (int)4, ({A}ADAM)1,"
                " (bool)0>, const float *, double>(T1, T2, T3...)"
            ),
            "multi_tensor_apply<FusedAdamMathFunctor<BFloat16>>",
        ),
        (
            (
                f"void {A}(anonymous namespace)::vectorized_layer_norm_kernel<c10::BFloat16, float,"
                " false>(int, float, c10::BFloat16 const*)"
            ),
            "vectorized_layer_norm<BFloat16, float>",
        ),
        ("void cutlass::Kernel2<cutlass_80_gemm>(T1::Params)", "cutlass_80_gemm"),
        (
            (
                "std::enable_if<((8)>(0))&&(!false), void>::type internal::gemvx::kernel<int, "
                "__nv_bfloat16, 7>(T)"
            ),
            "gemvx::kernel<int, __nv_bfloat16>",
        ),
        ("void cask::computeOffsetsKernel<true, false>(P)", "computeOffsetsKernel<true, false>"),
        (
            "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<(unsigned long)4>)",
            "ncclDevKernel_AllReduce_Sum_bf16_RING_LL",
        ),
        ("my_kernel(float *, int)", "my_kernel"),
        ("nvjet_sm90_tst_256x128", "nvjet_sm90_tst_256x128"),
        ("_ZN2at6native13reduce_kernelILi512EEEvT_", "reduce_kernel<...>"),
        # What is no name of C++ stays.
        ("loop fusion", "loop fusion"),
        ("f<int", "f<int"),
        ("\x1b[2J\nevil", "\x1b[2J\nevil"),
        ("f<" * 100 + "int" + ">" * 100, "f<" * 100 + "int" + ">" * 100),
        ("", ""),
    ],
)
def test_a_short_name_keeps_functor_and_element_types(name, short):
    assert short_name(name) == short


def test_names_that_are_equal_in_short_keep_what_distinguishes_them():
    add = f"void {A}vectorized_elementwise_kernel<%d, {A}CUDAFunctor_add<float>>(int)"
    copy = f"void {A}elementwise_kernel<4, {A}{COPY}{{lambda()#%d}}::{{lambda(float)#1}}>(int)"
    names = [add % 4, add % 8, copy % 6, copy % 7, "void other<float>(int)"]
    found = list(short_names(names).values())
    assert found[:2] == [
        "vectorized_elementwise<4, CUDAFunctor_add<float>>",
        "vectorized_elementwise<8, CUDAFunctor_add<float>>",
    ]
    copies = [re.fullmatch(r"elementwise<direct_copy<float>> #[0-9a-f]{8}", x) for x in found[2:4]]
    assert all(copies)
    assert found[2] != found[3]
    assert found[4] == "other<float>"
    assert short_names(reversed(names)) == short_names(names)


def test_a_name_that_looks_like_a_short_name_stays_different():
    names = ["f<1, int>(T)", "f<2, int>(T)", "f<1, int>", "f<int>", "a::f<int>", "b::f<int>"]
    names += [f"{short} " for short in short_names(names).values()]
    found = short_names(names)
    assert len(set(found.values())) == len(names)


PARTS = st.sampled_from(
    [
        *"<>(){}[],: ab1*#",
        "::",
        "a::b",
        "kernel",
        "(int)4",
        "float",
        "const",
        "operator()",
        "f<int>",
    ]
)


@given(st.lists(st.lists(PARTS, max_size=12).map("".join), unique=True, max_size=12))
def test_any_names_have_different_short_names(names):
    found = short_names(names)
    assert list(found) == names
    assert max(Counter(found.values()).values(), default=1) == 1
    assert all(found[name] for name in names if name)


def real_names() -> list[str]:
    lines = (DATA / "kernel_names.tsv").read_text().splitlines()
    return [line.split("\t")[2] for line in lines if line and not line.startswith("#")]


@pytest.mark.parametrize("name", captures.names())
def test_the_kernels_of_a_recording(name, capture):
    trace = warpline.open(capture(name))
    if not trace.has("kernel"):
        pytest.skip("without kernels")
    ids = trace.columns("kernel", "name_id")["name_id"].values
    names = set(trace.strings.texts(sorted(set(ids.tolist()))))
    short = short_names(names)
    assert len(set(short.values())) == len(names)
    for full, text in short.items():
        assert not text.startswith("void ")
        assert "at::native" not in text
        assert "lambda" not in text
        assert "<" not in full or len(text) <= max(80, len(full) // 3)


def test_names_met_in_captures():
    short = {name: short_name(name) for name in dict.fromkeys(real_names())}
    cut = [name for name in short if name.count("<") != name.count(">") or "(" in name[-60:]]
    whole = set(short) - set(cut)
    assert len(whole) > 250
    for name in whole:
        assert short[name], name
        assert not re.match(r"void |at::", short[name]), name
        assert len(short[name]) <= len(name)
