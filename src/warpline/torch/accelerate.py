"""Recording a training loop that is written with Hugging Face Accelerate."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from typing import Any, Unpack

from warpline.torch.step_recorder import Options, StepRecorder


class AcceleratedSteps:
    """The steps of a loop: each ends with the first optimizer's step, and the next one begins.

    Attributes:
        paths: The recordings that were written.
    """

    def __init__(self, recorder: StepRecorder) -> None:
        self._recorder = recorder
        self._number = 0
        self.paths = recorder.paths
        recorder.begin_step(self._number)

    def step(self) -> None:
        """End a step. Call it where optimizers are not PyTorch's own, as with DeepSpeed."""
        self._recorder.end_step()
        self._number += 1
        self._recorder.begin_step(self._number)


@contextlib.contextmanager
def accelerate_profile(
    accelerator: Any,
    path: str | os.PathLike[str] | None = None,
    **options: Unpack[Options],
) -> Iterator[AcceleratedSteps]:
    """Record some training steps: ``with warpline.torch.accelerate_profile(accelerator):``.

    A step is an update of the weights by the first optimizer that `accelerator` has prepared, with
    everything since the last one: loading of batches, forward, backward. Keep evaluation out of
    the block.

    Args:
        accelerator: The `accelerate.Accelerator`, after its ``prepare``.
        path: Output file, as for `StepRecorder`.
        options: See `Options`.

    Yields:
        The steps. Their `step()` is called by the optimizer; without one, call it in the loop.
    """
    recorder = StepRecorder(path, **options)
    recorder.begin(accelerator.process_index)
    steps = AcceleratedSteps(recorder)
    remove = _after_each_step(accelerator, steps.step)
    try:
        yield steps
    except BaseException as error:
        recorder.end(f"training ended by {type(error).__name__}")
        raise
    else:
        recorder.end()
    finally:
        remove()


def _after_each_step(accelerator: Any, call: Callable[[], None]) -> Callable[[], None]:
    """Call a function after each step of the first optimizer; return what ends that."""
    optimizers = accelerator._optimizers  # noqa: SLF001 - nothing public has them
    optimizer = getattr(optimizers[0], "optimizer", optimizers[0]) if optimizers else None
    register = getattr(optimizer, "register_step_post_hook", None)
    if register is None:
        return lambda: None
    remove: Callable[[], None] = register(lambda *_: call()).remove
    return remove
