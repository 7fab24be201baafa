"""The series of sampled metrics: what each measures, and where.

A series of GPU metrics is identified by type and metric; the lowest bits of the type are the GPU.
A series of a network belongs to no GPU: its name begins with that of the adapter or switch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np

from warpline.frozen import frozen
from warpline.ops.arrays import F64, I32
from warpline.readers.nsys.declared import Declared
from warpline.readers.nsys.export import Export, SourceTable
from warpline.readers.nsys.generic import GenericEvents
from warpline.readers.nsys.identity import SERIES_COLUMNS, Identities, gpu_of_type
from warpline.readers.nsys.metric_sets import MetricSet, metric_sets
from warpline.readers.nsys.names import Names
from warpline.readers.nsys.networks import NETWORK_TABLES, Networks

Key = tuple[int, ...]

GPU, SOC = "GPU_METRICS", "SOC_METRICS"

_MHZ = " [MHz]"
_OF_PEAK = " [Throughput %]"
_CLOCK = "Clock Frequency"  # how the name of a clock without a unit ends
_MAX_MHZ = 100_000  # no clock is faster, so a larger number is in Hz
# What values are divided by, where a name has the unit with a prefix, and the export not.
_PREFIXED = {_MHZ: 1e6, " [GB/s]": 1e9}


@frozen
class Series:
    """What the samples of one series are.

    Attributes:
        name: Metric and unit, unique among the series of its GPU.
        label: The same without a number.
        gpu: Index of the GPU; None if it is not of a GPU.
    """

    name: str
    label: str
    gpu: int | None


class Metrics:
    """The series that an export has samples of.

    Args:
        export: The export.
        ids: The series of each table.
        declared: The GPUs.
        names: Texts by StringIds id.
        generic: The samples that are generic events.
    """

    def __init__(
        self,
        export: Export,
        ids: Identities,
        declared: Declared,
        names: Names,
        generic: GenericEvents,
    ) -> None:
        self._export = export
        self._ids = ids
        self._described = declared
        self._names = names
        self._generic = generic
        self._networks = Networks(export)
        self._used: Counter[tuple[int | None, str]] = Counter()
        self._divisors: dict[str, F64] = {}
        self._declared_names: dict[str, dict[Key, str]] = {}

    @cached_property
    def series(self) -> dict[str, list[Series]]:
        """The series of each table, in the order of `Identities.series`."""
        return {
            table: [self._series(gpu, label) for gpu, label in self._labels(table)]
            for table in SERIES_COLUMNS
        }

    @cached_property
    def generic_series(self) -> list[Series]:
        """The series of the samples that are generic events, in their order."""
        assert self.series is not None  # these have their names first
        return [
            self._series(gpu, self._label(gpu, name))
            for gpu, name in (
                (self._generic.gpu_of(kind), name) for kind, name in self._generic.samples.keys
            )
        ]

    @cached_property
    def gpus(self) -> set[int]:
        """Indexes of the GPUs with metrics: as declared, which spares a look at all samples."""
        kinds = {kind for kind, _ in self._declared(GPU)} or {
            kind for kind, _ in self._ids.series_keys(GPU)
        }
        sampled = {gpu_of_type(kind) for kind in kinds}
        return sampled | {gpu for gpu in self._generic.gpus if gpu is not None}

    @cached_property
    def names(self) -> list[str]:
        """Names of all metrics, each once: of GPUs as declared, sampled or not, then of others."""
        names: list[str] = []
        for table in SERIES_COLUMNS:
            used = dict(zip(self._ids.series_keys(table), self.series[table], strict=True))
            declared = self._declared(table) if table in (GPU, SOC) else {}
            keys = sorted({*declared, *used})
            names += [
                used[key].name if key in used else self._label(_gpu_of(table, key), declared[key])
                for key in keys
            ]
        names += [series.name for series in self.generic_series]
        return list(dict.fromkeys(names))

    def divisors(self, table: SourceTable) -> F64:
        """Return what the stored values of each series are divided by, shape (n_series,).

        Args:
            table: One of GPU and SOC, or a part of it.
        """
        if table.name not in self._divisors:
            whole = table if table.rows is None else SourceTable(self._export, table.name)
            codes, keys = self._ids.series(table.name)
            samples, kinds = _Samples(codes, whole.floats("value")[0]), [key[0] for key in keys]
            divisors = self._divisors_of(self.series[table.name], kinds, samples)
            self._divisors[table.name] = divisors
        return self._divisors[table.name]

    @cached_property
    def generic_divisors(self) -> F64:
        """What the values of each of `generic_series` are divided by."""
        samples = self._generic.samples
        kinds = [kind for kind, _ in samples.keys]
        return self._divisors_of(
            self.generic_series, kinds, _Samples(samples.series, samples.values)
        )

    def _divisors_of(
        self, series: Sequence[Series], kinds: Sequence[int], samples: _Samples
    ) -> F64:
        """Return the divisors of series.

        Exports hold values in the units of CUPTI. Names have the units that nsys shows them in,
        multiplied as its file of metrics says: clocks in MHz, and the warps of an SM where those of
        a TPC were counted. In an export that was multiplied before, clocks are in MHz already.
        """
        clocks = [number for number, one in enumerate(series) if one.label.endswith(_MHZ)]
        fastest = {number: samples.largest(number) for number in clocks}
        slow = {kinds[number] for number in clocks if 0 < fastest[number] <= _MAX_MHZ}
        multiplied = slow - {kinds[number] for number in clocks if fastest[number] > _MAX_MHZ}
        return np.array(
            [
                1.0 if kind in multiplied else self._divisor(one)
                for kind, one in zip(kinds, series, strict=True)
            ],
            np.float64,
        )

    def _divisor(self, series: Series) -> float:
        prefixed = (by for unit, by in _PREFIXED.items() if series.label.endswith(unit))
        return next(prefixed, None) or 1 / self._multiplier(series)

    def _multiplier(self, series: Series) -> float:
        """Return the multiplier of a metric, 1 if sets for its GPU's chip have none or several."""
        found = {
            one.multipliers[series.label]
            for one in self._sets_of(series.gpu)
            if series.label in one.multipliers
        }
        return found.pop() if len(found) == 1 else 1.0

    def _sets_of(self, gpu: int | None) -> list[MetricSet]:
        """Return the sets for the chip of a GPU, all if none is."""
        chip = self._described.gpus.get(-1 if gpu is None else gpu, {}).get("chip_id")
        return [one for one in self._sets if chip in one.chips] or self._sets

    @cached_property
    def _sets(self) -> list[MetricSet]:
        return metric_sets(self._export, self._names)

    def _series(self, gpu: int | None, label: str) -> Series:
        """Return a series, with a number in its name if the GPU has another one of that name."""
        name = label
        while self._used[gpu, name]:
            self._used[gpu, label] += 1
            name = _numbered(label, self._used[gpu, label])
        self._used[gpu, name] += 1
        return Series(name, label, gpu)

    def _labels(self, table: str) -> Iterator[tuple[int | None, str]]:
        """Yield GPU and label of each series of a table."""
        keys = self._ids.series_keys(table)
        if table in NETWORK_TABLES:
            yield from ((None, label) for label in self._networks.labels(table, keys))
            return
        declared = self._declared(table) if keys else {}
        for key in keys:
            name = declared.get(key) or self._generic.field_names.get(key) or f"metric {key[1]}"
            gpu = _gpu_of(table, key)
            if gpu is not None and gpu not in self.gpus and gpu not in self._described.gpus:
                gpu, name = None, f"GPU {gpu}: {name}"  # nothing else in the file is about it
            yield gpu, self._label(gpu, name)

    def _label(self, gpu: int | None, name: str) -> str:
        """Return the name of a metric with its unit, which those of older recordings lack."""
        if name.endswith("]"):
            return name
        if name.endswith(_CLOCK):
            return name + _MHZ
        shares = {one.shares[name] for one in self._sets_of(gpu) if name in one.shares}
        return name + _OF_PEAK if shares == {True} else name

    def _declared(self, table: str) -> dict[Key, str]:
        """Return the name of each (type, metric) that has one."""
        if table not in self._declared_names:
            named = SourceTable.facts(
                self._export, f"TARGET_INFO_{table}", ["typeId", "metricId"], ["metricName"]
            )
            keys = zip(named.numbers("typeId"), named.numbers("metricId"), strict=True)
            self._declared_names[table] = {
                (kind, metric): name
                for (kind, metric), name in zip(keys, named.strings("metricName"), strict=True)
                if kind is not None and metric is not None and name
            }
        return self._declared_names[table]


def unsigned(values: F64) -> F64:
    """Return stored values without a sign.

    No metric is negative. Exports hold unsigned numbers with a sign: a clock of 2.33 GHz, of 32
    bits, as -1,964,454,041 Hz. Percentages have 8 bits.
    """
    if not (values < 0).any():
        return values
    wrapped_at = np.where(values >= -(2**7), 2**8, np.where(values >= -(2**31), 2**32, 0))
    return np.where(values < 0, values + wrapped_at, values)


class _Samples:
    """Values by the number of their series."""

    def __init__(self, series: I32, values: F64) -> None:
        self._series = series
        self._values = values

    def largest(self, number: int) -> float:
        """Return the largest value of a series, 0 if it has none."""
        return float(unsigned(self._values[self._series == number]).max(initial=0.0))


def _gpu_of(table: str, key: Key) -> int | None:
    return gpu_of_type(key[0]) if table == GPU else None


def _numbered(label: str, number: int) -> str:
    head, bracket, unit = label.rpartition(" [")
    return f"{head} ({number}){bracket}{unit}" if bracket else f"{label} ({number})"
