#include "counters/library.h"

#include <dlfcn.h>

#include "cupti/setup.h"

namespace warpline::agent {

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
  return std::string(function) + ": " + words_of(functions, result) + '\t' + std::to_string(result);
}

}  // namespace warpline::agent
