"""More programs in PyTorch whose problem is their input; docstrings describe the bad variant's."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np
import timm
import torch
import torch.nn.functional as F  # noqa: N812 - as every program names it
from blind.harness import Setting, Step
from blind.torch_side import FRAMEWORK as FRAMEWORK  # noqa: PLC0414 - for run.py
from blind.torch_side import training
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset
from torchvision.transforms import v2
from transformers import WhisperConfig, WhisperModel


class Photos(Dataset[tuple[torch.Tensor, int]]):
    """Decoded photos, each cropped, flipped and recolored when it is read."""

    def __init__(self, count: int, height: int, width: int, edge: int) -> None:
        draw = np.random.default_rng(0)
        self.photos = torch.from_numpy(draw.integers(0, 256, (count, 3, height, width), np.uint8))
        self.transform = v2.Compose(
            [
                v2.RandomResizedCrop(edge, antialias=True),
                v2.RandomHorizontalFlip(),
                v2.ColorJitter(0.4, 0.4, 0.4),
                v2.ToDtype(torch.float32, scale=True),
                v2.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
            ]
        )

    def __len__(self) -> int:
        """Return the length of an epoch, in which photos repeat."""
        return 1 << 20

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        """Return an image and its class; the same ones for the same index."""
        torch.manual_seed(index)
        return self.transform(self.photos[index % len(self.photos)]), index % 100


def few_workers(setting: Setting) -> Step:
    """Two worker processes augment images for a GPU that is far faster than they are."""
    height, width, edge = setting.size(375, 40), setting.size(500, 50), setting.size(224, 64)
    loader = DataLoader(
        Photos(setting.size(256, 8), height, width, edge),
        batch_size=setting.size(32, 4),
        num_workers=2 if setting.bad else setting.size(12, 3),
        pin_memory=torch.cuda.is_available(),
        persistent_workers=True,
    )
    # The workers start before anything uses the GPU.
    batches: Iterator[tuple[torch.Tensor, torch.Tensor]] = iter(loader)
    torch.manual_seed(0)
    name = "test_efficientnet" if setting.is_tiny else "efficientnet_b0"
    model = timm.create_model(name, pretrained=False, num_classes=100, drop_rate=0.0)
    model = model.to(setting.device, memory_format=torch.channels_last)

    def loss_of(number: int) -> torch.Tensor:
        images, labels = next(batches)
        images = images.to(setting.device, non_blocking=True)
        images = images.to(memory_format=torch.channels_last)
        with torch.autocast(setting.device, torch.bfloat16):
            logits = model(images)
        return F.cross_entropy(logits.float(), labels.to(setting.device, non_blocking=True))

    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9, fused=True)
    return training(model, optimizer, loss_of)


def row_loader(setting: Setting) -> Step:
    """A DataLoader reads a table in memory row by row and stacks the rows of each batch."""
    rows, columns = setting.size(400_000, 400), setting.size(64, 8)
    batch, width = setting.size(2048, 32), setting.size(512, 16)
    table = torch.randn(rows, columns)
    wanted = (table[:, :1] * table[:, 1:2]).tanh()

    def slices() -> Iterator[tuple[torch.Tensor, ...]]:
        for first in range(0, rows - batch + 1, batch):
            yield table[first : first + batch], wanted[first : first + batch]

    def epoch() -> Iterator[tuple[torch.Tensor, ...]]:
        if setting.bad:
            return iter(DataLoader(TensorDataset(table, wanted), batch, drop_last=True))
        return slices()

    batches = itertools.chain.from_iterable(epoch() for _ in itertools.count())
    layers: list[nn.Module] = [nn.Linear(columns, width), nn.SiLU()]
    for _ in range(4):
        layers += [nn.Linear(width, width), nn.BatchNorm1d(width), nn.SiLU()]
    model = nn.Sequential(*layers, nn.Linear(width, 1)).to(setting.device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, fused=True)

    def loss_of(number: int) -> torch.Tensor:
        x, y = next(batches)
        return F.mse_loss(model(x.to(setting.device)), y.to(setting.device))

    return training(model, optimizer, loss_of)


def mel_filters(bins: int, bands: int, rate: int) -> torch.Tensor:
    """Return triangular filters (bins, bands) that are evenly spaced in mel."""
    highest = 2595 * math.log10(1 + rate / 2 / 700)
    edges = 700 * (10 ** (torch.linspace(0, highest, bands + 2) / 2595) - 1)
    frequencies = torch.linspace(0, rate / 2, bins)[:, None]
    rise = (frequencies - edges[:-2]) / (edges[1:-1] - edges[:-2])
    fall = (edges[2:] - frequencies) / (edges[2:] - edges[1:-1])
    return torch.minimum(rise, fall).clamp(min=0)


def log_mel(sound: torch.Tensor, filters: torch.Tensor) -> torch.Tensor:
    """Return the log-mel spectrograms (..., bands, frames) of sounds (..., samples)."""
    window = torch.hann_window(400, device=sound.device)
    spectrum = torch.stft(sound, 400, 160, window=window, return_complex=True)[..., :-1]
    power = filters.T @ spectrum.abs() ** 2
    found = power.clamp(min=1e-10).log10()
    found = torch.maximum(found, found.amax((-2, -1), keepdim=True) - 8)
    return (found + 4) / 4


def cpu_features(setting: Setting) -> Step:
    """The spectrograms that Whisper hears are computed on the CPU, one sound at a time."""
    width, seconds = setting.size(768, 32), setting.size(30, 1)
    config = WhisperConfig(
        vocab_size=setting.size(51_865, 200),
        d_model=width,
        encoder_layers=setting.size(12, 2),
        decoder_layers=setting.size(12, 2),
        encoder_attention_heads=setting.size(12, 4),
        decoder_attention_heads=setting.size(12, 4),
        encoder_ffn_dim=4 * width,
        decoder_ffn_dim=4 * width,
        max_source_positions=50 * seconds,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
    )
    model = WhisperModel(config).to(setting.device).bfloat16().eval()
    draw = np.random.default_rng(0)
    batch, samples = setting.size(8, 2), 16_000 * seconds
    sounds = draw.standard_normal((4, batch, samples), np.float32) * 0.1
    filters = mel_filters(201, 80, 16_000)
    if not setting.bad:
        filters = filters.to(setting.device)
    words = torch.ones(batch, 4, dtype=torch.long, device=setting.device)

    def step(number: int) -> torch.Tensor:
        heard = [torch.from_numpy(sound) for sound in sounds[number % 4]]
        if setting.bad:
            features = torch.stack([log_mel(sound, filters) for sound in heard])
            features = features.to(setting.device)
        else:
            features = log_mel(torch.stack(heard).to(setting.device), filters)
        with torch.no_grad():
            found = model(input_features=features.bfloat16(), decoder_input_ids=words)
        return found.last_hidden_state

    return step
