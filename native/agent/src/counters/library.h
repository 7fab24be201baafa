// Finds CUPTI's functions for counters, in the library that the agent uses.
#pragma once

#include <string>

#include "counters/abi.h"
#include "cupti/library.h"

namespace warpline::agent {

// Returns null, or the name of the function that the library lacks. Those that lock clocks are looked for
// if they are wanted.
const char* load_counter_functions(const CuptiLibrary& library, bool wants_clocks,
                                   cupti::CounterFunctions& functions);

// Returns the parameters of a call, with the size that CUPTI expects: that of the fields known here.
template <class Parameters, class Last>
Parameters sized(Last Parameters::*last) noexcept {
  Parameters parameters{};
  const auto* begin = reinterpret_cast<const char*>(&parameters);
  const auto* end = reinterpret_cast<const char*>(&(parameters.*last)) + sizeof(Last);
  parameters.bytes = static_cast<std::size_t>(end - begin);
  return parameters;
}

// What is noted of a function that failed: it and CUPTI's words, and after a tab the result, of which
// Python knows the cause and the cure.
std::string counters_refused(const cupti::Functions& functions, const char* function,
                             cupti::Result result);

}  // namespace warpline::agent
