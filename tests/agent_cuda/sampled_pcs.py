"""Sampled program counters of a session's logs, and those that the fake takes of a kernel."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from agent_cuda import cuda_logs as logs

PERIOD = 14  # 2^14 cycles
INSTRUCTIONS = 3  # of a kernel that are sampled
CHECKSUMS = 0xC0DE0000  # of module 0; the others follow


class Place(NamedTuple):
    """An instruction and a stall reason."""

    device: int
    module: int
    function: str
    offset: int
    stall: str


Samples = dict[Place, tuple[int, int]]  # all, and those without an issue


def keys(**more: Any) -> dict[str, Any]:
    """Return the keys of agent.conf to sample, without a timeline."""
    nothing = ("kernel", "memcpy", "memset", "sync", "event", "overhead")
    silent = {f"cuda_{kind}": 0 for kind in nothing} | {"cuda_api": "none"}
    return silent | {"pc_sampling": PERIOD} | more


def of_launch(number: int, grid: int = 1, *, device: int = 1) -> Samples:
    """Return the samples of a launch: the rule that fake_pc_sampling.cpp states."""
    name = f"kernel{number}"
    symbol = f"_Z{len(name)}{name}Pf"
    found = {}
    for j in range(INSTRUCTIONS):
        place = (device, number // 10, symbol, 16 * j)
        found[Place(*place, "long_scoreboard")] = (grid * (j + 1), grid * j)
        found[Place(*place, "selected")] = (grid, 0)
    return found


def added(parts: Iterable[Samples]) -> Samples:
    """Add samples up."""
    samples: Counter[Place] = Counter()
    idle: Counter[Place] = Counter()
    for part in parts:
        for place, (all_of_them, not_issued) in part.items():
            samples[place] += all_of_them
            idle[place] += not_issued
    return {place: (samples[place], idle[place]) for place in samples}


def read(folder: Path) -> Samples:
    """Return the samples of all processes, added up."""
    found = [
        {
            Place(one.device, one.checksum - CHECKSUMS, one.function, one.offset, one.stall): (
                one.samples,
                one.not_issued,
            )
        }
        for one in logs.found(folder, logs.PC_SAMPLE)
    ]
    return added(found)


def sums(folder: Path) -> dict[int, dict[str, int]]:
    """Return the sums of each device: total, dropped, non_user, left_out, is_full."""
    found: dict[int, Counter[str]] = {}
    for one in logs.found(folder, logs.PC_SAMPLING):
        assert one.period == 1 << PERIOD
        part = found.setdefault(one.device, Counter())
        for name in ("total", "dropped", "non_user", "left_out", "is_full"):
            part[name] += one.fields[name]
    return {device: dict(part) for device, part in found.items()}


def modules(folder: Path) -> dict[int, bytes]:
    """Return the code that is kept, by module; nothing else may be in that directory."""
    found = {}
    for path in (folder / "cubins").iterdir():
        assert path.suffix == ".cubin", path
        assert len(path.stem) == 16
        found[int(path.stem, 16) - CHECKSUMS] = path.read_bytes()
    return found
