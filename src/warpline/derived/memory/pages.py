"""Pages of unified memory: what migrated, and the page faults, by address."""

from __future__ import annotations

import numpy as np

from warpline.derived import derived
from warpline.frozen import frozen
from warpline.ops.arrays import I64, BoolArray
from warpline.ops.group import factorize, group_sums
from warpline.trace import Trace

TO_DEVICE, TO_HOST = 11, 12  # of schema.labels.COPY_KINDS
CPU_FAULTS, GPU_FAULTS = "um_cpu_page_fault", "um_gpu_page_fault"
HINT = "profile with --cuda-um-cpu-page-faults=true --cuda-um-gpu-page-faults=true"
_NO_ADDRESS = -1  # of migrations in older exports


@frozen
class Pages:
    """What happened to pages between GPUs and the CPU. The first four have shape (n,), by address.

    Processes that use the same address share a row, as in nsys.

    Attributes:
        address: The address, ascending.
        is_known: Whether it is known; False for migrations without an address, in one row.
        to_device_bytes: Bytes that migrated to a GPU.
        to_host_bytes: Bytes that migrated to the CPU.
        moving_ns: Time of these migrations.
        cpu_faults: Page faults of the CPU.
        gpu_faults: Page faults of GPUs.
    """

    address: I64
    is_known: BoolArray
    to_device_bytes: I64
    to_host_bytes: I64
    moving_ns: I64
    cpu_faults: I64
    gpu_faults: I64

    def __len__(self) -> int:
        return len(self.address)


@derived
def pages(trace: Trace) -> Pages:
    """Return the pages that migrated or were faulted on."""
    moved, kind, size, moving = _migrations(trace)
    on_cpu, on_gpu = (_column(trace, table, "address") for table in (CPU_FAULTS, GPU_FAULTS))
    groups = factorize(np.concatenate([moved, on_cpu, on_gpu]))
    of_move, of_cpu, of_gpu = np.split(groups.codes, np.cumsum([len(moved), len(on_cpu)]))
    n_pages = groups.n_groups
    return Pages(
        address=groups.uniques,
        is_known=groups.uniques != _NO_ADDRESS,
        to_device_bytes=group_sums(of_move, np.where(kind == TO_DEVICE, size, 0), n_pages),
        to_host_bytes=group_sums(of_move, np.where(kind == TO_HOST, size, 0), n_pages),
        moving_ns=group_sums(of_move, moving, n_pages),
        cpu_faults=np.bincount(of_cpu, minlength=n_pages),
        gpu_faults=group_sums(of_gpu, _column(trace, GPU_FAULTS, "faults"), n_pages),
    )


def address_text(address: int) -> str:
    """Return an address as nsys writes it: ``0x7F10A0``."""
    return f"0x{address & (1 << 64) - 1:X}"


def _migrations(trace: Trace) -> tuple[I64, I64, I64, I64]:
    """Return address, kind, bytes and duration of the migrations between GPU and CPU."""
    if not trace.has("memcpy"):
        empty = np.zeros(0, np.int64)
        return empty, empty, empty, empty
    names = ("virtual_address", "kind", "bytes", "start_ns", "end_ns")
    columns = trace.columns("memcpy", *names)
    rows = np.flatnonzero(np.isin(columns["kind"].values, (TO_DEVICE, TO_HOST)))
    address, kind, size, start, end = (columns[name].take(rows) for name in names)
    return (
        np.asarray(address.filled(_NO_ADDRESS), np.int64),
        np.asarray(kind.values, np.int64),
        size.values,
        end.values - start.values,
    )


def _column(trace: Trace, table: str, column: str) -> I64:
    if not trace.has(table):
        return np.zeros(0, np.int64)
    values: I64 = trace.columns(table, column)[column].values
    return values
