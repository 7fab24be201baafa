"""The page of memory: its numbers against the tables, pointer and keys, two recordings, names."""

from __future__ import annotations

from itertools import product

import pytest
from support import memory_histories, memory_snapshots
from support.browsing import violations

import warpline
from warpline.cli import main
from warpline.viewer import memory_report

MIB = memory_histories.MIB
HOSTILE = "<img src=x onerror=alert(1)>\u202e</script>.py"


@pytest.fixture
def show(viewer, tmp_path):
    """Write the page of recordings and open it."""

    def show(*paths, address=""):
        target = tmp_path / "memory.html"
        arguments = ["-o", str(target), "-q", "--force-overwrite"]
        assert main(["memory", *map(str, paths), *arguments]) == 0
        viewer.page.goto("about:blank")
        viewer.page.goto(target.as_uri() + address)
        viewer.wait("model.isComplete.value && marks('warpline-shown') > 0")
        viewer.frame()
        return viewer

    return show


@pytest.fixture
def snapshot(tmp_path):
    return memory_histories.training(tmp_path / "run.pickle")


def layers(viewer):
    """Return the bytes of each layer at the moment."""
    found = viewer.find(".layer-list tr[data-layer]").evaluate_all(
        "all => all.map(one => [one.dataset.layer, ...[...one.cells].map(c => c.dataset.value)])"
    )
    return {name: [int(value) for value in values if value] for name, *values in found}


def blocks(viewer):
    """Return the sizes in the list of blocks, and their sum as the page says it."""
    sizes = viewer.find("tr[data-block] td:first-child").evaluate_all(
        "all => all.map(one => Number(one.dataset.value))"
    )
    return sizes, int(viewer.find("#found").get_attribute("data-value"))


@pytest.mark.parametrize("by", ["kind", "line"])
def test_the_peak_is_that_of_the_tables(show, snapshot, by):
    trace = warpline.open(snapshot)
    (pool,) = warpline.stats(trace, "memory_sum").rows()
    table = warpline.stats(trace, f"memory_peak:{by}")
    viewer = show(snapshot, address=f"#by={by}")
    found = layers(viewer)
    assert found.pop("allocated") == [pool[0]]
    assert found.pop("reserved") == [256 * MIB]
    names = table.columns[by].to_list()
    expected = dict(zip(names, table.columns["in_use_bytes"].to_list(), strict=True))
    assert {name: value for name, (value,) in found.items() if value} == expected
    sizes, total = blocks(viewer)
    assert sizes == [10 * MIB, 8 * MIB, 4 * MIB]
    assert total == pool[0]
    assert "3.000 ms, after 3 of 13" in viewer.find(".layer-list").inner_text()


def test_kinds_of_a_real_snapshot_are_those_of_the_tables(show, data_dir, tmp_path):
    path = memory_snapshots.unpack(data_dir, "train", tmp_path)
    kinds = warpline.stats(warpline.open(path), "memory_kinds").to_polars().to_dicts()
    found = layers(show(path))
    blocks = {row["kind"]: [row["peak_bytes"]] for row in kinds if row["blocks"] is not None}
    assert {name: found[name] for name in blocks} == blocks
    assert sum(map(sum, blocks.values())) == found["allocated"][0]
    assert sum(row["peak_bytes"] for row in kinds) == kinds_reserved(path)


def kinds_reserved(path):
    """Return the bytes reserved at the peak, as the table of it has them."""
    rows = warpline.stats(warpline.open(path), "memory_peak").to_polars()
    return rows["reserved_bytes"][0]


def test_every_moment_has_its_blocks(show, snapshot):
    viewer = show(snapshot, address="#by=line&axis=events")
    in_use = [0, 10, 18, 22, 14, 10, 18, 22, 14, 10, 18, 22, 14, 10]
    for _ in range(5):
        viewer.press("ArrowLeft")
    for state, mib in enumerate(in_use):
        assert layers(viewer)["allocated"] == [mib * MIB], state
        assert blocks(viewer)[1] == mib * MIB
        viewer.press("ArrowRight")
    assert viewer.page.url.endswith("state=13")


def test_pointer_and_keys_choose_zoom_and_filter(show, snapshot):
    viewer = show(snapshot, address="#by=line")
    plot = viewer.find(".pointing")
    box = plot.bounding_box()
    y = box["y"] + box["height"] / 2
    viewer.page.mouse.move(box["x"] + 2, y)
    viewer.frame()
    assert layers(viewer)["allocated"] == [10 * MIB]
    assert viewer.find(".layer-list h2").inner_text() == "At the pointer"
    viewer.page.mouse.click(box["x"] + box["width"] - 2, y)
    viewer.page.mouse.move(0, 0)
    viewer.frame()
    assert viewer.find(".layer-list h2").inner_text() == "At the chosen moment"
    assert blocks(viewer) == ([10 * MIB, 4 * MIB], 14 * MIB)
    viewer.press("p")
    viewer.find("tr[data-layer='model.py:20 forward'] button").click()
    assert blocks(viewer) == ([8 * MIB], 8 * MIB)
    viewer.find("#filter").fill("model.py:5")
    assert blocks(viewer) == ([], 0)
    viewer.find("tr[data-layer='model.py:20 forward'] button").click()
    assert blocks(viewer) == ([10 * MIB], 10 * MIB)
    viewer.find("#blocks summary").click()
    assert viewer.find("#blocks pre").inner_text().splitlines() == [
        *("/app/model.py:5 __init__", "/app/train.py:1 main"),
    ]
    whole = viewer.ask("model.view.value.high - model.view.value.low")
    viewer.page.mouse.move(box["x"] + 100, y)
    viewer.page.mouse.down()
    viewer.page.mouse.move(box["x"] + 200, y)
    viewer.page.mouse.up()
    part = viewer.ask("model.view.value.high - model.view.value.low")
    assert part == pytest.approx(whole * 100 / box["width"], rel=0.05)
    viewer.page.get_by_role("button", name="Show all").click()
    assert viewer.ask("model.view.value.high - model.view.value.low") == whole


def test_two_recordings_share_axes_and_layers(show, snapshot, tmp_path):
    other = memory_histories.training(
        tmp_path / "other.pickle", steps=1, files=("model.py", "b.py")
    )
    viewer = show(snapshot, other, address="#by=line")
    assert viewer.find("svg.stack").count() == 2
    assert viewer.find(".other-side").count() == 2
    found = layers(viewer)
    assert found["allocated"] == [22 * MIB, 22 * MIB, 0]
    assert found["model.py:5 __init__"] == [10 * MIB, 10 * MIB, 0]
    assert violations(viewer) == []


def test_blocks_that_are_not_listed_are_counted(show, snapshot, monkeypatch):
    monkeypatch.setattr(memory_report, "MOST_BLOCKS", 1)
    viewer = show(snapshot, address="#by=line")
    found = layers(viewer)
    assert found["Not listed"] == [12 * MIB]
    assert found["allocated"] == [22 * MIB]
    assert blocks(viewer) == ([10 * MIB], 10 * MIB)
    assert viewer.find("#found").inner_text() == "1 block, 10.0 MiB; 12.0 MiB are not listed"
    assert "the 6 smallest blocks of 7 are not listed" in viewer.find("p.note").inner_text()


def test_names_are_text(show, tmp_path):
    path = memory_histories.training(tmp_path / "run.pickle", files=(HOSTILE, "train.py"))
    viewer = show(path, address="#by=line")
    shown = viewer.find(".layer-list tbody th").all_inner_texts()
    assert any("<img src=x onerror=alert(1)>\\u202e" in name for name in shown)
    assert viewer.find("img").count() == 0


def test_axe_objects_to_nothing_and_nothing_is_too_wide(show, snapshot):
    viewer = show(snapshot, address="#by=line")
    for scheme, width in product(("light", "dark"), (1280, 700)):
        viewer.page.emulate_media(color_scheme=scheme)
        viewer.page.set_viewport_size({"width": width, "height": 900})
        viewer.frame()
        assert viewer.page.evaluate("document.documentElement.scrollWidth") <= width
        assert violations(viewer) == []
