"""The answers of CUPTI's profiler host, from NvPerf alone: it needs no driver.

For where CUPTI does not work without one, which is so since 13.2. Where both work they agree, as a
test checks.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from ctypes import c_uint32, c_void_p
from typing import Any

from warpline.counters import nvperf, one_pass
from warpline.counters.evaluator import Evaluator, passes_of, text
from warpline.counters.nvperf import NvPerf

KINDS = ("counter", "ratio", "throughput")
PLAIN_SUFFIXES = (".sum", ".ratio", ".avg.pct_of_peak_sustained_elapsed")
NOT_SUPPORTED = 27  # as CUPTI reports it

_PROFILER = 1  # NVPA_ACTIVITY_KIND_PROFILER
_ROLLUPS = (".avg", ".max", ".min", ".sum")
_PERCENT = (".pct_of_peak_sustained_active", ".pct_of_peak_sustained_elapsed")
_OF_COUNTERS = (
    "",
    ".peak_sustained",
    ".peak_sustained_active",
    ".peak_sustained_active.per_second",
    ".peak_sustained_elapsed",
    ".peak_sustained_elapsed.per_second",
    ".per_cycle_active",
    ".per_cycle_elapsed",
    ".per_second",
    *_PERCENT,
)
_SUB_METRICS = {
    "counter": [rollup + rest for rollup in _ROLLUPS for rest in _OF_COUNTERS],
    "ratio": [".max_rate", ".pct", ".ratio"],
    "throughput": [rollup + rest for rollup in _ROLLUPS for rest in _PERCENT],
}
# They are counted for the whole device, not for the work of a context, or for either.
_OF_DEVICE = {"ctc", "nvlrx", "nvltx", "pcie"}
_OF_EITHER = {"gpu", "sys"}


class UnsupportedError(Exception):
    """CUPTI would refuse this.

    Args:
        function: The function of CUPTI.
    """

    def __init__(self, function: str) -> None:
        super().__init__(function)
        self.function = function
        self.status = NOT_SUPPORTED


class NvPerfHost:
    """See `ProfilerHost`, whose methods these are.

    Args:
        library: NvPerf.
    """

    def __init__(self, library: NvPerf) -> None:
        self._library = library

    def version(self) -> int:
        """Return 0: the version of CUPTI is unknown to NvPerf."""
        return 0

    def chips(self) -> list[str]:
        """Return the names of all chips."""
        call = nvperf.ChipNames()
        self._library.call(call)
        return [text(call.ppChipNames[index]) for index in range(call.numChipNames)]

    def metrics(self, chip: str, collection: str) -> list[list[str]]:
        """Return name, kind, unit, hardware unit and description of each base metric."""
        _require_profiling(collection)
        with Evaluator(self._library, chip) as evaluator:
            return [
                [
                    name,
                    KINDS[kind],
                    evaluator.unit(name + PLAIN_SUFFIXES[kind]),
                    *evaluator.description(kind, index),
                ]
                for kind, names in enumerate(evaluator.names)
                for index, name in enumerate(names)
            ]

    def sub_metrics(self, chip: str, collection: str) -> dict[str, list[str]]:
        """Return what may follow the base names, by kind of metric."""
        _require_profiling(collection)
        return _SUB_METRICS

    def passes(self, chip: str, names: Sequence[str], collection: str) -> dict[str, Any]:
        """Return the passes that metrics need together, and what each of them counts."""
        _require_profiling(collection)
        _require_one_scope(names)
        with Evaluator(self._library, chip) as evaluator:
            counters = dict.fromkeys(
                counter for name in names for counter in evaluator.counters_of(name)
            )
        with self._config(chip) as config:
            self._schedule(config, list(counters))
            call = nvperf.NumPasses(pRawCounterConfig=config)
            self._library.call(call)
            image = self._image(config)
        of_metric, counts = passes_of(self._library, chip, names, image, call.numPasses)
        return {"passes": call.numPasses, "of_metric": of_metric, "counters": counts}

    def breakdown(self, chip: str, throughput: str) -> list[str] | None:
        """Return the base metrics that a throughput is the maximum of."""
        with Evaluator(self._library, chip) as evaluator:
            return evaluator.breakdown(throughput)

    def one_pass_groups(
        self, chip: str, names: Sequence[str], common: Sequence[str]
    ) -> list[list[str]]:
        """Return groups of metrics that take one pass each, see `one_pass`."""
        with Evaluator(self._library, chip) as evaluator:
            needs = {name: frozenset(evaluator.counters_of(name)) for name in [*names, *common]}
        with ExitStack() as stack:
            return one_pass.one_pass_groups(
                needs, common, lambda: _Pass(self._library, stack.enter_context(self._config(chip)))
            )

    @contextmanager
    def _config(self, chip: str) -> Iterator[c_void_p]:
        made = nvperf.CreateConfig(activityKind=_PROFILER, pChipName=chip.encode())
        self._library.call(made)
        config = c_void_p(made.pRawCounterConfig)
        try:
            yield config
        finally:
            self._library.call(nvperf.DestroyConfig(pRawCounterConfig=config))

    def _schedule(self, config: c_void_p, counters: Sequence[bytes]) -> None:
        call = self._library.call
        group = _pass_group(self._library, config)
        call(nvperf.BeginPassGroup(**group))
        call(nvperf.AddCounters(**_requests(config, counters)))
        call(nvperf.EndPassGroup(**group))
        call(nvperf.GenerateImage(pRawCounterConfig=config))

    def _image(self, config: c_void_p) -> ctypes.Array[Any]:
        call = nvperf.Image(pRawCounterConfig=config)
        self._library.call(call)
        image = ctypes.create_string_buffer(call.bytesCopied)
        call.bytesAllocated, call.pBuffer = len(image), ctypes.cast(image, c_void_p)
        self._library.call(call)
        return image


class _Pass:
    """A pass that counters are added to: a configuration whose only group stays open."""

    def __init__(self, library: NvPerf, config: c_void_p) -> None:
        self._call = library.call
        self._config = config
        self._call(nvperf.BeginPassGroup(**_pass_group(library, config)))

    def add(self, counters: frozenset[bytes]) -> bool:
        """Add counters, if no other pass is needed for them; return whether that is so."""
        requests = _requests(self._config, sorted(counters))
        asked = nvperf.AreSchedulable(**requests, disallowAddingExtraPasses=1)
        self._call(asked)
        if asked.schedulable:
            self._call(nvperf.AddCounters(**requests))
        return bool(asked.schedulable)


def _pass_group(library: NvPerf, config: c_void_p) -> dict[str, Any]:
    """Return the parameters of a group of passes with counters of all kinds."""
    found = nvperf.Domains(pRawCounterConfig=config)
    library.call(found)
    domains = (c_uint32 * found.numAvailableDomains)()
    found.pAvailableDomains = domains
    library.call(found)
    return {
        "pRawCounterConfig": config,
        "numDomains": found.numAvailableDomains,
        "pDomains": domains,
    }


def _requests(config: c_void_p, counters: Sequence[bytes]) -> dict[str, Any]:
    """Return the parameters that name counters."""
    requests = (nvperf.RawRequest * len(counters))()
    for request, counter in zip(requests, counters, strict=True):
        request.pRawCounterName = counter
    return {
        "pRawCounterConfig": config,
        "rawCounterRequestStructSize": nvperf.size_of(nvperf.RawRequest),
        "numRawCounterRequests": len(requests),
        "pRawCounterRequests": requests,
    }


def _require_profiling(collection: str) -> None:
    if collection != "profiling":
        raise UnsupportedError("cuptiProfilerHostInitialize")


def _require_one_scope(names: Sequence[str]) -> None:
    """Raise UnsupportedError if some metrics are of the device and others of a context."""
    units = {name.partition("__")[0].rpartition(".")[2] for name in names} - _OF_EITHER
    if units & _OF_DEVICE and units - _OF_DEVICE:
        raise UnsupportedError("cuptiProfilerHostConfigAddMetrics")
