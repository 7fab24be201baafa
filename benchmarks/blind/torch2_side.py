"""Models of the programs in torch2_training.py."""

from __future__ import annotations

import itertools
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - as every program names it
import torchvision
from torch import nn


class DetectorLayer(nn.Module):
    """A layer of a detection transformer: attention among `x` and, in a decoder, to the image."""

    def __init__(self, width: int, heads: int, *, decodes: bool, need_weights: bool) -> None:
        super().__init__()
        self.need_weights = need_weights
        self.own = nn.MultiheadAttention(width, heads, batch_first=True)
        self.image = nn.MultiheadAttention(width, heads, batch_first=True) if decodes else None
        self.feed_forward = nn.Sequential(
            nn.Linear(width, 4 * width), nn.ReLU(), nn.Linear(4 * width, width)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))

    def forward(self, x: torch.Tensor, memory: torch.Tensor | None = None) -> torch.Tensor:
        """Return the layer's output, shaped like `x`: (batch, tokens, width)."""
        seen, _ = self.own(x, x, x, need_weights=self.need_weights)
        x = self.norms[0](x + seen)
        if self.image is not None:
            seen, _ = self.image(x, memory, memory, need_weights=self.need_weights)
            x = self.norms[1](x + seen)
        return self.norms[2](x + self.feed_forward(x))


class Detector(nn.Module):
    """A convolutional backbone, a transformer over its last features, and object queries."""

    def __init__(self, queries: int, layers: int, *, need_weights: bool) -> None:
        super().__init__()
        resnet = torchvision.models.resnet18(weights=None)
        self.backbone = nn.Sequential(*list(resnet.children())[:-2])
        width, heads = 256, 8
        self.project = nn.Conv2d(512, width, 1)
        self.encoder = DetectorLayer(width, heads, decodes=False, need_weights=need_weights)
        self.decoder = nn.ModuleList(
            DetectorLayer(width, heads, decodes=True, need_weights=need_weights)
            for _ in range(layers)
        )
        self.queries = nn.Parameter(torch.randn(queries, width))
        self.classes, self.boxes = nn.Linear(width, 80), nn.Linear(width, 4)

    def forward(self, images: torch.Tensor) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Return every decoder layer's classes and boxes of each query."""
        features = self.project(self.backbone(images)).flatten(2).transpose(1, 2)
        memory = self.encoder(features)
        x = self.queries.expand(len(images), -1, -1)
        found = []
        for layer in self.decoder:
            x = layer(x, memory)
            found.append((self.classes(x), self.boxes(x).sigmoid()))
        return found


class ImageEncoder(nn.Module):
    """The encoder of a VAE: convolutions that make an image's latents, an eighth of its edge."""

    def __init__(self, width: int) -> None:
        super().__init__()
        layers: list[nn.Module] = [nn.Conv2d(3, width, 3, padding=1)]
        for inner, outer in ((width, width), (width, 2 * width), (2 * width, 4 * width)):
            layers += [nn.GroupNorm(8, inner), nn.SiLU(), nn.Conv2d(inner, outer, 3, padding=1)]
            layers += [nn.GroupNorm(8, outer), nn.SiLU(), nn.Conv2d(outer, outer, 3, padding=1)]
            layers += [nn.Conv2d(outer, outer, 3, stride=2, padding=1)]
        layers += [nn.GroupNorm(8, 4 * width), nn.SiLU(), nn.Conv2d(4 * width, 4, 3, padding=1)]
        self.layers = nn.Sequential(*layers)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return the latents (batch, 4, height / 8, width / 8)."""
        return self.layers(images)


class Spike(torch.autograd.Function):
    """A step whose gradient is that of a sigmoid."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        """Return 1 where a neuron fires."""
        ctx.save_for_backward(x)
        return (x >= 0).to(x.dtype)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        """Return the surrogate gradient."""
        share = torch.sigmoid(4 * ctx.saved_tensors[0])
        return gradient * 4 * share * (1 - share)


class Neurons(nn.Module):
    """Leaky neurons that integrate their input over time and fire."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the spikes, shaped like `x`, whose first axis is time."""
        potential = torch.zeros_like(x[0])
        spikes = []
        for now in x:
            potential = potential + (now - potential) / 2
            spike = Spike.apply(potential - 1)
            potential = potential * (1 - spike.detach())
            spikes.append(spike)
        return torch.stack(spikes)


class SpikingLinear(nn.Module):
    """A linear layer, batch normalization and neurons."""

    def __init__(self, inner: int, outer: int) -> None:
        super().__init__()
        self.linear, self.norm, self.fire = (
            nn.Linear(inner, outer),
            nn.BatchNorm1d(outer),
            Neurons(),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return spikes (time, batch, tokens, outer)."""
        y = self.linear(x)
        return self.fire(self.norm(y.flatten(0, 2)).view(y.shape))


class SpikingBlock(nn.Module):
    """Attention and a feed-forward network of spiking neurons."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.out = (SpikingLinear(width, width) for _ in range(4))
        self.seen = Neurons()
        self.inner, self.outer = SpikingLinear(width, 4 * width), SpikingLinear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the block's output, shaped like `x`: (time, batch, tokens, width)."""
        query, key, value = (
            part(x).unflatten(-1, (self.heads, -1)).transpose(2, 3)
            for part in (self.query, self.key, self.value)
        )
        seen = (query @ key.transpose(-2, -1)) @ value * 0.125
        x = x + self.out(self.seen(seen.transpose(2, 3).flatten(-2)))
        return x + self.outer(self.inner(x))


class SpikingTransformer(nn.Module):
    """A vision transformer of spiking neurons that sees each image four times."""

    def __init__(self, width: int, layers: int, heads: int) -> None:
        super().__init__()
        widths = [3, width // 8, width // 4, width // 2, width]
        self.stem = nn.ModuleList(
            nn.Sequential(nn.Conv2d(inner, outer, 3, padding=1, bias=False), nn.BatchNorm2d(outer))
            for inner, outer in itertools.pairwise(widths)
        )
        self.fire = Neurons()
        self.blocks = nn.ModuleList(SpikingBlock(width, heads) for _ in range(layers))
        self.head = nn.Linear(width, 100)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return the logits of each image."""
        x = images.expand(4, *images.shape)
        for convolution in self.stem:
            y = convolution(x.flatten(0, 1))
            x = self.fire(y.unflatten(0, (4, -1)))
            x = F.max_pool2d(x.flatten(0, 1), 2).unflatten(0, (4, -1))
        x = x.flatten(-2).transpose(-2, -1)
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean((0, 2)))
