"""Training steps that can be captured as CUDA graphs, and steps with one planted offender each.

    python programs.py NAME [STEPS]              runs the steps, as a program of its own
    python programs.py NAME --captured [STEPS]   prints ns per step, eager and captured, as JSON

Each function returns a step, which takes its number. Lines with an offender end in ``# planted``.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional

WIDTH, BATCH, LAYERS = 256, 64, 12


def mlp(*between):
    """A model whose step is launch-bound, static inputs, and its optimizer."""
    torch.manual_seed(0)
    layers = []
    for _ in range(LAYERS):
        layers += [nn.Linear(WIDTH, WIDTH), nn.GELU(), *(make() for make in between)]
    model = nn.Sequential(*layers).cuda()
    x = torch.randn(BATCH, WIDTH, device="cuda")
    y = torch.randn(BATCH, WIDTH, device="cuda")
    return model, x, y, torch.optim.SGD(model.parameters(), lr=1e-3)


def trained(model, x, y, optimizer):
    optimizer.zero_grad(set_to_none=True)
    loss = functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    return loss


def plain():
    parts = mlp()
    return lambda _: trained(*parts)


def dropout():
    parts = mlp(lambda: nn.Dropout(0.1))
    return lambda _: trained(*parts)


def transformer():
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(128, 4, 256, batch_first=True, dropout=0.0)
    model = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False).cuda()
    x = torch.randn(8, 32, 128, device="cuda")
    y = torch.randn(8, 32, 128, device="cuda")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, capturable=True, foreach=True)
    return lambda _: trained(model, x, y, optimizer)


def convolution():
    torch.manual_seed(0)
    blocks = [
        nn.Sequential(nn.Conv2d(16, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU())
        for _ in range(8)
    ]
    model = nn.Sequential(*blocks).cuda()
    x = torch.randn(16, 16, 32, 32, device="cuda")
    y = torch.randn(16, 16, 32, 32, device="cuda")
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    return lambda _: trained(model, x, y, optimizer)


def joined():
    model, x, y, optimizer = mlp()
    side = torch.cuda.Stream()

    def step(number):
        main = torch.cuda.current_stream()
        side.wait_stream(main)
        with torch.cuda.stream(side):
            target = (y * 2).tanh()
        main.wait_stream(side)
        return trained(model, x, target, optimizer)

    return step


def item():
    parts, losses = mlp(), []

    def step(number):
        losses.append(trained(*parts).item())  # planted

    return step


def masked():
    model, x, y, optimizer = mlp()

    def step(number):
        optimizer.zero_grad(set_to_none=True)
        out = model(x)
        loss = out[out > y].square().sum()  # planted
        loss.backward()
        optimizer.step()

    return step


def synchronized():
    parts = mlp()

    def step(number):
        trained(*parts)
        torch.cuda.synchronize()  # planted

    return step


def pageable():
    model, _, y, optimizer = mlp()
    batches = [torch.randn(BATCH, WIDTH) for _ in range(4)]

    def step(number):
        x = batches[number % 4].cuda()  # planted
        trained(model, x, y, optimizer)

    return step


def constant():
    model, x, y, optimizer = mlp()

    def step(number):
        scale = torch.tensor([0.5], device="cuda")  # planted
        trained(model, x * scale, y, optimizer)

    return step


def shapes():
    model, x, y, optimizer = mlp()

    def step(number):
        rows = 32 + 8 * (number % 4)
        optimizer.zero_grad(set_to_none=True)
        out = model(x[:rows])  # planted
        functional.mse_loss(out, y[:rows]).backward()
        optimizer.step()

    return step


def branch():
    model, x, y, optimizer = mlp()

    def step(number):
        trained(model, x, y, optimizer)
        if number % 3 == 0:
            x.mul_(0.99)  # planted

    return step


def emptied():
    parts = mlp()

    def step(number):
        trained(*parts)
        torch.empty(1 << 28, device="cuda")
        torch.cuda.empty_cache()  # planted

    return step


def unjoined():
    model, x, y, optimizer = mlp()
    side = torch.cuda.Stream()

    def step(number):
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            x.add(1)  # planted
        trained(model, x, y, optimizer)

    return step


def query():
    parts = mlp()
    event = torch.cuda.Event()

    def step(number):
        trained(*parts)
        event.record()
        event.query()  # planted

    return step


def growing():
    parts, kept = mlp(), []

    def step(number):
        trained(*parts)
        kept.append(torch.empty(48 << 20, dtype=torch.uint8, device="cuda"))  # planted

    return step


def clipped():
    model, x, y, optimizer = mlp()

    def step(number):
        optimizer.zero_grad(set_to_none=True)
        functional.mse_loss(model(x), y).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0, error_if_nonfinite=True)  # planted
        optimizer.step()

    return step


CLEAN = {each.__name__: each for each in (plain, dropout, transformer, convolution, joined)}
# The kinds of offenders, of which one at least must be found; others of them may be.
PLANTED = {
    item: ("cpu-read",),
    masked: ("cpu-read", "changing-shapes", "changing-work"),
    synchronized: ("synchronization",),
    pageable: ("pageable-copy",),
    constant: ("pageable-copy",),
    shapes: ("changing-shapes", "changing-work"),
    branch: ("changing-work",),
    emptied: ("free", "allocation", "synchronization"),
    unjoined: ("unjoined-stream",),
    query: ("query",),
    growing: ("allocation",),
    clipped: ("cpu-read",),
}
PROGRAMS = {**CLEAN, **{each.__name__: each for each in PLANTED}}


def planted_line(name):
    """Return the line with the offender of a program; None for a clean one."""
    code = PROGRAMS[name].__code__
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    for number in range(code.co_firstlineno, len(lines)):
        if lines[number].startswith("def "):
            return None
        if lines[number].endswith("# planted"):
            return number + 1
    return None


def run(name, steps):
    step = PROGRAMS[name]()
    for number in range(steps):
        step(number)
    torch.cuda.synchronize()


def captured(name, steps):
    """Return ns per step, eager and replayed."""
    step = PROGRAMS[name]()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(5):
            step(0)
        eager = timed(lambda: step(0), steps)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step(0)
    graph.replay()
    return {"eager_ns": eager, "captured_ns": timed(graph.replay, steps)}


def timed(call, steps):
    """Return the median over five rounds."""
    rounds = []
    for _ in range(5):
        torch.cuda.synchronize()
        begin = time.perf_counter_ns()
        for _ in range(steps):
            call()
        torch.cuda.synchronize()
        rounds.append((time.perf_counter_ns() - begin) / steps)
    return sorted(rounds)[2]


if __name__ == "__main__":
    words = [word for word in sys.argv[2:] if word != "--captured"]
    count = int(words[0]) if words else 30
    if "--captured" in sys.argv:
        print(json.dumps(captured(sys.argv[1], count)))
    else:
        run(sys.argv[1], count)
