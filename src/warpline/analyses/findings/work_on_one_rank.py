"""work-on-one-rank: GPU work that only one of several ranks runs."""

from __future__ import annotations

import numpy as np

from warpline.derived.breakdown.step_scope import step_scope
from warpline.derived.collectives.matches import collective_matches
from warpline.derived.kernels.categories import operation_categories
from warpline.derived.kernels.nouns import are_plain_fp32, counted, noun
from warpline.derived.ranks.extra_work import ExtraWork, extra_work
from warpline.derived.ranks.late import EXPLAINS, lateness
from warpline.derived.ranks.peers import category_sums, working_ranks
from warpline.derived.ranks.waits import rank_waits
from warpline.derived.severity import MEASURABLE_RATIO
from warpline.derived.work.operations import operations
from warpline.derived.work.ranks import rank_label
from warpline.ops.arrays import BoolArray
from warpline.result import Finding, rule
from warpline.result.changes import DropOperations
from warpline.trace import Run
from warpline.units import format_ns, format_ratio

NAME = "work-on-one-rank"
TITLE = "One rank has work that no other has"


@rule(name=NAME, title=TITLE)
def work_on_one_rank(run: Run) -> list[Finding]:
    """GPU work that one rank runs and no other rank does.

    What it finds: In a trace of several ranks that communicate, operations that only one of them
        runs, if they take at least 5% of the step.
    Why it matters: Ranks that run the same program wait for the one with additional work in their
        next collective, now or once the rest is faster.
    How it is found: Operations are compared by name and range, and their categories by number and
        time. Work that makes the others wait now is a finding of straggler instead.
    What to do: Share the work among the ranks, run it less often, or drop it.
    Limits: Ranks that send each other data outside collectives, or that lack kernels of the others,
        may have different tasks by design, such as stages of a pipeline: they are not compared.
    Source: Warpline.
    """
    if len(collective_matches(run.trace).rank_process) < 2:
        return []
    ranks, findings = working_ranks(run), []
    for place in np.flatnonzero(_may_have_more(run)).tolist():
        process, device = int(ranks.process[place]), int(ranks.device[place])
        extra = extra_work(run, process, device)
        if extra is None or step_scope(run).share(extra.all_ns) < MEASURABLE_RATIO:
            continue
        if not _is_waited_for(run, process, device, extra):
            findings.append(_finding(run, process, device, extra))
    return findings


def _may_have_more(run: Run) -> BoolArray:
    """Return which ranks spend measurably more time than all others on a category."""
    ns = category_sums(run).ns
    if len(ns) < 2:
        return np.zeros(len(ns), np.bool_)
    two = np.sort(ns, axis=0)[-2:]
    more = np.where(ns == two[1], two[1] - two[0], 0.0).sum(axis=1)
    enough: BoolArray = (more > 0) & (more >= MEASURABLE_RATIO * step_scope(run).step_ns)
    return enough


def _is_waited_for(run: Run, process: int, device: int, extra: ExtraWork) -> bool:
    """Return whether the work is why the other ranks wait for the rank."""
    late, waits = lateness(run), rank_waits(run)
    if late is None or late.rank < 0:
        return False
    is_it = (int(waits.process[late.rank]), int(waits.device[late.rank])) == (process, device)
    return is_it and extra.all_ns >= EXPLAINS * late.waited_ns


def _finding(run: Run, process: int, device: int, extra: ExtraWork) -> Finding:
    scope, label = step_scope(run), rank_label(run.trace, process, device)
    name = label[:1].upper() + label[1:]
    main = extra.operations[operation_categories(run.trace)[extra.operations] == extra.category]
    what = noun(extra.category, is_plain_fp32=are_plain_fp32(run.trace, main))
    where = f" in `{extra.range_path[-1]}`" if extra.range_path else ""
    many, share = f"{counted(extra.number, what)}{where}", scope.share(extra.all_ns)
    is_extra = np.zeros(len(operations(run.trace)), np.bool_)
    is_extra[extra.operations] = True
    return Finding(
        NAME,
        # High only if the simulation shows that it makes steps longer: no rank may wait for it.
        "medium" if share >= MEASURABLE_RATIO else "low",
        f"{name} alone runs {many}, {format_ns(extra.ns)}{scope.each}",
        f"{name} runs operations that no other rank runs, mostly {many}:"
        f" {format_ns(extra.all_ns)}{scope.each} ({format_ratio(share)}).",
        (scope.show_operations(f"{many}{scope.each} on {label} only", is_extra),),
        f"Share this work among the ranks, run it less often, or remove it from {label}. Run"
        " logging, metrics, and validation outside the step.",
        "Profile all ranks again: `warpline stats -r rank_differences` shows equal work.",
        changes=(DropOperations(extra.operations),),
        share=share,
        on_devices=scope.on_devices(is_extra),
    )
