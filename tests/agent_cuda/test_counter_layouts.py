"""Our declarations of CUPTI's range profiler and host, compared with NVIDIA's headers."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from agent_cuda.cupti_headers import CUDA_INCLUDE, SOURCES, compile_against, header_folders

from warpline.capture.machine.obstacles import CuptiResult

ABI = SOURCES / "counters" / "abi.h"
HEADERS = (
    *("cupti_result.h", "cupti_activity.h", "cupti_profiler_target.h", "cupti_profiler_host.h"),
    *("cupti_range_profiler.h", "cupti_target.h", "cupti_version.h"),
)
HEAD = "structSize pPriv "
RANGE = HEAD + "pRangeProfilerObject "
HOST = HEAD + "pHostObject "

# Of CounterFunctions: NVIDIA's function, its structure, and the fields in the order of ours.
FUNCTIONS = {
    "initialize": ("cuptiProfilerInitialize", "Profiler_Initialize", HEAD),
    "availability": (
        "cuptiProfilerGetCounterAvailability",
        "Profiler_GetCounterAvailability",
        HEAD + "ctx counterAvailabilityImageSize pCounterAvailabilityImage",
    ),
    "chip_name": (
        "cuptiDeviceGetChipName",
        "Device_GetChipName",
        HEAD + "deviceIndex pChipName",
    ),
    "host_init": (
        "cuptiProfilerHostInitialize",
        "Profiler_Host_Initialize",
        HEAD + "profilerType pChipName pCounterAvailabilityImage pHostObject",
    ),
    "host_end": ("cuptiProfilerHostDeinitialize", "Profiler_Host_Deinitialize", HOST),
    "host_add": (
        "cuptiProfilerHostConfigAddMetrics",
        "Profiler_Host_ConfigAddMetrics",
        HOST + "ppMetricNames numMetrics",
    ),
    "host_config_size": (
        "cuptiProfilerHostGetConfigImageSize",
        "Profiler_Host_GetConfigImageSize",
        HOST + "configImageSize",
    ),
    "host_config": (
        "cuptiProfilerHostGetConfigImage",
        "Profiler_Host_GetConfigImage",
        HOST + "configImageSize pConfigImage",
    ),
    "host_passes": (
        "cuptiProfilerHostGetNumOfPasses",
        "Profiler_Host_GetNumOfPasses",
        HEAD + "configImageSize pConfigImage numOfPasses",
    ),
    "host_values": (
        "cuptiProfilerHostEvaluateToGpuValues",
        "Profiler_Host_EvaluateToGpuValues",
        HOST + "pCounterDataImage counterDataImageSize rangeIndex ppMetricNames numMetrics"
        " pMetricValues",
    ),
    "enable": (
        "cuptiRangeProfilerEnable",
        "RangeProfiler_Enable",
        HEAD + "ctx pRangeProfilerObject cacheControlMode",
    ),
    "disable": ("cuptiRangeProfilerDisable", "RangeProfiler_Disable", RANGE),
    "configure": (
        "cuptiRangeProfilerSetConfig",
        "RangeProfiler_SetConfig",
        RANGE + "configSize pConfig counterDataImageSize pCounterDataImage range replayMode"
        " maxRangesPerPass numNestingLevels minNestingLevel passIndex targetNestingLevel",
    ),
    "start": ("cuptiRangeProfilerStart", "RangeProfiler_Start", RANGE),
    "stop": (
        "cuptiRangeProfilerStop",
        "RangeProfiler_Stop",
        RANGE + "passIndex targetNestingLevel isAllPassSubmitted",
    ),
    "push": ("cuptiRangeProfilerPushRange", "RangeProfiler_PushRange", RANGE + "pRangeName"),
    "pop": ("cuptiRangeProfilerPopRange", "RangeProfiler_PopRange", RANGE),
    "decode": (
        "cuptiRangeProfilerDecodeData",
        "RangeProfiler_DecodeData",
        RANGE + "numOfRangeDropped",
    ),
    "data_size": (
        "cuptiRangeProfilerGetCounterDataSize",
        "RangeProfiler_GetCounterDataSize",
        RANGE + "pMetricNames numMetrics maxNumOfRanges maxNumRangeTreeNodes counterDataSize",
    ),
    "data_init": (
        "cuptiRangeProfilerCounterDataImageInitialize",
        "RangeProfiler_CounterDataImage_Initialize",
        RANGE + "counterDataSize pCounterData",
    ),
    "data_info": (
        "cuptiRangeProfilerGetCounterDataInfo",
        "RangeProfiler_GetCounterDataInfo",
        HEAD + "pCounterDataImage counterDataImageSize numTotalRanges",
    ),
}
# Fields that structures got later, of theirs, and the version of CUPTI.
LATER = {"cacheControlMode": 130400}
# Functions without a structure, since a version: their declarations are compared.
PLAIN = {
    "clock_status": ("cuptiClockControlGetStatus", 130400),
    "clock_lock": ("cuptiClockControlLock", 130400),
    "clock_unlock": ("cuptiClockControlUnlock", 130400),
}
LATER_CONSTANTS = {
    "CacheMode::kNone": ("CUPTI_CACHE_CONTROL_MODE_NONE", 130400),
    "CacheMode::kAll": ("CUPTI_CACHE_CONTROL_MODE_ALL", 130400),
    "ClockMode::kBase": ("CUPTI_CLOCK_CONTROL_MODE_BASE", 130400),
    "ClockMode::kBoost": ("CUPTI_CLOCK_CONTROL_MODE_BOOST", 130400),
    "ClockStatus::kUnlocked": ("CUPTI_CLOCK_CONTROL_STATUS_UNLOCKED", 130400),
    "ClockStatus::kLocked": ("CUPTI_CLOCK_CONTROL_STATUS_LOCKED", 130400),
}
CONSTANTS = {
    "kNotSupported": "CUPTI_ERROR_NOT_SUPPORTED",
    "kInsufficientPrivileges": "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES",
    "kForRanges": "CUPTI_PROFILER_TYPE_RANGE_PROFILER",
    "RangeKind::kEachKernel": "CUPTI_AutoRange",
    "RangeKind::kPushed": "CUPTI_UserRange",
    "ReplayKind::kApplication": "CUPTI_ApplicationReplay",
    "ReplayKind::kKernel": "CUPTI_KernelReplay",
    "ReplayKind::kUser": "CUPTI_UserReplay",
}
LATER_RESULTS = {  # of 12.8 and later
    CuptiResult.MIG_DEVICE_NOT_SUPPORTED,
    CuptiResult.SLI_DEVICE_NOT_SUPPORTED,
    CuptiResult.WSL_DEVICE_NOT_SUPPORTED,
}
LAUNCHES = {
    "LaunchParameters": (
        ("cuLaunchKernel_params", "cuLaunchCooperativeKernel_params"),
        "f gridDimX blockDimX sharedMemBytes hStream",
    ),
    "LaunchConfig": (("CUlaunchConfig",), "gridDimX blockDimX sharedMemBytes hStream"),
    "LaunchExParameters": (("cuLaunchKernelEx_params",), "config f"),
}
# All that NVIDIA's headers of the profiler need of cuda.h, where there is none.
CUDA_H = """
typedef struct CUctx_st *CUcontext;
typedef struct CUstream_st *CUstream;
typedef int CUdevice;
"""
TYPES = """
template <class> struct Only;
template <class A> struct Only<int (*)(A*)> { using Struct = A; };
template <class R, class A> struct Only<R (*)(A*)> { using Struct = A; };
template <class A, class B> constexpr bool alike =
    sizeof(A) == sizeof(B) && std::is_pointer_v<A> == std::is_pointer_v<B>;
template <class> struct Call;
template <class R, class... A> struct Call<R (*)(A...)> { using Plain = int (*)(A...); };
template <class F> using Plain = typename Call<F>::Plain;
template <class A, class B> constexpr bool alike_calls = false;
template <class... A, class... B> constexpr bool alike_calls<int (*)(A...), int (*)(B...)> =
    (alike<A, B> && ...);
"""


def _fields_of(struct: str) -> list[str]:
    body = re.search(rf"^struct {struct} \{{(.*?)^\}};", ABI.read_text(), re.MULTILINE | re.DOTALL)
    assert body is not None, struct
    lines = re.sub(r"//.*", "", body[1]).split(";")
    return [re.sub(r"\[.*\]", "", line).split()[-1] for line in lines if line.strip()]


def _struct_of(function: str) -> str:
    found = re.search(rf"Result \(\*{function}\)\((\w+)\*\);", ABI.read_text())
    assert found is not None, function
    return found[1]


def _same_fields(ours: str, theirs: str, names: str) -> list[str]:
    fields = _fields_of(ours)
    assert len(fields) == len(names.split()), ours
    lines = []
    for our, their in zip(fields, names.split(), strict=True):
        if their in LATER:
            lines.append(f"#if CUPTI_API_VERSION >= {LATER[their]}")
        lines.append(
            f"static_assert(offsetof(ours::{ours}, {our}) == offsetof({theirs}, {their}));"
        )
        if our not in ("grid", "block"):  # three of their fields
            types = f"decltype(ours::{ours}::{our}), decltype({theirs}::{their})"
            lines.append(f"static_assert(alike<{types}>);")
        if their in LATER:
            lines.append("#endif")
    return lines


def _lines(folder: Path) -> list[str]:
    text = "".join((folder / header).read_text(errors="replace") for header in HEADERS)
    lines = [
        f'#include "{ABI.relative_to(SOURCES)}"',
        "#include <cstddef>",
        "#include <type_traits>",
    ]
    lines += [f"#include <{header}>" for header in HEADERS if header != "cupti_activity.h"]
    lines += [TYPES, "namespace ours = warpline::cupti;"]
    for function, (theirs, family, names) in FUNCTIONS.items():
        struct = _struct_of(function)
        lines += _same_fields(struct, f"CUpti_{family}_Params", names)
        taken = f"Only<decltype(&{theirs})>::Struct"
        lines.append(f"static_assert(std::is_same_v<{taken}, CUpti_{family}_Params>);")
        # 24 is 12.6, the first; later ones have more fields.
        last = [
            our
            for our, their in zip(_fields_of(struct), names.split(), strict=True)
            if their not in LATER
        ][-1]
        extent = f"offsetof(ours::{struct}, {last}) + sizeof(ours::{struct}::{last})"
        size = f"CUpti_{family}_Params_STRUCT_SIZE"
        lines.append(
            f"static_assert(CUPTI_API_VERSION == 24 ? {extent} == {size} : {extent} <= {size});"
        )
    for function, (theirs, version) in PLAIN.items():
        types = f"decltype(ours::CounterFunctions::{function}), decltype(&{theirs})"
        check = f"static_assert(alike_calls<Plain<{types.replace(', ', '>, Plain<')}>>);"
        lines += [f"#if CUPTI_API_VERSION >= {version}", check, "#endif"]
    for ours, (theirs, version) in LATER_CONSTANTS.items():
        check = f"static_assert(static_cast<long>(ours::{ours}) == {theirs});"
        lines += [f"#if CUPTI_API_VERSION >= {version}", check, "#endif"]
    for ours, theirs in CONSTANTS.items():
        lines.append(f"static_assert(static_cast<long>(ours::{ours}) == {theirs});")
    for result in CuptiResult:
        name = f"CUPTI_ERROR_{result.name}"
        if name in text or result not in LATER_RESULTS:
            lines.append(f"static_assert({result.value} == {name});")
    return lines


def test_every_function_and_structure_is_compared():
    text = ABI.read_text()
    functions = set(re.findall(r"Result \(\*(\w+)\)", text)) - {"device_id"}
    assert functions == set(FUNCTIONS) | set(PLAIN)
    compared = {_struct_of(function) for function in FUNCTIONS} | set(LAUNCHES)
    assert set(re.findall(r"^struct (\w+)", text, re.MULTILINE)) == compared | {"CounterFunctions"}


def test_structures_are_those_of_nvidias_headers(tmp_path):
    folders = [one for one in header_folders() if (one / "cupti_range_profiler.h").is_file()]
    if not folders or shutil.which("c++") is None:
        pytest.skip("no headers of CUPTI 12.6 or later, or no compiler")
    (tmp_path / "cuda").mkdir()
    (tmp_path / "cuda" / "cuda.h").write_text(CUDA_H)
    for folder in folders:
        compile_against(folder, _lines(folder), tmp_path, tmp_path / "cuda")


def _definition(text: str, struct: str) -> str:
    found = re.search(rf"typedef struct {struct}_st \{{.*?\}} {struct};", text, re.DOTALL)
    assert found is not None, struct
    return found[0]


def test_parameters_of_launches_are_those_of_nvidias_headers(tmp_path):
    folders = [one for one in header_folders() if (one / "generated_cuda_meta.h").is_file()]
    cuda_h = [*(one / "cuda.h" for one in folders), CUDA_INCLUDE / "cuda.h"]
    if not any(path.is_file() for path in cuda_h) or shutil.which("c++") is None:
        pytest.skip("no headers of CUDA, or no compiler")
    for folder in folders:
        text = (folder / "generated_cuda_meta.h").read_text()
        lines = [f'#include "{ABI.relative_to(SOURCES)}"', "#include <cstddef>"]
        lines += ["#include <type_traits>", "#include <cuda.h>"]
        lines += [TYPES, "namespace ours = warpline::cupti;"]
        for ours, (all_theirs, names) in LAUNCHES.items():
            for theirs in all_theirs:
                if theirs != "CUlaunchConfig":  # of cuda.h
                    lines.append(_definition(text, theirs))
                lines += _same_fields(ours, theirs, names)
        compile_against(folder, lines, tmp_path)
