"""One cycle of a profile: operators from PyTorch's own profiler, the GPU from a recording."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Collection, Sequence
from typing import Any

from torch.autograd import ProfilerActivity, ProfilerState
from torch.autograd import profiler as autograd
from torch.autograd.profiler_util import EventList

from warpline.capture.in_process.run import one_line
from warpline.capture.in_process.warning import warn
from warpline.errors import WarplineError
from warpline.torch.chrome_trace import write_empty
from warpline.torch.gpu_events import cuda_indexes, gpu_events, selected
from warpline.torch.gpu_recording import GpuRecording
from warpline.torch.kineto_events import KinetoEvent
from warpline.torch.operators import Operators


class Cycle(autograd.profile):  # type: ignore[misc] # PyTorch is not installed where types are checked
    """What ``torch.profiler`` keeps as its profiler, with the GPU's part from elsewhere.

    Args:
        recording: Where the GPU's part comes from; None: from PyTorch.
        use_cpu: Whether operators are recorded.
        gpu_kinds: Kinds of GPU events to report; None: all.
        options: Those of ``torch.autograd.profiler.profile``.
    """

    def __init__(
        self,
        recording: GpuRecording | None,
        *,
        use_cpu: bool,
        gpu_kinds: Collection[str] | None,
        **options: Any,
    ) -> None:
        # PyTorch wants something to record; without operators, it is not asked to.
        super().__init__(use_cpu=use_cpu or recording is not None, use_kineto=True, **options)
        self._recording = recording
        self._has_operators = use_cpu
        self._gpu_kinds = gpu_kinds
        if recording is not None:
            self.kineto_activities.discard(ProfilerActivity.CUDA)
            self.profiler_kind = ProfilerState.KINETO  # not CUDA events around each operator

    @property
    def recording(self) -> GpuRecording | None:
        """The recording of this cycle."""
        return self._recording

    def renew(self, recording: GpuRecording | None) -> None:
        """Continue with the next cycle, as PyTorch does with ``acc_events``."""
        self._recording = recording

    def _prepare_trace(self) -> None:
        if self._records_operators:
            super()._prepare_trace()

    def _start_trace(self) -> None:
        if self._recording is not None:
            self._recording.begin()
        if self._records_operators:
            super()._start_trace()

    def __exit__(self, *error: object) -> Any:
        if self._records_operators:
            done = super().__exit__(*error)
            if self._recording is not None:
                self._recording.stop()
            return done
        return self._end_without_operators()

    @property
    def _records_operators(self) -> bool:
        return self._has_operators or self._recording is None

    def _end_without_operators(self) -> bool:
        assert self._recording is not None
        if self.use_device == "cuda":
            autograd.torch.cuda.synchronize()
        self._recording.stop()
        self.kineto_results = _NoOperators(self._recording.window.start_ns)
        if hasattr(type(self), "function_events"):  # made on first use
            self._function_events = None
            self._needs_processing = True
        else:  # until PyTorch 2.6
            parsed = self._parse_kineto_results(self.kineto_results)
            self.function_events = EventList(parsed, use_device=self.use_device)
            self.function_events._build_tree()  # noqa: SLF001 - as in PyTorch
        return False

    def _parse_kineto_results(self, result: Any, *args: Any, **options: Any) -> Any:
        """Make PyTorch's events of its own records and of ours."""
        joined = _Joined(result, self.gpu_events(result))
        return super()._parse_kineto_results(joined, *args, **options)

    def gpu_events(self, result: Any) -> list[KinetoEvent]:
        """Return what was recorded of the GPU.

        Args:
            result: PyTorch's records of the same cycle.
        """
        if self._recording is None or self.use_device != "cuda":
            return []
        self._recording.stop()  # with acc_events, PyTorch asks before the cycle has ended
        if not self._recording.has_trace:
            return []
        try:
            trace = self._recording.trace
            operators = Operators(result.events())
            devices = cuda_indexes(trace)
            events = gpu_events(trace, os.getpid(), self._recording.window, operators, devices)
        except WarplineError as error:  # operators are known all the same
            warn(f"what was recorded of the GPU cannot be read: {one_line(error)}")
            return []
        return events if self._gpu_kinds is None else selected(events, self._gpu_kinds)


class _Joined:
    """PyTorch's result with more events."""

    def __init__(self, result: Any, events: Sequence[KinetoEvent]) -> None:
        self._result = result
        self._events = events

    def events(self) -> list[Any]:
        return [*self._result.events(), *self._events]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._result, name)


class _NoOperators:
    """PyTorch's result where it recorded nothing."""

    def __init__(self, start_ns: int) -> None:
        self._start_ns = start_ns

    def events(self) -> list[Any]:
        return []

    def trace_start_ns(self) -> int:
        return self._start_ns

    def experimental_event_tree(self) -> list[Any]:
        return []

    def save(self, path: str) -> None:
        """Write an empty trace in Kineto's layout."""
        write_empty(path)


def accepted(function: Callable[..., Any], options: dict[str, Any]) -> dict[str, Any]:
    """Return the options that a function of this PyTorch version has."""
    known = inspect.signature(function).parameters
    return {name: value for name, value in options.items() if name in known}
