"""What ``--gpu-metrics-devices=help`` and ``--gpu-metrics-set=help`` print: what to choose."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from warpline.cli.startup import lazy
from warpline.counters.sampled_sets import DEFAULT, SETS

if TYPE_CHECKING:
    from warpline.capture.machine import nvml
else:
    nvml = lazy("warpline.capture.machine.nvml")


def gpu_lines() -> Iterator[str]:
    """Yield lines with the GPUs of this machine, by the numbers that nvidia-smi shows."""
    library = nvml.Nvml.open()
    gpus = [] if library is None else library.gpus()
    if not gpus:
        yield "No GPU was found."
    for number, gpu in enumerate(gpus):
        yield f"{number}  {gpu.name}  {gpu.uuid}"
    yield "all, cuda-visible and none can be chosen, too."


def set_lines() -> Iterator[str]:
    """Yield lines with the sets and their metrics, in the spelling of most GPUs."""
    for each in SETS.values():
        yield f"{each.name}{' (default)' if each.name == DEFAULT else ''}: {each.text}"
        for spellings in each.metrics:
            yield f"  {spellings[0]}"
    yield "Any file with one metric per line can be chosen, too. The metrics of a set that a GPU"
    yield "does not have, or that do not fit in one pass with the others, are left out."
