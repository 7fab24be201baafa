"""Launches of CUDA graphs traced at node level, from the rows of their nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

import numpy as np

from warpline.ops.arrays import I64
from warpline.ops.group import factorize_rows
from warpline.readers.nsys.database import Kind
from warpline.readers.nsys.export import SourceTable
from warpline.readers.nsys.fields import Reading
from warpline.readers.nsys.identity import Place
from warpline.schema import TABLES
from warpline.trace.column import ColumnData, make_column

NODE_TABLES = (
    "CUPTI_ACTIVITY_KIND_KERNEL",
    "CUPTI_ACTIVITY_KIND_MEMCPY",
    "CUPTI_ACTIVITY_KIND_MEMSET",
)
_NODE_LEVEL = 1  # of schema.labels.GRAPH_LEVELS
_NO_GRAPH = -1
_NODE_COLUMNS = ("start_ns", "end_ns", "correlation_id", "graph_id", "place")


class NodeLaunches:
    """One row per (process, correlation, device) with operations that name a graph node.

    A row spans its operations. Context and stream are those of the earliest.
    Operations without a correlation belong to no launch.
    """

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._node_places: list[Place] = []

    def __len__(self) -> int:
        return len(self._launches["start_ns"])

    def load(self, columns: Sequence[str]) -> dict[str, ColumnData]:
        """Return columns of the table graph_launch."""
        spec = TABLES["graph_launch"]
        arrays = {name: self._launches[name] for name in columns if name in self._launches}
        loaded = {name: make_column(spec.column(name), values) for name, values in arrays.items()}
        for name in set(columns) & {*self._places}:
            rows = [self._places[name](place) for place in self._node_places]
            first = self._launches["place"]
            loaded[name] = make_column(spec.column(name), np.array(rows, np.int32)[first])
        if "graph_id" in loaded:
            graph = arrays["graph_id"]
            loaded["graph_id"] = make_column(spec.column("graph_id"), graph, graph != _NO_GRAPH)
        return loaded

    @cached_property
    def _places(self) -> Mapping[str, Callable[[Place], int | None]]:
        dimensions = self._reading.dimensions
        return {
            "process_id": lambda place: dimensions.process_row[place.process],
            "device_id": dimensions.device_row_of,
            "context_id": dimensions.context_row_of,
            "stream_id": dimensions.stream_row_of,
        }

    @cached_property
    def _launches(self) -> dict[str, I64]:
        nodes = self._nodes
        place = nodes["place"]
        process = np.array([place.process for place in self._node_places], np.int64)
        device = np.array([place.device for place in self._node_places], np.int64)
        keys = factorize_rows(process[place], nodes["correlation_id"], device[place])
        order = np.lexsort((nodes["start_ns"], keys.codes))
        bounds = np.searchsorted(keys.codes[order], np.arange(keys.n_groups))
        first = order[bounds]
        if not len(first):
            return dict.fromkeys((*nodes, "node_count", "level"), first)
        return {
            "start_ns": nodes["start_ns"][first],
            "end_ns": np.maximum.reduceat(nodes["end_ns"][order], bounds),
            "correlation_id": nodes["correlation_id"][first],
            "graph_id": np.maximum.reduceat(nodes["graph_id"][order], bounds),
            "node_count": np.bincount(keys.codes),
            "level": np.full(len(first), _NODE_LEVEL),
            "place": nodes["place"][first],
        }

    @cached_property
    def _nodes(self) -> dict[str, I64]:
        """The columns of every operation that belongs to a graph launch."""
        parts = [self._nodes_of(table) for table in NODE_TABLES]
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    def _nodes_of(self, name: str) -> dict[str, I64]:
        whole = SourceTable(self._reading.export, name)
        valid = whole.codes("graphNodeId").valid
        is_node = np.ones(len(whole), np.bool_) if valid is None else valid
        if is_node.any():
            is_node = is_node & whole.ints("correlationId").is_valid()
        rows = np.flatnonzero(is_node)
        if not len(rows):
            return dict.fromkeys(_NODE_COLUMNS, rows)
        table = SourceTable(self._reading.export, name, rows)
        table.fetch(dict.fromkeys(("start", "end", "correlationId", "graphId"), Kind.INT64))
        codes, places = self._reading.ids.places(name)
        place = codes[rows].astype(np.int64) + len(self._node_places)
        self._node_places.extend(places)
        return {
            "start_ns": table.ints("start").values,
            "end_ns": table.ints("end").values,
            "correlation_id": table.ints("correlationId").values,
            "graph_id": table.ints("graphId").filled(_NO_GRAPH),
            "place": place,
        }
