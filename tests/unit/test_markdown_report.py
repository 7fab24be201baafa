"""The report in Markdown: what it shows is what tables and diagnosis have."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from support import kineto_files

import warpline
from warpline.documents import markdown_report
from warpline.trace import Run

COPIES = {"copy-h2d", "copy-d2h", "copy-d2d", "memset"}


@pytest.fixture
def recordings(capture: Callable[[str], Path], tmp_path: Path) -> list[Path]:
    return [capture("host_sync.bad"), kineto_files.unpack("pageable_h2d.bad", tmp_path)]


def test_kernels_are_those_of_the_analyzed_steps(recordings: list[Path]) -> None:
    for path in recordings:
        judged, _, tables, _ = markdown_report.content(Run(warpline.open(path)))
        kernels = tables[0]
        steps = sum(item.count for item in judged.breakdown)
        shown = sum(kernels.columns["step_ns"].to_list()) * steps
        parts = [part for item in judged.breakdown for part in item.parts if part.kind == "busy"]
        assert round(shown) == sum(part.ns for part in parts if part.category not in COPIES)
        shares = kernels.columns["share_ratio"].to_list()
        assert shares == sorted(shares, reverse=True)


def test_it_fits_an_issue_and_names_what_is_missing(recordings: list[Path], tmp_path: Path) -> None:
    texts = []
    for path in recordings:
        written = warpline.report(path, tmp_path / f"{path.stem}.md")
        texts.append(written.read_text("utf-8"))
    of_nsys, of_pytorch = texts
    assert all(text.count("\n") <= 150 for text in texts)
    assert "### Operators" not in of_nsys
    assert "- operators: Profile with warpline profile --pytorch=functions-trace." in of_nsys
    assert "`aten::copy_`" in of_pytorch
    assert "- operators:" not in of_pytorch
    modules = "- GPU time by module: Use torch.profiler.profile with with\\_stack=True, or"
    assert modules in of_pytorch
