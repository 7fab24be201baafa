"""Regular expressions that are compiled on first use."""

import re

import pytest

from warpline.lazy import lazy_pattern


def test_it_matches_as_the_pattern_does():
    pattern = lazy_pattern(r"Lost ([0-9]+)", re.IGNORECASE)
    assert [match[1] for match in pattern.finditer("lost 3, LOST 14")] == ["3", "14"]
    assert pattern.fullmatch("lost 3 and more") is None
    assert pattern.sub("-", "lost 3") == "-"
    assert pattern.flags & re.IGNORECASE


def test_bytes_are_matched():
    assert lazy_pattern(rb"[a-z]+").findall(b"abc1de") == [b"abc", b"de"]


def test_it_is_compiled_on_first_use():
    broken = lazy_pattern("(")
    assert "(" in repr(broken)
    with pytest.raises(re.error):
        broken.match("")
