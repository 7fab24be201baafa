"""A stand-in for the parts of torch that record the memory of GPUs: history, statistics, modules.

The allocator never reuses memory. Its history is a ring, cleared when it is ended, as torch's.
"""

from __future__ import annotations

import itertools
import sys
import time
from types import ModuleType, SimpleNamespace
from typing import Any

NO_FRAMES: list[Any] = []


class FakeAllocator:
    """One GPU's memory.

    Attributes:
        calls: The arguments with which a history was begun or ended.
        error: Raised instead of beginning one.
    """

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.error: Exception | None = None
        self.enabled: Any = None
        self.entries: list[dict[str, Any]] = []
        self.most_entries = 1
        self.blocks: dict[int, dict[str, Any]] = {}
        self.allocated = self.freed = 0
        self.addresses = itertools.count(1 << 40, 1 << 12)

    def record(self, enabled: Any, context: Any = None, stacks: Any = None, most: int = 1) -> None:
        """Begin or end the history, as torch._C._cuda_record_memory_history."""
        self.calls.append((enabled, context, stacks, most))
        if enabled and self.error is not None:
            raise self.error
        self.enabled, self.most_entries = enabled, most
        if not enabled:
            self.entries.clear()

    def snapshot(self, _pool: Any = None) -> dict[str, Any]:
        """Return the state and the history, as torch._C._cuda_memorySnapshot."""
        blocks = [
            {"address": address, "state": "active_allocated", **block}
            for address, block in sorted(self.blocks.items())
        ]
        segments = [
            {
                "device": 0,
                "address": block["address"],
                "total_size": block["size"],
                "stream": 0,
                "segment_type": "small",
                "segment_pool_id": (0, 0),
                "frames": NO_FRAMES,
                "blocks": [block],
            }
            for block in blocks
        ]
        return {
            "segments": segments,
            "device_traces": [[dict(entry) for entry in self.entries]],
            "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": ""},
            "external_annotations": [],
        }

    def allocate(self, size: int, line: int = 1) -> int:
        """Allocate memory; return its address."""
        address, self.allocated = next(self.addresses), self.allocated + 1
        frames = [{"filename": "/program/train.py", "line": line, "name": "step"}]
        known = frames if self.enabled else NO_FRAMES
        self.blocks[address] = {"size": size, "requested_size": size, "frames": known}
        self._add("segment_alloc", address, size, known)
        self._add("alloc", address, size, known)
        return address

    def free(self, address: int) -> None:
        """Free memory, and give it back to the driver."""
        block, self.freed = self.blocks.pop(address), self.freed + 1
        for action in ("free_requested", "free_completed", "segment_free"):
            self._add(action, address, block["size"], block["frames"])

    def stats(self, _device: int) -> dict[str, int]:
        """Return statistics, as torch.cuda.memory_stats."""
        live = sum(block["size"] for block in self.blocks.values())
        return {
            "allocation.all.allocated": self.allocated,
            "allocation.all.freed": self.freed,
            "allocated_bytes.all.current": live,
        }

    def _add(self, action: str, address: int, size: int, frames: list[Any]) -> None:
        if self.enabled == "all":
            entry = {"action": action, "addr": address, "size": size, "stream": 0}
            entry |= {"frames": frames, "time_us": time.time_ns() // 1000}
            self.entries.append(entry)
            del self.entries[: -self.most_entries]


class FakeCuda(SimpleNamespace):
    """torch.cuda before or after its initialization."""

    def __init__(self, own: Any, allocator: FakeAllocator) -> None:
        def record(
            enabled: Any = "all", context: Any = "all", stacks: Any = "all", **more: Any
        ) -> None:
            own._cuda_record_memory_history(enabled, context, stacks, more.get("max_entries", 1000))

        memory = SimpleNamespace(
            _record_memory_history=record, _snapshot=lambda: own._cuda_memorySnapshot(None)
        )
        properties = SimpleNamespace(name="Fake", uuid="0011-22", total_memory=1 << 30)
        super().__init__(
            memory=memory,
            memory_stats=allocator.stats,
            is_ready=False,
            _queued_calls=[],
            device_count=lambda: 1,
            get_device_properties=lambda _: properties,
        )

    def is_initialized(self) -> bool:
        return self.is_ready

    def _lazy_call(self, function: Any) -> None:
        if self.is_ready:
            function()
        else:
            self._queued_calls.append((function, []))

    def init(self) -> None:
        """Initialize CUDA, as the program does with its first tensor."""
        for function, _ in self._queued_calls:
            function()
        self.is_ready = True


def make_torch(torch: Any) -> FakeAllocator:
    """Make a module a stand-in; return its allocator."""
    allocator = FakeAllocator()
    torch._C = SimpleNamespace(
        _cuda_record_memory_history=allocator.record,
        _cuda_memorySnapshot=allocator.snapshot,
        _cuda_isHistoryEnabled=lambda: allocator.enabled is not None,
    )
    torch.cuda = FakeCuda(torch._C, allocator)
    return allocator


def fake_torch(monkeypatch: Any) -> tuple[Any, FakeAllocator]:
    """Return a stand-in that is sys.modules["torch"] during the test, and its allocator."""
    torch = ModuleType("torch")
    monkeypatch.setitem(sys.modules, "torch", torch)
    return torch, make_torch(torch)


class FakeAgent:
    """The agent, as far as the parts use it.

    Attributes:
        is_on: Whether it records.
        ranges: The names of the ranges that were opened.
    """

    def __init__(self) -> None:
        self.is_on = True
        self.names: list[str] = ["?"]
        self.ranges: list[str] = []

    def name(self, domain: str, text: str) -> int:
        self.names.append(f"{domain}:{text}")
        return len(self.names) - 1

    def push(self, handle: int, _value: int) -> None:
        self.ranges.append(self.names[handle])

    def pop(self, handle: int, _value: int) -> None:
        """Close a range."""

    def is_recording(self) -> bool:
        return self.is_on
