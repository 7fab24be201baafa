"""PyTorch programs of the harm test: python -m gpu.harm.torch_programs NAME.

Where kernels are chosen by the clock (torch.compile) the numbers are whole and small, so that sums
are the same in any order; elsewhere PyTorch is asked for deterministic algorithms.
"""

from __future__ import annotations

import collections
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable
from typing import Any

import torch
from gpu.harm.telling import DEVICE, STEPS, run, tell, tell_checksum
from torch import Tensor, nn


def tell_tensors(name: str, tensors: Iterable[Tensor]) -> None:
    """Print a checksum of the tensors' memory."""
    tell_checksum(name, (one.detach().cpu().contiguous().numpy().tobytes() for one in tensors))


def make_model(seed: int = 5) -> nn.Module:
    """Return a small network with what most have: convolution, norms, products."""
    torch.manual_seed(seed)
    torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.benchmark = False
    layers = (nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten())
    head = (nn.Linear(8 * 16 * 16, 128), nn.LayerNorm(128), nn.GELU(), nn.Linear(128, 10))
    return nn.Sequential(*layers, *head).to(DEVICE)


def make_batch(number: int) -> tuple[Tensor, Tensor]:
    """Return input and labels of a step, made on the host."""
    generator = torch.Generator().manual_seed(number)
    x = torch.randn(32, 3, 16, 16, generator=generator)
    return x, torch.randint(0, 10, (32,), generator=generator)


def train(model: nn.Module, batches: Iterable[tuple[Tensor, Tensor]]) -> None:
    """Train a model and print what became of it."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for number, (x, labels) in enumerate(batches):
        with torch.profiler.record_function(f"step {number}"):
            torch.cuda.nvtx.range_push("step") if DEVICE == "cuda" else None
            with torch.autocast(DEVICE, dtype=torch.bfloat16):
                output = model(x.to(DEVICE, non_blocking=True))
            loss = nn.functional.cross_entropy(output.float(), labels.to(DEVICE))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            tell(f"step {number} loss {loss.item().hex()}")
            torch.cuda.nvtx.range_pop() if DEVICE == "cuda" else None
    tell_tensors("parameters", model.parameters())


def training() -> None:
    """Train step by step."""
    train(make_model(), map(make_batch, range(STEPS)))


class Exact(nn.Module):
    """Two layers of whole numbers: every sum in it is exact in float32."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(3)
        for name, shape in (("first", (64, 128)), ("second", (128, 16))):
            values = torch.randint(-1, 2, shape, generator=generator).float()
            self.register_parameter(name, nn.Parameter(values))

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(x @ self.first) @ self.second


def whole_numbers(seed: int, *shape: int) -> Tensor:
    """Return numbers from -1 to 1 on the device."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-1, 2, shape, generator=generator).float().to(DEVICE)


def exact_steps(model: nn.Module, forward: Callable[[Tensor], Tensor]) -> None:
    """Train by the signs of the gradients, which keeps numbers whole and small."""
    parameters = list(model.parameters())
    target = whole_numbers(99, 32, 16)
    for number in range(STEPS):
        torch.compiler.cudagraph_mark_step_begin()
        loss = (forward(whole_numbers(number, 32, 64)) * target).sum()
        loss.backward()
        with torch.no_grad():
            for one in parameters:
                assert one.grad is not None
                one.sub_(one.grad.sign()).clamp_(-2, 2)
                one.grad = None
        tell(f"step {number} loss {int(loss.item())}")
    tell_tensors("parameters", parameters)


def compiled() -> None:
    """torch.compile, whose graphs of forward and backward pass PyTorch captures itself."""
    model = Exact().to(DEVICE)
    exact_steps(model, torch.compile(model, mode="reduce-overhead"))


def graphed() -> None:
    """Graphs of forward and backward pass by make_graphed_callables."""
    model = Exact().to(DEVICE)
    exact_steps(model, torch.cuda.make_graphed_callables(model, (whole_numbers(0, 32, 64),)))


def capture_step(model: nn.Module, x: Tensor, target: Tensor, pool: Any = None) -> Any:
    """Capture forward, backward and update of a model as one graph."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=pool):
        (model(x) * target).sum().backward()
        with torch.no_grad():
            for one in model.parameters():
                assert one.grad is not None
                one.sub_(one.grad.sign()).clamp_(-2, 2)
                one.grad.zero_()
    return graph


def captured() -> None:
    """A whole step as one graph, replayed with new inputs, captured anew in the same pool."""
    model, target = Exact().to(DEVICE), whole_numbers(99, 32, 16)
    x = whole_numbers(0, 32, 64)
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        (model(x) * target).sum().backward()
    torch.cuda.current_stream().wait_stream(side)
    graph = capture_step(model, x, target)
    for number in range(4 * STEPS):
        with torch.cuda.nvtx.range("step"):
            x.copy_(whole_numbers(number, 32, 64))
            graph.replay()
            if number % 8 == 7:
                pool = graph.pool()
                fresh = capture_step(model, x, target, pool)
                graph.reset()
                graph = fresh
    torch.cuda.synchronize()
    tell_tensors("parameters", model.parameters())


def allocations() -> None:
    """The caching allocator under pressure, with whatever backend the environment asks for."""
    total = torch.zeros((), dtype=torch.int64, device=DEVICE)
    for number in range(STEPS):
        held = [
            torch.full((size,), size + number, device=DEVICE)
            for size in range(1, 4_000_000, 199_999)
        ]
        for one in held[::2]:
            total += one.sum()
        del held
        if number % 3 == 2:
            torch.cuda.empty_cache()
    tell(f"total {total.item()}")


def tell_history(when: str) -> None:
    """Print what torch's snapshot has of its memory history, and what its statistics count."""
    snapshot = torch.cuda.memory._snapshot()
    entries = [entry for trace in snapshot["device_traces"] for entry in trace]
    actions = collections.Counter(entry["action"] for entry in entries)
    blocks = [block for segment in snapshot["segments"] for block in segment["blocks"]]
    live = [block for block in blocks if block["state"] == "active_allocated"]
    stats = torch.cuda.memory_stats()
    counts = {
        "entries with frames": sum(bool(entry["frames"]) for entry in entries),
        "live blocks": len(live),
        "annotations": len(snapshot.get("external_annotations", ())),
        "enabled": torch._C._cuda_isHistoryEnabled(),
        "peak": stats["allocated_bytes.all.peak"],
        "reserved": stats["reserved_bytes.all.peak"],
        "allocations": stats["allocation.all.allocated"],
    }
    tell(f"{when}: {sorted(actions.items())} {counts}")


def history() -> None:
    """Torch's own memory history: begun, ended, begun again with a small ring, and dumped."""
    layer = nn.Linear(64, 64).to(DEVICE)
    tell_history("before")
    for number, options in enumerate(({"context": "all"}, {"stacks": "python", "max_entries": 7})):
        layer(whole_numbers(number, 32, 64)).sum().backward()
        torch.cuda.memory._record_memory_history(**options)  # type: ignore[arg-type]
        layer(whole_numbers(number, 32, 64))
        torch.cuda.empty_cache()
        tell_history(f"history {number}")
        torch.cuda.memory._record_memory_history(enabled=None)
        tell_history(f"no history {number}")
        torch.cuda.reset_peak_memory_stats()
    with tempfile.TemporaryDirectory() as folder:
        torch.cuda.memory._dump_snapshot(f"{folder}/snapshot.pickle")
    try:
        torch.cuda.memory._record_memory_history("everything")
    except (RuntimeError, ValueError) as error:
        tell(f"{type(error).__name__}")
    tell_history("after")


class Numbered(torch.utils.data.Dataset[tuple[Tensor, Tensor]]):
    """Items that follow from their number."""

    def __len__(self) -> int:
        return 64 * STEPS

    def __getitem__(self, number: int) -> tuple[Tensor, Tensor]:
        x, labels = make_batch(number)
        return x[0], labels[0]


def loaded(context: str) -> None:
    """Train on what worker processes load."""
    loader = torch.utils.data.DataLoader(
        Numbered(),
        batch_size=64,
        num_workers=3,
        pin_memory=DEVICE == "cuda",
        multiprocessing_context=context,
        persistent_workers=True,
    )
    model = make_model()
    torch.ones(1, device=DEVICE)  # CUDA is in use before the workers begin
    for _ in range(2):
        train(model, loader)


def loader_fork() -> None:
    """Workers by fork, after CUDA was used."""
    loaded("fork")


def loader_spawn() -> None:
    """Workers by spawn."""
    loaded("spawn")


def profiled() -> None:
    """torch.profiler in the program: two profilers want CUPTI."""
    model = make_model()
    with torch.profiler.profile(
        schedule=torch.profiler.schedule(wait=1, warmup=1, active=2)
    ) as one:

        def batches() -> Iterable[tuple[Tensor, Tensor]]:
            for number in range(STEPS):
                yield make_batch(number)
                one.step()

        train(model, batches())
    with torch.profiler.profile() as two:
        train(model, map(make_batch, range(2)))
    tell(f"profiles {len(two.events() or ()) > 0}")


def forked() -> None:
    """Children by fork after CUDA was used: they compute in Python and end in different ways."""
    model = make_model()
    for number in range(3):
        train(model, map(make_batch, range(2)))
        child = os.fork()
        if child == 0:
            tell(f"child {number} {sum(i * i for i in range(100_000))}")
            os._exit(number) if number else sys.exit(21)
        tell(f"ended {os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}")


def shared() -> None:
    """Tensors of the device, handed to another process by CUDA IPC."""
    context = torch.multiprocessing.get_context("spawn")
    queue, done = context.Queue(), context.Queue()
    tensor = torch.arange(1 << 16, dtype=torch.int32, device=DEVICE)
    child = context.Process(target=work_on_shared, args=(queue, done))
    child.start()
    for _ in range(STEPS):
        queue.put(tensor)
        done.get()
        tensor.mul_(3)
    queue.put(None)
    child.join()
    tell(f"child {child.exitcode}")
    tell_tensors("shared", [tensor])


def work_on_shared(queue: Any, done: Any) -> None:
    """Add to each tensor that comes, until None does."""
    while (tensor := queue.get()) is not None:
        tensor.add_(5)
        torch.cuda.synchronize() if DEVICE == "cuda" else None
        del tensor
        done.put(1)


def threads() -> None:
    """Four threads, each with a stream of its own."""
    results: dict[int, Tensor] = {}

    def work(index: int) -> None:
        with torch.cuda.stream(torch.cuda.Stream()):
            x = torch.arange(1 << 14, dtype=torch.int32, device=DEVICE)
            for number in range(300):
                x = x * 3 + number + index
            results[index] = x.cpu()

    workers = [threading.Thread(target=work, args=(index,)) for index in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    tell_tensors("threads", [results[index] for index in range(4)])


def leave_work() -> None:
    """Train, and put more work on the device than is waited for."""
    train(make_model(), map(make_batch, range(3)))
    x = torch.ones(1 << 20, device=DEVICE)
    for _ in range(500):
        x = x * 1.0001


def exits() -> None:
    """sys.exit in the middle."""
    leave_work()
    sys.exit(31)


def raises() -> None:
    """An exception that nobody catches."""
    leave_work()
    raise RuntimeError("on purpose")


def interrupted() -> None:
    """Ctrl+C in the middle: Python ends by SIGINT."""
    leave_work()
    os.kill(os.getpid(), signal.SIGINT)
    threading.Event().wait(30)


def aborted() -> None:
    """abort() in the middle."""
    leave_work()
    os.abort()


def distributed() -> None:
    """One rank of NCCL: all-reduces between the passes."""
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}
    backend = "nccl" if DEVICE == "cuda" else "gloo"
    store = torch.distributed.HashStore()
    torch.distributed.init_process_group(backend, store=store, rank=0, world_size=1)
    train(nn.parallel.DistributedDataParallel(make_model()), map(make_batch, range(STEPS)))
    torch.distributed.destroy_process_group()


PROGRAMS = (
    training, compiled, graphed, captured, allocations, history, loader_fork, loader_spawn,
    profiled, forked, shared, threads, exits, raises, interrupted, aborted, distributed,
)  # fmt: skip

if __name__ == "__main__":
    run({program.__name__: program for program in PROGRAMS})
