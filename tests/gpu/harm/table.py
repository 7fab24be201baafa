"""The programs of the harm test."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from gpu.harm.levels import ALL, EVERYTHING, GRAPHS, PLAIN, PYTORCH


@dataclass(frozen=True)
class Program:
    """A program that runs alone and recorded.

    Attributes:
        name: The name for --only.
        words: Its command; {python}, {cuda} (the directory of the CUDA programs) and, in the
            environment, {uuid} (the first GPU's) are filled in.
        levels: The names of the levels at which it is recorded.
        status: Its exit status alone; for a signal, minus its number.
        kernels: The kernels in its recording: its own count ("told"), at least one ("some"),
            or as many as were recorded before it ended ("any").
        environment: Additional environment variables.
        modules: Required Python modules; without one, it is skipped.
        gpus: The number of GPUs required.
        compares_stderr: False if another profiler in it prints whether it got CUPTI.
        runs_on_cpu: Whether it can run without a GPU.
        seconds: The approximate duration of a run; long ones start first.
    """

    name: str
    words: tuple[str, ...]
    levels: tuple[str, ...] = PLAIN
    status: int = 0
    kernels: str = "told"
    environment: Mapping[str, str] = field(default_factory=dict)
    modules: tuple[str, ...] = ()
    gpus: int = 1
    compares_stderr: bool = True
    runs_on_cpu: bool = False
    seconds: float = 1.0


def _cuda(source: str, names: str, levels: tuple[str, ...] = PLAIN, **more: Any) -> list[Program]:
    return [
        Program(
            f"{source}.{name}",
            (f"{{cuda}}/{source}", name),
            levels,
            **more,
        )
        for name in names.split()
    ]


def _ending(name: str, status: int, kernels: str = "any") -> Program:
    words = ("{cuda}/endings", name)
    return Program(f"endings.{name}", words, PLAIN, status=status, kernels=kernels)


def _python(
    module: str, names: str, levels: tuple[str, ...] = PLAIN, **more: Any
) -> Iterator[Program]:
    given = {"kernels": "some", "seconds": 8.0, **more}
    for name in names.split():
        words = ("{python}", "-m", f"gpu.harm.{module}", name)
        label = f"{module.removesuffix('_programs')}.{name}"
        yield Program(label, words, levels, **given)


def _slowly(program: Program, *, levels: tuple[str, ...]) -> Program:
    """Return a program whose pauses are long enough to detach CUPTI between samples."""
    words = (*program.words, "--steps", "18", "--pause", "400")
    return Program(
        f"{program.name}.slowly",
        words,
        levels,
        kernels=program.kernels,
        seconds=9.0,
    )


_GRAPHS = [
    *_cuda("graphs", "captured", ALL),
    *_cuda("graphs", "made child host memory node_params", GRAPHS),
    *_cuda("graphs", "updated", ALL),
    *_cuda("graph_lives", "threads", ALL, seconds=2.0),
    *_cuda("graph_lives", "shared background destroyed cloned many failing beside_capture", GRAPHS),
    *_cuda("graph_lives", "ranges", ALL),
    *_cuda("device_graphs", "if_node while_node device_launch", ALL, kernels="some"),
]

_CALLS = [
    *_cuda("launches", "plain threads", (*EVERYTHING, "faults", "ranges")),
    *_cuda("launches", "cooperative cluster lazy prints errors callbacks"),
    *_cuda("launches", "programmatic_dependent", GRAPHS),
    *_cuda("launches", "signals", EVERYTHING, seconds=2.0),
    *_cuda("device_graphs", "nested_kernels", kernels="some"),
    *_cuda("contexts", "several threads green reset primary modules", EVERYTHING, seconds=2.0),
    *_cuda("contexts", "destroyed_busy", kernels="any"),
    *_cuda("contexts", "peers", gpus=2),
    *_cuda("memory", "async copies mapped_by_hand allocations", EVERYTHING),
    *_cuda("memory", "ipc", seconds=2.0),
    *_cuda("managed", "touched prefetched", ("default", "sampled", "faults")),
    Program(
        "contexts.visible.index",
        ("{cuda}/contexts", "visible"),
        environment={"CUDA_VISIBLE_DEVICES": "0"},
    ),
    Program(
        "contexts.visible.uuid",
        ("{cuda}/contexts", "visible"),
        environment={"CUDA_VISIBLE_DEVICES": "{uuid}"},
    ),
]

_ENDINGS = [
    _ending("exits", 7),
    _ending("exits_at_once", 8),
    _ending("exits_quickly", 9),
    _ending("aborts", -signal.SIGABRT),
    _ending("throws", -signal.SIGABRT),
    _ending("faults", -signal.SIGSEGV),
    _ending("is_killed", -signal.SIGKILL),
    _ending("is_terminated", -signal.SIGTERM),
    _ending("handles_term", 41, "told"),
    _ending("counts_signals", 0, "told"),
    _ending("execs", 11),
    _ending("fork_execs", 0, "told"),
    _ending("forks", 0, "told"),
    _ending("exits_under_a_thread", 12),
    _ending("exits_at_once_under_a_thread", 12),
    _ending("main_thread_ends", 13),
    _ending("stray_write", 14),
    _ending("kernel_trap", 15),
    _ending("used_at_exit", 16),
]

_TORCH = [
    *_python("torch_programs", "training", (*EVERYTHING, "in-process"), runs_on_cpu=True),
    # It prints warnings only if its code is not in a cache yet.
    *_python(
        "torch_programs",
        "compiled",
        ALL,
        environment={"PYTHONWARNINGS": "ignore"},
        runs_on_cpu=True,
        seconds=20.0,
    ),
    *_python("torch_programs", "graphed", GRAPHS),
    *_python("torch_programs", "captured", (*GRAPHS, "in-process")),
    *_python("torch_programs", "loader_fork loader_spawn", runs_on_cpu=True, seconds=20.0),
    *_python("torch_programs", "profiled", compares_stderr=False, runs_on_cpu=True),
    *_python("torch_programs", "forked shared distributed", runs_on_cpu=True),
    *_python("torch_programs", "history threads"),
    *_python("torch_programs", "exits", status=31, kernels="any", runs_on_cpu=True),
    *_python("torch_programs", "raises", status=1, kernels="any", runs_on_cpu=True),
    *_python("torch_programs", "interrupted", status=1, kernels="any", runs_on_cpu=True),
    *_python("torch_programs", "aborted", status=-signal.SIGABRT, kernels="any", runs_on_cpu=True),
    *(
        Program(
            f"torch.allocations.{kind}",
            ("{python}", "-m", "gpu.harm.torch_programs", "allocations"),
            kernels="some",
            environment={"PYTORCH_CUDA_ALLOC_CONF": asked},
            runs_on_cpu=True,
            seconds=8.0,
        )
        for kind, asked in (
            ("expandable", "expandable_segments:True"),
            ("async", "backend:cudaMallocAsync"),
        )
    ),
    *_python("torch_libraries", "lightning", modules=("lightning",), runs_on_cpu=True),
    *_python("torch_libraries", "accelerate", modules=("accelerate",), runs_on_cpu=True),
    # As above: a warning of the compiler.
    *_python(
        "torch_libraries",
        "generate",
        ("default", "graph", "sampled"),
        environment={"PYTHONWARNINGS": "ignore"},
        modules=("transformers",),
        runs_on_cpu=True,
        seconds=30.0,
    ),
]


_LOOPS_IN_GRAPHS = (
    "--xla_gpu_graph_min_graph_size=1 --xla_gpu_enable_command_buffer=+WHILE,+CONDITIONAL"
)


def _jax(name: str, levels: tuple[str, ...], *words: str, flags: str = "") -> Program:
    return Program(
        name,
        ("{python}", "-m", *words),
        levels,
        kernels="some",
        environment={"XLA_FLAGS": flags} if flags else {},
        modules=("jax", "flax", "optax"),
        runs_on_cpu=True,
        seconds=15.0,
    )


_JAX = [
    _jax("jax_training", (*ALL, "in-process"), "gpu.harm.jax_training", "{small}"),
    _jax(
        "jax_training.exact",
        ("default", "graph"),
        *("gpu.harm.jax_training", "--exact", "{small}"),
    ),
    *(
        _jax(f"jax.{name}", ("default", "graph"), "gpu.harm.jax_programs", name)
        for name in ("while_loop", "scan", "cond", "gradients")
    ),
    *(
        _jax(
            f"jax.{name}.loops_in_graphs",
            GRAPHS,
            *("gpu.harm.jax_programs", name),
            flags=_LOOPS_IN_GRAPHS,
        )
        for name in ("while_loop", "scan", "cond")
    ),
]

_KERNELS = [
    *_python("kernel_programs", "triton", modules=("triton",)),
    *_python("kernel_programs", "cupy_kernels cupy_modules", modules=("cupy",)),
    *_python("kernel_programs", "cupy_graph", GRAPHS, modules=("cupy",)),
    *_python("kernel_programs", "numba", modules=("numba",)),
    *_python("kernel_programs", "bindings", modules=("cuda.bindings",)),
]

_SLOW = [
    _slowly(_CALLS[0], levels=("default", "sampled")),
    _slowly(_GRAPHS[0], levels=("sampled", "graph-sampled")),
    _slowly(_GRAPHS[6], levels=("sampled", "graph-sampled")),
]

_TORCH = [replace(program, levels=(*program.levels, *PYTORCH)) for program in _TORCH]
_JAX = [replace(program, levels=(*program.levels, "pytorch")) for program in _JAX]

PROGRAMS = (*_TORCH, *_JAX, *_KERNELS, *_SLOW, *_GRAPHS, *_CALLS, *_ENDINGS)
