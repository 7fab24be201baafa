"""The page of flame graphs: its numbers against the tables, pointer and keys, names, no script."""

from __future__ import annotations

import pytest
from support import sampled_stacks
from support.browsing import violations

import warpline
from warpline.cli import main
from warpline.trace import MemorySource, Trace

MS = sampled_stacks.MS
HOSTILE = "<img src=x onerror=alert(1)>\u202e</script>"


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    return warpline.export(
        sampled_stacks.trace(), tmp_path_factory.mktemp("flame") / "run.warpline"
    )


@pytest.fixture
def show(viewer, tmp_path):
    """Write the page of a recording and open it."""

    def show(path, address="", *options):
        target = tmp_path / "flame.html"
        assert (
            main(["flame", str(path), "-o", str(target), "-q", "--force-overwrite", *options]) == 0
        )
        viewer.page.goto("about:blank")
        viewer.page.goto(target.as_uri() + address)
        viewer.wait("model.isComplete.value && marks('warpline-shown') > 0")
        viewer.frame()
        return viewer

    return show


def functions(viewer):
    """Return self and total time of each function, ms."""
    found = viewer.find("#functions tbody tr").evaluate_all(
        "all => all.map(one => [one.querySelector('button').textContent,"
        " Number(one.dataset.self), Number(one.dataset.total)])"
    )
    return {name: (own / MS, total / MS) for name, own, total in found}


def said(viewer):
    return viewer.find("#said").inner_text()


def by_table(recording, of, **choice):
    trace = warpline.open(recording)
    document = warpline.flame(trace, warpline.stack_choice(trace, of, **choice))
    table = document.sections[1]
    assert isinstance(table, warpline.Result)
    rows = table.to_polars().to_dicts()
    return {row["function"]: (row["self_ns"] / MS, row["total_ns"] / MS) for row in rows}


@pytest.mark.parametrize("of", ["cpu", "python", "gpu", "offcpu", "os"])
def test_functions_are_those_of_the_table(show, recording, of):
    viewer = show(recording, f"#of={of}")
    assert functions(viewer) == by_table(recording, of)
    total = sum(own for own, _ in functions(viewer).values())
    assert f"all: {total:.2f} ms"[:7] == said(viewer)[:7]


def test_python_only_has_the_sums_of_the_table(show, recording):
    for of in ("cpu", "gpu"):
        wanted = by_table(recording, of, python_only=True)
        assert functions(show(recording, f"#of={of}", "--python-only")) == wanted
    viewer = show(recording)
    viewer.find("#python").check()
    assert functions(viewer) == by_table(recording, "cpu", python_only=True)


def test_the_pointer_reads_and_zooms(show, recording):
    viewer = show(recording)
    canvas = viewer.find("canvas")
    box = canvas.bounding_box()

    def at(share, level):
        return box["x"] + share * box["width"], box["y"] + (level + 0.5) * 19

    viewer.page.mouse.move(*at(0.1, 1))
    viewer.frame()
    assert said(viewer) in {
        "_start (/usr/bin/python3): 4.00 ms, 44.4% of total; self 0 ns; 4 stacks",
        "fib (/app/fib.py): 4.00 ms, 44.4% of total; self 0 ns; 2 stacks",
    }
    first = said(viewer).split(" ")[0]
    viewer.page.mouse.click(*at(0.1, 1))
    viewer.frame()
    assert viewer.find(".path").inner_text().split() == ["all", "\u203a", first]
    assert sum(own for own, _ in functions(viewer).values()) == 4
    viewer.press("Escape")
    assert viewer.find(".path").count() == 0


def test_keys_read_zoom_and_invert(show, recording):
    viewer = show(recording, "#of=os")
    viewer.press("ArrowDown")
    assert said(viewer).startswith("fib (/app/fib.py): 7.00 ms")
    viewer.press("ArrowRight")
    assert said(viewer).startswith("_start (/usr/bin/python3): 4.00 ms")
    viewer.press("Enter")
    viewer.frame()
    assert "zoom=" in viewer.page.url
    assert functions(viewer)["fread"] == (4, 4)
    viewer.press("0", "i", "ArrowDown")
    assert said(viewer).startswith("poll: 7.00 ms, 63.6% of total")
    viewer.press("ArrowDown")
    assert said(viewer).startswith("fib (/app/fib.py): 7.00 ms")


def test_search_sums_what_it_finds_once(show, recording):
    viewer = show(recording)
    viewer.find("#search").fill("fib")
    assert int(viewer.find("#found").get_attribute("data-value")) == 4 * MS
    assert "44.4% of total" in viewer.find("#found").inner_text()
    assert set(functions(viewer)) == {"fib"}
    viewer.find("#search").fill("set.py")  # a file
    assert int(viewer.find("#found").get_attribute("data-value")) == 2 * MS


def test_threads_and_lines(show, recording):
    viewer = show(recording)
    viewer.page.select_option("#thread", label="pt_data;worker (8)")
    assert functions(viewer) == {"fib": (4, 4)}
    viewer.page.select_option("#thread", "-1")
    viewer.find("#threads").check()
    viewer.press("ArrowDown")
    assert said(viewer).startswith("python3 (7): 5.00 ms")
    viewer.find("#lines").check()
    viewer.page.reload()
    viewer.wait("model.isComplete.value")
    assert viewer.find("#lines").is_checked()
    assert viewer.find("#threads").is_checked()


def test_names_cannot_do_anything(show, tmp_path):
    tables = sampled_stacks.tables()
    tables["frame"]["symbol"][0] = HOSTILE
    tables["thread"]["name"][1] = HOSTILE
    path = warpline.export(Trace(MemorySource(tables)), tmp_path / "hostile.warpline")
    viewer = show(path, "#threads=1")
    assert any("<img" in name for name in functions(viewer))
    assert viewer.find("img").count() == 0
    assert violations(viewer) == []


def test_both_themes_can_be_read(show, recording):
    viewer = show(recording)
    for _ in range(2):
        assert violations(viewer) == []
        viewer.press("t")


def test_the_table_is_there_without_scripts(chromium, recording, tmp_path):
    target = tmp_path / "flame.html"
    assert main(["flame", str(recording), "-o", str(target), "-q"]) == 0
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(target.as_uri())
    assert "fib (fib.py)" in page.inner_text("body")
    context.close()
