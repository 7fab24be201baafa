"""More programs that train in PyTorch; docstrings describe the problem of the bad variant."""

from __future__ import annotations

import functools
import math
import random
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - as every program names it
import torchvision
from blind.harness import Setting, Step
from blind.torch2_side import Detector, ImageEncoder, SpikingTransformer
from blind.torch_side import FRAMEWORK as FRAMEWORK  # noqa: PLC0414 - for run.py
from blind.torch_side import Block, DenoisingUNet, tokens, training
from torch import nn
from transformers import BertConfig, BertForSequenceClassification


def fused_adamw(model: nn.Module, rate: float = 1e-4) -> torch.optim.Optimizer:
    """Return the optimizer that these programs have in common."""
    return torch.optim.AdamW(model.parameters(), lr=rate, fused=True)


class WrittenGELU(nn.Module):
    """GELU with the approximation by tanh, as the formula is written."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the activation, shaped like `x`."""
        inner = math.sqrt(2 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))
        return 0.5 * x * (1.0 + torch.tanh(inner))


def written_gelu(setting: Setting) -> Step:
    """The activation of a GPT is eight elementwise kernels instead of one."""
    width, layers = setting.size(768, 32), setting.size(6, 2)
    vocabulary, length = setting.size(50_304, 256), setting.size(1024, 16)

    def activation() -> nn.Module:
        return WrittenGELU() if setting.bad else nn.GELU(approximate="tanh")

    def feed_forward() -> nn.Module:
        return nn.Sequential(nn.Linear(width, 4 * width), activation(), nn.Linear(4 * width, width))

    embed, places = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
    blocks = nn.ModuleList(Block(width, setting.size(12, 4), feed_forward()) for _ in range(layers))
    norm, head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)
    model = nn.ModuleList([embed, places, blocks, norm, head]).to(setting.device)
    data = tokens(setting, vocabulary, setting.size(8, 2), length + 1)
    numbers = torch.arange(length, device=setting.device)

    def loss_of(number: int) -> torch.Tensor:
        batch = data[number % 8]
        with torch.autocast(setting.device, torch.bfloat16):
            x = embed(batch[:, :-1]) + places(numbers)
            for block in blocks:
                x = block(x, causal=True)
            logits = head(norm(x))
            return F.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())

    return training(model, fused_adamw(model), loss_of)


def unused_weights(setting: Setting) -> Step:
    """nn.MultiheadAttention returns attention weights that nobody reads: no fused attention."""
    queries, batch = setting.size(500, 10), setting.size(16, 2)
    model = Detector(queries, setting.size(6, 2), need_weights=setting.bad).to(setting.device)
    model = model.to(memory_format=torch.channels_last)
    edge = setting.size(640, 64)
    images = torch.randn(batch, 3, edge, edge, device=setting.device)
    images = images.to(memory_format=torch.channels_last)
    classes = torch.zeros(batch, queries, 80, device=setting.device)
    classes[:, ::16, 3] = 1
    boxes = torch.rand(batch, queries, 4, device=setting.device)

    def loss_of(number: int) -> torch.Tensor:
        with torch.autocast(setting.device, torch.bfloat16):
            found = model(images)
        return torch.stack(
            [
                F.binary_cross_entropy_with_logits(kinds.float(), classes)
                + F.l1_loss(places.float(), boxes)
                for kinds, places in found
            ]
        ).sum()

    return training(model, fused_adamw(model), loss_of)


def max_padding(setting: Setting) -> Step:
    """Short sentences are padded to the longest input of the model, not of the batch."""
    longest, width = setting.size(512, 64), setting.size(768, 32)
    config = BertConfig(
        vocab_size=setting.size(30_522, 200),
        hidden_size=width,
        num_hidden_layers=setting.size(12, 2),
        num_attention_heads=setting.size(12, 4),
        intermediate_size=4 * width,
        max_position_embeddings=longest,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        num_labels=3,
    )
    model = BertForSequenceClassification(config).to(setting.device).bfloat16()
    draw = random.Random(0)
    batch = setting.size(32, 4)
    sentences = [
        [draw.randrange(4, config.vocab_size) for _ in range(draw.randint(8, setting.size(56, 16)))]
        for _ in range(8 * batch)
    ]
    labels = torch.randint(0, 3, (8, batch), device=setting.device)

    def padded(rows: list[list[int]]) -> tuple[torch.Tensor, torch.Tensor]:
        length = longest if setting.bad else max(map(len, rows))
        ids = torch.tensor([row + [0] * (length - len(row)) for row in rows])
        mask = torch.tensor([[1] * len(row) + [0] * (length - len(row)) for row in rows])
        return ids.to(setting.device), mask.to(setting.device)

    def loss_of(number: int) -> torch.Tensor:
        first = number % 8 * batch
        ids, mask = padded(sentences[first : first + batch])
        return model(input_ids=ids, attention_mask=mask, labels=labels[number % 8]).loss

    return training(model, fused_adamw(model), loss_of)


def encoded_images(setting: Setting) -> Step:
    """Fine-tuning of a diffusion model encodes the same images with a frozen VAE in each step."""
    encoder = ImageEncoder(setting.size(128, 16)).to(setting.device, torch.bfloat16).eval()
    encoder = encoder.requires_grad_(requires_grad=False).to(memory_format=torch.channels_last)
    model = DenoisingUNet(4, setting.size(128, 16), 3).to(setting.device)
    model = model.to(memory_format=torch.channels_last)
    batch, edge = 4, setting.size(512, 64)
    images = torch.rand(8, batch, 3, edge, edge).bfloat16() * 2 - 1
    with torch.no_grad():
        kept = torch.stack([encoder(rows.to(setting.device)).cpu() for rows in images])
    if torch.cuda.is_available():
        images, kept = images.pin_memory(), kept.pin_memory()
    noise = torch.randn(kept.shape[1:], device=setting.device)
    times = torch.randint(0, 1000, (8, batch), device=setting.device)

    def loss_of(number: int) -> torch.Tensor:
        rows = (images if setting.bad else kept)[number % 8]
        rows = rows.to(setting.device, non_blocking=True)
        if setting.bad:
            with torch.no_grad():
                rows = encoder(rows)
        share = (times[number % 8] / 1000)[:, None, None, None]
        noisy = (1 - share) * rows.float() + share * noise
        with torch.autocast(setting.device, torch.bfloat16):
            predicted = model(noisy, times[number % 8])
        return F.mse_loss(predicted.float(), noise)

    return training(model, fused_adamw(model), loss_of)


def full_fp32(setting: Setting) -> Step:
    """A transformer for molecules trains in FP32 without Tensor Cores, PyTorch's default."""
    torch.set_float32_matmul_precision("highest" if setting.bad else "high")
    width, vocabulary = setting.size(512, 32), setting.size(512, 64)
    layers, length, batch = setting.size(4, 1), setting.size(128, 8), setting.size(64, 2)
    embed = nn.Embedding(vocabulary, width)
    transformer = nn.Transformer(
        width, 8, layers, layers, 4 * width, dropout=0.0, batch_first=True, norm_first=True
    )
    head = nn.Linear(width, vocabulary)
    model = nn.ModuleList([embed, transformer, head]).to(setting.device)
    product = tokens(setting, vocabulary, batch, length)
    reactants = tokens(setting, vocabulary, batch, length + 1)
    mask = nn.Transformer.generate_square_subsequent_mask(length, device=setting.device)

    def loss_of(number: int) -> torch.Tensor:
        wanted = reactants[number % 8]
        states = transformer(
            embed(product[number % 8]), embed(wanted[:, :-1]), tgt_mask=mask, tgt_is_causal=True
        )
        return F.cross_entropy(head(states).flatten(0, 1), wanted[:, 1:].flatten())

    return training(model, fused_adamw(model), loss_of)


def checked_metrics(setting: Setting) -> Step:
    """Metrics look for NaN in each value they are given: a wait for the GPU per metric and step."""
    from torchmetrics import MeanMetric  # noqa: PLC0415 - comes with Lightning

    name = "test_vit" if setting.is_tiny else "vit_small_patch16_224"
    import timm  # noqa: PLC0415 - slow to import

    model = timm.create_model(name, pretrained=False, num_classes=100).to(setting.device)
    edge = setting.size(224, 160)
    images = torch.randn(setting.size(32, 2), 3, edge, edge, device=setting.device)
    labels = torch.randint(0, 100, (len(images),), device=setting.device)
    names = ("loss", "smooth", "top1", "top5", "confidence", "entropy", "margin", "norm")
    strategy: Any = "warn" if setting.bad else "disable"
    metrics = {name: MeanMetric(nan_strategy=strategy).to(setting.device) for name in names}

    def loss_of(number: int) -> torch.Tensor:
        with torch.autocast(setting.device, torch.bfloat16):
            logits = model(images).float()
        loss = F.cross_entropy(logits, labels)
        with torch.no_grad():
            share = logits.softmax(-1)
            best = share.topk(5, -1)
            hits = best.indices == labels[:, None]
            values = {
                "loss": loss,
                "smooth": F.cross_entropy(logits, labels, label_smoothing=0.1),
                "top1": hits[:, 0].float().mean(),
                "top5": hits.any(-1).float().mean(),
                "confidence": best.values[:, 0].mean(),
                "entropy": -(share * share.log()).sum(-1).mean(),
                "margin": (best.values[:, 0] - best.values[:, 1]).mean(),
                "norm": logits.norm(dim=-1).mean(),
            }
            for name, metric in metrics.items():
                metric.update(values[name])
        return loss

    return training(model, fused_adamw(model), loss_of)


def planar_images(setting: Setting) -> Step:
    """A convolutional network trains in mixed precision with channels first."""
    torch.backends.cudnn.benchmark = True
    model = torchvision.models.resnet50(weights=None, num_classes=100, zero_init_residual=True).to(
        setting.device
    )
    edge = setting.size(224, 64)
    images = torch.randn(setting.size(64, 4), 3, edge, edge, device=setting.device)
    if not setting.bad:
        model = model.to(memory_format=torch.channels_last)
        images = images.to(memory_format=torch.channels_last)
    labels = torch.randint(0, 100, (len(images),), device=setting.device)

    def loss_of(number: int) -> torch.Tensor:
        with torch.autocast(setting.device, torch.bfloat16):
            return F.cross_entropy(model(images).float(), labels)

    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9, fused=True)
    return training(model, optimizer, loss_of)


def replayed(work: Callable[[], torch.Tensor]) -> Callable[[], torch.Tensor]:
    """Capture `work` in a CUDA graph and return a function that replays it.

    The function holds `work`, since the graph reads its tensors without keeping them alive.
    """
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            work()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = work()

    @functools.wraps(work)
    def replay() -> torch.Tensor:
        graph.replay()
        return loss

    return replay


def small_batch(setting: Setting) -> Step:
    """A spiking network trains with a small batch: thousands of kernels of microseconds."""
    model = SpikingTransformer(setting.size(192, 32), setting.size(4, 1), 4).to(setting.device)
    edge = setting.size(224, 32)
    data = torch.randn(8, setting.size(8, 2), 3, edge, edge, device=setting.device)
    labels = torch.randint(0, 100, (data.shape[1],), device=setting.device)
    images = data[0].clone()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9, fused=True)

    def work() -> torch.Tensor:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(setting.device, torch.bfloat16, cache_enabled=False):
            logits = model(images)
        loss = F.cross_entropy(logits.float(), labels)
        loss.backward()
        return loss.detach()

    model.train()
    if not setting.bad and setting.device != "cpu":
        work = replayed(work)

    def step(number: int) -> torch.Tensor:
        images.copy_(data[number % 8])
        loss = work()
        optimizer.step()
        return loss

    return step
