"""The phases of a training step in the diagnosis: they sum to the breakdown."""

from __future__ import annotations

from support.machine import Machine

import warpline
from warpline.result import Result
from warpline.trace import Trace

STEPS = 12
US = 1_000


def recorded(*, trains: bool = True, has_modules: bool = True) -> Trace:
    """Return steps that copy a batch, call a model, and train it."""
    machine = Machine()

    def within(name: str, kernels_us: int, domain: str | None = None) -> None:
        begun = machine.now
        for _ in range(3):
            machine.launch(kernels_us * US)
        machine.program.mark(name, begun, machine.now, domain=domain)

    for step in range(STEPS):
        machine.copy(1_000_000, pinned=False)
        within("GPT", 100, "nn.Module" if has_modules else None)
        machine.launch(50 * US)  # the loss
        if trains:
            within(f"AddmmBackward0, seq = {step}, op_id = 3", 200)
            within("Optimizer.step#AdamW.step", 40, "torch")
        machine.wait()
        machine.end_step()
    return machine.trace()


def test_the_phases_of_training_sum_to_the_breakdown() -> None:
    found = warpline.analyze(recorded())
    (device,) = found.breakdown
    named = {item.name: item for item in found.training}
    assert [*named] == ["forward", "backward", "optimizer", "data", "other"]
    assert sum(item.total_ns for item in found.training) == device.total_ns
    for item in found.training:
        assert sum(part.ns for part in item.parts) == item.total_ns
    busy = {
        name: sum(part.ns for part in item.parts if part.kind == "busy") // device.count // US
        for name, item in named.items()
    }
    copied = busy.pop("data")
    assert busy == {"forward": 300, "backward": 600, "optimizer": 120, "other": 50}
    assert copied == 126  # 1 MB at 8 GB/s, and 1 us


def test_inference_and_programs_without_modules_have_none() -> None:
    assert warpline.analyze(recorded(trains=False)).training == ()
    assert warpline.analyze(recorded(has_modules=False)).training == ()


def test_the_table_and_the_summary_have_the_same_phases() -> None:
    trace = recorded()
    table = warpline.stats(trace, "step_phases")
    found = {item.name: item.total_ns for item in warpline.analyze(trace).training}
    columns = (table.columns[name].to_list() for name in ("phase", "total_ns"))
    assert dict(zip(*columns, strict=True)) == found
    shown = next(of for of in warpline.summary(trace).sections if of.name == "step_phases")
    assert isinstance(shown, Result)
    assert shown.columns["phase"].to_list() == [*found]
