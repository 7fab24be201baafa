"""Facts about the recording of an export: producer, time, command, and missing data."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from warpline.errors import UnsupportedVersionError
from warpline.estimate import Estimate
from warpline.frozen import frozen
from warpline.lazy import lazy, lazy_pattern
from warpline.readers.nsys.declared import Declared
from warpline.readers.nsys.export import Export, SourceTable
from warpline.schema.unrecorded import Code, Unrecorded
from warpline.trace import reservations
from warpline.trace.meta import TraceMeta

if TYPE_CHECKING:
    from warpline import redaction
else:
    redaction = lazy("warpline.redaction")

FORMAT = "nsys-sqlite"
# Overhead of nsys on the CPU per recorded call, fitted to programs that ran with and without it.
_CALL_COST_NS = Estimate(1_000, 2_000, 4_500)
META_TABLES = ("META_DATA_EXPORT", "EXPORT_META_DATA")
NEWEST_SCHEMA = (3, 25)

_PYTHON_SAMPLES = "PYTHON_BACKTRACE_SAMPLING_OPTIONS:COLLECT_SAMPLES"
_SYSTEM = "TARGET_INFO_SYSTEM_ENV"
_SOFTWARE = {
    "driver": "NvDriverVersion",
    "operating system": "OsDescription",
    "CPU": "CpuDescription",
}
_CUDA_VERSION = lazy_pattern(r"[0-9]{4,6}")

# Tables that describe others. They are read, or have no meaning on their own.
_DESCRIPTIVE = (
    "ENUM_",
    "META_DATA_",
    "EXPORT_META_DATA",
    "TARGET_INFO_",
    "ANALYSIS_",
    "NVTX_PAYLOAD_",
    "GENERIC_EVENT_",
    "ETW_PROVIDERS",
    "ETW_TASKS",
    "NIC_ID_MAP",
    "NET_IB_DEVICE_",
    "UnwindMethodType",
    "StringIds",
    "ProcessStreams",
    "PROCESSES",
    "ThreadNames",
)
_WARNING = 2  # the lowest severity of DIAGNOSTIC_EVENT that is a warning
_NOT_ALL = lazy_pattern(r"Not all (?P<kind>.+) events might have been collected\.")
# Harmless: CPU scheduling was not traced.
_HARMLESS = lazy_pattern(r"Scheduling information is absent\.")
# Reported at a lower severity, although events are missing.
_GRAVE = lazy_pattern(r"incompatible", re.IGNORECASE)
_ERROR = 3
_IMPORT = lazy_pattern(r"\bimport|wrong event order|event collection|analysisfailed", re.IGNORECASE)
_ABOUT_CUDA = lazy_pattern(r"cuda|cupti|\bgpu\b", re.IGNORECASE)
_FAILED = lazy_pattern(r"fail|error|could not|unable|cannot|wrong", re.IGNORECASE)
# Long errors are lists of properties, of which one is the text.
_ERROR_TEXT = lazy_pattern(r'ErrorText\W+Value:\s*"(?P<text>[^"\\]+)')
_CUDA_TABLES = ("CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_RUNTIME")
_SHOWN = 300  # characters of an error
_KINDS = r"[\w /().-]*?(?:events?|records?|samples?)"
_GONE = r"(?:lost|dropped|discarded)"
_LONGEST = 1000  # characters searched in a message, because the patterns take quadratic time
_LOSSES = (
    lazy_pattern(rf"\b{_GONE} (?P<count>\d+) (?P<what>{_KINDS})\b", re.IGNORECASE),
    lazy_pattern(rf"\b(?P<count>\d+) (?P<what>{_KINDS}) (?:were|was|are) {_GONE}", re.IGNORECASE),
    lazy_pattern(rf"\b(?P<what>{_KINDS}) \((?P<count>\d+)\) (?:were lost|could not be stored)"),
    lazy_pattern(rf"\b(?P<what>{_KINDS}) {_GONE}:\s*(?P<count>\d+)", re.IGNORECASE),
)


@frozen
class Facts:
    """Facts that do not depend on the requested tables.

    Attributes:
        meta: All facts except the unread and damaged tables.
        captured: Kinds of events selected for recording: ``Cuda``, ``NvtxEvents``,
            ``OSRuntime``...; None if the export does not state them.
        is_lazy: Whether the export omits tables without rows.
        samples_python: Whether Python stacks were sampled.
    """

    meta: TraceMeta
    captured: frozenset[str] | None
    is_lazy: bool
    samples_python: bool


def read_facts(export: Export, declared: Declared) -> Facts:
    """Read the facts of an export. Raises UnsupportedVersionError for an unknown major version."""
    exported = _values(export, next((t for t in META_TABLES if export.has(t)), META_TABLES[0]))
    captured = _values(export, "META_DATA_CAPTURE")
    version = _first(exported, "EXPORT_SCHEMA_VERSION")
    path = export.database.path
    noted = reservations.from_pairs(captured)
    not_imported = _not_imported(export)
    said = [
        *_version_warnings(str(path), version),
        *_cut(export),
        *(cause.text for cause in not_imported),
        *_said(export, {cause.parameter for cause in not_imported}),
    ]
    meta = TraceMeta(
        paths=(path,),
        format=FORMAT,
        call_cost_ns=_CALL_COST_NS,
        producer=_producer(exported),
        format_version=version,
        command=_command(captured),
        host=declared.host,
        software=_software(export),
        origin_utc_ns=_number(export, "TARGET_INFO_SESSION_START_TIME", "utcEpochNs"),
        span_ns=_span(export),
        windows_ns=noted["windows_ns"],
        lost={**_losses(text for _, text in _diagnostics(export)), **noted["lost"]},
        warnings=tuple(dict.fromkeys((*said, *noted["warnings"]))),
        unrecorded=not_imported,
    )
    kinds = captured.get("CAPTURE_EVENT_TYPE")
    is_lazy = _first(exported, "EXPORT_LAZY") != "false"
    samples_python = _first(captured, _PYTHON_SAMPLES) == "true"
    return Facts(meta, None if kinds is None else frozenset(kinds), is_lazy, samples_python)


def unread_tables(export: Export, mapped: Iterable[str]) -> dict[str, int]:
    """Return the nonempty tables that are not read."""
    known = {name.lower() for name in mapped}
    return {
        name: count
        for name in export.database.tables
        if name.lower() not in known and not name.startswith(_DESCRIPTIVE)
        for count in (export.row_count(name),)
        if count
    }


def _values(export: Export, name: str) -> dict[str, list[str]]:
    """Return a table of names and values; a name may repeat."""
    table = SourceTable.facts(export, name, texts=["name", "value"])
    values: dict[str, list[str]] = {}
    for key, value in zip(table.strings("name"), table.strings("value"), strict=True):
        values.setdefault(key or "", []).append(value or "")
    return values


def _software(export: Export) -> dict[str, str]:
    """Return the versions of the driver and the operating system, and the CPU."""
    values = _values(export, _SYSTEM)
    known = {name: _first(values, key) for name, key in _SOFTWARE.items()}
    version = _first(values, "CudaDriverVersion") or ""
    if _CUDA_VERSION.fullmatch(version):
        known["CUDA"] = f"{int(version) // 1000}.{int(version) % 1000 // 10}"
    return {name: text[:_SHOWN] for name, text in known.items() if text}


def _first(values: Mapping[str, Sequence[str]], key: str) -> str | None:
    return next(iter(values.get(key, ())), None)


def _version_warnings(path: str, version: str | None) -> list[str]:
    parts = [int(part) for part in re.findall(r"\d+", version or "")[:2]]
    if len(parts) < 2 or tuple(parts) <= NEWEST_SCHEMA:
        return []
    if parts[0] > NEWEST_SCHEMA[0]:
        newest = ".".join(map(str, NEWEST_SCHEMA))
        raise UnsupportedVersionError(
            f"{path}: unsupported schema {version}; the newest supported one is {newest}",
            hint="update Warpline, or export the report with an older nsys",
        )
    return [
        f"the export's schema {version} is newer than this Warpline. New columns are not shown."
    ]


def _cut(export: Export) -> list[str]:
    missing = export.database.missing_bytes
    return [f"the file is truncated: its last {missing:,} bytes are missing"] if missing else []


def _producer(exported: Mapping[str, Sequence[str]]) -> str | None:
    """Return the product that wrote the export, with three parts of its version."""
    product = _first(exported, "EXPORT_PRODUCT_NAME")
    version = _first(exported, "EXPORT_PRODUCT_VERSION") or ""
    if product is None:
        return None
    return " ".join((product.removeprefix("NVIDIA "), ".".join(version.split(".")[:3]))).strip()


def _command(captured: Mapping[str, Sequence[str]]) -> str | None:
    """Return the command lines of the launched processes. Warpline's exports hold them redacted."""
    kept = _first(captured, reservations.COMMAND)
    if kept is not None:
        return kept
    commands = []
    for key in captured:
        process = re.fullmatch(r"(PROCESS_\d+):COMMAND", key)
        if process:
            is_argument = re.compile(rf"{process[1]}:ARGUMENT_(\d+)")
            numbered = [
                (match, name) for name in captured if (match := is_argument.fullmatch(name))
            ]
            ordered = [name for _, name in sorted(numbered, key=lambda item: int(item[0][1]))]
            words = [captured[name][0] for name in (key, *ordered)]
            commands.append(redaction.join_command(redaction.redact_command(words)))
    return "; ".join(commands) or None


def _number(export: Export, table: str, column: str) -> int | None:
    return next(iter(SourceTable.facts(export, table, [column]).numbers(column)), None)


def _span(export: Export) -> tuple[int, int] | None:
    duration = _number(export, "ANALYSIS_DETAILS", "duration")
    return None if duration is None or duration <= 0 else (0, duration)


def _diagnostics(export: Export) -> list[tuple[int, str]]:
    table = SourceTable.facts(export, "DIAGNOSTIC_EVENT", ["severity"], ["text"])
    rows = zip(table.numbers("severity"), table.strings("text"), strict=True)
    return [(severity or 0, text) for severity, text in rows if text]


def _not_imported(export: Export) -> tuple[Unrecorded, ...]:
    """Return the errors for which nsys left out all CUDA events."""
    if any(export.row_count(table) for table in _CUDA_TABLES):
        return ()
    errors = [
        _brief(text)
        for severity, text in _diagnostics(export)
        if _IMPORT.search(text[:_LONGEST])
        and (severity == _ERROR or _FAILED.search(text[:_LONGEST]))
    ]
    # An import that fails as a whole names no API.
    about = [text for text in errors if _ABOUT_CUDA.search(text)] or errors
    causes = (Unrecorded("cuda", Code.NOT_IMPORTED, text) for text in about)
    return tuple(dict.fromkeys(causes))[:1]


def _brief(text: str) -> str:
    """Return the text of an error, without what is around it."""
    inside = _ERROR_TEXT.search(text)
    line = (inside["text"] if inside else text).strip().partition("\n")[0]
    return line[:_SHOWN].strip().rstrip(".:")


def _said(export: Export, known: Container[str] = ()) -> list[str]:
    """Return the producer's warnings except known errors, each sentence once."""
    said, not_all = [], []
    for severity, text in _diagnostics(export):
        if _brief(text) in known:
            continue
        partial = _NOT_ALL.fullmatch(text)
        is_warning = severity in (_WARNING, _WARNING + 1) or _GRAVE.search(text)
        if partial:
            not_all.append(partial["kind"])
        elif is_warning and not _HARMLESS.match(text) and not _loss(text):
            said.append(text)
    if not_all:
        kinds = ", ".join(dict.fromkeys(not_all))
        said.append(f"Not all events of these kinds might have been collected: {kinds}.")
    return list(dict.fromkeys(said))


def _losses(texts: Iterable[str]) -> dict[str, int | None]:
    """Return the counts of dropped events, by the producer's names for them."""
    losses: dict[str, int | None] = {}
    for text in texts:
        loss = _loss(text)
        if loss:
            losses[loss[0]] = (losses.get(loss[0]) or 0) + loss[1]
    return losses


def _loss(text: str) -> tuple[str, int] | None:
    match = next((match for form in _LOSSES if (match := form.search(text[:_LONGEST]))), None)
    return (match["what"].strip(), int(match["count"])) if match and int(match["count"]) else None
