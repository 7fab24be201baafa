"""What a recording says: tables, the diagnosis, memory, stacks, answers to SQL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from warpline import progress
from warpline.api.recordings import Recordings, opened
from warpline.documents import tables
from warpline.errors import MissingTableError
from warpline.lazy import lazy
from warpline.result import Analysis, Document, Result, Skipped
from warpline.trace import Run

if TYPE_CHECKING:
    import polars as pl

    from warpline import sql as queries
    from warpline.derived.flame import weighted as stack_weights
    from warpline.derived.flame.weighted import Choice
    from warpline.derived.memory.labels import By
    from warpline.documents import diagnosis
    from warpline.documents import flame as flame_tables
    from warpline.documents import graphcheck as graph_checks
    from warpline.documents import memory as memory_tables
    from warpline.documents import summary as summaries
    from warpline.result import Diagnosis
    from warpline.result.graphcheck import GraphCheck
else:
    stack_weights = lazy("warpline.derived.flame.weighted")
    diagnosis = lazy("warpline.documents.diagnosis")
    flame_tables = lazy("warpline.documents.flame")
    graph_checks = lazy("warpline.documents.graphcheck")
    memory_tables = lazy("warpline.documents.memory")
    summaries = lazy("warpline.documents.summary")
    queries = lazy("warpline.sql")


def split_name(text: str) -> tuple[Analysis, tuple[str, ...]]:
    """Parse ``NAME[:ARG]...`` into an analysis and its arguments.

    Raises:
        UsageError: There is no such table or argument.
    """
    return tables.split_name(text)


def stats(trace: Recordings, table: str) -> Result:
    """Compute one table.

    Args:
        trace: A trace, a path, or a list of paths. To compute several tables, open the trace once
            with `warpline.open`.
        table: Its name, as in `warpline stats -r`: ``cuda_gpu_kern_sum:base``.

    Raises:
        UsageError: There is no such table or argument.
        MissingTableError: The recording lacks the events that the table needs.
    """
    result = run(trace, table)
    if isinstance(result, Skipped):
        raise MissingTableError(f"{result.name}: {result.reason}", hint=result.hint)
    return result


def run(trace: Recordings, table: str) -> Result | Skipped:
    """Compute one table, or return why the trace has no data for it."""
    tables.split_name(table)  # a mistyped name fails before a large file is read
    return tables.compute(opened(trace), table)


def default_tables() -> list[str]:
    """Return the tables that `warpline stats` prints by default, in order."""
    return tables.default_tables()


def document(trace: Recordings, names: Sequence[str], *, keep_going: bool = False) -> Document:
    """Compute several tables for a renderer.

    Args:
        trace: A trace, a path, or a list of paths.
        names: Tables, with arguments.
        keep_going: If a table fails because of a defect or damaged data, mark it as failed and
            compute the others. Other errors of the file or the arguments are raised.
    """
    return tables.document(opened(trace), names, keep_going=keep_going)


def summary(trace: Recordings, *, with_layers: bool = False) -> Document:
    """Compute a summary of a trace that fits on one screen.

    Its sections are the first rows of the tables process_sum, device_sum, kernel_sum,
    nvtx_pushpop_sum (or nvtx_startend_sum), copy_sum, cuda_api_sum, for Warpline's own recordings
    profiling_cost, and if modules of PyTorch were recorded, step_phases, followed by the table
    recording. If rows are omitted, the title
    gives their total number.

    Args:
        trace: A trace or a part of one, a path, or a list of paths.
        with_layers: Whether to add the first rows of the table layers, if it has any.
    """
    return summaries.summary(opened(trace), with_layers=with_layers)


def analyze(trace: Recordings, *, steps: str | None = None, keep_going: bool = False) -> Diagnosis:
    """Compute where the time of a run went, and find performance problems.

    Args:
        trace: A trace or a part of one, a path, or a list of paths. Several recordings, such as one
            per rank, are one run.
        steps: Name of the NVTX ranges that are steps, or a pattern such as ``epoch_*``. None
            detects steps.
        keep_going: If a rule fails because of a defect, list it among the rules without a result
            (`Diagnosis.not_judged`) instead of raising the error.

    Returns:
        The content of `warpline analyze`. `Diagnosis.to_dict` is its JSON.

    Raises:
        UsageError: There are no ranges of that name.
    """
    return diagnosis.diagnosis(Run(opened(trace), steps), keep_going=keep_going)


def graphcheck(trace: Recordings, *, steps: str | None = None) -> GraphCheck:
    """Check whether the steps of a recording may be captured as a CUDA graph.

    Args:
        trace: A trace or a part of one, a path, or a list of paths. With lines if it was recorded
            with Python backtraces.
        steps: As for `analyze`.

    Returns:
        The content of `warpline graphcheck`. `GraphCheck.to_dict` is its JSON.

    Raises:
        UsageError: There are no ranges of that name.
    """
    with progress.task("Checking"):
        return graph_checks.graphcheck(Run(opened(trace), steps))


def memory(trace: Recordings, *, by: By | None = None, steps: str | None = None) -> Document:
    """Return who holds the memory of GPUs: at the peak, by phase, from step to step; findings.

    Args:
        trace: A trace, a path, or a list of paths.
        by: What holders are named after: ``line``, ``module``, ``operator`` or ``kind``. None takes
            all of them.
        steps: Name of the NVTX ranges that are steps, or a pattern. None detects steps.

    Raises:
        MissingTableError: No allocations were recorded.
    """
    return memory_tables.document(Run(opened(trace), steps), by)


def compare_memory(before: Document, after: Document) -> Document:
    """Return the differences of two documents of `memory`, the largest first."""
    return memory_tables.compared(before, after)


def stack_choice(
    trace: Recordings,
    of: str | None = None,
    *,
    python_only: bool = False,
    threads: Sequence[str] = (),
) -> Choice:
    """Return which stacks a flame graph or an export of stacks has.

    Args:
        trace: A trace, a path, or a list of paths.
        of: What stacks are weighted by: ``cpu``, ``python``, ``gpu``, ``offcpu`` or ``os``. None
            takes the first that was recorded.
        python_only: Whether to keep only Python frames, with the kernels and OS calls below.
        threads: Thread ids, or parts of thread names; none for all threads.

    Raises:
        UsageError: There is no such kind or thread.
        MissingTableError: The recording has no stacks of this kind.
    """
    return stack_weights.choose(opened(trace), of, python_only=python_only, threads=threads)


def flame(trace: Recordings, stacks: Choice | None = None) -> Document:
    """Return where the time of stacks goes, by function.

    Args:
        trace: A trace, a path, or a list of paths.
        stacks: From `stack_choice`; None takes the first kind that was recorded.

    Raises:
        MissingTableError: The recording has no stacks.
    """
    one = opened(trace)
    return flame_tables.document(one, stacks or stack_choice(one))


def query(trace: Recordings, sql: str) -> pl.DataFrame:
    """Run a SQL query and return its result as a Polars DataFrame.

    Args:
        trace: A trace or a part of one, a path, or a list of paths.
        sql: One SELECT over nsys tables (``CUPTI_ACTIVITY_KIND_KERNEL``, ``StringIds``...), which
            SQLite runs, or over tables of the trace (``kernel``, ``range``...), which Polars runs.

    Raises:
        UsageError: The query fails. The message is that of the SQL engine.
    """
    return queries.frame(opened(trace), sql)


def query_document(trace: Recordings, sql: str) -> Document:
    """Run a SQL query, as `query` does, for a renderer."""
    return queries.document(opened(trace), sql)
