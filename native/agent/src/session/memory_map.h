// What this process has in its memory: loaded modules, and which pages can be written.
#pragma once

#include <link.h>

#include <compare>
#include <cstdint>
#include <vector>

namespace warpline::agent {

struct Span {
  std::uintptr_t first;
  std::uintptr_t end;

  bool has(std::uintptr_t address) const noexcept { return address >= first && address < end; }
};

bool is_in(const std::vector<Span>& spans, std::uintptr_t address) noexcept;

// Reads which pages can be written; empty if that is not known. A module that is being loaded has all of them
// writable, and is not to be protected before the loader does so.
std::vector<Span> writable_memory();

// A module, for as long as none is unloaded.
struct ModuleKey {
  std::uintptr_t base;
  const void* headers;

  auto operator<=>(const ModuleKey&) const = default;
};

inline ModuleKey key_of(const dl_phdr_info& module) noexcept {
  return {module.dlpi_addr, module.dlpi_phdr};
}

// How many modules were loaded and unloaded so far.
struct LoadCounts {
  std::uint64_t added = 0;
  std::uint64_t removed = 0;

  bool operator==(const LoadCounts&) const = default;
};

// Waits for the loader's lock, as dl_iterate_phdr does.
LoadCounts load_counts() noexcept;

// Whether a module is this library.
bool is_agent(const dl_phdr_info& module) noexcept;

}  // namespace warpline::agent
