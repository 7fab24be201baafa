"""Measured ceilings: what a GPU reached in `warpline bench`, from the files that it saved.

``warpline bench --save`` keeps one file per GPU model and benchmark in the user's data directory,
where ``warpline kernels`` finds them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from warpline.errors import InputError, UnsupportedVersionError

SCHEMA_VERSION = 1
BENCHMARKS = ("gemm", "copy", "launch")
_HINT = "save one with warpline bench gemm -o FILE.json"


class MeasuredCeilings(NamedTuple):
    """The best that was measured on one GPU.

    Attributes:
        gpu_name: Its CUDA device name.
        gpu_uuid: Its UUID, such as ``GPU-1a2b...``.
        flop_per_s: Of the fastest GEMM, by type: ``bf16``, ``fp32``.
        copy_bytes_per_s: Of the fastest copy, by kind: ``h2d-pinned``, ``d2d``. Copies within the
            L2 cache do not count. A device-to-device copy moves twice these bytes.
        launch_ns: Of the fastest launch on the CPU, by mode: ``back-to-back``, ``synchronized``;
            for ``graph``, per kernel on the GPU.
        flop_per_cycle: Of the GEMM with the most per cycle of the SMs, by type; without types that
            were measured without the clock. At a higher clock a GPU computes faster in proportion.
    """

    gpu_name: str
    gpu_uuid: str
    flop_per_s: Mapping[str, float]
    copy_bytes_per_s: Mapping[str, float]
    launch_ns: Mapping[str, float]
    flop_per_cycle: Mapping[str, float] = MappingProxyType({})


def measured_ceilings(*paths: Path | str) -> tuple[MeasuredCeilings, ...]:
    """Return the measured ceilings of each GPU, in the order of the files.

    Args:
        paths: Files of ``warpline bench ... -o FILE.json``, of any benchmarks and GPUs.

    Raises:
        InputError: A file cannot be read or is not such a file.
        UnsupportedVersionError: A file is from a newer version.
    """
    by_gpu: dict[str, MeasuredCeilings] = {}
    for path in map(Path, paths):
        facts = _read(path)
        try:
            _add(by_gpu, facts)
        except (KeyError, TypeError, AttributeError) as error:
            raise InputError(f"{path}: not a file of warpline bench", hint=_HINT) from error
    return tuple(by_gpu.values())


def saved_file(environ: Mapping[str, str], gpu_name: str, benchmark: str) -> Path | None:
    """Return the file in which results of a GPU model are kept; None without a home directory.

    Args:
        environ: The environment, for XDG_DATA_HOME and HOME.
        gpu_name: CUDA device name.
        benchmark: ``gemm``, ``copy`` or ``launch``.
    """
    data = environ.get("XDG_DATA_HOME", "")
    if not Path(data).is_absolute():  # of others, the specification says, nothing is kept
        home = environ.get("HOME", "")
        if not Path(home).is_absolute():
            return None
        data = f"{home}/.local/share"
    model = re.sub("[^a-z0-9]+", "-", gpu_name.lower()).strip("-")
    return Path(data, "warpline", "ceilings", f"{model}.{benchmark}.json")


def saved_files(environ: Mapping[str, str], gpu_name: str) -> list[Path]:
    """Return the files that are kept of a GPU model."""
    paths = [saved_file(environ, gpu_name, benchmark) for benchmark in BENCHMARKS]
    return [path for path in paths if path is not None and path.is_file()]


def _read(path: Path) -> Mapping[str, Any]:
    try:
        facts = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}", hint=_HINT) from error
    except ValueError as error:
        raise InputError(f"{path}: not JSON", hint=_HINT) from error
    if not isinstance(facts, dict) or "benchmark" not in facts:
        raise InputError(f"{path}: not a file of warpline bench", hint=_HINT)
    version = facts.get("schema_version")
    if version != SCHEMA_VERSION:
        raise UnsupportedVersionError(
            f"{path}: version {version} of its format, not {SCHEMA_VERSION}",
            hint="update Warpline, or measure again",
        )
    return facts


def _add(by_gpu: dict[str, MeasuredCeilings], facts: Mapping[str, Any]) -> None:
    """Add the rows of a file to the ceilings of its GPU."""
    gpu = facts["gpu"]
    none = MeasuredCeilings(gpu["name"], gpu["uuid"], {}, {}, {}, {})
    own = by_gpu.setdefault(gpu["uuid"], none)
    for into, values, better in {
        "gemm": ((own.flop_per_s, _gemms, max), (own.flop_per_cycle, _gemms_per_cycle, max)),
        "copy": ((own.copy_bytes_per_s, _copies, max),),
        "launch": ((own.launch_ns, _launches, min),),
    }[facts["benchmark"]]:
        _keep_best(into, values(facts["rows"]), better)


def _keep_best(
    into: Mapping[str, float],
    values: Iterator[tuple[str, float | None]],
    better: Callable[[float, float], float],
) -> None:
    assert isinstance(into, dict)  # of `_add`
    for name, value in values:
        if value is not None:
            into[name] = better(into.get(name, value), value)


def _gemms(rows: list[Mapping[str, Any]]) -> Iterator[tuple[str, float | None]]:
    return ((row["dtype"], row["flop_per_s"]) for row in rows)


def _gemms_per_cycle(rows: list[Mapping[str, Any]]) -> Iterator[tuple[str, float | None]]:
    for row in rows:
        clock = row.get("sm_clock_hz")  # absent in files of older versions
        yield row["dtype"], row["flop_per_s"] / clock if clock and row["flop_per_s"] else None


def _copies(rows: list[Mapping[str, Any]]) -> Iterator[tuple[str, float | None]]:
    return ((row["kind"], row["bytes_per_s"]) for row in rows if row["limit"] != "L2")


def _launches(rows: list[Mapping[str, Any]]) -> Iterator[tuple[str, float | None]]:
    for row in rows:
        yield row["mode"], row["kernel_ns" if row["mode"] == "graph" else "launch_ns"]
