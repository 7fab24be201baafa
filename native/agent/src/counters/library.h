// Finds CUPTI's functions for counters, in the library that the agent uses.
#pragma once

#include "counters/abi.h"
#include "cupti/library.h"

namespace warpline::agent {

// Returns null, or the name of the function that the library lacks. Those that lock clocks are looked for
// if they are wanted.
const char* load_counter_functions(const CuptiLibrary& library, bool wants_clocks,
                                   cupti::CounterFunctions& functions);

}  // namespace warpline::agent
