"""kernel_rules: what the rules of Nsight Compute say about profiled launches."""

from __future__ import annotations

from warpline.derived.counters import label_column, launch_columns, text_column
from warpline.result import Arguments, Field, Numbers, Result, Values, analysis
from warpline.trace import Trace
from warpline.units import Unit

NAME = "kernel_rules"
TITLE = "Rule messages of profiled kernels"
FIELDS = (
    Field("launch", Unit.ID, "ID of the launch in its report.", "ID"),
    Field("kernel", Unit.NONE, "Kernel name.", "Kernel"),
    Field("rule", Unit.NONE, "Identifier of the rule.", "Rule"),
    Field("kind", Unit.NONE, "Kind of message.", "Kind"),
    Field("speedup", Unit.NONE, "Estimated speedup, in percent.", "Speedup (%)", digits=2),
    Field("of", Unit.NONE, "What the speedup is of: local (one unit) or global.", "Of"),
    Field("title", Unit.NONE, "Title.", "Title"),
    Field("text", Unit.NONE, "Message.", "Message"),
)


@analysis(
    name=NAME,
    title=TITLE,
    fields=FIELDS,
    needs=("kernel_rule",),
    missing_hint="pass a report of Nsight Compute (.ncu-rep) with rule results",
)
def kernel_rules(trace: Trace, arguments: Arguments) -> Result:
    """What the rules of Nsight Compute say about profiled launches.

    What it measures: The messages that Nsight Compute's rules stored in the report.
    Why it matters: They name limiters of a kernel, and estimate what removing one would gain.
    How it is computed: Messages are those of the report, without markup.
    Limits: Estimates of several rules may be about one limiter, so they do not add up.
    Source: Nsight Compute.
    """
    columns = trace.columns("kernel_rule", "profiled_kernel_id", "speedup_percent")
    speedup = columns["speedup_percent"]
    values: dict[str, Values] = {
        **launch_columns(trace, columns["profiled_kernel_id"].values),
        "rule": text_column(trace, "kernel_rule", "rule_id"),
        "kind": label_column(trace, "kernel_rule", "kind"),
        "speedup": Numbers(speedup.values, speedup.valid),
        "of": label_column(trace, "kernel_rule", "speedup_kind"),
        "title": text_column(trace, "kernel_rule", "title_id"),
        "text": text_column(trace, "kernel_rule", "text_id"),
    }
    return Result(NAME, TITLE, FIELDS, values, ("launch", "kernel", "rule", "title"))
