// The other profiler that uses CUPTI in the process: its name, and advice for the user.
#pragma once

#include <string>

#include "cupti_library.h"

namespace warpline::agent {

// Returns a readable name for a profiler that CUPTI calls `told`; without a name, the likely one.
std::string name_of_other(const std::string& told);

// Returns a message with the profiler that uses CUPTI, and the next action.
std::string why_held(const CuptiLibrary& library, const std::string& told);

}  // namespace warpline::agent
