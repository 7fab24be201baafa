// The libraries whose calls can be recorded, and how their functions are known.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace warpline::agent {

struct Family {
  std::string_view collector;   // of -t
  std::string_view name;        // in the table
  std::string_view prefix;      // of its functions; a capital letter follows
};

// All of them; their numbers are places here.
inline constexpr Family kFamilies[] = {
    {"cublas", "cuBLAS", "cublas"},       {"cudnn", "cuDNN", "cudnn"},
    {"cufft", "cuFFT", "cufft"},          {"cusolver", "cuSOLVER", "cusolver"},
    {"cusparse", "cuSPARSE", "cusparse"}, {"mpi", "MPI", "MPI_"},
    {"nccl", "NCCL", "nccl"},             {"nvjpeg", "nvJPEG", "nvjpeg"},
    {"openmp", "OpenMP", ""},  // tells by itself: see openmp.cpp
};
inline constexpr std::size_t kFamilyCount = sizeof kFamilies / sizeof *kFamilies;
inline constexpr std::uint32_t kNoFamily = kFamilyCount;
inline constexpr std::uint32_t kOpenMp = 8;
static_assert(kFamilies[kOpenMp].collector == "openmp");

// Which families are recorded, as a bit each.
std::uint32_t families_of(const std::vector<std::string>& collectors) noexcept;

// Returns the family of a function, of those wanted, or kNoFamily. Functions that only name an error or
// tell a version or the time are of none.
std::uint32_t family_of(std::string_view function, std::uint32_t wanted) noexcept;

// Whether a file belongs to one of the libraries: calls that these make to each other are not recorded.
bool is_of_family(std::string_view path) noexcept;

}  // namespace warpline::agent
