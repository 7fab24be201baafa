"""Loops around models in PyTorch; docstrings describe the problem of the bad variant."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - as every program names it
from blind.harness import Setting, Step
from blind.torch_side import FRAMEWORK as FRAMEWORK  # noqa: PLC0414 - for run.py
from blind.torch_side import Block, tokens
from torch import nn


class Critic(nn.Module):
    """A language model that predicts the value of each token."""

    def __init__(self, vocabulary: int, width: int, layers: int, length: int) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, width // 64 or 1) for _ in range(layers))
        self.head = nn.Linear(width, 1)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return the values of tokens: (batch, length)."""
        x = self.tokens(tokens) + self.places.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x, causal=True)
        return self.head(x)[..., 0]


def looped_advantages(
    rewards: torch.Tensor, values: torch.Tensor, mask: torch.Tensor, discount: float, decay: float
) -> torch.Tensor:
    """Return the advantages of tokens, (batch, length), from the last token to the first."""
    following = torch.zeros_like(values[:, 0])
    advantage = torch.zeros_like(following)
    found = []
    for place in reversed(range(values.shape[1])):
        seen = mask[:, place]
        error = rewards[:, place] + discount * following - values[:, place]
        now = error + discount * decay * advantage
        following = values[:, place] * seen + following * (1 - seen)
        advantage = now * seen + advantage * (1 - seen)
        found.append(advantage)
    return torch.stack(found[::-1], 1) * mask


def summed_advantages(
    rewards: torch.Tensor, values: torch.Tensor, mask: torch.Tensor
) -> torch.Tensor:
    """Return the advantages of tokens without discount or decay."""
    kept = rewards * mask
    return (kept.flip(1).cumsum(1).flip(1) - values) * mask


def looped_gae(setting: Setting) -> Step:
    """PPO computes the advantages of its responses token by token in Python."""
    vocabulary, width = setting.size(32_000, 50), setting.size(512, 32)
    batch, length = setting.size(32, 3), setting.size(1024, 12)
    model = Critic(vocabulary, width, setting.size(6, 2), length).to(setting.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=setting.device == "cuda")
    data = tokens(setting, vocabulary, batch, length)
    lengths = torch.randint(length // 3, length + 1, (8, batch, 1), device=setting.device)
    masks = (torch.arange(length, device=setting.device) < lengths).float()
    penalties = torch.randn(8, batch, length, device=setting.device) * 0.01
    scores = torch.randn(8, batch, 1, device=setting.device)

    def predicted(text: torch.Tensor) -> torch.Tensor:
        with torch.autocast(setting.device, torch.bfloat16):
            return model(text).float()

    def step(number: int) -> torch.Tensor:
        text, mask = data[number % 8], masks[number % 8]
        ends = mask - F.pad(mask[:, 1:], (0, 1))
        rewards = penalties[number % 8] * mask + scores[number % 8] * ends
        with torch.no_grad():
            old = predicted(text) * mask
            if setting.bad:
                advantages = looped_advantages(rewards, old, mask, 1.0, 1.0)
            else:
                advantages = summed_advantages(rewards, old, mask)
            returns = advantages + old
        optimizer.zero_grad()
        values = predicted(text)
        near = old + (values - old).clamp(-0.2, 0.2)
        worst = torch.maximum((values - returns) ** 2, (near - returns) ** 2)
        loss = (worst * mask).sum() / mask.sum()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return torch.stack([loss.detach(), advantages.abs().mean()])

    return step


class Segmenter(nn.Module):
    """A detector that predicts a score and a coarse mask for each of its queries."""

    def __init__(self, width: int, layers: int, queries: int) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, 16, 16)
        self.blocks = nn.ModuleList(Block(width, width // 64 or 1) for _ in range(layers))
        self.queries = nn.Parameter(torch.randn(queries, width))
        self.decoder = nn.ModuleList(Block(width, width // 64 or 1) for _ in range(3))
        self.score, self.shape = nn.Linear(width, 1), nn.Linear(width, width)
        self.pixels = nn.ConvTranspose2d(width, width, 4, 4)

    def forward(self, images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return scores, (batch, queries), and masks, (batch, queries, height, width)."""
        features = self.patches(images)
        batch, width, height, across = features.shape
        x = features.flatten(2).transpose(1, 2)
        for block in self.blocks:
            x = block(x)
        y = self.queries.expand(batch, -1, -1)
        for block in self.decoder:
            y = block(torch.cat([y, x], 1))[:, : y.shape[1]]
        pixels = self.pixels(x.transpose(1, 2).reshape(batch, width, height, across))
        masks = torch.einsum("bqc,bchw->bqhw", self.shape(y), pixels)
        score = self.score(y)[..., 0].float()
        # The weights are random: spread the scores so that a few objects are found.
        score = (score - score.mean(1, keepdim=True)) / score.std(1, keepdim=True)
        return torch.sigmoid(2 * score - 4.6), masks.float()


def discarded_masks(setting: Setting) -> Step:
    """All masks are resized to the image's size before those with low scores are dropped."""
    width, edge = setting.size(384, 32), setting.size(640, 64)
    queries, selected = setting.size(300, 20), setting.size(100, 10)
    size = (setting.size(2160, 90), setting.size(3840, 160))
    model = Segmenter(width, setting.size(8, 2), queries).to(setting.device).eval()
    model = model.to(torch.bfloat16)
    images = torch.randn(8, 2, 3, edge, edge, device=setting.device).bfloat16()

    def found(scores: torch.Tensor, masks: torch.Tensor) -> dict[str, Any]:
        scores, chosen = scores.topk(selected)
        masks = masks[chosen]
        if not setting.bad:
            kept = scores > 0.5
            scores, masks = scores[kept], masks[kept]
        large = F.interpolate(masks[:, None], size=size, mode="bilinear", align_corners=False)
        large = large > 0
        if setting.bad:
            kept = scores > 0.5
            scores, large = scores[kept], large[kept]
        area = large.flatten(1).sum(1)
        return {"scores": scores, "areas": area, "masks": large[:, 0].cpu()}

    def step(number: int) -> torch.Tensor:
        with torch.no_grad():
            results = [found(*one) for one in zip(*model(images[number % 8]), strict=True)]
        return torch.cat([one["areas"] for one in results])

    return step
