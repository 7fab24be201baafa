"""Names of series that were sampled in a network: adapter or switch, port, metric and unit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

from warpline.readers.nsys.export import Export, SourceTable

NIC, SWITCH = NETWORK_TABLES = ("NET_NIC_METRIC", "NET_IB_SWITCH_METRIC")


class Networks:
    """What an export says about the networks in which it has samples."""

    def __init__(self, export: Export) -> None:
        self._export = export

    def labels(self, table: str, keys: Sequence[tuple[int, ...]]) -> Iterator[str]:
        """Yield the name of each series, such as ``mlx5_0 port 1: IB: Bytes sent [bytes/ms]``.

        Args:
            table: One of NETWORK_TABLES.
            keys: Columns of each series: id of the adapter or switch, port (0 if it has only one
                or none is recorded), list of metrics, and place in the list.
        """
        names = self._adapters if table == NIC else self._switches
        called = Counter(names.get(one) for one in {key[0] for key in keys})
        for one, port, listed, place in keys:
            name, number = names.get(one), f"{one & (2**64 - 1):#x}"
            if name is None:
                where = f"NIC {number}" if table == NIC else f"IB switch {number}"
            else:
                where = name if called[name] == 1 else f"{name} ({number})"
            at_port = f" port {port}" if port else ""
            yield f"{where}{at_port}: {self._metrics.get((listed, place), f'metric {place}')}"

    @cached_property
    def _metrics(self) -> Mapping[tuple[int, int], str]:
        """Name and unit of each (list, place in the list)."""
        keys, texts = ("metricsListId", "metricsIdx"), ("name", "unit")
        table = SourceTable.facts(self._export, "TARGET_INFO_NETWORK_METRICS", keys, texts)
        columns = (*map(table.numbers, keys), *map(table.strings, texts))
        return {
            (listed, place): f"{name} [{unit}]" if unit else name
            for listed, place, name, unit in zip(*columns, strict=True)
            if listed is not None and place is not None and name
        }

    @cached_property
    def _adapters(self) -> Mapping[int, str]:
        """Name of each adapter, by the id in its samples."""
        table = SourceTable.facts(self._export, "TARGET_INFO_NIC_INFO", ["nicId"], ["name"])
        names = dict(zip(table.numbers("nicId"), table.strings("name"), strict=True))
        ids = SourceTable.facts(self._export, "NIC_ID_MAP", ["nicId", "globalId"])
        pairs = zip(ids.numbers("globalId"), ids.numbers("nicId"), strict=True)
        return {
            key: name
            for key, number in pairs
            if key is not None and number is not None and (name := names.get(number))
        }

    @cached_property
    def _switches(self) -> Mapping[int, str]:
        """Name of each switch, by its GUID, which is the id in its samples."""
        table = SourceTable.facts(self._export, "NET_IB_DEVICE_INFO", ["guid"], ["name", "des"])
        columns = (table.numbers("guid"), table.strings("name"), table.strings("des"))
        return {
            guid: called
            for guid, name, description in zip(*columns, strict=True)
            if guid is not None and (called := name or description)
        }
