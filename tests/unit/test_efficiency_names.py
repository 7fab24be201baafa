"""What names and grids say of kernels: tensors, elements, types, alignment."""

from __future__ import annotations

import pytest
from support.kernel_names import (
    BF16,
    MISALIGNED,
    NVJET,
    SGEMM,
    SOFTMAX_BLOCK,
    binary,
    copy,
    softmax_warp,
    strided,
    unary,
    vectorized,
)
from support.programs import Program

from warpline.derived.efficiency.elementwise import elementwise_work, memory_rates
from warpline.derived.efficiency.elementwise_names import elementwise_name
from warpline.derived.efficiency.products import Arithmetic, product_name
from warpline.derived.efficiency.softmax_names import softmax_name
from warpline.trace import Trace

KINETO_ADD = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>,"
    " at::detail::Array<char*, 3> >(int, at::native::CUDAFunctor_add<float>,"
    " at::detail::Array<char*, 3>)"
)
SIGMOID_BACKWARD = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::sigmoid_backward_kernel_cuda("
    "at::TensorIteratorBase&)::{lambda()#2}::operator()() const::{lambda(c10::Half, c10::Half)#1},"
    " std::array<char*, 3ul> >(int)"
)
CAST = (
    "void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda("
    "at::TensorIteratorBase&)::{lambda(float)#1}, std::array<char*, 2ul>, 4,"
    " TrivialOffsetCalculator<1>, TrivialOffsetCalculator<1>, at::native::memory::LoadWithCast<1>,"
    " at::native::memory::StoreWithCast<1> >(int)"
)
TO_BF16 = vectorized("at::native::bfloat16_copy_kernel_cuda(X)::[lambda(float) (instance 1)]", 2)
EQUAL = vectorized(
    "at::native::BinaryFunctor<float, float, bool, at::native::CompareEqFunctor<float>>", 3, 4
)


@pytest.mark.parametrize(
    ("name", "inputs", "read", "written", "per_thread"),
    [
        (KINETO_ADD, 2, 4, 4, 0),
        (SIGMOID_BACKWARD, 2, 2, 2, 0),
        (CAST, 1, 2, 4, 4),
        (TO_BF16, 1, 4, 2, 0),
        (EQUAL, 2, 4, 1, 0),
        (vectorized(unary(BF16), 2), 1, 2, 2, 0),
        (vectorized("at::native::FillFunctor<float>", 1), 0, 0, 4, 0),
        (strided(binary("float"), 2), 2, 4, 4, 2),
        (strided(copy(BF16)), 1, 2, 2, 4),
        ("cupy_multiply__float32_float_float32", 1, 4, 4, 1),  # by a scalar
        ("cupy_add__float64_float64_float64", 2, 8, 8, 1),
        ("cupy_greater__float32_float32_bool", 2, 4, 1, 1),
        ("cupy_maximum__float16_float16_float16", 2, 2, 2, 1),
        ("cupy_copy__complex64_complex64", 1, 8, 8, 1),
    ],
)
def test_elementwise_names(name, inputs, read, written, per_thread):
    said = elementwise_name(name)
    assert said is not None
    assert (said.inputs, said.input_bytes, said.output_bytes) == (inputs, read, written)
    assert said.per_thread == per_thread
    assert said.bytes_per_element == inputs * read + written


def test_other_names_say_nothing():
    assert elementwise_name("void my::elementwise_add<float>(int)") is None
    assert elementwise_name("void at::native::index_elementwise_kernel<128, 4, F>(int)") is None
    unknown = elementwise_name(vectorized("at::native::AddFunctor<c10::complex<float>>", 3))
    assert unknown is not None
    assert unknown.bytes_per_element == 0


def kernels(*launched: tuple[str, int, int], gpu: str = "NVIDIA H200") -> Trace:
    """Return a recording of kernels of 128 threads a block: name, blocks, and duration."""
    program, now = Program(), 0
    for name, blocks, ns in launched:
        work = (now + 10_000, now + 10_000 + ns)
        program.launch(now, now + 5_000, work, name, grid=(blocks,), block=(128,))
        now += 20_000 + ns
    return program.trace(gpu)


def test_elements_are_blocks_times_threads_times_elements_of_a_thread():
    trace = kernels(
        (strided(binary(BF16)), 1000, 5_000),  # 4 per thread, by its name
        (vectorized(binary(BF16), 3), 500, 5_000),  # 8, as vectors of 8 exist
        (NVJET, 132, 5_000),
    )
    work = elementwise_work(trace)
    assert work.elements.tolist() == [1000 * 128 * 4, 500 * 128 * 8, 0]
    assert work.bytes.tolist() == [1000 * 128 * 4 * 6, 500 * 128 * 8 * 6, 0]
    assert work.slack.tolist() == [128 * 4, 128 * 8, 0]


def test_a_thread_has_sixteen_bytes_at_most():
    trace = kernels((vectorized(binary("bool"), 3, vector=16), 1000, 5_000))
    assert elementwise_work(trace).elements.tolist() == [1000 * 128 * 16]


def test_old_pytorch_has_four_elements_per_thread():
    name = vectorized(unary(BF16), 2, vector=4)
    assert elementwise_work(kernels((name, 1000, 5_000))).elements.tolist() == [512_000]


def test_the_bandwidth_says_how_many_floats_a_thread_has():
    """65,536 blocks x 128 x 4 floats of 12 bytes are 403 MB; twice that with 8 per thread."""
    name = vectorized(binary("float"), 3, vector=4)
    # At 4 TB/s with 4 floats per thread, 8 would exceed the H200's 4.8 TB/s.
    old = kernels((name, 65_536, 100_663))
    assert elementwise_work(old).elements.tolist() == [65_536 * 128 * 4]
    new = kernels((name, 65_536, 201_327))
    assert elementwise_work(new).elements.tolist() == [65_536 * 128 * 8]


def test_the_bandwidth_of_a_gpu_is_that_of_its_large_vectorized_kernels():
    name = vectorized(unary("float"), 2)
    blocks = 262_144  # 2^28 floats, read and written: 2,147 MB
    trace = kernels(*((name, blocks, ns) for ns in (500_000, 510_000, 520_000, 900_000)))
    (rate, _) = memory_rates(trace)
    assert rate is not None
    # The upper quartile of 4.295, 4.211, 4.130, and 2.386 TB/s.
    assert rate.central == pytest.approx((4.2108 + 0.25 * (4.2950 - 4.2108)) * 1e12, rel=1e-3)
    assert rate.low == rate.high == rate.central


def test_without_large_kernels_the_bandwidth_is_a_share_of_the_peak():
    (rate, _) = memory_rates(kernels((vectorized(unary("float"), 2), 100, 4_000)))
    assert rate is not None
    assert tuple(rate) == pytest.approx((3.84e12, 4.32e12, 4.464e12))
    assert memory_rates(kernels((NVJET, 1, 1), gpu="An unknown GPU")) == (None, None)


def test_no_kernels_at_all():
    work = elementwise_work(Program().trace("NVIDIA H200"))
    assert [len(part) for part in (work.elements, work.bytes, work.kind)] == [0, 0, 0]


@pytest.mark.parametrize(
    ("name", "arithmetic", "alignment"),
    [
        (SGEMM, Arithmetic.PLAIN, 0),
        ("volta_sgemm_128x64_nn", Arithmetic.PLAIN, 0),
        ("cudnn_infer_volta_scudnn_128x64_relu_medium_nn_v1", Arithmetic.PLAIN, 0),
        # SIMT kernels are always aligned to one element.
        ("void cutlass::Kernel2<cutlass_80_simt_sgemm_128x256_8x4_nt_align1>", Arithmetic.PLAIN, 0),
        ("cudnn_infer_volta_scudnn_winograd_128x128_ldg1", Arithmetic.TRANSFORM, 0),
        ("void fft2d_r2c_32x32<float, false, 1u, true>", Arithmetic.TRANSFORM, 0),
        (NVJET, Arithmetic.TENSOR, 0),
        (MISALIGNED, Arithmetic.TENSOR, 1),
        (MISALIGNED.replace("align1", "align4"), Arithmetic.TENSOR, 4),
        (MISALIGNED.replace("align1", "align8"), Arithmetic.TENSOR, 0),
        (MISALIGNED.replace("align1", "align16"), Arithmetic.TENSOR, 0),
        # TF32: four elements are full alignment.
        ("void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_64x64_32x6_tn_align4>", 1, 0),
        ("void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_64x64_32x4_nn_align1>", 1, 1),
        ("sm80_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize64x64x32_stage6_aligna2_alignc8", 1, 2),
        ("my_gemm", Arithmetic.UNKNOWN, 0),
    ],
)
def test_product_names(name, arithmetic, alignment):
    said = product_name(name)
    assert int(said.arithmetic) == int(arithmetic)
    assert said.alignment == alignment


def test_softmax_names():
    long = softmax_name(softmax_warp(10))
    assert long is not None
    assert (long.is_backward, long.log2_columns, long.rows_per_warp) == (False, 10, 1)
    short = softmax_name(softmax_warp(7, backward=True))
    assert short is not None
    assert (short.is_backward, short.rows_per_warp) == (True, 2)
    causal = softmax_name(
        "void (anonymous namespace)::scaled_upper_triang_masked_softmax_warp_forward<c10::Half,"
        " c10::Half, float, 11>(c10::Half*)"
    )
    assert causal is not None
    assert causal.is_causal
    assert causal.log2_columns == 11
    block = softmax_name(SOFTMAX_BLOCK)
    assert block is not None
    assert block.rows_per_warp == 0
    for loss in (softmax_warp(10, log=True), SOFTMAX_BLOCK.replace("SoftMaxF", "LogSoftMaxF")):
        assert softmax_name(loss) is None
    assert softmax_name("flash_fwd_softmax_kernel<64>") is None


def test_names_of_a_megabyte_are_parsed_at_once():
    long = "cutlass_80_" * 100_000
    assert product_name(long).alignment == 0
    endless = "void vectorized_elementwise_kernel<4, " + "lambda(" * 200_000
    said = elementwise_name(endless)
    assert said is not None
    assert said.bytes_per_element == 0


def test_damaged_names_and_grids_do_not_overflow():
    huge = 2**63 - 1
    program = Program()
    names = (
        vectorized(binary(BF16), 3, vector=huge),
        strided(binary(BF16), huge),
        softmax_warp(huge),
    )
    for number, name in enumerate((*names, vectorized(binary(BF16), 3), SOFTMAX_BLOCK)):
        start = 100_000 * number
        times = (start + 10_000, start + 20_000)
        program.launch(
            start, start + 5_000, times, name, grid=(huge, huge, huge), block=(huge, -1, 5)
        )
    work = elementwise_work(program.trace("NVIDIA H200"))
    assert (work.elements >= 0).all()
    assert (work.bytes >= 0).all()
    assert elementwise_name(names[0]) is None
    assert softmax_name(names[2]) is None


@pytest.mark.parametrize(
    "name",
    [
        "cupy_sum__float32_float32",
        "cupy_max__float32_float32",
        "cupy_argmax__float32_int64",
        "cupy_take__float32_int32_int64_int64_int64_float32",
        "cupy_add__thing_float32",
        "cupy_add",
        "cupy_",
    ],
)
def test_other_kernels_of_cupy_are_not_elementwise(name: str) -> None:
    assert elementwise_name(name) is None
