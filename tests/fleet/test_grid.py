"""Every rank and step of a job: who waits for whom, Parquet, and the page's data."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from support.fleets import Meeting, simulate, summary

from warpline import api
from warpline.derived.time_parts import TimePart
from warpline.fleet.blocks import MOST
from warpline.fleet.summary import RankSummary
from warpline.fleet.verdict import verdict_of
from warpline.result.fleet import Fleet

MS = 1_000_000
NEAR = 3_000  # ns: simulated ends differ by 0.4 us
STEPS = 4


def job(work_ms: list[float], *, per_host: int | None = 8) -> list[RankSummary]:
    """Return summaries of ranks that meet once per step, after work of so many ms."""
    every = tuple(range(len(work_ms)))
    meeting = Meeting("world", every, tuple(round(ms * MS) for ms in work_ms))
    recorded = simulate(len(work_ms), [[meeting]] * STEPS)
    found = [
        summary(rank, item, host=f"n{rank // (per_host or 1):03d}")
        for rank, item in enumerate(recorded)
    ]
    if per_host is None:
        found = [replace(one, identity=replace(one.identity, host=None)) for one in found]
    return found


def lacking(one: RankSummary, step: int) -> RankSummary:
    """Return the summary of a rank whose recording lacks a step."""
    keep = np.arange(len(one.windows.step)) != step
    return replace(
        one,
        steps=type(one.steps)(*(column[keep] for column in one.steps)),
        windows=type(one.windows)(
            np.arange(keep.sum()), *(column[keep] for column in one.windows[1:])
        ),
    )


def between(found: Fleet) -> np.ndarray:
    assert found.grid is not None
    return found.grid.between_ns


def test_who_waits_for_whom() -> None:
    found = verdict_of("job", job([1, 1, 3]))
    wanted = np.array([[0, 0, 0], [0, 0, 0], [2 * MS, 2 * MS, 0]])
    assert np.abs(between(found) - wanted).max() < NEAR
    assert found.grid is not None
    assert found.grid.blocks == ("rank 0", "rank 1", "rank 2")
    assert np.abs(found.grid.exposed_ns - [[2 * MS], [2 * MS], [0]]).max() < NEAR
    assert np.abs(found.grid.caused_ns - [[0], [0], [4 * MS]]).max() < NEAR


def test_many_ranks_are_added_up_by_machine() -> None:
    work = [1.0] * 72
    work[13] = 3.0  # on n001
    found = verdict_of("job", job(work))
    assert found.grid is not None
    assert found.grid.blocks == tuple(f"n{host:03d}" for host in range(9))
    assert found.grid.ranks_per_block.tolist() == [8] * 9
    wanted = np.zeros((9, 9))
    wanted[1] = 2 * MS
    wanted[1, 1] = 2 * MS * 7 / 8  # the late rank itself does not wait
    assert np.abs(between(found) - wanted).max() < NEAR
    every = found.grid.exposed_ns.sum() / STEPS
    assert (between(found) * found.grid.ranks_per_block).sum() == pytest.approx(every)


def test_ranks_without_machines_are_added_up_in_order() -> None:
    found = verdict_of("job", job([1.0] * 150 + [2.0], per_host=None))
    assert found.grid is not None
    assert len(found.grid.blocks) == 51 <= MOST
    assert found.grid.blocks[0] == "rank 0 to 2"
    assert found.grid.blocks[-1] == "rank 150"
    assert int(between(found).sum(axis=1).argmax()) == 50


def test_parquet_has_the_sums_of_the_answer() -> None:
    ranks = job([1, 1, 3])
    ranks[1] = lacking(ranks[1], 2)
    found = verdict_of("job", ranks)
    rows = found.to_polars()
    assert rows.filter(rank=1)["step"].to_list() == [0, 1, 3]
    assert len(rows) == 3 * STEPS - 1
    assert rows["step_ns"].sum() == found.total_ns
    parts = [f"{'busy' if part.is_busy else 'idle'}_" for part in TimePart]
    names = [name for name in rows.columns if name.startswith(("busy_", "idle_"))]
    assert len(names) == len(parts)
    assert rows.select(pl.sum_horizontal(names)).to_series().to_list() == rows["step_ns"].to_list()
    busy = {part.category: part.ns for part in found.breakdown}
    assert rows["busy_gemm_ns"].sum() == busy["gemm"]
    waits = rows.filter(rank=0).select("exposed_wait_ns", "caused_ns").to_numpy()
    assert np.abs(waits - [2 * MS, 0]).max() < NEAR


def test_whole_recordings_have_no_step_number() -> None:
    found = verdict_of("job", job([1, 2]))
    assert found.grid is not None
    whole = replace(found.grid, step_index=np.full(STEPS, -1))
    assert whole.to_polars(found.ranks)["step"].to_list() == [None] * 2 * STEPS


def test_the_page_links_reports_beside_it_and_else_has_their_commands(tmp_path: Path) -> None:
    ranks = [
        replace(one, identity=replace(one.identity, path=str(tmp_path / f"r un.rank{rank}.sqlite")))
        for rank, one in enumerate(job([1, 1, 3]))
    ]
    found = verdict_of("job", ranks)
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages" / "r un.rank2.html").touch()
    page = "".join(api.make_fleet_report(found, tmp_path / "pages").pieces)
    assert '<a href="./r%20un.rank2.html">r un.rank2.html</a>' in page
    assert page.count("<a href") == 1
    command = "warpline report &#x27;../r un.rank0.sqlite&#x27; -o &#x27;r un.rank0.html&#x27;"
    assert command in page
    assert found.verdict.split(".")[0] in page
    head = re.search(r'id="warpline-head">(.*?)</script>', page)
    assert head is not None
    known = json.loads(head[1])
    assert [rank["late"] for rank in known["ranks"]] == [False, False, True]
    assert known["steps"] == ["step 0", "step 1", "step 2", "step 3"]


def test_recordings_of_one_name_have_pages_of_their_own(tmp_path: Path) -> None:
    ranks = [
        replace(one, identity=replace(one.identity, path=str(tmp_path / f"n{rank}" / "a.warpline")))
        for rank, one in enumerate(job([1, 3]))
    ]
    page = "".join(api.make_fleet_report(verdict_of("job", ranks), tmp_path).pieces)
    for rank in (0, 1):
        assert f"warpline report n{rank}/a.warpline -o n{rank}-a.html" in page
