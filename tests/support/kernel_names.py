"""Names of kernels of PyTorch, cuBLAS, and CUTLASS, as recorded by Nsight Systems or CUPTI."""

from __future__ import annotations

_ITERATOR = "at::TensorIteratorBase &"


def vectorized(functor: str, tensors: int, vector: int = 8) -> str:
    """Return the name of an elementwise kernel on contiguous tensors."""
    return (
        f"void at::native::vectorized_elementwise_kernel<(int){vector}, {functor},"
        f" std::array<char *, (unsigned long){tensors}>>(int, T2, T3)"
    )


def strided(functor: str, per_thread: int = 4) -> str:
    """Return the name of an elementwise kernel on tensors with any strides."""
    return (
        f"void at::native::elementwise_kernel<(int)128, (int){per_thread}, void"
        f" at::native::gpu_kernel_impl_nocast<{functor}>({_ITERATOR}, const T1 &)::"
        "[lambda(int) (instance 1)]>(int, T3)"
    )


def binary(kind: str, operator: str = "Mul") -> str:
    """Return a functor of two tensors of a type, such as ``float``."""
    return (
        f"at::native::BinaryFunctor<{kind}, {kind}, {kind},"
        f" at::native::binary_internal::{operator}Functor<float>>"
    )


def unary(kind: str, operator: str = "Mul") -> str:
    """Return a functor of a tensor of a type and a scalar."""
    return binary(kind, operator).replace("BinaryFunctor", "AUnaryFunctor")


def copy(kind: str) -> str:
    """Return the functor of a copy of a type."""
    return (
        f"at::native::direct_copy_kernel_cuda({_ITERATOR})::[lambda() (instance 3)]::"
        f"operator ()() const::[lambda({kind}) (instance 1)]"
    )


def softmax_warp(log2_columns: int, *, backward: bool = False, log: bool = False) -> str:
    """Return the name of a softmax kernel for rows of up to 1,024 elements."""
    which = "backward" if backward else "forward"
    return (
        f"void <unnamed>::softmax_warp_{which}<c10::BFloat16, c10::BFloat16, float,"
        f" (int){log2_columns}, (bool){int(log)}, (bool)0>(T2 *, const T1 *, int, int, int,"
        " const bool *, int, bool)"
    )


BF16 = "c10::BFloat16"
SOFTMAX_BLOCK = (
    "void at::native::<unnamed>::cunn_SoftMaxForward<(int)8, c10::BFloat16, float, c10::BFloat16,"
    " at::native::<unnamed>::SoftMaxForwardEpilogue>(T4 *, const T2 *, int)"
)
SGEMM = "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize256x64x8_stage3_warpsize2x2x1_ffma_aligna4"
MISALIGNED = (
    "void cutlass::Kernel2<cutlass_75_tensorop_bf16_s1688gemm_bf16_128x128_nn_align1>(T1::Params)"
)
ALIGNED = MISALIGNED.replace("align1", "align8")
NVJET = "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NNT"
