"""offcpu_sum: blocked time by what threads waited for, and the line of the program."""

from __future__ import annotations

from warpline.derived.host.blocked_times import blocked_columns, blocked_times
from warpline.derived.host.sample_rows import THREAD_FIELDS, THREADS, shares, thread_columns
from warpline.result import Arguments, Field, Numbers, Result, Values, analysis
from warpline.trace import Trace
from warpline.units import Unit

NAME = "offcpu_sum"
TITLE = "Blocked time by line"
FIELDS = (
    Field(
        "time_ratio", Unit.RATIO, "Share of the blocked time of all threads.", "Time (%)", 100.0, 1
    ),
    Field("total_ns", Unit.NS, "Total blocked time.", "Total Time (ns)"),
    Field("count", Unit.COUNT, "How often a thread was blocked here.", "Count"),
    Field("mean_ns", Unit.NS, "Mean time.", "Avg (ns)", digits=1),
    Field("max_ns", Unit.NS, "Longest time.", "Max (ns)"),
    Field("threads", Unit.COUNT, "How many threads were blocked here.", "Threads"),
    Field("reason", Unit.NONE, "What they were blocked on.", "Blocked On"),
    Field("function", Unit.NONE, "Function in which they were blocked.", "Function"),
    Field("line", Unit.NONE, "Line of the program that called it.", "Line"),
)


@analysis(
    name=NAME,
    title=TITLE,
    fields=FIELDS,
    needs=("sched_event", "cpu_sample", "python_sample", "gil_span", "os_call"),
    arguments={THREADS: "One row per thread, function and line."},
    missing_hint="profile with --cpuctxsw=process-tree --sample=process-tree",
)
def offcpu_sum(trace: Trace, arguments: Arguments) -> Result:
    """Blocked time of all threads, by what they waited for and the line that called it.

    What it measures: How long threads were blocked in each function that waits, and which line of
        the program called it.
    Why it matters: Samples of the CPU do not show waits. A lock, a read or a sleep in the thread
        that launches work leaves the GPU idle.
    How it is computed: Blocked times of `thread_states`, by reason, function and line. The line is
        that of the innermost function of the program's own Python code, else of Python, else the
        innermost native function with a name.
    Limits: Threads that always wait, such as those of idle pools, are at the top; see :threads.
        Lines need stacks: those where a thread stopped, of OS calls, or Python samples.
    Source: Warpline; offcputime of BCC has the same sums.
    """
    times = blocked_times(trace, by_thread=THREADS in arguments)
    columns = blocked_columns(trace, times)
    columns |= {
        "time_ratio": shares(times.total_ns, int(times.total_ns.sum())),
        "threads": Numbers(times.n_threads),
    }
    values: dict[str, Values] = {field.name: columns[field.name] for field in FIELDS}
    fields: tuple[Field, ...] = FIELDS
    key = ["reason", "function", "line"]
    if THREADS in arguments:
        values |= thread_columns(trace, times.thread)
        fields, key = (*FIELDS, *THREAD_FIELDS), [*key, "thread_name", "pid", "tid"]
    return Result(":".join((NAME, *arguments)), TITLE, fields, values, tuple(key))
