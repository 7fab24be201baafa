#include "machine/cuda_devices.h"

#include "machine/cuda_driver.h"

namespace warpline::agent {
namespace {

// The driver's numbers: of attributes of devices, and others.
constexpr int kPciBus = 33;
constexpr int kPciDevice = 34;
constexpr int kPciDomain = 50;

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

int active_devices() noexcept {
  const Driver driver;
  int count = 0;
  int active = 0;
  driver.call("cuDeviceGetCount", &count);
  for (int device = 0; device < count; ++device) {
    unsigned flags = 0;
    int is_active = 0;
    driver.call("cuDevicePrimaryCtxGetState", device, &flags, &is_active);
    active += is_active;
  }
  return active;
}

bool is_cuda_loaded() noexcept { return Driver().is_loaded(); }

bool is_cuda_initialised() noexcept {
  const Driver driver;
  int count = 0;
  // The first may succeed before the initialization that is under way has ended, which the second waits for.
  return driver.call("cuDeviceGetCount", &count) && driver.call("cuInit", 0u);
}

}  // namespace warpline::agent
