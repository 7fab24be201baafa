// The other profiler that uses CUPTI in the process: its name, and why we cannot use CUPTI, too.
#pragma once

#include <string>

#include "cupti/library.h"

namespace warpline::agent {

// Returns a readable name for a profiler that CUPTI calls `told`; without a name, the likely one.
std::string name_of_other(const std::string& told);

// Returns the text of a kOtherProfiler note: the profiler that uses CUPTI, a tab, and a code.
std::string held_by(const CuptiLibrary& library, const std::string& told);

}  // namespace warpline::agent
