// The files that distributions keep symbols and lines in, apart from the code.
#pragma once

#include <memory>
#include <string>

#include "elf/elf_file.h"

namespace warpline {

// Returns the installed debug file of a file of code: by its build id, or by the name and checksum that
// it has (.gnu_debuglink). Null if there is none that belongs to it.
std::unique_ptr<ElfFile> debug_file_of(const ElfFile &code, const std::string &path);

}  // namespace warpline
