// Calls of libraries, such as cuBLAS: their functions are replaced where modules of the program refer to
// them, and where dlsym returns them. The program finds no symbol of this library in its way.
#pragma once

#include <cstdint>
#include <string_view>

namespace warpline::agent {

// Writes a call into the log of this thread, if it is recorded now.
void write_library_call(std::uint32_t family, std::string_view name, std::int64_t start_ns,
                        std::int64_t end_ns) noexcept;

}  // namespace warpline::agent
