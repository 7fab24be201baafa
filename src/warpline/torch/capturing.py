"""``warpline.torch.graphcheck``: captures a function as a CUDA graph, and checks the replays.

    print(warpline.torch.graphcheck(train_step, x, y))

The function runs eagerly with several inputs. Then it is captured, and the graph is replayed with
the same inputs, copied into the tensors that it was captured with. Both start from the same state
of models, optimizers and random numbers, so results and state must be equal. What capture fixes,
and the function does not, shows as a difference: branches, Python numbers, replaced tensors.
"""

from __future__ import annotations

import functools
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from warpline.derived.graph_safety.places import code_place
from warpline.errors import UsageError
from warpline.lazy import lazy
from warpline.torch.capture_result import CaptureCheck
from warpline.torch.captured_kernels import KernelRecording
from warpline.torch.tensor_trees import (
    Difference,
    compared,
    owners_of,
    replaced,
    state_of,
    tensors_of,
)
from warpline.units import plural

if TYPE_CHECKING:
    import torch
else:
    torch = lazy("torch")

_WARM_UP = 3  # runs, as PyTorch's documentation has it
_SEED = 1234
_RANKS = ("equal", "close", "different")

Call = Callable[[], Any]


def graphcheck(
    fn: Callable[..., Any],
    *args: Any,
    make_inputs: Callable[[], Any] | None = None,
    replays: int = 3,
    state: Mapping[str, Any] | None = None,
) -> CaptureCheck:
    """Capture a function as a CUDA graph, and compare replays with the function itself.

    The function is called some ten times. Afterwards, the modules and optimizers that it uses, and
    the random number generators, have the state that they had before.

    Args:
        fn: The function: a forward pass, or a whole training step. For keyword arguments, use a
            lambda or functools.partial.
        args: Its arguments. The tensors are what replays get new values for.
        make_inputs: Returns new arguments, like `args`, for each replay. Without it, the elements
            of each tensor change places.
        replays: Number of replays, each with inputs of its own.
        state: The modules, optimizers and tensors that the function changes, by name. By default,
            those in its closure, its globals, and the object whose method it is.

    Returns:
        A `CaptureCheck`, which prints as text.

    Raises:
        UsageError: There is no GPU, `replays` is not above 0, or `make_inputs` returns arguments of
            other shapes.
    """
    if replays < 1:
        raise UsageError("replays must be above 0", hint="leave it out")
    if not torch.cuda.is_available():
        raise UsageError(
            "graphcheck needs an NVIDIA GPU: CUDA graphs cannot be captured on the CPU",
            hint="call it on a machine where torch.cuda.is_available()",
        )
    inputs = new_inputs(args, make_inputs, replays)
    owners = owners_of(torch, fn) if state is None else dict(state)
    with KernelRecording() as recording:
        found = check(fn, inputs, owners, CudaGraph())
    return _with_kernels(found, recording)


class Graph(Protocol):
    """Runs a call eagerly, captures it, and replays it."""

    def run(self, call: Call) -> Any:
        """Run a call eagerly, and wait until it is done."""

    def capture(self, call: Call) -> Any:
        """Capture a call and return its result; RuntimeError if that fails."""

    def replay(self) -> None:
        """Replay it, and wait until it is done."""


class CudaGraph:
    """A CUDA graph of PyTorch. Eager runs are on a side stream, as PyTorch demands."""

    def __init__(self) -> None:
        self._graph = torch.cuda.CUDAGraph()
        self._side = torch.cuda.Stream()

    def run(self, call: Call) -> Any:
        """Run a call eagerly, and wait until it is done."""
        self._side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._side):
            result = call()
        torch.cuda.current_stream().wait_stream(self._side)
        torch.cuda.synchronize()
        return result

    def capture(self, call: Call) -> Any:
        """Capture a call and return its result; RuntimeError if that fails."""
        states = [each.clone_state() for each in torch.cuda.default_generators]
        try:
            with torch.cuda.graph(self._graph):
                return call()
        except RuntimeError:
            # Where capture fails, PyTorch leaves the generators as if it went on.
            for generator, state in zip(torch.cuda.default_generators, states, strict=True):
                generator.graphsafe_set_state(state)
            raise

    def replay(self) -> None:
        """Replay it, and wait until it is done."""
        self._graph.replay()
        torch.cuda.synchronize()


def check(
    fn: Callable[..., Any], inputs: Sequence[Any], owners: Mapping[str, Any], graph: Graph
) -> CaptureCheck:
    """Return how replays of a graph agree with the function that it was captured from.

    Args:
        fn: The function.
        inputs: Arguments, one tuple for each replay.
        owners: The modules, optimizers and tensors that it changes, by name.
        graph: Runs, captures and replays it.
    """
    state = _State(owners)
    static = replaced(torch, tuple(inputs[0]), _copy)
    call = functools.partial(fn, *static)

    def begin(values: Any) -> None:
        """Start from the same state and random numbers, with other inputs."""
        state.restore()
        _set_inputs(static, values)
        torch.manual_seed(_SEED)  # of all GPUs, too

    try:
        for _ in range(_WARM_UP):
            graph.run(call)
        state.note_new()
        eager = []
        for values in (*inputs, inputs[0]):
            begin(values)
            result = graph.run(call)
            eager.append(_copied(result, state.tensors()))
            del result  # and with it, the nodes of autograd on this stream
        begin(inputs[0])
        before = state.tensors()  # kept alive: a replay may read what the function replaces
        addresses = {name: tensor.data_ptr() for name, tensor in before.items()}
        try:
            result = graph.capture(call)
        except RuntimeError as error:
            found = CaptureCheck(error=_reason(error), place=_place(error))
        else:
            after = state.tensors()
            replayed = []
            for values in inputs:
                begin(values)
                graph.replay()
                replayed.append(_copied(result, after))
            found = CaptureCheck(
                replays=len(inputs),
                differences=_worst(map(_differences, replayed, eager)),
                noise=_differences(eager[-1], eager[0]),
                moved=_moved(addresses, after),
            )
    finally:
        problem = state.reset()
    return replace(found, notes=tuple(_notes(owners, problem)))


def _moved(addresses: Mapping[str, int], after: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the tensors that have other addresses after capture, without gradients."""
    return tuple(
        name
        for name, address in addresses.items()
        if name in after and not name.endswith(".grad") and after[name].data_ptr() != address
    )


class _State:
    """The tensors that a function may change, and the values that they had.

    Args:
        owners: The modules, optimizers and tensors that have them, by name.
    """

    def __init__(self, owners: Mapping[str, Any]) -> None:
        self._owners = owners
        self._values = _copies(self.tensors())
        self._known = frozenset(self._values)
        self._of_optimizers = {
            name: set(owner.state)
            for name, owner in owners.items()
            if isinstance(owner, torch.optim.Optimizer)
        }
        self._random = torch.get_rng_state()
        self._random_of_gpus = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []

    def tensors(self) -> dict[str, Any]:
        """Return the tensors as they are now, by name."""
        return state_of(torch, self._owners)

    def note_new(self) -> None:
        """Remember values that did not exist before: the state of optimizers."""
        new = {name: each for name, each in self.tensors().items() if name not in self._known}
        self._values |= _copies({name: new[name] for name in new if not name.endswith(".grad")})

    def restore(self) -> None:
        """Give all tensors their values; gradients that were not there are removed."""
        with torch.no_grad():
            for name, tensor in self.tensors().items():
                if name in self._values:
                    tensor.copy_(self._values[name])
        for name, tensor in self.tensors().items():
            if tensor.is_leaf and tensor.grad is not None and f"{name}.grad" not in self._known:
                tensor.grad = None

    def reset(self) -> str:
        """Restore everything as it was before the check; return why that failed, else empty."""
        try:
            self.restore()
            for name, known in self._of_optimizers.items():
                optimizer = self._owners[name]
                for parameter in set(optimizer.state) - known:
                    del optimizer.state[parameter]
            torch.set_rng_state(self._random)
            if self._random_of_gpus:
                torch.cuda.set_rng_state_all(self._random_of_gpus)
        except RuntimeError as error:  # PyTorch may refuse after a capture that failed
            return str(error).split("\n")[0]
        return ""


def new_inputs(
    args: Sequence[Any], make_inputs: Callable[[], Any] | None, count: int
) -> list[tuple[Any, ...]]:
    """Return the arguments of each replay, the given ones first.

    Raises:
        UsageError: `make_inputs` returns other tensors than `args` has.
    """
    if make_inputs is None:
        return [replaced(torch, tuple(args), functools.partial(_rolled, by)) for by in range(count)]
    made = [tuple(args)]
    while len(made) < count:
        values = make_inputs()
        made.append(tuple(values) if isinstance(values, tuple | list) else (values,))
    shapes = [
        {name: each.shape for name, each in tensors_of(torch, values, "args")} for values in made
    ]
    if any(each != shapes[0] for each in shapes):
        raise UsageError(
            "make_inputs returns other arguments than those given",
            hint="return as many tensors, of the same shapes",
        )
    return made


def _rolled(by: int, tensor: Any) -> Any:
    """Return a tensor with its elements moved: other values, and still valid ones."""
    values = tensor.detach()
    return values.flatten().roll(by).view(values.shape) if values.numel() else values


def _copy(tensor: Any) -> Any:
    return tensor.detach().clone().requires_grad_(tensor.requires_grad)


def _copies(tensors: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tensor.detach().clone() for name, tensor in tensors.items()}


def _copied(result: Any, state: Mapping[str, Any]) -> dict[str, Any]:
    """Return copies of the results and the state of a run."""
    return _copies({**dict(tensors_of(torch, result, "result")), **state})


def _set_inputs(static: Any, values: Any) -> None:
    given = dict(tensors_of(torch, tuple(values), "args"))
    with torch.no_grad():
        for name, tensor in tensors_of(torch, static, "args"):
            tensor.copy_(given[name])
            tensor.grad = None


def _differences(replay: Mapping[str, Any], eager: Mapping[str, Any]) -> list[Difference]:
    both = [name for name in eager if name in replay]
    return [compared(torch, name, replay[name], eager[name]) for name in both]


def _worst(of_replays: Iterator[Sequence[Difference]]) -> tuple[Difference, ...]:
    """Return the worst agreement of each tensor."""
    worst: dict[str, Difference] = {}

    def rank(item: Difference) -> tuple[int, float]:
        return _RANKS.index(item.agreement), item.largest

    for item in (item for items in of_replays for item in items):
        worst[item.name] = max(worst.get(item.name, item), item, key=rank)
    return tuple(worst.values())


def _notes(owners: Mapping[str, Any], problem: str) -> Iterator[str]:
    if not owners:
        yield "no module or optimizer of the function was found: name them with state="
    if problem:
        yield f"the state could not be restored: {problem}"


def _first(error: BaseException) -> BaseException:
    """Return the error that others follow from: ending a capture that failed fails, too."""
    while error.__context__ is not None:
        error = error.__context__
    return error


def _reason(error: BaseException) -> str:
    return str(_first(error)).strip().split("\n")[0]


def _place(error: BaseException) -> str:
    """Return the line of the program's own code at which an error was raised."""
    frames = traceback.extract_tb(_first(error).__traceback__)
    own = Path(__file__)
    lines = [
        f"{frame.filename}:{frame.lineno} {frame.name}"
        for frame in reversed(frames)
        if Path(frame.filename) != own
    ]
    return code_place("\n".join(lines)).text if lines else ""


def _with_kernels(found: CaptureCheck, recording: KernelRecording) -> CaptureCheck:
    """Return the result with how the graph's kernels compare with those of the function."""
    if recording.why_not:
        note = f"kernels were not compared: {recording.why_not}"
        return replace(found, notes=(*found.notes, note))
    if not found.is_captured or not recording.graphs:
        return found
    texts = [
        f"The graph has {plural(graph.kernels, 'kernel')}:"
        f" {'the same, in the same order, as' if graph.eager_runs else 'not the same as'}"
        " those of the function."
        for graph in recording.graphs
    ]
    is_same = all(graph.eager_runs for graph in recording.graphs)
    return replace(found, kernels=" ".join(texts), has_same_kernels=is_same)
