"""Capture checks on the CPU: a graph that stands in for CUDA's replays what it was given."""

from __future__ import annotations

import pytest

import warpline
from warpline.errors import UsageError

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

from warpline.torch.capturing import check, new_inputs  # noqa: E402
from warpline.torch.tensor_trees import compared, owners_of, state_of  # noqa: E402


class Replayed:
    """A graph whose replay calls the function again, and writes to the tensors of the capture.

    Args:
        owners: The modules and optimizers of the function.
        error: Why capture fails; empty if it does not.
    """

    def __init__(self, owners=None, error=""):
        self._owners, self._error = owners or {}, error

    def run(self, call):
        return call()

    def capture(self, call):
        if self._error:
            self._fail()
        self._call, self._result = call, call()
        self._state = state_of(torch, self._owners)
        return self._result

    def replay(self):
        result = self._call()
        now = state_of(torch, self._owners)
        with torch.no_grad():
            self._result.copy_(result)
            for name, tensor in self._state.items():
                tensor.copy_(now[name])

    def _fail(self):
        try:
            raise RuntimeError(self._error)  # noqa: TRY301
        except RuntimeError:
            raise RuntimeError("capture ended") from None


class Frozen(Replayed):
    """A graph that repeats the result of its capture."""

    def replay(self):
        pass


def trained():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 1))
    optimizer = torch.optim.AdamW(model.parameters())

    def step(x):
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    return model, step


def checked(step, *args, kind=Replayed, **more):
    owners = owners_of(torch, step)
    return check(step, new_inputs(args, None, 3), owners, kind(owners, **more))


def test_a_training_step_replays_as_it_runs_and_leaves_its_state():
    model, step = trained()
    before = [parameter.detach().clone() for parameter in model.parameters()]
    x = torch.randn(6, 4)
    random = torch.get_rng_state()
    found = checked(step, x)
    assert found.is_valid, str(found)
    assert {item.agreement for item in found.differences} == {"equal"}
    names = {item.name for item in found.differences}
    assert {"result", "model.0.weight", "model.0.weight.grad"} <= names
    assert "optimizer.exp_avg of model.0.weight" in names
    assert str(found).startswith("Yes: 3 replays did what the function does.\n")
    assert all(map(torch.equal, before, model.parameters()))
    assert all(parameter.grad is None for parameter in model.parameters())
    assert torch.equal(random, torch.get_rng_state())


def test_what_capture_fixes_shows():
    model = torch.nn.Linear(3, 1)

    def forward(x):
        return model(x)

    found = checked(forward, torch.randn(5, 3), kind=Frozen)
    assert found.verdict == "no"
    assert [item.name for item in found.wrong] == ["result"]
    assert "result: differs by up to" in str(found)


def test_a_function_that_counts_its_calls_cannot_be_judged():
    model, calls = torch.nn.Linear(3, 1), []

    def scaled(x):
        calls.append(1)
        return model(x) * len(calls)

    found = checked(scaled, torch.randn(5, 3))
    assert found.verdict != "yes"
    assert [item.name for item in found.varying] == ["result"]


def test_a_buffer_that_is_replaced_is_named():
    class Mean(torch.nn.Module):  # type: ignore[name-defined,misc]
        def __init__(self):
            super().__init__()
            self.register_buffer("mean", torch.zeros(3))

        def forward(self, x):
            self.register_buffer("mean", self.get_buffer("mean") * 0.9 + x.mean(0) * 0.1)
            return x - self.get_buffer("mean")

    found = checked(Mean(), torch.randn(5, 3))
    assert list(found.moved) == ["Mean.mean"]
    assert not found.is_valid
    assert "Mean.mean: replaced by a new tensor" in str(found)


def test_a_capture_that_fails_says_why():
    _, step = trained()
    text = "operation not permitted when stream is capturing"
    found = checked(step, torch.randn(6, 4), error=f"{text}\nmore")
    assert (found.is_captured, found.is_valid) == (False, False)
    assert found.error == text
    assert str(found).startswith("No: capture failed at test_graphcheck.py:")
    assert found.to_dict()["error"] == text


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch.compile
def test_owners_are_found_through_functions_and_objects():
    model, step = trained()

    class Trainer:
        def __init__(self):
            self.net = torch.nn.Linear(2, 2)

        def step(self, x):
            return self.net(x)

    trainer = Trainer()
    assert set(owners_of(torch, step)) == {"model", "optimizer"}
    assert owners_of(torch, lambda x: step(x + 1))["model"] is model
    assert owners_of(torch, torch.no_grad()(step))["model"] is model
    assert owners_of(torch, torch.compile(step))["model"] is model
    assert owners_of(torch, trainer.step) == {"net": trainer.net}
    assert set(state_of(torch, {"net": trainer.net})) == {"net.weight", "net.bias"}


def test_agreement_of_tensors():
    one = torch.ones(3)
    assert compared(torch, "a", one, one).agreement == "equal"
    assert compared(torch, "a", one + 1e-6, one).agreement == "close"
    assert compared(torch, "a", one + 1e-3, one).agreement == "different"
    assert compared(torch, "a", one[:2], one).agreement == "different"
    nan = torch.full((3,), float("nan"))
    assert compared(torch, "a", nan, nan).agreement == "equal"
    assert compared(torch, "a", nan, one).largest == float("inf")
    assert compared(torch, "a", one > 0, one > 2).agreement == "different"


def test_inputs_of_replays_have_the_shapes_of_the_first_one():
    values = new_inputs((torch.arange(6).view(2, 3),), None, 2)
    assert sorted(values[1][0].flatten().tolist()) == list(range(6))
    assert not torch.equal(values[0][0], values[1][0])
    with pytest.raises(UsageError, match="other arguments"):
        new_inputs((torch.ones(2),), lambda: (torch.ones(3),), 2)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_is_needed():
    with pytest.raises(UsageError, match="needs an NVIDIA GPU"):
        warpline.torch.graphcheck(lambda x: x, torch.ones(1))
