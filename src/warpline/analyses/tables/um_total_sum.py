"""um_total_sum: migrations and page faults of unified memory in total."""

from __future__ import annotations

import numpy as np

from warpline.derived.memory.pages import CPU_FAULTS, GPU_FAULTS, HINT, address_text, pages
from warpline.ops.arrays import I64
from warpline.result import Arguments, Field, Numbers, Result, Skipped, Texts, Values, analysis
from warpline.trace import Trace
from warpline.units import Unit

NAME = "um_total_sum"
TITLE = "Unified memory totals summary"
FIELDS = (
    Field(
        "to_device_bytes",
        Unit.BYTES,
        "Bytes migrated from host to GPU.",
        "Total HtoD Migration Size (MB)",
        1e-6,
        3,
    ),
    Field(
        "to_host_bytes",
        Unit.BYTES,
        "Bytes migrated from GPU to host.",
        "Total DtoH Migration Size (MB)",
        1e-6,
        3,
    ),
    Field("cpu_page_faults", Unit.COUNT, "Page faults of the CPU.", "Total CPU Page Faults"),
    Field("gpu_page_faults", Unit.COUNT, "Page faults of GPUs.", "Total GPU PageFaults"),
    Field("lowest_address", Unit.NONE, "Lowest address.", "Minimum Virtual Address"),
    Field("highest_address", Unit.NONE, "Highest address.", "Maximum Virtual Address"),
)


@analysis(
    name=NAME,
    title=TITLE,
    fields=FIELDS,
    needs=("memcpy", CPU_FAULTS, GPU_FAULTS),
    missing_hint=HINT,
)
def um_total_sum(trace: Trace, arguments: Arguments) -> Result | Skipped:
    """Migrations and page faults of unified memory in total.

    What it measures: Bytes that migrated in both directions, page faults of the CPU and of GPUs,
        and the range of their addresses.
    Why it matters: Each page fault blocks a kernel or a CPU thread until the page has migrated.
    How it is computed: Sums over um_sum. In text and CSV, 1 MB is 10**6 bytes.
    Limits: Same as um_sum. Page faults of a kind that was not recorded are empty.
    Source: Columns of `nsys stats -r um_total_sum`.
    """
    found = pages(trace)
    if not len(found):
        return Skipped(NAME, "no unified memory was used, or it was not recorded", HINT)
    known = found.address[found.is_known]
    columns: dict[str, Values] = {
        "to_device_bytes": _total(found.to_device_bytes),
        "to_host_bytes": _total(found.to_host_bytes),
        "cpu_page_faults": _total(found.cpu_faults, is_there=trace.has(CPU_FAULTS)),
        "gpu_page_faults": _total(found.gpu_faults, is_there=trace.has(GPU_FAULTS)),
        "lowest_address": _address(known[:1]),
        "highest_address": _address(known[-1:]),
    }
    return Result(NAME, TITLE, FIELDS, columns)


def _total(values: I64, *, is_there: bool = True) -> Numbers:
    return Numbers(np.array([values.sum()]), None if is_there else np.array([False]))


def _address(address: I64) -> Texts:
    """Return the text of one address, or none."""
    texts = [address_text(each) for each in address.tolist()]
    return Texts(np.array([len(texts) - 1], np.int32), texts)
