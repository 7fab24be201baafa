"""GPU operations find the call of compiled code that launched them, also in CUDA graphs."""

import json
import lzma
from pathlib import Path

import pytest

import warpline
from warpline.capture.finishing.compiled_code import compiled_kernels
from warpline.capture.finishing.inductor_code import TRITON
from warpline.derived.compiled.matches import compiled_rows
from warpline.derived.compiled.paths import full_path
from warpline.derived.work.operations import operations
from warpline.schema.ranges import COMPILED_DOMAIN
from warpline.trace import MemorySource, Trace

GPT = Path(__file__).parents[1] / "data" / "inductor" / "gpt.jsonl.xz"
MAIN, AUTOGRAD = 0, 1
CUBLAS, SPLIT = "nvjet_tst_64x8_64x16_4x1_v_bz_TNN", "splitKreduce_kernel"
CUDNN = "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16"


@pytest.fixture(scope="module")
def kernels():
    return compiled_kernels(
        json.loads(line) for line in lzma.decompress(GPT.read_bytes()).splitlines()
    )


def launched_by(kernel):
    """Return the names of the GPU kernels that a call launches."""
    if kernel.kind == TRITON:
        return [kernel.kernel]
    if "attention" in kernel.kernel:
        return [CUDNN]
    return [CUBLAS, SPLIT] if kernel.position % 3 == 0 else [CUBLAS]


class Made:
    """A trace in the making: a process that runs compiled code on two threads."""

    def __init__(self, kernels):
        self.tables = {
            "process": {"pid": [1]},
            "thread": {"process_id": [0, 0], "tid": [10, 11]},
            "device": {"gpu_index": [0]},
            "context": {"process_id": [0], "device_id": [0], "native_id": [1], "is_green": [0]},
            "stream": {"process_id": [0], "context_id": [0], "native_id": [7]},
            "compiled_kernel": {
                "process_id": [0] * len(kernels),
                **{
                    name: [getattr(kernel, name) for kernel in kernels]
                    for name in ("graph", "position", "kernel", "kind", "module", "class_name")
                },
                **{
                    name: [getattr(kernel, name) for kernel in kernels] for name in ("file", "line")
                },
                "nodes": [json.dumps(kernel.nodes) for kernel in kernels],
                "operators": [json.dumps(kernel.operators) for kernel in kernels],
                "is_backward": [kernel.is_backward for kernel in kernels],
            },
        }
        self.calls, self.kernels, self.ranges, self.nodes = [], [], [], []
        self.truth = {}
        self.time = 0

    def launch(self, names, thread=MAIN, node=None, owner=None):
        """Launch kernels by one call."""
        self.time += 10
        correlation = len(self.calls) + 1
        self.calls.append((self.time, self.time + 5, thread, correlation, "cudaLaunchKernel"))
        for place, name in enumerate(names):
            start = 1_000_000 + 10 * len(self.kernels)
            self.kernels.append(
                (start, start + 7, correlation, name, None if node is None else node[place])
            )
            self.truth[start] = None if owner is None else owner[place]

    def range(self, name, begin, thread=MAIN):
        """End a range that began at a time."""
        self.time += 10
        self.ranges.append((begin, self.time, thread, thread, COMPILED_DOMAIN, name))

    def trace(self):
        owners = {"process_id": [0] * len(self.kernels), "device_id": [0] * len(self.kernels)}
        owners |= {"context_id": owners["device_id"], "stream_id": owners["device_id"]}
        names: tuple[str, ...] = ("start_ns", "end_ns", "correlation_id", "name", "graph_node_id")
        kernel = dict(zip(names, map(list, zip(*self.kernels, strict=True)), strict=True))
        of_calls = ("start_ns", "end_ns", "thread_id", "correlation_id", "name")
        call = dict(zip(of_calls, map(list, zip(*self.calls, strict=True)), strict=True))
        of_ranges = ("start_ns", "end_ns", "thread_id", "end_thread_id", "domain", "name")
        pushed = dict(zip(of_ranges, map(list, zip(*self.ranges, strict=True)), strict=True))
        pushed["end_thread_id"] = [None] * len(self.ranges)
        tables = {
            **self.tables,
            "kernel": {**kernel, "short_name": kernel["name"], **owners},
            "api_call": {**call, "process_id": [0] * len(self.calls)},
            "range": {
                **pushed,
                "process_id": [0] * len(self.ranges),
                "style": [0] * len(self.ranges),
            },
        }
        if self.nodes:
            ids = ("time_ns", "graph_node_id", "original_graph_node_id", "thread_id")
            node = dict(zip(ids, map(list, zip(*self.nodes, strict=True)), strict=True))
            tables["graph_node"] = {**node, "process_id": [0] * len(self.nodes)}
        return Trace(MemorySource(tables))

    def check(self):
        """Assert that every operation has the position of the call that launched it."""
        trace = self.trace()
        found, work = compiled_rows(trace), operations(trace)
        columns = trace.columns("compiled_kernel", "graph_id", "position")
        graphs = trace.strings.texts(columns["graph_id"].values.tolist())
        position = columns["position"].values
        assert {
            int(start): (graphs[row], int(position[row])) if is_found else None
            for start, row, is_found in zip(work.start_ns, found.row, found.found, strict=True)
        } == self.truth
        return trace

    def run(self, kernels, *, is_backward, thread):
        """Run a compiled graph, launch by launch."""
        own = [kernel for kernel in kernels if kernel.is_backward == is_backward]
        begin = self.time
        for kernel in own:
            for name in launched_by(kernel):
                self.launch([name], thread, owner=[(kernel.graph, kernel.position)])
        self.range(own[0].graph, begin, thread)


def test_launches_in_calls_of_graphs(kernels):
    made = Made(kernels)
    for _ in range(3):
        made.run(kernels, is_backward=False, thread=MAIN)
        made.launch(["elementwise_kernel", CUBLAS])  # eager code: in no call of a graph
        made.truth |= dict.fromkeys(list(made.truth)[-2:])
        made.run(kernels, is_backward=True, thread=AUTOGRAD)
    trace = made.check()
    result = warpline.stats(trace, "compiled_kernels")
    columns = {field.name: place for place, field in enumerate(result.fields)}
    rows = result.rows()
    assert len(rows) == len(kernels)
    assert {row[columns["instances"]] for row in rows} == {3, 6}
    first = next(row for row in rows if row[columns["module"]] == "GPT.blocks.0.ln1")
    assert first[columns["source"]] == "/app/gpt.py:9"
    assert sum(row[columns["total_ns"]] for row in rows) == 7 * sum(
        owner is not None for owner in made.truth.values()
    )
    assert any(row[columns["nodes"]] == "x, layer_norm" for row in rows)


def test_graphs_that_were_captured_in_a_call(kernels):
    """A replay has the nodes of a clone, in any order on the GPU."""
    made, owners = Made(kernels), {}
    begin, names = made.time, {}
    for kernel in kernels:
        if not kernel.is_backward:
            for name in launched_by(kernel):
                made.time += 10
                number = 100 + len(made.nodes)
                made.nodes.append((made.time, number, None, MAIN))
                names[number], owners[number] = name, (kernel.graph, kernel.position)
    made.range(kernels[0].graph, begin)
    captured = list(names)
    made.nodes += [(made.time + 5, 1000 + number, number, MAIN) for number in captured]
    for order in (captured, captured[::-1]):
        begin = made.time
        made.launch(
            [names[number] for number in order],
            node=[1000 + number for number in order],
            owner=[owners[number] for number in order],
        )
        made.range(kernels[0].graph, begin)
    made.check()


def test_replays_in_a_call_of_graphs_whose_capture_was_not_recorded(kernels):
    made, begin = Made(kernels), 0
    launched = [
        (name, (kernel.graph, kernel.position))
        for kernel in kernels
        if not kernel.is_backward
        for name in launched_by(kernel)
    ]
    names, owners = zip(*launched, strict=True)
    made.launch(names, node=range(500, 500 + len(names)), owner=owners)
    made.range(kernels[0].graph, begin)
    made.check()


def test_without_rows_nothing_is_found(kernels):
    made = Made(kernels)
    made.launch(["triton_a"], owner=None)
    made.truth = dict.fromkeys(made.truth)
    made.range("CompiledFxGraph 9/9 forward", 0)
    made.check()
    assert not compiled_rows(Trace(MemorySource({}))).found.any()


def test_paths_of_code_that_runs_for_several_modules():
    assert full_path("GPT.blocks.3", "Block", "Block.attn.qkv") == "GPT.blocks.3.attn.qkv"
    assert full_path("GPT.blocks.3", "Block", "Block") == "GPT.blocks.3"
    assert full_path("OptimizedModule", "OptimizedModule", "GPT.head") == "GPT.head"
    assert full_path(None, None, "GPT.head") == "GPT.head"
