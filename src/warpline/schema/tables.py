"""The tables of a trace, schema version 1: the single source of names, types and units."""

from __future__ import annotations

from collections.abc import Mapping

from warpline.schema import (
    allocator,
    counters,
    device_work,
    dimensions,
    framework,
    health,
    host,
    pc_samples,
    profiled_kernels,
    quality,
    ranges,
    stacks,
    unified_memory,
)
from warpline.schema.columns import TableSpec

SCHEMA_VERSION = 1

# Subject -> its tables. A subject is a module of this package.
SUBJECTS: Mapping[str, tuple[TableSpec, ...]] = {
    "GPU work": device_work.TABLES,
    "CPU": host.TABLES,
    "Unified memory": unified_memory.TABLES,
    "Stacks": stacks.TABLES,
    "Ranges": ranges.TABLES,
    "Frameworks": framework.TABLES,
    "Memory of frameworks": allocator.TABLES,
    "Counters": counters.TABLES,
    "State of GPUs and machine": health.TABLES,
    "Counters per kernel": profiled_kernels.TABLES,
    "Sampled program counters": pc_samples.TABLES,
    "Quality of the recording": quality.TABLES,
    "Dimensions": dimensions.TABLES,
}

TABLES: Mapping[str, TableSpec] = {spec.name: spec for specs in SUBJECTS.values() for spec in specs}
