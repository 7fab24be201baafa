"""Programs in PyTorch whose problem is their input; docstrings describe that of the bad variant."""

from __future__ import annotations

import copy

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - as every program names it
from blind.harness import Setting, Step
from blind.torch_side import FRAMEWORK as FRAMEWORK  # noqa: PLC0414 - for run.py
from blind.torch_side import DenoisingUNet
from torch import nn


def float_images(setting: Setting) -> Step:
    """Images are normalized on the CPU and copied as FP32 instead of as bytes."""
    model = DenoisingUNet(3, setting.size(32, 16), 3).to(setting.device).bfloat16().eval()
    model = model.to(memory_format=torch.channels_last)
    edge = setting.size(512, 16)
    shape = (8, setting.size(8, 2), 3, edge, edge)
    frames = torch.randint(0, 256, shape, dtype=torch.uint8)
    if not setting.bad and torch.cuda.is_available():
        frames = frames.pin_memory()
    mean = torch.tensor([0.485, 0.456, 0.406])[:, None, None]
    deviation = torch.tensor([0.229, 0.224, 0.225])[:, None, None]
    if not setting.bad:
        mean, deviation = mean.to(setting.device), deviation.to(setting.device)
    times = torch.zeros(shape[1], device=setting.device)

    def step(number: int) -> torch.Tensor:
        batch = frames[number % 8]
        if setting.bad:
            images = ((batch.float() / 255 - mean) / deviation).to(setting.device)
        else:
            images = batch.to(setting.device, non_blocking=True)
            images = (images.float() / 255 - mean) / deviation
        with torch.no_grad():
            return model(images.bfloat16(), times)

    return step


def list_batches(setting: Setting) -> Step:
    """Batches of a replay buffer are made from a list of arrays, number by number."""
    inputs, actions = setting.size(96, 8), 16
    width, count = setting.size(2048, 16), setting.size(512, 4)
    layers = (nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
    more = (nn.Linear(width, width), nn.ReLU(), nn.Linear(width, actions))
    online = nn.Sequential(*layers, *more).to(setting.device)
    target = copy.deepcopy(online)
    optimizer = torch.optim.Adam(online.parameters(), lr=1e-4, fused=True)
    draw = np.random.default_rng(0)
    buffer = [
        (
            draw.standard_normal(inputs, dtype=np.float32),
            draw.standard_normal(inputs, dtype=np.float32),
            int(draw.integers(actions)),
            float(draw.standard_normal()),
        )
        for _ in range(8 * count)
    ]

    def states(rows: list[np.ndarray]) -> torch.Tensor:
        if setting.bad:
            return torch.as_tensor(rows, dtype=torch.float32, device=setting.device)
        return torch.as_tensor(np.array(rows), dtype=torch.float32, device=setting.device)

    def step(number: int) -> torch.Tensor:
        begin = number % 8 * count
        now, then, chosen, reward = zip(*buffer[begin : begin + count], strict=True)
        choice = torch.as_tensor(chosen, device=setting.device)
        gain = torch.as_tensor(reward, device=setting.device)
        with torch.no_grad():
            wanted = gain + 0.99 * target(states(list(then))).max(1).values
        value = online(states(list(now))).gather(1, choice[:, None])[:, 0]
        loss = F.smooth_l1_loss(value, wanted)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        return loss

    return step
