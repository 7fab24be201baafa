"""Whether steps may be captured as CUDA graphs: the offenders, and what capture would save."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from warpline.estimate import Estimate
from warpline.result.display import Displayed

SCHEMA_VERSION = 1  # of the JSON that `graphcheck` writes

Verdict = Literal["yes", "no", "undecided"]
STATUSES: dict[Verdict, int] = {"yes": 0, "no": 3, "undecided": 4}


@dataclass(frozen=True)
class Offender:
    """Calls of one kind at one place in the program that prevent the capture of its step.

    Attributes:
        kind: ``cpu-read``, ``synchronization``, ``pageable-copy``...
        title: The kind in a few words.
        functions: The CUDA functions that were called, the most frequent first.
        place: ``train.py:41 train_step``: the innermost frame of the program's own Python code;
            empty if no Python frames were recorded.
        via: The function of a package that this line called; empty for none.
        stack: All Python frames, one per line, innermost first; empty if none were recorded.
        inside: The innermost range around the first call: a module of PyTorch or another NVTX
            range; empty for none.
        per_step: Calls per step, of the process that makes the most.
        steps: Steps that make such calls.
        of_steps: All checked steps of that process.
        why: Why it prevents capture.
        fix: What to do.
    """

    kind: str
    title: str
    functions: tuple[str, ...]
    place: str
    via: str
    stack: str
    inside: str
    per_step: float
    steps: int
    of_steps: int
    why: str
    fix: str


@dataclass(frozen=True)
class Condition:
    """What a capture of these steps requires, though nothing prevents it.

    Attributes:
        kind: ``inputs``, ``optimizer``, ``collectives``...
        text: What to do, in a sentence or two.
        places: Where, as for offenders.
    """

    kind: str
    text: str
    places: tuple[str, ...] = ()


@dataclass(frozen=True)
class CaptureSaving:
    """The step time with and without a CUDA graph, by the simulation. In ns, without profiling.

    Attributes:
        step_ns: The step as it is.
        fixed_ns: Without the offenders; None if there are none.
        captured_ns: Captured as one CUDA graph, and without the offenders.
        saving_ns: The difference between the first and the last.
    """

    step_ns: Estimate
    fixed_ns: Estimate | None
    captured_ns: Estimate
    saving_ns: Estimate


@dataclass(frozen=True)
class CapturedGraph:
    """A CUDA graph that the program launches, compared with launches of the same kernels.

    Attributes:
        place: Where it is launched, as for offenders; empty if unknown.
        launches: How often.
        kernels: Kernels of a launch.
        eager_runs: How often the same kernels were launched one by one, in the same order.
        is_reordered: Whether they were launched, but in another order only.
        first_difference: The first node that differs from the launches most like it, from 0; None
            if none does, or nothing is alike.
        node_kernel: The kernel of that node; empty for none.
        eager_kernel: The kernel that was launched in its place; empty for none.
    """

    place: str
    launches: int
    kernels: int
    eager_runs: int
    is_reordered: bool
    first_difference: int | None
    node_kernel: str
    eager_kernel: str


@dataclass(frozen=True)
class RefusedCall:
    """Calls that failed because a stream was being captured.

    Attributes:
        function: The CUDA function.
        error: The error that it returned: ``cudaErrorStreamCaptureUnsupported``.
        place: Where, as for offenders; empty if unknown.
        count: How often.
    """

    function: str
    error: str
    place: str
    count: int


@dataclass(frozen=True, repr=False)
class GraphCheck(Displayed):
    """Whether the steps of a recording may be captured as a CUDA graph.

    Attributes:
        title: Name of the recording.
        verdict: ``yes``: no offender was found. ``no``: at least one. ``undecided``: the recording
            does not show enough.
        sentence: The verdict with its main reason.
        steps: Number of checked steps.
        source: What a step is: ``range:step_*``, ``optimizer``...
        launches: GPU operations per step.
        offenders: The most frequent kinds first.
        conditions: What else a capture requires.
        saving: What capture saves; None if unknown.
        how: How to capture, a sentence for each way.
        graphs: The CUDA graphs that the program launches already.
        refused: Calls that failed because a stream was being captured, in the order in which they
            did.
        unseen: What this recording cannot show.
        warnings: Warnings about the recording.
        meta: Facts about the recording.
    """

    title: str
    verdict: Verdict
    sentence: str
    steps: int
    source: str
    launches: float
    offenders: tuple[Offender, ...]
    conditions: tuple[Condition, ...]
    saving: CaptureSaving | None
    how: tuple[str, ...]
    graphs: tuple[CapturedGraph, ...]
    refused: tuple[RefusedCall, ...]
    unseen: tuple[str, ...]
    warnings: tuple[str, ...]
    meta: Mapping[str, Any]

    def __repr__(self) -> str:
        return f"<GraphCheck of {self.title}: {self.sentence}>"

    @property
    def status(self) -> int:
        """The exit status: 0 yes, 3 no, 4 cannot decide."""
        return STATUSES[self.verdict]

    def to_dict(self) -> dict[str, Any]:
        """Return the content of ``graphcheck -f json``, see docs/graphcheck.schema.json."""
        saving = self.saving
        return {
            "schema_version": SCHEMA_VERSION,
            "verdict": self.verdict,
            "status": self.status,
            "sentence": self.sentence,
            "recording": {"paths": self.meta["paths"], "format": self.meta["format"]},
            "steps": {
                "count": self.steps,
                "source": self.source,
                "launches": self.launches,
            },
            "offenders": [_listed(item) for item in self.offenders],
            "conditions": [_listed(item) for item in self.conditions],
            "saving": None
            if saving is None
            else {
                "step_ns": _bounds(saving.step_ns),
                "fixed_ns": None if saving.fixed_ns is None else _bounds(saving.fixed_ns),
                "captured_ns": _bounds(saving.captured_ns),
                "saving_ns": _bounds(saving.saving_ns),
            },
            "how": list(self.how),
            "graphs": [_listed(item) for item in self.graphs],
            "refused": [_listed(item) for item in self.refused],
            "unseen": list(self.unseen),
            "warnings": list(self.warnings),
        }


def _listed(item: Any) -> dict[str, Any]:
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in asdict(item).items()
    }


def _bounds(value: Estimate) -> dict[str, int]:
    return {name: round(ns) for name, ns in value._asdict().items()}
