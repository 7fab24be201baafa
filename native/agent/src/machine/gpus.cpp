#include "machine/gpus.h"

#include <dirent.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

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

// The library for managing GPUs, while it is asked.
class Management {
 public:
  Management() noexcept : library_(dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_LOCAL)) {
    is_begun_ = call("nvmlInit_v2");
  }
  ~Management() {
    if (is_begun_) call("nvmlShutdown");
    if (library_ != nullptr) dlclose(library_);
  }
  Management(const Management&) = delete;
  Management& operator=(const Management&) = delete;

  std::int32_t number_of(std::uint64_t pci) const noexcept {
    char text[32];
    std::snprintf(text, sizeof text, "%08x:%02x:%02x.0", static_cast<unsigned>(pci & 0xffffffff),
                  static_cast<unsigned>(pci >> 32 & 0xffff), static_cast<unsigned>(pci >> 48));
    const char* place = text;
    void* device = nullptr;
    unsigned number = 0;
    const bool is_told = is_begun_ && call("nvmlDeviceGetHandleByPciBusId_v2", place, &device) &&
                         call("nvmlDeviceGetIndex", device, &number);
    return is_told ? static_cast<std::int32_t>(number) : -1;
  }

 private:
  template <class... Arguments>
  bool call(const char* name, Arguments... arguments) const noexcept {
    if (library_ == nullptr) return false;
    auto* function = reinterpret_cast<int (*)(Arguments...)>(dlsym(library_, name));
    return function != nullptr && function(arguments...) == 0;
  }

  void* library_;
  bool is_begun_ = false;
};

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
    if (number < 0) number = Management().number_of(pci);
  }
  return number < 0 ? number_in_list(std::getenv("CUDA_VISIBLE_DEVICES"), device) : number;
}

}  // namespace warpline::agent
