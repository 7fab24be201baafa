"""A third set of programs with kernels in Triton; docstrings describe the bad variant's problem."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from blind.harness import Setting, Step
from blind.torch_side import FRAMEWORK as FRAMEWORK  # noqa: PLC0414 - for run.py


@triton.jit
def _slopes_of_rows(shares, slopes, changes, columns, ROWS: tl.constexpr, BLOCK: tl.constexpr):  # noqa: ANN001, ANN202, N803
    """The backward pass of softmax for many rows per program, which reads them twice."""
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    places = tl.arange(0, BLOCK)
    inside = (places < columns)[None, :] & (rows >= 0)[:, None]
    offsets = rows[:, None] * columns + places[None, :]
    share = tl.load(shares + offsets, mask=inside, other=0.0).to(tl.float32)
    slope = tl.load(slopes + offsets, mask=inside, other=0.0).to(tl.float32)
    along = tl.sum(share * slope, 1)
    tl.debug_barrier()
    share = tl.load(shares + offsets, mask=inside, other=0.0).to(tl.float32)
    slope = tl.load(slopes + offsets, mask=inside, other=0.0).to(tl.float32)
    change = share * (slope - along[:, None])
    tl.store(changes + offsets, change.to(changes.dtype.element_ty), mask=inside)


@triton.jit
def _slopes_of_row(shares, slopes, changes, columns, BLOCK: tl.constexpr):  # noqa: ANN001, ANN202, N803
    """The backward pass of softmax for one row per program."""
    places = tl.arange(0, BLOCK)
    inside = places < columns
    offsets = tl.program_id(0) * columns + places
    share = tl.load(shares + offsets, mask=inside, other=0.0).to(tl.float32)
    slope = tl.load(slopes + offsets, mask=inside, other=0.0).to(tl.float32)
    change = share * (slope - tl.sum(share * slope, 0))
    tl.store(changes + offsets, change.to(changes.dtype.element_ty), mask=inside)


def tall_tiles(setting: Setting) -> Step:
    """The backward pass of softmax holds 32 whole rows per program, which registers cannot."""
    rows, columns = setting.size(16_384, 64), setting.size(1000, 48)
    layers, tall = setting.size(4, 2), 32
    device = setting.device
    logits = torch.randn(layers, rows, columns, device=device)
    shares = logits.softmax(-1).bfloat16()
    first = torch.randn(rows, columns, device=device, dtype=torch.bfloat16)
    block = triton.next_power_of_2(columns)

    def backward(share: torch.Tensor, slope: torch.Tensor) -> torch.Tensor:
        change = torch.empty_like(slope)
        if setting.bad:
            _slopes_of_rows[(rows // tall,)](
                share, slope, change, columns, ROWS=tall, BLOCK=block, num_warps=8
            )
        else:
            _slopes_of_row[(rows,)](share, slope, change, columns, BLOCK=block, num_warps=8)
        return change

    def step(number: int) -> torch.Tensor:
        slope = torch.roll(first, number % 8, 1)
        found = []
        for share in shares:
            change = backward(share, slope)
            slope = slope + change * columns
            found.append(change[:8].float() * columns)
        return torch.cat(found)

    return step


@triton.jit
def _attend_by_head(  # noqa: ANN202, PLR0913, PLR0917 - a kernel
    query, keys, values, parts, peaks, sums, length,  # noqa: ANN001
    GROUP: tl.constexpr, WIDTH: tl.constexpr, SPLITS: tl.constexpr, BLOCK: tl.constexpr,  # noqa: N803
):  # fmt: skip
    """Attend from a group of heads to a part of the keys that they share, head by head."""
    pair, split = tl.program_id(0).to(tl.int64), tl.program_id(1)
    columns = tl.arange(0, WIDTH)
    share = length // SPLITS
    for head in range(GROUP):
        own = pair * GROUP + head
        asked = tl.load(query + own * WIDTH + columns).to(tl.float32) * (WIDTH**-0.5)
        peak = -float("inf")
        total = 0.0
        seen = tl.zeros([WIDTH], dtype=tl.float32)
        for begin in range(0, share, BLOCK):
            rows = pair * length + split * share + begin + tl.arange(0, BLOCK)
            places = rows[:, None] * WIDTH + columns[None, :]
            score = tl.sum(tl.load(keys + places).to(tl.float32) * asked[None, :], 1)
            highest = tl.maximum(peak, tl.max(score, 0))
            weight = tl.exp(score - highest)
            scale = tl.exp(peak - highest)
            value = tl.load(values + places).to(tl.float32)
            seen = seen * scale + tl.sum(value * weight[:, None], 0)
            total = total * scale + tl.sum(weight, 0)
            peak = highest
        place = own * SPLITS + split
        tl.store(parts + place * WIDTH + columns, seen / total)
        tl.store(peaks + place, peak)
        tl.store(sums + place, total)


@triton.jit
def _attend_by_group(  # noqa: ANN202, PLR0913, PLR0917 - a kernel
    query, keys, values, parts, peaks, sums, length,  # noqa: ANN001
    GROUP: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr, SPLITS: tl.constexpr,  # noqa: N803
    BLOCK: tl.constexpr,  # noqa: N803
):  # fmt: skip
    """Attend from a group of heads to a part of the keys that they share, in one matrix."""
    pair, split = tl.program_id(0).to(tl.int64), tl.program_id(1)
    columns, heads = tl.arange(0, WIDTH), tl.arange(0, ROWS)
    real = heads < GROUP
    own = pair * GROUP + heads
    asked = tl.load(query + own[:, None] * WIDTH + columns[None, :], mask=real[:, None], other=0.0)
    peak = tl.full([ROWS], -float("inf"), dtype=tl.float32)
    total = tl.zeros([ROWS], dtype=tl.float32)
    seen = tl.zeros([ROWS, WIDTH], dtype=tl.float32)
    share = length // SPLITS
    for begin in range(0, share, BLOCK):
        rows = pair * length + split * share + begin + tl.arange(0, BLOCK)
        places = rows[:, None] * WIDTH + columns[None, :]
        score = tl.dot(asked, tl.trans(tl.load(keys + places))) * (WIDTH**-0.5)
        highest = tl.maximum(peak, tl.max(score, 1))
        weight = tl.exp(score - highest[:, None])
        scale = tl.exp(peak - highest)
        value = tl.load(values + places)
        seen = seen * scale[:, None] + tl.dot(weight.to(value.dtype), value)
        total = total * scale + tl.sum(weight, 1)
        peak = highest
    place = own * SPLITS + split
    found = seen / total[:, None]
    tl.store(parts + place[:, None] * WIDTH + columns[None, :], found, mask=real[:, None])
    tl.store(peaks + place, peak, mask=real)
    tl.store(sums + place, total, mask=real)


def reread_keys(setting: Setting) -> Step:
    """Decode attention reads the keys that a group of heads shares once per head."""
    batch, shared, group = setting.size(32, 2), setting.size(8, 1), setting.size(8, 4)
    length, width, layers = setting.size(8192, 64), setting.size(128, 16), setting.size(4, 1)
    splits, block, device = 4, setting.size(64, 16), setting.device
    shape = (batch * shared, length, width)
    keys, values = (
        torch.randn(layers, *shape, device=device, dtype=torch.float16) for _ in range(2)
    )
    first = torch.randn(batch * shared * group, width, device=device, dtype=torch.float16)
    grid = (batch * shared, splits)

    def attend(layer: int, query: torch.Tensor) -> torch.Tensor:
        parts = torch.empty(len(query), splits, width, device=device)
        peaks, sums = torch.empty(2, len(query), splits, device=device)
        data = (query, keys[layer], values[layer], parts, peaks, sums, length)
        if setting.bad:
            _attend_by_head[grid](*data, GROUP=group, WIDTH=width, SPLITS=splits, BLOCK=block)
        else:
            _attend_by_group[grid](
                *data, GROUP=group, ROWS=16, WIDTH=width, SPLITS=splits, BLOCK=block
            )
        weight = sums * (peaks - peaks.amax(1, keepdim=True)).exp()
        weight = weight / weight.sum(1, keepdim=True)
        return (parts * weight[:, :, None]).sum(1)

    def step(number: int) -> torch.Tensor:
        query = torch.roll(first, number % 8, 0)
        for layer in range(layers):
            found = attend(layer, query)
            query = (query + 8 * found.to(query.dtype)) * 0.7
        return found

    return step
