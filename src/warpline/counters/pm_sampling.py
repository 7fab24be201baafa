"""CUPTI's PM sampling through ctypes: metrics of a whole GPU, read at regular times.

It needs neither a context nor memory of the GPU, only an initialized driver, and sees the work of
all processes. Functions that take the sampling object are called by one thread; `evaluate`, which
takes the host object, may be called by another one.

The structures are those of CUPTI 12.6, see `profiler_host`. A test compares them with NVIDIA's
header.
"""

from __future__ import annotations

import contextlib
import ctypes
import enum
from collections.abc import Callable, Sequence
from ctypes import POINTER, c_char_p, c_int, c_size_t, c_uint8, c_uint32, c_uint64, c_void_p
from typing import Any

from warpline.counters import nvperf, profiler_host
from warpline.counters.profiler_host import (
    COLLECTIONS,
    ConfigAddMetrics,
    ConfigImage,
    ConfigImageSize,
    CuptiError,
    Deinitialize,
    Initialize,
    NumOfPasses,
)

_HEAD = (("structSize", c_size_t), ("pPriv", c_void_p))
_OF_OBJECT = (*_HEAD, ("pPmSamplingObject", c_void_p))
_OF_IMAGE = (*_OF_OBJECT, ("pCounterDataImage", c_void_p), ("counterDataImageSize", c_size_t))
OUT_OF_MEMORY = 8  # CUPTI_ERROR_OUT_OF_MEMORY: the hardware buffer was full
IMAGE_FULL = 1  # CUPTI_PM_SAMPLING_DECODE_STOP_REASON_COUNTER_DATA_FULL
KEEP_OLDEST = 0


class Trigger(enum.IntEnum):
    """What samples are taken by: ``CUpti_PmSampling_TriggerMode``."""

    CLOCKS = 0  # cycles of the system clock
    TIME = 1  # ns; not on Turing and GA100


class CounterAvailability(ctypes.Structure):
    """``CUpti_PmSampling_GetCounterAvailability_Params``."""

    _fields_ = (
        *_HEAD,
        ("deviceIndex", c_size_t),
        ("counterAvailabilityImageSize", c_size_t),
        ("pCounterAvailabilityImage", c_void_p),
    )


class Enable(ctypes.Structure):
    """``CUpti_PmSampling_Enable_Params``."""

    _fields_ = (*_HEAD, ("deviceIndex", c_size_t), ("pPmSamplingObject", c_void_p))


class Disable(ctypes.Structure):
    """``CUpti_PmSampling_Disable_Params``."""

    _fields_ = _OF_OBJECT


class SetConfig(ctypes.Structure):
    """``CUpti_PmSampling_SetConfig_Params``."""

    _fields_ = (
        *_OF_OBJECT,
        ("configSize", c_size_t),
        ("pConfig", c_void_p),
        ("hardwareBufferSize", c_size_t),
        ("samplingInterval", c_uint64),
        ("triggerMode", c_int),
        ("hwBufferAppendMode", c_int),
    )


class Start(ctypes.Structure):
    """``CUpti_PmSampling_Start_Params``."""

    _fields_ = _OF_OBJECT


class Stop(ctypes.Structure):
    """``CUpti_PmSampling_Stop_Params``."""

    _fields_ = _OF_OBJECT


class DecodeData(ctypes.Structure):
    """``CUpti_PmSampling_DecodeData_Params``."""

    _fields_ = (*_OF_IMAGE, ("decodeStopReason", c_int), ("overflow", c_uint8))


class CounterDataSize(ctypes.Structure):
    """``CUpti_PmSampling_GetCounterDataSize_Params``."""

    _fields_ = (
        *_OF_OBJECT,
        ("pMetricNames", POINTER(c_char_p)),
        ("numMetrics", c_size_t),
        ("maxSamples", c_uint32),
        ("counterDataSize", c_size_t),
    )


class ImageInitialize(ctypes.Structure):
    """``CUpti_PmSampling_CounterDataImage_Initialize_Params``."""

    _fields_ = (*_OF_OBJECT, ("counterDataSize", c_size_t), ("pCounterData", c_void_p))


class CounterDataInfo(ctypes.Structure):
    """``CUpti_PmSampling_GetCounterDataInfo_Params``."""

    _fields_ = (
        *_OF_IMAGE[:2],
        *_OF_IMAGE[3:],
        ("numTotalSamples", c_size_t),
        ("numPopulatedSamples", c_size_t),
        ("numCompletedSamples", c_size_t),
    )


class SampleInfo(ctypes.Structure):
    """``CUpti_PmSampling_CounterData_GetSampleInfo_Params``."""

    _fields_ = (
        *_OF_IMAGE,
        ("sampleIndex", c_size_t),
        ("startTimestamp", c_uint64),
        ("endTimestamp", c_uint64),
    )


class Evaluate(ctypes.Structure):
    """``CUpti_Profiler_Host_EvaluateToGpuValues_Params``."""

    _fields_ = (
        *_HEAD,
        ("pHostObject", c_void_p),
        ("pCounterDataImage", c_void_p),
        ("counterDataImageSize", c_size_t),
        ("rangeIndex", c_size_t),
        ("ppMetricNames", POINTER(c_char_p)),
        ("numMetrics", c_size_t),
        ("pMetricValues", c_void_p),
    )


# The function of each structure.
FUNCTIONS: dict[type[ctypes.Structure], str] = {
    CounterAvailability: "cuptiPmSamplingGetCounterAvailability",
    Enable: "cuptiPmSamplingEnable",
    Disable: "cuptiPmSamplingDisable",
    SetConfig: "cuptiPmSamplingSetConfig",
    Start: "cuptiPmSamplingStart",
    Stop: "cuptiPmSamplingStop",
    DecodeData: "cuptiPmSamplingDecodeData",
    CounterDataSize: "cuptiPmSamplingGetCounterDataSize",
    ImageInitialize: "cuptiPmSamplingCounterDataImageInitialize",
    CounterDataInfo: "cuptiPmSamplingGetCounterDataInfo",
    SampleInfo: "cuptiPmSamplingCounterDataGetSampleInfo",
    Evaluate: "cuptiProfilerHostEvaluateToGpuValues",
}
_OF_HOST = (
    Initialize,
    Deinitialize,
    ConfigAddMetrics,
    ConfigImageSize,
    ConfigImage,
    NumOfPasses,
)


class OverflowedError(Exception):
    """The GPU's buffer was full: it takes no more samples until sampling is started again."""


class Image:
    """A counter data image: room for some samples, and their times.

    Attributes:
        starts, ends: Times of its samples, as CUPTI says them: ns since 1970.
        is_full: Whether samples may be missing after the last one.
    """

    def __init__(self, size: int) -> None:
        self.buffer = ctypes.create_string_buffer(size)
        self.address = ctypes.addressof(self.buffer)
        self.size = size
        self.starts: list[int] = []
        self.ends: list[int] = []
        self.is_full = False


class PmSampling:
    """PM sampling of one GPU.

    Args:
        cupti: CUPTI, as a library of ctypes; its profiler is initialized.
        device: Number of the GPU, as CUDA counts in this process.
        chip: Name of its chip.

    Raises:
        AttributeError: This CUPTI has no PM sampling.
        CuptiError: The counters cannot be used.
    """

    def __init__(self, cupti: Any, device: int, chip: str) -> None:
        names = FUNCTIONS | {each: profiler_host.FUNCTIONS[each] for each in _OF_HOST}
        self._functions = {structure: getattr(cupti, name) for structure, name in names.items()}
        self._device = device
        self._chip = chip.encode()
        self._availability = self._available()
        self._object: c_void_p | None = None
        self._host: c_void_p | None = None
        self._count = 0

    def passes(self, names: Sequence[str]) -> int:
        """Return the passes that metrics take; 0 if the GPU does not have one of them."""
        host = self._new_host()
        try:
            config = self._config(host, _texts(names))
            call = NumOfPasses(configImageSize=len(config), pConfigImage=_address(config))
            self._call(call)
        except CuptiError:
            return 0
        finally:
            self._call(Deinitialize(pHostObject=host))
        return int(call.numOfPasses)

    def configure(
        self, names: Sequence[str], interval: int, trigger: Trigger, buffer_bytes: int, slots: int
    ) -> None:
        """Prepare the GPU.

        Args:
            names: Metrics of one pass.
            interval: Length of a sample, in the trigger's unit.
            trigger: What samples are taken by.
            buffer_bytes: Size of the buffer that the GPU writes to.
            slots: Samples of an image.

        Raises:
            CuptiError: It cannot be sampled, such as while another profiler uses its counters.
        """
        self._names, self._count, self._slots = _texts(names), len(names), slots
        self._host = self._new_host()
        self._image = self._config(self._host, self._names)
        enable = Enable(deviceIndex=self._device)
        self._call(enable)
        self._object = c_void_p(enable.pPmSamplingObject)
        self._call(
            SetConfig(
                pPmSamplingObject=self._object,
                configSize=len(self._image),
                pConfig=_address(self._image),
                hardwareBufferSize=buffer_bytes,
                samplingInterval=interval,
                triggerMode=trigger,
                hwBufferAppendMode=KEEP_OLDEST,
            )
        )
        self._values = (ctypes.c_double * (slots * len(names)))()
        self._info = self._sized(SampleInfo(pPmSamplingObject=self._object))
        self._evaluate = self._sized(
            Evaluate(pHostObject=self._host, ppMetricNames=self._names, numMetrics=self._count)
        )

    def new_image(self) -> Image:
        """Return an image."""
        size = CounterDataSize(
            pPmSamplingObject=self._object,
            pMetricNames=self._names,
            numMetrics=self._count,
            maxSamples=self._slots,
        )
        self._call(size)
        image = Image(size.counterDataSize)
        self.reset(image)
        return image

    def reset(self, image: Image) -> None:
        """Empty an image."""
        self._call(
            ImageInitialize(
                pPmSamplingObject=self._object,
                counterDataSize=image.size,
                pCounterData=image.address,
            )
        )

    def start(self) -> None:
        """Begin to sample."""
        self._call(Start(pPmSamplingObject=self._object))

    def stop(self) -> None:
        """Take no more samples; those in the GPU's buffer can be decoded."""
        self._call(Stop(pPmSamplingObject=self._object))

    def close(self) -> None:
        """Release the GPU's counters."""
        if self._object is not None:
            with contextlib.suppress(CuptiError):
                self._call(Disable(pPmSamplingObject=self._object))
            self._object = None
        if self._host is not None:
            with contextlib.suppress(CuptiError):
                self._call(Deinitialize(pHostObject=self._host))
            self._host = None

    def decode(self, image: Image) -> None:
        """Move samples from the GPU's buffer to an empty image.

        Raises:
            OverflowedError: The buffer was full. The image has the samples before.
            CuptiError: It failed.
        """
        decode = DecodeData(
            pPmSamplingObject=self._object,
            pCounterDataImage=image.address,
            counterDataImageSize=image.size,
        )
        overflowed = False
        try:
            self._call(decode)
        except CuptiError as error:
            if error.status != OUT_OF_MEMORY:
                raise
            overflowed = True
        image.is_full = decode.decodeStopReason == IMAGE_FULL
        try:
            self._read_times(image)
        except CuptiError:
            if not overflowed:
                raise
        if overflowed or decode.overflow:
            raise OverflowedError

    def _read_times(self, image: Image) -> None:
        image.starts, image.ends = [], []
        found = CounterDataInfo(pCounterDataImage=image.address, counterDataImageSize=image.size)
        self._call(found)
        info, get = self._info, self._functions[SampleInfo]
        info.pCounterDataImage, info.counterDataImageSize = image.address, image.size
        reference = ctypes.byref(info)
        for number in range(found.numCompletedSamples):
            info.sampleIndex = number
            status = get(reference)
            if status:
                raise CuptiError(FUNCTIONS[SampleInfo], status)
            image.starts.append(info.startTimestamp)
            image.ends.append(info.endTimestamp)

    def evaluate(self, image: Image) -> list[list[float]]:
        """Return the values of each metric, one per sample of an image.

        Raises:
            CuptiError: It failed.
        """
        call, evaluate = self._evaluate, self._functions[Evaluate]
        call.pCounterDataImage, call.counterDataImageSize = image.address, image.size
        reference = ctypes.byref(call)
        address, step = ctypes.addressof(self._values), self._count * 8
        for number in range(len(image.starts)):
            call.rangeIndex = number
            call.pMetricValues = address + number * step
            status = evaluate(reference)
            if status:
                raise CuptiError(FUNCTIONS[Evaluate], status)
        words: Any = memoryview(self._values).cast("B").cast("d")[: len(image.starts) * self._count]
        return [words[metric :: self._count].tolist() for metric in range(self._count)]

    def _available(self) -> ctypes.Array[Any]:
        size = CounterAvailability(deviceIndex=self._device)
        self._call(size)
        image = ctypes.create_string_buffer(size.counterAvailabilityImageSize)
        self._call(
            CounterAvailability(
                deviceIndex=self._device,
                counterAvailabilityImageSize=len(image),
                pCounterAvailabilityImage=_address(image),
            )
        )
        return image

    def _new_host(self) -> c_void_p:
        made = Initialize(
            profilerType=COLLECTIONS.index("pmsampling"),
            pChipName=self._chip,
            pCounterAvailabilityImage=_address(self._availability),
        )
        self._call(made)
        return c_void_p(made.pHostObject)

    def _config(self, host: c_void_p, names: ctypes.Array[c_char_p]) -> ctypes.Array[Any]:
        self._call(ConfigAddMetrics(pHostObject=host, ppMetricNames=names, numMetrics=len(names)))
        size = ConfigImageSize(pHostObject=host)
        self._call(size)
        image = ctypes.create_string_buffer(size.configImageSize)
        self._call(
            ConfigImage(pHostObject=host, configImageSize=len(image), pConfigImage=_address(image))
        )
        return image

    def _call(self, parameters: ctypes.Structure) -> None:
        self._sized(parameters)
        function: Callable[..., int] = self._functions[type(parameters)]
        status = function(ctypes.byref(parameters))
        if status:
            names = FUNCTIONS | profiler_host.FUNCTIONS
            raise CuptiError(names[type(parameters)], status)

    @staticmethod
    def _sized(parameters: Any) -> Any:
        parameters.structSize = nvperf.size_of(type(parameters))
        return parameters


def _texts(names: Sequence[str]) -> ctypes.Array[c_char_p]:
    return (c_char_p * len(names))(*(name.encode() for name in names))


def _address(image: ctypes.Array[Any]) -> c_void_p:
    return ctypes.cast(image, c_void_p)
