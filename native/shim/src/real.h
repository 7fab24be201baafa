// The functions that ours take the place of.
#pragma once

namespace warpline::shim {

// Returns the next function of a name behind ours, null if there is none. Once constructors have run.
void* find_real(const char* symbol) noexcept;

// The same for a call that comes before that: it opens no library, which a sanitizer that is just being set
// up cannot bear.
void* find_real_early(const char* symbol) noexcept;

}  // namespace warpline::shim
