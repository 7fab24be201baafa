"""Sets of metrics that are sampled: what fits in one pass on each chip, and files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from support.counter_host import real_host

from warpline.counters.host_process import PM_SAMPLING, HostProcess, RefusedError
from warpline.counters.sampled_sets import SETS, Fitting, fitting, sampled_set
from warpline.counters.units import unit_of
from warpline.errors import UsageError

# Chip -> metrics of each set that it samples in one pass, with CUPTI 13.0.
COUNTS = {
    "GA100": {"general": 14, "nvlink": 6, "l2": 8, "pipes": 7},
    "GH100": {"general": 14, "nvlink": 6, "l2": 8, "pipes": 13},
    "GB100": {"general": 14, "nvlink": 6, "l2": 8, "pipes": 12},
    "AD102": {"general": 14, "nvlink": 2, "l2": 8, "pipes": 10},
}


@pytest.fixture(scope="module")
def host() -> Iterator[HostProcess]:
    with real_host() as process:
        yield process


@pytest.mark.parametrize("chip", COUNTS)
def test_what_fits_in_one_pass(host: HostProcess, chip: str) -> None:
    def passes(names: Sequence[str]) -> int:
        try:
            return host.passes(chip, names, PM_SAMPLING).count
        except RefusedError:
            return 0

    found = {name: fitting(each.metrics, passes) for name, each in SETS.items()}
    assert {name: len(each.names) for name, each in found.items()} == COUNTS[chip]
    for name, each in found.items():
        assert passes(each.names) == 1
        assert len(each.names) + len(each.left_out) == len(SETS[name].metrics)
        assert "sm__cycles_active.avg.pct_of_peak_sustained_elapsed" in each.names


def test_metrics_have_units() -> None:
    names = [spellings[0] for each in SETS.values() for spellings in each.metrics]
    assert {unit_of(name) for name in names} == {"%", "byte", "hz", "sector", "request"}


def fit(*metrics: tuple[str, ...], most: int = 9, unknown: str = "-") -> Fitting:
    def passes(names: Sequence[str]) -> int:
        return 0 if any(unknown in name for name in names) else 1 + (len(names) > most)

    return fitting(metrics, passes)


def test_another_spelling_is_used_and_what_does_not_fit_is_left_out() -> None:
    assert fit(("a", "b"), ("c",)) == Fitting(("a", "c"), {})
    assert fit(("a-", "b"), ("c",)) == Fitting(("b", "c"), {})
    assert fit(("a",), ("b",), ("c-",), most=1) == Fitting(
        ("a",),
        {
            "b": "it does not fit in one pass with the others",
            "c-": "the GPU does not have it",
        },
    )
    assert fit(("a-",)).names == ()


def test_a_file_has_a_metric_per_line(tmp_path: Path) -> None:
    path = tmp_path / "mine.txt"
    path.write_text(
        "# mine\nsm__cycles_active.avg\n\n  dram__bytes.sum # all\nsm__cycles_active.avg\n"
    )
    found = sampled_set(str(path))
    assert found.metrics == (("sm__cycles_active.avg",), ("dram__bytes.sum",))
    assert found.is_strict
    assert not sampled_set("L2").is_strict


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"# nothing\n",
        b"\xff\xfe",
        b"a\n" * 1 + b"".join(b"m%d\n" % number for number in range(64)),
    ],
)
def test_files_that_are_not_taken(tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "mine.txt"
    path.write_bytes(text)
    with pytest.raises(UsageError):
        sampled_set(str(path))
    with pytest.raises(UsageError, match="no set of metrics"):
        sampled_set(str(tmp_path))
