// CUPTI shared with another profiler, from CUDA 13.3 with driver r610 on.
//
// Where several subscribers are allowed, what version 1 of CUPTI's functions does is everybody's: it
// is refused, or changes what the others record. So each goes through its second version, with our
// subscriber, and what has none, or is the process's whoever asks, is left alone: CUPTI's clock, what
// it does to buffers, cuptiFinalize.
#pragma once

#include <string>

#include "cupti/library.h"
#include "cupti/setup.h"

namespace warpline::agent {

// Becomes one of CUPTI's subscribers, after subscribe() was refused because of `other`, which it may
// name better. From then on the library's functions are those that go through our subscriber. When
// that cannot be, returns kOtherSubscriber and leaves the library as it is.
cupti::Result subscribe_beside(CuptiLibrary& library, const CuptiHooks& hooks,
                               cupti::Subscriber& subscriber, std::string& other) noexcept;

// Whether CUDA graphs are traced at graph level, which the first subscriber chooses for all.
bool are_graphs_whole(const CuptiLibrary& library, cupti::Subscriber subscriber) noexcept;

}  // namespace warpline::agent
