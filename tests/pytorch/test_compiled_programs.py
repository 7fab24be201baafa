"""Nothing is compiled otherwise, or again, because modules are recorded."""

from __future__ import annotations

import json

import pytest
from pytorch import recorded
from pytorch.recorded import PATHS, names

pytest.importorskip("torch")
pytestmark = [pytest.mark.torch]

PATHS_OF_SECOND = [path.replace("GPT", "GPT#2") for path in PATHS]
COUNT = """
import json
import torch._dynamo
from torch._dynamo.testing import CompileCounterWithBackend
from torch._dynamo.utils import counters

class Broken(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        x = self.first(x)
        torch._dynamo.graph_break()
        return self.second(x)

def counted(make, *given):
    torch._dynamo.reset()
    counters.clear()
    counter = CompileCounterWithBackend("aot_eager")
    call = make(counter)
    results = [call(*given) for _ in range(3)]
    breaks = {reason.splitlines()[0]: n for reason, n in counters["graph_break"].items()}
    return [counter.frame_count, counter.op_count, counters["stats"], counters["frames"], breaks,
        [result.sum().item() for result in results]]
"""
CASES = """
model, broken, x = GPT(), Broken(), torch.ones(2, 4)
optimizer = torch.optim.AdamW(model.parameters())

def compile_in_place(module, counter):
    module.compile(backend=counter)
    return module

def step(tokens):
    loss = model(tokens).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss

def show():
    print(json.dumps([
        counted(lambda c: torch.compile(model, backend=c, fullgraph=True), tokens),
        counted(lambda c: torch.compile(lambda t: model(t), backend=c, fullgraph=True), tokens),
        counted(lambda c: torch.compile(lambda t: model.__call__(t), backend=c), tokens),
        counted(lambda c: torch.compile(broken, backend=c), x),
        counted(lambda c: torch.compile(lambda t: broken.__call__(t) + 1, backend=c), x),
        counted(lambda c: compile_in_place(GPT(), c), tokens),
        counted(lambda c: torch.compile(step, backend=c), tokens),
    ]))
"""


def test_what_is_compiled_is_the_same(tmp_path):
    found = recorded.run(tmp_path, COUNT + CASES + "show()")
    with_ranges, without = json.loads(found.out), json.loads(found.plain)
    assert with_ranges == without
    assert without[0][0] == 1
    # The model, and not what is compiled in it; each part of a broken one runs on its own.
    ranges = names(found.trace)
    assert ranges[:2] == ["OptimizedModule", "GPT"]
    assert "GPT.head" not in ranges
    assert ranges.count("Broken.first") == 0


TOGGLED = """
import warpline
model = torch.compile(GPT(), backend=(counter := CompileCounterWithBackend("aot_eager")))
plain = GPT()
function = torch.compile(lambda t: plain.head(plain.embed(t)), backend=counter)
found = []
for number in range(3):
    model(tokens), function(tokens)
    with warpline.profile(f"{number}.warpline", trace="nvtx", pytorch="all") as run:
        model(tokens), function(tokens), plain(tokens)
    found.append([counter.frame_count, run.trace["range"]["name"].to_list()])
print(json.dumps([found, nn.Module.__call__ is nn.Module._wrapped_call_impl]))
"""


def test_beginning_and_ending_compiles_nothing_again(tmp_path):
    found, is_restored = json.loads(recorded.run_alone(tmp_path, COUNT + TOGGLED))
    assert [count for count, _ in found] == [2, 2, 2]
    for _, ranges in found:
        assert sorted(ranges) == sorted(["OptimizedModule", "GraphModule", *PATHS_OF_SECOND])
    assert is_restored
