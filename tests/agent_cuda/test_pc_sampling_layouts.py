"""Our declarations of CUPTI's PC sampling, compared with NVIDIA's headers."""

from __future__ import annotations

import re
import shutil

import pytest
from agent_cuda.cupti_headers import SOURCES, compile_against, header_folders

ABI = SOURCES / "pc_sampling" / "abi.h"
HEADERS = ("cupti_result.h", "cupti_pcsampling.h")

# Ours -> NVIDIA's, and the fields in the order of ours.
HEAD = "size pPriv ctx "
PC = (
    "size cubinCrc pcOffset functionIndex pad functionName stallReasonCount stallReason"
    " correlationId"
)
DATA = (
    "size collectNumPcs totalSamples droppedSamples totalNumPcs remainingNumPcs rangeId pPcData"
    " nonUsrKernelsTotalSamples hardwareBufferFull"
)
STRUCTS = {
    "StallSamples": ("CUpti_PCSamplingStallReason", "pcSamplingStallReasonIndex samples"),
    "PcSamples": (
        "CUpti_PCSamplingPCData",
        PC,
    ),
    "PcData": (
        "CUpti_PCSamplingData",
        DATA,
    ),
    "PcSettingValue": ("CUpti_PCSamplingConfigurationInfo", "attributeType attributeStatus"),
    "PcContext": ("CUpti_PCSamplingEnableParams", HEAD),
    "PcStallCount": ("CUpti_PCSamplingGetNumStallReasonsParams", HEAD + "numStallReasons"),
    "PcStalls": (
        "CUpti_PCSamplingGetStallReasonsParams",
        HEAD + "numStallReasons stallReasonIndex stallReasons",
    ),
    "PcConfig": (
        "CUpti_PCSamplingConfigurationInfoParams",
        HEAD + "numAttributes pPCSamplingConfigurationInfo",
    ),
    "PcTake": ("CUpti_PCSamplingGetDataParams", HEAD + "pcSamplingData"),
    "CubinChecksum": ("CUpti_GetCubinCrcParams", "size cubinSize cubin cubinCrc"),
}
FUNCTIONS = {
    "enable": "cuptiPCSamplingEnable",
    "disable": "cuptiPCSamplingDisable",
    "stall_count": "cuptiPCSamplingGetNumStallReasons",
    "stalls": "cuptiPCSamplingGetStallReasons",
    "configure": "cuptiPCSamplingSetConfigurationAttribute",
    "take": "cuptiPCSamplingGetData",
    "checksum": "cuptiGetCubinCrc",
}
ATTRIBUTE = "CUPTI_PC_SAMPLING_CONFIGURATION_ATTR_TYPE_"
CONSTANTS = {
    "kOutOfMemory": "CUPTI_ERROR_OUT_OF_MEMORY",
    "kStallNameBytes": "CUPTI_STALL_REASON_STRING_SIZE",
    "kContinuous": "CUPTI_PC_SAMPLING_COLLECTION_MODE_CONTINUOUS",
    "PcSetting::kPeriod": f"{ATTRIBUTE}SAMPLING_PERIOD",
    "PcSetting::kStalls": f"{ATTRIBUTE}STALL_REASON",
    "PcSetting::kScratchBytes": f"{ATTRIBUTE}SCRATCH_BUFFER_SIZE",
    "PcSetting::kHardwareBufferBytes": f"{ATTRIBUTE}HARDWARE_BUFFER_SIZE",
    "PcSetting::kMode": f"{ATTRIBUTE}COLLECTION_MODE",
    "PcSetting::kStartStop": f"{ATTRIBUTE}ENABLE_START_STOP_CONTROL",
    "PcSetting::kDataBuffer": f"{ATTRIBUTE}SAMPLING_DATA_BUFFER",
    "PcSetting::kWorkerSleepMs": f"{ATTRIBUTE}WORKER_THREAD_PERIODIC_SLEEP_SPAN",
}
# Values of settings: ours and NVIDIA's member of the union.
VALUES = {
    "number": "samplingPeriodData.samplingPeriod",
    "size": "hardwareBufferSizeData.hardwareBufferSize",
    "buffer": "samplingDataBufferData.samplingDataBuffer",
    "stalls.count": "stallReasonData.stallReasonCount",
    "stalls.indexes": "stallReasonData.pStallReasonIndex",
}
# What the headers need of CUDA's, which may not be installed.
CUDA_H = """
#define CUDA_VERSION 13000
#define CUDAAPI
typedef struct CUctx_st *CUcontext;
typedef struct CUstream_st *CUstream;
typedef int CUdevice;
"""


def _fields_of(struct: str) -> list[str]:
    pattern = rf"^struct (?:WL_PACKED )?{struct} \{{(.*?)^\}};"
    body = re.search(pattern, ABI.read_text(), re.MULTILINE | re.DOTALL)
    assert body is not None, struct
    lines = re.sub(r"//.*", "", body[1]).partition("union")[0].split(";")
    return [line.split()[-1] for line in lines if line.strip()]


def _lines() -> list[str]:
    lines = [f'#include "{ABI.relative_to(SOURCES)}"', "#include <cstddef>"]
    lines += ["#include <type_traits>", *(f"#include <{header}>" for header in HEADERS)]
    lines += [
        "namespace ours = warpline::cupti;",
        "template <class> struct Only;",
        "template <class R, class A> struct Only<R (*)(A*)> { using Struct = A; };",
    ]
    for struct, (theirs, names) in STRUCTS.items():
        lines.append(f"static_assert(sizeof(ours::{struct}) == sizeof({theirs}));")
        for our, their in zip(_fields_of(struct), names.split(), strict=True):
            places = f"offsetof(ours::{struct}, {our}) == offsetof({theirs}, {their})"
            sizes = f"sizeof(ours::{struct}::{our}) == sizeof({theirs}::{their})"
            lines.append(f"static_assert({places} && {sizes});")
    for function, theirs in FUNCTIONS.items():
        found = re.search(rf"Result \(\*{function}\)\((\w+)\*\);", ABI.read_text())
        assert found is not None, function
        # Parameters to enable and to disable are alike, and one struct of ours.
        lines.append(
            f"static_assert(sizeof(Only<decltype(&{theirs})>::Struct) == sizeof(ours::{found[1]}));"
        )
    info = "CUpti_PCSamplingConfigurationInfo"
    for our, their in VALUES.items():
        lines.append(
            f"static_assert(offsetof(ours::PcSettingValue, {our})"
            f" == offsetof({info}, attributeData.{their}));"
        )
    for ours, theirs in CONSTANTS.items():
        lines.append(f"static_assert(static_cast<long>(ours::{ours}) == {theirs});")
    return lines


def test_every_function_and_structure_is_compared():
    text = ABI.read_text()
    structs = set(re.findall(r"^struct (?:WL_PACKED )?(\w+) \{", text, re.MULTILINE))
    assert structs == set(STRUCTS) | {"PcFunctions"}
    assert set(re.findall(r"Result \(\*(\w+)\)", text)) == set(FUNCTIONS) | {"device_id"}
    settings = re.search(r"enum class PcSetting.*?\{(.*?)\};", text, re.DOTALL)
    assert settings is not None
    for name in re.findall(r"(k\w+) =", settings[1]):
        assert f"PcSetting::{name}" in CONSTANTS


def test_structures_are_those_of_nvidias_headers(tmp_path):
    folders = [one for one in header_folders() if (one / "cupti_pcsampling.h").is_file()]
    if not folders or shutil.which("c++") is None:
        pytest.skip("no headers of CUPTI's PC sampling, or no compiler")
    (tmp_path / "cuda").mkdir()
    (tmp_path / "cuda" / "cuda.h").write_text(CUDA_H)
    for folder in folders:
        compile_against(folder, _lines(), tmp_path, tmp_path / "cuda")
