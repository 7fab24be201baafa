"""fp64: which kernels compute in double precision, and what the rule makes of them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from support.machine import GEMM, Machine

import warpline
from warpline import plugins
from warpline.analyses.findings.fp64 import fp64
from warpline.derived.kernels.double_precision import is_double
from warpline.result import Finding, Skipped
from warpline.result.changes import ScaleOperations
from warpline.trace import Run, Trace

plugins.load("analyses")

AT = "void at::native::vectorized_elementwise_kernel<4, at::native::"
ADAM = (
    "void at::native::<unnamed>::multi_tensor_apply_kernel<TensorListMetadata<4>,"
    " FusedAdamMathFunctor<float, 4>, float *, double, double, double, double, double, bool>"
)
NORMAL = (
    "void at::native::<unnamed>::distribution_elementwise_grid_stride_kernel<float, 4,"
    " normal_kernel(at::TensorBase const &, double, double, at::CUDAGeneratorImpl *)>"
)


@pytest.mark.parametrize(
    "name",
    [
        "cupy_copy__complex64_complex128",
        "cupy_multiply__float64_float64_float64",
        f"{AT}CUDAFunctor_add<double>, std::array<char *, (unsigned long)3>>(int, T2, T3)",
        f"{AT}BinaryFunctor<c10::complex<double>, c10::complex<double>, c10::complex<double>>>",
        "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<double, sum_functor<double>>>",
        "ampere_dgemm_64x64_nn",
        "ampere_zgemm_32x32_nn",
        "volta_dgemm_128x64_tn",
        "void cutlass::Kernel2<cutlass_80_tensorop_d884gemm_64x64_16x4_nn_align1>(T1::Params)",
        "void cutlass::Kernel2<cutlass_80_tensorop_z884gemm_64x32_16x4_nn_align1>(T1::Params)",
        "sm80_xmma_gemm_f64f64_f64f64_f64_nn_n_tilesize128x128x16_stage3_warpsize4x2x1",
        "void gemvNSP_kernel<double2, double2, double2, double2, 1, 32, 4, 1024>(int)",
        "void dpRadix0064A::kernel1Mem<unsigned int, double>(kernel_arguments_t<T1>)",
        "stencil(double const *, double *, int)",
        "axpy(int, double, const double *, double *)",
        "reduce(cuDoubleComplex *)",
        # Double literals in a kernel of floats.
        "void <unnamed>::follow<double>(<unnamed>::Track const *, <unnamed>::Track *, float)",
        "void sums<double, 256>(float const *, int)",
    ],
)
def test_names_of_double_precision(name: str) -> None:
    assert is_double(name)


@pytest.mark.parametrize(
    "name",
    [
        GEMM,
        "cupy_copy__complex64_complex64",
        f"{AT}CUDAFunctor_add<float>, std::array<char *, (unsigned long)3>>(int, T2, T3)",
        ADAM,  # its learning rate and betas
        NORMAL,
        "scale(float *, double, int)",
        "void mixed<double, float>(float *)",
        "void scaled<float>(float *, double)",
        "void at::native::fill<at::BFloat16>(at::BFloat16 *, double)",
        "sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x128x32",
        "ampere_sgemm_64x64_nn",
        "edgemm_like_user_kernel(int *)",
        "doubled_buffer(int *)",
        "copy_double_buffered(int *)",
    ],
)
def test_names_of_other_types(name: str) -> None:
    assert not is_double(name)


# The filters of a radar: windows of the samples are converted, copied, and multiplied.
FILTERS = (
    ("cupy_copy__complex64_complex128", 620_000),
    ("void gemvNSP_kernel<double2, double2, double2, double2, 1, 32, 4, 1024>(int)", 450_000),
    ("cupy_copy__complex128_complex128", 35_000),
    ("void gemvNSP_kernel<double2, double2, double2, double2, 1, 16, 4, 512>(int)", 25_000),
    ("cupy_absolute__complex128_float64", 3_000),
)


def steps(kernels: Sequence[tuple[str, int]], gpu: str = "NVIDIA H200") -> Trace:
    machine = Machine()
    for _ in range(8):
        for _ in range(3):
            for name, ns in kernels:
                machine.launch(ns, name, grid=(4096,), block=(256,))
        machine.end_step()
    return machine.trace(gpu)


def found(trace: Trace) -> list[Finding]:
    result = fp64(Run(trace))
    assert not isinstance(result, Skipped)
    return list(result)


def test_filters_that_became_complex128() -> None:
    trace = steps(FILTERS)
    (item,) = found(trace)
    products, by_bytes = item.changes
    assert isinstance(products, ScaleOperations)
    assert isinstance(by_bytes, ScaleOperations)
    assert len(products.operations) == len(by_bytes.operations) == 8 * 3 * 2  # the last is short
    assert "15 kernels per step in FP64 take 3.40 ms" in item.claim
    assert "100.0% of the busy time" in item.claim
    # 3 x (655 us x 0.65 + 475 us x 0.75 + 3 us) = 2.355 ms, less rounding
    assert "they would take about 2.35 ms" in item.claim
    assert "NumPy and CuPy default to float64 and complex128" in item.fix_cuda
    assert "jax_enable_x64" in item.fix_in["jax"]
    diagnosis = warpline.analyze(trace)
    first = diagnosis.findings[0]
    assert (first.rule, first.severity, first.saving_low_ns) == ("fp64", "medium", 0)
    # Conversions to another type are no conversions of layouts, nor casts that can be dropped.
    assert {"layout-copies", "cast-copies"}.isdisjoint(each.rule for each in diagnosis.findings)


def test_single_precision_and_short_shares_are_no_finding() -> None:
    fixed = [
        (name.replace("double2", "float2").replace("128", "64").replace("float64", "float32"), ns)
        for name, ns in FILTERS
    ]
    assert found(steps(fixed)) == []
    assert found(steps([(GEMM, 1_000_000), ("scale(double *)", 40_000)])) == []


@pytest.mark.parametrize(
    ("gpu", "severity"),
    [("NVIDIA H200", "low"), ("NVIDIA L40S", "high"), ("a GPU of next year", "low")],
)
def test_in_cuda_double_precision_is_a_choice_unless_the_gpu_has_little(
    gpu: str, severity: str
) -> None:
    trace = steps([("stencil(double const *, double *, int)", 500_000)], gpu)
    (item,) = found(trace)
    assert "sinf" in item.fix_cuda
    assert ("less than a sixteenth" in item.claim) == (severity == "high")
    (priced,) = (each for each in warpline.analyze(trace).findings if each.rule == "fp64")
    assert priced.severity == severity


def test_products_gain_less_where_tensor_cores_compute_fp64() -> None:
    trace = steps([("cutlass_80_tensorop_d884gemm_64x64_16x4_nn_align1", 500_000)])
    (item,) = found(trace)
    (change,) = item.changes
    assert isinstance(change, ScaleOperations)
    assert change.factor.central == 0.75
    (little,) = found(steps([("ampere_dgemm_64x64_nn", 500_000)], "NVIDIA L40S"))
    (change,) = little.changes
    assert isinstance(change, ScaleOperations)
    assert change.factor.central == 1 / 16
