"""Parameters, gradients, optimizer states and inputs are found, to the byte."""

import gc
import json
import weakref
from typing import cast

import pytest
from support.torch_memory import FakeAgent

from warpline.injected import memory, modules, profiler_ranges, tensors
from warpline.injected.agent import Agent
from warpline.injected.context import Context

pytest.importorskip("torch")
import torch

pytestmark = [pytest.mark.torch]


class GPT(torch.nn.Module):  # type: ignore[misc] # PyTorch is not installed where types are checked
    def __init__(self):
        super().__init__()
        self.embed, self.head = torch.nn.Embedding(16, 8), torch.nn.Linear(8, 16, bias=False)
        self.head.weight = self.embed.weight  # tied
        self.proj = torch.nn.Linear(8, 8)
        self.norm = torch.nn.BatchNorm1d(8)

    def forward(self, tokens, scale=None):
        return self.head(self.norm(self.proj(self.embed(tokens))))


class Recorded:
    """What was written of this process."""

    def __init__(self, folder, monkeypatch):
        (folder / "pytorch").mkdir()
        self.context = Context(str(folder), "", frozenset(["modules", "optimizer", "memory"]))
        self.agent = FakeAgent()
        self.context.agent = cast("Agent", self.agent)
        monkeypatch.setattr(torch._C, "_cuda_record_memory_history", None, raising=False)
        monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
        monkeypatch.setattr(memory, "is_on", lambda: True)
        monkeypatch.setattr(tensors, "_gpu", lambda _: 0)
        self.parts = (modules, profiler_ranges, tensors)

    def start(self):
        for part in self.parts:
            part.start(self.context)

    def stop(self):
        for part in reversed(self.parts):
            part.stop()

    def lines(self):
        self.stop()
        path = self.context.file("tensors.jsonl")
        return [json.loads(line) for line in path.read_text().splitlines()]

    def bytes_by_name(self, kind):
        """Return the bytes of all tensors of a kind at all times, by name."""
        names = {
            line[1]: line[3] for line in self.lines() if line[:1] + line[2:3] == ["tensor", kind]
        }
        return {
            names[number]: size
            for line in self.lines()
            if line[0] == "seen"
            for number, _, _, size in line[3]
            if number in names
        }

    def looks(self, look):
        return [line[0] for line in self.lines() if line[0] != "tensor" and line[2] == look]

    def notes(self):
        path = self.context.file("notes.jsonl")
        return path.read_text() if path.exists() else ""


@pytest.fixture
def recorded(tmp_path, monkeypatch):
    found = Recorded(tmp_path, monkeypatch)
    yield found
    found.stop()
    assert found.notes() == ""


TOKENS = torch.zeros(4, dtype=torch.int64)


def train(model, optimizer, steps=4):
    for _ in range(steps):
        optimizer.zero_grad()
        model(TOKENS).square().mean().backward()
        optimizer.step()


def sizes(tensors_by_name):
    return {name: tensor.numel() * tensor.element_size() for name, tensor in tensors_by_name}


def test_a_training_to_the_byte(recorded):
    recorded.start()
    model = GPT()
    optimizer = torch.optim.AdamW(model.parameters())
    train(model, optimizer)
    parameters = sizes((f"GPT.{name}", one) for name, one in model.named_parameters())
    assert recorded.bytes_by_name("Parameter") == parameters
    assert recorded.bytes_by_name("Gradient") == parameters
    buffers = sizes((f"GPT.{name}", one) for name, one in model.named_buffers())
    assert recorded.bytes_by_name("Buffer") == buffers
    states = recorded.bytes_by_name("Optimizer state")
    wanted = {
        f"AdamW.{key} of {name}": 4 if key == "step" else size
        for name, size in parameters.items()
        for key in ("exp_avg", "exp_avg_sq", "step")
    }
    assert states == wanted
    assert recorded.bytes_by_name("Input") == {"input 0": 32}
    modules = {line[3]: line[4] for line in recorded.lines() if line[0] == "tensor"}
    assert modules["GPT.proj.weight"] == "GPT.proj"
    assert modules["AdamW.step of GPT.proj.weight"] == "GPT.proj"


def test_gradients_are_looked_at_in_each_step(recorded):
    recorded.start()
    model = GPT()
    train(model, torch.optim.SGD(model.parameters()), steps=20)
    assert len(recorded.looks("SGD gradients")) == 20
    assert recorded.looks("SGD state") == []  # there is none
    assert len(recorded.looks("inputs")) == 20
    assert recorded.looks("inputs")[1:] == ["same"] * 19
    assert recorded.looks("modules") == ["seen", "same", "same", "same", "same"]  # 1, 2, 4, 8, 16


def test_what_was_there_before_is_found(recorded):
    model = GPT()
    optimizer = torch.optim.SGD(model.parameters(), momentum=0.5)
    train(model, optimizer)
    recorded.start()
    train(model, optimizer)
    assert set(recorded.bytes_by_name("Optimizer state")) == {
        f"SGD.momentum_buffer of GPT.{name}" for name, _ in model.named_parameters()
    }


def test_two_optimizers_and_parameters_of_no_module(recorded):
    recorded.start()
    model, scale = GPT(), torch.nn.Parameter(torch.ones(3))
    first = torch.optim.SGD(model.parameters())
    second = torch.optim.SGD([scale], momentum=0.5)
    (model(TOKENS).sum() * scale.sum()).backward()
    first.step()
    second.step()
    assert recorded.bytes_by_name("Parameter")["SGD#2.param_groups.0.params.0"] == 12
    states = recorded.bytes_by_name("Optimizer state")
    assert states == {"SGD#2.momentum_buffer of SGD#2.param_groups.0.params.0": 12}


def test_nothing_is_looked_at_during_a_pause(recorded):
    recorded.start()
    recorded.agent.is_on = False
    model = GPT()
    optimizer = torch.optim.SGD(model.parameters())
    train(model, optimizer)
    assert tensors._tensors is not None
    assert tensors._tensors._lines == []
    recorded.agent.is_on = True
    train(model, optimizer)
    assert recorded.looks("SGD gradients")[0] == "seen"


def test_inputs_in_lists_and_dictionaries(recorded):
    recorded.start()

    class Sum(torch.nn.Module):  # type: ignore[misc]
        def forward(self, batch, *, masks):
            return batch["x"][0] + masks[0]

    made = torch.ones(2, requires_grad=True) * 2  # by an operator: no input
    Sum()({"x": [torch.ones(2), made], "id": 7}, masks=(torch.ones(2),))
    assert recorded.bytes_by_name("Input") == {"input 0.x.0": 8, "input masks.0": 8}


def test_nothing_is_kept_alive_and_torch_is_left_as_it_was(recorded):
    before = torch.optim.Optimizer.__init__
    recorded.start()
    model = GPT()
    optimizer = torch.optim.AdamW(model.parameters())
    train(model, optimizer)
    left = [weakref.ref(one) for one in (model, optimizer, model.proj.weight)]
    del model, optimizer
    gc.collect()
    assert [one() for one in left] == [None] * 3
    recorded.stop()
    assert torch.optim.Optimizer.__init__ is before
    assert recorded.context.safe_places == recorded.context.step_ends == []


def test_tensors_without_memory_and_of_other_kinds(recorded):
    recorded.start()

    class Odd(torch.Tensor):  # type: ignore[misc]
        @staticmethod
        def __new__(cls):
            return torch.Tensor._make_wrapper_subclass(cls, (2, 2))

        @classmethod
        def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
            raise TypeError("not this one")

    class Model(torch.nn.Module):  # type: ignore[misc]
        def __init__(self):
            super().__init__()
            self.lazy = torch.nn.LazyLinear(4)
            self.strided = torch.nn.Parameter(torch.ones(4, 4)[:, 0])

        def forward(self, x, odd):
            return self.lazy(x) + self.strided.sum()

    Model()(torch.ones(2, 3), Odd())
    found = recorded.bytes_by_name("Parameter")
    assert found == {"Model.lazy.weight": 48, "Model.lazy.bias": 16, "Model.strided": 52}


def test_tensors_that_hold_others(recorded):
    recorded.start()

    class Pair(torch.Tensor):  # type: ignore[misc]
        @staticmethod
        def __new__(cls, first, second):
            made = torch.Tensor._make_wrapper_subclass(cls, first.shape)
            made.first, made.second = first, second
            return made

        def __tensor_flatten__(self):
            return ["first", "second"], None

        @classmethod
        def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
            raise TypeError("not this one")

    class Model(torch.nn.Module):  # type: ignore[misc]
        def forward(self, x):
            return x.first

    Model()(Pair(torch.ones(2), torch.ones(4)))
    (seen,) = [line[3] for line in recorded.lines() if line[0] == "seen"]
    assert [size for *_, size in seen] == [8, 16]
