"""Programs that use PyTorch, run with and without Warpline."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import NamedTuple

from support import launching

import warpline
from warpline.trace import Trace

MODEL = """
import sys, torch
from torch import nn
torch.manual_seed(0)
torch.set_num_threads(1)

class Attention(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.qkv, self.proj = nn.Linear(size, 3 * size), nn.Linear(size, size)

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        return self.proj(nn.functional.scaled_dot_product_attention(q, k, v))

class Block(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.norm, self.attn = nn.LayerNorm(size), Attention(size)

    def forward(self, x):
        return x + self.attn(self.norm(x))

class GPT(nn.Module):
    def __init__(self, size=8, depth=2):
        super().__init__()
        self.embed = nn.Embedding(16, size)
        self.blocks = nn.ModuleList(Block(size) for _ in range(depth))
        self.head = nn.Linear(size, 16)

    def forward(self, x):
        x = self.embed(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x)

tokens = torch.randint(0, 16, (2, 4))
"""
BLOCK = ["", ".attn", ".attn.proj", ".attn.qkv", ".norm"]
PATHS = sorted(
    ["GPT", "GPT.embed", "GPT.head"]
    + [f"GPT.blocks.{number}{part}" for number in range(2) for part in BLOCK]
)


class Recorded(NamedTuple):
    """A recording, and what the program printed, with and without Warpline."""

    trace: Trace
    out: str
    plain: str


def run(folder: Path, code: str, *, words: str = "all", model: str = MODEL) -> Recorded:
    """Run a program alone, which must succeed, and with ``--pytorch``."""
    launching.needs_agent()
    command = launching.python(folder, model + code)
    plain = _start(folder, command)
    flags = ["-o", "run", "-q", "-t", "nvtx", f"--pytorch={words}"]
    ended = launching.profile(folder, *flags, "--", *command)
    assert ended.status == 0, ended.err
    assert _without_times(ended.err) == _without_times(plain.stderr)
    return Recorded(warpline.open(folder / "run.warpline"), ended.out, plain.stdout)


def run_alone(folder: Path, code: str) -> str:
    """Run a program, which must succeed, and return what it printed."""
    return _start(folder, launching.python(folder, MODEL + code)).stdout


def _without_times(text: str) -> str:
    """Remove the times and processes of PyTorch's messages."""
    return re.sub(r"^([WEI])\d{4} [\d:.]+ \d+ ", r"\1 ", text, flags=re.MULTILINE)


def _start(folder: Path, command: list[str]) -> subprocess.CompletedProcess[str]:
    own = launching.environment()
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder, env=own)
    assert done.returncode == 0, done.stderr
    return done


def names(trace: Trace, domain: str = "nn.Module") -> list[str]:
    """Return the names of the ranges of a domain, by start."""
    ranges = trace["range"]
    return ranges.filter(ranges["domain"] == domain).sort("start_ns")["name"].to_list()


def sequences(trace: Trace) -> list[tuple[str, int, int]]:
    """Return the name and the numbers at both ends of each range that has them, by start."""
    ranges, payloads = trace["range"], trace["range_payload"]
    values = {(row["range_id"], row["key"]): row["int_value"] for row in payloads.to_dicts()}
    return [
        (name, values[number, "sequence"], values[number, "end_sequence"])
        for number, name in enumerate(ranges["name"].to_list())
        if (number, "end_sequence") in values
    ]
