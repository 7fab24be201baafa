// The functions that compilers inlined, from DWARF's .debug_info (versions 2 to 5).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "elf/elf_file.h"

namespace warpline {

// A function that was inlined, and the line of its caller in which it is called.
struct InlinedCall {
  std::string function;  // mangled; empty where it has no name
  std::string call_file;
  uint32_t call_line = 0;  // 0: not known
};

// Returns the functions that were inlined at each address, the innermost first. Addresses are the file's own,
// in ascending order. Of information that is cut or damaged, what was found before counts.
std::vector<std::vector<InlinedCall>> inlined_calls(const ElfFile &file, const std::vector<uint64_t> &addresses,
                                                    Decompress decompress);

}  // namespace warpline
