"""Blocks of a container, decompressed by another implementation of the format."""

from __future__ import annotations

import gzip
import zlib

import numpy as np

from warpline.viewer.columns import Packed, plain
from warpline.viewer.container import BlockWriter

COUNT = 300_000


def columns() -> list[Packed]:
    """Return columns with random, regular and constant byte planes, long and short."""
    noise = np.random.default_rng(7).integers(0, 40_000, COUNT)
    regular = np.arange(COUNT) % 1000
    return [
        plain("gap", noise),
        plain("duration", regular),
        plain("name", np.zeros(COUNT, np.int64)),
        plain("row", np.arange(10)),
    ]


def test_a_block_with_every_kind_of_plane_is_one_gzip_member():
    writer = BlockWriter()
    written = columns()
    number, offset = writer.append("events", written)
    assert writer.append("events", written[3:]) == (number, sum(len(one.data) for one in written))
    (block,) = writer.blocks()
    raw = b"".join(one.data for one in (*written, written[3]))
    assert (offset, block.raw_bytes) == (0, len(raw))
    member = zlib.decompressobj(zlib.MAX_WBITS | 16)
    assert member.decompress(block.data) == raw
    assert member.eof
    assert member.unused_data == b""
    assert gzip.decompress(block.data) == raw


def test_no_plane_is_larger_than_with_the_usual_method():
    for column in columns():
        writer = BlockWriter()
        writer.append("events", [column])
        (block,) = writer.blocks()
        assert len(block.data) <= len(gzip.compress(column.data, 4)) * 1.01 + 32
