// The code of a process: what it calls functions of the C library by, and where a thread must not be
// when it is made to call one.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "code_map.h"
#include "elf_file.h"
#include "exported_functions.h"

namespace warpline::attach {

// Addresses in the process of what an injected call needs.
struct LibraryFunctions {
  std::uint64_t errno_location = 0;
  std::uint64_t pthread_create = 0;
  std::uint64_t pthread_self = 0;
  std::uint64_t pthread_detach = 0;
  std::uint64_t dlopen = 0;
  std::uint64_t dlsym = 0;
  std::uint64_t dlerror = 0;
  std::uint64_t munmap = 0;
  std::uint64_t system_call = 0;  // an instruction
};

class Program {
 public:
  explicit Program(pid_t pid) : pid_(pid) {}

  // Reads what the process has mapped now. False if there is nothing: it has ended.
  bool read();
  // Whether the last read() found another program than the one before, and whether it is still executed: none of
  // its addresses is one of the process after exec.
  bool is_new() const noexcept { return is_new_; }
  bool is_executed() const;
  // Names the first thing that is missing for a call; null: nothing is.
  const char* find_functions(LibraryFunctions& found) const;

  // What it says of an address.
  enum class Place : std::uint8_t {
    kPlain,      // no lock of the C library is held here
    kForbidden,  // one may be
    kWaiting,    // one may be, unless the thread waits for something else
    kEntry,      // a function of the C library that programs call, and that holds none
    kInside,     // within the C library, where only the callers tell
  };
  Place place_of(std::uint64_t address) const;
  // Whether a call may return to an address that is in such a forbidden place.
  bool may_return_to_forbidden(std::uint64_t address) const;

  sampler::CodeMap& code() noexcept { return code_; }
  pid_t pid() const noexcept { return pid_; }

 private:
  // What is to be known of a file, with addresses of the file.
  struct FileFacts {
    bool is_loader = false;
    bool is_c_library = false;
    bool has_malloc = false;
    std::vector<AddressRange> forbidden;
    std::vector<AddressRange> waiting;
    std::vector<AddressRange> entries;  // of the C library, and of others that take the place of malloc
  };
  struct Module {
    AddressRange code;
    std::uint64_t bias = 0;
    const sampler::ElfFile* file = nullptr;
    const FileFacts* facts = nullptr;
    bool is_main = false;
    std::string path;
  };

  const FileFacts& facts_of(const sampler::ElfFile& file);
  void add(const std::string& line, const std::string& main_path);
  void add_entries();
  const Module* module_of(std::uint64_t address) const;
  const Module* c_library() const;
  std::uint64_t find(std::string_view name, const char* other_library) const;
  std::uint64_t find_system_call() const;

  pid_t pid_;
  std::string vector_;  // the kernel's to the program: addresses that are random at each exec
  bool is_new_ = false;
  sampler::ElfFiles files_;
  sampler::CodeMap code_;
  std::map<const sampler::ElfFile*, FileFacts> facts_;
  std::vector<Module> modules_;  // by address
};

}  // namespace warpline::attach
