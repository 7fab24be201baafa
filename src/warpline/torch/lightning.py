"""The callback for PyTorch Lightning 2, imported as ``lightning`` or ``pytorch_lightning``."""

from __future__ import annotations

import importlib
import os
import sys
from typing import TYPE_CHECKING, Any, Unpack

from warpline.errors import UsageError
from warpline.torch.step_recorder import Options, StepRecorder

_PACKAGES = ("lightning.pytorch", "pytorch_lightning")


def _base() -> type:
    """Return the base class of callbacks: that of the package which the program imports."""
    for name in sorted(_PACKAGES, key=lambda name: name not in sys.modules):
        try:
            base: type = importlib.import_module(name).Callback
        except ImportError:
            continue
        return base
    raise UsageError("Lightning is not installed", hint="pip install lightning")


if TYPE_CHECKING:
    _Callback = object
else:
    _Callback = _base()


class LightningCallback(_Callback):
    """Records some training steps: ``Trainer(callbacks=[warpline.torch.LightningCallback()])``.

    The arguments and `paths` are those of `StepRecorder`. Validation is not recorded: a recording
    ends where it begins. A step lasts until ``trainer.global_step`` advances, and has its number.
    """

    def __init__(
        self, path: str | os.PathLike[str] | None = None, **options: Unpack[Options]
    ) -> None:
        super().__init__()
        self._recorder = StepRecorder(path, **options)
        self.paths = self._recorder.paths
        self._number = 0

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Begin the loop."""
        self._recorder.begin(trainer.global_rank)

    def on_train_batch_start(
        self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int
    ) -> None:
        """Begin a step, at the first of its batches."""
        self._number = trainer.global_step
        self._recorder.begin_step(self._number)

    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """End a step, at the last of its batches."""
        if trainer.global_step != self._number:
            self._recorder.end_step()

    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        """End a recording that is under way."""
        self._recorder.interrupt("validation began")

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """End the loop."""
        self._recorder.end()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """End the loop."""
        self._recorder.end(f"training ended by {type(exception).__name__}")
