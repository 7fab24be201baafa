"""What each kernel of compiled code was made from: nodes, operators, module and source line.

`injected/compiled.py` writes the lines that are read here. Where AOTAutograd's graph was lowered in
the recorded process, the module of every node is known. Where it came from a cache, those of the
backward pass are not: then a call belongs to the module of the forward nodes that it repeats, of
the parameters that it reads or whose gradients it returns, of the saved tensors that it reads, or
of the call that uses what it writes, in this order.
"""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from warpline.capture.finishing.inductor_code import EXTERN, Call, Code, read_code

_PLAIN = re.compile(r"\._modules\[['\"]([^'\"\]]+)['\"]\]|\[['\"]?([^'\"\]]+)['\"]?\]")
_INPUT = re.compile(r"(?:primals_(\d+)|arg(\d+)_1)$")
_VARIABLE = re.compile(r"[LG]\[['\"](\w+)['\"]\]")
_WORDS = re.compile(r"\W+")
_LEFT_OUT = {"_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module"}
_PARAMETERS = ("_parameters_", "_buffers_")


class CompiledKernel(NamedTuple):
    """A kernel that a compiled graph calls.

    Attributes:
        graph: Name of the graph's ranges.
        position: Its place among the calls of the graph's code.
        kernel: Name of the Triton or C++ kernel, or of the operator that is called.
        kind: TRITON, EXTERN or CPP.
        nodes: Names of nodes, in the order of their graph.
        operators: Their operators.
        module: The module's path below the compiled code, the root's class first; None if unknown.
        class_name: The module's class.
        file: Source file; None if unknown.
        line: Line in it.
        is_backward: Whether the graph is of the backward pass.
    """

    graph: str
    position: int
    kernel: str
    kind: int
    nodes: tuple[str, ...]
    operators: tuple[str, ...]
    module: str | None
    class_name: str | None
    file: str | None
    line: int | None
    is_backward: bool


class _Node(NamedTuple):
    """Where a node is from: the module as Dynamo found it, its class, file and line."""

    source: str
    class_name: str
    file: str
    line: int


class _Traced(NamedTuple):
    """A graph of Dynamo: classes of root modules, the one that the code is a method of, inputs."""

    roots: Mapping[str, str]
    own: str | None
    inputs: Sequence[str]
    nodes: Mapping[str, _Node]


_MOST_LINES = 1 << 31
_NOTHING = _Traced({}, None, (), {})
_NO_CODE = Code((), (), (), {})


def compiled_kernels(lines: Iterable[Any]) -> list[CompiledKernel]:
    """Return the kernels of the compiled graphs that one process wrote down, in its order.

    Args:
        lines: The lines, decoded; those that are not as they should be are left out.
    """
    written = _Written()
    for line in lines:
        with contextlib.suppress(AttributeError, KeyError, TypeError, ValueError):
            written.add(line)
    forward = {number: code for _, number, is_backward, code in written.codes if not is_backward}
    return [
        kernel
        for name, number, is_backward, code in written.codes
        for kernel in _Graph(
            code,
            written.traced.get(number) or _most_alike(written.traced.values(), code),
            written.lowered.get((number, is_backward), {}),
            forward.get(number, _NO_CODE) if is_backward else _NO_CODE,
            is_backward=is_backward,
        ).kernels(name)
    ]


class _Written:
    """What a process wrote down, by the number of its compilation."""

    def __init__(self) -> None:
        self.traced: dict[str, _Traced] = {}
        self.lowered: dict[tuple[str, bool], dict[str, _Node]] = {}
        self.codes: list[tuple[str, str, bool, Code]] = []

    def add(self, line: Any) -> None:
        """Add a line; an error of its content, if it is damaged."""
        is_backward = bool(line.get("is_backward"))
        if "traced" in line:
            number = str(line["traced"])
            before = self.traced.get(number, _NOTHING)
            roots = {str(source): str(kind) for source, kind in line["roots"].items()}
            self.traced[number] = _Traced(
                {**before.roots, **roots},
                None if line["own"] is None else str(line["own"]),
                [str(name) for name in line["inputs"]],
                {**before.nodes, **_nodes(line["nodes"])},
            )
        elif "lowered" in line:
            key = str(line["lowered"]), is_backward
            self.lowered.setdefault(key, {}).update(_nodes(line["nodes"]))
        elif "code" in line:
            code = read_code(line["text"])
            self.codes.append((str(line["code"]), str(line["compile_id"]), is_backward, code))


class _Graph:
    """One compiled graph, and what is known about its nodes."""

    def __init__(
        self,
        code: Code,
        traced: _Traced,
        lowered: Mapping[str, _Node],
        forward: Code,
        *,
        is_backward: bool,
    ) -> None:
        self._is_backward = is_backward
        self._code = code
        self._traced = traced
        self._nodes = {**traced.nodes, **lowered}
        self._is_lowered = bool(lowered)
        self._written = {name for call in code.calls for name in call.writes}
        self._of_module = {node.source: node for node in self._nodes.values()}
        self._of_input = dict(_parameters(traced, self._of_module))
        self._saved = dict(self._saved_by(forward))
        self._results = dict(self._gradients()) if is_backward else {}

    def kernels(self, name: str) -> Iterable[CompiledKernel]:
        """Yield the graph's kernels."""
        for position, (call, node) in enumerate(zip(self._code.calls, self.places(), strict=True)):
            path = None if node is None else _path(node.source or self._traced.own, self._traced)
            has_line = node is not None and bool(node.file and node.line)
            yield CompiledKernel(
                graph=name,
                position=position,
                kernel=call.kernel,
                kind=call.kind,
                nodes=call.nodes,
                operators=call.operators,
                module=path,
                class_name=None if node is None or path is None else self._class_name(node),
                file=node.file if node is not None and has_line else None,
                line=node.line if node is not None and has_line else None,
                is_backward=self._is_backward,
            )

    def places(self) -> list[_Node | None]:
        """Return where each call is from."""
        calls = self._code.calls
        found = [self._place(call) for call in calls]
        users: dict[str, int] = {}  # of each buffer, its first reader after this call
        for position in range(len(calls) - 1, -1, -1):
            call = calls[position]
            if found[position] is None:
                after = [users[name] for name in map(self.buffer, call.writes) if name in users]
                found[position] = found[min(after)] if after else None
            for name in map(self.buffer, call.reads):
                users[name] = position
        makers: dict[str, int] = {}
        for position, call in enumerate(calls):
            before = [makers[name] for name in map(self.buffer, call.reads) if name in makers]
            if found[position] is None and before:
                found[position] = found[max(before)]
            makers.update((self.buffer(name), position) for name in call.writes)
        return found

    def _place(self, call: Call) -> _Node | None:
        known = [self._nodes[name] for name in call.nodes if name in self._nodes]
        inner = [node for node in known if node.source]
        is_known = bool(known) and (self._is_lowered or len(known) == len(call.nodes))
        if call.kind == EXTERN and call.nodes and call.nodes[-1] not in self._nodes:
            is_known = False
        if not is_known:
            found = None if inner and call.kind != EXTERN else self._by_inputs(call)
            found = found or (_main(inner, call.kind) if inner else self._by_saved(call))
            return found or (known[-1] if known else None)
        if call.kind == EXTERN:
            return known[-1]
        return _main(inner, call.kind) if inner else known[-1]

    def _by_inputs(self, call: Call) -> _Node | None:
        """Return the module of the last parameter that a call reads, or returns the gradient of."""
        names = [*call.reads, *(self._results.get(self.buffer(name), "") for name in call.writes)]
        found = [self._of_input[name] for name in names if name in self._of_input]
        return found[-1] if found else None

    def _by_saved(self, call: Call) -> _Node | None:
        """Return the module of the last forward call that made a tensor that a call reads."""
        found = [self._saved[name] for name in call.reads if name in self._saved]
        return max(found, key=lambda place: place[0])[1] if found else None

    def _saved_by(self, forward: Code) -> Iterable[tuple[str, tuple[int, _Node]]]:
        """Yield the saved tensors that a backward graph gets, with what made them."""
        if not forward.calls:
            return
        graph = _Graph(forward, self._traced, {}, _NO_CODE, is_backward=False)
        calls, places = enumerate(forward.calls), graph.places()
        makers = {name: position for position, call in calls for name in call.writes}
        saved = [name for name in self._code.arguments if not name.startswith("tangents")]
        for name, made in zip(reversed(saved), reversed(forward.results), strict=False):
            position = None if made is None else makers.get(graph.buffer(made))
            place = None if position is None else places[position]
            if position is not None and place is not None:
                yield name, (position, place)

    def _gradients(self) -> Iterable[tuple[str, str]]:
        """Yield the results of a backward graph, with the inputs that they are gradients of."""
        for place, name in enumerate(self._code.results):
            if name is not None:
                yield self.buffer(name), f"primals_{place + 1}"

    def buffer(self, name: str) -> str:
        """Return the name under which a call wrote what has this name."""
        while name not in self._written and name in self._code.alias:
            name = self._code.alias[name]
        return name

    def _class_name(self, node: _Node) -> str | None:
        if node.source:
            return node.class_name or None
        return self._traced.roots.get(self._traced.own or "") or None


def _main(nodes: Sequence[_Node], kind: int) -> _Node:
    """Return the last node of a call to an operator; otherwise, of the module with most nodes."""
    if kind == EXTERN:
        return nodes[-1]
    counts = Counter(node.source for node in nodes)
    most = max(counts.values())
    return next(node for node in reversed(nodes) if counts[node.source] == most)


def _parameters(traced: _Traced, modules: Mapping[str, _Node]) -> Iterable[tuple[str, _Node]]:
    """Yield the inputs of AOTAutograd's graph that are parameters, with their modules."""
    known = {_flat(source): node for source, node in modules.items() if source}
    for place, name in enumerate(traced.inputs):
        owner = next((name.partition(word)[0] for word in _PARAMETERS if word in name), None)
        node = None if owner is None else known.get(owner.replace("_modules_", "_").lower())
        if node is not None:
            yield f"primals_{place + 1}", node
            yield f"arg{place}_1", node


def _flat(source: str) -> str:
    """Return how the names of inputs spell a module: ``L['self'].blocks.0`` is l_self_blocks_0."""
    plain = _PLAIN.sub(lambda match: f".{match[1] or match[2]}", source)
    return _WORDS.sub("_", plain).strip("_").lower()


def _path(source: str | None, traced: _Traced) -> str | None:
    """Return a module's path with the class of its root first, None if the root is unknown."""
    if not source:
        return None
    root = max((root for root in traced.roots if source.startswith(root)), key=len, default=None)
    if root is None:
        return None
    rest = _PLAIN.sub(lambda match: f".{match[1] or match[2]}", source[len(root) :])
    parts = [part for part in rest.split(".") if part and part not in _LEFT_OUT]
    return ".".join([traced.roots[root], *parts]) if traced.roots[root] else None


def _most_alike(traced: Iterable[_Traced], code: Code) -> _Traced:
    """Return the graph that has most of the nodes in some code."""
    names = {name for call in code.calls for name in call.nodes}
    return max(traced, key=lambda graph: len(names & graph.nodes.keys()), default=_NOTHING)


def _nodes(nodes: Mapping[str, Sequence[Any]]) -> dict[str, _Node]:
    return {
        str(name): _Node(str(source), str(kind), str(file), _line(line))
        for name, (source, kind, file, line) in nodes.items()
    }


def _line(number: Any) -> int:
    return number if isinstance(number, int) and 0 < number < _MOST_LINES else 0
