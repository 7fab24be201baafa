#include "library_calls/families.h"

#include <algorithm>
#include <iterator>

namespace warpline::agent {
namespace {

constexpr std::string_view kVerbose = "cublas-verbose";

// What is in names of functions that nobody wants to see: they do no work.
constexpr std::string_view kIdle[] = {
    "GetErrorString", "GetErrorName", "GetStatusString", "GetStatusName", "GetLastError",
    "GetVersion",     "GetProperty",  "MPI_Wtime",       "MPI_Wtick",     "GetCudartVersion",
};

constexpr std::string_view kFiles[] = {
    "libcublas", "libcudnn", "libcufft",  "libcusolver", "libcusparse", "libnccl",
    "libnvjpeg", "libmpi",   "libpmpi",   "libmpich",    "libopen-pal", "libopen-rte",
    "libwarpline_",
};

bool is_capital(char symbol) noexcept { return symbol >= 'A' && symbol <= 'Z'; }

}  // namespace

std::uint32_t families_of(const std::vector<std::string>& collectors) noexcept {
  std::uint32_t found = 0;
  for (std::uint32_t family = 0; family < kFamilyCount; ++family) {
    for (const std::string& name : collectors) {
      const bool is_it = name == kFamilies[family].collector ||
                         (name == kVerbose && kFamilies[family].collector == "cublas");
      if (is_it) found |= 1u << family;
    }
  }
  return found;
}

std::uint32_t family_of(std::string_view function, std::uint32_t wanted) noexcept {
  for (std::uint32_t family = 0; family < kFamilyCount; ++family) {
    const std::string_view prefix = kFamilies[family].prefix;
    if ((wanted >> family & 1) == 0 || prefix.empty() || !function.starts_with(prefix) ||
        function.size() == prefix.size() || !is_capital(function[prefix.size()])) {
      continue;
    }
    const bool is_idle = std::any_of(std::begin(kIdle), std::end(kIdle), [&](std::string_view part) {
      return function.find(part) != function.npos;
    });
    return is_idle ? kNoFamily : family;
  }
  return kNoFamily;
}

bool is_of_family(std::string_view path) noexcept {
  const std::string_view file = path.substr(path.rfind('/') + 1);
  return std::any_of(std::begin(kFiles), std::end(kFiles),
                     [file](std::string_view start) { return file.starts_with(start); });
}

}  // namespace warpline::agent
