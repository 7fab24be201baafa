// A stand-in for the library that manages GPUs: it knows those at the places in FAKE_NVML_PLACE, with
// commas between them, which have the number FAKE_NVML_INDEX and the SM clocks FAKE_NVML_CLOCKS: each
// reading of a GPU has the next one, of those after the last all have the last; 0 is an error. Without
// it there is no clock. A reading takes FAKE_NVML_READ_US, with a lock held, as the real one has some.
//
// What a caller does wrong is told on standard error, where no test expects anything.
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string_view>

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

constexpr int kUninitialised = 1;
constexpr int kInvalidArgument = 2;
constexpr int kNotSupported = 3;
constexpr int kNotFound = 6;
constexpr int kUnknown = 999;
constexpr int kSmClock = 1;

struct Gpu {
  int readings = 0;
};

std::mutex g_lock;
int g_begun = 0;
pid_t g_process = 0;  // that has begun
Gpu g_gpus[8];
std::atomic<int> g_readings{0};

int tell(const char* function, const char* what, int result) {
  std::fprintf(stderr, "violation: %s: %s\n", function, what);
  return result;
}

// The item of a list with commas, or the last if it has fewer.
std::string_view item_of(std::string_view list, int number) {
  for (; number > 0 && list.find(',') != list.npos; --number) list.remove_prefix(list.find(',') + 1);
  return list.substr(0, list.find(','));
}

bool is_gpu(const void* device) {
  for (const Gpu& gpu : g_gpus) {
    if (&gpu == device) return true;
  }
  return false;
}

int checked(const char* function, const void* device) {
  if (g_begun == 0) return tell(function, "before nvmlInit_v2", kUninitialised);
  return is_gpu(device) ? 0 : tell(function, "no such GPU", kInvalidArgument);
}

}  // namespace

EXPORT int nvmlInit_v2() {
  const std::lock_guard lock(g_lock);
  if (g_begun++ == 0) g_process = getpid();
  return 0;
}

EXPORT int nvmlShutdown() {
  const std::lock_guard lock(g_lock);
  if (g_begun == 0) return tell(__func__, "before nvmlInit_v2", kUninitialised);
  --g_begun;
  return 0;
}

EXPORT int nvmlDeviceGetHandleByPciBusId_v2(const char* place, void** device) {
  const std::lock_guard lock(g_lock);
  if (g_begun == 0) return tell(__func__, "before nvmlInit_v2", kUninitialised);
  const char* known = std::getenv("FAKE_NVML_PLACE");
  std::string_view rest = known == nullptr ? "" : known;
  for (Gpu& gpu : g_gpus) {
    if (rest.substr(0, rest.find(',')) == place) {
      *device = &gpu;
      return 0;
    }
    if (rest.find(',') == rest.npos) break;
    rest.remove_prefix(rest.find(',') + 1);
  }
  return kNotFound;
}

EXPORT int nvmlDeviceGetIndex(void* device, unsigned* index) {
  const std::lock_guard lock(g_lock);
  if (const int result = checked(__func__, device)) return result;
  const char* number = std::getenv("FAKE_NVML_INDEX");
  if (number == nullptr) return kNotSupported;
  *index = static_cast<unsigned>(std::atoi(number));
  return 0;
}

EXPORT int nvmlDeviceGetClockInfo(void* device, int type, unsigned* mhz) {
  const std::lock_guard lock(g_lock);
  if (const int result = checked(__func__, device)) return result;
  if (g_process != getpid()) return tell(__func__, "asked in a forked process", kUnknown);
  if (type != kSmClock) return tell(__func__, "another clock", kInvalidArgument);
  const char* clocks = std::getenv("FAKE_NVML_CLOCKS");
  if (clocks == nullptr) return kNotSupported;
  if (const char* time = std::getenv("FAKE_NVML_READ_US")) {
    usleep(static_cast<unsigned>(std::atoi(time)));
  }
  const std::string_view clock = item_of(clocks, static_cast<Gpu*>(device)->readings++);
  *mhz = static_cast<unsigned>(std::atoi(clock.data()));
  ++g_readings;
  return *mhz == 0 ? kUnknown : 0;
}

// How many clocks were read, of all GPUs.
EXPORT int fake_nvml_readings() { return g_readings; }
