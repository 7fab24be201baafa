"""Snapshots of PyTorch's caching allocator as tables."""

from __future__ import annotations

from warpline.trace.allocator_snapshots.tables import SnapshotTables, read_snapshot

__all__ = ["SnapshotTables", "read_snapshot"]
