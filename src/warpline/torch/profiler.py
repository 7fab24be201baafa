"""``warpline.torch.profile``, which takes the place of ``torch.profiler.profile``.

Other names of ``torch.profiler`` are here, too, so that a program changes one import only.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
from torch.profiler import (
    DeviceType,
    ExecutionTraceObserver,
    ProfilerAction,
    ProfilerActivity,
    kineto_available,
    record_function,
    schedule,
    supported_activities,
    tensorboard_trace_handler,
)

from warpline.annotate import RangeHandle, end_range, start_range
from warpline.capture.in_process.run import one_line
from warpline.capture.in_process.warning import warn
from warpline.errors import CaptureError, UsageError, WarplineError
from warpline.torch.chrome_trace import add_gpu_events
from warpline.torch.cycle import Cycle, accepted
from warpline.torch.gpu_recording import GpuRecording, path_of_cycle
from warpline.torch.kineto_events import COPY, DRIVER, KERNEL, MEMSET, RUNTIME
from warpline.trace.trace import Trace

__all__ = [
    "DeviceType",
    "ExecutionTraceObserver",
    "ProfilerAction",
    "ProfilerActivity",
    "kineto_available",
    "profile",
    "record_function",
    "schedule",
    "supported_activities",
    "tensorboard_trace_handler",
]

# Kineto's names of what can be recorded of the GPU -> kinds of events.
_KINDS = {
    "GPU_MEMCPY": COPY,
    "GPU_MEMSET": MEMSET,
    "CONCURRENT_KERNEL": KERNEL,
    "CUDA_RUNTIME": RUNTIME,
    "CUDA_DRIVER": DRIVER,
}


class profile(torch.profiler.profile):  # type: ignore[misc] # noqa: N801 - PyTorch's name
    """Profile a PyTorch program: `torch.profiler.profile`, with the GPU recorded by Warpline.

    The arguments, methods and results are PyTorch's: its schedule, operators, tables and files.
    Kernels, copies and CUDA calls come from a recording of Warpline, one for each cycle of the
    schedule. In a program that ``warpline profile`` records, it adds a range to that recording and
    reports operators only. Where Warpline cannot record CUDA, PyTorch does.

    Args:
        activities: As in PyTorch. By default, all that are supported.
        schedule: As in PyTorch.
        on_trace_ready: As in PyTorch.
        record_shapes: As in PyTorch.
        profile_memory: As in PyTorch.
        with_stack: As in PyTorch.
        with_flops: As in PyTorch.
        with_modules: As in PyTorch.
        path: Recording to keep, ``run.warpline``; later cycles are ``run-2.warpline`` and so on,
            unless the name has %n. None: recordings are deleted with this object.
        overwrite: Overwrite existing recordings.
        options: Further options of PyTorch. A warning names those that the installed version does
            not have.
    """

    profiler: Any  # a Cycle from the first `prepare_trace` on

    def __init__(  # noqa: PLR0913 - PyTorch's parameters
        self,
        *,
        activities: Iterable[Any] | None = None,
        schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[..., Any] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        path: str | os.PathLike[str] | None = None,
        overwrite: bool = False,
        **options: Any,
    ) -> None:
        self._path = path
        self._overwrite = overwrite
        self._cycles = 0
        self._step_range: RangeHandle | None = None
        known = accepted(torch.profiler.profile.__init__, options)
        for name in sorted(options.keys() - known.keys()):
            warn(f"{name} has no meaning in PyTorch {torch.__version__}")
        super().__init__(
            activities=activities,
            schedule=schedule,
            on_trace_ready=on_trace_ready,
            record_shapes=record_shapes,
            profile_memory=profile_memory,
            with_stack=with_stack,
            with_flops=with_flops,
            with_modules=with_modules,
            **known,
        )

    @property
    def path(self) -> Path | None:
        """Path of the last cycle's recording; None before, or if there is none."""
        recording = self._recording
        return None if recording is None else recording.path

    @property
    def trace(self) -> Trace:
        """The opened recording of the last cycle's active steps; CaptureError without one."""
        recording = self._recording
        if recording is None:
            raise CaptureError("there is no recording", hint="pass path=, or record CUDA")
        return recording.trace

    @property
    def _recording(self) -> GpuRecording | None:
        return self.profiler.recording if isinstance(self.profiler, Cycle) else None

    def prepare_trace(self) -> None:
        """Begin the warm-up of a cycle, or what comes before it without one."""
        self._cycles += 1
        recording = self._new_recording()
        if isinstance(self.profiler, Cycle) and getattr(self, "acc_events", False):
            self.profiler.renew(recording)
        else:
            self.profiler = self._new_cycle(recording)
        self.profiler._prepare_trace()  # noqa: SLF001 - as in PyTorch

    def stop_trace(self) -> None:
        """End the active steps of a cycle, and write its recording if it is kept."""
        super().stop_trace()
        recording = self._recording
        if self._path is None or recording is None or not recording.has_trace:
            return
        try:
            with tempfile.TemporaryDirectory(prefix="warpline-") as folder:
                trace = Path(folder, "trace.json")
                self.export_chrome_trace(str(trace))
                recording.keep(trace)
        except WarplineError as error:
            warn(f"{recording.path} has no operators: {one_line(error)}")

    def start(self) -> None:
        """Begin as the schedule says; without one, record."""
        super().start()
        self._begin_step()

    def stop(self) -> None:
        """Stop recording, and call `on_trace_ready` if something was recorded."""
        self._end_step()
        super().stop()

    def step(self) -> None:
        """Say that the next step begins."""
        self._end_step()
        super().step()
        self._begin_step()

    def toggle_collection_dynamic(
        self,
        enable: bool,  # noqa: FBT001 - PyTorch's signature
        activities: Iterable[Any],
    ) -> None:
        """Turn the recording of operators or of CUDA off and on again."""
        chosen = set(activities)
        recording = self._recording
        if recording is not None and ProfilerActivity.CUDA in chosen:
            chosen.discard(ProfilerActivity.CUDA)
            (recording.resume if enable else recording.pause)()
        if chosen:
            super().toggle_collection_dynamic(enable, chosen)

    def export_chrome_trace(self, path: str, *args: Any, **options: Any) -> None:
        """Write the last cycle in Kineto's JSON layout, compressed if the path ends in ``.gz``."""
        if self._recording is None:
            super().export_chrome_trace(path, *args, **options)
            return
        events = self.profiler.gpu_events(self.profiler.kineto_results)
        with tempfile.TemporaryDirectory(prefix="warpline-") as folder:
            operators = Path(folder, "operators.json")
            super().export_chrome_trace(str(operators), *args, **options)
            add_gpu_events(operators, Path(path), events)

    def _new_recording(self) -> GpuRecording | None:
        """Return a recording for the next cycle; None where PyTorch records all."""
        records_cuda = ProfilerActivity.CUDA in self.activities and torch.cuda.is_available()
        if not records_cuda and self._path is None:
            return None
        name = path_of_cycle(self._path, self._cycles)
        recording = GpuRecording(name, traces_cuda=records_cuda, overwrite=self._overwrite)
        try:
            recording.start()
        except UsageError:  # the output file exists
            raise
        except WarplineError as error:
            if self._path is not None:
                raise
            warn(f"PyTorch records CUDA, not Warpline: {one_line(error)}")
            return None
        return recording

    def _new_cycle(self, recording: GpuRecording | None) -> Cycle:
        filters: dict[Any, set[str]] = getattr(self, "activity_filters", {})
        chosen = filters.get(ProfilerActivity.CUDA)
        kinds = None if chosen is None else {_KINDS.get(name, name) for name in chosen}
        options = {
            "use_device": self.use_device,
            "record_shapes": self.record_shapes,
            "with_flops": self.with_flops,
            "profile_memory": self.profile_memory,
            "with_stack": self.with_stack,
            "with_modules": self.with_modules,
            "experimental_config": self.experimental_config,
        }
        for name in ("acc_events", "custom_trace_id_callback", "post_processing_timeout_s"):
            options[name] = getattr(self, name, None)
        options["activity_filters"] = filters or None
        return Cycle(
            recording,
            use_cpu=ProfilerActivity.CPU in self.activities,
            gpu_kinds=kinds,
            **accepted(torch.autograd.profiler.profile.__init__, options),
        )

    def _begin_step(self) -> None:
        if self.record_steps:
            self._step_range = start_range(f"ProfilerStep#{self.step_num}")

    def _end_step(self) -> None:
        end_range(self._step_range)
        self._step_range = None
