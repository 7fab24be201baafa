"""compiled_kernels: GPU time by the call in code from torch.compile, with module and line."""

from __future__ import annotations

import json

import numpy as np

from warpline.derived.compiled.matches import compiled_rows
from warpline.derived.texts import labelled
from warpline.derived.work.graphs import graph_notes
from warpline.derived.work.operations import operations
from warpline.ops.arrays import I64
from warpline.ops.group import factorize, group_stats
from warpline.result import Arguments, Field, Numbers, Result, Skipped, Texts, Values, analysis
from warpline.schema.labels import COMPILED_KERNEL_KINDS
from warpline.trace import Trace
from warpline.units import Unit, plural

NAME = "compiled_kernels"
TITLE = "Kernels of compiled code"
HINT = "profile with --pytorch=modules a program that uses torch.compile"
FIELDS = (
    Field(
        "time_ratio", Unit.RATIO, "Share of the time of all GPU operations.", "Time (%)", 100.0, 1
    ),
    Field("total_ns", Unit.NS, "Sum of the durations.", "Total Time (ns)"),
    Field("instances", Unit.COUNT, "Number of GPU operations."),
    Field("mean_ns", Unit.NS, "Mean duration.", "Avg (ns)", digits=1),
    Field("kind", Unit.NONE, "Triton kernel, or operator that launched others."),
    Field("kernel", Unit.NONE, "Triton kernel, or operator such as addmm."),
    Field("module", Unit.NONE, "Module, below the compiled code; empty if unknown."),
    Field("class_name", Unit.NONE, "The module's class.", "Class", is_detail=True),
    Field("nodes", Unit.NONE, "Nodes that it was made from, in order."),
    Field("source", Unit.NONE, "File and line of the module's last node."),
    Field("direction", Unit.NONE, "Forward or backward.", "Pass"),
    Field("graph", Unit.NONE, "Name of the graph's ranges.", is_detail=True),
    Field("position", Unit.COUNT, "Place among the calls of the graph's code.", is_detail=True),
)


@analysis(
    name=NAME,
    title=TITLE,
    fields=FIELDS,
    needs=("compiled_kernel",),
    missing_hint=HINT,
)
def compiled_kernels(trace: Trace, arguments: Arguments) -> Result | Skipped:
    """GPU time by the call in code from torch.compile, with nodes, module and source line.

    What it measures: For each call in the Python code that Inductor generated, the GPU operations
        that it launched, and which nodes of the traced graph, which module and which line of the
        program it was made from.
    Why it matters: A name such as triton_per_fused_add_native_layer_norm_1 does not say where in
        the model the kernel is. This table does, also for cuBLAS kernels, in the backward pass,
        and in CUDA graphs (mode="reduce-overhead").
    How it is computed: A range is around each call of a compiled graph. Operations launched in it,
        or captured in it by a CUDA graph, are matched with the calls in the code, in order: Triton
        kernels by their names; operators, such as addmm, get what was launched between these. A
        fused kernel belongs to the module with most of its nodes, an operator to that of its last
        node. Largest time first.
    Limits: Between two Triton kernels, operators share what was launched by what it is; neighbors
        may be confused. If AOTAutograd's cache was used, modules of backward kernels are inferred
        from parameters and saved tensors. Code of cpp_wrapper and AOTInductor is not covered.
    Source: Warpline.
    """
    name = ":".join((NAME, *arguments))
    work = operations(trace)
    if not len(work):
        return Skipped(name, "no GPU work was recorded", HINT)
    found = compiled_rows(trace)
    owned = np.flatnonzero(found.found)
    if not len(owned):
        return Skipped(name, "no GPU work was launched by compiled code", HINT)
    duration_ns = work.end_ns - work.start_ns
    groups = factorize(found.row[owned])
    stats = group_stats(groups.codes, duration_ns[owned], len(groups.uniques))
    columns = trace.columns(
        "compiled_kernel", "graph_id", "position", "is_backward", "kind", "line"
    )
    graphs = trace.strings.texts(columns["graph_id"].values[groups.uniques].tolist())
    position = columns["position"].values[groups.uniques]
    order = np.lexsort((position, np.array(graphs), -stats.sum))
    row = groups.uniques[order]
    whole = max(sum(duration_ns.tolist()), 1)
    values: dict[str, Values] = {
        "time_ratio": Numbers(stats.sum[order] / whole),
        "total_ns": Numbers(stats.sum[order]),
        "instances": Numbers(stats.count[order]),
        "mean_ns": Numbers(stats.sum[order] / stats.count[order]),
        "kind": labelled(columns["kind"].values[row], [*COMPILED_KERNEL_KINDS.values()]),
        "kernel": _texts(trace, "kernel", row),
        "module": _texts(trace, "module", row),
        "class_name": _texts(trace, "class_name", row),
        "nodes": _nodes(trace, row),
        "source": _sources(trace, row),
        "direction": labelled(
            columns["is_backward"].values[row].astype(np.int64), ("forward", "backward")
        ),
        "graph": _texts(trace, "graph", row),
        "position": Numbers(columns["position"].values[row]),
    }
    notes = (*_notes(len(owned), int(duration_ns[owned].sum()), whole), *graph_notes(trace))
    return Result(name, TITLE, FIELDS, values, ("graph", "position"), notes)


def _notes(count: int, total_ns: int, whole_ns: int) -> tuple[str, ...]:
    share = f"{100 * total_ns / whole_ns:.1f}%"
    return (f"{plural(count, 'GPU operation')} of compiled code, {share} of the GPU time",)


def _texts(trace: Trace, name: str, row: I64) -> Texts:
    """Return the texts of a column of `compiled_kernel`."""
    column = trace.columns("compiled_kernel", f"{name}_id")[f"{name}_id"]
    ids = column.filled(-1)[row]
    distinct, place = np.unique(ids, return_inverse=True)
    labels = [trace.strings.text(number) if number >= 0 else None for number in distinct.tolist()]
    return labelled(place, labels)


def _nodes(trace: Trace, row: I64) -> Texts:
    texts = _texts(trace, "nodes", row)
    return Texts(texts.codes, [_listed(text) for text in texts.values])


def _listed(text: str) -> str:
    """Return the nodes in JSON as a list of words; other texts as they are."""
    try:
        nodes = json.loads(text)
    except ValueError:
        return text
    return ", ".join(map(str, nodes)) if isinstance(nodes, list) else text


def _sources(trace: Trace, row: I64) -> Texts:
    """Return ``file:line`` of each row."""
    files, line = _texts(trace, "file", row), trace.columns("compiled_kernel", "line")["line"]
    numbers = line.filled(0)[row].tolist()
    texts = [
        "" if file is None else f"{file}:{number}"
        for file, number in zip(files.to_list(), numbers, strict=True)
    ]
    distinct = sorted(set(texts))
    place = {text: number for number, text in enumerate(distinct)}
    return labelled(np.array([place[text] for text in texts]), [text or None for text in distinct])
