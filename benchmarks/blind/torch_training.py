"""Programs that train in PyTorch; docstrings describe the problem of the bad variant."""

from __future__ import annotations

import copy
import time
from typing import Any

import timm
import torch
import torch.nn.functional as F  # noqa: N812 - as every program names it
from blind.harness import Setting, Step
from blind.torch_side import FRAMEWORK as FRAMEWORK  # noqa: PLC0414 - for run.py
from blind.torch_side import Block, DenoisingUNet, tokens, training
from torch import nn
from transformers import (
    BertConfig,
    BertForMaskedLM,
    GPT2Config,
    GPT2LMHeadModel,
    GPTNeoXConfig,
    GPTNeoXForCausalLM,
)


def fused_adamw(model: nn.Module, rate: float = 1e-4) -> torch.optim.Optimizer:
    """Return the optimizer that these programs have in common."""
    return torch.optim.AdamW(model.parameters(), lr=rate, fused=True)


class Experts(nn.Module):
    """A mixture of experts that finds each expert's tokens one at a time, or all at once."""

    def __init__(self, width: int, experts: int, inner: int, *, by_mask: bool) -> None:
        super().__init__()
        self.by_mask = by_mask
        self.gate = nn.Linear(width, experts, bias=False)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(width, inner), nn.SiLU(), nn.Linear(inner, width))
            for _ in range(experts)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the weighted sum of each token's two best experts."""
        flat = x.reshape(-1, x.shape[-1])
        weight, chosen = self.gate(flat).float().softmax(-1).topk(2, -1)
        weight = (weight / weight.sum(-1, keepdim=True)).to(x.dtype)
        total = torch.zeros_like(flat)
        if self.by_mask:
            for number, expert in enumerate(self.experts):
                mask = chosen == number
                if mask.any():
                    rows = mask.any(-1).nonzero().flatten()
                    share = weight[mask].view(-1, 1)
                    total.index_add_(0, rows, expert(flat[rows]) * share)
            return total.view_as(x)
        order = chosen.flatten().argsort(stable=True)
        numbers = torch.arange(len(self.experts), device=x.device)
        counts = (chosen.flatten()[:, None] == numbers).sum(0).tolist()
        groups = (order // 2).split(counts)
        shares = weight.flatten()[order].split(counts)
        for expert, rows, share in zip(self.experts, groups, shares, strict=True):
            if len(rows):
                total.index_add_(0, rows, expert(flat[rows]) * share[:, None])
        return total.view_as(x)


def moe_dispatch(setting: Setting) -> Step:
    """Each expert's tokens are found by masks: three reads of the GPU per expert and layer."""
    width, layers = setting.size(512, 32), setting.size(6, 2)
    blocks = nn.ModuleList(
        Block(width, 8, Experts(width, 8, 3 * width, by_mask=setting.bad)) for _ in range(layers)
    )
    model = blocks.to(setting.device).bfloat16()
    batch, length = setting.size(8, 2), setting.size(512, 16)
    inputs = torch.randn(batch, length, width, device=setting.device).bfloat16()

    def loss_of(number: int) -> torch.Tensor:
        x = inputs
        for block in model:
            x = block(x, causal=True)
        return x.float().pow(2).mean()

    return training(model, fused_adamw(model), loss_of)


def scheduler_indices(setting: Setting) -> Step:
    """The noise level of each image is looked up on its own with nonzero().item()."""
    model = DenoisingUNet(4, setting.size(64, 16), 3).to(setting.device)
    model = model.to(memory_format=torch.channels_last)
    batch, edge = setting.size(64, 4), setting.size(32, 16)
    images = torch.randn(batch, 4, edge, edge, device=setting.device)
    noise = torch.randn_like(images)
    timesteps = torch.linspace(1000, 1, 1000, device=setting.device)
    sigmas = timesteps / 1000
    drawn = timesteps[torch.randint(0, 1000, (8, batch), device=setting.device)]

    def places(times: torch.Tensor) -> Any:
        if setting.bad:
            return [(timesteps == moment).nonzero()[0].item() for moment in times]
        return (timesteps[:, None] == times).to(torch.uint8).argmax(0)

    def loss_of(number: int) -> torch.Tensor:
        times = drawn[number % 8]
        sigma = sigmas[places(times)][:, None, None, None]
        noisy = (1 - sigma) * images + sigma * noise
        with torch.autocast(setting.device, torch.bfloat16):
            predicted = model(noisy, times)
        return F.mse_loss(predicted.float(), noise - images)

    return training(model, fused_adamw(model), loss_of)


class GraphNetwork(nn.Module):
    """Message passing along the edges of a graph."""

    def __init__(self, width: int, layers: int, *, by_index: bool) -> None:
        super().__init__()
        self.by_index = by_index
        self.message = nn.ModuleList(nn.Linear(2 * width, width) for _ in range(layers))
        self.update = nn.ModuleList(nn.Linear(2 * width, width) for _ in range(layers))

    def forward(self, x: torch.Tensor, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """Return the nodes' features, shaped like `x`: (nodes, width)."""
        for message, update in zip(self.message, self.update, strict=True):
            if self.by_index:
                ends = torch.cat([x[source], x[target]], 1)
            else:
                ends = torch.cat([x.index_select(0, source), x.index_select(0, target)], 1)
            sent = F.relu(message(ends))
            received = torch.zeros_like(x).index_add_(0, target, sent)
            x = x + F.relu(update(torch.cat([x, received], 1)))
        return x


def index_backward(setting: Setting) -> Step:
    """Nodes are gathered with x[index], whose backward pass sorts the indices and adds serially."""
    nodes, edges = setting.size(50_000, 100), setting.size(400_000, 500)
    model = GraphNetwork(setting.size(128, 8), 3, by_index=setting.bad).to(setting.device)
    x = torch.randn(nodes, setting.size(128, 8), device=setting.device)
    # Few nodes have many edges, as in most graphs.
    ends = (torch.rand(2, edges, device=setting.device).square() * nodes).long()
    wanted = torch.randn_like(x)
    return training(
        model, fused_adamw(model), lambda _: F.mse_loss(model(x, ends[0], ends[1]), wanted)
    )


def odd_vocabulary(setting: Setting) -> Step:
    """The vocabulary has an odd size, which keeps GEMMs from the fast Tensor Core kernels."""
    vocabulary = setting.size(50_257, 1_001)
    config = GPT2Config(
        vocab_size=vocabulary,
        n_positions=1024,
        n_embd=setting.size(768, 64),
        n_layer=setting.size(6, 2),
        n_head=setting.size(12, 4),
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
    )
    model = GPT2LMHeadModel(config)
    if not setting.bad:
        model.resize_token_embeddings((vocabulary + 63) // 64 * 64, mean_resizing=False)
        with torch.no_grad():
            model.lm_head.weight[vocabulary:] = 0
    model = model.to(setting.device).bfloat16()
    data = tokens(setting, vocabulary, setting.size(8, 2), setting.size(1024, 32))
    return training(
        model,
        fused_adamw(model),
        lambda number: model(input_ids=data[number % 8], labels=data[number % 8]).loss,
    )


def eager_attention(setting: Setting) -> Step:
    """Attention runs as separate matmul, scale, softmax and matmul kernels."""
    width = setting.size(768, 64)
    config = BertConfig(
        vocab_size=setting.size(30_528, 500),
        hidden_size=width,
        num_hidden_layers=setting.size(6, 2),
        num_attention_heads=width // 64 if not setting.is_tiny else 4,
        intermediate_size=4 * width,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        attn_implementation="eager" if setting.bad else "sdpa",
    )
    model = BertForMaskedLM(config).to(setting.device).bfloat16()
    data = tokens(setting, config.vocab_size, setting.size(16, 2), setting.size(512, 32))
    return training(
        model,
        fused_adamw(model),
        lambda number: model(input_ids=data[number % 8], labels=data[number % 8]).loss,
    )


def ema_loop(setting: Setting) -> Step:
    """The moving average of the weights is updated tensor by tensor."""
    name = "test_efficientnet" if setting.is_tiny else "mobilenetv3_large_100"
    model = timm.create_model(name, pretrained=False, num_classes=100, drop_rate=0.0)
    model = model.to(setting.device, memory_format=torch.channels_last)
    average = copy.deepcopy(model).eval()
    edge = setting.size(160, 64)
    images = torch.randn(setting.size(64, 2), 3, edge, edge, device=setting.device)
    images = images.to(memory_format=torch.channels_last)
    labels = torch.randint(0, 100, (len(images),), device=setting.device)

    def loss_of(number: int) -> torch.Tensor:
        with torch.autocast(setting.device, torch.bfloat16):
            return F.cross_entropy(model(images).float(), labels)

    @torch.no_grad()
    def update() -> None:
        current = model.state_dict()
        kept = average.state_dict()
        floating = [name for name, value in kept.items() if value.is_floating_point()]
        if setting.bad:
            for name in floating:
                kept[name].mul_(0.999)
                kept[name].add_(current[name].detach(), alpha=0.001)
        else:
            torch._foreach_lerp_(
                [kept[name] for name in floating], [current[name] for name in floating], 0.001
            )

    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9, fused=True)
    step = training(model, optimizer, loss_of, update)
    weight = next(average.parameters())

    def averaged(number: int) -> torch.Tensor:
        step(number)
        return weight

    return averaged


class ManualGRU(nn.Module):
    """A GRU written with linear layers and a loop over time."""

    def __init__(self, gru: nn.GRU) -> None:
        super().__init__()
        self.gru = gru

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return all hidden states for `x`: (time, batch, width)."""
        into = self.gru.weight_ih_l0.chunk(3)
        back = self.gru.weight_hh_l0.chunk(3)
        bias_in, bias_back = self.gru.bias_ih_l0.chunk(3), self.gru.bias_hh_l0.chunk(3)
        state = x.new_zeros(x.shape[1], self.gru.hidden_size)
        states = []
        for now in x:
            from_input = [F.linear(now, w, b) for w, b in zip(into, bias_in, strict=True)]
            from_state = [F.linear(state, w, b) for w, b in zip(back, bias_back, strict=True)]
            reset = torch.sigmoid(from_input[0] + from_state[0])
            keep = torch.sigmoid(from_input[1] + from_state[1])
            fresh = torch.tanh(from_input[2] + reset * from_state[2])
            state = (1 - keep) * fresh + keep * state
            states.append(state)
        return torch.stack(states)


def manual_gru(setting: Setting) -> Step:
    """A recurrent network is a Python loop of small kernels instead of cuDNN's GRU."""
    width, length = setting.size(512, 16), setting.size(80, 6)
    gru = nn.GRU(width, width)
    head = nn.Linear(width, 64)
    model = nn.ModuleList([ManualGRU(gru) if setting.bad else gru, head]).to(setting.device)
    x = torch.randn(length, setting.size(256, 4), width, device=setting.device)
    wanted = torch.randint(0, 64, (length * x.shape[1],), device=setting.device)

    def loss_of(number: int) -> torch.Tensor:
        states = model[0](x)
        states = states[0] if isinstance(states, tuple) else states
        return F.cross_entropy(model[1](states).flatten(0, 1), wanted)

    return training(model, fused_adamw(model), loss_of)


def newton_schulz(gradient: torch.Tensor) -> torch.Tensor:
    """Return matrices (..., rows, columns) made nearly orthogonal."""
    x = gradient.bfloat16()
    is_tall = x.shape[-2] > x.shape[-1]
    x = x.mT if is_tall else x
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(5):
        square = x @ x.mT
        x = 3.4445 * x + (-4.7750 * square + 2.0315 * (square @ square)) @ x
    return x.mT if is_tall else x


def muon_loop(setting: Setting) -> Step:
    """The Muon optimizer processes each weight matrix on its own."""
    width, layers = setting.size(512, 32), setting.size(12, 2)
    blocks = nn.ModuleList(Block(width, setting.size(8, 4)) for _ in range(layers))
    model = blocks.to(setting.device).bfloat16()
    batch, length = setting.size(8, 2), setting.size(256, 8)
    inputs = torch.randn(batch, length, width, device=setting.device).bfloat16()
    matrices = [p for p in model.parameters() if p.ndim == 2]
    vectors = [p for p in model.parameters() if p.ndim != 2]
    moments = [torch.zeros_like(p) for p in matrices]
    plain = torch.optim.SGD(vectors, lr=1e-3, fused=True)

    @torch.no_grad()
    def one_at_a_time() -> None:
        for p, moment in zip(matrices, moments, strict=True):
            moment.lerp_(p.grad, 0.05)
            p.add_(newton_schulz(moment).to(p.dtype), alpha=-0.02)

    @torch.no_grad()
    def batched() -> None:
        torch._foreach_lerp_(moments, [p.grad for p in matrices], 0.05)
        shapes: dict[torch.Size, list[int]] = {}
        for place, p in enumerate(matrices):
            shapes.setdefault(p.shape, []).append(place)
        for places in shapes.values():
            changes = newton_schulz(torch.stack([moments[place] for place in places]))
            group = [matrices[place] for place in places]
            torch._foreach_add_(group, list(changes.unbind()), alpha=-0.02)

    def step(number: int) -> torch.Tensor:
        model.zero_grad(set_to_none=True)
        x = inputs
        for block in model:
            x = block(x, causal=True)
        loss = x.float().pow(2).mean()
        loss.backward()
        (one_at_a_time if setting.bad else batched)()
        plain.step()
        return loss

    return step


def anomaly_mode(setting: Setting) -> Step:
    """Autograd's anomaly detection, a debugging aid, was left on."""
    torch.autograd.set_detect_anomaly(setting.bad)
    config = GPTNeoXConfig(
        vocab_size=setting.size(50_304, 512),
        hidden_size=setting.size(256, 32),
        num_hidden_layers=setting.size(6, 2),
        num_attention_heads=4,
        intermediate_size=setting.size(1024, 64),
        max_position_embeddings=512,
    )
    model = GPTNeoXForCausalLM(config).to(setting.device).bfloat16()
    data = tokens(setting, config.vocab_size, setting.size(8, 2), setting.size(256, 16))
    return training(
        model,
        fused_adamw(model),
        lambda number: model(input_ids=data[number % 8], labels=data[number % 8]).loss,
    )


def empty_cache(setting: Setting) -> Step:
    """The trainer empties PyTorch's memory cache in each step."""
    width, layers = setting.size(1024, 32), setting.size(8, 2)
    blocks = nn.ModuleList(Block(width, setting.size(16, 4)) for _ in range(layers))
    model = blocks.to(setting.device).bfloat16()
    batch, length = setting.size(8, 2), setting.size(512, 8)
    inputs = torch.randn(batch, length, width, device=setting.device).bfloat16()

    def loss_of(number: int) -> torch.Tensor:
        if setting.bad and torch.cuda.is_available():
            torch.cuda.empty_cache()
        x = inputs
        for block in model:
            x = block(x, causal=True)
        return x.float().pow(2).mean()

    return training(model, fused_adamw(model), loss_of)


def sync_timers(setting: Setting) -> Step:
    """The training loop synchronizes the GPU to measure each of its parts."""
    name = "test_resnet" if setting.is_tiny else "resnet50"
    model = timm.create_model(name, pretrained=False, num_classes=100)
    model = model.to(setting.device, memory_format=torch.channels_last)
    edge = setting.size(128, 64)
    images = torch.randn(setting.size(32, 2), 3, edge, edge, device=setting.device)
    images = images.to(memory_format=torch.channels_last)
    labels = torch.randint(0, 100, (len(images),), device=setting.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9, fused=True)
    moments = [0.0] * 4

    def measure(place: int) -> None:
        if setting.bad and torch.cuda.is_available():
            torch.cuda.synchronize()
        moments[place] = time.perf_counter()

    def step(number: int) -> torch.Tensor:
        measure(0)
        with torch.autocast(setting.device, torch.bfloat16):
            loss = F.cross_entropy(model(images).float(), labels)
        measure(1)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        measure(2)
        optimizer.step()
        measure(3)
        return loss

    model.train()
    return step
