"""A diagnosis as text, Markdown and JSON, from values made by hand."""

from __future__ import annotations

import io
import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpline.render import Options
from warpline.render.diagnosis import json as as_json
from warpline.render.diagnosis import markdown as as_markdown
from warpline.render.diagnosis import text as as_text
from warpline.render.escaping import display_width
from warpline.result import (
    Breakdown,
    Check,
    CounterCandidate,
    Diagnosis,
    Evidence,
    ExcludedStep,
    Finding,
    Overlap,
    Part,
    Phase,
    Skipped,
    StepCandidate,
    StepSummary,
    TrainingPhase,
)
from warpline.result.shares import part_shares, tenths_of_percent

PARTS = (
    Part("gemm", "busy", 400, "matrix multiplication"),
    Part("collective", "busy", 200, "communication"),
    Part("copy-h2d", "busy", 100, "host-to-device copies"),
    Part("launch-bound", "idle", 300, "waiting for the next launch"),
)
META = {
    "paths": ["run one.warpline"],
    "format": "warpline",
    "producer": "Warpline",
    "span_ns": 5000,
    "devices": [],
    "lost": {},
    "unread": {},
}
EXAMPLE = Diagnosis(
    title="run one.warpline",
    meta=META,
    sections=(),
    warnings=("a warning",),
    verdict="GPU busy. Fix first: this (F1).",
    steps=StepSummary(
        "range:step_*", 2, 500.0, 510.0, 490.0, (ExcludedStep(0, "step_0", 7, "first"),)
    ),
    breakdown=(Breakdown(7, 0, "H100", 2, 1000, PARTS),),
    findings=(
        Finding(
            "debug-switch",
            "high",
            "Launches are synchronous",
            "Launches block.",
            (Evidence("99 of 100 launches waited", "kernel", (3,), 99, ((1, 2),)),),
            "unset CUDA_LAUNCH_BLOCKING",
            "record again",
            id="F1",
        ),
    ),
    checks=(
        Check("GPU busy", "fail", "70.0% of the time", "more than 80%", "a reason", 0.7, "ratio"),
        Check("enough steps", "unknown", "no steps", "at least 10", "a reason"),
    ),
    overlaps=(Overlap(7, 0, 700, 70, 200, 150, 100, 100),),
    phases=(
        Phase(("step_*",), 2, 900, 100, PARTS[:2]),
        Phase(("step_*", "forward"), 2, 800, 800, PARTS[:1]),
        Phase((), 0, 100, 100, PARTS[3:]),
    ),
    counter_candidates=(CounterCandidate("k<int>", "gemm", 400, 4, 0.4, "ncu ... PROGRAM"),),
    not_judged=(Skipped("other-rule", "no calls", "record calls"),),
)


def text(item, render=as_text.render, **options):
    out = io.StringIO()
    render(item, out, Options(**options))
    return out.getvalue()


def test_the_screen_line_by_line():
    lines = text(EXAMPLE, width=84).splitlines()
    assert lines[:9] == [
        "run one.warpline",
        "  GPU busy.",
        "  Fix first: this (F1).",
        "",
        "GPU 0 H100, process 7: 2 steps (step_*), mean 500 ns (median 500 ns, p95 510 ns)",
        "  " + "█" * 32 + "▓" * 16 + "▒" * 8 + "░" * 24,
        "  █ compute 40.0%    ▓ communication 20.0%    ▒ copies 10.0%    ░ idle 30.0%",
        "                         per step    share",
        "  busy                     350 ns    70.0%",
    ]
    assert "    gemm                   200 ns    40.0%  matrix multiplication" in lines
    assert "  idle                     150 ns    30.0%" in lines
    said = "  communication 100 ns per step: 25.0% overlapped with compute, 75 ns exposed"
    assert said in lines
    assert "  F1  high   Launches are synchronous" in lines
    assert "             Fix: unset CUDA_LAUNCH_BLOCKING" in lines
    assert "Checklist  0 pass, 1 fail, 1 unknown" in lines
    assert "  GPU busy: 70.0% of the time (target: more than 80%)" in lines
    assert "Excluded: step_0 (first)" in lines
    assert "Skipped: other-rule (no calls)" in lines
    assert "Next: warpline analyze --checklist 'run one.warpline'" in lines


def test_the_phases_of_a_training_step_sum_to_it():
    training = (
        TrainingPhase("forward", "module calls", 500, PARTS[:2]),
        TrainingPhase("backward", "autograd's functions", 400, PARTS[2:]),
        TrainingPhase("data", "waits for batches", 0, ()),
        TrainingPhase("other", "everything else", 100, PARTS[3:]),
    )
    item = replace(EXAMPLE, training=training)
    lines = text(item, width=84).splitlines()
    at = next(row for row, line in enumerate(lines) if line.startswith("Training step"))
    assert [line.split()[:4] for line in lines[at + 1 : at + 4]] == [
        ["forward", "250", "ns", "50.0%"],
        ["backward", "200", "ns", "40.0%"],
        ["other", "50", "ns", "10.0%"],
    ]
    assert lines[at + 4] == "", "a phase without time is not shown"
    page = text(item, as_markdown.render)
    assert (
        "### Training step\n\n| phase | per step | share | idle | largest part | meaning |" in page
    )
    assert "| forward | 250 ns | 50.0% |" in page
    assert "Training step" not in text(EXAMPLE)


def test_last_steps_of_recorded_periods_are_named_once():
    def excluded(*steps):
        rows = tuple(ExcludedStep(at, f"step {at}", 7, reason) for at, reason in steps)
        said = text(replace(EXAMPLE, steps=replace(EXAMPLE.steps, excluded=rows)), width=60)
        return said.partition("Excluded: ")[2].partition("\nSkipped")[0].split()

    assert excluded((0, "first"), (9, "last")) == ["step", "0", "(first),", "step", "9", "(last)"]
    many = [(at, "last") for at in range(9, 79, 10)]
    together = "the last step of each of 7 recorded periods"
    assert excluded(*many) == together.split()
    slow = [(at, "outlier") for at in range(1, 7)]
    named = ", ".join(f"step {at} (outlier)" for at in range(1, 5))
    assert excluded(*slow, *many) == f"{named} and 2 more steps, {together}".split()


@pytest.mark.parametrize("width", [40, 60, 80, 100, 120, 200])
def test_lines_fit_and_the_bar_fills_them(width):
    lines = text(EXAMPLE, width=width, row_limit=40).splitlines()
    bar = next(line for line in lines if line.startswith("  █") and "compute" not in line)
    assert len(bar) == min(width, 120) - 2
    if width >= 80:
        free = [line for line in lines if "run one" not in line and "ncu" not in line]
        assert max(map(display_width, free)) <= width


def test_prose_wraps_at_60_columns():
    words = "one more word of a sentence that goes on for long; " * 5
    finding = replace(EXAMPLE.findings[0], title=words, claim=words, fix=words)
    item = replace(
        priced(),
        verdict=f"{words}Fix first: {words}",
        meta={**META, "ended": words, "paths": ["run"]},
        checks=tuple(replace(x, found=words, wanted=words, reason=words) for x in EXAMPLE.checks),
        findings=(*priced().findings, finding),
        not_judged=(Skipped("other-rule", words),),
        steps=replace(EXAMPLE.steps, excluded=(ExcludedStep(0, words, 7, "first"),)),
        breakdown=tuple(replace(x, device_name=words) for x in EXAMPLE.breakdown),
    )
    whole = text(item, width=60).splitlines()
    checklist = text(item, as_text.render_checklist, width=60).splitlines()
    commands = [line for line in (*whole, *checklist) if "warpline " in line or "ncu" in line]
    assert len(commands) == 4
    prose = [line for line in (*whole, *checklist) if line not in commands]
    assert max(map(display_width, prose)) <= 60
    assert sum("one more word" in line for line in prose) >= 50
    first = prose.index(next(line for line in prose if line.startswith("             Fix: one")))
    assert prose[first + 1].startswith(" " * 18)  # a hanging indent
    assert not prose[first + 1].startswith(" " * 19)
    assert "share     idle" in " ".join(whole)
    assert "largest part" not in " ".join(whole)  # no room for this column
    many = tuple(Breakdown(10 + n, n, "H100", 2, 1000 + 2 * n, PARTS) for n in range(8))
    narrow = text(replace(EXAMPLE, breakdown=many, title="run"), width=60).splitlines()
    assert max(map(display_width, narrow[: narrow.index("Overlap")])) <= 60


def test_a_number_keeps_its_unit():
    claim = "The host waits for 123 ms of each step, which is 45.6% of it and 7.8 us more."
    item = replace(EXAMPLE, verdict=claim)
    for width in range(40, 90):
        lines = text(item, width=width).splitlines()
        assert not any(line.endswith((" 123", " 45.6", " 7.8")) for line in lines)


def test_colour_only_where_it_may_be():
    assert "\x1b[" not in text(EXAMPLE, width=80)
    coloured = text(EXAMPLE, width=80, color=True)
    assert "\x1b[31mhigh" in coloured
    assert coloured.count("\x1b[0m") >= 10


def test_ascii():
    plain = text(EXAMPLE, width=80, unicode=False)
    assert plain.isascii()
    assert "#" * 30 + "=" * 15 + "-" * 8 + "." * 23 in plain


def test_names_are_text():
    hostile = replace(
        EXAMPLE,
        phases=(Phase(("\x1b[31mred\n", "a|b`c"), 1, 1000, 1000, PARTS),),
        title="x\u202ey",
    )
    shown = text(hostile, width=80)
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    written = text(hostile, as_markdown.render)
    assert "\x1b" not in written
    row = next(line for line in written.splitlines() if "red" in line)
    assert row.replace("\\|", "").count("|") == 5


def test_without_steps_the_time_around_the_work_is_left_aside():
    parts = (*PARTS, Part("tail", "idle", 9000, "before and after"))
    item = replace(
        EXAMPLE,
        steps=StepSummary("none", 0, None, None, None),
        breakdown=(Breakdown(7, 0, "H100", 0, 10_000, parts),),
    )
    shown = text(item, width=80)
    assert "GPU 0 H100, process 7: 1.00 us from first to last GPU operation" in shown
    assert "gemm                   400 ns    40.0%" in shown
    said = "Excluded from shares: 9.00 us before the first and after the last operation"
    assert said in " ".join(shown.split())


def test_parts_of_next_to_no_time_have_no_line():
    times = {"gemm": 9_000_000, "memset": 1_999, "launch-bound": 1_000_000, "dependency": 1_999}
    parts = tuple(
        Part(name, "idle" if name in ("launch-bound", "dependency") else "busy", ns, "words")
        for name, ns in times.items()
    )
    shown = text(
        replace(EXAMPLE, breakdown=(Breakdown(7, 0, "H100", 2, sum(times.values()), parts),))
    )
    assert "memset" not in shown
    assert "dependency" not in shown
    assert "launch-bound" in shown
    longer = (*parts[:3], Part("dependency", "idle", 2_000, "words"))
    shown = text(replace(EXAMPLE, breakdown=(Breakdown(7, 0, "H100", 2, 10_003_999, longer),)))
    assert "    dependency            1.00 us     0.0%  words" in shown


def test_inferred_steps_say_so():
    note = "no range names the steps: each is a sequence of 49 launches that repeats"
    steps = replace(EXAMPLE.steps, source="periodicity", is_inferred=True, notes=(note,))
    item = replace(EXAMPLE, steps=steps)
    shown = " ".join(text(item, width=80).split())
    assert "process 7: 2 steps inferred from repeating launches, mean 500 ns" in shown
    assert f"N{note[1:]}. To be sure, mark each step with a range. GPU 0" in shown
    candidates = (StepCandidate("my steps", 5, 0.9), StepCandidate("Model_0", 1200, 0.8))
    item = replace(EXAMPLE, steps=replace(steps, candidates=candidates))
    said = "--steps-from 'my steps' (5 ranges), --steps-from Model_0 (1,200 ranges)."
    assert said in " ".join(text(item, width=80).split())
    assert "### GPU 0 H100, process 7: 2 steps inferred" in text(item, as_markdown.render)
    assert "steps-from 'my steps'" in text(item, as_markdown.render)


def test_a_long_name_of_steps_is_shortened_in_the_heading():
    item = replace(EXAMPLE, steps=replace(EXAMPLE.steps, source="range:" + "s" * 50))
    assert f"2 steps ({'s' * 37}...), mean" in text(item, width=120)


def test_many_devices_have_a_line_each_and_the_slowest_all_parts():
    every = tuple(Breakdown(10 + n, n, "H100", 2, 1000 + 2 * n, PARTS) for n in range(8))
    shown = text(replace(EXAMPLE, breakdown=every), width=100)
    assert "GPUs " in shown
    assert shown.count("GPU 7 H100, process 17") == 2
    assert shown.count("GPU 3 H100, process 13") == 1


def priced(**facts):
    """Return the example with one finding that has a saving."""
    saving = {"saving_ns": 200, "saving_low_ns": 150, "saving_high_ns": 250, "share": 0.4}
    finding = replace(EXAMPLE.findings[0], **(saving | {"cumulative_saving_ns": 200} | facts))
    return replace(EXAMPLE, findings=(finding,))


def test_savings_in_words():
    assert "Estimated saving: 200 ns per step (40%; bounds 150 to 250 ns)\n" in text(priced())
    small = text(priced(saving_ns=5, saving_low_ns=0, share=0.01))
    assert "Estimated saving: not measurable, at most 250 ns per step\n" in small
    together = text(priced(is_generic=True, cumulative_saving_ns=300), width=120)
    said = (
        "200 ns per step (40%; bounds 150 to 250 ns) after the fixes above; 300 ns with all fixes"
    )
    assert said in together
    first = text(priced(is_generic=True))
    assert (
        "Estimated saving: 200 ns per step (40%; bounds 150 to 250 ns)\n" in first
    )  # nothing is above it
    assert "saving" not in text(EXAMPLE)
    written = text(priced(fix_cuda="a stream"), as_markdown.render)
    assert "- Estimated saving: 200 ns per step (40%; bounds 150 to 250 ns)" in written
    assert "- In CUDA C++: a stream" in written


def test_checklist_shows_reasons():
    shown = text(EXAMPLE, as_text.render_checklist, width=80)
    assert "fail     GPU busy      70.0% of the time (target: more than 80%)" in shown
    assert "                       a reason" in shown
    assert "gemm" not in shown


def test_json_is_the_dictionary():
    found = json.loads(text(EXAMPLE, as_json.render))
    assert found == json.loads(json.dumps(EXAMPLE.to_dict()))
    assert found["findings"][0]["id"] == "F1"
    assert found["replay"] is None
    assert [item["rule"] for item in found["skipped"]] == ["other-rule"]
    assert json.loads(text(EXAMPLE, as_json.render, unicode=False)) == found


def test_markdown_has_all_that_is_needed_to_judge():
    written = text(EXAMPLE, as_markdown.render)
    assert "> **Warning:** a warning" in written
    assert "| gemm | busy | 200 ns | 40.0% | matrix multiplication |" in written
    assert "### F1 high: Launches are synchronous (`debug-switch`)" in written
    assert "- Evidence: 99 of 100 launches waited" in written
    assert "| fail | GPU busy | 70.0% of the time | more than 80% |" in written
    assert (
        "- communication 100 ns per step: 25.0% overlapped with compute, 75 ns exposed" in written
    )
    assert "| 40.0% | 4 | `k<int>` | `ncu ... PROGRAM` |" in written


def test_markdown_says_whose_overlap_it_is():
    two = replace(
        EXAMPLE,
        breakdown=(*EXAMPLE.breakdown, replace(EXAMPLE.breakdown[0], device=1)),
        overlaps=(EXAMPLE.overlaps[0], replace(EXAMPLE.overlaps[0], device=1)),
        counter_candidates=(),
    )
    written = text(two, as_markdown.render)
    assert written.count("75 ns exposed (GPU 0)") == written.count("75 ns exposed (GPU 1)") == 1
    assert "Nsight Compute" not in written


@given(st.lists(st.integers(0, 10**18), min_size=1, max_size=40))
def test_shares_sum_to_a_hundred_per_cent(values):
    shares = tenths_of_percent(values, sum(values))
    assert sum(shares) == (1000 if sum(values) else 0)
    for value, share in zip(values, shares, strict=True):
        assert abs(share * sum(values) - 1000 * value) <= sum(values)


@given(st.lists(st.sampled_from(PARTS), max_size=4, unique=True), st.integers(1, 10**9))
def test_shares_of_parts_sum_within_their_groups(parts, factor):
    scaled = [replace(part, ns=part.ns * factor + 1) for part in parts]
    total = sum(part.ns for part in scaled)
    shares = part_shares(scaled, total)
    assert sum(shares) == (1000 if scaled else 0)
    # Each of these parts is alone in its group, so it has the group's share.
    assert shares == tenths_of_percent([part.ns for part in scaled], total)
