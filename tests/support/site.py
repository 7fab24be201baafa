"""The documentation site that `make site` has built."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

SITE = Path(__file__).parents[2] / "build" / "site"


def built() -> Path:
    """Return its folder; skip the test if it was not built, and fail where CI must have done so."""
    if not (SITE / "search.html").is_file():
        if os.environ.get("CI"):
            pytest.fail("the documentation site is missing: make site", pytrace=False)
        pytest.skip("no documentation site; make site")
    built_ns = (SITE / "search.html").stat().st_mtime_ns
    pages = (SITE.parents[1] / "docs").rglob("*.md")
    if not os.environ.get("CI") and any(page.stat().st_mtime_ns > built_ns for page in pages):
        pytest.skip("the documentation site is older than its pages; make site")
    return SITE
