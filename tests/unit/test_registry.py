"""The registry refuses duplicates and suggests the nearest name."""

from __future__ import annotations

import pytest

from warpline.errors import SchemaError, UsageError
from warpline.registry import Registry


@pytest.fixture
def tables():
    registry = Registry[int]("table")
    registry.add("cuda_gpu_kern_sum", 1, aliases=["gpukernsum"])
    registry.add("nvtx_sum", 2)
    return registry


def test_names_and_aliases_find_the_item(tables):
    assert tables.get("cuda_gpu_kern_sum") == tables.get("gpukernsum") == 1
    assert list(tables) == [1, 2]
    assert tables.names() == ["cuda_gpu_kern_sum", "nvtx_sum"]
    assert "gpukernsum" in tables


@pytest.mark.parametrize("taken", ["nvtx_sum", "gpukernsum"])
def test_a_second_item_of_a_name_is_an_error(tables, taken):
    with pytest.raises(SchemaError, match=f"two tables are named '{taken}'"):
        tables.add(taken, 3)
    with pytest.raises(SchemaError):
        tables.add("other", 3, aliases=[taken])


@pytest.mark.parametrize(
    ("typed", "hint"),
    [
        ("cuda_gpu_kernsum", "did you mean cuda_gpu_kern_sum"),
        ("kern", "did you mean cuda_gpu_kern_sum or gpukernsum?"),
        ("zzz", "known tables: cuda_gpu_kern_sum, nvtx_sum"),
    ],
)
def test_an_unknown_name_gets_a_hint(tables, typed, hint):
    with pytest.raises(UsageError) as raised:
        tables.get(typed)
    assert hint in (raised.value.hint or "")
    assert raised.value.exit_code == 2
