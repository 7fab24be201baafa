"""Which step of a program is the sample of which PyTorch records everything."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from warpline.injected import observer
from warpline.injected.operators import Sample


@pytest.fixture
def sample(monkeypatch):
    profiler = SimpleNamespace(record_function=None)
    torch = SimpleNamespace(autograd=SimpleNamespace(profiler=profiler))
    monkeypatch.setitem(sys.modules, "torch", torch)
    return Sample(SimpleNamespace())


def modes(sample, modules):
    """Return the mode asked for after each call, from the call in which it changes."""
    found = {}
    for number, module in enumerate(modules):
        assert sample.wants(is_end=False, module=module) is None
        mode = sample.wants(is_end=True, module=module)
        if mode is not None:
            found[number] = mode
    return found


def test_the_sample_is_from_one_call_of_a_module_to_its_next(sample):
    model = object()
    assert modes(sample, [model] * 6) == {2: observer.RECORDS_SHAPES, 3: observer.NVTX_SHAPES}


def test_calls_of_the_loss_are_part_of_the_step(sample):
    model, loss = object(), object()
    ends = modes(sample, [model, loss] * 4)
    assert ends == {2: observer.RECORDS_SHAPES, 4: observer.NVTX_SHAPES}


def test_the_sample_ends_if_its_module_never_comes_again(sample):
    modules = [object() for _ in range(30)]
    assert modes(sample, modules) == {2: observer.RECORDS_SHAPES, 18: observer.NVTX_SHAPES}
