"""Programs with kernels in Triton; docstrings describe the problem of the bad variant."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from blind.harness import Setting, Step
from blind.torch_side import FRAMEWORK as FRAMEWORK  # noqa: PLC0414 - for run.py


@triton.jit
def _attend(  # noqa: ANN202, PLR0913, PLR0917 - a kernel
    query, keys, values, parts, peaks, sums, length, LENGTH: tl.constexpr, WIDTH: tl.constexpr,  # noqa: ANN001, N803
    SPLITS: tl.constexpr, BLOCK: tl.constexpr,  # noqa: N803
):  # fmt: skip
    """Attend from one query per head to a part of its keys, with a running softmax."""
    head, split = tl.program_id(0).to(tl.int64), tl.program_id(1)
    columns = tl.arange(0, WIDTH)
    asked = tl.load(query + head * WIDTH + columns).to(tl.float32) * (WIDTH**-0.5)
    peak = -float("inf")
    total = 0.0
    seen = tl.zeros([WIDTH], dtype=tl.float32)
    share: tl.constexpr = LENGTH // SPLITS
    for begin in range(0, share, BLOCK):
        rows = head * length + split * share + begin + tl.arange(0, BLOCK)
        places = rows[:, None] * WIDTH + columns[None, :]
        score = tl.sum(tl.load(keys + places).to(tl.float32) * asked[None, :], 1)
        highest = tl.maximum(peak, tl.max(score, 0))
        weight = tl.exp(score - highest)
        scale = tl.exp(peak - highest)
        seen = seen * scale + tl.sum(tl.load(values + places).to(tl.float32) * weight[:, None], 0)
        total = total * scale + tl.sum(weight, 0)
        peak = highest
    place = head * SPLITS + split
    tl.store(parts + place * WIDTH + columns, seen / total)
    tl.store(peaks + place, peak)
    tl.store(sums + place, total)


@triton.jit
def _merge(parts, peaks, sums, out, WIDTH: tl.constexpr, SPLITS: tl.constexpr):  # noqa: ANN001, ANN202, N803
    """Merge the parts of each head."""
    head = tl.program_id(0).to(tl.int64)
    columns, splits = tl.arange(0, WIDTH), tl.arange(0, SPLITS)
    peak = tl.load(peaks + head * SPLITS + splits)
    weight = tl.load(sums + head * SPLITS + splits) * tl.exp(peak - tl.max(peak, 0))
    places = (head * SPLITS + splits)[:, None] * WIDTH + columns[None, :]
    seen = tl.sum(tl.load(parts + places) * weight[:, None], 0) / tl.sum(weight, 0)
    tl.store(out + head * WIDTH + columns, seen)


def unsplit_decode(setting: Setting) -> Step:
    """Attention from one token has one program per head, too few for the GPU."""
    heads, length = 16, setting.size(65_536, 64)
    width, block = setting.size(128, 16), setting.size(64, 16)
    layers, splits = setting.size(16, 2), 1 if setting.bad else setting.size(64, 4)
    shape = (2, heads, length, width)
    keys = torch.randn(shape, device=setting.device, dtype=torch.bfloat16)
    values = torch.randn(shape, device=setting.device, dtype=torch.bfloat16)
    first = torch.randn(8, heads, width, device=setting.device)
    parts = torch.empty(heads, splits, width, device=setting.device)
    peaks, sums = parts.new_empty(heads, splits), parts.new_empty(heads, splits)

    def attend(query: torch.Tensor, layer: int) -> torch.Tensor:
        cached = (keys[layer % 2], values[layer % 2])
        sizes = {"LENGTH": length, "WIDTH": width, "SPLITS": splits, "BLOCK": block}
        _attend[(heads, splits)](query, *cached, parts, peaks, sums, length, **sizes)
        if setting.bad:
            return parts[:, 0]
        out = torch.empty_like(query)
        _merge[(heads,)](parts, peaks, sums, out, WIDTH=width, SPLITS=splits)
        return out

    def step(number: int) -> torch.Tensor:
        x = first[number % 8]
        for layer in range(layers):
            x = torch.tanh(x + 30 * attend(x, layer))
        return x

    return step


@triton.jit
def _transpose(source, out, rows, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):  # noqa: ANN001, ANN202, N803
    """Transpose one tile."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    tile = tl.load(source + row[:, None] * columns + column[None, :])
    tl.store(out + column[:, None] * rows + row[None, :], tl.trans(tile))


def strided_stores(setting: Setting) -> Step:
    """A kernel transposes row by row, so that neighboring threads write to distant addresses."""
    edge, count = setting.size(8192, 64), setting.size(15, 1)
    tile = (1, setting.size(1024, 32)) if setting.bad else (setting.size(64, 16),) * 2
    first = torch.randn(edge, edge, device=setting.device)
    other = torch.empty_like(first)
    grid = (edge // tile[0], edge // tile[1])

    def step(number: int) -> torch.Tensor:
        source, out = first, other
        for _ in range(count):
            _transpose[grid](source, out, edge, edge, ROWS=tile[0], COLUMNS=tile[1])
            source, out = out, source
        return source[:16]

    return step
