"""The callback for the Trainer of Hugging Face Transformers, and of libraries built on it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Unpack

from warpline.errors import UsageError
from warpline.torch.step_recorder import Options, StepRecorder

if TYPE_CHECKING:
    _Callback = object
else:
    try:
        from transformers import TrainerCallback as _Callback
    except ImportError as error:
        raise UsageError(
            f"Transformers cannot be imported: {error}", hint="pip install transformers"
        ) from error


class TransformersCallback(_Callback):
    """Records some training steps: ``Trainer(..., callbacks=[TransformersCallback()])``.

    The arguments and `paths` are those of `StepRecorder`. Evaluation is not recorded: a recording
    ends where it begins. A step is an update of the weights, and has the number ``global_step``.
    """

    def __init__(
        self, path: str | os.PathLike[str] | None = None, **options: Unpack[Options]
    ) -> None:
        super().__init__()
        self._recorder = StepRecorder(path, **options)
        self.paths = self._recorder.paths

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Begin the loop."""
        self._recorder.begin(args.process_index)

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Begin a step."""
        self._recorder.begin_step(state.global_step)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """End a step, and a recording if an evaluation follows."""
        self._recorder.end_step()
        self._end_before_evaluation(control)

    def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """End a recording if an evaluation follows."""
        self._end_before_evaluation(control)

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """End the loop."""
        self._recorder.end()

    def _end_before_evaluation(self, control: Any) -> None:
        # There is no event for the start of an evaluation. Trainer decides on it in a callback of
        # its own, which is called before those of the program.
        if control.should_evaluate:
            self._recorder.interrupt("evaluation began")
