// Whether files of a session may grow.
#pragma once

#include <cstdint>

namespace warpline::agent {

struct Session;

// Returns whether a file of a session may have so many bytes. Sets errno when there is no room: a write
// past the process's limit would end the program with a signal.
bool has_space(const Session& session, std::uint64_t bytes) noexcept;

}  // namespace warpline::agent
