#include "counters/library.h"

namespace warpline::agent {

const char* load_counter_functions(const CuptiLibrary& library, bool wants_clocks,
                                   cupti::CounterFunctions& f) {
  FunctionFinder finder(library);
  finder.need("cuptiProfilerInitialize", f.initialize);
  finder.need("cuptiProfilerGetCounterAvailability", f.availability);
  finder.need("cuptiDeviceGetChipName", f.chip_name);
  finder.need("cuptiGetDeviceId", f.device_id);
  finder.need("cuptiProfilerHostInitialize", f.host_init);
  finder.need("cuptiProfilerHostDeinitialize", f.host_end);
  finder.need("cuptiProfilerHostConfigAddMetrics", f.host_add);
  finder.need("cuptiProfilerHostGetConfigImageSize", f.host_config_size);
  finder.need("cuptiProfilerHostGetConfigImage", f.host_config);
  finder.need("cuptiProfilerHostGetNumOfPasses", f.host_passes);
  finder.need("cuptiProfilerHostEvaluateToGpuValues", f.host_values);
  finder.need("cuptiRangeProfilerEnable", f.enable);
  finder.need("cuptiRangeProfilerDisable", f.disable);
  finder.need("cuptiRangeProfilerSetConfig", f.configure);
  finder.need("cuptiRangeProfilerStart", f.start);
  finder.need("cuptiRangeProfilerStop", f.stop);
  finder.need("cuptiRangeProfilerPushRange", f.push);
  finder.need("cuptiRangeProfilerPopRange", f.pop);
  finder.need("cuptiRangeProfilerDecodeData", f.decode);
  finder.need("cuptiRangeProfilerGetCounterDataSize", f.data_size);
  finder.need("cuptiRangeProfilerCounterDataImageInitialize", f.data_init);
  finder.need("cuptiRangeProfilerGetCounterDataInfo", f.data_info);
  if (wants_clocks) {
    finder.need("cuptiClockControlGetStatus", f.clock_status);
    finder.need("cuptiClockControlLock", f.clock_lock);
    finder.need("cuptiClockControlUnlock", f.clock_unlock);
  }
  return finder.missing();
}

}  // namespace warpline::agent
