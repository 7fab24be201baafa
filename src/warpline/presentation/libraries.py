"""How libraries spell their names, by the origin of a kernel; the others are words of ours."""

from __future__ import annotations

_LIBRARIES = {
    "cublas": "cuBLAS",
    "cudnn": "cuDNN",
    "cutlass": "CUTLASS",
    "cufft": "cuFFT",
    "curand": "cuRAND",
    "cusparse": "cuSPARSE",
    "cusolver": "cuSOLVER",
    "cub": "CUB",
    "tensorrt": "TensorRT",
    "flash-attention": "FlashAttention",
    "nccl": "NCCL",
    "rccl": "RCCL",
    "nvshmem": "NVSHMEM",
    "deepep": "DeepEP",
    "rocm": "ROCm",
    "triton": "Triton",
    "xla": "XLA",
    "library": "other libraries",
    "user": "user code",
}


def library_name(origin: str) -> str:
    """Return the name of a library as users write it."""
    return _LIBRARIES.get(origin, origin)
