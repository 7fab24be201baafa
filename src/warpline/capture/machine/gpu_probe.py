"""What CUDA and CUPTI say about the GPUs of this machine, in a process of its own.

`gpus` runs this module with the path of a libcupti and the numbers of the GPUs to open, and reads
one JSON object. Drivers and CUPTI are foreign code that may crash or hang, and a CUDA context takes
memory of the GPU: neither belongs into the launcher.

A context is needed to ask whether this user may read counters: CUPTI refuses nothing before.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
from collections.abc import Callable, Sequence
from ctypes import byref, c_char_p, c_int, c_size_t, c_uint32, c_void_p
from typing import Any, NoReturn

DRIVER = "libcuda.so.1"
_MAJOR, _MINOR = 75, 76  # attributes of a device: its compute capability
_NEEDED = "cuptiProfilerHostInitialize"  # of CUPTI 12.6
_HEAD = (("structSize", c_size_t), ("pPriv", c_void_p))


class ProfilerInitialize(ctypes.Structure):
    """``CUpti_Profiler_Initialize_Params``."""

    _fields_ = _HEAD


class ChipName(ctypes.Structure):
    """``CUpti_Device_GetChipName_Params``."""

    _fields_ = (*_HEAD, ("deviceIndex", c_size_t), ("pChipName", c_char_p))


# The answers of DeviceSupported, in the order of CUPTI 12.6; later versions append to them.
SUPPORT = ("isSupported", "architecture", "sli", "vGpu", "confidentialCompute", "cmp", "wsl")


class DeviceSupported(ctypes.Structure):
    """``CUpti_Profiler_DeviceSupported_Params``."""

    _fields_ = (
        *_HEAD,
        ("cuDevice", c_int),
        *((name, c_int) for name in SUPPORT),
        ("api", c_int),
    )


class CounterAvailability(ctypes.Structure):
    """``CUpti_Profiler_GetCounterAvailability_Params``."""

    _fields_ = (
        *_HEAD,
        ("ctx", c_void_p),
        ("counterAvailabilityImageSize", c_size_t),
        ("pCounterAvailabilityImage", c_void_p),
    )


# The function of each structure.
FUNCTIONS: dict[type[ctypes.Structure], str] = {
    ProfilerInitialize: "cuptiProfilerInitialize",
    ChipName: "cuptiDeviceGetChipName",
    DeviceSupported: "cuptiProfilerDeviceSupported",
    CounterAvailability: "cuptiProfilerGetCounterAvailability",
}


def size_of(structure: type[ctypes.Structure]) -> int:
    """Return the size that CUPTI knows a structure by: without padding at its end."""
    last = getattr(structure, structure._fields_[-1][0])
    return int(last.offset + last.size)


def answer(driver: Any, cupti: Any, opened: Sequence[int] | None) -> dict[str, Any]:
    """Return what is known about the GPUs.

    Args:
        driver: The CUDA driver, as a library of ctypes.
        cupti: CUPTI, or None if there is none that can count.
        opened: Numbers of the GPUs whose counters are to be tried; None for the first one.

    Returns:
        ``driver``, its version; ``cuda``, the status of its initialization; ``profiler``, that of
        CUPTI; and ``gpus``, each with ``index``, ``name``, ``capability``, ``chip``, ``support``
        and ``counters``: the status of the attempt to use its counters, null if not tried.
    """
    version = c_int()
    driver.cuDriverGetVersion(byref(version))
    found: dict[str, Any] = {"driver": version.value, "cuda": driver.cuInit(0), "gpus": []}
    if found["cuda"]:
        return found
    count = c_int()
    driver.cuDeviceGetCount(byref(count))
    if cupti is not None:
        found["profiler"] = call(cupti, ProfilerInitialize())
    for index in range(count.value):
        is_opened = index == 0 if opened is None else index in opened
        found["gpus"].append(_gpu(driver, cupti, index, is_opened=is_opened))
    return found


def _gpu(driver: Any, cupti: Any, index: int, *, is_opened: bool) -> dict[str, Any]:
    device, name = c_int(), ctypes.create_string_buffer(256)
    driver.cuDeviceGet(byref(device), index)
    driver.cuDeviceGetName(name, len(name), device)
    found: dict[str, Any] = {
        "index": index,
        "name": name.value.decode("utf-8", "replace"),
        "capability": [_attribute(driver, device, which) for which in (_MAJOR, _MINOR)],
        "chip": None,
        "support": None,
        "counters": None,
    }
    if cupti is None:
        return found
    chip = ChipName(deviceIndex=index)
    if call(cupti, chip) == 0 and chip.pChipName:
        found["chip"] = chip.pChipName.decode("ascii", "replace")
    if is_opened:
        found["counters"] = _counters(driver, cupti, device)
    # CUPTI takes device 0 for none, and then uses the current context.
    support = DeviceSupported(cuDevice=device.value)
    if call(cupti, support) == 0:
        found["support"] = {part: getattr(support, part) for part in SUPPORT}
    return found


def _attribute(driver: Any, device: c_int, which: int) -> int:
    value = c_int()
    driver.cuDeviceGetAttribute(byref(value), which, device)
    return value.value


def _counters(driver: Any, cupti: Any, device: c_int) -> int | None:
    """Return the status of an attempt to use the counters of a GPU; None if it cannot be opened."""
    context = c_void_p()
    if driver.cuDevicePrimaryCtxRetain(byref(context), device) or driver.cuCtxSetCurrent(context):
        return None  # such as a GPU in exclusive mode that another process uses
    size = CounterAvailability(ctx=context)
    status = call(cupti, size)
    if status == 0:
        image = ctypes.create_string_buffer(size.counterAvailabilityImageSize)
        status = call(
            cupti,
            CounterAvailability(
                ctx=context,
                counterAvailabilityImageSize=len(image),
                pCounterAvailabilityImage=ctypes.cast(image, c_void_p),
            ),
        )
    return status


def call(cupti: Any, parameters: ctypes.Structure) -> int:
    """Call the function of a structure with it, and return CUPTI's result."""
    parameters.structSize = size_of(type(parameters))
    function: Callable[..., int] = getattr(cupti, FUNCTIONS[type(parameters)])
    return function(byref(parameters))


def _run(path: str, words: Sequence[str]) -> dict[str, Any]:
    try:
        driver = ctypes.CDLL(DRIVER)
    except OSError as error:
        return {"no_driver": str(error)}
    cupti, problem = None, None
    if path:
        try:
            cupti = ctypes.CDLL(path)
            getattr(cupti, _NEEDED)
        except OSError as error:
            cupti, problem = None, str(error)
        except AttributeError:
            cupti, problem = None, "it is older than 12.6"
    opened = [int(word) for word in words] or None
    found = answer(driver, cupti, opened)
    if cupti is not None:
        version = c_uint32()
        cupti.cuptiGetVersion(byref(version))
        found["cupti"] = version.value
    return found | {"problem": problem}


def _main() -> NoReturn:
    # Libraries may print: standard output is the pipe, so they get another one.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    answers.write(json.dumps(_run(sys.argv[1], sys.argv[2:])) + "\n")
    answers.flush()
    os._exit(0)  # without the exit handlers of foreign libraries


if __name__ == "__main__":
    _main()
