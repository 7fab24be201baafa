"""Whether steps may be captured as CUDA graphs: offenders by place, conditions, and the saving."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence

import numpy as np

from warpline.derived.graph_safety import conditions, kinds
from warpline.derived.graph_safety.calls import (
    CAPTURE_ERRORS,
    OffendingCalls,
    offending_calls,
    refused_calls,
    step_copies,
    unsafe_elsewhere,
)
from warpline.derived.graph_safety.launches import (
    differing_launches,
    enough_steps,
    launches_per_step,
)
from warpline.derived.graph_safety.nodes import captured_ratio, graph_nodes
from warpline.derived.graph_safety.places import CodePlace, code_places
from warpline.derived.graph_safety.scope import checked_steps
from warpline.derived.graph_safety.streams import stray_streams
from warpline.derived.modules.calls import module_calls
from warpline.derived.program import program_kind
from warpline.derived.python_stacks import python_stacks
from warpline.derived.ranges.names import range_names
from warpline.derived.ranges.stacks import innermost_range
from warpline.derived.steps.launch_sequences import step_launches
from warpline.derived.steps.times import steps
from warpline.derived.texts import without_version
from warpline.derived.work.operations import operations
from warpline.ops.arrays import I64
from warpline.ops.tree import enclosing
from warpline.replay.prediction import Baseline
from warpline.result import describe_meta, source_name, warnings_of
from warpline.result.changes import Change, DropCalls, LaunchAsGraph, MakeAsync
from warpline.result.graphcheck import (
    CapturedGraph,
    CaptureSaving,
    Condition,
    GraphCheck,
    Offender,
    RefusedCall,
    Verdict,
)
from warpline.schema.ranges import MODULE_DOMAIN
from warpline.trace import Run, Trace
from warpline.units import plural

_NO_PLACE = CodePlace("", "", "", "")
_COPIES = frozenset((kinds.CPU_READ, kinds.PAGEABLE_COPY, kinds.BLOCKING_COPY))
# Calls that launch what a graph would contain: their fix removes no call.
_LAUNCHING = frozenset(
    (
        *(kinds.CHANGING_SHAPES, kinds.CHANGING_WORK, kinds.UNJOINED, kinds.LEGACY_STREAM),
        kinds.RANDOM_NUMBERS,
    )
)
_SHOWN_PLACES = 3
_CAPTURED = 0.9  # of the operations: the step is a graph already
# Why nothing can be decided.
_NO_CALLS = "the recording has no CUDA API calls."
_NO_STEPS = (
    "the recording has no steps. Name their ranges with --steps-from, or mark each step with an"
    " NVTX range."
)
_NO_WORK = "the steps launch no GPU work."
_FEW_STEPS = (
    "no offender was found, but three steps are needed to see whether they launch the same work."
)
_DROPPED = "no offender was found, but events were dropped while recording."
_WHOLE = (
    "The whole step: run it three times on a side stream, capture it with `with"
    " torch.cuda.graph(g): step()`, then copy inputs into its tensors and call g.replay()."
)
_MODEL = (
    "Forward and backward pass of the model only: torch.cuda.make_graphed_callables(model,"
    " (sample,)), or torch.compile(model, mode='reduce-overhead')."
)
_MODEL_NOW = (
    "No offender is inside a module: the model can be captured as it is, with"
    " torch.cuda.make_graphed_callables(model, (sample,)), or torch.compile(model,"
    " mode='reduce-overhead')."
)
_VALIDATE = (
    "Then compare replays with the code itself: warpline.torch.graphcheck(step, *inputs) checks"
    " results, kernels and addresses."
)
_CUDA = (
    "Launch all work of the step on a stream of its own (the default stream cannot be captured)."
    " Capture it once with cudaStreamBeginCapture and cudaStreamEndCapture, instantiate it with"
    " cudaGraphInstantiate, and call cudaGraphLaunch in each step."
)


def graphcheck(run: Run) -> GraphCheck:
    """Return whether the steps of a recording may be captured.

    Args:
        run: The trace, and the choice of its steps.
    """
    trace = run.trace
    checked = checked_steps(run)
    count = int(checked.included.sum())
    found = _offending(run) if count else ()
    offenders = tuple(_offenders(run, found))
    refused = tuple(_refused(trace))
    verdict, sentence = _verdict(run, offenders, refused)
    is_to_do = launches_per_step(run) > 0 and captured_ratio(run) < _CAPTURED
    return GraphCheck(
        title=source_name(trace.meta.paths),
        verdict=verdict,
        sentence=sentence,
        steps=count,
        source=steps(run).source,
        launches=launches_per_step(run),
        offenders=offenders,
        conditions=tuple(_conditions(run)) if count else (),
        saving=_saving(run, found) if is_to_do else None,
        how=tuple(_how(run, found)) if is_to_do else (),
        graphs=tuple(_graphs(trace)),
        refused=refused,
        unseen=tuple(_unseen(trace)),
        warnings=warnings_of(trace),
        meta=describe_meta(trace),
    )


def _offending(run: Run) -> tuple[OffendingCalls, ...]:
    calls = offending_calls(run)
    return (
        *calls,
        *_without(differing_launches(run), calls),
        *stray_streams(run),
        *conditions.random_launches(run),
    )


def _without(
    found: Iterable[OffendingCalls], others: Iterable[OffendingCalls]
) -> Iterator[OffendingCalls]:
    """Yield offenders without calls that already are others: their fix is the same."""
    known = np.concatenate([np.zeros(0, np.int64), *(each.rows for each in others)])
    for kind, rows in found:
        left = rows[~np.isin(rows, known)]
        if len(left):
            yield OffendingCalls(kind, left)


def _verdict(
    run: Run, offenders: Sequence[Offender], refused: Sequence[RefusedCall]
) -> tuple[Verdict, str]:
    if refused:
        first = refused[0]
        at = f" at {first.place}" if first.place else ""
        return "no", f"No: a capture failed. {first.function}{at} returned {first.error}."
    if offenders:
        number = len({(item.kind, item.place) for item in offenders})
        titles = list(dict.fromkeys(item.title for item in offenders))
        more = f" and {len(titles) - 2} more" if len(titles) > 2 else ""
        return "no", (
            f"No: the step cannot be captured as it is. {plural(number, 'offender')}:"
            f" {', '.join(titles[:2])}{more}."
        )
    why = _why_undecided(run)
    if why:
        return "undecided", f"Cannot decide: {why}"
    if captured_ratio(run) >= _CAPTURED:
        return "yes", "Yes: the step already runs as a CUDA graph."
    return "yes", "Yes: nothing in this recording prevents the capture of the step."


def _why_undecided(run: Run) -> str:
    """Return why the absence of offenders does not say that a step can be captured, else empty."""
    trace = run.trace
    reasons = {
        _NO_CALLS: not trace.has("api_call") or not trace.row_count("api_call"),
        _NO_STEPS: not checked_steps(run).included.any(),
        _NO_WORK: not launches_per_step(run),
        _FEW_STEPS: not enough_steps(run),
        _DROPPED: bool(trace.meta.lost),
    }
    return next((text for text, is_so in reasons.items() if is_so), "")


def _offenders(run: Run, found: Iterable[OffendingCalls]) -> Iterator[Offender]:
    """Yield offenders by kind and place, those with the most calls per step first."""
    trace, checked = run.trace, checked_steps(run)
    is_cuda = program_kind(trace) == "cuda"
    offenders = []
    for kind, rows in found:
        codes = python_stacks(trace).codes[rows]
        by_place: dict[tuple[str, str], list[int]] = {}
        for row, code in zip(rows.tolist(), codes.tolist(), strict=True):
            place = code_places(trace)[code] if code >= 0 else _NO_PLACE
            by_place.setdefault((place.text, place.via), []).append(row)
        for own in by_place.values():
            calls = np.array(own, np.int64)
            per_step, own_steps, of_steps = checked.most_of_process(calls)
            place = _place(trace, own[0])
            offenders.append(
                Offender(
                    kind=kind.name,
                    title=kind.title,
                    functions=_functions(trace, calls),
                    place=place.text,
                    via=place.via,
                    stack=place.stack,
                    inside=_inside(run, own[0]),
                    per_step=per_step,
                    steps=own_steps,
                    of_steps=of_steps,
                    why=kind.why,
                    fix=kind.fix_cuda if is_cuda else kind.fix,
                )
            )
    yield from sorted(offenders, key=lambda item: -item.per_step)


def _place(trace: Trace, call: int) -> CodePlace:
    code = int(python_stacks(trace).codes[call])
    return code_places(trace)[code] if code >= 0 else _NO_PLACE


def _functions(trace: Trace, calls: I64) -> tuple[str, ...]:
    """Return the names of the functions that are called, the most frequent first."""
    ids = Counter(trace.columns("api_call", "name_id")["name_id"].values[calls].tolist())
    names = trace.strings.texts([each for each, _ in ids.most_common()])
    return tuple(dict.fromkeys(map(without_version, names)))


def _inside(run: Run, call: int) -> str:
    """Return the name of the innermost range around a call; empty for none, and for a step."""
    trace = run.trace
    if not trace.has("range") or not trace.row_count("range"):
        return ""
    around = innermost_range(trace, "api_call")
    if not around.found[call]:
        return ""
    names = range_names(trace)
    text = names.texts[names.codes[around.row[call]]] or ""
    return "" if text in _step_names(run) else text.removeprefix(f"{MODULE_DOMAIN}:")


def _step_names(run: Run) -> Collection[str | None]:
    return set(steps(run).label.to_list())


def _conditions(run: Run) -> Iterator[Condition]:
    copies, trace = step_copies(run), run.trace
    if len(copies.inputs):
        yield Condition(
            "inputs",
            "A replay copies from the same addresses as the capture. Copy each batch into a static"
            " GPU tensor before the replay, or into the same pinned tensor.",
            _places(run, copies.inputs),
        )
    if len(copies.results):
        yield Condition(
            "results",
            "A replay copies results to the same addresses as the capture. Read them before the"
            " next replay, after a synchronization.",
            _places(run, copies.results),
        )
    needing = [name for name in conditions.optimizers(run) if name in conditions.CAPTURABLE]
    if needing:
        yield Condition(
            "optimizer",
            f"Create {' and '.join(needing)} with capturable=True, and a learning rate that changes"
            " as a tensor (lr=torch.tensor(...)). A recording does not show whether that is so.",
        )
    if conditions.has_pytorch_random(run):
        yield Condition(
            "random-numbers",
            "The step draws random numbers. With PyTorch's default generator, each replay draws new"
            " ones. Register any other generator with CUDAGraph.register_generator_state.",
        )
    collectives = conditions.collective_calls(run)
    if len(collectives):
        yield Condition(
            "collectives",
            "All ranks must capture and replay the same collectives (NCCL 2.9.6 or newer). With"
            " DistributedDataParallel: construct it on a side stream, and run 11 steps before"
            " capture. Before PyTorch 2.2, set TORCH_NCCL_ASYNC_ERROR_HANDLING=0.",
        )
    elsewhere = unsafe_elsewhere(run)
    if len(elsewhere):
        names = ", ".join(_functions(trace, elsewhere)[:_SHOWN_PLACES])
        yield Condition(
            "other-threads",
            f"Other threads call {names} meanwhile: use capture_error_mode='thread_local', or stop"
            " them during capture (DataLoader with pin_memory=True is such a thread).",
            _places(run, elsewhere),
        )


def _places(run: Run, calls: I64) -> tuple[str, ...]:
    """Return the places of some calls, the most frequent first."""
    found = Counter(_place(run.trace, call).text for call in calls.tolist())
    return tuple(text for text, _ in found.most_common(_SHOWN_PLACES) if text)


def _how(run: Run, found: Sequence[OffendingCalls]) -> Iterator[str]:
    if program_kind(run.trace) == "cuda":
        yield _CUDA
        return
    if found and _is_outside_modules(run, found):
        yield _MODEL_NOW
    yield _WHOLE
    if not found:
        yield _MODEL
    yield _VALIDATE


def _is_outside_modules(run: Run, found: Sequence[OffendingCalls]) -> bool:
    """Return whether modules were recorded, and no offender is in a call of one.

    Calls without a Python stack may be in the backward pass of a module.
    """
    calls = module_calls(run.trace)
    rows = np.concatenate([each.rows for each in found])
    if not len(calls.row) or (python_stacks(run.trace).codes[rows] < 0).any():
        return False
    columns = run.trace.columns("api_call", "start_ns", "thread_id")
    within = enclosing(
        columns["start_ns"].values[rows],
        calls.start_ns,
        calls.end_ns,
        point_group=columns["thread_id"].values[rows].astype(np.int64),
        group=calls.thread,
    )
    return not within.found.any()


def _saving(run: Run, found: Sequence[OffendingCalls]) -> CaptureSaving | None:
    """Return what capture saves once the offenders are removed."""
    groups = step_launches(run)
    if not any(map(len, groups)):
        return None
    whole, fixes = Baseline(run), list(_fixes(run, found))
    captured = whole.predict([*fixes, LaunchAsGraph(groups)])
    fixed = whole.predict(fixes).step_ns if fixes else None
    return CaptureSaving(whole.step_ns, fixed, captured.step_ns, captured.saving_ns)


def _fixes(run: Run, found: Sequence[OffendingCalls]) -> Iterator[Change]:
    """Yield the changes that remove the offenders."""
    copies = [each.rows for each in found if each.kind in _COPIES]
    dropped = [each.rows for each in found if each.kind not in _COPIES | _LAUNCHING]
    dropped.append(step_copies(run).waits)
    rows = np.unique(np.concatenate(dropped))
    if len(rows):
        yield DropCalls(rows)
    if copies:
        from_calls = np.unique(np.concatenate(copies))
        places = np.flatnonzero(np.isin(operations(run.trace).call, from_calls))
        yield MakeAsync(from_calls, places, own_stream=False)


def _graphs(trace: Trace) -> Iterator[CapturedGraph]:
    for item in graph_nodes(trace):
        yield CapturedGraph(
            place=_place(trace, item.first_call).text,
            launches=item.launches,
            kernels=item.kernels,
            eager_runs=item.eager_runs,
            is_reordered=item.is_reordered,
            first_difference=item.first_difference if item.first_difference >= 0 else None,
            node_kernel=item.node_name,
            eager_kernel=item.eager_name,
        )


def _refused(trace: Trace) -> Iterator[RefusedCall]:
    """Yield the calls that failed because of a capture, by function, error and place."""
    rows = refused_calls(trace)
    columns = trace.columns("api_call", "return_value", "name_id") if len(rows) else {}
    found: Counter[tuple[str, str, str]] = Counter()
    for row in rows.tolist():
        name = without_version(trace.strings.text(int(columns["name_id"].values[row])))
        error = CAPTURE_ERRORS[int(columns["return_value"].values[row])]
        found[name, error, _place(trace, row).text] += 1
    yield from (RefusedCall(*key, count) for key, count in found.items())


def _unseen(trace: Trace) -> Iterator[str]:
    """Yield what the recording cannot show."""
    yield (
        "What Python does beside the GPU is not captured: counters, lists, printing, learning-rate"
        " schedules. Nor are Python numbers that change from step to step: a graph keeps those of"
        " the capture."
    )
    yield "Addresses of tensors are not recorded: inputs must stay at the same addresses."
    if not len(python_stacks(trace).texts):
        yield (
            "Lines are missing: record with warpline graphcheck, or with"
            " --python-backtrace=cuda. Threads of the backward pass have no Python frames."
        )
    if trace.has("memcpy") and trace.row_count("memcpy"):
        known = trace.columns("memcpy", "src_memory")["src_memory"].is_valid()
        if not known.all():
            yield "Whether copies are from pageable memory was not recorded."
    has_streams = len(np.unique(operations(trace).stream)) > 1
    if has_streams and not trace.has("stream_wait"):
        yield "Waits between streams were not recorded, so unjoined streams may be missing."
