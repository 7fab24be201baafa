// The functions that ours take the place of.
#pragma once

namespace warpline::shim {

// Returns the next function of a name behind ours, null if there is none.
void* find_real(const char* symbol) noexcept;

}  // namespace warpline::shim
