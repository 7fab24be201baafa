// Source lines of code, from DWARF's line tables (.debug_line, versions 2 to 5).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "elf/elf_file.h"

namespace warpline {

struct SourceLine {
  std::string file;
  uint32_t line = 0;  // 0: not known
};

// Returns the line of the instruction at each address: of the innermost function, where functions were
// inlined. Addresses are the file's own, in ascending order. A table that is cut or damaged gives the
// lines that were found before. In versions before the fifth, names are relative to the directory of
// the compilation, which such a table does not have.
std::vector<SourceLine> source_lines(const ElfFile &file, const std::vector<uint64_t> &addresses,
                                     Decompress decompress);

}  // namespace warpline
