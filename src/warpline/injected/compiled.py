"""Code that torch.compile makes with Inductor: a range around its calls, and where it is from.

Nothing that a cache key is made from is changed, and no function that Dynamo compiles: what is
wrapped here belongs to the compiler, or calls what it has made.

Lines of ``compiled.jsonl``; `capture/finishing/compiled_code.py` reads them:

- ``traced``: a graph of Dynamo, with the module and source line of each node. Dynamo traces in
  every process, also if all that comes after it is taken from a cache.
- ``lowered``: the same of a graph that AOTAutograd gives to Inductor: backward, too. Not written
  if it was taken from AOTAutograd's cache.
- ``code``: the name of a compiled graph's range, and its Python code without Triton kernels.
"""

from __future__ import annotations

import re
import sys
import weakref
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

from .context import Context
from .watch_import import call_after_import, forget
from .wrapping import Wrapping, unnoticed

DOMAIN = "torch.compile"
LINES = "compiled.jsonl"

_COMPILE = "torch._inductor.compile_fx"
# CompiledFxGraph is in the second one before torch 2.6.
_OUTPUTS = ("torch._inductor.output_code", "torch._inductor.codecache")
_TRITON = re.compile(r"'''.*?'''", re.DOTALL)
_BENCHMARK = re.compile(r"^def (?:get_args|benchmark_compiled_module)\(", re.MULTILINE)
_FRAME = re.compile(r'File "(?P<file>[^\n]*)", line (?P<line>[0-9]+), in ')
_TRACED = ("call_user_compiler", "_call_user_compiler")  # methods of Dynamo's OutputGraph

_recorder: _Recorder | None = None


def start(context: Context) -> None:
    """Record compiled code from now on, as soon as the program compiles something."""
    global _recorder  # noqa: PLW0603 - one per process
    _recorder = _Recorder(context)
    call_after_import(_COMPILE, _recorder.watch_compiler)
    for name in _OUTPUTS:
        call_after_import(name, _recorder.watch_code)


def stop() -> None:
    """Put everything back."""
    global _recorder
    recorder, _recorder = _recorder, None
    if recorder is not None:
        recorder.stop()


class _Recorder:
    """Wraps functions of the compiler, and calls of compiled graphs."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._wrapping = Wrapping()
        self._ids: dict[int, str] = {}  # of compiled graphs: what Dynamo numbered their compilation
        self._handles: dict[int, int] = {}
        self._deaths: dict[int, Any] = {}
        self._names: dict[str, int] = {}
        self._kind: Any = None
        self.watch_compiler = context.guarded(__name__, self._watch_compiler)
        self.watch_code = context.guarded(__name__, self._watch_code)

    def _watch_compiler(self) -> None:
        """Note the graphs that Dynamo and AOTAutograd give to Inductor."""
        module = sys.modules[_COMPILE]
        self._before(module, "compile_fx", self._on_traced)
        self._before(module, "_compile_fx_inner", self._on_lowered)

    def _watch_code(self) -> None:
        """Note compiled graphs, and put a range around their calls."""
        modules = (sys.modules.get(name) for name in _OUTPUTS)
        found = (getattr(module, "CompiledFxGraph", None) for module in modules)
        kind = next((kind for kind in found if kind is not None), None)
        if kind is None or kind is self._kind:
            return
        self._kind = kind
        self._before(kind, "post_compile", self._on_compiled)
        self._wrapping.replace(kind, "__call__", self._ranged)

    def stop(self) -> None:
        """Put everything back."""
        forget(self.watch_compiler)
        forget(self.watch_code)
        self._wrapping.restore()

    def _before(self, owner: Any, name: str, note: Callable[..., None]) -> None:
        """Have `note` called with the arguments of a function, before it."""
        if not callable(vars(owner).get(name)):
            return
        noted = self._context.guarded(__name__, lambda args, named: note(*args, **named))

        def make(original: Callable[..., Any]) -> Callable[..., Any]:
            def call(*args: Any, **kwargs: Any) -> Any:
                noted(args, kwargs)
                return original(*args, **kwargs)

            return call

        self._wrapping.replace(owner, name, make)

    def _ranged(self, call: Callable[..., Any]) -> Callable[..., Any]:
        agent, handles = self._context.agent, self._handles
        is_recording, push, pop = agent.is_recording, agent.push, agent.pop
        handle_of = unnoticed(self._context.guarded(__name__, self._handle, 0))

        def __call__(graph: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N807
            handle = handles.get(id(graph)) or handle_of(graph)
            if not is_recording():
                return call(graph, *args, **kwargs)
            push(handle, -1)
            try:
                return call(graph, *args, **kwargs)
            finally:
                pop(handle, -1)

        return __call__

    def _on_traced(self, graph: Any, *_args: Any, **_kwargs: Any) -> None:
        """Note a graph that Dynamo traced."""
        if not hasattr(graph, "graph"):
            return
        code, names, globals_ = _traced_frame()
        arguments = () if code is None else code.co_varnames[: code.co_argcount]
        own = [_root(f"L['{name}']", "", names, globals_) for name in arguments[:1]]
        outermost = {stack[0] for node in graph.graph.nodes if (stack := _module_stack(node))}
        self._write(
            traced=_compile_id(),
            roots=dict([*(_root(*found, names, globals_) for found in outermost), *own]),
            own=next((source for source, kind in own if kind), None),
            inputs=[node.name for node in graph.graph.nodes if node.op == "placeholder"],
            nodes=dict(_nodes(graph, by_origin=False)),
        )

    def _on_lowered(self, graph: Any, *_args: Any, **kwargs: Any) -> None:
        """Note a graph that AOTAutograd made."""
        is_backward = bool(kwargs.get("is_backward"))
        nodes = dict(_nodes(graph, by_origin=True))
        self._write(lowered=_compile_id(), is_backward=is_backward, nodes=nodes)

    def _on_compiled(self, graph: Any, *_args: Any, **_kwargs: Any) -> None:
        """Remember which compilation a graph is from; it may have been in a cache."""
        self._keep(graph)
        self._ids[id(graph)] = _compile_id()

    def _keep(self, graph: Any) -> None:
        """Know a graph until it is gone: nothing is written to it, because it may be stored."""
        number = id(graph)
        if number not in self._deaths:
            self._deaths[number] = weakref.ref(graph, lambda _: self._forget(number))

    def _forget(self, number: int) -> None:
        for known in (self._ids, self._handles, self._deaths):
            known.pop(number, None)

    def _handle(self, graph: Any) -> int:
        """Return the handle of a graph's range; write its code at its first call."""
        self._keep(graph)
        number = self._ids.get(id(graph), "")
        settings = getattr(graph, "fx_kwargs", None) or {}
        is_backward = bool(settings.get("is_backward"))
        name = self._new_name(number, "backward" if is_backward else "forward")
        handle = self._context.agent.name(DOMAIN, name)
        self._handles[id(graph)] = handle
        self._write(
            code=name,
            compile_id=number,
            is_backward=is_backward,
            text=_shortened(getattr(graph, "source_code", None) or ""),
        )
        return handle

    def _new_name(self, number: str, direction: str) -> str:
        name = " ".join(word for word in ("CompiledFxGraph", number, direction) if word)
        count = self._names[name] = self._names.get(name, 0) + 1
        return name if count == 1 else f"{name} #{count}"

    def _write(self, **content: Any) -> None:
        self._context.add_line(LINES, content)


def _shortened(code: str) -> str:
    """Return generated code without Triton kernels, and without the benchmark at its end."""
    end = _BENCHMARK.search(code)
    return _TRITON.sub("''", code if end is None else code[: end.start()])


def _compile_id() -> str:
    """Return what Dynamo calls the compilation under way, such as ``0/1``; empty if none is."""
    context = getattr(sys.modules.get("torch._guards"), "CompileContext", None)
    number = None if context is None else context.current_compile_id()
    return "" if number is None else str(number)


def _traced_frame() -> tuple[Any, dict[str, Any], dict[str, Any]]:
    """Return code, local and global names of the function that Dynamo is compiling, if any."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001
    while frame is not None:
        if frame.f_code.co_name in _TRACED:
            root = getattr(frame.f_locals.get("self"), "root_tx", None)
            code, names = getattr(root, "f_code", None), getattr(root, "f_locals", {})
            return code, names, getattr(root, "f_globals", {})
        frame = frame.f_back
    return None, {}, {}


def _root(
    source: str, kind: str, names: dict[str, Any], globals_: dict[str, Any]
) -> tuple[str, str]:
    """Return what the source of an outermost module begins with, a module, and that one's class.

    It is the variable in ``L['self'].blocks`` and such, if that is a module, otherwise the source.

    Args:
        source: How Dynamo found the module.
        kind: Its class.
        names: Local names of the compiled function.
        globals_: Global names.
    """
    match = re.match(r"([LG])\[['\"](\w+)['\"]\]", source)
    if match is not None:
        owner = (names if match[1] == "L" else globals_).get(match[2])
        if isinstance(owner, sys.modules["torch"].nn.Module):
            return match[0], type(owner).__name__
    return source, kind


def _module_stack(node: Any) -> list[tuple[str, str]]:
    """Return source and class of the modules around a node, the outermost first."""
    stack = node.meta.get("nn_module_stack") or node.meta.get("fwd_nn_module_stack") or {}
    return [
        (str(source), getattr(kind, "__name__", str(kind).rpartition(".")[2]))
        for source, kind in stack.values()
    ]


def _nodes(graph: Any, *, by_origin: bool) -> Iterator[tuple[str, list[Any]]]:
    """Yield the name of each call in a graph, and its module, class, file and line.

    Args:
        graph: A torch.fx.GraphModule.
        by_origin: Whether a node has the name of the node that it was first made from, as
            Inductor's comments do.
    """
    for node in graph.graph.nodes:
        if node.op not in ("call_function", "call_method", "call_module"):
            continue
        name = node.name
        origin = node.meta.get("from_node") if by_origin else None
        if origin:
            first = origin[0]
            name = getattr(first, "name", None) or first[0]
        module, kind = (_module_stack(node) or [("", "")])[-1]
        frames = list(_FRAME.finditer(node.meta.get("stack_trace") or ""))
        file, line = (frames[-1]["file"], int(frames[-1]["line"])) if frames else ("", 0)
        yield name, [module, kind, file, line]
