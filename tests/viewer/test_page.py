"""The page: its content without a script, and its security."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from importlib import resources

import pytest

import warpline
from warpline import api
from warpline.errors import InputError
from warpline.result import Evidence, Finding
from warpline.trace import MemorySource, Trace
from warpline.viewer import page as page_module
from warpline.viewer.page import Assets, page
from warpline.viewer.report import Inline

HOSTILE = (
    "</script><script>alert(1)</script>",
    "<!--<script>",
    '"><img src=x onerror=alert(1)>',
    "\u202egnp.exe",
    "a\x00b\x1b[31m",
    "'; DROP TABLE kernel; --",
    "&lt;b&gt;",
    "\u2028\u2029",
    "k" * 10_000,
    "]]>",
    "javascript:alert(1)",
)


class Elements(HTMLParser):
    """Collects elements, their attributes, and the contents of scripts and styles."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.elements, self.inside, self.text, self._open = [], [], [], None
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self._open = (tag, dict(attrs), [])

    def handle_endtag(self, tag):
        if self._open and self._open[0] == tag:
            self.inside.append((tag, self._open[1], "".join(self._open[2])))
        self._open = None

    def handle_data(self, data):
        if self._open:
            self._open[2].append(data)
        self.text.append(data)

    def of(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]


def hostile_trace():
    count = len(HOSTILE)
    starts = [100 * place for place in range(count)]
    return Trace(
        MemorySource(
            {
                "kernel": {
                    "start_ns": starts,
                    "end_ns": [start + 60 for start in starts],
                    "correlation_id": list(range(count)),
                    "name": list(HOSTILE),
                },
                "api_call": {
                    "start_ns": starts,
                    "end_ns": [start + 5 for start in starts],
                    "correlation_id": list(range(count)),
                    "name": list(HOSTILE),
                },
                "range": {
                    "start_ns": starts,
                    "end_ns": [start + 50 for start in starts],
                    "name": list(HOSTILE),
                    "domain": list(HOSTILE),
                },
                "process": {"pid": [1], "name": [HOSTILE[0]]},
                "thread": {"process_id": [0], "tid": [1], "name": [HOSTILE[1]]},
                "device": {"gpu_index": [0], "name": [HOSTILE[2]]},
            }
        )
    )


@pytest.fixture
def hostile(make, assets):
    """The page of a recording in which every name is an attack."""
    diagnosis, container = make(hostile_trace(), ("cuda_gpu_kern_sum", "nvtx_sum"))
    attack = HOSTILE[0]
    finding = Finding(
        attack, "high", attack, attack, (Evidence(attack),), attack, attack, "F1", fix_cuda=attack
    )
    diagnosis = replace(diagnosis, title=attack, findings=(finding,), warnings=HOSTILE)
    return "".join(page(diagnosis, container, assets, "inline"))


def test_names_stay_text(hostile, assets):
    found = Elements(hostile)
    scripts = [(attributes, inside) for tag, attributes, inside in found.inside if tag == "script"]
    running = {inside for attributes, inside in scripts if "type" not in attributes}
    assert running == {assets.script, "warpline.take()"}
    assert not found.of("img")
    assert not [name for _, attributes in found.elements for name in attributes if name[:2] == "on"]
    # The visible text is the name itself, with invisible characters made visible.
    seen = "".join(found.text)
    assert HOSTILE[0] in seen
    assert "\\u202egnp.exe" in seen
    assert "a\\u0000b" in seen
    for unseen in "\x00\x1b\u202e\u2028":
        assert unseen not in hostile
    assert "k" * 1001 not in hostile[: hostile.index('id="warpline-head"')]


def test_the_head_is_json_with_the_names_as_they_are(hostile):
    found = Elements(hostile)
    (head,) = [inside for tag, a, inside in found.inside if a.get("id") == "warpline-head"]
    assert not set("<>&") & set(head)
    assert head.isascii()
    content = json.loads(head)
    assert content["rows"][0]["label"].endswith(HOSTILE[2])
    assert content["environment"][-1] == ["GPU 0", HOSTILE[2]]


def test_nothing_of_the_page_asks_the_network(hostile):
    found = Elements(hostile)
    for tag, attributes in found.elements:
        assert tag not in {"link", "iframe", "object", "embed", "base", "form"}
        assert not {"src", "href", "action", "srcset", "style", "data"} & set(attributes)


def test_the_policy_allows_our_scripts_and_styles_alone(hostile, assets):
    found = Elements(hostile)
    (policy,) = [a["content"] for a in found.of("meta") if a.get("http-equiv")]
    allowed = dict(item.strip().split(" ", 1) for item in policy.split(";"))
    assert allowed["default-src"] == "'none'"
    assert allowed["connect-src"] == "'none'"
    assert "unsafe" not in policy
    for tag, directive in (("script", "script-src"), ("style", "style-src")):
        texts = [inside for name, a, inside in found.inside if name == tag and "type" not in a]
        for text in texts:
            digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
            assert f"'sha256-{digest}'" in allowed[directive]
    # The policy comes before the content it governs.
    assert hostile.index("Content-Security-Policy") < hostile.index("<style")
    served = page_module.policy(assets, "http")
    assert "connect-src 'self'" in served


def test_order_and_content_of_the_blocks(make, assets, capture):
    diagnosis, container = make(warpline.open(capture("host_sync.bad")))
    text = "".join(page(diagnosis, container, assets, "inline"))
    blocks = re.findall(r'<script type="text/plain" data-block="(\d+)">([^<]*)</script>', text)
    assert [int(number) for number, _ in blocks] == list(range(len(container.blocks)))
    for (_, data), block in zip(blocks, container.blocks, strict=True):
        assert base64.b64decode(data, validate=True) == block.data
    script = text.index(assets.script)
    assert text.index('data-block="1"') < script < text.index('data-block="2"')
    assert text.count("<script>warpline.take()</script>") == len(blocks) - 2
    served = "".join(page(diagnosis, container, assets, "http"))
    assert "data-block" not in served
    assert '"source":"http"' in served


def test_the_overview_reads_without_a_script(make, assets, capture):
    diagnosis, container = make(warpline.open(capture("host_sync.bad")))
    found = Elements("".join(page(diagnosis, container, assets, "inline")))
    text = " ".join("".join(found.text).split())
    assert diagnosis.verdict in text
    for finding in diagnosis.findings:
        assert finding.title in text
        assert finding.fix in text
        assert f"warpline explain {finding.rule}" in text
    for check in diagnosis.checks:
        assert check.reason in text
    parts = [part for part in diagnosis.breakdown[0].parts if part.ns > 0]
    for part in parts:
        assert part.category in text
    buttons = [item for item in found.of("button") if "data-finding" in item]
    assert [item["data-finding"] for item in buttons] == [item.id for item in diagnosis.findings]


def test_the_bar_sums_to_100_percent(make, assets, capture):
    diagnosis, container = make(warpline.open(capture("host_sync.bad")))
    text = "".join(page(diagnosis, container, assets, "inline"))
    bar = text[text.index('class="wl-bar"') :]
    bar = bar[: bar.index("</div>")]
    pieces = re.findall(r'<svg x="([\d.]+)%" width="([\d.]+)%"', bar)
    assert pieces
    place = 0
    for left, width in pieces:
        assert round(float(left) * 10) == place
        place += round(float(width) * 10)
    assert place == 1000
    shares = re.findall(r"<td>([\d.]+)%</td>", text[text.index("wl-parts") :])
    assert shares


@pytest.fixture(scope="module")
def bundled():
    """The recording of `warpline demo`."""
    path = resources.files("warpline") / "data" / "pageable_h2d.bad.sqlite"
    with resources.as_file(path) as file:
        yield warpline.open(file)


@pytest.mark.parametrize("name", ["bundled", "host_sync.bad"])
def test_shares_are_those_of_analyze(make, assets, bundled, capture, name):
    diagnosis, container = make(bundled if name == "bundled" else warpline.open(capture(name)))
    breakdown = str(diagnosis).partition("\nPhases")[0]
    shown = re.findall(r"^    ([a-z]\S*) +[\d.]+ \ws +([\d.]+%)", breakdown, re.MULTILINE)
    assert len(shown) > 8
    found = "".join(page(diagnosis, container, assets, "inline"))
    assert [pair for pair in shown if " ".join(pair) not in found] == []


def test_the_overview_has_the_words_of_analyze(make, assets, bundled):
    diagnosis, container = make(bundled)
    found = Elements("".join(page(diagnosis, container, assets, "inline")))
    text = " ".join("".join(found.text).split())
    for words in (
        "analyzed, ranges step_*",
        "Estimated saving: ",
        " per step (84%; bounds ",
        "Excluded: step_5 (last)",
        "Busy time by library: ",
        "main idle cause",
        "exposed copies",
        "largest part",
        "target",
    ):
        assert words in text


def test_without_gpu_work_there_is_a_page(make, assets):
    trace = Trace(MemorySource({"range": {"start_ns": [0], "end_ns": [9], "name": ["only"]}}))
    diagnosis, container = make(trace)
    text = "".join(page(diagnosis, container, assets, "inline"))
    assert "No GPU work was recorded" in text
    assert "wl-breakdown" not in text


def test_a_script_that_would_end_its_element_is_refused(tmp_path, monkeypatch):
    (tmp_path / "dist").mkdir()
    (tmp_path / "dist" / "viewer.js").write_text("x='</SCRIPT>'")
    (tmp_path / "dist" / "viewer.css").write_text("")
    (tmp_path / "static_page.css").write_text("")
    monkeypatch.setattr("importlib.resources.files", lambda _: tmp_path)
    with pytest.raises(InputError, match="would end its element"):
        page_module.assets()
    (tmp_path / "dist" / "viewer.js").unlink()
    with pytest.raises(InputError, match="not installed"):
        page_module.assets()


def test_what_is_installed_can_be_embedded():
    installed = page_module.assets()
    assert "warpline" in installed.script
    size = len(installed.script) + sum(map(len, installed.styles))
    assert size <= 400_000


def test_a_notebook_shows_the_page_in_a_frame_of_its_own(monkeypatch):
    monkeypatch.setattr("warpline.viewer.report.assets", lambda: Assets("take()", ("p{}", "b{}")))
    shown = api.timeline(hostile_trace(), height=300)
    assert isinstance(shown, Inline)
    (frame,) = Elements(shown._repr_html_()).of("iframe")
    assert frame["sandbox"] == "allow-scripts"
    assert frame["height"] == "300"
    assert frame["srcdoc"] == shown.html
    assert '"first_page":"timeline"' in shown.html


def test_where_a_notebook_is_not_trusted_a_line_says_what_is_missing(monkeypatch):
    monkeypatch.setattr("warpline.viewer.report.assets", lambda: Assets("take()", ("p{}", "b{}")))
    shown = api.timeline(hostile_trace())._repr_html_()
    # An untrusted notebook is shown without frames and styles.
    kept = re.sub(r"<iframe.*?</iframe>|<style>.*?</style>", "", shown, flags=re.DOTALL)
    assert "trust this notebook" in "".join(Elements(kept).text)
    assert re.search(r"<style>\.warpline-untrusted \{ display: none; \}</style>", shown)


def test_a_notebook_is_kept_small(monkeypatch, capture):
    monkeypatch.setattr("warpline.viewer.report.assets", lambda: Assets("take()", ("p{}", "b{}")))
    trace = warpline.open(capture("host_sync.bad"))
    whole = api.timeline(trace, max_bytes=None)
    small = api.timeline(trace, max_bytes=len(whole.html) - 10_000)
    assert len(small.html) <= len(whole.html) - 10_000
    assert "short events were omitted" in small.html
    assert "short events were omitted" not in whole.html
