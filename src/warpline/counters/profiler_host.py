"""CUPTI's profiler host through ctypes: the metrics of each chip, and the passes that they take.

It needs no GPU, and before CUPTI 13.2 no driver either; without one, `nvperf_host` answers for
later versions. `host_process` runs this module in a process of its own.

The structures are those of CUPTI 12.6. Each has its size in front, by which later versions, which
append fields, know which ones are there. A test compares them with NVIDIA's header.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from ctypes import POINTER, c_char_p, c_int, c_size_t, c_uint32, c_void_p
from pathlib import Path
from typing import Any, NoReturn, TextIO

from warpline.counters import evaluator, nvperf
from warpline.counters.evaluator import text
from warpline.counters.nvperf import NvPerfError
from warpline.counters.nvperf_host import KINDS, PLAIN_SUFFIXES, NvPerfHost, UnsupportedError

_HEAD = (("structSize", c_size_t), ("pPriv", c_void_p))

COLLECTIONS = ("profiling", "pmsampling")  # in the order of CUpti_ProfilerType
WITHOUT_CUPTI = "--nvperf"  # the option of this module


class SupportedChips(ctypes.Structure):
    """``CUpti_Profiler_Host_GetSupportedChips_Params``."""

    _fields_ = (*_HEAD, ("numChips", c_size_t), ("ppChipNames", POINTER(c_char_p)))


class Initialize(ctypes.Structure):
    """``CUpti_Profiler_Host_Initialize_Params``."""

    _fields_ = (
        *_HEAD,
        ("profilerType", c_int),
        ("pChipName", c_char_p),
        ("pCounterAvailabilityImage", c_void_p),
        ("pHostObject", c_void_p),
    )


class Deinitialize(ctypes.Structure):
    """``CUpti_Profiler_Host_Deinitialize_Params``."""

    _fields_ = (*_HEAD, ("pHostObject", c_void_p))


class BaseMetrics(ctypes.Structure):
    """``CUpti_Profiler_Host_GetBaseMetrics_Params``."""

    _fields_ = (
        *_HEAD,
        ("pHostObject", c_void_p),
        ("metricType", c_int),
        ("ppMetricNames", POINTER(c_char_p)),
        ("numMetrics", c_size_t),
    )


class SubMetrics(ctypes.Structure):
    """``CUpti_Profiler_Host_GetSubMetrics_Params``."""

    _fields_ = (
        *_HEAD,
        ("pHostObject", c_void_p),
        ("metricType", c_int),
        ("pMetricName", c_char_p),
        ("numOfSubmetrics", c_size_t),
        ("ppSubMetrics", POINTER(c_char_p)),
    )


class MetricProperties(ctypes.Structure):
    """``CUpti_Profiler_Host_GetMetricProperties_Params``."""

    _fields_ = (
        *_HEAD,
        ("pHostObject", c_void_p),
        ("pMetricName", c_char_p),
        ("pDescription", c_char_p),
        ("pHwUnit", c_char_p),
        ("pDimUnit", c_char_p),
        ("metricType", c_int),
    )


class ConfigAddMetrics(ctypes.Structure):
    """``CUpti_Profiler_Host_ConfigAddMetrics_Params``."""

    _fields_ = (
        *_HEAD,
        ("pHostObject", c_void_p),
        ("ppMetricNames", POINTER(c_char_p)),
        ("numMetrics", c_size_t),
    )


class ConfigImageSize(ctypes.Structure):
    """``CUpti_Profiler_Host_GetConfigImageSize_Params``."""

    _fields_ = (*_HEAD, ("pHostObject", c_void_p), ("configImageSize", c_size_t))


class ConfigImage(ctypes.Structure):
    """``CUpti_Profiler_Host_GetConfigImage_Params``."""

    _fields_ = (
        *_HEAD,
        ("pHostObject", c_void_p),
        ("configImageSize", c_size_t),
        ("pConfigImage", c_void_p),
    )


class NumOfPasses(ctypes.Structure):
    """``CUpti_Profiler_Host_GetNumOfPasses_Params``."""

    _fields_ = (
        *_HEAD,
        ("configImageSize", c_size_t),
        ("pConfigImage", c_void_p),
        ("numOfPasses", c_size_t),
    )


# The function of each structure.
FUNCTIONS: dict[type[ctypes.Structure], str] = {
    SupportedChips: "cuptiProfilerHostGetSupportedChips",
    Initialize: "cuptiProfilerHostInitialize",
    Deinitialize: "cuptiProfilerHostDeinitialize",
    BaseMetrics: "cuptiProfilerHostGetBaseMetrics",
    SubMetrics: "cuptiProfilerHostGetSubMetrics",
    MetricProperties: "cuptiProfilerHostGetMetricProperties",
    ConfigAddMetrics: "cuptiProfilerHostConfigAddMetrics",
    ConfigImageSize: "cuptiProfilerHostGetConfigImageSize",
    ConfigImage: "cuptiProfilerHostGetConfigImage",
    NumOfPasses: "cuptiProfilerHostGetNumOfPasses",
}


class CuptiError(Exception):
    """A function of CUPTI failed.

    Args:
        function: Its name.
        status: The CUptiResult.
    """

    def __init__(self, function: str, status: int) -> None:
        super().__init__(f"{function} failed ({status})")
        self.function = function
        self.status = status


class ProfilerHost:
    """The profiler host of one libcupti.

    Args:
        path: The library.

    Raises:
        OSError: It cannot be loaded.
        AttributeError: It has no profiler host: CUPTI before 12.6.
    """

    def __init__(self, path: str) -> None:
        # CUPTI opens NvPerf by its bare name, which may be that of another version. The one beside
        # it, loaded first, is the one that it gets.
        self._nvperf = nvperf_beside(path)
        self._cupti = ctypes.CDLL(path)
        self._functions = {
            structure: getattr(self._cupti, name) for structure, name in FUNCTIONS.items()
        }

    def version(self) -> int:
        """Return the version that CUPTI reports: 130001 is 13.0, 28 is 12.9; 0 if it fails."""
        number = c_uint32()
        self._cupti.cuptiGetVersion(ctypes.byref(number))
        return number.value

    def chips(self) -> list[str]:
        """Return the names of the chips that it knows, such as ``GH100``."""
        call = SupportedChips()
        self.call(call)
        return _texts(call.ppChipNames, call.numChips)

    def metrics(self, chip: str, collection: str) -> list[list[str]]:
        """Return name, kind, unit, hardware unit and description of each base metric of a chip.

        Args:
            chip: Name of the chip.
            collection: One of `COLLECTIONS`.
        """
        with _HostObject(self, chip, collection) as host:
            return [
                [name, KINDS[kind], *self._properties(host, name, kind)]
                for kind in range(len(KINDS))
                for name in self._base_metrics(host, kind)
            ]

    def sub_metrics(self, chip: str, collection: str) -> dict[str, list[str]]:
        """Return what may follow the base names of each kind of metrics: ``.sum``, ``.pct``."""
        with _HostObject(self, chip, collection) as host:
            return {
                name: self._sub_metrics(host, kind, metrics[0] + PLAIN_SUFFIXES[kind])
                for kind, name in enumerate(KINDS)
                if (metrics := self._base_metrics(host, kind))
            }

    def passes(self, chip: str, names: Sequence[str], collection: str) -> dict[str, Any]:
        """Return how often a kernel must run to count these metrics together.

        Args:
            chip: Name of the chip.
            names: Metrics with their rollups, such as ``sm__inst_executed.sum``.
            collection: One of `COLLECTIONS`.

        Returns:
            ``passes``, their number; ``of_metric``, the passes of each metric, from 0;
            ``counters``, the number of counters of each pass. The last two are None if
            unknown.
        """
        with _HostObject(self, chip, collection) as host:
            array = (c_char_p * len(names))(*(name.encode() for name in names))
            self.call(
                ConfigAddMetrics(pHostObject=host, ppMetricNames=array, numMetrics=len(names))
            )
            image = self._config_image(host)
            call = NumOfPasses(
                configImageSize=len(image), pConfigImage=ctypes.cast(image, c_void_p)
            )
            self.call(call)
        of_metric, counters = None, None
        if self._nvperf is not None:
            with contextlib.suppress(NvPerfError):
                of_metric, counters = evaluator.passes_of(
                    self._nvperf, chip, names, image, call.numOfPasses
                )
        return {"passes": call.numOfPasses, "of_metric": of_metric, "counters": counters}

    def breakdown(self, chip: str, throughput: str) -> list[str] | None:
        """Return the base metrics that a throughput is the maximum of; None if unknown."""
        if self._nvperf is not None:
            with contextlib.suppress(NvPerfError):
                return NvPerfHost(self._nvperf).breakdown(chip, throughput)
        return None

    def one_pass_groups(
        self, chip: str, names: Sequence[str], common: Sequence[str]
    ) -> list[list[str]]:
        """Return groups of metrics that take one pass each, see `one_pass`."""
        if self._nvperf is None or not self._nvperf.is_complete:
            raise UnsupportedError("NVPW_RawCounterConfig_AreRawCountersSchedulable")
        return NvPerfHost(self._nvperf).one_pass_groups(chip, names, common)

    def _base_metrics(self, host: c_void_p, kind: int) -> list[str]:
        # A second call for the same object would return the names twice.
        call = BaseMetrics(pHostObject=host, metricType=kind)
        self.call(call)
        return _texts(call.ppMetricNames, call.numMetrics)

    def _sub_metrics(self, host: c_void_p, kind: int, name: str) -> list[str]:
        call = SubMetrics(pHostObject=host, metricType=kind, pMetricName=name.encode())
        self.call(call)
        return _texts(call.ppSubMetrics, call.numOfSubmetrics)

    def _properties(self, host: c_void_p, name: str, kind: int) -> tuple[str, str, str]:
        # Before CUPTI 13, only full names have properties.
        call = MetricProperties(
            pHostObject=host, pMetricName=(name + PLAIN_SUFFIXES[kind]).encode()
        )
        self.call(call)
        return text(call.pDimUnit), text(call.pHwUnit), text(call.pDescription)

    def _config_image(self, host: c_void_p) -> ctypes.Array[Any]:
        size = ConfigImageSize(pHostObject=host)
        self.call(size)
        image = ctypes.create_string_buffer(size.configImageSize)
        self.call(
            ConfigImage(
                pHostObject=host,
                configImageSize=len(image),
                pConfigImage=ctypes.cast(image, c_void_p),
            )
        )
        return image

    def call(self, parameters: ctypes.Structure) -> None:
        """Call the function of a structure with it; CuptiError if it fails."""
        parameters.structSize = nvperf.size_of(type(parameters))
        status = self._functions[type(parameters)](ctypes.byref(parameters))
        if status != 0:
            raise CuptiError(FUNCTIONS[type(parameters)], status)


class _HostObject:
    """A host object of a chip, freed at the end of the ``with`` block."""

    def __init__(self, host: ProfilerHost, chip: str, collection: str) -> None:
        self._call = host.call
        made = Initialize(profilerType=COLLECTIONS.index(collection), pChipName=chip.encode())
        self._call(made)
        self._handle = made.pHostObject

    def __enter__(self) -> c_void_p:
        return c_void_p(self._handle)

    def __exit__(self, *error: object) -> None:
        self._call(Deinitialize(pHostObject=self._handle))


def _texts(array: Any, count: int) -> list[str]:
    return [text(array[index]) for index in range(count)]


def nvperf_beside(path: str) -> nvperf.NvPerf | None:
    """Return the NvPerf in the directory of a libcupti; None if it is absent or does not work."""
    beside = Path(path).resolve().with_name(nvperf.LIBRARY_NAME)
    return evaluator.load(ctypes.CDLL(str(beside))) if beside.is_file() else None


def load(path: str, *, with_cupti: bool) -> ProfilerHost | NvPerfHost:
    """Return what answers for a libcupti.

    Args:
        path: The library.
        with_cupti: Whether CUPTI itself answers, or NvPerf alone.

    Raises:
        OSError: A library is missing or cannot be loaded.
        AttributeError: It has no profiler host.
    """
    if with_cupti:
        return ProfilerHost(path)
    found = nvperf_beside(path)
    if found is None or not found.is_complete:
        raise OSError(f"{nvperf.LIBRARY_NAME} is missing, or not of CUPTI 12.9 or later")
    return NvPerfHost(found)


def answer(host: ProfilerHost | NvPerfHost, question: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answer to a question of `host_process`."""
    try:
        function: Callable[..., Any] = getattr(host, question["call"])
        return {"value": function(*question["arguments"])}
    except (CuptiError, NvPerfError, UnsupportedError) as error:
        return {"failed": error.function, "status": error.status}


def main(path: str, questions: TextIO, answers: TextIO, *, with_cupti: bool) -> None:
    """Load the libraries, and answer questions until there are no more: a line of JSON each."""
    try:
        host = load(path, with_cupti=with_cupti)
    except (OSError, AttributeError) as error:
        answers.write(json.dumps({"unusable": str(error)}) + "\n")
        return
    answers.write(json.dumps({"value": host.version()}) + "\n")
    answers.flush()
    for line in questions:
        answers.write(json.dumps(answer(host, json.loads(line))) + "\n")
        answers.flush()


def _run() -> NoReturn:
    # Libraries may print: standard output is the pipe, so they get another one.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    path, *options = sys.argv[1:]
    main(path, sys.stdin, answers, with_cupti=WITHOUT_CUPTI not in options)
    answers.flush()
    os._exit(0)  # without the exit handlers of a foreign library


if __name__ == "__main__":
    _run()
