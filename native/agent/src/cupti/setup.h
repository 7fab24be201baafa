// Sets CUPTI up for tracing: subscriber, clock, buffers; and its diagnostics.
#pragma once

#include <string>

#include "cupti/abi.h"
#include "cupti/library.h"
#include "warpline_cuda.h"

namespace warpline::agent {

// What CUPTI calls.
struct CuptiHooks {
  cupti::Callback callback;
  cupti::Timestamp timestamp;
  cupti::RequestBuffer buffer_wanted;
  cupti::BufferDone buffer_done;
};

// Becomes CUPTI's only subscriber. Returns 0 or CUPTI's error; `other` is the name of who is in its
// place, if that is told. The library's functions are then its own.
cupti::Result subscribe(CuptiLibrary& library, const CuptiHooks& hooks,
                        cupti::Subscriber& subscriber, std::string& other) noexcept;

// Asks the second version of CUPTI's subscriber interface, with others allowed or not.
cupti::Result subscribe_as(const CuptiLibrary& library, const CuptiHooks& hooks, bool allows_others,
                           cupti::Subscriber& subscriber, std::string& other) noexcept;

// Sets CUPTI up; kinds are turned on later. Returns 0 or CUPTI's error, with the function's name.
cupti::Result set_up(const CuptiLibrary& library, const CuptiHooks& hooks,
                     const char*& function) noexcept;

// Notes in the recording which CUPTI is used, and what is known to be wrong with it.
void tell_library(const CuptiLibrary& library);

// Notes why CUPTI cannot be used.
void tell_subscribe_failed(const CuptiLibrary& library, cupti::Result result,
                           const std::string& other);

// Writes down what CUPTI's clock and ours show at this moment, where CUPTI cannot use ours. Only the
// first of a session follows another within 50 ms: times beyond the last two are on the line through
// them. Any thread, without a lease.
void write_clock(const cupti::Functions& functions, bool is_first) noexcept;

// Writes a note about CUDA. Any thread, without a lease.
void note(raw::CudaNote kind, const std::string& text) noexcept;

// What an error of CUPTI's is called, with its number.
std::string words_of(const cupti::Functions& functions, cupti::Result result);

// What is noted of a function that failed: it and CUPTI's words, and after a tab the result, of which
// Python knows the cause and the cure.
std::string refusal_of(const cupti::Functions& functions, const char* function, cupti::Result result);

}  // namespace warpline::agent
