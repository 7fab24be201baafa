"""memory: the traffic between the parts of the memory hierarchy, and the tables of each part."""

from __future__ import annotations

import numpy as np

from warpline.derived.counters.known import first_known
from warpline.derived.kernel_sections.columns import Cells, Constant, Item, Tree, any_of
from warpline.derived.kernel_sections.memory_tables import TABLES, Table
from warpline.derived.kernel_sections.memory_traffic import EDGES, NODES, Edge, Node
from warpline.derived.kernel_sections.metrics import Metrics, ended
from warpline.derived.kernel_sections.registry import section_body


@section_body("memory")
def memory(metrics: Metrics) -> Item:
    """Return the nodes and edges of the memory chart, and the tables of memory units."""
    edges = [_edge(metrics, of) for of in EDGES]
    touched = {
        node.name: any_of(
            [
                item
                for of, item in zip(EDGES, edges, strict=True)
                if node.name in (of.start, of.end)
            ],
            len(metrics),
        )
        for node in NODES
    }
    nodes = [_node(metrics, node, Item(touched[node.name], ())) for node in NODES]
    tables = [_table(metrics, table) for table in TABLES]
    has = any_of([*edges, *tables], len(metrics))
    return Item(has, {"nodes": nodes, "edges": edges, "tables": tables})


def _node(metrics: Metrics, node: Node, touched: Item) -> Item:
    values = [metrics.get(name) for name in node.metrics]
    ratio = first_known(*values) if values else metrics.none
    metric = next((name for name in node.metrics if metrics.has(name)), "")
    tree: dict[str, Tree] = {
        "id": node.name,
        "label": node.label,
        "metric": metric,
        "ratio": ratio,
        "ratio_label": node.ratio_label,
    }
    return Item(touched.has | ratio.is_known, tree)


def _edge(metrics: Metrics, edge: Edge) -> Item:
    """Return an edge; parts that few programs use have one only where they were used."""
    numbers = {
        "requests": metrics.value(*edge.requests),
        "bytes": metrics.value(*edge.transferred, times=edge.bytes_each),
        "bytes_per_s": metrics.value(
            *ended(edge.transferred, ".per_second"), times=edge.bytes_each
        ),
        "ratio": metrics.value(*ended(edge.busy, ".pct_of_peak_sustained_elapsed")),
    }
    has = any_of([Item(of.known.is_known, ()) for of in numbers.values()], len(metrics))
    if edge.is_rare:
        has = has & any_of(
            [Item(of.known.is_known & (of.known.values > 0), ()) for of in numbers.values()],
            len(metrics),
        )
    tree: dict[str, Tree] = {
        "from": edge.start,
        "to": edge.end,
        "counts": "instructions" if edge.start == "kernel" else "requests",
        **{name: of.known for name, of in numbers.items()},
        "metrics": {name: of.metric for name, of in numbers.items()},
    }
    return Item(has, tree)


def _table(metrics: Metrics, table: Table) -> Item:
    rows = []
    for row in table.rows:
        cells = [
            metrics.value(*of.names, per=of.per, times=of.times, of_all=True) for of in row.cells
        ]
        # Most units are used by few kernels: rows of zeros would hide the others.
        counted = [cell.known.is_known & (cell.known.values > 0) for cell in cells]
        has = np.logical_or.reduce(counted)
        rows.append((row.label, cells, has))
    items = [
        Item(has, Cells([label, *(cell.known for cell in cells)])) for label, cells, has in rows
    ]
    tree: dict[str, Tree] = {
        "title": table.title,
        "columns": Constant([{"name": name, "unit": unit} for name, unit in table.columns]),
        "rows": items,
        "metrics": [Item(has, Constant([cell.metric for cell in cells])) for _, cells, has in rows],
    }
    return Item(any_of(items, len(metrics)), tree)
