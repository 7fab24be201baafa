// The machine-wide number of a GPU: CUDA numbers only the GPUs visible to the process.
#pragma once

#include <cstdint>

namespace warpline::agent {

// Returns the number of the GPU at a place (as in CudaDevice::pci) among the machine's, counted as
// the system's tools do, or -1. The driver's own list says it; where there is none, as in some
// containers, the management library, which is loaded for it; or else CUDA_VISIBLE_DEVICES, by
// CUDA's number. Not from within a callback.
std::int32_t machine_number(std::uint64_t pci, std::uint32_t device) noexcept;

// The parts of it: the place among the entries of a folder, which are called by their places; and
// the number that a list of numbers has for a device. -1: not there.
std::int32_t number_in_folder(const char* folder, std::uint64_t pci) noexcept;
std::int32_t number_in_list(const char* list, std::uint32_t device) noexcept;

}  // namespace warpline::agent
