"""More programs that infer in PyTorch; docstrings describe the problem of the bad variant."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - as every program names it
from blind.harness import Setting, Step
from blind.torch_side import FRAMEWORK as FRAMEWORK  # noqa: PLC0414 - for run.py
from blind.torch_side import Block, tokens
from torch import nn
from transformers import BartConfig, BartForConditionalGeneration, LlamaConfig, LlamaForCausalLM


def without_gradients(call: Callable[[int], torch.Tensor]) -> Step:
    """Return a step that runs without gradients."""

    def step(number: int) -> torch.Tensor:
        with torch.no_grad():
            return call(number)

    return step


class PatchEmbedding(nn.Module):
    """Projects patches of two frames: a convolution whose stride is its kernel."""

    def __init__(self, width: int, edge: int, *, convolves: bool) -> None:
        super().__init__()
        self.convolves = convolves
        shape = (2, edge, edge)
        self.project = nn.Conv3d(3, width, shape, stride=shape)

    def forward(self, patches: torch.Tensor) -> torch.Tensor:
        """Return (patches, width) of the pixels (patches, 3 * 2 * edge * edge)."""
        weight = self.project.weight
        if self.convolves:
            return self.project(patches.view(-1, *weight.shape[1:])).view(-1, len(weight))
        return F.linear(patches, weight.view(len(weight), -1), self.project.bias)


def patch_convolution(setting: Setting) -> Step:
    """The vision tower of a language model embeds patches with a 3D convolution."""
    width, edge, layers = setting.size(1152, 32), setting.size(16, 4), setting.size(6, 2)
    embed = PatchEmbedding(width, edge, convolves=setting.bad)
    blocks = nn.ModuleList(Block(width, setting.size(16, 4)) for _ in range(layers))
    model = nn.ModuleList([embed, blocks]).to(setting.device).bfloat16().eval()
    images, patches = setting.size(4, 2), setting.size(1024, 16)
    pixels = torch.randn(images * patches, 3 * 2 * edge * edge, device=setting.device).bfloat16()

    def call(number: int) -> torch.Tensor:
        x = model[0](pixels).view(images, patches, width)
        for block in blocks:
            x = block(x)
        return x

    return without_gradients(call)


def robust_choices(embedding: nn.Embedding) -> None:
    """Give tokens far larger embeddings than a layer adds, so that rounding changes no choice."""
    nn.init.normal_(embedding.weight, std=1.0)


def uncached_tokens(setting: Setting) -> Step:
    """A language model reads the whole text again for each new token, without a KV cache."""
    config = LlamaConfig(
        vocab_size=setting.size(49_152, 200),
        hidden_size=setting.size(960, 64),
        intermediate_size=setting.size(2560, 128),
        num_hidden_layers=setting.size(12, 2),
        num_attention_heads=setting.size(15, 4),
        num_key_value_heads=setting.size(5, 2),
        max_position_embeddings=2048,
        tie_word_embeddings=True,
    )
    model = LlamaForCausalLM(config)
    robust_choices(model.model.embed_tokens)
    model = model.to(setting.device).bfloat16().eval()
    prompts = tokens(setting, config.vocab_size, setting.size(16, 2), setting.size(1024, 12))

    def call(number: int) -> torch.Tensor:
        written = prompts[number % 8]
        unread, cache = written, None
        for _ in range(8):
            if setting.bad:
                found = model(input_ids=written, use_cache=False, logits_to_keep=1)
            else:
                found = model(
                    input_ids=unread, past_key_values=cache, use_cache=True, logits_to_keep=1
                )
                cache = found.past_key_values
            logits = found.logits[:, -1].float()
            unread = logits.argmax(-1, keepdim=True)
            written = torch.cat([written, unread], 1)
        return logits

    return without_gradients(call)


class Adapted(nn.Module):
    """A linear layer with a low-rank adapter next to it."""

    def __init__(self, linear: nn.Linear, rank: int) -> None:
        super().__init__()
        self.linear, self.scale = linear, 2.0
        self.down = nn.Linear(linear.in_features, rank, bias=False)
        self.up = nn.Linear(rank, linear.out_features, bias=False)
        nn.init.normal_(self.up.weight, std=0.01)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the sum of the layer and its adapter."""
        adapted = self.up(self.down(x.to(self.down.weight.dtype))) * self.scale
        return self.linear(x) + adapted.to(x.dtype)

    def merged(self) -> nn.Linear:
        """Return a layer that includes the adapter."""
        with torch.no_grad():
            self.linear.weight += self.scale * (self.up.weight @ self.down.weight)
        return self.linear


def adapters_of(model: nn.Module, rank: int, *, merges: bool) -> None:
    """Give each linear layer of a transformer an adapter, and merge it if asked to."""
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, nn.Linear) and not isinstance(module, Adapted):
                adapted = Adapted(child, rank)
                setattr(module, name, adapted.merged() if merges else adapted)


def unmerged_adapters(setting: Setting) -> Step:
    """A fine-tuned model computes its LoRA adapters next to each layer instead of merging them."""
    width = setting.size(768, 32)
    config = BartConfig(
        vocab_size=setting.size(51_289, 200),
        d_model=width,
        encoder_layers=6,
        decoder_layers=6,
        encoder_attention_heads=setting.size(12, 4),
        decoder_attention_heads=setting.size(12, 4),
        encoder_ffn_dim=4 * width,
        decoder_ffn_dim=4 * width,
        max_position_embeddings=1024,
    )
    model = BartForConditionalGeneration(config)
    adapters_of(model.model.encoder, 8, merges=not setting.bad)
    adapters_of(model.model.decoder, 8, merges=not setting.bad)
    model = model.to(setting.device).bfloat16().eval()
    # What the image encoder found, and the words that the model is made to say.
    seen = torch.randn(8, 1, setting.size(577, 10), width, device=setting.device).bfloat16()
    words = tokens(setting, config.vocab_size, 1, 8)

    def call(number: int) -> torch.Tensor:
        states = model.model.encoder(inputs_embeds=seen[number % 8])
        cache: Any = None
        logits = []
        for word in words[number % 8].unbind(1):
            found = model(
                encoder_outputs=states,
                decoder_input_ids=word[:, None],
                past_key_values=cache,
                use_cache=True,
            )
            cache = found.past_key_values
            logits.append(found.logits[:, -1])
        return torch.cat(logits)

    return without_gradients(call)


def numpy_softmax(logits: np.ndarray) -> np.ndarray:
    """Return the probabilities of a token's logits."""
    shares = np.exp(logits - logits.max())
    return shares / shares.sum()


def copied_logits(setting: Setting) -> Step:
    """Perplexity copies each token's logits to the CPU and normalizes them with NumPy."""
    config = LlamaConfig(
        vocab_size=setting.size(32_000, 200),
        hidden_size=setting.size(2048, 64),
        intermediate_size=setting.size(5632, 128),
        num_hidden_layers=setting.size(12, 2),
        num_attention_heads=setting.size(16, 4),
        num_key_value_heads=setting.size(4, 2),
        max_position_embeddings=2048,
    )
    model = LlamaForCausalLM(config).to(setting.device).half().eval()
    length = setting.size(512, 32)
    texts = tokens(setting, config.vocab_size, 1, length)
    known = texts.tolist()
    least = torch.tensor(1e-8, device=setting.device)

    def call(number: int) -> torch.Tensor:
        logits = model(input_ids=texts[number % 8], use_cache=False).logits[0].float()
        lost = 0.0
        for place in range(length // 2, length - 1):
            following = known[number % 8][0][place + 1]
            if setting.bad:
                lost -= float(np.log(numpy_softmax(logits[place].cpu().numpy())[following]))
            else:
                share = logits[place].softmax(-1)[following]
                lost -= torch.where(share > 0, share, least).log().item()
        return torch.tensor([lost])

    return without_gradients(call)


class WindowBlock(nn.Module):
    """A block of a Swin transformer: attention inside windows, which may be shifted."""

    def __init__(self, width: int, heads: int, window: int, shift: int, *, on_cpu: bool) -> None:
        super().__init__()
        self.heads, self.window, self.shift, self.on_cpu = heads, window, shift, on_cpu
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.feed_forward = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def windows(self, x: torch.Tensor) -> torch.Tensor:
        """Return (batch, windows, tokens, channels) of (batch, height, width, channels)."""
        x = x.unflatten(1, (-1, self.window)).unflatten(3, (-1, self.window))
        return x.transpose(2, 3).flatten(3, 4).flatten(1, 2)

    def mask(self, height: int, width: int, device: torch.device) -> torch.Tensor:
        """Return what a shifted window's tokens may not see: (windows, tokens, tokens)."""
        image = torch.zeros(1, height, width, 1, device="cpu" if self.on_cpu else device)
        ends = (0, -self.window, -self.shift, None)
        region = 0
        for top, bottom in itertools.pairwise(ends):
            for left, right in itertools.pairwise(ends):
                image[:, top:bottom, left:right] = region
                region += 1
        regions = self.windows(image)[0, :, :, 0]
        apart = regions[:, None] - regions[:, :, None]
        return apart.masked_fill(apart != 0, -100.0).masked_fill(apart == 0, 0.0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the block's output, shaped like `x`: (batch, height, width, channels)."""
        batch, height, width, channels = x.shape
        y = self.norm1(x)
        mask = None
        if self.shift:
            y = y.roll((-self.shift, -self.shift), (1, 2))
            mask = self.mask(height, width, x.device).to(x.device, x.dtype)[None, :, None]
        y = self.qkv(self.windows(y)).unflatten(-1, (3, self.heads, -1))
        query, key, value = y.permute(3, 0, 1, 4, 2, 5)
        if mask is not None:
            mask = mask.expand(batch, -1, -1, -1, -1).flatten(0, 1)
        seen = F.scaled_dot_product_attention(
            query.flatten(0, 1), key.flatten(0, 1), value.flatten(0, 1), attn_mask=mask
        )
        y = self.out(seen.transpose(1, 2).flatten(2))
        y = y.unflatten(0, (batch, height // self.window, -1)).unflatten(3, (self.window, -1))
        y = y.transpose(2, 3).reshape(batch, height, width, channels)
        if self.shift:
            y = y.roll((self.shift, self.shift), (1, 2))
        x = x + y
        return x + self.feed_forward(self.norm2(x))


def cpu_masks(setting: Setting) -> Step:
    """A Swin encoder makes the mask of each shifted layer on the CPU in each call."""
    width, window = setting.size(128, 16), setting.size(8, 4)
    layers: list[nn.Module] = [nn.Conv2d(3, width, 4, stride=4)]
    stages = nn.ModuleList()
    for stage, depth in enumerate((2, 2, 14, 2)):
        inner = width * 2**stage
        heads = setting.size(4, 2) * 2**stage
        blocks: list[nn.Module] = [
            WindowBlock(inner, heads, window, shift, on_cpu=setting.bad)
            for _, shift in zip(range(depth), (0, window // 2) * depth, strict=False)
        ]
        stages.append(nn.Sequential(*blocks))
        layers.append(nn.Conv2d(inner, 2 * inner, 2, stride=2) if stage < 3 else nn.Identity())
    model = nn.ModuleList([*layers, stages]).to(setting.device).bfloat16().eval()
    edge = setting.size(1024, 128)
    images = torch.randn(2, 3, edge, edge, device=setting.device).bfloat16()

    def call(number: int) -> torch.Tensor:
        x = model[0](images)
        for stage, down in zip(stages, layers[1:], strict=True):
            x = down(stage(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2))
        return x

    return without_gradients(call)
