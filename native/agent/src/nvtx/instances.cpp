#include "nvtx/instances.h"

#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace warpline::agent::nvtx {
namespace {

constexpr std::size_t kWordBytes = sizeof(std::uint64_t);
constexpr std::size_t kInstanceWords = sizeof(Instance) / kWordBytes;
constexpr std::size_t kPartWords = 2048;  // read at a time

static_assert(sizeof(Instance) % kWordBytes == 0);

std::uintptr_t round_up(std::uintptr_t address) noexcept {
  return (address + kWordBytes - 1) & ~(kWordBytes - 1);
}

// Returns how much of it there is. The kernel copies, so what cannot be read is an error and no signal.
std::size_t copy_memory(std::uintptr_t from, void* to, std::size_t bytes) noexcept {
  const iovec here{to, bytes};
  const iovec there{reinterpret_cast<void*>(from), bytes};
  const ssize_t copied = process_vm_readv(getpid(), &here, 1, &there, 1, 0);
  return copied < 0 ? 0 : static_cast<std::size_t>(copied);
}

// What each instance has at its beginning, whatever its addresses.
bool begins_instance(const std::uint64_t* words) noexcept {
  return words[1] == sizeof(CallbackExport) && words[3] == sizeof(VersionExport) &&
         words[4] == kVersion && words[0] <= kComplete;
}

enum class Match { kNo, kYes, kNotRelocated };

// The address that a word is to have, which is null until the loader has put it there.
class Comparison {
 public:
  void expect(const void* value, bool is_right) noexcept {
    has_null_ = has_null_ || value == nullptr;
    is_right_ = is_right_ && is_right;
  }
  Match result() const noexcept {
    return is_right_ ? Match::kYes : has_null_ ? Match::kNotRelocated : Match::kNo;
  }

 private:
  bool is_right_ = true;
  bool has_null_ = false;
};

template <class Called>
const void* address_of(Called* function) noexcept {
  return reinterpret_cast<const void*>(function);
}

void compare_tables(const Instance& copy, std::uintptr_t place, Comparison& comparison) noexcept {
  std::uintptr_t function = place + offsetof(Instance, functions);
  Function* const* table = copy.tables;
  for (const unsigned count : kFunctionCounts) {
    if (*table++ != nullptr) comparison.expect(table, false);
    for (unsigned i = 0; i < count; ++i, ++table, function += sizeof(Function)) {
      comparison.expect(*table, reinterpret_cast<std::uintptr_t>(*table) == function);
    }
    if (*table++ != nullptr) comparison.expect(table, false);
  }
}

Match match(const std::uint64_t* words, std::uintptr_t place, const ModuleMemory& module) noexcept {
  if (!begins_instance(words)) return Match::kNo;
  Instance copy;
  std::memcpy(&copy, words, sizeof copy);
  const void* const own[] = {address_of(copy.callbacks.get_table),
                             address_of(copy.version.set_tool_version)};
  Comparison comparison;
  for (const void* function : own) comparison.expect(function, module.has_code(function));
  compare_tables(copy, place, comparison);
  return comparison.result();
}

// Which pages of this process it has touched so far. All, where the kernel does not tell.
class TouchedPages {
 public:
  TouchedPages() noexcept : file_(open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC)) {}
  ~TouchedPages() {
    if (file_ >= 0) close(file_);
  }
  TouchedPages(const TouchedPages&) = delete;
  TouchedPages& operator=(const TouchedPages&) = delete;

  bool has(std::uintptr_t page) noexcept {
    if (page - first_ >= count_) read_from(page);
    return page - first_ >= count_ || (entries_[page - first_] & kIsThere) != 0;
  }

 private:
  static constexpr std::uint64_t kIsThere = std::uint64_t{3} << 62;  // in memory, or swapped out
  static constexpr std::size_t kMost = 64;

  void read_from(std::uintptr_t page) noexcept {
    first_ = page;
    const ssize_t got = pread(file_, entries_, sizeof entries_, static_cast<off_t>(page * sizeof *entries_));
    count_ = got < 0 ? 0 : static_cast<std::size_t>(got) / sizeof *entries_;
  }

  int file_;
  std::uintptr_t first_ = 0;
  std::size_t count_ = 0;
  std::uint64_t entries_[kMost];
};

// Looks for instances that begin in a part of a module's data.
void find_between(std::uintptr_t first, std::uintptr_t end, std::uintptr_t data_end,
                  const ModuleMemory& module, FoundInstances& found) noexcept {
  std::uint64_t words[kPartWords + kInstanceWords];
  const std::uintptr_t wanted = std::min(data_end, end + sizeof(Instance)) - first;
  const std::size_t count = copy_memory(first, words, std::min(wanted, sizeof words)) / kWordBytes;
  const std::size_t places = std::min((end - first) / kWordBytes, count - std::min(count, kInstanceWords - 1));
  for (std::size_t i = 0; i < places; ++i) {
    const std::uintptr_t place = first + i * kWordBytes;
    const Match matched = match(words + i, place, module);
    if (matched == Match::kNotRelocated) found.is_relocated = false;
    if (matched != Match::kYes || found.count == FoundInstances::kMost) continue;
    found.places[found.count++] = place;
  }
}

// Looks where the program has written, or the loader: pages that it has not touched stay on its disk.
void find_in(const ModuleMemory::Data& data, const ModuleMemory& module, TouchedPages& touched,
             FoundInstances& found) noexcept {
  const auto page_bytes = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  std::uintptr_t at = round_up(data.place.first);
  while (at < data.file_end) {
    const std::uintptr_t page_end = (at / page_bytes + 1) * page_bytes;
    if (!touched.has(at / page_bytes)) {
      at = page_end;
      continue;
    }
    std::uintptr_t end = std::min(at + kPartWords * kWordBytes, data.file_end);
    for (std::uintptr_t page = page_end; page < end; page += page_bytes) {
      if (!touched.has(page / page_bytes)) end = page;
    }
    find_between(at, end, data.file_end, module, found);
    at = round_up(end);
  }
}

// Whether these are the library's tables. They are in memory of a module that is loaded and small.
bool are_library_tables(Function** const* tables, const ModuleMemory& module) noexcept {
  const char* last = nullptr;
  for (const unsigned number : kLibraryOrder) {
    const unsigned count = kLibraryCounts[number];
    Function** table = tables[number];
    const bool is_aligned = reinterpret_cast<std::uintptr_t>(table) % alignof(Function*) == 0;
    if (!is_aligned || !module.has_data(table, (count + 1) * sizeof *table) || table[0] != nullptr) return false;
    for (unsigned i = 1; i <= count; ++i) {
      const auto* place = reinterpret_cast<const char*>(table[i]);
      if ((last != nullptr && place + sizeof(Function) != last) || !module.has_data(place, sizeof(Function))) return false;
      last = place;
    }
  }
  return true;
}

}  // namespace

ModuleMemory::ModuleMemory(const dl_phdr_info& module) noexcept {
  for (std::size_t i = 0; i < module.dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = module.dlpi_phdr[i];
    if (part.p_type != PT_LOAD) continue;
    const std::uintptr_t first = module.dlpi_addr + part.p_vaddr;
    const Span place{first, first + part.p_memsz};
    if ((part.p_flags & PF_X) != 0 && code_count_ < kMost) code_[code_count_++] = place;
    if ((part.p_flags & PF_W) != 0 && data_count_ < kMost) {
      data_[data_count_++] = {place, first + part.p_filesz};
    }
  }
}

bool ModuleMemory::has_code(const void* address) const noexcept {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  for (std::size_t i = 0; i < code_count_; ++i) {
    if (code_[i].has(at)) return true;
  }
  return false;
}

bool ModuleMemory::has_data(const void* first, std::size_t bytes) const noexcept {
  const auto at = reinterpret_cast<std::uintptr_t>(first);
  for (const Data& data : *this) {
    if (data.place.has(at) && data.place.end - at >= bytes) return true;
  }
  return false;
}

void find_instances(const ModuleMemory& module, FoundInstances& found) noexcept {
  TouchedPages touched;
  for (const ModuleMemory::Data& data : module) find_in(data, module, touched, found);
}

bool is_instance(std::uintptr_t place, const ModuleMemory& module) noexcept {
  std::uint64_t words[kInstanceWords];
  return module.has_data(reinterpret_cast<const void*>(place), sizeof words) &&
         copy_memory(place, words, sizeof words) == sizeof words &&
         match(words, place, module) == Match::kYes;
}

bool find_library_tables(const ModuleMemory& module, FunctionTable (&tables)[kModules]) noexcept {
  for (const ModuleMemory::Data& data : module) {
    std::uint64_t words[kPartWords];  // more than it has
    const std::uintptr_t first = round_up(data.place.first);
    if (first >= data.file_end) continue;
    const std::size_t count = copy_memory(first, words, std::min(data.file_end - first, sizeof words)) / kWordBytes;
    for (std::size_t i = 0; i + kModules <= count; ++i) {
      std::memcpy(tables, words + i, sizeof tables);
      if (are_library_tables(tables, module)) return true;
    }
  }
  return false;
}

}  // namespace warpline::agent::nvtx
