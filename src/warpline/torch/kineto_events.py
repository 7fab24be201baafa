"""A GPU operation or CUDA call of a recording, with the methods of PyTorch's own records.

PyTorch makes its tables from records that its profiler returns (``_KinetoEvent``). What Warpline
recorded of the GPU joins them in the same form, so tables, sorting and sums are PyTorch's code.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

KERNEL = "kernel"
COPY = "gpu_memcpy"
MEMSET = "gpu_memset"
RUNTIME = "cuda_runtime"
DRIVER = "cuda_driver"
ANNOTATION = "gpu_user_annotation"  # the GPU time of a record_function block
CALLS = frozenset({RUNTIME, DRIVER})

_ARROW = 2  # the kind of the arrows from calls to GPU operations


@dataclass(frozen=True)
class KinetoEvent:
    """One event.

    Attributes:
        kind: PyTorch's category of it, such as ``kernel``.
        label: Its name.
        begin: Start, ns since 1970.
        end: End, ns since 1970.
        device: The type of its device, a ``torch.autograd.DeviceType``.
        place: Index of the GPU; for calls, the process id.
        track: Number of the stream; for calls, the operating system's thread id.
        thread: PyTorch's number of the launching thread.
        correlation: Correlation id; of an annotation, the id of its block on the CPU.
        operator: Correlation id of the operator that launched it; 0 without one.
        details: Its arguments in the trace, as JSON without braces.
    """

    kind: str
    label: str
    begin: int
    end: int
    device: Any
    place: int
    track: int
    thread: int
    correlation: int
    operator: int = 0
    details: str = ""

    def __getattr__(self, name: str) -> Callable[[], Any]:
        """Return a method that PyTorch calls; None for what later versions ask for."""
        if name.startswith("__"):
            raise AttributeError(name)
        method = _METHODS.get(name)
        return lambda: None if method is None else method(self)


_METHODS: Mapping[str, Callable[[KinetoEvent], Any]] = {
    "activity_type": lambda event: event.kind,
    "concrete_inputs": lambda _: [],
    "correlation_id": lambda event: event.correlation,
    "cuda_elapsed_us": lambda _: -1,
    "device_index": lambda event: event.place,
    "device_resource_id": lambda event: event.track,
    "device_type": lambda event: event.device,
    "dtypes": lambda _: [],
    "duration_ns": lambda event: event.end - event.begin,
    "end_ns": lambda event: event.end,
    "end_thread_id": lambda event: event.thread,
    "external_id": lambda event: event.operator,
    "extra_meta": lambda _: {},
    "flops": lambda _: 0,
    "flow_id": lambda event: 0 if event.kind == ANNOTATION else event.correlation,
    "flow_start": lambda event: event.kind in CALLS,
    "flow_type": lambda event: 0 if event.kind == ANNOTATION else _ARROW,
    "fwd_thread_id": lambda _: 0,
    "is_async": lambda _: False,
    "is_hidden_event": lambda _: False,
    "is_python_function": lambda _: False,
    "is_user_annotation": lambda event: event.kind == ANNOTATION,
    "kwinputs": lambda _: {},
    "linked_correlation_id": lambda event: event.operator,
    "metadata_json": lambda event: event.details,
    "name": lambda event: event.label,
    "nbytes": lambda _: 0,
    "overload_name": lambda _: "",
    "privateuse1_elapsed_us": lambda _: -1,
    "python_id": lambda _: -1,
    "python_module_id": lambda _: -1,
    "python_parent_id": lambda _: -1,
    "scope": lambda _: 0,
    "sequence_nr": lambda _: -1,
    "shapes": lambda _: [],
    "stack": lambda _: [],
    "start_ns": lambda event: event.begin,
    "start_thread_id": lambda event: event.thread,
    "structured_input_shapes": lambda _: [],
    "structured_input_strides": lambda _: [],
    "typed_metadata": lambda _: {},
}
