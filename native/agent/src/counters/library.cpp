#include "counters/library.h"

#include <dlfcn.h>

#include "cupti/setup.h"

namespace warpline::agent {
namespace {

struct Refusal {
  cupti::Result result;
  const char* reason;  // what is wrong, a tab, what to do
};
constexpr Refusal kRefusals[] = {
    {cupti::kInsufficientPrivileges,
     "ERR_NVGPUCTRPERM: the driver allows GPU performance counters to administrators only"
     "\trun as root or with CAP_SYS_ADMIN (docker: --cap-add=SYS_ADMIN), or have the driver loaded"
     " with NVreg_RestrictProfilingToAdminUsers=0"},
    {cupti::kHardwareBusy,
     "the GPU's performance counters are in use"
     "\tstop other profilers, such as ncu; for DCGM, run dcgmi profile --pause"},
    {cupti::kVirtualGpu, "profiling is not enabled for this virtual GPU"
                         "\tenable it for the vGPU in the hypervisor"},
    {cupti::kConfidentialComputing, "performance counters are not available in confidential-computing mode"},
    {cupti::kMiningGpu, "performance counters are not available on this GPU model"},
    {cupti::kMig, "these performance counters are not available on MIG instances"
                  "\tuse a GPU without MIG"},
    {cupti::kOtherSubscriber, "another profiler uses CUPTI in this process"},
};

}  // namespace

const char* load_counter_functions(const CuptiLibrary& library, bool wants_clocks,
                                   cupti::CounterFunctions& f) {
  void* handle = dlopen(library.file.c_str(), RTLD_LAZY | RTLD_NOLOAD);
  const char* missing = nullptr;
  const auto need = [&](const char* name, auto& function) {
    using Function = std::remove_reference_t<decltype(function)>;
    function = handle == nullptr ? nullptr : reinterpret_cast<Function>(dlsym(handle, name));
    if (function == nullptr && missing == nullptr) missing = name;
  };
  need("cuptiProfilerInitialize", f.initialize);
  need("cuptiProfilerGetCounterAvailability", f.availability);
  need("cuptiDeviceGetChipName", f.chip_name);
  need("cuptiGetDeviceId", f.device_id);
  need("cuptiProfilerHostInitialize", f.host_init);
  need("cuptiProfilerHostDeinitialize", f.host_end);
  need("cuptiProfilerHostConfigAddMetrics", f.host_add);
  need("cuptiProfilerHostGetConfigImageSize", f.host_config_size);
  need("cuptiProfilerHostGetConfigImage", f.host_config);
  need("cuptiProfilerHostGetNumOfPasses", f.host_passes);
  need("cuptiProfilerHostEvaluateToGpuValues", f.host_values);
  need("cuptiRangeProfilerEnable", f.enable);
  need("cuptiRangeProfilerDisable", f.disable);
  need("cuptiRangeProfilerSetConfig", f.configure);
  need("cuptiRangeProfilerStart", f.start);
  need("cuptiRangeProfilerStop", f.stop);
  need("cuptiRangeProfilerPushRange", f.push);
  need("cuptiRangeProfilerPopRange", f.pop);
  need("cuptiRangeProfilerDecodeData", f.decode);
  need("cuptiRangeProfilerGetCounterDataSize", f.data_size);
  need("cuptiRangeProfilerCounterDataImageInitialize", f.data_init);
  need("cuptiRangeProfilerGetCounterDataInfo", f.data_info);
  if (wants_clocks) {
    need("cuptiClockControlGetStatus", f.clock_status);
    need("cuptiClockControlLock", f.clock_lock);
    need("cuptiClockControlUnlock", f.clock_unlock);
  }
  if (handle != nullptr) dlclose(handle);  // the agent holds the library open
  return missing;
}

std::string counters_refused(const cupti::Functions& functions, const char* function,
                             cupti::Result result) {
  for (const Refusal& known : kRefusals) {
    if (known.result == result) return known.reason;
  }
  return std::string(function) + ": " + words_of(functions, result);
}

}  // namespace warpline::agent
