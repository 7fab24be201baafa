"""memory_segments: what memory is used for that the caching allocator has from the driver."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived.texts import labelled
from warpline.ops.arrays import I64
from warpline.ops.group import factorize_rows
from warpline.ops.join import lookup
from warpline.result import Arguments, Field, Numbers, Result, Texts, Values, analysis
from warpline.schema.labels import BLOCK_STATES
from warpline.trace import Trace
from warpline.units import Unit

NAME = "memory_segments"
TITLE = "Segments of the caching allocator"
HINT = "pass a file that torch.cuda.memory._dump_snapshot() wrote"
_MB = (1e-6, 3)
FIELDS = (
    Field("reserved_bytes", Unit.BYTES, "Size of the segments.", "Reserved (MB)", *_MB),
    Field(
        "allocated_bytes", Unit.BYTES, "Bytes in blocks that are in use.", "Allocated (MB)", *_MB
    ),
    Field(
        "rounding_bytes",
        Unit.BYTES,
        "Part of these that was not requested: sizes are rounded up.",
        "Rounding (MB)",
        *_MB,
    ),
    Field(
        "awaiting_bytes",
        Unit.BYTES,
        "Bytes in blocks that are freed, but other streams may still use.",
        "Awaiting Free (MB)",
        *_MB,
    ),
    Field("free_bytes", Unit.BYTES, "Bytes in free blocks.", "Free (MB)", *_MB),
    Field(
        "fragmented_bytes",
        Unit.BYTES,
        "Part of these in segments with other blocks: the allocator cannot return them.",
        "Fragmented (MB)",
        *_MB,
    ),
    Field(
        "largest_free_bytes",
        Unit.BYTES,
        "Size of the largest free block.",
        "Largest Free (MB)",
        *_MB,
    ),
    Field("segments", Unit.COUNT, "Number of segments.", "Segments"),
    Field("blocks", Unit.COUNT, "Number of blocks in use.", "Blocks"),
    Field("place", Unit.NONE, "GPU index.", "Place"),
    Field("pid", Unit.ID, "Process id.", "PID", is_detail=True),
    Field("sizes", Unit.NONE, "Small blocks, up to 1 MiB, or Large blocks.", "Sizes"),
    Field("pool", Unit.NONE, "Private pool, such as pool 1.0 of a CUDA graph.", "Pool"),
)
KEY = ("place", "pid", "sizes", "pool")

_NOTHING = -1
_SIZES = ("Small blocks", "Large blocks")
_STATE = {label: value for value, label in BLOCK_STATES.items()}


@analysis(
    name=NAME,
    title=TITLE,
    fields=FIELDS,
    needs=("allocator_segment",),
    missing_hint=HINT,
)
def memory_segments(trace: Trace, arguments: Arguments) -> Result:
    """The memory that PyTorch reserved, and how much of it is in use, when a snapshot was taken.

    What it measures: For each GPU and process, by size of blocks and private pool, the memory that
        the caching allocator reserved from the driver, and what is in it: blocks in use, blocks
        whose free waits for another stream, and free blocks.
    Why it matters: An allocation fails if no free block is large enough, even if their sum is.
        Large fragmented sums ask for expandable segments or constant shapes.
    How it is computed: Sums over the blocks of the snapshot. Fragmented are free blocks smaller
        than their segment, if that cannot shrink as expandable segments can. In
        torch.cuda.memory_stats, the sums are reserved_bytes, allocated_bytes and
        inactive_split_bytes. Most reserved bytes first.
    Limits: One moment. Memory that the driver and libraries allocate themselves is not included.
    Source: Warpline; the sums are those of torch/cuda/_memory_viz.py.
    """
    parts = _parts(trace)
    columns: dict[str, Values] = {name: Numbers(values) for name, values in parts.sums.items()}
    columns |= {
        "place": labelled(parts.device, _places(trace)),
        "pid": Numbers(trace.columns("process", "pid")["pid"].values[parts.process]),
        "sizes": labelled(np.maximum(parts.is_large, 0), _SIZES, parts.is_large >= 0),
        "pool": _pools(trace, parts.pool),
    }
    ordered = {field.name: columns[field.name] for field in FIELDS}
    return Result(NAME, TITLE, FIELDS, ordered, KEY)


class _Parts(NamedTuple):
    """Segments with the same key, those with most reserved bytes first.

    The keys have shape (n,), -1 for unknown; so have the sums, by field.
    """

    process: I64
    device: I64
    is_large: I64
    pool: I64
    sums: dict[str, I64]


def _parts(trace: Trace) -> _Parts:
    keys = ("process_id", "device_id", "is_large", "pool_id")
    columns = trace.columns("allocator_segment", *keys, "time_ns", "address", "bytes")
    of_segment = [columns[key].filled(_NOTHING).astype(np.int64) for key in keys[:2]]
    kind = columns["is_large"]
    of_segment.append(np.where(kind.is_valid(), kind.values, _NOTHING).astype(np.int64))
    of_segment.append(columns["pool_id"].filled(_NOTHING).astype(np.int64))
    groups = factorize_rows(*of_segment)
    codes = groups.codes.astype(np.int64)
    reserved = _sums(codes, columns["bytes"].values, groups.n_groups)
    order = np.argsort(-reserved, kind="stable")
    sums = {
        "segments": np.bincount(codes, minlength=groups.n_groups).astype(np.int64),
        "reserved_bytes": reserved,
        **_of_blocks(trace, codes, groups.n_groups),
    }
    process, device, is_large, pool = (column[groups.first[order]] for column in of_segment)
    in_order = {name: values[order] for name, values in sums.items()}
    return _Parts(process, device, is_large, pool, in_order)


def _of_blocks(trace: Trace, group_of_segment: I64, count: int) -> dict[str, I64]:
    """Return the sums over the blocks of the segments in each group, by field."""
    names = ("process_id", "device_id", "address", "bytes", "is_expandable")
    segments = trace.columns("allocator_segment", *names)
    blocks = trace.columns(
        "allocator_block",
        "process_id",
        "device_id",
        "segment_address",
        "bytes",
        "requested_bytes",
        "state",
    )
    joined = factorize_rows(
        *(
            np.concatenate([ours.filled(_NOTHING), theirs.filled(_NOTHING)]).astype(np.int64)
            for ours, theirs in zip(list(segments.values())[:3], blocks.values(), strict=False)
        )
    )
    n_segments = len(group_of_segment)
    found = lookup(joined.codes[n_segments:], joined.codes[:n_segments])
    size, state = blocks["bytes"].values[found.found], blocks["state"].values[found.found]
    segment = found.row[found.found]
    group = group_of_segment[segment]
    requested = blocks["requested_bytes"].filled(0)[found.found]
    is_free, is_used = state == _STATE["Inactive"], state == _STATE["Allocated"]
    can_shrink = segments["is_expandable"].filled(0).astype(np.bool_)[segment]
    is_split = is_free & (size < segments["bytes"].values[segment]) & ~can_shrink
    largest = np.zeros(count, np.int64)
    np.maximum.at(largest, group[is_free], size[is_free])
    return {
        "blocks": np.bincount(group[is_used], minlength=count).astype(np.int64),
        "allocated_bytes": _sums(group, np.where(is_used, size, 0), count),
        "rounding_bytes": _sums(group, np.where(is_used, size - requested, 0), count),
        "awaiting_bytes": _sums(group, np.where(state == _STATE["Awaiting free"], size, 0), count),
        "free_bytes": _sums(group, np.where(is_free, size, 0), count),
        "fragmented_bytes": _sums(group, np.where(is_split, size, 0), count),
        "largest_free_bytes": largest,
    }


def _sums(group: I64, values: I64, count: int) -> I64:
    sums = np.zeros(count, np.int64)
    np.add.at(sums, group, values)
    return sums


def _places(trace: Trace) -> list[str]:
    numbers = trace.columns("device", "gpu_index")["gpu_index"].values.tolist()
    return [f"GPU {number}" for number in numbers]


def _pools(trace: Trace, pool: I64) -> Texts:
    distinct = np.unique(pool[pool >= 0])
    texts = [f"pool {name}" for name in trace.strings.texts(distinct.tolist())]
    codes = np.where(pool >= 0, np.searchsorted(distinct, pool), _NOTHING)
    return Texts(codes.astype(np.int32), texts)
