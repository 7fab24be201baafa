"""Programs for several ranks in PyTorch; docstrings describe the problem of the bad variant."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch
import torch.distributed as dist
from blind.harness import RANK, Setting, Step
from blind.torch_side import FRAMEWORK as FRAMEWORK  # noqa: PLC0414 - for run.py
from blind.torch_side import Block
from torch import nn


@contextlib.contextmanager
def process_group(device: str) -> Iterator[None]:
    """Connect the ranks."""
    if device == "cuda":
        torch.cuda.set_device(RANK)
    dist.init_process_group("nccl" if device == "cuda" else "gloo")
    yield
    dist.destroy_process_group()


def _parallel(setting: Setting) -> nn.Module:
    width, layers = setting.size(1024, 32), setting.size(12, 2)
    blocks = nn.Sequential(*(Block(width, setting.size(16, 4)) for _ in range(layers)))
    model = blocks.to(setting.device).bfloat16()
    devices = [RANK] if setting.device == "cuda" else None
    return nn.parallel.DistributedDataParallel(
        model, device_ids=devices, gradient_as_bucket_view=True
    )


def _inputs(setting: Setting) -> torch.Tensor:
    shape = (4, setting.size(2, 1), setting.size(512, 8), setting.size(1024, 32))
    return torch.randn(shape, device=setting.device).bfloat16()


def accumulated_ddp(setting: Setting) -> Step:
    """Gradients are reduced after every micro-batch instead of after the last one."""
    model, inputs = _parallel(setting), _inputs(setting)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    def step(number: int) -> torch.Tensor:
        total = torch.zeros((), device=setting.device)
        for place, part in enumerate(inputs):
            is_last = place == len(inputs) - 1
            reduced = setting.bad or is_last
            with contextlib.nullcontext() if reduced else model.no_sync():
                loss = model(part).float().pow(2).mean() / len(inputs)
                loss.backward()
            total += loss.detach()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return total

    return step


def metric_reduces(setting: Setting) -> Step:
    """Each metric is reduced over the ranks and read in each step instead of when it is logged."""
    model, inputs = _parallel(setting), _inputs(setting)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    sums = torch.zeros(12, device=setting.device)

    def step(number: int) -> torch.Tensor:
        out = model(inputs[number % 4]).float()
        loss = out.pow(2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        rows = out.detach().flatten(0, 1)
        found = [loss.detach(), rows.mean(), rows.std(), *rows[:9].abs().mean(1)]
        if setting.bad:
            for place, metric in enumerate(found):
                dist.all_reduce(metric, op=dist.ReduceOp.SUM)
                sums[place] += metric.item() / dist.get_world_size()
        else:
            sums.add_(torch.stack(found))
            if number % 10 == 9:
                dist.all_reduce(sums, op=dist.ReduceOp.SUM)
                sums.tolist()
                sums.zero_()
        return loss

    return step
