// Detaching CUPTI from the process between samples, and attaching it again.
//
// Kinds of records that were turned on in the presence of a context leave 4,600 instructions on every
// launch, whatever is turned off after them (CUPTI 13.0.1, H200; benchmarks/capture/instructions.py);
// only cuptiFinalize removes them. A CUDA graph that was launched while kinds were on fails with
// a device error after a detach: CUPTI stays attached in processes that have created one.
#pragma once

#include <atomic>
#include <cstdint>

namespace warpline::agent {

extern std::atomic<bool> g_has_met_graph;
extern std::atomic<bool> g_may_count_anew;
extern std::atomic<std::uint32_t> g_correlation_offset;

// Notes that the process creates or launches CUDA graphs. Any thread.
inline void meet_graph() noexcept { g_has_met_graph.store(true, std::memory_order_relaxed); }
inline bool has_met_graph() noexcept { return g_has_met_graph.load(std::memory_order_relaxed); }

// Returns the recorded number for a CUPTI correlation id, which may restart after CUPTI has
// been attached again: unique in the process. 0, which is none, stays. Any thread.
inline std::uint32_t written_correlation(std::uint32_t id) noexcept {
  return id == 0 ? 0 : id + g_correlation_offset.load(std::memory_order_relaxed);
}

// Notes the largest id written with a buffer's records. One thread at a time.
void saw_written_correlation(std::uint32_t largest) noexcept;

// CUPTI was attached again: the next call shows whether ids restarted. While no call is recorded.
void expect_another_count() noexcept;

void settle_count(std::uint32_t id) noexcept;

// Notes CUPTI's id of a starting call, before anything of it is written. Any thread.
inline void see_correlation(std::uint32_t id) noexcept {
  if (g_may_count_anew.load(std::memory_order_acquire)) [[unlikely]] settle_count(id);
}

}  // namespace warpline::agent
