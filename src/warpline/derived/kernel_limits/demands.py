"""How much of each resource a launch uses."""

from __future__ import annotations

import numpy as np

from warpline.derived import derived
from warpline.derived.counters import metric_numbers
from warpline.derived.kernel_limits.resources import PLACE, REQUIRED, RESOURCES
from warpline.frozen import frozen
from warpline.ops.arrays import F64, BoolArray
from warpline.trace import Trace

DURATION = "gpu__time_duration.sum"
ACTIVE = "sm__cycles_active.avg", "sm__cycles_active.max"

READ, WRITTEN = "dram__bytes_read.sum", "dram__bytes_write.sum"
STORED = "lts__t_sectors_srcunit_tex_op_write.sum"
STORED_BY_ATOMICS = tuple(f"lts__t_sectors_srcunit_tex_op_{of}.sum" for of in ("red", "atom"))
SECTOR = 32  # bytes
L2_PARTS = (
    *("t_sectors", "t_tag_requests", "d_sectors", "d_sectors_fill_device"),
    *("lts2xbar_cycles_active", "xbar2lts_cycles_active", "d_atomic_input_cycles_active"),
)

NOTHING = 1e-9  # what is less counts as zero, so that no ratio is infinite


@frozen
class Demands:
    """What profiled launches use, as shares of their time.

    Shares, not counts over time: counters of several passes were read at different clocks.

    Attributes:
        time_ns: Duration, 0 if unknown, shape (launches,).
        used: Share of each resource's peak over the duration, from 0 to 1, 0 if unknown, shape
            (launches, resources).
        imbalance: Time of the busiest SM over the mean; 1 if unknown, shape (launches,).
        has_all: Whether all is known that a prediction needs, shape (launches,). It is not for
            ranges of several kernels, which may run at the same time.
    """

    time_ns: F64
    used: F64
    imbalance: F64
    has_all: BoolArray

    @property
    def on_busiest_sm(self) -> F64:
        """Shares, those of resources of SMs on the busiest SM, (launches, resources)."""
        return busiest_sm(self.used, self.imbalance)

    def share(self, name: str) -> F64:
        """Return the share of a resource, shape (launches,)."""
        share: F64 = self.used[:, PLACE[name]]
        return share


def busiest_sm(used: F64, imbalance: F64) -> F64:
    """Return shares with those of resources of SMs on the busiest SM, at most 1.

    Args:
        used: Shares, shape (launches, resources).
        imbalance: Time of the busiest SM over the mean, shape (launches,).
    """
    is_on_sm = np.array([resource.is_on_sm for resource in RESOURCES])
    busiest = np.where(is_on_sm, used * imbalance[:, None], used)
    return np.minimum(busiest, np.maximum(used, 1.0))


def dram_bytes(trace: Trace) -> tuple[F64, F64, F64]:
    """Return the bytes that launches read from DRAM, that they write to it, and all that L2 writes.

    L2 writes what was stored before the launch, too, such as memory that a profiler restored. A
    launch does not write more to DRAM than its SMs store. Zeros where unknown, shape (launches,).
    """
    (read, _), (every, _), (stored, has_stored) = (
        metric_numbers(trace, name) for name in (READ, WRITTEN, STORED)
    )
    for name in STORED_BY_ATOMICS:
        stored = stored + np.maximum(metric_numbers(trace, name)[0], 0)
    read, every = (np.where(of >= 1, of, 0) for of in (read, every))
    written = np.where(has_stored, np.minimum(every, np.maximum(stored, 0) * SECTOR), every)
    return read, written, every


def _own_dram(trace: Trace) -> F64:
    """Return the part of DRAM's traffic that launches cause, 1 if unknown, shape (launches,)."""
    read, written, every = dram_bytes(trace)
    part: F64 = np.divide(
        read + written, read + every, out=np.ones(len(read)), where=read + every > 0
    )
    return part


def _most_of_l2(trace: Trace) -> F64:
    """Return how much of L2 launches may use: at most twice its busiest part, shape (launches,).

    Its throughput has parts that no metric shows, which were seen at up to 1.97 times those that
    one shows. Rarely one slice is busy when none of these is, with other work than the launch's.
    """
    busiest = np.zeros(trace.row_count("profiled_kernel"))
    for part in L2_PARTS:
        percent, is_known = metric_numbers(trace, f"lts__{part}.max.pct_of_peak_sustained_elapsed")
        busiest = np.maximum(busiest, np.where(is_known, percent / 100, 0))
    return np.where(busiest > 0, np.minimum(2 * busiest, 1), 1.0)


@derived
def demands(trace: Trace) -> Demands:
    """Return what each profiled launch uses, by its counters."""
    time_ns, has_all = metric_numbers(trace, DURATION)
    time_ns = np.where(has_all & (time_ns >= 1), time_ns, 0.0)
    used = np.zeros((len(time_ns), len(RESOURCES)))
    is_known = np.zeros(used.shape, np.bool_)
    for place, resource in enumerate(RESOURCES):
        for name in resource.metrics:
            percent, has = metric_numbers(trace, name)
            is_new = has & ~is_known[:, place]
            share = np.clip(percent[is_new] / 100, 0, 1)
            used[is_new, place] = np.where(share > NOTHING, share, 0)
            is_known[:, place] |= has
    (mean, has_mean), (most, has_most) = (metric_numbers(trace, name) for name in ACTIVE)
    has_both = has_mean & has_most & (mean >= 1) & (most >= mean)
    used[:, PLACE["dram"]] *= _own_dram(trace)
    used[:, PLACE["l2"]] = np.minimum(used[:, PLACE["l2"]], _most_of_l2(trace))
    imbalance = np.divide(most, mean, out=np.ones(len(mean)), where=has_both)
    is_range = trace.columns("profiled_kernel", "is_range")["is_range"]
    has_all = (time_ns > 0) & ~(is_range.is_valid() & is_range.values)
    for names in REQUIRED:
        has_all &= is_known[:, [PLACE[name] for name in names]].any(axis=1)
    return Demands(time_ns, used, imbalance, has_all)
