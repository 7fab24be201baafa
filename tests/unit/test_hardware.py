"""GPU peaks: every file is complete and consistent."""

from __future__ import annotations

import json
from importlib.resources import files
from itertools import pairwise
from typing import Any

import pytest

from warpline.hardware import Peaks, peaks_of

FILES = sorted(
    (file for file in files("warpline.hardware").iterdir() if file.name.endswith(".json")),
    key=lambda file: file.name,
)
# 16 lanes of 8, 16 and 32 GT/s, of which 128 of 130 bits are data.
PCIE_BYTES_PER_S = [rate * 1e9 * 16 / 8 * 128 / 130 for rate in (8, 16, 32)]


@pytest.fixture(params=FILES, ids=lambda file: file.name)
def facts(request: pytest.FixtureRequest) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(request.param.read_text("utf-8"))
    return found


def test_a_file_is_whole(facts: dict[str, Any]) -> None:
    known = {*Peaks._fields, "names", "sources", "compared_with", "not_confirmed"}
    assert set(facts) == known
    assert facts["names"]
    assert facts["sources"]
    assert facts["compared_with"]
    assert set(facts["not_confirmed"]) <= set(Peaks._fields)
    assert all(url.startswith("https://") for url in facts["sources"] + facts["compared_with"])
    for name in facts["names"]:
        assert peaks_of(name) == Peaks(*(facts[field] for field in Peaks._fields))


def test_half_the_bits_are_multiplied_twice_as_fast(facts: dict[str, Any]) -> None:
    rates = [facts[f"{kind}_flop_per_s"] for kind in ("tf32", "half", "fp8")]
    pairs = [(wide, narrow) for wide, narrow in pairwise(rates) if wide]
    for wide, narrow in pairs:
        assert narrow is None or narrow / wide == pytest.approx(2, rel=0.025)
    assert rates[1] > facts["fp32_flop_per_s"]


def test_links_are_told_in_one_direction(facts: dict[str, Any]) -> None:
    assert any(
        facts["pcie_bytes_per_s"] == pytest.approx(rate, rel=0.01) for rate in PCIE_BYTES_PER_S
    )
    assert facts["nvlink_bytes_per_s"] in (None, 150e9, 300e9, 450e9, 900e9)


def test_fp64_has_half_of_the_cores_or_one_in_64(facts: dict[str, Any]) -> None:
    """Data center GPUs for computing, and those that also render."""
    ratio = facts["fp64_flop_per_s"] / facts["fp32_flop_per_s"]
    assert ratio == pytest.approx(1 / 2, rel=0.02) or ratio == pytest.approx(1 / 64, rel=0.02)
