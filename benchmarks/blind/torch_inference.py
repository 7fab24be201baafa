"""Programs that run models in PyTorch; docstrings describe the problem of the bad variant."""

from __future__ import annotations

import contextlib
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - as every program names it
import torchvision
from blind.harness import Setting, Step
from blind.torch_side import FRAMEWORK as FRAMEWORK  # noqa: PLC0414 - for run.py
from blind.torch_side import Block, DenoisingUNet, tokens
from torch import nn
from torch.nn.utils import parametrizations, parametrize
from transformers import LlamaConfig, LlamaForCausalLM


def without_gradients(step: Step) -> Step:
    """Return a step that runs without recording gradients."""

    def quiet(number: int) -> object:
        with torch.no_grad():
            return step(number)

    return quiet


def penalty_mask(setting: Setting) -> Step:
    """A sampler applies repetition penalties through boolean masks, which the CPU waits for."""
    rows, vocabulary = setting.size(128, 4), setting.size(128_256, 100)
    width = setting.size(2048, 16)
    head = nn.Linear(width, vocabulary, bias=False).to(setting.device).bfloat16()
    states = torch.randn(8, rows, width, device=setting.device).bfloat16()
    seen = torch.rand(rows, vocabulary, device=setting.device) < 0.05
    penalty = torch.full((rows, 1), 1.2, device=setting.device)

    def step(number: int) -> torch.Tensor:
        logits = head(states[number % 8]).float()
        scales = torch.where(seen, penalty, 1.0)
        if setting.bad:
            logits[logits > 0] /= scales[logits > 0]
            logits[logits <= 0] *= scales[logits <= 0]
        else:
            logits *= torch.where(logits > 0, 1.0 / scales, scales)
        return logits.max(-1).values

    return without_gradients(step)


def all_logits(setting: Setting) -> Step:
    """The language model's head runs for every position, although only the last is used."""
    config = LlamaConfig(
        vocab_size=setting.size(128_256, 500),
        hidden_size=setting.size(1024, 32),
        intermediate_size=setting.size(2816, 64),
        num_hidden_layers=setting.size(8, 2),
        num_attention_heads=setting.size(16, 4),
        num_key_value_heads=4,
    )
    model = LlamaForCausalLM(config).to(setting.device).bfloat16().eval()
    data = tokens(setting, config.vocab_size, setting.size(8, 2), setting.size(1024, 16))

    def step(number: int) -> torch.Tensor:
        if setting.bad:
            return model(input_ids=data[number % 8], use_cache=False).logits.float()[:, -1]
        found = model(input_ids=data[number % 8], use_cache=False, logits_to_keep=1)
        return found.logits[:, -1].float()

    return without_gradients(step)


class DecodingLayer(nn.Module):
    """A layer that attends from one new token to a cache with fewer heads than queries."""

    def __init__(self, setting: Setting, width: int, batch: int, length: int) -> None:
        super().__init__()
        self.repeats = setting.bad
        self.heads, self.cached_heads = width // 64, max(width // 64 // 4, 1)
        self.query, self.out = nn.Linear(width, width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        shape = (batch, self.cached_heads, length, 64)
        self.register_buffer("keys", torch.randn(shape))
        self.register_buffer("values", torch.randn(shape))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the output for `x`: (batch, width)."""
        query = self.query(x).view(len(x), self.heads, 1, 64)
        keys, values = self.keys, self.values
        if self.repeats:
            count = self.heads // self.cached_heads
            keys = keys[:, :, None].expand(-1, -1, count, -1, -1).flatten(1, 2)
            values = values[:, :, None].expand(-1, -1, count, -1, -1).flatten(1, 2)
            seen = F.scaled_dot_product_attention(query, keys, values)
        else:
            seen = F.scaled_dot_product_attention(query, keys, values, enable_gqa=True)
        x = x + self.out(seen.flatten(1))
        return x + self.down(F.silu(self.up(x)))


def repeated_heads(setting: Setting) -> Step:
    """Grouped-query attention copies the cached keys and values for every query head."""
    width, batch, length = setting.size(2048, 512), setting.size(16, 2), setting.size(4096, 16)
    layers = [DecodingLayer(setting, width, batch, length) for _ in range(setting.size(8, 2))]
    model = nn.Sequential(*layers).to(setting.device).bfloat16().eval()
    x = torch.randn(8, batch, width, device=setting.device).bfloat16()
    return without_gradients(lambda number: model(x[number % 8]))


class ResidualConvolutions(nn.Module):
    """The dilated convolutions after each upsampling of a vocoder."""

    def __init__(self, channels: int, kernel: int) -> None:
        super().__init__()
        self.first = nn.ModuleList(
            nn.Conv1d(channels, channels, kernel, dilation=d, padding=d * (kernel - 1) // 2)
            for d in (1, 3, 5)
        )
        self.second = nn.ModuleList(
            nn.Conv1d(channels, channels, kernel, padding=(kernel - 1) // 2) for _ in range(3)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the output, shaped like `x`: (batch, channels, time)."""
        for first, second in zip(self.first, self.second, strict=True):
            x = x + second(F.leaky_relu(first(F.leaky_relu(x, 0.1)), 0.1))
        return x


class Vocoder(nn.Module):
    """A generator like that of HiFi-GAN."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.enter = nn.Conv1d(80, width, 7, padding=3)
        self.ups, self.blocks = nn.ModuleList(), nn.ModuleList()
        for stride in (8, 8, 2, 2):
            up = nn.ConvTranspose1d(width, width // 2, 2 * stride, stride, stride // 2)
            width //= 2
            self.ups.append(up)
            self.blocks.append(
                nn.ModuleList(ResidualConvolutions(width, kernel) for kernel in (3, 7, 11))
            )
        self.leave = nn.Conv1d(width, 1, 7, padding=3)

    def forward(self, mel: torch.Tensor) -> torch.Tensor:
        """Return the sound (batch, 1, time) of a spectrogram (batch, 80, frames)."""
        x = self.enter(mel)
        for up, blocks in zip(self.ups, self.blocks, strict=True):
            x = up(F.leaky_relu(x, 0.1))
            x = sum(block(x) for block in blocks) / len(blocks)
        return torch.tanh(self.leave(F.leaky_relu(x)))


def weight_norm(setting: Setting) -> Step:
    """The weights of a trained vocoder are normalized again in every call."""
    model = Vocoder(setting.size(256, 32))
    convolutions = [m for m in model.modules() if isinstance(m, nn.Conv1d | nn.ConvTranspose1d)]
    for convolution in convolutions:
        parametrizations.weight_norm(convolution)
    if not setting.bad:
        for convolution in convolutions:
            parametrize.remove_parametrizations(convolution, "weight")
    model = model.to(setting.device).eval()
    mel = torch.randn(8, 1, 80, setting.size(32, 4), device=setting.device)
    return without_gradients(lambda number: model(mel[number % 8]))


def folded(convolution: nn.Conv2d, norm: Any) -> nn.Conv2d:
    """Return a convolution that includes the frozen normalization after it."""
    scale = norm.weight * (norm.running_var + norm.eps).rsqrt()
    convolution.weight.data.mul_(scale[:, None, None, None])
    convolution.bias = nn.Parameter(norm.bias - norm.running_mean * scale)
    return convolution


def fold_norms(model: Any) -> None:
    """Fold the frozen normalizations of a ResNet into its convolutions."""
    folded(model.conv1, model.bn1)
    model.bn1 = nn.Identity()
    for layer in (model.layer1, model.layer2, model.layer3, model.layer4):
        for block in layer:
            for number in (1, 2, 3):
                folded(getattr(block, f"conv{number}"), getattr(block, f"bn{number}"))
                setattr(block, f"bn{number}", nn.Identity())
            if block.downsample is not None:
                folded(block.downsample[0], block.downsample[1])
                block.downsample[1] = nn.Identity()


def frozen_norm(setting: Setting) -> Step:
    """A detector's frozen batch normalization is a multiplication and an addition of its own."""
    norm = torchvision.ops.FrozenBatchNorm2d
    model = torchvision.models.resnet50(weights=None, norm_layer=norm).eval()
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, norm):
                module.running_mean.normal_(0, 0.1)
                module.running_var.uniform_(0.8, 1.2)
                module.weight.uniform_(0.5, 1.0)
        if not setting.bad:
            fold_norms(model)
    model = model.to(setting.device, torch.bfloat16, memory_format=torch.channels_last)
    height, width = setting.size(800, 64), setting.size(1088, 64)
    images = torch.randn(setting.size(8, 1), 3, height, width, device=setting.device)
    images = images.to(torch.bfloat16, memory_format=torch.channels_last)
    return without_gradients(lambda _: model(images))


def autocast_weights(setting: Setting) -> Step:
    """FP32 weights are cast for each call, as autocast does, instead of once."""
    model = DenoisingUNet(4, setting.size(192, 16), 3).to(setting.device).eval()
    dtype = torch.float32 if setting.bad else torch.bfloat16
    model = model.to(dtype, memory_format=torch.channels_last)
    edge = setting.size(64, 16)
    latents = torch.randn(2, 4, edge, edge, device=setting.device).to(dtype)
    times = torch.tensor([999.0, 500.0], device=setting.device)

    def step(number: int) -> torch.Tensor:
        casting = torch.autocast(setting.device, torch.bfloat16)
        with casting if setting.bad else contextlib.nullcontext():
            return model(latents, times - number)

    return without_gradients(step)


def noop_mask(setting: Setting) -> Step:
    """An attention mask that masks nothing keeps attention from its fastest kernel."""
    width, length = setting.size(1024, 32), setting.size(4096, 16)
    blocks = nn.ModuleList(Block(width, setting.size(16, 4)) for _ in range(setting.size(8, 2)))
    model = blocks.to(setting.device).bfloat16().eval()
    x = torch.randn(8, 2, length, width, device=setting.device).bfloat16()
    mask = torch.ones(2, 1, length, length, dtype=torch.bool, device=setting.device)

    def step(number: int) -> torch.Tensor:
        y = x[number % 8]
        for block in model:
            y = block(y, mask if setting.bad else None)
        return y

    return without_gradients(step)
