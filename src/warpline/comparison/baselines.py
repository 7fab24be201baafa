"""Baselines: a folder of summaries by name, one JSON file each, to be committed or cached."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from warpline.comparison.summary import MOST_KERNELS, Summary, thinned
from warpline.errors import CorruptTraceError, InputError, UnsupportedVersionError, UsageError
from warpline.files import cannot_write, complete_file
from warpline.result.diagnosis import SEVERITIES

SCHEMA_VERSION = 1
FOLDER = ".warpline-baselines"
SUFFIX = ".json"
_MOST_BYTES = 4 << 20
_MOST = 2.0**63  # nanoseconds are 292 years; squares of larger numbers may overflow
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,99}")
_AGAIN = "save the baseline again: warpline baseline save NAME RECORDING..."
T = TypeVar("T")


def path_of(folder: Path, name: str) -> Path:
    """Return the file of a baseline.

    Raises:
        UsageError: The name does not fit into a file name.
    """
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} is not a name for a baseline",
            hint="use letters, digits and . _ @ + -, such as main or main-h100",
        )
    return folder / f"{name}{SUFFIX}"


def save(folder: Path, name: str, summary: Summary, *, overwrite: bool = False) -> Path:
    """Write a baseline and return its file.

    Raises:
        UsageError: It exists, or the name does not fit.
        InputError: It cannot be written.
    """
    path = path_of(folder, name)
    if path.exists() and not overwrite:
        raise UsageError(
            f"baseline {name} already exists in {folder}",
            hint="use --force-overwrite to replace it",
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write(folder, error) from error
    with complete_file(path) as unfinished:
        unfinished.write_text(dumps(summary), encoding="utf-8", newline="\n")
    return path


def load(folder: Path, name: str) -> Summary:
    """Read a baseline by name.

    Raises:
        UsageError: There is none of this name.
        InputError: It is damaged, too large, or newer than this version.
    """
    path = path_of(folder, name)
    if not path.exists():
        known = ", ".join(names(folder))
        raise UsageError(
            f"there is no baseline {name} in {folder}",
            hint=f"saved baselines: {known}"
            if known
            else f"warpline baseline save {name} RECORDING...",
        )
    return read(path)


def remove(folder: Path, name: str) -> Path:
    """Delete a baseline and return the file it had.

    Raises:
        UsageError: There is none of this name.
        InputError: It cannot be deleted.
    """
    path = path_of(folder, name)
    try:
        path.unlink()
    except FileNotFoundError:
        raise UsageError(
            f"there is no baseline {name} in {folder}", hint="warpline baseline list"
        ) from None
    except OSError as error:
        raise cannot_write(path, error) from error
    return path


def names(folder: Path) -> list[str]:
    """Return the names of the baselines of a folder, in alphabetical order."""
    try:
        found = [path.name.removesuffix(SUFFIX) for path in folder.glob(f"*{SUFFIX}")]
    except OSError:
        return []
    return sorted(name for name in found if _NAME.fullmatch(name))


def is_baseline(path: Path) -> bool:
    """Return whether the content of a file begins as that of a baseline does."""
    try:
        with path.open("rb") as file:
            return b'"schema_version"' in file.read(64)
    except OSError:
        return False


def read(path: Path) -> Summary:
    """Read a file that `save` wrote.

    Raises:
        InputError: It cannot be read, is damaged, too large, or newer than this version.
    """
    try:
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise InputError(
            f"{path}: {error.strerror or error}", hint="name a readable file"
        ) from error
    if len(data) > _MOST_BYTES:
        raise CorruptTraceError(
            f"{path}: larger than {_MOST_BYTES >> 20} MiB, so not a baseline", hint=_AGAIN
        )
    try:
        return loads(data)
    except UnsupportedVersionError as error:
        raise UnsupportedVersionError(f"{path}: {error.message}", hint=error.hint) from None
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else error
        raise CorruptTraceError(f"{path}: not a baseline: {reason}", hint=_AGAIN) from None


def dumps(summary: Summary) -> str:
    """Return the text of a baseline: one line for each run and each number of the runs."""
    kept = thinned(summary)
    content = {
        "schema_version": SCHEMA_VERSION,
        "title": kept.title,
        "recorded_utc": kept.recorded_utc,
        "source": kept.source,
        "recordings": list(kept.recordings),
        "step_ns": [[max(round(ns), 1) for ns in steps] for steps in kept.step_ns],
        "parts_ns": _rounded(kept.parts_ns),
        "kernels_ns": _rounded(kept.kernels_ns),
        "operations": [round(count, 1) for count in kept.operations],
        "memory_peak_bytes": [round(peak) for peak in kept.memory_peak_bytes],
        "findings": dict(sorted(kept.findings.items())),
        "environment": dict(sorted(kept.environment.items())),
    }
    return _text(content, "") + "\n"


def _rounded(values: Mapping[str, tuple[float, ...]]) -> dict[str, list[int]]:
    return {name: [round(ns) for ns in values[name]] for name in sorted(values)}


def _text(value: Any, indent: str) -> str:
    """Return JSON with a line for each innermost list."""
    inner = indent + "  "
    if isinstance(value, dict) and value:
        parts = [f"{inner}{_plain(name)}: {_text(item, inner)}" for name, item in value.items()]
        return "{\n" + ",\n".join(parts) + f"\n{indent}}}"
    if isinstance(value, list) and value and isinstance(value[0], list):
        return "[\n" + ",\n".join(inner + _text(item, inner) for item in value) + f"\n{indent}]"
    return _plain(value)


def _plain(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def loads(data: bytes) -> Summary:
    """Return the summary that `dumps` wrote.

    Raises:
        ValueError: It is damaged.
        UnsupportedVersionError: It is newer than this version of Warpline.
    """
    content = json.loads(data.decode("utf-8"), parse_constant=_refuse)
    if not isinstance(content, dict) or not isinstance(content.get("schema_version"), int):
        raise ValueError("there is no schema_version")  # noqa: TRY004 - damaged, not a bug
    if content["schema_version"] > SCHEMA_VERSION:
        raise UnsupportedVersionError(
            f"schema_version {content['schema_version']} is newer than {SCHEMA_VERSION}",
            hint="update Warpline",
        )
    steps = _item(content, "step_ns", lambda value: [_numbers(run) for run in _list(value)])
    if not steps or any(not run or min(run) < 1 for run in steps):
        raise ValueError("step_ns: every run needs steps, of at least 1 ns")

    def per_run(value: Any) -> tuple[float, ...]:
        numbers = _numbers(value)
        if len(numbers) != len(steps):
            raise ValueError(f"{len(numbers)} numbers for {len(steps)} runs")
        return numbers

    def columns(value: Any) -> dict[str, tuple[float, ...]]:
        return {name: per_run(item) for name, item in _dict(value).items()}

    kernels_ns = _item(content, "kernels_ns", columns)
    return Summary(
        title=_item(content, "title", _string),
        recorded_utc=_item(content, "recorded_utc", _string),
        source=_item(content, "source", _string),
        recordings=_item(content, "recordings", _strings),
        step_ns=tuple(steps),
        parts_ns=_item(content, "parts_ns", columns),
        kernels_ns=kernels_ns,
        operations=per_run(content["operations"]) if content.get("operations") else (),
        has_all_kernels=len(kernels_ns) < MOST_KERNELS,
        memory_peak_bytes=_item(
            content, "memory_peak_bytes", lambda value: per_run(value) if value else ()
        ),
        findings=_item(
            content,
            "findings",
            lambda value: {rule: _severity(item) for rule, item in _dict(value).items()},
        ),
        environment=_item(
            content,
            "environment",
            lambda value: {name: _string(item) for name, item in _dict(value).items()},
        ),
    )


def _item(content: Mapping[str, Any], name: str, parse: Callable[[Any], T]) -> T:
    if name not in content:
        raise ValueError(f"there is no {name}")
    try:
        return parse(content[name])
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def _numbers(value: Any) -> tuple[float, ...]:
    numbers = _list(value)
    for number in numbers:
        if type(number) not in {int, float} or not 0 <= number < _MOST:
            raise ValueError(f"expected a number from 0 to 2**63, not {_short(number)}")
    return tuple(map(float, numbers))


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError(f"expected a list, not {_short(value)}")  # noqa: TRY004
    return value


def _dict(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"expected an object, not {_short(value)}")  # noqa: TRY004
    return value


def _string(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"expected a text, not {_short(value)}")  # noqa: TRY004
    return value


def _strings(value: Any) -> tuple[str, ...]:
    return tuple(_string(item) for item in _list(value))


def _severity(value: Any) -> Any:
    if value not in SEVERITIES:
        raise ValueError(f"unknown severity {_short(value)}")
    return value


def _short(value: Any) -> str:
    text = repr(value) if not isinstance(value, int) or abs(value) < 1e15 else "a huge number"
    return text if len(text) <= 40 else f"{text[:40]}..."


def _refuse(text: str) -> float:
    raise ValueError(f"{text} is not a number")
