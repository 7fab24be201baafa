#include "machine/gpus.h"

#include <dirent.h>

#include <cstdio>
#include <cstdlib>

#include "machine/management.h"

namespace warpline::agent {
namespace {

constexpr const char* kDriversList = "/proc/driver/nvidia/gpus";
constexpr std::uint64_t kNoPlace = ~std::uint64_t{0};

// Returns a place as a number by which places are ordered; kNoPlace if the text is none.
std::uint64_t place_of(const char* text) noexcept {
  unsigned domain = 0;
  unsigned bus = 0;
  unsigned device = 0;
  unsigned function = 0;
  int end = 0;
  const int read = std::sscanf(text, "%x:%x:%x.%x%n", &domain, &bus, &device, &function, &end);
  if (read != 4 || text[end] != '\0' || bus > 0xffff || device > 0xffff) return kNoPlace;
  return std::uint64_t{domain} << 32 | std::uint64_t{bus} << 16 | device;
}

std::uint64_t place_of(std::uint64_t pci) noexcept {
  return (pci & 0xffffffff) << 32 | (pci >> 32 & 0xffff) << 16 | pci >> 48;
}

}  // namespace

std::int32_t number_in_folder(const char* folder, std::uint64_t pci) noexcept {
  DIR* const list = opendir(folder);
  if (list == nullptr) return -1;
  const std::uint64_t wanted = place_of(pci);
  std::int32_t before = 0;
  bool is_there = false;
  while (const dirent* entry = readdir(list)) {
    const std::uint64_t place = place_of(entry->d_name);
    if (place == wanted) is_there = true;
    if (place < wanted) ++before;
  }
  closedir(list);
  return is_there ? before : -1;
}

std::int32_t number_in_list(const char* list, std::uint32_t device) noexcept {
  for (std::uint32_t at = 0; list != nullptr; ++at) {
    char* end = nullptr;
    const long number = std::strtol(list, &end, 10);
    // Whatever is no number, such as a unique id, ends the list, and so does a negative one.
    const bool is_number = end != list && (*end == ',' || *end == '\0');
    if (!is_number || number < 0 || number > 0xffff) return -1;
    if (at == device) return static_cast<std::int32_t>(number);
    list = *end == ',' ? end + 1 : nullptr;
  }
  return -1;
}

std::int32_t machine_number(std::uint64_t pci, std::uint32_t device) noexcept {
  std::int32_t number = -1;
  if (pci != ~std::uint64_t{0}) {
    number = number_in_folder(kDriversList, pci);
    if (number < 0) {
      const Management management;
      number = management.number_of(management.gpu_at(pci));
    }
  }
  return number < 0 ? number_in_list(std::getenv("CUDA_VISIBLE_DEVICES"), device) : number;
}

}  // namespace warpline::agent
