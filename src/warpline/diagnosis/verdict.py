"""The verdict: where the time of a run went, and what to fix first."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Literal

from warpline.derived.breakdown.input_waits import Nature
from warpline.derived.breakdown.kernel_times import MainKernel
from warpline.derived.efficiency.efficient_work import EfficientWork
from warpline.derived.efficiency.profiler import NSIGHT_COMPUTE
from warpline.derived.metrics.activity import Activity
from warpline.derived.time_parts import TimePart
from warpline.presentation.kernel_names import short_name
from warpline.result import TAIL, Breakdown, Finding, Overlap, Part, Replay
from warpline.result.savings import short_saving_text, unprofiled_text
from warpline.result.shares import own_ns
from warpline.units import format_ns, format_ratio

_MATTERS = 0.10  # idle time below this share of a step is not mentioned
_EXPOSED = 0.15  # exposed communication or copies are mentioned from this share on
_MOST = 0.5
GRAVE = ("high", "medium")
_CLOCK = "clock-limited"
_NEARLY_ALL = 0.98
_ABOUT = 0.1
_UNEVEN = 1.5  # mean divided by median
_WELL_BUSY = 0.8  # from this share on it matters what the GPU was busy with
_NEXT_CAUSE = 0.1  # of the idle time
_SHOWN_EFFICIENT = 0.8  # of the busy time: from this share on, no counters are needed
_COUNTERS = "Only hardware counters show whether {}: profile {} with {}."
_SAMPLE = (
    "warpline profile --gpu-metrics-devices=cuda-visible samples the activity of SMs, Tensor Cores,"
    " and DRAM."
)
_FEW_SMS = 0.6  # of the busy time: with fewer active SMs, that is said
_FEW_ISSUES = 0.1  # of the issue slots, and of the cycles of Tensor Cores
_HIGH_TENSOR, _HIGH_DRAM = 0.4, 0.6  # of the peak: from there on, that is said
_LONGEST_NAME = 60  # of a kernel in a sentence
_NAMED = 0.05  # of the busy time: smaller kinds of work are not named

# Parts whose id does not read well in a sentence.
_IN_WORDS: Mapping[str, str] = {
    "gemm": "GEMM",
    "other": "unclassified kernels",
    "collective": "collectives",
    "graph": "CUDA graphs",
    "unknown": "of unknown cause",
}
Sampled = Literal["unknown", "little", "missing"]
_INPUT = TimePart.INPUT.label
_INPUT_IN_WORDS: Mapping[Nature, str] = {
    "pipeline": "input-bound",
    "once": "long CPU gaps",
    "round-trip": "CPU work between copies",
}
# What an idle GPU waits for, by the cause of the idle time.
_AWAITED: Mapping[str, str] = {
    part.label: text
    for part, text in (
        (TimePart.LAUNCH_BOUND, "the CPU to launch work"),
        (TimePart.HOST_SYNC, "the CPU to return from synchronization"),
        (TimePart.INPUT, "the CPU to load or prepare data"),
        (TimePart.OS_WAIT, "a CPU thread that is asleep, blocked or preempted"),
        (TimePart.PAGEABLE_COPY, "the CPU to finish pageable copies"),
        (TimePart.ALLOCATOR, "the CPU to allocate or free memory"),
        (TimePart.GRAPH_INSTANTIATION, "the CPU to capture or instantiate CUDA graphs"),
        (TimePart.MODULE_LOAD, "the driver to load or compile code"),
        (TimePart.DEPENDENCY, "earlier GPU operations to finish"),
        (TimePart.COMMUNICATION_WAIT, "a collective"),
        (TimePart.GRAPH_INTERNAL, "the next operation of a CUDA graph"),
        (TimePart.PROFILER_OVERHEAD, "the CPU, which the profiler delays,"),
    )
}
_ADJECTIVES = ("launch-bound", "input-bound", "of unknown cause")


def verdict(
    breakdown: Sequence[Breakdown],
    overlaps: Sequence[Overlap],
    median_ns: float | None = None,
    replay: Replay | None = None,
    *,
    input_nature: Nature = "pipeline",
    activities: Sequence[Activity | None] = (),
) -> str:
    """Return how busy the slowest GPU is, and the main reasons why it does not do more.

    A GPU counts as busy with any kernel. If its SMs are much less active, that is said, too.

    Args:
        breakdown: From the diagnosis; empty without GPU work.
        overlaps: From the diagnosis, in the same order.
        median_ns: The median step; mentioned where it is far from the mean, the base of shares.
        replay: The simulation; the step without profiling is mentioned where that is shorter.
        input_nature: What waits for input are: only a pipeline is called input-bound.
        activities: What was sampled, in the order of the breakdown; empty if nothing was.
    """
    if not breakdown:
        return "No GPU work was recorded."
    place = max(range(len(breakdown)), key=lambda row: _own_step_ns(row, breakdown, overlaps))
    item = breakdown[place]
    whole_ns = counted_ns(item)
    if not whole_ns:
        return "The recorded GPU work has no measurable duration."
    busy = item.ns(kind="busy") / whole_ns
    of_what = f"the {format_ns(whole_ns)} from its first to its last operation"
    if item.count:
        mean_ns = _step_ns(item)
        of_what = f"{_article(format_ns(mean_ns))} step"
        if median_ns is not None and mean_ns > _UNEVEN * median_ns:
            of_what += f" (mean; the median is {format_ns(median_ns)})"
        elif (unprofiled := unprofiled_text(replay)) and _is_mean(replay, mean_ns):
            of_what += f" ({unprofiled})"
    said = f"{_subject(item, breakdown)} busy {format_ratio(busy)} of {of_what}"
    said += _busy_clause(item, overlaps[place] if place < len(overlaps) else None)
    activity = activities[place] if place < len(activities) else None
    said += _activity_clause(busy, activity)
    idle = _idle_clause(item, input_nature)
    subject = "GPU" if len(breakdown) == 1 else "This GPU is"
    return f"{said}. {subject} idle {idle}." if idle else f"{said}."


def _activity_clause(busy: float, activity: Activity | None) -> str:
    """Return how little of a busy GPU is active, or else which part of it is near its peak."""
    if activity is None or activity.sm_active is None or busy < _MOST:
        return ""
    issue, dram, tensor = activity.sm_issue, activity.dram_active, activity.tensor_active
    said = []
    if _is_little(busy, activity):
        said.append(f"{format_ratio(activity.sm_active)} of the SMs are active")
        if issue is not None:
            said.append(f"{format_ratio(issue)} of issue slots are in use")
    elif tensor is not None and tensor >= _HIGH_TENSOR:
        said.append(f"Tensor Cores are active in {format_ratio(tensor)} of the cycles")
    if dram is not None and (said or dram >= _HIGH_DRAM):
        said.append(f"DRAM is at {format_ratio(dram)} of its peak")
    if not said:
        return ""
    *others, last = said
    before = f"{', '.join(others)}{',' if len(others) > 1 else ''} and " if others else ""
    return f". On average, {before}{last}"


def _is_little(busy: float, activity: Activity) -> bool:
    """Return whether few SMs of a busy GPU are active, or all wait for something but DRAM."""
    if busy < _MOST or activity.sm_active is None:
        return False
    issue = 1.0 if activity.sm_issue is None else activity.sm_issue
    tensor, dram = activity.tensor_active or 0.0, activity.dram_active or 0.0
    waits = issue < _FEW_ISSUES and tensor < _FEW_ISSUES and dram < _HIGH_DRAM
    return waits or activity.sm_active < _FEW_SMS * busy


def shows_little(breakdown: Sequence[Breakdown], activities: Sequence[Activity | None]) -> bool:
    """Return whether samples show little activity on any of the GPUs while they are busy.

    Then the kinds of their kernels do not mean that these are efficient.

    Args:
        breakdown: From the diagnosis.
        activities: What was sampled, in the same order; empty if nothing was.
    """
    busy = (item.ns(kind="busy") / max(counted_ns(item), 1) for item in breakdown)
    known = ((ratio, each) for ratio, each in zip(busy, activities, strict=False) if each)
    return any(_is_little(ratio, each) for ratio, each in known)


def _is_mean(replay: Replay | None, mean_ns: float) -> bool:
    """Return whether the simulated median is about the mean, so that the two compare."""
    return replay is not None and abs(replay.step_ns / mean_ns - 1) < _ABOUT


def what_first(
    findings: Sequence[Finding],
    breakdown: Sequence[Breakdown],
    *,
    is_priced: bool,
    efficient: EfficientWork | None = None,
    main: MainKernel | None = None,
    profiler: str = NSIGHT_COMPUTE,
    sampled: Sampled = "unknown",
) -> str:
    """Return what to fix first and its estimated saving; empty if unknown.

    Without a problem that matters, the answer is that no savings were found, unless something that
    can be removed limits the clock of a GPU. For a busy GPU, it also says how much of the busy time
    is in work of efficient kinds. If that is not most of it, it takes hardware counters to judge
    the rest. For a GPU that is mostly idle, the answer is what it waits for.

    Args:
        findings: Ordered and numbered.
        breakdown: From the diagnosis.
        is_priced: Whether savings were predicted, so that no saving means that none was found.
        efficient: The busy time in work of efficient kinds; None if that failed.
        main: The kernel that takes most of the busy time, if the verdict names one.
        profiler: What measures hardware counters on these GPUs.
        sampled: ``little`` if samples show little activity, whatever the kinds of work are;
            ``missing`` if the profiler can sample metrics, and did not.
    """
    each = " per step" if any(item.count for item in breakdown) else ""
    first = next((item for item in findings if item.severity in GRAVE), None)
    if first is not None:
        said = f"Fix first: {_within_sentence(first.title)} ({first.id})."
        saving = short_saving_text(first, each)
        return f"{said} Estimated saving: {saving}." if saving else said
    if not is_priced:
        return ""
    clock = next(
        (item for item in findings if item.rule == _CLOCK and item.severity == "low"), None
    )
    uncertain = next(
        (item for item in findings if item is not clock and short_saving_text(item, each)), None
    )
    kind = "measurable" if uncertain is None else "certain"
    waits = _waits_clause(breakdown)
    said = f"{waits} No fix has a {kind} saving." if waits else f"No {kind} savings found."
    if clock is not None:  # however little it takes: the GPU could be faster
        said = f"{waits} No fix of the program has a {kind} saving, but"
        said = f"{said} {_within_sentence(clock.title)} ({clock.id}).".strip()
    possible = f"{uncertain.id} may save {short_saving_text(uncertain, each)}." if uncertain else ""
    kernels = _kernels_clause(breakdown, efficient, main, profiler) if sampled != "little" else ""
    sample = _SAMPLE if sampled == "missing" and kernels else ""
    return " ".join(filter(None, (said, kernels, sample, possible)))


def name_kernel(main: MainKernel | None, breakdown: Sequence[Breakdown]) -> str:
    """Return the sentence about a kernel that takes most of the time; empty for idle GPUs."""
    if main is None or not _are_busy(breakdown):
        return ""
    name = short_name(main.name)
    if len(name) > _LONGEST_NAME:
        name = f"{name[: _LONGEST_NAME - 3]}..."
    return f"Kernel {name} takes {format_ratio(main.share)} of the busy time."


def _are_busy(breakdown: Sequence[Breakdown]) -> bool:
    busy_ns = sum(item.ns(kind="busy") for item in breakdown)
    return busy_ns >= _MOST * sum(map(counted_ns, breakdown))


def _waits_clause(breakdown: Sequence[Breakdown]) -> str:
    """Return what GPUs wait for that are mostly idle; empty if busy, or if the cause is unknown."""
    whole_ns = sum(map(counted_ns, breakdown))
    if not whole_ns or _are_busy(breakdown):
        return ""
    ns = dict.fromkeys(_AWAITED, 0)
    for part in (part for item in breakdown for part in item.parts):
        if part.category in ns:
            ns[part.category] += part.ns
    cause = max(ns, key=lambda category: ns[category])
    if ns[cause] < _MATTERS * whole_ns:
        return ""
    subject = "The GPU waits" if len(breakdown) == 1 else "The GPUs wait"
    time = f"{format_ratio(ns[cause] / whole_ns)} of the time"
    return f"{subject} for {_AWAITED[cause]} {time}."


def _kernels_clause(
    breakdown: Sequence[Breakdown],
    efficient: EfficientWork | None,
    main: MainKernel | None,
    profiler: str,
) -> str:
    """Return what is known about the efficiency of busy GPUs' work; empty for other GPUs."""
    if not _are_busy(breakdown):
        return ""
    parts = efficient.parts() if efficient is not None else ()
    named = [f"{label} {format_ratio(share)}" for label, share in parts if share >= _NAMED]
    if efficient is None or not named:
        if main is not None:
            return _COUNTERS.format("this kernel is efficient", "it", profiler)
        return _COUNTERS.format("the GPU's kernels are efficient", "them", profiler)
    usually = f"{format_ratio(efficient.share)} of the busy time is in work that is usually"
    usually += f" efficient ({', '.join(named)})."
    if efficient.share >= _SHOWN_EFFICIENT:
        return usually
    return f"{usually} {_COUNTERS.format('the other kernels are efficient', 'them', profiler)}"


def counted_ns(item: Breakdown) -> int:
    """Return the time that shares are of: without steps, from the first to the last operation."""
    if item.count:
        return item.total_ns
    return item.total_ns - sum(part.ns for part in item.parts if part.category == TAIL)


def _within_sentence(title: str) -> str:
    """Return a title in lower case, except for abbreviations and names such as PyTorch."""
    word = title.split(" ", 1)[0]
    is_word = word[1:] == word[1:].lower()
    return title[:1].lower() + title[1:] if is_word else title


def _article(quantity: str) -> str:
    """Return a quantity with its article: ``an 8.00 ms``, ``a 17.4 ms``."""
    number = re.split("[. ]", quantity, maxsplit=1)[0]
    return f"{'an' if number[0] == '8' or number in {'11', '18'} else 'a'} {quantity}"


def _subject(item: Breakdown, every: Sequence[Breakdown]) -> str:
    if len(every) == 1:
        return "GPU"
    shares = len({each.device for each in every}) < len(every)
    if shares and item.process is not None:
        which = f"process {item.process} on GPU {item.device}"
        return f"The slowest of {len(every)} processes, {which}, keeps its GPU"
    process = "" if item.process is None else f" (process {item.process})"
    return f"The slowest of {len(every)} GPUs, GPU {item.device}{process}, is"


def _step_ns(item: Breakdown) -> float:
    return counted_ns(item) / max(item.count, 1)


def _own_step_ns(row: int, breakdown: Sequence[Breakdown], overlaps: Sequence[Overlap]) -> float:
    """Return the step of a GPU without its waits for other ranks."""
    item = breakdown[row]
    return own_ns(counted_ns(item), row, overlaps) / max(item.count, 1)


def _busy_clause(item: Breakdown, overlap: Overlap | None) -> str:
    whole_ns = counted_ns(item)
    exposed = []
    if overlap is not None:
        exposed = [
            (overlap.exposed_communication_ns, _communication(overlap)),
            (overlap.exposed_copy_ns, "exposed copies"),
        ]
    said = [
        f"{format_ratio(ns / whole_ns)} is {text}"
        for ns, text in exposed
        if ns >= _EXPOSED * whole_ns
    ]
    if said:
        return f", but {' and '.join(said)}"
    parts = [part for part in item.parts if part.kind == "busy"]
    busy_ns = item.ns(kind="busy")
    if not parts or busy_ns < _WELL_BUSY * whole_ns:
        return ""
    largest = max(parts, key=lambda part: part.ns)
    text = f"{_in_words(largest)} ({format_ratio(largest.ns / whole_ns)})"
    return f", mostly {text}" if largest.ns > _MOST * busy_ns else f". Largest part: {text}"


def _communication(overlap: Overlap) -> str:
    text = "exposed communication"
    waiting_ns = overlap.waiting_ns or 0
    if not waiting_ns or waiting_ns < _MOST * overlap.communication_ns:
        return text
    share = format_ratio(waiting_ns / overlap.communication_ns)
    return f"{text} ({share} of communication time is waiting for other ranks)"


def _idle_clause(item: Breakdown, input_nature: Nature) -> str:
    """Return the idle time with its main causes; empty if it is short."""

    def in_words(part: Part) -> str:
        is_input = part.category == _INPUT
        return _INPUT_IN_WORDS[input_nature] if is_input else _in_words(part)

    def because(part: Part) -> str:
        text = in_words(part)
        return text if text in _ADJECTIVES else f"due to {text}"

    causes = [p for p in item.parts if p.kind == "idle" and (item.count or p.category != TAIL)]
    causes = sorted(causes, key=lambda part: -part.ns)
    idle_ns = sum(part.ns for part in causes)
    if idle_ns < _MATTERS * counted_ns(item):
        return ""
    per = max(item.count, 1)
    each = " per step" if item.count else ""
    text = f"{format_ns(idle_ns / per)}{each}"
    largest = causes[0]
    if largest.ns > _NEARLY_ALL * idle_ns:
        return f"{text}, nearly all {because(largest)}"
    named = [part for part in causes[:2] if part is largest or part.ns > _NEXT_CAUSE * idle_ns]
    how_much = "mostly" if largest.ns > _MOST * idle_ns else "in part"
    reasons = [because(largest), *map(in_words, named[1:])]
    times = [format_ns(part.ns / per) for part in named]
    listed = (f"{reason} ({time})" for reason, time in zip(reasons, times, strict=True))
    return f"{text}, {how_much} {', then '.join(listed)}"


def _in_words(part: Part) -> str:
    return _IN_WORDS.get(part.category, part.category)
