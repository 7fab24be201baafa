"""A third set of programs that train in PyTorch; docstrings describe the bad variant's problem."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - as every program names it
from blind.harness import Setting, Step
from blind.torch_side import FRAMEWORK as FRAMEWORK  # noqa: PLC0414 - for run.py
from blind.torch_side import tokens, training
from torch import nn


def dense_embedding(setting: Setting) -> Step:
    """The gradients of embedding tables are as large as the tables, which batches hardly read."""
    width, batch = setting.size(128, 8), setting.size(8192, 16)
    users, items = setting.size(2_000_000, 50), setting.size(4_000_000, 80)
    with torch.device(setting.device):
        tables = [nn.Embedding(count, width, sparse=not setting.bad) for count in (users, items)]
    towers = [
        nn.Sequential(nn.Linear(width, 4 * width), nn.ReLU(), nn.Linear(4 * width, width))
        for _ in tables
    ]
    for table in tables:
        nn.init.normal_(table.weight, std=0.1)
    model = nn.ModuleList([*tables, *towers]).to(setting.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    who = torch.randint(0, users, (8, batch), device=setting.device)
    what = torch.randint(0, items, (8, 2, batch), device=setting.device)

    def loss_of(number: int) -> torch.Tensor:
        user = towers[0](tables[0](who[number % 8]))
        seen, unseen = towers[1](tables[1](what[number % 8]))
        return F.softplus((user * (unseen - seen)).sum(-1)).mean()

    return training(model, optimizer, loss_of)


def looped_clipping(setting: Setting) -> Step:
    """Gradients are clipped tensor by tensor: a norm and a multiplication each."""
    import timm  # noqa: PLC0415 - slow to import

    name = "test_efficientnet" if setting.is_tiny else "tf_efficientnetv2_s"
    model = timm.create_model(name, pretrained=False, num_classes=100, drop_path_rate=0.0)
    model = model.to(setting.device, memory_format=torch.channels_last)
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    edge = setting.size(224, 64)
    images = torch.randn(setting.size(16, 2), 3, edge, edge, device=setting.device)
    images = images.to(memory_format=torch.channels_last)
    labels = torch.randint(0, 100, (len(images),), device=setting.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9, foreach=True)
    model.train()

    def step(number: int) -> torch.Tensor:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(setting.device, torch.bfloat16):
            found = model(images)
        loss = F.cross_entropy(found.float(), labels)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.1, foreach=not setting.bad)
        optimizer.step()
        return loss

    return step


class ActorCritic(nn.Module):
    """The policy and the value of what an Atari game shows."""

    def __init__(self, edge: int, actions: int) -> None:
        super().__init__()
        inner = ((edge - 8) // 4 + 1 - 4) // 2 + 1 - 2
        self.body = nn.Sequential(
            nn.Conv2d(4, 32, 8, stride=4),
            nn.ReLU(),
            nn.Conv2d(32, 64, 4, stride=2),
            nn.ReLU(),
            nn.Conv2d(64, 64, 3),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(64 * inner * inner, 512),
            nn.ReLU(),
        )
        self.actor, self.critic = nn.Linear(512, actions), nn.Linear(512, 1)

    def forward(self, frames: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return logarithms of the actions' probabilities, and the values."""
        x = self.body(frames)
        return self.actor(x).log_softmax(-1), self.critic(x)[:, 0]


def reloaded_batches(setting: Setting) -> Step:
    """Each pass of PPO over the same experience copies it to the GPU again, batch by batch."""
    count, batch = setting.size(2560, 16), setting.size(512, 8)
    edge, passes, actions = setting.size(84, 36), 4, 4
    model = ActorCritic(edge, actions).to(setting.device)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-5, foreach=True)
    seen = [
        {
            "frames": torch.rand(count, 4, edge, edge),
            "actions": torch.randint(0, actions, (count,)),
            "before": torch.full((count,), -math.log(actions)),
            "advantages": torch.randn(count),
            "returns": torch.randn(count),
        }
        for _ in range(2)
    ]

    def loss_of(rows: dict[str, torch.Tensor]) -> torch.Tensor:
        chances, values = model(rows["frames"])
        chosen = chances.gather(1, rows["actions"][:, None])[:, 0]
        ratio = (chosen - rows["before"]).exp()
        gain = rows["advantages"]
        policy = -torch.minimum(ratio * gain, ratio.clamp(0.7, 1.3) * gain).mean()
        entropy = -(chances.exp() * chances).sum(-1).mean()
        return policy + 0.5 * F.mse_loss(values, rows["returns"]) - 0.01 * entropy

    def moved(rows: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        return {name: values.to(setting.device) for name, values in rows.items()}

    def step(number: int) -> torch.Tensor:
        rows = seen[number % 2]
        if not setting.bad:
            rows = moved(rows)
        losses = []
        for _ in range(passes):
            for first in range(0, count, batch):
                part = {name: values[first : first + batch] for name, values in rows.items()}
                loss = loss_of(moved(part) if setting.bad else part)
                optimizer.zero_grad(set_to_none=True)
                loss.backward()
                optimizer.step()
                losses.append(loss.detach())
        return torch.stack(losses)

    return step


def smoothed_labels(setting: Setting) -> Step:
    """Label smoothing writes the wanted probability of every word, to compare distributions."""
    width, vocabulary = setting.size(512, 32), setting.size(32_000, 64)
    layers, length, batch = setting.size(6, 1), setting.size(64, 8), setting.size(64, 2)
    smoothing = 0.1
    embed = nn.Embedding(vocabulary, width)
    transformer = nn.Transformer(
        width, 8, layers, layers, 4 * width, dropout=0.0, batch_first=True, norm_first=True
    )
    head = nn.Linear(width, vocabulary)
    model = nn.ModuleList([embed, transformer, head]).to(setting.device)
    source = tokens(setting, vocabulary, batch, length)
    target = tokens(setting, vocabulary, batch, length + 1)
    mask = nn.Transformer.generate_square_subsequent_mask(length, device=setting.device)
    rest = smoothing / vocabulary
    sure = 1 - smoothing + rest
    entropy = -sure * math.log(sure) - (vocabulary - 1) * rest * math.log(rest)

    def compared(logits: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
        if not setting.bad:
            return F.cross_entropy(logits, wanted, label_smoothing=smoothing)
        chances = logits.log_softmax(-1)
        ideal = torch.full_like(chances, rest).scatter_(1, wanted[:, None], sure)
        return F.kl_div(chances, ideal, reduction="batchmean") + entropy

    def loss_of(number: int) -> torch.Tensor:
        wanted = target[number % 8]
        with torch.autocast(setting.device, torch.bfloat16):
            states = transformer(
                embed(source[number % 8]), embed(wanted[:, :-1]), tgt_mask=mask, tgt_is_causal=True
            )
            logits = head(states)
        return compared(logits.flatten(0, 1).float(), wanted[:, 1:].flatten())

    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    return training(model, optimizer, loss_of)


class SymmetricProduct(torch.autograd.Function):
    """The product of a symmetric sparse matrix and a dense one."""

    @staticmethod
    def forward(context: Any, matrix: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        """Return `matrix @ x`."""
        context.matrix = matrix
        return matrix @ x

    @staticmethod
    def backward(context: Any, slope: torch.Tensor) -> tuple[None, torch.Tensor]:
        """Return the gradient of `x`; the matrix is its own transpose."""
        return None, context.matrix @ slope.contiguous()


def edge_messages(setting: Setting) -> Step:
    """LightGCN writes a message per edge and adds them up, instead of a product of matrices."""
    users, items = setting.size(240_000, 30), setting.size(160_000, 20)
    count, width = setting.size(4_000_000, 200), setting.size(64, 8)
    nodes = users + items
    pairs = torch.randint(0, users, (count,), device=setting.device) * items
    pairs = (pairs + torch.randint(0, items, (count,), device=setting.device)).unique()
    user, item = pairs // items, pairs % items + users
    edges = torch.stack([torch.cat([user, item]), torch.cat([item, user])])
    edges = edges[:, (edges[0] * nodes + edges[1]).argsort()]
    row, column = edges.contiguous()
    degree = torch.bincount(row, minlength=nodes).clamp(min=1).float()
    weight = (degree[row] * degree[column]).rsqrt()
    starts = F.pad(torch.bincount(row, minlength=nodes).cumsum(0), (1, 0))
    matrix = torch.sparse_csr_tensor(starts, column, weight, (nodes, nodes))
    table = nn.Embedding(nodes, width).to(setting.device)
    optimizer = torch.optim.Adam(table.parameters(), lr=1e-3, fused=True)
    batch = setting.size(4096, 16)
    who = torch.randint(0, users, (8, batch), device=setting.device)
    what = torch.randint(users, nodes, (8, 2, batch), device=setting.device)

    def propagated(x: torch.Tensor) -> torch.Tensor:
        if setting.bad:
            messages = x.index_select(0, column) * weight[:, None]
            return torch.zeros_like(x).index_add(0, row, messages)
        found: torch.Tensor = SymmetricProduct.apply(matrix, x)
        return found

    def loss_of(number: int) -> torch.Tensor:
        x = table.weight
        total = x
        for _ in range(3):
            x = propagated(x)
            total = total + x
        chosen = total.index_select(0, who[number % 8])
        seen, unseen = (total.index_select(0, rows) for rows in what[number % 8])
        return F.softplus((chosen * (unseen - seen)).sum(-1) / 16).mean()

    return training(table, optimizer, loss_of)
