"""NVML's GPM metrics: the activity of a GPU over a tenth of a second or more, from Hopper on.

The hardware is not that of CUPTI's counters, so it works beside profilers and where counters are
not permitted. The numbers are those of ``nvml.h``.
"""

from __future__ import annotations

import ctypes
import math
import time
from collections.abc import Mapping
from ctypes import byref, c_char_p, c_double, c_uint, c_void_p
from typing import Any

_SUCCESS = 0
_VERSION = 1
_MIB = 1 << 20

# Metric of a recording -> its number, and the factor to its unit.
_KNOWN: Mapping[str, tuple[int, float]] = {
    "gpm__sm_util.pct": (2, 1),
    "gpm__sm_occupancy.pct": (3, 1),
    "gpm__integer_util.pct": (4, 1),
    "gpm__any_tensor_util.pct": (5, 1),
    "gpm__dram_bw_util.pct": (10, 1),
    "gpm__fp64_util.pct": (11, 1),
    "gpm__fp32_util.pct": (12, 1),
    "gpm__fp16_util.pct": (13, 1),
    "gpm__pcie_tx_bytes.sum.per_second": (20, _MIB),
    "gpm__pcie_rx_bytes.sum.per_second": (21, _MIB),
    "gpm__nvlink_total_rx_bytes.sum.per_second": (60, _MIB),
    "gpm__nvlink_total_tx_bytes.sum.per_second": (61, _MIB),
}
METRICS = tuple(_KNOWN)


class Support(ctypes.Structure):
    """``nvmlGpmSupport_t``."""

    _fields_ = (("version", c_uint), ("isSupportedDevice", c_uint))


class Info(ctypes.Structure):
    """``metricInfo`` of ``nvmlGpmMetric_t``."""

    _fields_ = (("shortName", c_char_p), ("longName", c_char_p), ("unit", c_char_p))


class Metric(ctypes.Structure):
    """``nvmlGpmMetric_t``."""

    _fields_ = (
        ("metricId", c_uint),
        ("nvmlReturn", c_uint),
        ("value", c_double),
        ("metricInfo", Info),
    )


class MetricsGet(ctypes.Structure):
    """``nvmlGpmMetricsGet_t``, with room for the most metrics of any version."""

    _fields_ = (
        ("version", c_uint),
        ("numMetrics", c_uint),
        ("sample1", c_void_p),
        ("sample2", c_void_p),
        ("metrics", Metric * 1024),
    )


class Gpm:
    """The GPM metrics of a GPU.

    Args:
        library: NVML, initialized.
        handle: The GPU's handle.
    """

    def __init__(self, library: Any, handle: c_void_p) -> None:
        self._library = library
        self._handle = handle
        self._since_ns = time.monotonic_ns()
        self._samples = [c_void_p(), c_void_p()]

    @classmethod
    def of(cls, library: Any, handle: c_void_p) -> Gpm | None:
        """Return the metrics of a GPU, with a first sample; None if they are not supported."""
        support = Support(version=_VERSION)
        gpm = cls(library, handle)
        try:
            status = library.nvmlGpmQueryDeviceSupport(handle, byref(support))
            if status != _SUCCESS or not support.isSupportedDevice:
                return None
            if any(library.nvmlGpmSampleAlloc(byref(sample)) for sample in gpm._samples):
                return None
            is_begun = library.nvmlGpmSampleGet(handle, gpm._samples[0]) == _SUCCESS
        except AttributeError:
            return None
        return gpm if is_begun else None

    def read(self) -> tuple[int, list[float]] | None:
        """Return when the last reading was, and the values of `METRICS` since; NaN if unknown.

        None if the GPU could not be read.
        """
        before, now = self._samples
        since_ns, self._since_ns = self._since_ns, time.monotonic_ns()
        if self._library.nvmlGpmSampleGet(self._handle, now) != _SUCCESS:
            return None
        get = MetricsGet(version=_VERSION, numMetrics=len(_KNOWN), sample1=before, sample2=now)
        for metric, (number, _) in zip(get.metrics, _KNOWN.values(), strict=False):
            metric.metricId = number
        self._samples = [now, before]
        if self._library.nvmlGpmMetricsGet(byref(get)) != _SUCCESS:
            return None
        return since_ns, [
            metric.value * factor if metric.nvmlReturn == _SUCCESS else math.nan
            for metric, (_, factor) in zip(get.metrics, _KNOWN.values(), strict=False)
        ]
