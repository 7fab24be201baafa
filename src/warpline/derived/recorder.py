"""How to record what a trace lacks, in the words of the profiler that recorded it.

Nsight Systems and Warpline take options and record NVTX ranges. The PyTorch profiler is set up in
the program, and records its own annotations only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from warpline.derived import derived
from warpline.derived.program import is_python, program_kind
from warpline.derived.ranges.names import range_names
from warpline.trace import Trace
from warpline.trace.recorder import ACTIVITIES, is_memory_snapshot, is_of_pytorch, table_hint

if TYPE_CHECKING:
    from warpline.result import Program

_STEP = "ProfilerStep#"
_NAMED = ", or name existing ranges with --steps-from NAME."


class Hints(NamedTuple):
    """How to record something, each in one or two sentences.

    Attributes:
        steps: Ranges around the steps.
        more_steps: Enough steps for medians; `{count}` is the number.
        gpu_work: Kernels and copies of a recording that has neither these nor launches.
        unseen_work: Kernels and copies of a recording that has launches only.
        api_calls: Launches of a recording that has kernels and copies only.
        after_warm_up: Steps that neither load nor compile code.
        whole_steps: Steps of which neither the start nor the end is cut off.
        graphs: What CUDA graphs contain.
        less: Fewer events, so that recording delays the program less.
        ranges: The ranges that a program can mark, as a noun.
        gap: What the CPU does in a gap that does not repeat.
        modules: The modules of a PyTorch program that launched work.
        operators: Its operators.
        lines: The lines of the program where its CPU time goes.
    """

    steps: str
    more_steps: str
    gpu_work: str
    unseen_work: str
    api_calls: str
    after_warm_up: str
    whole_steps: str
    graphs: str
    less: str
    ranges: str
    gap: str
    modules: str
    operators: str
    lines: str


_WHOLE_STEPS = (
    "Record whole steps: synchronize with the GPU ({}) before recording starts and before it stops."
)
_SYNCHRONIZE: Mapping[Program, str] = {
    "pytorch": "torch.cuda.synchronize()",
    "jax": "jax.block_until_ready()",
    "cuda": "cudaDeviceSynchronize()",
}
_OF_LINES = "-s process-tree --python-sampling=true"
_GAP = (
    "Locate the gap with {}. If it is start-up, such as imports and initialization, record after"
    " warm-up. Otherwise do the work earlier, or in another thread."
)
_OF_PYTORCH = Hints(
    steps="Call prof.step() after each step, mark steps with"
    f' torch.profiler.record_function(f"step_{{i}}"){_NAMED}',
    more_steps="Record at least {count} steps after warm-up:"
    " schedule=torch.profiler.schedule(wait=1, warmup=3, active={count}), and prof.step() after"
    " each step.",
    gpu_work=f"Use torch.profiler.profile with {ACTIVITIES} around a part of the run that uses the"
    " GPU.",
    unseen_work=f"Use torch.profiler.profile with {ACTIVITIES}, without another profiler in the"
    " program: only one can use CUPTI. Call torch.cuda.synchronize() before it stops.",
    api_calls=f"Use torch.profiler.profile with {ACTIVITIES}, and keep the category cuda_runtime"
    " in the trace.",
    after_warm_up="Record after warm-up: run a few steps first, or use"
    " schedule=torch.profiler.schedule(wait=3, warmup=3, active=10).",
    whole_steps=_WHOLE_STEPS.format(_SYNCHRONIZE["pytorch"]),
    graphs="Record without CUDA graphs, or with nsys profile --cuda-graph-trace=node.",
    less="Turn off with_stack, record_shapes, and profile_memory.",
    ranges="torch.profiler.record_function",
    gap=_GAP.format("torch.profiler.record_function"),
    modules="Use torch.profiler.profile with with_stack=True, or warpline profile --pytorch=all.",
    operators="Use torch.profiler.profile with ProfilerActivity.CPU.",
    lines=f"To name the line, use warpline profile {_OF_LINES}.",
)
_OF_OPTIONS = Hints(
    steps="",
    more_steps="Record at least {count} steps after warm-up.",
    gpu_work="Record with -t cuda a part of the run that uses the GPU.",
    unseen_work="Record with -t cuda, without another profiler in the program: only one can use"
    " CUPTI.",
    api_calls="Record with -t cuda,nvtx.",
    after_warm_up="Record after warm-up: run a few steps first, or use --delay or"
    " --capture-range=cudaProfilerApi.",
    whole_steps="",
    graphs="Record with --cuda-graph-trace=graph, or node for the kernels of graphs.",
    less="Record fewer kinds of events, such as NVTX domains, OS calls or backtraces.",
    ranges="NVTX ranges",
    gap=_GAP.format("NVTX ranges"),
    modules="Profile with warpline profile --pytorch=all.",
    operators="Profile with warpline profile --pytorch=functions-trace.",
    lines=f"To name the line, profile with {_OF_LINES}.",
)
_MEMORY = "warpline profile --pytorch=memory"
_OF_SNAPSHOT = (
    f"A memory snapshot has allocations only: see warpline memory. Profile with {_MEMORY} for both."
)
# Around a step, in a program in Python or in C++.
_MARKS = {
    "pytorch": 'torch.cuda.nvtx.range_push(f"step_{i}") and range_pop()',
    "python": 'nvtx.annotate(f"step_{i}") of the package nvtx',
    "c++": 'nvtxRangePushA("step") and nvtxRangePop() of nvtx3/nvToolsExt.h',
}


@derived
def hints(trace: Trace) -> Hints:
    """Return how to record more of the program, with the profiler that recorded the trace."""
    if is_of_pytorch(trace):
        return _OF_PYTORCH
    if is_memory_snapshot(trace):
        return _OF_OPTIONS._replace(gpu_work=_OF_SNAPSHOT, steps=f"Profile with {_MEMORY}.")
    kind = program_kind(trace)
    in_python = "python" if kind == "jax" or is_python(trace) else "c++"
    mark = _MARKS["pytorch" if kind == "pytorch" else in_python]
    lines = _OF_OPTIONS.lines
    if in_python == "c++" and kind != "pytorch":
        lines = "To name the function, profile with -s process-tree."
    return _OF_OPTIONS._replace(
        steps=f"Mark each step with {mark}{_NAMED}",
        lines=lines,
        whole_steps=_WHOLE_STEPS.format(_SYNCHRONIZE[kind or "cuda"]),
    )


def calls_hint(trace: Trace) -> str | None:
    """Return how to record API calls, for rules that judge nothing without them."""
    return table_hint(trace, ("api_call",), "profile with --trace=cuda")


@derived
def only_step(trace: Trace) -> str | None:
    """Return the name of the PyTorch profiler's step if the trace has exactly one, else None.

    One step cannot be compared with another, so it is not among the steps found.
    """
    if not trace.has("range") or not trace.row_count("range"):
        return None
    steps = [name for name in range_names(trace).texts if name and name.startswith(_STEP)]
    return steps[0] if len(steps) == 1 else None
