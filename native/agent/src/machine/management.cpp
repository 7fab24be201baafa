#include "machine/management.h"

#include <dlfcn.h>

#include <cstdio>

namespace warpline::agent {
namespace {

constexpr int kSmClock = 1;  // NVML_CLOCK_SM

}  // namespace

template <class... Arguments>
bool Management::call(const char* name, Arguments... arguments) const noexcept {
  if (library_ == nullptr) return false;
  auto* function = reinterpret_cast<int (*)(Arguments...)>(dlsym(library_, name));
  return function != nullptr && function(arguments...) == 0;
}

Management::Management() noexcept : library_(dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_LOCAL)) {
  is_begun_ = call("nvmlInit_v2");
}

Management::~Management() {
  if (is_begun_) call("nvmlShutdown");
  if (library_ != nullptr) dlclose(library_);
}

void* Management::gpu_at(std::uint64_t pci) const noexcept {
  char text[32];
  std::snprintf(text, sizeof text, "%08x:%02x:%02x.0", static_cast<unsigned>(pci & 0xffffffff),
                static_cast<unsigned>(pci >> 32 & 0xffff), static_cast<unsigned>(pci >> 48));
  const char* place = text;
  void* gpu = nullptr;
  const bool is_there = is_begun_ && call("nvmlDeviceGetHandleByPciBusId_v2", place, &gpu);
  return is_there ? gpu : nullptr;
}

std::int32_t Management::number_of(void* gpu) const noexcept {
  unsigned number = 0;
  const bool is_told = gpu != nullptr && call("nvmlDeviceGetIndex", gpu, &number);
  return is_told ? static_cast<std::int32_t>(number) : -1;
}

std::uint32_t Management::sm_clock_mhz(void* gpu) const noexcept {
  unsigned mhz = 0;
  return gpu != nullptr && call("nvmlDeviceGetClockInfo", gpu, kSmClock, &mhz) ? mhz : 0;
}

}  // namespace warpline::agent
