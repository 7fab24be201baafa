#include "cupti/other.h"

#include <link.h>

#include <string_view>

namespace warpline::agent {
namespace {

constexpr int kSharingDriver = 13030;

// As CUPTI tells subscribers, and what users know them as.
struct Known {
  std::string_view name;
  const char* as;
};
constexpr Known kKnown[] = {
    {"Kineto", "torch.profiler"},
    {"torch-cupti-monitor", "PyTorch's monitor"},
};

int find_injection(dl_phdr_info* info, std::size_t, void*) {
  const std::string_view path = info->dlpi_name == nullptr ? "" : info->dlpi_name;
  const std::string_view file = path.substr(path.rfind('/') + 1);
  return file.starts_with("libToolsInjection") ? 1 : 0;
}

// Nsight Systems loads its own library into the programs that it runs. Others who name it, for NVTX
// alone, run under nsys as a rule.
bool has_library_of_nsys() { return dl_iterate_phdr(find_injection, nullptr) != 0; }

bool can_share(const CuptiLibrary& library) {
  return library.has_shared && library.version >= cupti::kVersion13_3 &&
         cuda_driver_version() >= kSharingDriver;
}

}  // namespace

std::string name_of_other(const std::string& told) {
  std::string_view name = told;
  constexpr std::string_view kPrefix = "CUPTI for";
  if (name.starts_with(kPrefix)) name.remove_prefix(kPrefix.size());
  while (name.starts_with(' ')) name.remove_prefix(1);
  if (name == "CUPTI") name = {};
  for (const Known& known : kKnown) {
    if (name == known.name) return std::string(name) + " (" + known.as + ")";
  }
  if (!name.empty()) return std::string(name);
  if (has_library_of_nsys()) return "another profiler (probably nsys: its library is loaded)";
  return "another profiler (torch.profiler, nsys, ncu or another tool that uses CUPTI)";
}

std::string held_by(const CuptiLibrary& library, const std::string& told) {
  return name_of_other(told) + (can_share(library) ? "\tunshared" : "\theld");
}

}  // namespace warpline::agent
