"""A third set of programs that infer in PyTorch; docstrings describe the bad variant's problem."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812 - as every program names it
import torchvision
from blind.harness import Setting, Step
from blind.torch2_inference import without_gradients
from blind.torch_side import FRAMEWORK as FRAMEWORK  # noqa: PLC0414 - for run.py
from blind.torch_side import Block, tokens
from torch import nn
from torchvision.ops import batched_nms, nms
from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM


class SpeechDenoiser(nn.Module):
    """A diffusion transformer that turns noise into a mel spectrogram, led by text and a voice."""

    def __init__(self, channels: int, width: int, heads: int, layers: int) -> None:
        super().__init__()
        self.enter = nn.Linear(3 * channels, width)
        self.time = nn.Linear(1, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.leave = nn.Linear(width, channels)

    def forward(
        self, x: torch.Tensor, voice: torch.Tensor, text: torch.Tensor, time: torch.Tensor
    ) -> torch.Tensor:
        """Return the direction for spectrograms (batch, length, channels)."""
        y = self.enter(torch.cat([x, voice, text], -1)) + self.time(time)
        for block in self.blocks:
            y = block(y)
        return self.leave(y)


def serial_guidance(setting: Setting) -> Step:
    """Speech synthesis runs its model with and without the conditions, one at a time."""
    channels, width = setting.size(100, 8), setting.size(1024, 32)
    length, layers = setting.size(512, 12), setting.size(22, 2)
    model = SpeechDenoiser(channels, width, setting.size(16, 4), layers)
    model = model.to(setting.device).bfloat16().eval()
    shape = (8, 1, length, channels)
    noise, voice, text = (
        torch.randn(shape, device=setting.device).bfloat16() for _ in ("noise", "voice", "text")
    )
    times = torch.linspace(0, 1, 5, device=setting.device).bfloat16().view(-1, 1, 1, 1)

    def direction(
        x: torch.Tensor, voice: torch.Tensor, text: torch.Tensor, time: torch.Tensor
    ) -> torch.Tensor:
        nothing = torch.zeros_like(voice)
        if setting.bad:
            led = model(x, voice, text, time)
            free = model(x, nothing, nothing, time)
        else:
            both = model(
                torch.cat([x, x]), torch.cat([voice, nothing]), torch.cat([text, nothing]), time
            )
            led, free = both.chunk(2)
        return led + (led - free) * 2.0

    def call(number: int) -> torch.Tensor:
        x = noise[number % 8]
        for time in times[:-1]:
            x = x + 0.25 * direction(x, voice[number % 8], text[number % 8], time)
        return x

    return without_gradients(call)


def _kept_by_sort(logits: torch.Tensor, most: int, share: float) -> torch.Tensor:
    """Return logits without those outside of top-k and top-p, after a sort of all."""
    ranked, places = logits.sort(-1)
    least = ranked[:, -most, None]
    ranked = ranked.masked_fill(ranked < least, -float("inf"))
    below = ranked.softmax(-1).cumsum(-1)
    unlikely = below <= 1 - share
    unlikely[:, -1] = False
    ranked = ranked.masked_fill(unlikely, -float("inf"))
    return torch.empty_like(logits).scatter_(-1, places, ranked)


def _kept_by_selection(logits: torch.Tensor, most: int, share: float) -> torch.Tensor:
    """Return logits without those outside of top-k and top-p, after a selection of k."""
    ranked, places = logits.topk(most, -1)
    ranked, places = ranked.flip(-1), places.flip(-1)
    unlikely = ranked.softmax(-1).cumsum(-1) <= 1 - share
    unlikely[:, -1] = False
    ranked = ranked.masked_fill(unlikely, -float("inf"))
    return torch.full_like(logits, -float("inf")).scatter_(-1, places, ranked)


def sorted_vocabulary(setting: Setting) -> Step:
    """Sampling with top-k and top-p sorts the whole vocabulary for each token."""
    config = LlamaConfig(
        vocab_size=setting.size(128_256, 200),
        hidden_size=setting.size(2048, 64),
        intermediate_size=setting.size(5632, 128),
        num_hidden_layers=setting.size(8, 2),
        num_attention_heads=setting.size(16, 4),
        num_key_value_heads=setting.size(4, 2),
        max_position_embeddings=1024,
    )
    with torch.device(setting.device):
        model = LlamaForCausalLM(config)
        nn.init.normal_(model.lm_head.weight, std=4 * config.hidden_size**-0.5)
    model = model.bfloat16().eval()
    batch, length = setting.size(256, 3), setting.size(128, 10)
    prompt = tokens(setting, config.vocab_size, batch, length, 1)[0]
    # As users bias tokens; no two logits of a row are equal.
    bias = torch.rand(config.vocab_size, device=setting.device) * 0.02
    cache = DynamicCache()
    with torch.no_grad():
        model(input_ids=prompt, past_key_values=cache, use_cache=True, logits_to_keep=1)
    select = _kept_by_sort if setting.bad else _kept_by_selection

    def call(number: int) -> torch.Tensor:
        token = prompt.roll(number, 1)[:, -1:]
        sizes = []
        for _ in range(4):
            found = model(input_ids=token, past_key_values=cache, use_cache=True)
            logits = select(found.logits[:, -1].float() + bias, 50, 0.9)
            chances = logits.softmax(-1)
            token = (chances / torch.empty_like(chances).exponential_()).argmax(-1, keepdim=True)
            sizes.append(logits.logsumexp(-1))
        cache.crop(-4)
        return torch.stack(sizes)

    return without_gradients(call)


class AnchorFreeDetector(nn.Module):
    """A detector with one box and one score per class at each place of three grids."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        body = torchvision.models.resnet18(weights=None)
        self.stem = nn.Sequential(body.conv1, body.bn1, nn.ReLU(), body.maxpool, body.layer1)
        self.levels = nn.ModuleList([body.layer2, body.layer3, body.layer4])
        self.heads = nn.ModuleList(
            nn.Conv2d(width, 4 + classes, 3, padding=1) for width in (128, 256, 512)
        )

    def forward(self, images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return boxes (images, places, 4) and scores (images, places, classes)."""
        x = self.stem(images)
        boxes, scores = [], []
        for level, head, stride in zip(self.levels, self.heads, (8, 16, 32), strict=True):
            x = level(x)
            found = head(x).float()
            height, width = found.shape[-2:]
            down, right = torch.meshgrid(
                torch.arange(height, device=x.device) + 0.5,
                torch.arange(width, device=x.device) + 0.5,
                indexing="ij",
            )
            middle = torch.stack([right, down]) * stride
            half = 2 * stride * (1 + found[:, 2:4].sigmoid())
            middle = middle + stride * found[:, :2].tanh()
            boxes.append(torch.cat([middle - half, middle + half], 1).flatten(2))
            scores.append(found[:, 4:].sigmoid().flatten(2))
        return torch.cat(boxes, 2).mT, torch.cat(scores, 2).mT


def class_suppression(setting: Setting) -> Step:
    """A detector suppresses overlapping boxes class by class, in a loop over the classes found."""
    edge, images, most = setting.size(640, 96), setting.size(4, 2), setting.size(300, 20)
    model = AnchorFreeDetector(setting.size(80, 6)).to(setting.device)
    for head in model.heads:
        nn.init.normal_(head.weight, std=0.02)
    model = model.to(memory_format=torch.channels_last).eval()
    pictures = torch.randn(images, 3, edge, edge, device=setting.device)
    pictures = pictures.to(memory_format=torch.channels_last)

    def kept(boxes: torch.Tensor, scores: torch.Tensor, kinds: torch.Tensor) -> torch.Tensor:
        if not setting.bad:
            return scores[batched_nms(boxes, scores, kinds, 0.6)[:most]]
        parts = []
        for kind in kinds.unique():
            own = kinds == kind
            of_kind = scores[own]
            parts.append(of_kind[nms(boxes[own], of_kind, 0.6)])
        return torch.cat(parts).sort(descending=True).values[:most]

    def call(number: int) -> torch.Tensor:
        with torch.autocast(setting.device, torch.bfloat16):
            boxes, scores = model(pictures.roll(number, 0))
        best, kinds = scores.max(-1)
        rows = [kept(*of_image) for of_image in zip(boxes, best, kinds, strict=True)]
        return torch.stack([F.pad(row, (0, most - len(row))) for row in rows])

    return without_gradients(call)


def coreset_picks(setting: Setting) -> Step:
    """PatchCore picks typical features one by one; each pick is read by the host."""
    count, width = setting.size(50_000, 60), setting.size(384, 8)
    picks = setting.size(100, 6)
    features = torch.randn(count, width, device=setting.device)
    firsts = torch.arange(8, device=setting.device)

    def with_host(number: int) -> torch.Tensor:
        place = number % 8
        nearest = torch.full((count, 1), float("inf"), device=setting.device)
        for _ in range(picks):
            center = features[place]
            distance = F.pairwise_distance(features, center, p=2).reshape(-1, 1)
            nearest = torch.minimum(nearest, distance)
            place = int(torch.argmax(nearest).item())
            nearest[place] = 0
        return nearest[:, 0]

    def on_device(number: int) -> torch.Tensor:
        place = firsts[number % 8].view(1)
        nearest = torch.full((count,), float("inf"), device=setting.device)
        for _ in range(picks):
            center = features.index_select(0, place)
            nearest = torch.minimum(nearest, torch.linalg.norm(features - center, dim=1))
            place = nearest.argmax().view(1)
            nearest.index_fill_(0, place, 0)
        return nearest

    return without_gradients(with_host if setting.bad else on_device)


def looped_qr(setting: Setting) -> Step:
    """A subspace iteration makes many small bases orthogonal with QR, which loops over matrices."""
    batch, height, width = setting.size(512, 3), setting.size(256, 12), setting.size(256, 10)
    rank = setting.size(16, 3)
    ranks = torch.linspace(1, 0, width, device=setting.device)
    matrices = torch.randn(8, batch, height, width, device=setting.device) * (0.2 + ranks**4)
    first = torch.randn(batch, width, rank, device=setting.device)

    def orthogonal(x: torch.Tensor) -> torch.Tensor:
        if setting.bad:
            return torch.linalg.qr(x).Q
        lower = torch.linalg.cholesky(x.mT @ x)
        return torch.linalg.solve_triangular(lower, x.mT, upper=False).mT

    def call(number: int) -> torch.Tensor:
        matrix = matrices[number % 8]
        basis = orthogonal(matrix @ first)
        basis = orthogonal(matrix @ orthogonal(matrix.mT @ basis))
        return (basis @ (basis.mT @ matrix)).square().sum(-1)

    return without_gradients(call)
