"""Benchmarks through PyTorch."""

from __future__ import annotations

from collections.abc import Mapping
from ctypes import c_void_p
from functools import partial
from typing import Any

import torch

from warpline.bench import operands
from warpline.bench.driver import Driver
from warpline.bench.refusals import RefusedError
from warpline.bench.timing import Call

_DTYPES = {
    "fp64": "float64",
    "fp32": "float32",
    "tf32": "float32",
    "fp16": "float16",
    "bf16": "bfloat16",
}


class Loaded:
    """The backend; see `Backend`."""

    launched = "one-element add"

    def __init__(self, driver: Driver) -> None:
        if not torch.cuda.is_available():
            raise RefusedError("this PyTorch has no CUDA")
        torch.cuda.set_device(driver.index)
        torch.set_grad_enabled(False)
        stream = torch.cuda.Stream()
        torch.cuda.set_stream(stream)
        self.stream = c_void_p(stream.cuda_stream)
        self.versions: Mapping[str, str] = {
            "torch": str(torch.__version__),
            "cuda": str(torch.version.cuda),
        }

    def gemm(self, shape: tuple[int, int, int], dtype: str) -> Call:
        """Return a GEMM."""
        rows, columns, inner = shape
        if dtype == "fp8":
            return _fp8_gemm(shape)
        torch.set_float32_matmul_precision("high" if dtype == "tf32" else "highest")
        kind = getattr(torch, _DTYPES[dtype])
        a = torch.randn(rows, inner, device="cuda", dtype=kind)
        b = torch.randn(inner, columns, device="cuda", dtype=kind)
        c = torch.empty(rows, columns, device="cuda", dtype=kind)
        return partial(torch.mm, a, b, out=c)

    def copy(self, kind: str, size: int, peer: int) -> Call:
        """Return a copy."""
        gpu = partial(torch.ones, size, dtype=torch.uint8)
        way, _, memory = kind.partition("-")
        if way == "p2p":
            source, target = gpu(device="cuda"), gpu(device=f"cuda:{peer}")
        elif way == "d2d":
            source, target = gpu(device="cuda"), gpu(device="cuda")
        else:
            host = gpu(pin_memory=memory == "pinned")
            source, target = (
                (host, gpu(device="cuda")) if way == "h2d" else (gpu(device="cuda"), host)
            )
        return partial(target.copy_, source, non_blocking=True)

    def launch(self) -> Call:
        """Return the launch of the smallest kernel."""
        return partial(torch.zeros(1, device="cuda").add_, 1)

    def graph(self, kernels: int) -> Call:
        """Return the launch of a CUDA graph."""
        call = self.launch()
        call()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(kernels):
                call()
        replay: Call = graph.replay
        return replay

    def free(self) -> None:
        """Free the memory that is no longer used."""
        torch.cuda.synchronize()
        torch.cuda.empty_cache()


def _fp8_gemm(shape: tuple[int, int, int]) -> Call:
    """Return a GEMM of E4M3 numbers with a BF16 result, as `torch._scaled_mm` is the only one."""
    rows, columns, inner = shape
    operands.check_fp8_shape(shape)
    kind: Any = getattr(torch, "float8_e4m3fn", None)
    scaled_mm: Any = getattr(torch, "_scaled_mm", None)
    if kind is None or scaled_mm is None:
        raise RefusedError(f"PyTorch {torch.__version__} has no FP8 GEMM")
    a = torch.randn(rows, inner, device="cuda").to(kind)
    b = torch.randn(columns, inner, device="cuda").to(kind).t()
    one = torch.ones((), device="cuda")
    return partial(
        scaled_mm,
        a,
        b,
        scale_a=one,
        scale_b=one,
        out_dtype=torch.bfloat16,
        use_fast_accum=True,  # else Hopper reaches about half of its peak
    )
