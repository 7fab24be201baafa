"""The pages of `warpline kernels` against what Nsight Compute 2025.3 printed."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import pytest
from support import ncu_captures
from support.ncu_files import block, launch, report

import warpline
from warpline.documents.kernel_filters import Choice
from warpline.documents.kernel_pages import launches
from warpline.render import kernel_pages as pages
from warpline.result.kernel_pages import LaunchTable

WRITERS = {
    "raw.csv": pages.write_raw_csv,
    "details.csv": pages.write_details_csv,
    "details.txt": pages.write_details,
}
GOLDENS = [(name, page) for name in ncu_captures.NAMES for page in ("raw.csv", "details.csv")] + [
    ("target", "details.txt")
]


@pytest.fixture(scope="module")
def read(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], LaunchTable]:
    folder = tmp_path_factory.mktemp("ncu")
    kept: dict[str, LaunchTable] = {}

    def read_report(name: str) -> LaunchTable:
        if name not in kept:
            kept[name] = launches(warpline.open(ncu_captures.unpack(name, folder)), Choice())
        return kept[name]

    return read_report


@pytest.mark.parametrize(("name", "page"), GOLDENS)
def test_a_page_is_what_ncu_printed(
    name: str, page: str, read: Callable[[str], LaunchTable]
) -> None:
    out = io.StringIO()
    WRITERS[page](read(name), out, is_scaled=True)
    assert out.getvalue() == ncu_captures.printed(name, page)


@pytest.mark.parametrize("page", ["raw", "details"])
def test_a_printed_page_read_again_has_the_printed_numbers(page: str, tmp_path: Path) -> None:
    expected = ncu_captures.printed("target", f"{page}.csv")
    path = tmp_path / "any.name"
    path.write_text("==PROF== Connected to process 1\n" + expected)
    out = io.StringIO()
    WRITERS[f"{page}.csv"](launches(warpline.open(path), Choice()), out, is_scaled=True)
    ours, theirs = (text.replace(".00", "") for text in (out.getvalue(), expected))
    assert ours.replace(".000000", "") == theirs.replace(".000000", "")


def test_a_recording_keeps_what_the_pages_show(tmp_path: Path) -> None:
    report = warpline.open(ncu_captures.unpack("target", tmp_path))
    stored = warpline.open(warpline.export(report, tmp_path / "run.warpline", "warpline"))
    out = io.StringIO()
    pages.write_raw_csv(launches(stored, Choice()), out, is_scaled=True)
    assert out.getvalue() == ncu_captures.printed("target", "raw.csv")


def test_lines_add_up_to_the_metrics_of_the_launch(tmp_path: Path) -> None:
    trace = warpline.open(ncu_captures.unpack("uncoalesced.fixed", tmp_path))
    lines = warpline.stats(trace, "kernel_lines").to_polars()
    metrics = trace["kernel_metric"]

    def value(name: str) -> float:
        return float(metrics.filter(metrics["name"] == name)["value"][0])

    assert lines["executed"].sum() == value("inst_executed")
    assert lines["samples"].sum() == value("smsp__pcsamp_sample_count")
    assert lines["share_ratio"].sum() == pytest.approx(1)
    first = lines.row(0, named=True)
    assert (first["file"], first["line"]) == ("/home/dev/kernels/ab/kpairs.cu", 18)
    assert first["stall"] == "long_scoreboard"
    assert "rowsum_warp" in first["text"]


def test_a_report_without_samples_has_no_lines(tmp_path: Path) -> None:
    path = tmp_path / "run"
    path.write_bytes(report(block([("kernel", launch())])))
    with pytest.raises(warpline.MissingTableError, match="kernel_lines"):
        warpline.stats(path, "kernel_lines")
