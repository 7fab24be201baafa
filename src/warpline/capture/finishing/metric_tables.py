"""Tables of the GPU metrics that were sampled beside the program, and the warnings about them."""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from warpline.capture.finishing.draft import Made
from warpline.capture.finishing.health_tables import device_of, devices_of
from warpline.capture.finishing.raw_session import RawSession
from warpline.capture.finishing.told import INFO, WARNING, Diagnostic, Told
from warpline.capture.session.sample_file import NAME, Block, GpuSamples, path_of, read_samples
from warpline.units import format_ns, plural

_DRIFT_NS = 50_000_000  # less may come from load
_MOST_METRICS = 1 << 10
_LONGEST_NAME = 1000
_FAR_NS = 1 << 61
_MOST_ROWS = (1 << 31) - 1


def make_metrics(folder: Path, session: RawSession, told: Told, origin_ns: int) -> dict[str, Made]:
    """Return the tables that the file of samples of a sealed session gives.

    GPUs that the program did not use are left out. Times are relative to `origin_ns`, a monotonic
    time.
    """
    try:
        found = read_samples(folder)
    except OSError as error:
        told.warnings.append(f"{NAME} could not be read: {error.strerror}")
        return {}
    if found is None:
        if path_of(folder).is_file():
            told.warnings.append("GPU metrics were not sampled: the process for it did not start")
        return {}
    if found.damaged:
        told.warnings.append(f"{NAME}: the last samples are incomplete")
    numbers = devices_of(session)
    used: dict[int, GpuSamples] = {}
    labels: dict[int, str] = {}
    unused = 0
    for number, gpu in found.gpus.items():
        row = next(iter(device_of([gpu.facts], numbers).values()), None)
        labels[number] = f"{number} of nvidia-smi" if row is None else str(row)
        if row is None:
            unused += bool(gpu.blocks or gpu.values)
        else:
            used[row] = gpu
    _tell_obstacles(found.gpus, labels, told)
    if unused:
        told.warnings.append(
            f"metrics of {plural(unused, 'GPU')} are left out: the program did not use"
            f" {'it' if unused == 1 else 'them'} (--gpu-metrics-devices=cuda-visible samples less)"
        )
    for row, gpu in used.items():
        _tell_samples(row, gpu, told, origin_ns)
    return _tables(used, session, told, origin_ns)


def _tables(
    gpus: Mapping[int, GpuSamples], session: RawSession, told: Told, origin_ns: int
) -> dict[str, Made]:
    names: dict[str, int] = {}
    blocks: list[tuple[int, int, int, int, Block]] = []
    values: list[tuple[int, int, int, float]] = []
    for row, gpu in gpus.items():
        metrics = [names.setdefault(name, len(names)) for name in _metrics(gpu.facts)]
        for block in gpu.blocks:
            is_right = block.metric < len(metrics) and math.isfinite(block.scale)
            if is_right and -_FAR_NS < block.start_ns <= block.end_ns < _FAR_NS:
                metric = metrics[block.metric]
                blocks.append((block.start_ns, block.end_ns, row, metric, block))
        for time_ns, found in gpu.values:
            if abs(time_ns) < _FAR_NS:
                pairs = zip(metrics, found, strict=False)
                values += [(time_ns, row, metric, v) for metric, v in pairs if math.isfinite(v)]
    if not blocks and not values:
        return {}
    made = {
        "metric": Made(
            len(names),
            {"name_id": (array("i", map(session.intern, names)).tobytes(), None)},
        )
    }
    if blocks:
        blocks.sort(key=lambda each: each[:4])
        made |= _block_tables(blocks, told, origin_ns)
    if values:
        values.sort()
        times, rows, of_metric, numbers = zip(*values, strict=True)
        made["counter"] = Made(
            len(values),
            {
                "time_ns": (array("q", [ns - origin_ns for ns in times]).tobytes(), None),
                "device_id": (array("i", rows).tobytes(), None),
                "metric_id": (array("i", of_metric).tobytes(), None),
                "value": (array("d", numbers).tobytes(), None),
            },
        )
    return made


def _block_tables(
    blocks: list[tuple[int, int, int, int, Block]], told: Told, origin_ns: int
) -> dict[str, Made]:
    first, has_codes = array("i"), bytearray()
    codes: list[bytes | memoryview] = []
    count = 0
    for place, (*_, block) in enumerate(blocks):
        if count + block.samples > _MOST_ROWS:
            del blocks[place:]
            told.warnings.append(
                f"GPU metrics end early: a table is limited to {_MOST_ROWS:,} rows; sample a"
                " shorter part of the run, or use a lower --gpu-metrics-frequency"
            )
            break
        first.append(count if block.codes else 0)
        has_codes.append(bool(block.codes))
        if block.codes:
            codes.append(block.codes)
            count += block.samples
    starts, ends, rows, metrics, stored = zip(*blocks, strict=True)
    columns = {
        "start_ns": array("q", [ns - origin_ns for ns in starts]),
        "end_ns": array("q", [ns - origin_ns for ns in ends]),
        "device_id": array("i", rows),
        "metric_id": array("i", metrics),
        "samples": array("q", [block.samples for block in stored]),
        "scale": array("d", [block.scale for block in stored]),
    }
    packed = {name: (column.tobytes(), None) for name, column in columns.items()}
    return {
        "counter_block": Made(
            len(blocks), {**packed, "first_code_id": (first.tobytes(), bytes(has_codes))}
        ),
        "counter_code": Made(count, {"code": (codes, None)}),
    }


def _metrics(facts: Mapping[str, Any]) -> list[str]:
    names = facts.get("metrics")
    found = names[:_MOST_METRICS] if isinstance(names, list) else []
    return [name[:_LONGEST_NAME] if isinstance(name, str) else "" for name in found]


def _tell_obstacles(gpus: Mapping[int, GpuSamples], labels: Mapping[int, str], told: Told) -> None:
    """Warn about GPUs that were not sampled, and say what was read instead."""
    alike: dict[tuple[str, str, bool], list[str]] = {}
    for number, gpu in sorted(gpus.items()):
        cause, cure = gpu.facts.get("cause"), gpu.facts.get("cure")
        if isinstance(cause, str) and isinstance(cure, str) and not gpu.blocks:
            is_read = gpu.facts.get("source") == "gpm"
            alike.setdefault((cause, cure, is_read), []).append(labels[number])
    for (cause, cure, is_read), which_ones in alike.items():
        which = f" of GPU {', '.join(which_ones)}" if len(which_ones) < len(gpus) else ""
        instead = " NVML was read 10 times a second instead." if is_read else ""
        told.warnings.append(f"GPU metrics{which} were not sampled: {cause}; {cure}.{instead}")


def _tell_samples(row: int, gpu: GpuSamples, told: Told, origin_ns: int) -> None:
    """Add how a GPU was sampled, and warnings about what is missing."""
    facts = gpu.facts
    if not gpu.blocks:
        return
    first, last = gpu.blocks[0].start_ns, max(block.end_ns for block in gpu.blocks)
    hz = _number(facts, "hz")
    cores = _number(facts, "cpu_ns") / max(last - first, 1)
    names = _metrics(facts)
    text = (
        f"GPU {row}: {plural(len(names), 'metric')} sampled {hz:,.0f} times a second (set"
        f" {facts.get('set')}), from {format_ns(first - origin_ns)} to"
        f" {format_ns(last - origin_ns)}"
    )
    if cores:
        text += f"; the process for it used {cores:.2f} CPU cores"
    told.add(Diagnostic(first, INFO, text, 0))
    left_out = facts.get("left_out")
    if isinstance(left_out, dict) and left_out:
        missing = ", ".join(f"{name} ({why})" for name, why in left_out.items())
        told.add(Diagnostic(first, INFO, f"GPU {row}: not sampled: {missing}", 0))
    lost = round(_number(facts, "missing_ns") * hz / 1e9)
    if lost:
        share = _number(facts, "missing_ns") / max(last - first, 1)
        told.warnings.append(
            f"{plural(lost, 'sample')} of the metrics of GPU {row} were dropped"
            f" ({share:.1%} of the time): use a lower --gpu-metrics-frequency"
        )
    if not facts.get("is_complete"):
        why = facts.get("failure") or facts.get("cause") or "the process for it was killed"
        after = format_ns(last - origin_ns)
        told.add(Diagnostic(last, WARNING, f"metrics of GPU {row} end after {after}: {why}", 0))
    lags: Any = facts.get("lags_ns")
    are_known = isinstance(lags, list) and [type(lag) for lag in lags] == [int, int]
    drift_ns = abs(lags[1] - lags[0]) if are_known else 0
    if drift_ns > _DRIFT_NS + 2e9 / max(hz, 1):
        told.warnings.append(f"times of the metrics of GPU {row} drifted by {format_ns(drift_ns)}")


def _number(facts: Mapping[str, Any], name: str) -> float:
    found = facts.get(name)
    return float(found) if isinstance(found, int | float) and math.isfinite(found) else 0.0
