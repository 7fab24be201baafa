"""The category and origin of each GPU operation, and the details of collective kernels."""

from __future__ import annotations

import numpy as np

from warpline.derived import derived
from warpline.derived.kernels.collective_launches import launched_by_collectives
from warpline.derived.kernels.collective_names import CollectiveKernel, collective_kernel
from warpline.derived.kernels.named import names_of_operations
from warpline.derived.kernels.rules import KernelClass, Origin, kernel_class
from warpline.derived.time_parts import TimePart
from warpline.derived.work.busy import DEVICE_TABLES
from warpline.derived.work.operations import operations
from warpline.ops.arrays import I8
from warpline.schema.labels import COPY_KINDS
from warpline.trace import Trace

__all__ = [
    "CollectiveKernel",
    "KernelClass",
    "Origin",
    "collective_kernel",
    "kernel_class",
    "operation_categories",
    "operation_origins",
]

_COPIES = {
    "Host-to-Device": TimePart.COPY_H2D,
    "Host-to-Array": TimePart.COPY_H2D,
    "Device-to-Host": TimePart.COPY_D2H,
    "Array-to-Host": TimePart.COPY_D2H,
    "Device-to-Device": TimePart.COPY_D2D,
    "Array-to-Array": TimePart.COPY_D2D,
    "Array-to-Device": TimePart.COPY_D2D,
    "Device-to-Array": TimePart.COPY_D2D,
    "Peer-to-Peer": TimePart.COPY_P2P,
    "Unified Host-to-Device": TimePart.COPY_MANAGED,
    "Unified Device-to-Host": TimePart.COPY_MANAGED,
    "Unified Device-to-Device": TimePart.COPY_MANAGED,
}


@derived
def operation_categories(trace: Trace) -> I8:
    """Return the category of each GPU operation, busy members of `TimePart`.

    Shape (operations,), in the order of `operations`. Kernels are classified by name. A kernel
    that matches no rule is a collective if launched inside an NCCL call, otherwise "other".
    Copies are classified by direction. A device-to-device copy between different GPUs is
    "copy-p2p". Page migrations of managed memory, which have no launch call, are "copy-managed".

    Raises:
        InputError: The file named by WARPLINE_KERNEL_RULES cannot be used.
    """
    category = _kernel_codes(trace)[0].copy()
    copies, sets = (operations(trace).of_table(name) for name in DEVICE_TABLES[1:3])
    rows = operations(trace).row
    category[copies] = _copy_categories(trace)[rows[copies]]
    category[sets] = TimePart.MEMSET
    return category


@derived
def operation_origins(trace: Trace) -> I8:
    """Return the origin of each GPU operation, members of `Origin`.

    Shape (operations,), in the order of `operations`. Copies, memsets and graph-level CUDA graphs
    have the origin "driver". A kernel that matches no rule has the origin "user".

    Raises:
        InputError: The file named by WARPLINE_KERNEL_RULES cannot be used.
    """
    return _kernel_codes(trace)[1]


@derived
def _kernel_codes(trace: Trace) -> tuple[I8, I8]:
    """Return category and origin of each operation; of those that are no kernels, of a graph's."""
    names = names_of_operations(trace)
    classes = [kernel_class(name) for name in trace.strings.texts(names.distinct.tolist())]
    categories = np.array([TimePart.of(c.category) for c in classes], np.int8)
    category = names.fact(categories, otherwise=int(TimePart.GRAPH))
    origin = names.fact(
        np.array([Origin.of(c.origin) for c in classes], np.int8), otherwise=int(Origin.DRIVER)
    )
    if np.any(categories == TimePart.OTHER):
        unknown = np.flatnonzero(category == TimePart.OTHER)
        inside = unknown[launched_by_collectives(trace)[operations(trace).row[unknown]]]
        category[inside] = TimePart.COLLECTIVE
        origin[inside[origin[inside] == Origin.USER]] = Origin.NCCL
    return category, origin


def _copy_categories(trace: Trace) -> I8:
    """Return the category of each copy, shape (copies,), in total order."""
    if not trace.has("memcpy"):
        return np.zeros(0, np.int8)
    columns = trace.columns("memcpy", "kind", "src_device_id", "dst_device_id")
    labels = (COPY_KINDS.get(kind, "") for kind in range(1 + max(COPY_KINDS)))
    of_kind = np.array([_COPIES.get(label, TimePart.COPY_OTHER) for label in labels], np.int8)
    kind = columns["kind"].values
    is_known = (kind >= 0) & (kind < len(of_kind))
    category = np.where(is_known, of_kind[np.where(is_known, kind, 0)], TimePart.COPY_OTHER)
    source, target = columns["src_device_id"], columns["dst_device_id"]
    crosses = source.is_valid() & target.is_valid() & (source.values != target.values)
    category[crosses & (category == TimePart.COPY_D2D)] = TimePart.COPY_P2P
    return category.astype(np.int8)
