// The library for managing GPUs (NVML); the agent does not link to it.
#pragma once

#include <cstdint>

namespace warpline::agent {

// Opens the library, and begins to use it, for as long as it lives. Where there is none, or it gives
// errors, nothing is known. Threads may ask at the same time.
class Management {
 public:
  Management() noexcept;
  ~Management();
  Management(const Management&) = delete;
  Management& operator=(const Management&) = delete;

  // Returns its handle of the GPU at a place (as in CudaDevice::pci), or null.
  void* gpu_at(std::uint64_t pci) const noexcept;
  // Returns the number of a GPU among the machine's, or -1.
  std::int32_t number_of(void* gpu) const noexcept;
  // Returns the current clock of a GPU's SMs, or 0.
  std::uint32_t sm_clock_mhz(void* gpu) const noexcept;

 private:
  template <class... Arguments>
  bool call(const char* name, Arguments... arguments) const noexcept;

  void* library_;
  bool is_begun_ = false;
};

}  // namespace warpline::agent
