"""The page of `warpline fleet compare`: the numbers of the screen, links, and hostile names."""

from __future__ import annotations

import html
import io
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from support.fleets import Meeting, simulate, summary

from warpline import api
from warpline.fleet.comparing import compare_jobs
from warpline.fleet.sides import JobSide, side_of
from warpline.fleet.summary import RankSummary
from warpline.render import Options
from warpline.render.fleet_comparison import write_text
from warpline.result.fleet import LeftOut
from warpline.result.fleet_comparison import FleetComparison
from warpline.viewer.rank_pages import name_of_two, page_beside

MS = 1_000_000
STEPS = 6
HOSTILE = "<img src=x onerror=alert(1)>\u202e</script>"


def ranks_of(work_ms: list[float], size: int = 1_000_000) -> list[RankSummary]:
    """Return ranks that meet once per step, which differ a little from step to step."""
    every = tuple(range(len(work_ms)))
    job = [
        [
            Meeting(
                "world",
                every,
                tuple(
                    round(ms * MS * (1 + (rank + step) % 3 / 500))
                    for rank, ms in enumerate(work_ms)
                ),
            )
        ]
        for step in range(STEPS)
    ]
    recorded = simulate(len(work_ms), job)
    return [
        summary(rank, one, host=f"n{rank // 2}", size=size) for rank, one in enumerate(recorded)
    ]


def in_folder(ranks: list[RankSummary], folder: Path) -> list[RankSummary]:
    return [
        replace(one, identity=replace(one.identity, path=str(folder / f"r un.rank{rank}.warpline")))
        for rank, one in enumerate(ranks)
    ]


def page_of(found: FleetComparison, folder: Path) -> str:
    return "".join(api.make_fleet_report(found, folder).pieces)


def head_of(page: str) -> dict[str, object]:
    found = re.search(r'id="warpline-head">(.*?)</script>', page)
    assert found is not None
    known: dict[str, object] = json.loads(found[1])
    return known


def rows_of(page: str) -> list[list[str]]:
    """Return the texts of the cells of all rows of a page."""
    rows = re.findall(r"<tr[^>]*>(.*?)</tr>", page, re.DOTALL)
    cells = (re.findall(r"<td[^>]*>(.*?)</td>", row, re.DOTALL) for row in rows)
    return [[html.unescape(re.sub(r"<[^>]+>", "", cell)).strip() for cell in row] for row in cells]


def screen_rows(found: FleetComparison) -> list[list[str]]:
    """Return the rows of the screen's tables: what two spaces divide."""
    out = io.StringIO()
    write_text(found, out, Options())
    rows = (re.split(r" {2,}", line.strip()) for line in out.getvalue().splitlines())
    return [row for row in rows if len(row) > 2 and re.search(r"\d (ns|us|ms)\b", " ".join(row))]


@pytest.fixture(scope="module")
def found() -> FleetComparison:
    """Rank 2 is no longer late, other ranks take a little longer, collectives are larger."""
    before = side_of("run1", ranks_of([10, 10, 16, 10, 10, 10, 10, 10]))
    after = side_of("run2", ranks_of([10.3, 10.3, 10.1, 10.5, 10.3, 10.3, 10.3, 10.3], 2_000_000))
    return compare_jobs([before], [after])


def test_the_numbers_are_those_of_the_screen(found: FleetComparison, tmp_path: Path) -> None:
    page = page_of(found, tmp_path)
    shown = [[cell for cell in cells if cell] for cells in rows_of(page)]
    rows = screen_rows(found)
    # The step, its parts, waits, ranks, machines, and two rows for each size of the collectives.
    assert len(rows) >= 2 + 2 + 3 + 6 + 3 + 4
    whole = {}
    for row in rows:
        texts = [text for text in row if not set(text) <= set("█░ ")]  # without bars
        if texts[0] in {"before", "after"}:
            whole[texts[0]] = texts[1:]
        else:
            assert any(texts == cells[: len(texts)] for cells in shown), texts
    totals = [cells for cells in shown if cells[:1] == ["step"]]
    assert totals == [["step", *whole["before"], *whole["after"]]]
    assert html.escape(found.sentence) in page
    cards = re.findall(r'card-value">([^<]*)<', page)
    assert cards[1:3] == [whole["before"][0], whole["after"][0]]


def test_the_bars_are_as_long_as_the_times(found: FleetComparison, tmp_path: Path) -> None:
    step = found.steps.step
    assert step is not None
    drawn = {
        row[0]: [float(width) for width in re.findall(r'width="([\d.]+)%" height="8"', row[1])]
        for row in re.findall(r"<tr[^>]*><td>([^<]*)</td>(.*?)</tr>", page_of(found, tmp_path))
    }
    for part in found.steps.parts:
        if part.category in drawn:
            low, high = sorted((part.before_ns, part.after_ns))
            wanted = [100 * ns / step.before_ns for ns in (part.before_ns, low, high - low)]
            assert drawn[part.category] == pytest.approx(wanted, abs=0.01)
    assert drawn["step"][0] == 100


def test_the_interval_is_drawn_as_it_is_said(found: FleetComparison, tmp_path: Path) -> None:
    step = found.steps.step
    assert step is not None
    assert step.low is not None
    assert step.high is not None
    page = page_of(found, tmp_path)
    plot = re.search(r'wl-interval".*?</svg>', page)
    assert plot is not None

    def x(look: str, name: str) -> float:
        tag = re.search(rf'<[^>]*class="{look}"', plot[0])
        assert tag is not None
        at = re.search(rf'{name}="([\d.]+)%"', tag[0])
        assert at is not None
        return float(at[1])

    zero, middle = x("wl-zero", "x1"), x("wl-mean", "cx")
    ends = x("wl-ends", "x1"), x("wl-ends", "x2")
    scale = (middle - zero) / (step.ratio - 1)
    for end, ratio in zip(ends, (step.low, step.high), strict=True):
        assert end == pytest.approx(zero + scale * (ratio - 1), abs=0.05)
    assert x("wl-band", "width") == pytest.approx(2 * scale * found.steps.tolerance, abs=0.05)
    said = f"95% interval {(step.low - 1) * 100:+.1f}% to {(step.high - 1) * 100:+.1f}%"
    assert page.count(said) == 3  # the card, the title of the plot, and its caption


def test_ranks_that_changed_otherwise_than_most_are_marked(
    found: FleetComparison, tmp_path: Path
) -> None:
    ranks = head_of(page_of(found, tmp_path))["ranks"]
    assert isinstance(ranks, list)
    assert [rank["name"] for rank in ranks] == [f"rank {rank}" for rank in range(8)]
    marked = [rank["name"] for rank in ranks if rank["is_marked"]]
    assert marked == ["rank 2"]
    assert ranks[2]["hosts"] == ["n1", "n1"]


def test_both_timelines_of_a_rank_are_linked_or_have_their_command(tmp_path: Path) -> None:
    before = side_of("run1", in_folder(ranks_of([10, 10]), tmp_path / "run1"))
    after = side_of("run2", in_folder(ranks_of([10, 14]), tmp_path / "run2"))
    found = compare_jobs([before], [after])
    name = "run1-r un.rank1-vs-run2-r un.rank1.html"
    command = (
        "warpline report --side-by-side 'run1/r un.rank1.warpline' 'run2/r un.rank1.warpline'"
        f" -o '{name}'"
    )
    assert html.escape(command) in page_of(found, tmp_path)
    (tmp_path / name).touch()
    page = page_of(found, tmp_path)
    assert html.escape(command) not in page
    assert f'<a href="./{name.replace(" ", "%20")}">{name}</a>' in page


def test_what_forbids_a_verdict_comes_before_the_bars(tmp_path: Path) -> None:
    def of_gpu(name: str) -> JobSide:
        facts = {"GPU": name, "host": "n0", "ranks": "1"}
        return side_of(
            name,
            [
                replace(one, identity=replace(one.identity, environment=facts))
                for one in ranks_of([10, 10])
            ],
        )

    page = page_of(compare_jobs([of_gpu("H100")], [of_gpu("H200")]), tmp_path)
    forbids = page.index("What forbids a verdict</h2><ul><li>GPU: H100 before, H200 after")
    assert forbids < page.index("Where the time of a step changed")
    assert ["GPU", "H100", "H200", "forbids a verdict"] in rows_of(page)
    assert "no interval without a verdict" in page


def test_hostile_names_and_lost_recordings(tmp_path: Path) -> None:
    ranks = ranks_of([10, 10])
    ranks[1] = replace(ranks[1], identity=replace(ranks[1].identity, host=HOSTILE, path=HOSTILE))
    lost = [LeftOut(HOSTILE, "damaged")]
    found = compare_jobs([side_of(HOSTILE, ranks, lost)], [side_of("b", ranks_of([12, 12]))])
    page = page_of(found, tmp_path)
    assert "<img" not in page
    assert "\u202e" not in page
    assert page.count("</script>") == page.count("<script")
    assert "Left out before: 1 recording" in page


def test_names_of_pages_fit_a_file_name_and_differ(tmp_path: Path) -> None:
    names = {name_of_two(f"{'ü' * 200}/{run}/rank1.sqlite", "b/rank1.sqlite") for run in "ab"}
    assert len(names) == 2
    assert all(len(name.encode()) < 200 for name in names)
    assert "<code>" in page_beside(tmp_path, "x" * 300, "warpline report a")


def test_sides_without_comparable_times(found: FleetComparison, tmp_path: Path) -> None:
    page = page_of(replace(found, steps=replace(found.steps, step=None, parts=())), tmp_path)
    assert "Where the time" not in page
    assert "wl-plot" not in page.split("</style>")[-1]


def test_without_matched_collectives_or_ranks_on_both_sides(tmp_path: Path) -> None:
    alone = side_of("one", ranks_of([10])[:1])
    page = page_of(compare_jobs([side_of("job", ranks_of([10, 10]))], [alone]), tmp_path)
    assert "waits for ranks are not compared" in page
    assert "1 rank only before." in page
    ranks = head_of(page)["ranks"]
    assert isinstance(ranks, list)
    assert [rank["change"] for rank in ranks] == ["both", "gone"]
    assert ranks[1]["hosts"] == ["n0", None]
