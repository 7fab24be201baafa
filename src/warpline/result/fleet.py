"""The result of `fleet analyze`: one answer about all ranks of a job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from warpline.errors import InputError
from warpline.estimate import Estimate
from warpline.result.diagnosis import Severity
from warpline.result.fleet_grid import FleetGrid

if TYPE_CHECKING:
    import polars as pl

SCHEMA_VERSION = 1  # of the JSON that `fleet analyze` writes


@dataclass(frozen=True)
class FleetRank:
    """One rank of a job; times per step that counts, in ns.

    Attributes:
        name: How it is called.
        rank: Its number; None if unknown.
        pid: Process id; None if unknown.
        host: Name of its machine; None if unknown.
        device: Index of its GPU.
        path: Its recording.
        steps: Number of steps that count.
        step_ns: Mean length of a step on its GPU.
        busy_ns: Part of it in which the GPU is busy, with collectives.
        own_ns: Part of it without exposed waits for other ranks.
        wait_ns: How long it waits for others in collectives, sends and receives.
        exposed_wait_ns: The part of that in which its GPU computes nothing.
        caused_ns: How long all others together wait where it arrives last.
        last_ratio: Share of its collectives in which it arrives last.
        clock_offset_ns: How far its clock is ahead of the job's in the middle of the run, beyond
            what the recordings' UTC times say; None if not aligned.
        clock_drift: By how much its clock is faster: 1e-6 is one ppm; None if not aligned.
        clock_error_ns: 90% of the ends of collectives agree within this; None if not aligned.
    """

    name: str
    rank: int | None
    pid: int | None
    host: str | None
    device: int
    path: str
    steps: int
    step_ns: float
    busy_ns: float
    own_ns: float
    wait_ns: float
    exposed_wait_ns: float
    caused_ns: float
    last_ratio: float
    clock_offset_ns: float | None
    clock_drift: float | None
    clock_error_ns: float | None


@dataclass(frozen=True)
class FleetPart:
    """A part of the time of all ranks together.

    Attributes:
        category: Category of busy time, or cause of idle time.
        kind: ``busy`` or ``idle``.
        ns: Sum over the steps that count of all ranks.
        share: Of all parts.
    """

    category: str
    kind: str
    ns: int
    share: float


@dataclass(frozen=True)
class Straggler:
    """A rank that the others wait for.

    Attributes:
        name: How the rank is called.
        rank: Its number; None if unknown.
        host: Its machine; None if unknown.
        pattern: ``persistent``, ``some-steps``, ``one-host`` or ``one-stage``.
        role: ``straggler``, or ``behind`` if it is not slower.
        cause: ``slow-gpu``, ``more-gpu-work``, ``longer-gpu-work``, ``slow-input``, ``slow-host``,
            ``uneven-experts``, ``behind``, ``other-task`` or ``unknown``.
        text: The cause in words.
        more_ns: How much longer it takes per step than its peers.
        fix: What to do.
    """

    name: str
    rank: int | None
    host: str | None
    pattern: str
    role: str
    cause: str
    text: str
    more_ns: float
    fix: str


@dataclass(frozen=True)
class FleetFinding:
    """A problem of the job.

    Attributes:
        id: F1, F2...
        rule: ``straggler``, ``slow-host-of-ranks``, ``slow-stage``, ``ranks-in-turn``,
            ``uneven-experts``, ``pipeline-bubbles``, ``slow-communicator``, ``slow-network``,
            ``slow-clock``, ``hang`` or ``collective-mismatch``.
        severity: As in `analyze`.
        title: The problem in a few words.
        claim: The facts.
        fix: What to do.
        ranks: Names of the ranks it is about.
        step_ns: The step of the job without it, with bounds; None if unknown.
        saving_ns: What a step saves, with bounds; None if unknown.
    """

    id: str
    rule: str
    severity: Severity
    title: str
    claim: str
    fix: str
    ranks: tuple[str, ...]
    step_ns: Estimate | None = None
    saving_ns: Estimate | None = None


@dataclass(frozen=True)
class FleetCollective:
    """Collectives of one operation, size and number of ranks, in the steps that count.

    Attributes:
        operation: Such as AllReduce.
        communicators: Number of groups of ranks.
        ranks: Ranks in each group.
        bytes: Message size; None if unknown.
        count: Number of collectives in all groups.
        wait_ns: How long a rank waits for the last one to arrive, mean.
        transfer_ns: From the last arrival to the end, median.
        bus_bytes_per_s: What a ring moves over each link in that time; None if unknown.
        algorithm: Such as RING or NVLS, as NCCL or the kernel's name has it; None if unknown.
        link_bytes_per_s: The peak of a GPU's NVLink, or of PCIe if it has none, per direction;
            None for groups of several machines, and if the GPU is unknown.
    """

    operation: str
    communicators: int
    ranks: int
    bytes: int | None
    count: int
    wait_ns: float
    transfer_ns: float
    bus_bytes_per_s: float | None
    algorithm: str | None = None
    link_bytes_per_s: float | None = None


@dataclass(frozen=True)
class ParallelGroups:
    """Groups of ranks of one kind.

    Attributes:
        kind: ``tensor``, ``context``, ``pipeline``, ``sharded-data``, ``data``, ``expert``, ``all``
            (it joins ranks of other groups, for norms and checks) or ``unclear``.
        groups: Their number.
        ranks: Ranks in the usual group.
        first: Names of the ranks of the first group.
        calls: Collectives or sends of a rank per step, by operation.
        wait_ns: How long a rank waits in these collectives per step.
        transfer_ns: The rest of their time.
        why: What shows the kind.
    """

    kind: str
    groups: int
    ranks: int
    first: tuple[str, ...]
    calls: Mapping[str, float]
    wait_ns: float
    transfer_ns: float
    why: str


@dataclass(frozen=True)
class FleetStage:
    """A stage of a pipeline; times per step, means over its ranks, in ns.

    Attributes:
        stage: Its number.
        ranks: Names of its ranks.
        step_ns: The step.
        own_ns: Part of it without exposed waits for other ranks.
        bubble_ns: Exposed waits for other stages.
    """

    stage: int
    ranks: tuple[str, ...]
    step_ns: float
    own_ns: float
    bubble_ns: float


@dataclass(frozen=True)
class FleetPipeline:
    """The pipelines of a job.

    Attributes:
        stages: In order.
        microbatches: Per step, times the chunks of each stage; None if they cannot be counted.
        bubble_ratio: Share of the steps in which stages wait for others.
        bound_ratio: The share that the schedule has even if all stages are equal; None if unknown.
    """

    stages: tuple[FleetStage, ...]
    microbatches: float | None
    bubble_ratio: float
    bound_ratio: float | None


@dataclass(frozen=True)
class FleetExperts:
    """The work of experts: GEMMs between all-to-alls.

    Attributes:
        groups: Number of expert-parallel groups.
        ratio: The longest work of a group by its mean: mean over layers and steps.
        hot: Names of the ranks with more work than the others of their group on average.
        lost_ns: How much longer the longest is than the mean, per step.
    """

    groups: int
    ratio: float
    hot: tuple[str, ...]
    lost_ns: float


@dataclass(frozen=True)
class FleetCall:
    """A call of a collective, or a send or receive, in a flight recorder.

    Attributes:
        group: Name of its process group.
        group_description: Such as ``default_pg``; "" if unknown.
        operation: Such as ``all_reduce``.
        number: Number of the call in its group.
        state: ``scheduled``, ``started`` or ``completed``.
        tensors: Their sizes and types, in words.
        utc_ns: When it was called, UTC, in ns since 1970.
        called_from: The innermost function that is not PyTorch's; "" if unknown.
        stack: All Python functions, innermost first.
    """

    group: str
    group_description: str
    operation: str
    number: int
    state: str
    tensors: str
    utc_ns: int
    called_from: str
    stack: tuple[str, ...]


@dataclass(frozen=True)
class FleetDump:
    """A dump of PyTorch's flight recorder of one rank.

    Attributes:
        name: How the rank is called.
        rank: Its number.
        path: The file.
        version: Of PyTorch's layout.
        calls: Number of calls in it.
        waits_in: The first call that has not completed; None if all have.
        last_call: The last call; None without calls.
    """

    name: str
    rank: int
    path: str
    version: str
    calls: int
    waits_in: FleetCall | None
    last_call: FleetCall | None


@dataclass(frozen=True)
class LeftOut:
    """A recording that is not part of the answer, and why."""

    path: str
    reason: str


@dataclass(frozen=True)
class Fleet:
    """One answer about all ranks of a job.

    Attributes:
        title: The recordings.
        verdict: Where the time goes, and which ranks delay the others.
        hosts: Number of machines; None if unknown.
        steps: Number of steps that count.
        step_source: What a step is.
        step_ns: The mean length of a step, over the ranks; of the whole recording without steps.
        ranks: The ranks, by number.
        breakdown: Parts of the time of all ranks; the sum is exact.
        stragglers: The ranks that others wait for.
        findings: The problems, the largest saving first.
        collectives: Collectives that ranks end together, the longest first.
        left_out: Recordings that could not be used.
        notes: What limits the answer.
        workers: How the summaries were made, in words.
        grid: Every rank and step.
        layout: How ranks share the work, such as ``TP 8 x PP 2 x DP 4``; "" if unclear.
        groups: Its parallel groups.
        pipeline: Its stages; None without a pipeline.
        experts: The work of its experts; None without.
        dumps: Dumps of flight recorders, by rank.
    """

    title: str
    verdict: str
    hosts: int | None
    steps: int
    step_source: str
    step_ns: float
    ranks: tuple[FleetRank, ...]
    breakdown: tuple[FleetPart, ...]
    stragglers: tuple[Straggler, ...]
    findings: tuple[FleetFinding, ...]
    collectives: tuple[FleetCollective, ...]
    left_out: tuple[LeftOut, ...]
    notes: tuple[str, ...]
    workers: str = ""
    grid: FleetGrid | None = field(default=None, repr=False, compare=False)
    layout: str = ""
    groups: tuple[ParallelGroups, ...] = ()
    pipeline: FleetPipeline | None = None
    experts: FleetExperts | None = None
    dumps: tuple[FleetDump, ...] = ()

    def with_workers(self, said: str) -> Fleet:
        """Return the answer with a sentence about how the summaries were made."""
        return replace(self, workers=said)

    def to_polars(self) -> pl.DataFrame:
        """Return a Polars DataFrame of a row per rank and step, described in docs/fleet.md.

        Raises:
            InputError: There are dumps of flight recorders only.
        """
        if self.grid is None:
            raise InputError(
                "dumps of flight recorders have no steps", hint="use --format json, no --parquet"
            )
        return self.grid.to_polars(self.ranks)

    @property
    def total_ns(self) -> int:
        """The time of all steps that count, on all ranks."""
        return sum(part.ns for part in self.breakdown)

    def to_dict(self) -> dict[str, Any]:
        """Return the content of ``fleet analyze -f json``, described in docs/fleet.schema.json."""
        return {
            "schema_version": SCHEMA_VERSION,
            "title": self.title,
            "verdict": self.verdict,
            "hosts": self.hosts,
            "steps": {"source": self.step_source, "count": self.steps, "mean_ns": self.step_ns},
            "breakdown": {
                "total_ns": self.total_ns,
                "parts": [asdict(part) for part in self.breakdown],
            },
            "stragglers": [asdict(item) for item in self.stragglers],
            "findings": [_finding(item) for item in self.findings],
            "collectives": [asdict(item) for item in self.collectives],
            "layout": self.layout,
            "groups": [_plain(asdict(item)) for item in self.groups],
            "pipeline": None if self.pipeline is None else _plain(asdict(self.pipeline)),
            "experts": None if self.experts is None else _plain(asdict(self.experts)),
            "ranks": [asdict(item) for item in self.ranks],
            "dumps": [asdict(item) for item in self.dumps],
            "left_out": [asdict(item) for item in self.left_out],
            "notes": list(self.notes),
            "workers": self.workers,
        }


def _plain(value: Any) -> Any:
    """Return a value with lists for tuples, as JSON has it."""
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, tuple | list) else value


def _finding(item: FleetFinding) -> dict[str, Any]:
    plain = {**asdict(item), "ranks": list(item.ranks)}
    for name in ("step_ns", "saving_ns"):
        value: Estimate | None = getattr(item, name)
        del plain[name]
        low, central, high = value if value is not None else (None, None, None)
        stem = name.removesuffix("_ns")
        plain |= {f"{stem}_ns": central, f"{stem}_low_ns": low, f"{stem}_high_ns": high}
    return plain
