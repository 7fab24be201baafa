#include "cuda_devices.h"

#include <dlfcn.h>

namespace warpline::agent {
namespace {

// The driver's functions and their numbers for device attributes.
constexpr int kPciBus = 33;
constexpr int kPciDevice = 34;
constexpr int kPciDomain = 50;
constexpr int kSuccess = 0;

// The driver, as long as the program has it loaded.
class Driver {
 public:
  Driver() noexcept : library_(dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD)) {}
  ~Driver() {
    if (library_ != nullptr) dlclose(library_);
  }
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  template <class... Arguments>
  bool call(const char* name, Arguments... arguments) const noexcept {
    if (library_ == nullptr) return false;
    auto* function = reinterpret_cast<int (*)(Arguments...)>(dlsym(library_, name));
    return function != nullptr && function(arguments...) == kSuccess;
  }

 private:
  void* library_;
};

}  // namespace

std::uint64_t pci_location(std::uint32_t device) noexcept {
  const Driver driver;
  int handle = 0;
  int domain = 0;
  int bus = 0;
  int place = 0;
  const bool is_told = driver.call("cuDeviceGet", &handle, static_cast<int>(device)) &&
                       driver.call("cuDeviceGetAttribute", &domain, kPciDomain, handle) &&
                       driver.call("cuDeviceGetAttribute", &bus, kPciBus, handle) &&
                       driver.call("cuDeviceGetAttribute", &place, kPciDevice, handle);
  if (!is_told) return ~std::uint64_t{0};
  return static_cast<std::uint32_t>(domain) |
         std::uint64_t{static_cast<std::uint16_t>(bus)} << 32 |
         std::uint64_t{static_cast<std::uint16_t>(place)} << 48;
}

bool is_cuda_initialised() noexcept {
  const Driver driver;
  int count = 0;
  return driver.call("cuDeviceGetCount", &count);
}

}  // namespace warpline::agent
