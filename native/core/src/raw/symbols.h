// The names of functions and the lines of code, from the files that the code came from.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "elf/elf_file.h"
#include "elf/inlined.h"

namespace warpline {

struct CodeName {
  std::string function;  // mangled; empty where the file names none
  std::string file;      // of the source; empty where it is not known
  uint32_t line = 0;     // 0 where it is not known
  std::vector<InlinedCall> inlined;  // functions that the line is of, the innermost first
};

// Returns what the code at each address is called. Addresses are the file's own, in ascending order. A file
// that cannot be read, is no ELF file of 64 bits, or is not the requested build, yields no names: it
// was replaced since, or is malicious.
std::vector<CodeName> code_names(const std::string &path, const BuildId &build,
                                 const std::vector<uint64_t> &addresses, Decompress decompress);

}  // namespace warpline
