// Finds the instances of NVTX in a module by what their data look like, as nothing else tells where they are.
//
// An instance knows the places of its own function pointers: 64 addresses that follow from its own. What is
// no exact match is none.
#pragma once

#include <link.h>

#include <cstddef>
#include <cstdint>

#include "nvtx/abi.h"
#include "session/memory_map.h"

namespace warpline::agent::nvtx {

// Code and writable data of a module. Holds for as long as the module is loaded.
class ModuleMemory {
 public:
  struct Data {
    Span place;
    std::uintptr_t file_end;  // where the part from the module's file ends; zeros follow
  };

  explicit ModuleMemory(const dl_phdr_info& module) noexcept;

  bool has_code(const void* address) const noexcept;
  bool has_data(const void* first, std::size_t bytes) const noexcept;
  const Data* begin() const noexcept { return data_; }
  const Data* end() const noexcept { return data_ + data_count_; }

 private:
  static constexpr std::size_t kMost = 8;

  Span code_[kMost];
  Data data_[kMost];
  std::size_t code_count_ = 0;
  std::size_t data_count_ = 0;
};

// What instances in a module there are.
struct FoundInstances {
  static constexpr std::size_t kMost = 16;

  std::uintptr_t places[kMost];
  std::size_t count = 0;
  bool is_relocated = true;  // false: one may be there that the loader has not filled in yet
};

// Reads the data of a module. Needs no memory, and touches none that may not be there.
void find_instances(const ModuleMemory& module, FoundInstances& found) noexcept;

// Whether there is an instance at an address in a module's data.
bool is_instance(std::uintptr_t place, const ModuleMemory& module) noexcept;

// Finds the tables of the library that is version 2, by the same: they name 63 places that follow each other.
bool find_library_tables(const ModuleMemory& module, FunctionTable (&tables)[kModules]) noexcept;

}  // namespace warpline::agent::nvtx
