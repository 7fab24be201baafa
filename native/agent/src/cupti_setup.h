// CUPTI made ready for tracing: its subscriber, its clock, its buffers; and what is told of it.
#pragma once

#include <string>

#include "cupti_abi.h"
#include "cupti_library.h"
#include "warpline_cuda.h"

namespace warpline::agent {

// What CUPTI calls.
struct CuptiHooks {
  cupti::Callback callback;
  cupti::Timestamp timestamp;
  cupti::RequestBuffer buffer_wanted;
  cupti::BufferDone buffer_done;
};

// Becomes CUPTI's subscriber, of which a process has one. Returns 0 or CUPTI's error; `other` is the
// name of who is in its place, if that is told.
cupti::Result subscribe(const CuptiLibrary& library, const CuptiHooks& hooks,
                        cupti::Subscriber& subscriber, std::string& other) noexcept;

// Sets CUPTI up; kinds are turned on later. Returns 0 or CUPTI's error, with the function's name.
cupti::Result set_up(const CuptiLibrary& library, const CuptiHooks& hooks,
                     const char*& function) noexcept;

// Notes in the recording which CUPTI is used, and what is known to be wrong with it.
void tell_library(const CuptiLibrary& library);

// Notes why CUPTI cannot be used.
void tell_subscribe_failed(const CuptiLibrary& library, cupti::Result result,
                           const std::string& other);

// Writes a note about CUDA. Any thread, without a lease.
void note(raw::CudaNote kind, const std::string& text) noexcept;

// What an error of CUPTI's is called, with its number.
std::string words_of(const cupti::Functions& functions, cupti::Result result);

}  // namespace warpline::agent
