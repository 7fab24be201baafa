"""PyTorch, for the harness; and the models that several programs train."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - as every program names it
from blind.harness import Setting, Step
from torch import nn


class Torch:
    """PyTorch as a framework of the harness."""

    def seed(self, number: int) -> None:
        """Seed the random generators."""
        random.seed(number)
        np.random.seed(number)  # noqa: NPY002 - as programs do
        torch.manual_seed(number)

    def finish(self, result: object) -> None:
        """Wait until all work is done."""
        if torch.cuda.is_available():
            torch.cuda.synchronize()

    def array(self, result: Any) -> Any:
        """Return a tensor as an array."""
        return result.detach().float().cpu().numpy()


FRAMEWORK = Torch()


def training(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    loss_of: Callable[[int], torch.Tensor],
    after: Callable[[], object] = lambda: None,
) -> Step:
    """Return a step of training that returns its loss."""

    def step(number: int) -> torch.Tensor:
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(number)
        loss.backward()
        optimizer.step()
        after()
        return loss

    model.train()
    return step


def tokens(
    setting: Setting, vocabulary: int, batch: int, length: int, count: int = 8
) -> torch.Tensor:
    """Return batches of random tokens."""
    return torch.randint(0, vocabulary, (count, batch, length), device=setting.device)


class Block(nn.Module):
    """A layer of a transformer whose attention and feed-forward parts can be replaced."""

    def __init__(self, width: int, heads: int, feed_forward: nn.Module | None = None) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.feed_forward = feed_forward or nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(
        self, x: torch.Tensor, mask: torch.Tensor | None = None, *, causal: bool = False
    ) -> torch.Tensor:
        """Return the layer's output, shaped like `x`: (batch, length, width)."""
        batch, length, width = x.shape
        shape = (batch, length, 3, self.heads, width // self.heads)
        query, key, value = self.qkv(self.norm1(x)).view(shape).permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(query, key, value, attn_mask=mask, is_causal=causal)
        x = x + self.out(seen.transpose(1, 2).reshape(batch, length, width))
        return x + self.feed_forward(self.norm2(x))


class ResidualBlock(nn.Module):
    """A block of a denoising U-Net: two convolutions, and the embedded time in between."""

    def __init__(self, inner: int, outer: int, time_width: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(8, inner), nn.GroupNorm(8, outer)
        self.conv1 = nn.Conv2d(inner, outer, 3, padding=1)
        self.conv2 = nn.Conv2d(outer, outer, 3, padding=1)
        self.time = nn.Linear(time_width, outer)
        self.skip = nn.Conv2d(inner, outer, 1) if inner != outer else nn.Identity()

    def forward(self, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        """Return the output for images (batch, channels, height, width)."""
        y = self.conv1(F.silu(self.norm1(x))) + self.time(F.silu(time))[:, :, None, None]
        return self.skip(x) + self.conv2(F.silu(self.norm2(y)))


class DenoisingUNet(nn.Module):
    """A small U-Net like those of diffusion models."""

    def __init__(self, channels: int, base: int, levels: int, blocks: int = 2) -> None:
        super().__init__()
        self.width = base
        widths = [base * 2**level for level in range(levels)]
        time_width = 4 * base
        self.time = nn.Sequential(
            nn.Linear(base, time_width), nn.SiLU(), nn.Linear(time_width, time_width)
        )
        self.enter = nn.Conv2d(channels, base, 3, padding=1)
        self.down, self.up = nn.ModuleList(), nn.ModuleList()
        inner = base
        for width in widths:
            first = [ResidualBlock(inner, width, time_width)]
            more = [ResidualBlock(width, width, time_width) for _ in range(blocks - 1)]
            self.down.append(nn.ModuleList(first + more))
            inner = width
        for width in reversed(widths):
            first = [ResidualBlock(inner + width, width, time_width)]
            more = [ResidualBlock(width, width, time_width) for _ in range(blocks - 1)]
            self.up.append(nn.ModuleList(first + more))
            inner = width
        self.leave = nn.Conv2d(base, channels, 3, padding=1)

    def forward(self, x: torch.Tensor, timestep: torch.Tensor) -> torch.Tensor:
        """Return the predicted noise, shaped like `x`; `timestep` has one number per image."""
        half = self.width // 2
        steps = torch.arange(half, device=x.device, dtype=torch.float32)
        angles = timestep.float()[:, None] * torch.exp(-9.2 * steps / half)
        embedded = torch.cat([angles.cos(), angles.sin()], 1).to(self.time[0].weight.dtype)
        time = self.time(embedded)
        y = self.enter(x)
        kept = []
        for blocks in self.down:
            for block in blocks:
                y = block(y, time)
            kept.append(y)
            y = F.avg_pool2d(y, 2)
        for blocks in self.up:
            y = torch.cat([F.interpolate(y, scale_factor=2.0), kept.pop()], 1)
            for block in blocks:
                y = block(y, time)
        return self.leave(y)
