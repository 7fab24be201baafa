// Facts about a GPU of this process.
#pragma once

#include <cstdint>

namespace warpline::agent {

struct CudaDevice {
  bool is_known = false;
  bool is_written = false;
  bool is_mig = false;
  std::uint32_t id = 0;
  std::uint8_t uuid[16] = {};
  char name[128] = {};
  std::uint64_t memory_bytes = 0;
  std::uint64_t memory_bytes_per_s = 0;
  std::uint64_t clock_hz = 0;
  std::uint64_t pci = ~std::uint64_t{0};  // domain:32 | bus:16 | device:16
  std::int32_t number = -1;  // of the machine's GPUs, in which CUDA_VISIBLE_DEVICES hides none
  std::uint32_t l2_bytes = 0;
  std::uint32_t warp_size = 0;
  std::uint32_t multiprocessors = 0;
  std::uint32_t compute_major = 0;
  std::uint32_t compute_minor = 0;
  std::uint32_t max_threads_per_multiprocessor = 0;
  std::uint32_t max_shared_per_multiprocessor = 0;
  std::uint32_t max_registers_per_multiprocessor = 0;
};

// Returns a device's PCI address from the driver; all bits set if unknown. The driver is not loaded
// for it.
std::uint64_t pci_location(std::uint32_t device) noexcept;

// Returns how many devices have a primary context that is in use.
int active_devices() noexcept;

// Whether the driver is loaded.
bool is_cuda_loaded() noexcept;

// Whether the driver is loaded and initialized by the program. Waits for another thread that is initializing it.
bool is_cuda_initialised() noexcept;

}  // namespace warpline::agent
