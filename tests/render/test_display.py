"""Results in a Python shell and in a notebook."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from support.small_documents import HOSTILE as HOSTILE_CELL
from support.small_documents import summary

import warpline
from warpline.cli import main
from warpline.result import Check, Document, Evidence, Finding, Part, Result, Skipped
from warpline.result.display import DISPLAY
from warpline.trace import MemorySource, Trace

DEMO = Path(warpline.__file__).parent / "data" / "pageable_h2d.bad.sqlite"
HOSTILE = (
    "</td><script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "\u202egnp.exe",
    "a\x00b\x1b[31m\ud800",
    "&lt;b&gt;",
    "k" * 10_000,
)
ALLOWED = {
    *("div", "h4", "p", "strong", "details", "summary"),
    *("table", "caption", "thead", "tbody", "tr", "th", "td"),
}


class Page(HTMLParser):
    """Collects the tags, attributes and text of HTML, and checks that elements nest."""

    def __init__(self, html):
        super().__init__(convert_charrefs=True)
        self.tags: set[str] = set()
        self.attributes: set[tuple[str, str | None]] = set()
        self.texts: list[str] = []
        self._open: list[str] = []
        self.feed(html)
        self.close()
        assert not self._open

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes |= set(attrs)
        self._open.append(tag)

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


def html_of(shown):
    html = shown._repr_html_()
    assert isinstance(html, str)
    return html


@pytest.fixture(scope="module")
def diagnosis():
    return warpline.analyze(DEMO)


def hostile_finding(attack):
    evidence = (Evidence(attack),)
    found = Finding(attack, "high", attack, attack, evidence, attack, attack, attack)
    return replace(found, saving_ns=1, saving_low_ns=1, saving_high_ns=1, share=0.5)


def hostile_diagnosis(diagnosis, attack):
    device = diagnosis.breakdown[0]
    part = Part(attack, "busy", device.total_ns, attack)
    return replace(
        diagnosis,
        title=attack,
        verdict=attack,
        warnings=(attack,),
        meta={**diagnosis.meta, "ended": attack},
        breakdown=(replace(device, device_name=attack, parts=(part,)),),
        findings=(hostile_finding(attack),),
        checks=(Check(attack, "fail", attack, attack, attack),),
    )


def hostile_trace():
    starts = [100 * place for place in range(len(HOSTILE))]
    times = {"start_ns": starts, "end_ns": [start + 60 for start in starts]}
    tables: dict[str, dict[str, list[Any]]] = {
        "kernel": {**times, "correlation_id": starts, "name": list(HOSTILE)},
        "range": {**times, "name": list(HOSTILE)},
        "process": {"pid": [1], "name": [HOSTILE[0]]},
        "device": {"gpu_index": [0], "name": [HOSTILE[1]]},
    }
    return Trace(MemorySource(tables))


@pytest.mark.parametrize("attack", HOSTILE)
def test_names_stay_text_in_a_notebook(diagnosis, attack):
    found = hostile_diagnosis(diagnosis, attack)
    whole = Document(attack, {}, (Skipped(attack, attack, attack),), (attack,))
    for shown in (found, found.findings[0], whole):
        html = html_of(shown)
        page = Page(html)
        assert page.tags <= ALLOWED
        assert {name for name, _ in page.attributes} <= {"style", "open"}
        assert all(char.isprintable() for char in html)
        html.encode()
        assert "k" * 1001 not in html


def test_names_of_a_trace_stay_text_in_a_notebook():
    trace = hostile_trace()
    for shown in (warpline.stats(trace, "cuda_gpu_kern_sum"), warpline.summary(trace)):
        page = Page(shown._repr_html_())
        assert page.tags <= ALLOWED
        assert any("onerror" in text for text in page.texts)
        assert "\x1b" not in str(shown)


def test_a_shell_prints_what_the_command_line_does(diagnosis, capsys):
    def run(*words):
        assert main([*words, "-q", str(DEMO)]) == 0
        return capsys.readouterr().out

    assert run("analyze") == f"{diagnosis}\n"
    assert run("summary") == f"{warpline.summary(DEMO)}\n"
    table = warpline.stats(DEMO, "cuda_gpu_kern_sum")
    assert run("stats", "-r", table.name) == f"{table}\n"


def test_a_finding_prints_its_evidence_and_fix(diagnosis):
    finding = diagnosis.findings[0]
    assert repr(finding) == f"<Finding F1 high pageable-copy: {finding.title}>"
    assert finding.claim not in repr(finding)
    flat = " ".join(str(finding).split())
    for text in (finding.title, finding.claim, finding.fix, finding.verify):
        assert " ".join(text.split()) in flat
    assert "Estimated saving: 13.8 ms per step" in flat
    assert all(f"Evidence: {item.text}" in flat for item in finding.evidence)


def test_reprs_are_short(diagnosis):
    for shown in (diagnosis, *diagnosis.findings, warpline.summary(DEMO)):
        assert len(repr(shown)) < 400
        assert "\n" not in repr(shown)


def test_a_notebook_shows_verdict_parts_findings_and_checks(diagnosis):
    page = Page(diagnosis._repr_html_())
    texts = {*page.texts}
    assert diagnosis.verdict in texts
    assert {part.category for part in diagnosis.breakdown[0].parts} <= texts
    assert {finding.claim for finding in diagnosis.findings} <= texts
    assert {check.found for check in diagnosis.checks if check.state == "fail"} <= texts
    assert any("Checklist: 10 pass, 2 fail, 0 unknown" in text for text in texts)


def test_a_notebook_shows_the_summary_in_readable_units():
    texts = Page(warpline.summary(DEMO)._repr_html_()).texts
    assert {"86.2%", "102 ms", "9.30 GB/s", "768 MiB"} <= {*texts}


def test_a_notebook_shows_40_rows(diagnosis):
    result = warpline.stats(DEMO, "cuda_gpu_trace")
    page = Page(html_of(result))
    assert html_of(result).count("<tr>") == 41
    assert f"{len(result) - 40} more rows: to_polars() returns all" in page.texts
    assert Page(html_of(summary())).tags <= ALLOWED
    assert HOSTILE_CELL not in html_of(summary())


def test_many_devices_are_cut_short(diagnosis):
    many = replace(diagnosis, breakdown=diagnosis.breakdown * 6)
    assert "2 more GPUs: see .breakdown" in Page(many._repr_html_()).texts


def test_without_the_facade_results_show_their_repr(monkeypatch):
    monkeypatch.setattr(DISPLAY, "text", None)
    monkeypatch.setattr(DISPLAY, "html", None)
    result = Result("t", "T", (), {})
    assert str(result) == repr(result) == "<Result t: 0 rows; >"
    assert result._repr_html_() is None
