"""layout-copies: which copies convert a layout, and which have another reason."""

from __future__ import annotations

import pytest
from support.machine import GEMM, Machine

import warpline
from warpline import plugins
from warpline.analyses.findings.layout_copies import layout_copies
from warpline.derived.kernels.categories import kernel_class
from warpline.result import Finding, Skipped
from warpline.trace import Run, Trace

plugins.load("analyses")

CAT = (
    "void at::native::<unnamed>::CatArrayBatchedCopy_vectorized<OpaqueType<2>, unsigned int, 2,"
    " 128, 1, 16, 8>(char *, T1)"
)
DIRECT = (
    "void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast<"
    "at::native::direct_copy_kernel_cuda(at::TensorIteratorBase &)::[lambda() (instance 3)]>>(int)"
)


def steps(name: str, ns: int = 200_000) -> Trace:
    machine = Machine()
    for _ in range(8):
        for _ in range(10):
            machine.launch(500_000, GEMM, grid=(512,), block=(128,))
            machine.launch(ns, name, grid=(512,), block=(128,))
        machine.end_step()
    return machine.trace()


def found(trace: Trace) -> list[Finding]:
    result = layout_copies(Run(trace))
    assert not isinstance(result, Skipped)
    return list(result)


@pytest.mark.parametrize(
    "name",
    [
        DIRECT,
        "void cudnn::ops::nchwToNhwcKernel<float, float, float, false, true>",
        "void nhwcAddPaddingKernel<__nv_bfloat16, __nv_bfloat16, float, true>",
        "void at::native::batch_transpose<float>(float *)",
        "void permute_021<float>(float const *, float *)",
        "void CUTENSOR_NAMESPACE::permutationKernelPLC3<float>(int)",
        "wrapped_transpose",
        "loop_transpose_fusion_5",
        "triton_poi_fused_clone_transpose_5",
        "batched_transpose_32x32_dword",
    ],
)
def test_conversions(name: str) -> None:
    (item,) = found(steps(name))
    assert item.most_severe == "high"


@pytest.mark.parametrize(
    "name",
    [
        CAT,
        "void at::native::roll_cuda_kernel<c10::BFloat16>(c10::BFloat16 const *, c10::BFloat16 *)",
        "void at::native::<unnamed>::reflection_pad2d_out_kernel<float>(float const *, float *)",
        "void at::native::compute_cuda_kernel<long>(long const *, long const *, long *)",
        "void vllm::reshape_and_cache_flash_kernel<__nv_bfloat16, unsigned char>",
        "triton_poi_fused_cat_9",
        "loop_dynamic_update_slice_fusion",
        "wrapped_concatenate_2",
        "cupy_copy__complex64_complex128",
    ],
)
def test_copies_for_other_reasons(name: str) -> None:
    assert kernel_class(name).category == "layout-copy"  # no arithmetic
    assert found(steps(name)) == []


def test_cupy_copies_may_stay() -> None:
    """cupy.matmul copies windows of an array, and an assignment copies, by the same kernel."""
    trace = steps("cupy_copy__complex64_complex64")
    (item,) = found(trace)
    assert "cupy.matmul" in item.fix_cuda
    (priced,) = (each for each in warpline.analyze(trace).findings if each.rule == "layout-copies")
    assert priced.severity == "medium"
    assert priced.saving_low_ns == 0
    assert priced.saving_ns == pytest.approx(10 * 200_000 * 0.7, rel=0.05)
