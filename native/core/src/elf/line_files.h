// The names of files in a unit of a line table.
#pragma once

#include <cstdint>
#include <optional>
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

// A unit, and how many bytes it takes in the table; none of them where there is no unit. The unit is valid
// until the table is read again.
struct PlacedLineUnit {
  std::optional<LineUnit> unit;
  uint64_t bytes = 0;
};

// Reads the unit at a place of .debug_line. Of a table that is cut, what there is counts.
PlacedLineUnit line_unit_at(SectionContent &table, uint64_t place);

// Returns the paths of files by their number, from those that rows of the unit have; empty where a
// name is not known. What is read before a damaged place counts.
std::vector<std::string> line_files(const LineUnit &unit, NameSections &sections);

}  // namespace warpline
