// Which line an instruction of Python belongs to, by the table of its code object.
#pragma once

#include <cstdint>
#include <string_view>

#include "warpline_cuda.h"

namespace warpline {

// Returns the line of the instruction at an offset in bytes, 0 where the table names none: it may be cut
// short. `first_line` is that of the code object.
int64_t python_line(raw::PythonLines format, std::string_view table, uint32_t first_line,
                    uint64_t offset);

}  // namespace warpline
