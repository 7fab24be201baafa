"""Charts and tables of sections, whatever was counted, and however damaged it is."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from support.json_schema import violations
from support.kernel_counters import trace
from support.ncu_captures import printed
from support.section_numbers import raw_pages

from warpline.documents.kernel_filters import Choice
from warpline.documents.kernel_sections import kernel_sections
from warpline.render.section_bodies import BODIES, Drawing, body_texts

(PAGE, *_) = raw_pages(printed("target", "raw.csv"))
# What a report has, as far as sections may show it; the largest number that was printed.
WHOLE = {
    name: PAGE.value(name).high
    for name, (text, _) in PAGE.cells.items()
    if "__" in name and not name.startswith(("device__", "sm__ops_path")) and text[:1].isdigit()
}
SCHEMA = json.loads(
    (Path(__file__).parents[2] / "docs" / "kernels.schema.json").read_text(encoding="utf-8")
)
SECTIONS = {
    **SCHEMA["properties"]["kernels"]["items"]["properties"]["sections"],
    "$defs": SCHEMA["$defs"],
}
NUMBERS = st.one_of(
    st.floats(),
    st.sampled_from([0.0, 1.0, 100.0, -1.0, 5e-324, 1e-9, 2.0**53, 2.0**62, math.inf]),
    st.integers(0, 10**12).map(float),
)
CHANGES = st.dictionaries(st.sampled_from([*WHOLE]), st.none() | NUMBERS, max_size=200)
OPCODES = st.dictionaries(st.sampled_from(["LDG", "FFMA", "HMMA"]), st.integers(0, 10**12))


@settings(max_examples=25)
@given(st.lists(st.tuples(CHANGES, OPCODES), min_size=1, max_size=2))
def test_sections_keep_their_contract(launches: list[tuple[Any, Any]]) -> None:
    made = trace([WHOLE | changes for changes, _ in launches], [of for _, of in launches])
    found = kernel_sections(made, Choice())
    assert len(found) == len(launches)
    for sections in found:
        read = json.loads(json.dumps(sections, allow_nan=False))
        assert violations(read, SECTIONS) == []
        for drawing in (Drawing(), Drawing(unicode=False, is_scaled=False)):
            texts = body_texts([*BODIES, "SpeedOfLight_RooflineChart"], read, drawing)
            assert all(text.endswith("\n\n") or not text for text in texts)
