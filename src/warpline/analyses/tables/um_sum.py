"""um_sum: migrations and page faults of unified memory, by page."""

from __future__ import annotations

import numpy as np

from warpline.derived.memory.pages import CPU_FAULTS, GPU_FAULTS, HINT, address_text, pages
from warpline.derived.summaries.throughput import throughput
from warpline.derived.texts import labelled
from warpline.errors import UsageError
from warpline.ops.arrays import I64
from warpline.result import Arguments, Field, Numbers, Result, Skipped, Values, analysis
from warpline.trace import Trace
from warpline.units import Unit

NAME = "um_sum"
TITLE = "Unified memory analysis summary"
FIELDS = (
    Field("virtual_address", Unit.NONE, "First address of the pages.", "Virtual Address"),
    Field(
        "to_device_bytes",
        Unit.BYTES,
        "Bytes migrated from host to GPU.",
        "HtoD Migration size (MB)",
        1e-6,
        3,
    ),
    Field(
        "to_host_bytes",
        Unit.BYTES,
        "Bytes migrated from GPU to host.",
        "DtoH Migration size (MB)",
        1e-6,
        3,
    ),
    Field("cpu_page_faults", Unit.COUNT, "Page faults of the CPU.", "CPU Page Faults"),
    Field("gpu_page_faults", Unit.COUNT, "Page faults of GPUs.", " GPU Page Faults"),
    Field(
        "throughput_bytes_per_s",
        Unit.BYTES_PER_S,
        "Bytes migrated per second of migration.",
        "Migration Throughput (MB/s)",
        1e-6,
        3,
    ),
)


@analysis(
    name=NAME,
    title=TITLE,
    fields=FIELDS,
    needs=("memcpy", CPU_FAULTS, GPU_FAULTS),
    arguments={"rows": "rows=N: list the first N pages."},
    missing_hint=HINT,
)
def um_sum(trace: Trace, arguments: Arguments) -> Result | Skipped:
    """Migrations and page faults of unified memory, by address.

    What it measures: For each address: bytes migrated in both directions, page faults of the CPU
        and of GPUs, and the rate of the migrations.
    Why it matters: Pages that migrate back and forth, or in small pieces, cost more time than a
        prefetch of the whole block.
    How it is computed: Migrations and page faults that name the same address, by throughput. An
        address is the first one of the pages that migrate together, and the page's own for a
        fault. In text and CSV, 1 MB is 10**6 bytes. As in nsys, throughput is bytes times the whole
        number of such migrations per second, and so up to 2% low. For more than 20 ms, it is bytes
        divided by time.
    Limits: Migrations between GPUs are not counted. Processes that use the same address share a
        row. Page faults are only recorded with --cuda-um-cpu-page-faults and
        --cuda-um-gpu-page-faults.
    Source: Columns and order of `nsys stats -r um_sum`, which lists ten rows unless `rows` says
        otherwise.
    """
    found = pages(trace)
    if not len(found):
        return Skipped(NAME, "no unified memory was used, or it was not recorded", HINT)
    rate = throughput(found.to_device_bytes + found.to_host_bytes, found.moving_ns)
    has_rate = np.ones(len(found), np.bool_) if rate.valid is None else rate.valid
    order = np.lexsort((found.address, -rate.values, ~has_rate))[: _limit(arguments)]
    addresses = [address_text(address) for address in found.address[order].tolist()]
    columns: dict[str, Values] = {
        "virtual_address": labelled(np.arange(len(order)), addresses, found.is_known[order]),
        "to_device_bytes": _where_any(found.to_device_bytes[order]),
        "to_host_bytes": _where_any(found.to_host_bytes[order]),
        "cpu_page_faults": _where_any(found.cpu_faults[order]),
        "gpu_page_faults": _where_any(found.gpu_faults[order]),
        "throughput_bytes_per_s": Numbers(rate.values[order], has_rate[order]),
    }
    name = ":".join((NAME, *arguments))
    return Result(name, TITLE, FIELDS, columns, ("virtual_address",))


def _where_any(values: I64) -> Numbers:
    return Numbers(values, values > 0)


def _limit(arguments: Arguments) -> int | None:
    """Return how many pages to list, None for all."""
    named = [text.partition("=")[2] for text in arguments if text.startswith("rows=")]
    if not named:
        return None
    text = named[-1]
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise UsageError(f"{text!r} is not a number of rows", hint="use for example um_sum:rows=10")
    return int(text)
