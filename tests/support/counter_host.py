"""A profiler host with few metrics, counted by a made-up GPU; and the real one, if installed."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence

import pytest

from warpline.capture.machine.cupti import find_cupti
from warpline.counters.host_process import PROFILING, HostProcess, Metric, Passes, RefusedError
from warpline.counters.names import split
from warpline.counters.one_pass import Counters, one_pass_groups
from warpline.errors import CounterError

_UNSUPPORTED, _INVALID = 27, 1
_PER_PASS = 2  # counters of one part of the GPU

SUB_METRICS = {
    "counter": (".avg", ".max", ".min", ".sum", ".sum.per_second"),
    "ratio": (".pct", ".ratio"),
    "throughput": (".avg.pct_of_peak_sustained_elapsed", ".sum.pct_of_peak_sustained_elapsed"),
}
# Metric -> its kind and the counters that it needs.
COUNTERS = {
    "sm__inst_executed": ("counter", ("inst",)),
    "sm__inst_issued": ("counter", ("issued",)),
    "sm__warps_active": ("counter", ("warps",)),
    "sm__sass_inst_executed_op_ld": ("counter", ("loads",)),
    "sm__throughput": ("throughput", ("inst", "issued", "warps")),
    "lts__t_sectors": ("counter", ("sectors",)),
    "LTS.Triage.lts__t_hits": ("counter", ("hits",)),
    "lts__t_hit_rate": ("ratio", ("sectors", "hits")),
    "pcie__read_bytes": ("counter", ("pcie",)),
    "sm__broken": ("counter", ()),  # listed, but no counter is known for it
}
# Those of the clock, for tests that add them: set light has no others of this GPU.
CLOCK = {
    "gpu__time_duration": ("counter", ("ns",)),
    "sm__cycles_elapsed": ("counter", ("cycles",)),
}
# Those of FP32, likewise.
FLOP = {
    f"smsp__sass_thread_inst_executed_op_f{of}_pred_on": ("counter", (of,))
    for of in ("add", "mul", "fma")
}
PARTS = {"sm__throughput": ["sm__inst_executed", "sm__inst_issued", "sm__warps_active"]}
CHIPS = ["GA100", "GH100"]


class FakeHost:
    """Counts two events of each part of the GPU per pass, and links in sessions of their own.

    Attributes:
        asked: How often the passes of metrics were asked for.
    """

    asked = 0

    def chips(self) -> list[str]:
        """Return two chips."""
        return CHIPS

    def metrics(self, chip: str, collection: str = PROFILING) -> list[Metric]:
        """Return the metrics; GA100 has none."""
        if chip != "GH100":
            raise RefusedError("refused", _UNSUPPORTED)
        return [
            Metric(name, kind, "", name.partition("__")[0], f"about {name}")
            for name, (kind, _) in COUNTERS.items()
        ]

    def sub_metrics(self, chip: str, collection: str = PROFILING) -> Mapping[str, Sequence[str]]:
        """Return a few rollups of each kind."""
        return SUB_METRICS

    def passes(self, chip: str, names: Sequence[str]) -> Passes:
        """Return passes that are filled one after the other."""
        self.asked += 1
        if not all(COUNTERS.get(split(name)[0], ("", ()))[1] for name in names):
            raise RefusedError("refused", _INVALID)
        if len({name.startswith("pcie__") for name in names}) > 1:
            raise RefusedError("refused", _UNSUPPORTED)
        needs = [[(_unit(name), need) for need in COUNTERS[split(name)[0]][1]] for name in names]
        place: dict[tuple[str, str], int] = {}
        for unit, need in (item for items in needs for item in items):
            of_unit = sum(known == unit for known, _ in place)
            place.setdefault((unit, need), of_unit // _PER_PASS)
        indices = tuple(tuple(sorted({place[item] for item in items})) for items in needs)
        count = max(place.values()) + 1
        return Passes(count, indices, tuple([*place.values()].count(n) for n in range(count)))

    def one_pass_groups(
        self, chip: str, names: Sequence[str], common: Sequence[str]
    ) -> list[list[str]]:
        """Return groups of metrics that take one pass each."""
        needs = {
            name: frozenset(
                f"{_unit(name)} {need}".encode() for need in COUNTERS[split(name)[0]][1]
            )
            for name in [*names, *common]
        }
        return one_pass_groups(needs, common, FakePass)

    def breakdown(self, chip: str, throughput: str) -> list[str] | None:
        """Return the parts of the one throughput."""
        return PARTS.get(throughput)


class FakePass:
    """A pass of the made-up GPU."""

    def __init__(self) -> None:
        self._units: Counter[bytes] = Counter()

    def add(self, counters: Counters) -> bool:
        """Add counters, if each part of the GPU has no more than fit."""
        units = self._units + Counter(counter.partition(b" ")[0] for counter in counters)
        if units and max(units.values()) > _PER_PASS:
            return False
        self._units = units
        return True


def _unit(name: str) -> str:
    return split(name)[0].partition("__")[0].rpartition(".")[2]


def real_host() -> HostProcess:
    """Return the CUPTI of this machine; skip the test if none can plan here."""
    try:
        return HostProcess(find_cupti(os.environ))
    except CounterError as error:
        pytest.skip(f"{error.message} ({error.hint})")
