"""Dumps of NCCL's flight recorders, in the layouts that PyTorch's source declares.

`Recorder` numbers calls as ProcessGroupNCCL does: collectives and sends have numbers of their own
in each group, and operations of a coalesced call share one; only its last entry is ever completed.
"""

from __future__ import annotations

import json
import os
import pickle
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

S = 1_000_000_000
BEGIN_NS = 1_760_000_000 * S
Groups = dict[str, tuple[str, tuple[int, ...]]]  # name -> description, ranks


class Recorder:
    """The flight recorder of one rank.

    Args:
        rank: The rank.
        groups: The process groups that it is in.
    """

    def __init__(self, rank: int, groups: Groups) -> None:
        self.rank = rank
        self.groups = groups
        self.entries: list[dict[str, Any]] = []
        self.at_ns = BEGIN_NS
        self._collectives: Counter[str] = Counter()
        self._transfers: Counter[str] = Counter()

    def call(
        self,
        group: str,
        name: str,
        state: str = "completed",
        *,
        sizes: Sequence[Sequence[int]] = ((16, 4),),
        outputs: Sequence[Sequence[int]] | None = None,
        dtype: str = "Float",
        line: int = 10,
    ) -> None:
        """Record a collective."""
        self._collectives[group] += 1
        self._add(group, name, state, sizes, outputs, dtype, line, is_p2p=False)

    def send(self, group: str, name: str, state: str = "completed", size: int = 4) -> None:
        """Record a send or a receive: ``send 0->1``, ``recv 1<-0``."""
        self._transfers[group] += 1
        self._add(group, name, state, ((size,),), None, "Float", 20, is_p2p=True)

    def coalesced(self, group: str, names: Sequence[str], state: str, *, is_p2p: bool) -> None:
        """Record several operations that are one call."""
        (self._transfers if is_p2p else self._collectives)[group] += 1
        for name in names:
            self._add(group, name, "scheduled", ((4,),), None, "Float", 30, is_p2p=is_p2p)
        self._add(group, "coalesced", state, (), (), "", 30, is_p2p=is_p2p)

    def _add(
        self,
        group: str,
        name: str,
        state: str,
        sizes: Sequence[Sequence[int]],
        outputs: Sequence[Sequence[int]] | None,
        dtype: str,
        line: int,
        *,
        is_p2p: bool,
    ) -> None:
        got = sizes if outputs is None else outputs
        torch = "/usr/lib/python3.12/site-packages/torch/distributed/distributed_c10d.py"
        self.at_ns += S // 100
        self.entries.append(
            {
                "frames": [
                    {"name": name, "filename": torch, "line": 3000},
                    {"name": "train_step", "filename": "/home/u/train.py", "line": line},
                ],
                "record_id": len(self.entries),
                "pg_id": list(self.groups).index(group),
                "process_group": (group, self.groups[group][0]),
                "collective_seq_id": self._collectives[group],
                "p2p_seq_id": self._transfers[group],
                "op_id": len(self.entries) + 1,
                "profiling_name": f"nccl:{name}",
                "time_created_ns": self.at_ns,
                "input_sizes": [list(shape) for shape in sizes],
                "input_dtypes": [dtype] * len(sizes),
                "output_sizes": [list(shape) for shape in got],
                "output_dtypes": [dtype] * len(got),
                "state": state,
                "time_discovered_started_ns": None,
                "time_discovered_completed_ns": None,
                "retired": state == "completed",
                "timeout_ms": 600_000,
                "is_p2p": is_p2p,
                "duration_ms": 0.25,
            }
        )

    def dump(self, version: str = "2.10") -> dict[str, Any]:
        """Return the content of a dump."""
        if version.startswith("1."):
            return self._first_layout(version)
        return {
            "version": version,
            "pg_config": {
                name: {"name": name, "desc": described, "ranks": str(list(ranks))}
                for name, (described, ranks) in self.groups.items()
            },
            "pg_status": {},
            "entries": self.entries,
        }

    def _first_layout(self, version: str) -> dict[str, Any]:
        """Return that of PyTorch 2.2 (1.1) and 2.3 (1.4): one number per group, no types."""
        left_out = {
            *("process_group", "collective_seq_id", "p2p_seq_id", "is_p2p", "timeout_ms"),
            *("input_dtypes", "output_dtypes"),
        }
        entries = []
        for entry in self.entries:
            kept = {name: value for name, value in entry.items() if name not in left_out}
            entries.append({**kept, "seq_id": entry["collective_seq_id"] + entry["p2p_seq_id"]})
        found: dict[str, Any] = {"entries": entries, "version": version}
        if version != "1.1":
            members = [list(ranks) for _, ranks in self.groups.values()]
            found["pg_config"] = dict(enumerate(members))
        return found

    def write(self, folder: Path, *, version: str = "2.10", after_s: int = 600) -> Path:
        """Write a pickle as PyTorch names it, some time after the last call."""
        path = folder / f"nccl_trace_rank_{self.rank}"
        path.write_bytes(pickle.dumps(self.dump(version), protocol=2))
        written = self.at_ns + after_s * S
        os.utime(path, ns=(written, written))
        return path

    def write_json(self, folder: Path) -> Path:
        """Write the JSON form: no stacks, times of 0 for None, numbers as texts."""
        content = self.dump()
        content["entries"] = [
            {name: value for name, value in entry.items() if name != "frames"}
            for entry in self.entries
        ]
        path = folder / f"trace_rank_{self.rank}.json"
        path.write_text(json.dumps(content, sort_keys=True), encoding="utf-8")
        return path


def job(ranks: int, groups: Groups | None = None) -> list[Recorder]:
    """Return the recorders of a job; each rank has the groups that it is in."""
    every = {"0": ("default_pg", tuple(range(ranks)))} if groups is None else groups
    return [
        Recorder(rank, {name: one for name, one in every.items() if rank in one[1]})
        for rank in range(ranks)
    ]
