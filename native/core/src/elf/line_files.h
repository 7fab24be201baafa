// The names of files in a unit of a line table.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "elf/elf_file.h"
#include "elf/line_program.h"

namespace warpline {

// The sections that names of units may be in.
struct NameSections {
  SectionContent line_texts;  // .debug_line_str
  SectionContent texts;       // .debug_str
};

// Returns the paths of files by their number, from those that rows of the unit have; empty where a
// name is not known. What is read before a damaged place counts.
std::vector<std::string> line_files(const LineUnit &unit, NameSections &sections);

}  // namespace warpline
