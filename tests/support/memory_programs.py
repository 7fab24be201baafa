"""A simulated training whose allocations are known by kind."""

from __future__ import annotations

from dataclasses import dataclass, field

from support.machine import Machine

from warpline.trace import Trace

MIB = 1 << 20
US = 1_000
PARAMETER, GRADIENT, STATE, INPUT = 0, 2, 3, 4  # of schema.labels.TENSOR_KINDS


@dataclass
class Training:
    """A model of blocks, trained by an optimizer with two values per parameter.

    Attributes:
        blocks: Number of blocks, each with 1 MiB of parameters and a forward kernel of 100 us.
        activations: MiB that each block keeps for its backward pass.
        leaks: Whether each step's loss and one block's activations are kept.
        has_roles: Whether roles of tensors are recorded.
        kinds: What each allocation is for, in order.
    """

    blocks: int = 4
    activations: int = 8
    leaks: bool = False
    has_roles: bool = True
    kinds: list[str] = field(default_factory=list)
    machine: Machine = field(default_factory=Machine)
    _address: int = 1 << 40

    def run(self, steps: int = 8, *, memory_bytes: int = 0) -> Trace:
        """Return the recording on a GPU with the given memory; 0 if unknown."""
        for block in range(self.blocks):
            weight = self.allocate("Parameters", MIB)
            self._role(weight, MIB, PARAMETER, f"GPT.blocks.{block}.weight", block)
        self.machine.work(10 * US)
        for step in range(steps):
            self._step(step)
            self.machine.wait()
            self.machine.end_step()
        return self.machine.trace(memory_bytes=memory_bytes)

    def allocate(self, kind: str, size: int) -> tuple[int, int]:
        """Allocate, and return address and size."""
        address, self._address = self._address, self._address + size
        self.kinds.append(kind)
        self._event(0, address, size)
        return address, size

    def free(self, *blocks: tuple[int, int]) -> None:
        """Free blocks."""
        for address, size in blocks:
            self._event(1, address, size)

    def _step(self, step: int) -> None:
        batch = self.allocate("Inputs", 2 * MIB)
        self._role(batch, 2 * MIB, INPUT, "input 0", None)
        saved = self._forward()
        loss = self.allocate("Unknown" if self.leaks else "Activations", 512)
        gradients = self._backward(step, saved)
        begun = self.machine.now
        self.machine.launch(40 * US)
        if not step:
            for block in range(self.blocks):
                for name in ("exp_avg", "exp_avg_sq"):
                    state = self.allocate("Optimizer state", MIB)
                    of = f"AdamW.{name} of GPT.blocks.{block}.weight"
                    self._role(state, MIB, STATE, of, block)
        self.free(self.allocate("Temporary", MIB))
        self.machine.program.mark("Optimizer.step#AdamW.step", begun, self.machine.now)
        self.machine.work(5 * US)
        self.free(*gradients, batch)
        if not self.leaks:
            self.free(loss)

    def _forward(self) -> list[tuple[int, int]]:
        saved, begun = [], self.machine.now
        self.machine.work(US)
        for block in range(self.blocks):
            inner = self.machine.now
            self.machine.launch(100 * US)
            is_kept = self.leaks and not block
            kind = "Unknown" if is_kept else "Activations"
            kept = self.allocate(kind, self.activations * MIB)
            saved += [] if is_kept else [kept]
            self.free(self.allocate("Temporary", MIB))
            self.machine.program.mark(
                f"GPT.blocks.{block}", inner, self.machine.now, domain="nn.Module"
            )
            self.machine.work(US)
        self.machine.program.mark("GPT", begun, self.machine.now, domain="nn.Module")
        self.machine.work(5 * US)
        return saved

    def _backward(self, step: int, saved: list[tuple[int, int]]) -> list[tuple[int, int]]:
        gradients, begun = [], self.machine.now
        for block in range(self.blocks):
            self.machine.launch(200 * US)
            gradient = self.allocate("Gradients", MIB)
            self._role(gradient, MIB, GRADIENT, f"GPT.blocks.{block}.weight", block)
            gradients.append(gradient)
            self.free(self.allocate("Temporary", 2 * MIB))
            self.free(*saved[len(saved) - 1 - block :][:1] if block < len(saved) else ())
        name = f"AddmmBackward0, seq = {step}, op_id = 3"
        self.machine.program.mark(name, begun, self.machine.now)
        self.machine.work(5 * US)
        return gradients

    def _event(self, operation: int, address: int, size: int) -> None:
        self.machine.work(100)
        self.machine.program.add(
            "allocator_event", time_ns=self.machine.now, process_id=0, device_id=0, memory=1,
            operation=operation, address=address, bytes=size,
        )  # fmt: skip
        self.machine.work(100)

    def _role(
        self, block: tuple[int, int], size: int, kind: int, name: str, module: int | None
    ) -> None:
        if self.has_roles:
            self.machine.program.add(
                "tensor_block", time_ns=self.machine.now + 10, process_id=0, device_id=0,
                address=block[0], bytes=size, kind=kind, name=name,
                module=None if module is None else f"GPT.blocks.{module}",
            )  # fmt: skip
