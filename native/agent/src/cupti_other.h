// The other profiler in the process that CUPTI belongs to: its name, and what a user can do.
#pragma once

#include <string>

#include "cupti_library.h"

namespace warpline::agent {

// Returns what to call a profiler that CUPTI has named `told`, or has not: then who it is likely to be.
std::string name_of_other(const std::string& told);

// Returns who holds CUPTI, and what to do about it.
std::string why_held(const CuptiLibrary& library, const std::string& told);

}  // namespace warpline::agent
