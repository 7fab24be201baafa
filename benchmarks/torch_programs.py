"""Small GPU programs, each with one problem ("bad") and its fix ("fixed"): see workloads.py."""

# Types are checked where PyTorch is not installed.
# mypy: allow-subclassing-any, no-warn-return-any

from __future__ import annotations

import gc
import itertools
import os
import time
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - as every program names it
from torch import nn
from torch.cuda import nvtx

Step = Callable[[int], None]
Batches = Callable[[int], torch.Tensor]
Loss = Callable[[Any, torch.Tensor], torch.Tensor]


class Program(Protocol):
    """Sets up a program and returns its step function."""

    __name__: str

    def __call__(self, *, bad: bool) -> Step:
        """Return the step of the program with or without its problem."""


DEVICE = "cuda"
_VOCABULARY = 16_000
RANK = int(os.environ.get("LOCAL_RANK", "0"))
RANKS = int(os.environ.get("WORLD_SIZE", "1"))


class _Block(nn.Module):
    """A layer of a decoder."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        shape = (batch, length, 3, self.heads, width // self.heads)
        query, key, value = self.qkv(self.norm1(x)).view(shape).permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class GPT(nn.Module):
    """A small decoder."""

    def __init__(
        self, width: int = 768, heads: int = 12, layers: int = 8, vocabulary: int = _VOCABULARY
    ) -> None:
        super().__init__()
        self.token = nn.Embedding(vocabulary, width)
        self.place = nn.Embedding(1024, width)
        self.blocks = nn.ModuleList(_Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return the logits of the next tokens."""
        x = self.token(tokens) + self.place(torch.arange(tokens.shape[1], device=tokens.device))
        for number, block in enumerate(self.blocks):
            with nvtx.range(f"layer_{number}"):
                x = block(x)
        return self.head(self.norm(x))


def next_token(model: nn.Module, tokens: torch.Tensor) -> torch.Tensor:
    """Return the loss of a decoder."""
    logits = model(tokens[:, :-1])
    return F.cross_entropy(logits.flatten(0, 1).float(), tokens[:, 1:].flatten())


def mean_square(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """Return a loss without targets."""
    return model(x).float().pow(2).mean()


def training(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    batches: Batches,
    loss_of: Loss = next_token,
    after_backward: Callable[[], None] | None = None,
    after: Callable[[], object] = lambda: None,
) -> Step:
    """Return a step of training."""

    def step(number: int) -> None:
        with nvtx.range("data"):
            batch = batches(number)
        with nvtx.range("forward"):
            loss = loss_of(model, batch)
        with nvtx.range("backward"):
            loss.backward()
        if after_backward is not None:
            after_backward()
        with nvtx.range("optimizer"):
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        after()

    return step


def _decoder(layers: int) -> tuple[nn.Module, torch.optim.Optimizer]:
    model = GPT(layers=layers).to(DEVICE).bfloat16()
    return model, torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)


def _tokens(batch: int = 8, length: int = 513) -> torch.Tensor:
    return torch.randint(0, _VOCABULARY, (64, batch, length), device=DEVICE)


def _wide() -> tuple[nn.Module, torch.optim.Optimizer, torch.Tensor]:
    """Return a model that keeps the GPU busy regardless of the CPU, and its input."""
    layers = [layer for _ in range(6) for layer in (nn.Linear(8192, 8192), nn.GELU())]
    model = nn.Sequential(*layers).to(DEVICE).bfloat16()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, fused=True)
    return model, optimizer, torch.randn(8192, 8192, device=DEVICE, dtype=torch.bfloat16)


# -- the programs; docstrings describe the problem of `bad` ---------------------------------------


def gpt(*, bad: bool) -> Step:
    """A decoder with PyTorch's default optimizer and batches from pageable memory; no pair."""
    model = GPT(layers=12, vocabulary=32_000).to(DEVICE).bfloat16()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=None if bad else True)
    data = torch.randint(0, 32_000, (64, 8, 513))
    return training(model, optimizer, lambda number: data[number % 64].to(DEVICE))


def host_sync(*, bad: bool) -> Step:
    """The CPU reads a value of every parameter in each step."""
    model, optimizer = _decoder(8)
    data = _tokens()

    def loss_of(model: nn.Module, tokens: torch.Tensor) -> torch.Tensor:
        loss = next_token(model, tokens)
        if bad:
            for parameter in model.parameters():
                float(parameter.detach().abs().max())
        return loss

    return training(model, optimizer, lambda number: data[number % 64], loss_of)


def pageable_h2d(*, bad: bool) -> Step:
    """Large batches are copied from pageable memory, not prefetched from pinned memory."""
    layers = (nn.Linear(4096, 4096), nn.GELU(), nn.Linear(4096, 4096))
    model = nn.Sequential(*layers).to(DEVICE).bfloat16()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    host = [torch.randn(8192, 4096) for _ in range(4)]
    if bad:
        copied: Batches = lambda number: host[number % 4].to(DEVICE).bfloat16()  # noqa: E731
        return training(model, optimizer, copied, mean_square)
    host = [batch.pin_memory() for batch in host]
    side = torch.cuda.Stream()
    ahead: list[torch.Tensor] = []

    def fetch(number: int) -> torch.Tensor:
        with torch.cuda.stream(side):
            return host[number % 4].to(DEVICE, non_blocking=True)

    def batches(number: int) -> torch.Tensor:
        batch = ahead.pop() if ahead else fetch(number)
        torch.cuda.current_stream().wait_stream(side)
        batch.record_stream(torch.cuda.current_stream())
        ahead.append(fetch(number + 1))
        return batch.bfloat16()

    return training(model, optimizer, batches, mean_square)


def _captured(body: Callable[[], object]) -> torch.cuda.CUDAGraph:
    """Return a CUDA graph of the work launched by `body`, after one warm-up run."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        body()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        body()
    return graph


def _forward_only(body: Callable[[], object]) -> Step:
    def step(_: int) -> None:
        with torch.no_grad(), nvtx.range("forward"):
            body()

    return step


def _small_chain() -> tuple[list[torch.Tensor], torch.Tensor]:
    """Return the weights of many small GEMMs, and the first input."""
    weights = [torch.randn(256, 256, device=DEVICE) * 0.05 for _ in range(64)]
    return weights, torch.randn(64, 256, device=DEVICE)


def tiny_kernels(*, bad: bool) -> Step:
    """Hundreds of kernels of a few us are launched individually, not as a CUDA graph."""
    weights, first = _small_chain()

    def body() -> None:
        x = first
        for weight in weights:
            x = torch.tanh(x @ weight + 0.1)
            x = x * 0.5 + x.sin() * 0.5
            x = x - x.mean(1, keepdim=True)

    return _forward_only(body if bad else _captured(body).replay)


def loop_optimizer(*, bad: bool) -> Step:
    """The optimizer updates one parameter at a time."""
    model = GPT(width=512, heads=8, layers=24).to(DEVICE).bfloat16()
    chosen: dict[str, Any] = {"foreach": False, "fused": False} if bad else {"fused": True}
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, **chosen)
    data = _tokens(4, 257)
    return training(model, optimizer, lambda number: data[number % 64])


def layout_copies(*, bad: bool) -> Step:
    """Tensors are converted between memory layouts around each convolution."""
    channels = (3, 64, 128, 256, 256)
    pairs = itertools.pairwise(channels)
    model = nn.ModuleList(nn.Conv2d(a, b, 3, padding=1) for a, b in pairs).to(DEVICE).bfloat16()
    images = torch.randn(64, 3, 96, 96, device=DEVICE).bfloat16()
    if not bad:
        model = model.to(memory_format=torch.channels_last)
        images = images.to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)

    def loss_of(model: Any, x: torch.Tensor) -> torch.Tensor:
        for convolution in model:
            if bad:
                x = x.contiguous(memory_format=torch.channels_last).contiguous()
            x = F.relu(convolution(x))
            if bad:
                x = x.transpose(2, 3).contiguous().transpose(2, 3).contiguous()
        return x.float().mean()

    return training(model, optimizer, lambda _: images, loss_of)


def fp32_matmul(*, bad: bool) -> Step:
    """FP32 GEMMs do not use Tensor Cores."""
    torch.backends.cuda.matmul.allow_tf32 = not bad
    model = nn.Sequential(*[nn.Linear(4096, 4096) for _ in range(6)]).to(DEVICE)
    x = torch.randn(4096, 4096, device=DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-5)
    return training(model, optimizer, lambda _: x, mean_square)


def ddp_serial(*, bad: bool) -> Step:
    """Gradients are reduced one by one after the backward pass, not in overlapped buckets."""
    model: nn.Module = GPT(layers=12).to(DEVICE).bfloat16()
    data = _tokens()
    if not bad and RANKS > 1:
        model = nn.parallel.DistributedDataParallel(
            model, device_ids=[RANK], gradient_as_bucket_view=True
        )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    def reduce() -> None:
        with nvtx.range("allreduce"):
            for parameter in model.parameters():
                torch.distributed.all_reduce(parameter.grad)

    is_serial = bad and RANKS > 1
    return training(
        model,
        optimizer,
        lambda number: data[number % 64],
        after_backward=reduce if is_serial else None,
    )


def allocator(*, bad: bool) -> Step:
    """PyTorch's caching allocator is emptied in each step."""
    model, optimizer = _decoder(6)
    data = _tokens()
    after: Callable[[], object] = torch.cuda.empty_cache if bad else lambda: None
    return training(model, optimizer, lambda number: data[number % 64], after=after)


def starved(*, bad: bool) -> Step:
    """The training thread prepares the batches."""
    model, optimizer = _decoder(4)
    random = np.random.default_rng(0)

    def prepare() -> torch.Tensor:
        np.sort(random.random(600_000))
        return torch.from_numpy(random.integers(0, _VOCABULARY, (8, 513)))

    ready = [prepare().pin_memory() for _ in range(8)]

    def batches(number: int) -> torch.Tensor:
        batch = prepare() if bad else ready[number % 8]
        return batch.to(DEVICE, non_blocking=True)

    return training(model, optimizer, batches)


def collected(*, bad: bool) -> Step:
    """Python's garbage collector scans a large heap in each step."""
    model, optimizer = _decoder(6)
    data = _tokens()
    heap = [[number] for number in range(400_000)]
    gc.collect()
    after: Callable[[], object] = (lambda: gc.collect() and heap) if bad else lambda: heap
    return training(model, optimizer, lambda number: data[number % 64], after=after)


class _SlowData(torch.utils.data.Dataset[torch.Tensor]):
    """A dataset with slow items."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def __len__(self) -> int:
        return 4096

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(self.seconds)
        return torch.randint(0, _VOCABULARY, (513,))


def loader(*, bad: bool) -> Step:
    """The DataLoader's single worker is slower than the GPU."""
    model, optimizer = _decoder(4)
    batches: Iterator[torch.Tensor] = iter(
        torch.utils.data.DataLoader(
            _SlowData(0.004 if bad else 0.0),
            batch_size=8,
            num_workers=1 if bad else 4,
            pin_memory=True,
            prefetch_factor=4,
        )
    )
    return training(model, optimizer, lambda _: next(batches).to(DEVICE, non_blocking=True))


def recapture(*, bad: bool) -> Step:
    """A CUDA graph is captured and instantiated again in each step."""
    weights, first = _small_chain()

    def body() -> None:
        x = first
        for weight in weights:
            x = torch.tanh(x @ weight + 0.1)

    kept = [_captured(body)]

    def replay() -> None:
        if bad:
            kept[0] = torch.cuda.CUDAGraph()
            with torch.cuda.graph(kept[0]):
                body()
        kept[0].replay()

    return _forward_only(replay)


def epilogue(*, bad: bool) -> Step:
    """Bias, scale and activation run as separate kernels after each GEMM."""
    size = 4096
    half: dict[str, Any] = {"device": DEVICE, "dtype": torch.bfloat16}
    weights = [torch.randn(size, size, **half) * 0.01 for _ in range(8)]
    biases = [torch.zeros(size, **half) for _ in range(8)]
    first = torch.randn(size, size, **half)

    def body() -> None:
        x = first
        for weight, bias in zip(weights, biases, strict=True):
            if bad:
                x = torch.relu((x @ weight + bias) * 1.0)
            else:
                x = torch._addmm_activation(bias, x, weight)  # noqa: SLF001 - what compilers call

    return _forward_only(body)


def casts(*, bad: bool) -> Step:
    """Weights are kept in FP32 and cast for each GEMM."""
    size = 4096
    weights = [torch.randn(size, size, device=DEVICE) * 0.01 for _ in range(8)]
    cast = [weight.bfloat16() for weight in weights]
    first = torch.randn(1024, size, device=DEVICE)

    def body() -> None:
        x = first.bfloat16()
        for weight, ready in zip(weights, cast, strict=True):
            x = (x @ weight.bfloat16()).float().bfloat16() if bad else x @ ready

    return _forward_only(body)


def streams(*, bad: bool) -> Step:
    """Two independent chains run in one stream."""
    size = 512
    chains = [[torch.randn(size, size, device=DEVICE) * 0.04 for _ in range(24)] for _ in range(2)]
    first = torch.randn(size, size, device=DEVICE)
    side = torch.cuda.Stream()

    def chain(weights: list[torch.Tensor]) -> None:
        x = first
        for weight in weights:
            x = torch.tanh(x @ weight)

    def body() -> None:
        if bad:
            chain(chains[0])
            chain(chains[1])
            return
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            chain(chains[1])
        chain(chains[0])
        torch.cuda.current_stream().wait_stream(side)

    return _forward_only(body)


def nofix(*, bad: bool) -> Step:
    """A value is read in each step, but the GPU stays busy: nothing to gain."""
    model, optimizer, x = _wide()

    def loss_of(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
        loss = mean_square(model, x)
        if bad:
            float(x[0, 0])
        return loss

    return training(model, optimizer, lambda _: x, loss_of)


_ALL: tuple[Program, ...] = (
    *(gpt, host_sync, pageable_h2d, tiny_kernels, loop_optimizer, layout_copies, fp32_matmul),
    *(ddp_serial, allocator, starved, collected, loader, recapture, epilogue, casts, streams),
    nofix,
)
PROGRAMS = {program.__name__: program for program in _ALL}
