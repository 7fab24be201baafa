// Calls of the C library, as libwarpline_shim tells them.
#pragma once

namespace warpline::agent {

// Leaves out calls that the module at an address makes from now on: those of CUPTI are not the program's.
void leave_out_calls_of(const void* address) noexcept;

}  // namespace warpline::agent
