"""More programs with kernels in Triton; docstrings describe the problem of the bad variant."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from blind.harness import Setting, Step
from blind.torch_side import FRAMEWORK as FRAMEWORK  # noqa: PLC0414 - for run.py


@triton.jit
def _row_slopes(x, slopes, scale, row, columns, WIDTH: tl.constexpr):  # noqa: ANN001, ANN202, N803
    """Return a row's gradient, and its parts of the gradients of scale and shift."""
    values = tl.load(x + row * WIDTH + columns).to(tl.float32)
    slope = tl.load(slopes + row * WIDTH + columns).to(tl.float32)
    middle = tl.sum(values, 0) / WIDTH
    spread = tl.rsqrt(tl.sum((values - middle) * (values - middle), 0) / WIDTH + 1e-5)
    normal = (values - middle) * spread
    scaled = slope * tl.load(scale + columns).to(tl.float32)
    along = tl.sum(normal * scaled, 0) / WIDTH
    change = (scaled - normal * along - tl.sum(scaled, 0) / WIDTH) * spread
    return change, slope * normal, slope


@triton.jit
def _backward_atomic(x, slopes, scale, changes, of_scale, of_shift, WIDTH: tl.constexpr):  # noqa: ANN001, ANN202, N803
    """One row per program; the gradients of scale and shift are added with atomics."""
    row = tl.program_id(0)
    columns = tl.arange(0, WIDTH)
    change, scale_part, shift_part = _row_slopes(x, slopes, scale, row, columns, WIDTH)
    tl.store(changes + row * WIDTH + columns, change.to(changes.dtype.element_ty))
    tl.atomic_add(of_scale + columns, scale_part)
    tl.atomic_add(of_shift + columns, shift_part)


@triton.jit
def _backward_partial(x, slopes, scale, changes, of_scale, of_shift, rows, WIDTH: tl.constexpr):  # noqa: ANN001, ANN202, N803, PLR0913, PLR0917
    """Few programs add up the gradients of scale and shift of many rows each."""
    program = tl.program_id(0)
    columns = tl.arange(0, WIDTH)
    scale_sum = tl.zeros([WIDTH], dtype=tl.float32)
    shift_sum = tl.zeros([WIDTH], dtype=tl.float32)
    for row in range(program, rows, tl.num_programs(0)):
        change, scale_part, shift_part = _row_slopes(x, slopes, scale, row, columns, WIDTH)
        tl.store(changes + row * WIDTH + columns, change.to(changes.dtype.element_ty))
        scale_sum += scale_part
        shift_sum += shift_part
    tl.store(of_scale + program * WIDTH + columns, scale_sum)
    tl.store(of_shift + program * WIDTH + columns, shift_sum)


def norm_atomics(setting: Setting) -> Step:
    """The backward pass of LayerNorm adds every row's gradients of the weights with atomics."""
    rows, width = setting.size(32_768, 24), setting.size(4096, 32)
    layers, device = setting.size(4, 2), setting.device
    x = torch.randn(layers, rows, width, device=device, dtype=torch.bfloat16)
    scale = torch.rand(layers, width, device=device) + 0.5
    first = torch.randn(rows, width, device=device, dtype=torch.bfloat16)
    programs = 4
    if device == "cuda":
        programs = torch.cuda.get_device_properties(0).multi_processor_count

    def backward(layer: int, slopes: torch.Tensor) -> tuple[torch.Tensor, ...]:
        changes = torch.empty_like(slopes)
        data = (x[layer], slopes, scale[layer], changes)
        if setting.bad:
            sums = torch.zeros(2, width, device=device)
            _backward_atomic[(rows,)](*data, *sums, WIDTH=width, num_warps=8)
            return changes, sums
        parts = torch.empty(2, programs, width, device=device)
        _backward_partial[(programs,)](*data, *parts, rows, WIDTH=width, num_warps=8)
        return changes, parts.sum(1)

    def step(number: int) -> torch.Tensor:
        slopes = torch.roll(first, number % 8, 1)
        found = []
        for layer in range(layers):
            slopes, sums = backward(layer, slopes)
            found.append(sums)
        return torch.cat([*found, slopes[:8].float()])

    return step
