"""Small programs with samples, context switches and stacks. Times are in microseconds."""

from __future__ import annotations

from typing import Any

from support.idle_programs import DEVICE, PINNED, TO_DEVICE, US, Program

PYTHON, NATIVE = 3, 1
RUNNING, BLOCKED, UNINTERRUPTIBLE = 1, 2, 3  # states of threads
HOLDING, WAITING = 1, 2  # the GIL
Place = tuple[str, str, int]  # function, file, line
MAIN: Place = ("train", "/home/me/train.py", 88)
STEP_US = 1000


class SampledProgram(Program):
    """A program in Python: a launching thread 0, a thread 1, and worker processes."""

    def __init__(self, workers: int = 0, **meta: Any) -> None:
        super().__init__(**meta)
        self.frames: dict[tuple[Place, int], int] = {}
        self.stacks: dict[tuple[int, ...], int] = {}
        names = ["python", *("python" for _ in range(workers))]
        self.tables["process"] = [{"pid": 1 + n, "name": name} for n, name in enumerate(names)]
        threads = [(0, 10, "python"), (0, 11, "logger")]
        threads += [(1 + n, 20 + n, "python") for n in range(workers)]
        self.tables["thread"] = [
            {"process_id": process, "tid": tid, "name": name} for process, tid, name in threads
        ]
        first = {"process_id": 0, "device_id": 0, "native_id": 1}
        self.tables["context"] = [first]
        self.tables["stream"] = [{"process_id": 0, "context_id": 0, "native_id": 7}]

    def stack(self, *places: Place, kind: int = PYTHON) -> int:
        """Return the stack of some functions, outermost first; those in ``[kernel]`` are native."""
        row: int | None = None
        path: tuple[int, ...] = ()
        for depth, place in enumerate(places):
            path = (*path, self._frame(place, NATIVE if place[1].startswith("[") else kind))
            if path not in self.stacks:
                self.stacks[path] = len(self.stacks)
                stack = {"parent_id": row, "depth": depth, "frame_id": path[-1]}
                self.tables.setdefault("stack", []).append(stack)
            row = self.stacks[path]
        assert row is not None
        return row

    def _frame(self, place: Place, kind: int) -> int:
        key = (place, kind)
        if key not in self.frames:
            self.frames[key] = len(self.frames)
            symbol, module, line = place
            row = {"symbol": symbol, "module": module, "line": line, "kind": kind}
            self.tables.setdefault("frame", []).append({**row, "is_unresolved": False})
        return self.frames[key]

    def sample(self, at: float, stack: int, thread: int = 0, period: float = 10) -> None:
        """Add a CPU sample."""
        row = {"time_ns": int(at * US), "thread_id": thread, "cycles": 1, "stack_id": stack}
        self._row("cpu_sample", {**row, "period_ns": int(period * US)})

    def runs(self, start: float, end: float, stack: int, thread: int = 0) -> None:
        """Add a CPU sample every 10 us."""
        for at in range(int(start), int(end), 10):
            self.sample(at + 5, stack, thread)

    def seen(self, start: float, end: float, stack: int, thread: int = 0, **more: Any) -> None:
        """Add a sample of a Python stack; by default of a thread that does not run."""
        period = int((end - start) * US)
        row = {"time_ns": int(start * US), "thread_id": thread, "period_ns": period}
        state = {"is_running": False, "has_gil": False, **more}
        self._row("python_sample", {**row, **state, "stack_id": stack})

    def switch(
        self, at: float, *, runs: bool, thread: int = 0, cpu: int = 0, **more: int | None
    ) -> None:
        """Add a context switch."""
        row = {"time_ns": int(at * US), "thread_id": thread, "cpu": cpu, "is_sched_in": runs}
        state = {"state": RUNNING if runs else BLOCKED, "stack_id": None, **more}
        self._row("sched_event", {**row, **state})

    def os_call(self, start: float, end: float, name: str, thread: int = 0) -> None:
        """Add an OS call."""
        self.add("os_call", start, end, process_id=0, thread_id=thread, name=name)

    def gil(self, start: float, end: float, thread: int, state: int) -> None:
        """Add a time in which a thread held the GIL or waited for it."""
        self.add("gil_span", start, end, process_id=0, thread_id=thread, state=state)

    def batch(self, at: float) -> None:
        """Copy 1 MiB to the GPU."""
        call = self.call(at, at + 5, "cudaMemcpyAsync_v3020")
        memory = {"src_memory": PINNED, "dst_memory": DEVICE}
        self.copy(at + 10, at + 85, call, kind=TO_DEVICE, bytes=1 << 20, **memory)

    def step(self, number: int, period: float = STEP_US) -> float:
        """Add a step: two kernels of 150 us, launched at its start. Returns its start."""
        at = number * period
        self.launch(at, at + 10, at + 150)
        self.launch(at + 20, at + 150, at + 300)
        owner = {"process_id": 0, "thread_id": 0, "style": 0}
        self.add("range", at, at + period, name=f"step_{number}", **owner)
        return at

    def _row(self, table: str, row: dict[str, Any]) -> None:
        self.tables.setdefault(table, []).append(row)
