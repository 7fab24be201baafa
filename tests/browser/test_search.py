"""A search: every match is visible at any zoom, counted, and reachable, compared with the file."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.shows("nsys/host_sync.bad")
CALLS = """
    SELECT r.start, r.end FROM CUPTI_ACTIVITY_KIND_RUNTIME r
    JOIN StringIds s ON r.nameId = s.id WHERE s.value LIKE '%cudaLaunchKernel%' ORDER BY r.start"""

CALLS_OF_ONE = CALLS.replace(
    "WHERE",
    """WHERE r.globalTid = (SELECT globalTid FROM CUPTI_ACTIVITY_KIND_RUNTIME
    GROUP BY globalTid ORDER BY COUNT(*) DESC LIMIT 1) AND""",
)


def search(viewer, text):
    viewer.find("#warpline-search").fill(text)
    viewer.wait("model.hits.value !== null && model.matches.value !== null")
    viewer.frame()


def coloured_columns(viewer, row_id):
    """Return the columns of a row whose lowest pixels are neither background nor faded."""
    canvas = viewer.find("canvas[role=application]").bounding_box()
    _, top, _, height = viewer.row_box(row_id)
    pixels = viewer.page.evaluate(
        """y => {
          const from = document.querySelector("canvas[role=application]");
          const line = Object.assign(document.createElement("canvas"), { width: from.width });
          const pen = line.getContext("2d", { willReadFrequently: true });
          pen.drawImage(from, 0, -y);
          return [...pen.getImageData(0, 0, line.width, 1).data];
        }""",
        top - canvas["y"] + height - 3,
    )
    colours = [tuple(pixels[at : at + 3]) for at in range(0, len(pixels), 4)]
    # Grays of a highlight have nearly equal channels; the colors of API calls do not.
    return {x for x, rgb in enumerate(colours) if max(rgb) - min(rgb) > 20}


def test_every_match_of_a_view_has_a_colored_pixel(opened, ask_file):
    for part in (1, 0.2, 0.01):
        opened.press("0")
        start, end = opened.view
        opened.page.evaluate(
            f"warpline.model.show({{ start: {start}, end: {start + part * (end - start)} }})"
        )
        calls = ask_file(CALLS_OF_ONE)
        middle = calls[len(calls) // 2][0]
        opened.page.evaluate(
            f"warpline.model.centreOn({middle})",
        )
        search(opened, "cudaLaunchKernel")
        start, end = opened.view
        opened.wait(
            f"model.hits.value.span.start === {start} && model.hits.value.span.end === {end}"
        )
        opened.frame()
        width = opened.ask("model.size.value.width")
        apis = [row for row in opened.head["rows"] if row["kind"] == "api"]
        row_id = max(apis, key=lambda row: row["count"])["id"]
        scale = width / (end - start)
        inside = [(a, b) for a, b in calls if a >= start and b <= end]
        assert len(inside) > (1000 if part == 1 else 3)
        shown = coloured_columns(opened, row_id)
        columns = [
            range(int((a - start) * scale) - 1, int((b - start) * scale) + 3) for a, b in inside
        ]
        assert [own for own in columns if not shown & set(own)] == []
        assert shown <= {x for own in columns for x in own}


def test_matches_are_counted_and_numbered(opened, ask_file):
    opened.press("0")
    calls = ask_file(CALLS)
    search(opened, "/^cudaLaunchKernel/")
    shown = opened.find("[data-testid=matches]")
    assert shown.inner_text() == f"{len(calls):,} matches"
    opened.find("#warpline-search").press("Enter")
    for place, (start, _) in enumerate(calls[:3], start=1):
        opened.wait(f"model.selected.value?.start === {start}")
        opened.wait(f"model.matches.value.place === {place}")
        opened.frame()
        assert shown.inner_text() == f"{place} of {len(calls):,} matches"
        opened.page.get_by_role("button", name="Next highlighted event").click()
    opened.page.get_by_role("button", name="Previous highlighted event").click()
    opened.wait("model.matches.value.place === 3")
    opened.find("#warpline-search").fill("no such name")
    opened.wait("model.matches.value?.total === 0")
    opened.frame()
    assert shown.inner_text() == "0 matches"
    opened.find("#warpline-search").fill("")
    opened.wait("model.matches.value === null")
    opened.frame()
    assert shown.count() == 0


def test_a_range_is_one_match_though_its_phase_is_highlighted_too(opened, ask_file):
    ((count,),) = ask_file("SELECT COUNT(*) FROM NVTX_EVENTS WHERE text = 'forward'")
    search(opened, "/^forward$/")
    assert opened.find("[data-testid=matches]").inner_text() == f"{count} matches"
