// What the shim tells the agent, and what it asks it.
#pragma once

#include <atomic>
#include <cstdint>

#include "warpline_agent.h"

namespace warpline::shim {

// Where calls go to; null while none are recorded. The other two are written before it.
struct Recording {
  std::atomic<wl_os_call_function> record{nullptr};
  std::int64_t threshold_ns = 0;
  bool tries_locks = false;  // a lock that is free takes less than the threshold
};
extern Recording g_recording;

// Finds the functions that those of calls.def call; until then each call looks for its own.
void find_real_functions() noexcept;

// Says which calls the process wants recorded, once the agent is there. `agent` finds a function of it.
void begin_recording(void* (*agent)(const char* name)) noexcept;

}  // namespace warpline::shim
