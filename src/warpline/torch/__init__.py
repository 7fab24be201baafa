"""Warpline for PyTorch programs: its profiler, callbacks, a benchmark, a check of CUDA graphs.

    from warpline.torch import profile, schedule        # in place of torch.profiler

    import warpline.torch

    Trainer(callbacks=[warpline.torch.LightningCallback()])       # PyTorch Lightning
    Trainer(..., callbacks=[warpline.torch.TransformersCallback()])
    with warpline.torch.accelerate_profile(accelerator): train()

    print(warpline.torch.benchmark(torch.mm, a, b))
    print(warpline.torch.graphcheck(train_step, x, y))

Nothing here imports PyTorch, or a library of it, before it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from warpline.lazy import lazy_names

if TYPE_CHECKING:
    from warpline.torch.accelerate import accelerate_profile
    from warpline.torch.benchmarking import benchmark
    from warpline.torch.capturing import graphcheck
    from warpline.torch.lightning import LightningCallback
    from warpline.torch.profiler import (
        DeviceType,
        ExecutionTraceObserver,
        ProfilerAction,
        ProfilerActivity,
        kineto_available,
        profile,
        record_function,
        schedule,
        supported_activities,
        tensorboard_trace_handler,
    )
    from warpline.torch.transformers import TransformersCallback
else:
    __getattr__ = lazy_names(
        __name__,
        {
            "accelerate": ("accelerate_profile",),
            "benchmarking": ("benchmark",),
            "capturing": ("graphcheck",),
            "lightning": ("LightningCallback",),
            "profiler": (
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
            ),
            "transformers": ("TransformersCallback",),
        },
    )

__all__ = [
    "DeviceType",
    "ExecutionTraceObserver",
    "LightningCallback",
    "ProfilerAction",
    "ProfilerActivity",
    "TransformersCallback",
    "accelerate_profile",
    "benchmark",
    "graphcheck",
    "kineto_available",
    "profile",
    "record_function",
    "schedule",
    "supported_activities",
    "tensorboard_trace_handler",
]
