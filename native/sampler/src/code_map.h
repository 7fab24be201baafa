// Where a process has code.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "elf_file.h"

namespace warpline::sampler {

struct CodeMapping {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint64_t bias = 0;
  const ElfFile* file = nullptr;  // null: code that was made while the program ran, or no ELF file
  std::string path;
  bool is_written = false;        // the log of the process has it
};

class CodeMap {
 public:
  void add(CodeMapping mapping);
  void clear() noexcept;
  // Returns what holds an address, or null; valid until the next `add`.
  CodeMapping* find(std::uint64_t address) noexcept;
  // To be done for a process that has all code of another, but a log of its own.
  void forget_written() noexcept;

 private:
  std::vector<CodeMapping> mappings_;  // by address, without overlaps
  std::size_t last_ = 0;
};

}  // namespace warpline::sampler
