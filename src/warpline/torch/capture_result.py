"""What `warpline.torch.graphcheck` returns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from warpline.result.graphcheck import Verdict
from warpline.torch.tensor_trees import Difference
from warpline.units import plural

_SHOWN = 5


@dataclass(frozen=True)
class CaptureCheck:
    """Whether a function can be captured as a CUDA graph, and whether replays do what it does.

    Attributes:
        error: Why capture failed; empty if it succeeded.
        place: The line at which it failed; empty if unknown.
        replays: Number of replays that were compared, each with inputs of its own.
        differences: Every result and changed tensor: the worst agreement over all replays.
        noise: The same of two runs of the function itself with the same input: where these differ,
            the function is not deterministic.
        moved: Tensors that the function replaces instead of changing: replays use the old ones.
        kernels: What the graph's kernels are, compared with those of the function; empty if they
            were not recorded.
        has_same_kernels: Whether they are the same, in the same order; None if unknown.
        notes: What limits the result.
    """

    error: str = ""
    place: str = ""
    replays: int = 0
    differences: Sequence[Difference] = ()
    noise: Sequence[Difference] = ()
    moved: Sequence[str] = ()
    kernels: str = ""
    has_same_kernels: bool | None = None
    notes: Sequence[str] = field(default_factory=tuple)

    @property
    def is_captured(self) -> bool:
        """Whether capture succeeded."""
        return not self.error

    @property
    def verdict(self) -> Verdict:
        """``yes``: replays do what the function does, as far as was checked. ``no``: they do not.

        ``undecided``: runs of the function itself differ as much, with the same input and state.
        """
        if not self.is_captured or self.moved or self.wrong:
            return "no"
        return "undecided" if self.varying else "yes"

    @property
    def is_valid(self) -> bool:
        """Whether replays do what the function does, as far as was checked."""
        return self.verdict == "yes"

    @property
    def varying(self) -> list[Difference]:
        """The tensors in which runs of the function itself differ by more than rounding."""
        return [item for item in self.noise if item.agreement == "different"]

    @property
    def wrong(self) -> list[Difference]:
        """The tensors of replays that differ by more than runs of the function itself."""
        noise = {item.name: item.largest for item in self.noise}
        return [
            item
            for item in self.differences
            if item.agreement == "different" and item.largest > 2 * noise.get(item.name, 0.0)
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return {
            "is_captured": self.is_captured,
            "verdict": self.verdict,
            "error": self.error,
            "place": self.place,
            "replays": self.replays,
            "differences": [asdict(item) for item in self.differences],
            "noise": [asdict(item) for item in self.noise],
            "moved": list(self.moved),
            "kernels": self.kernels,
            "has_same_kernels": self.has_same_kernels,
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        """Return the result as a few lines."""
        return "\n".join(self._lines())

    def _lines(self) -> list[str]:
        if self.error:
            at = f" at {self.place}" if self.place else ""
            lines = [f"No: capture failed{at}: {self.error}"]
            return [*lines, *(f"note: {note}" for note in self.notes)]
        lines = [self._sentence()]
        lines += [
            f"{item.name}: differs by up to {item.largest:.3g}" for item in self.wrong[:_SHOWN]
        ]
        if len(self.wrong) > _SHOWN:
            lines.append(f"and {plural(len(self.wrong) - _SHOWN, 'more tensor')}")
        lines += [
            f"{name}: replaced by a new tensor. Replays use the old one: change it in place (copy_)"
            for name in self.moved[:_SHOWN]
        ]
        lines.append(self._agreement())
        if self.kernels:
            lines.append(self.kernels)
        return [*lines, *(f"note: {note}" for note in self.notes)]

    def _sentence(self) -> str:
        if self.verdict == "undecided":
            names = ", ".join(item.name for item in self.varying[:_SHOWN])
            return (
                "Cannot decide: two runs of the function with the same input, state and seed"
                f" differ, too ({names}). It may depend on Python numbers, which a graph keeps as"
                " captured."
            )
        if self.verdict == "no":
            return "No: captured, but replays do not do what the function does."
        return f"Yes: {plural(self.replays, 'replay')} did what the function does."

    def _agreement(self) -> str:
        """Return how many tensors agree, and how well."""
        counts = [
            sum(item.agreement == agreement for item in self.differences)
            for agreement in ("equal", "close")
        ]
        text = f"{counts[0]} of {plural(len(self.differences), 'tensor')} equal bit by bit"
        if counts[1]:
            text += f", {counts[1]} within the tolerances of torch.testing.assert_close"
        return f"{text}."
