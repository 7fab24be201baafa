"""Compiled by Triton 3.8 to softmax.sm_90.cubin and softmax.sm_80.cubin, without a GPU."""

import triton
import triton.language as tl


@triton.jit
def softmax(x, out, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    v = tl.load(x + row * n + cols, mask=cols < n, other=-float("inf"))
    v = v - tl.max(v, axis=0)
    e = tl.exp(v)
    tl.store(out + row * n + cols, e / tl.sum(e, axis=0), mask=cols < n)
