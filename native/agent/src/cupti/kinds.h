// The kinds of CUPTI's records: which ones a recording asks for, and turning them on and off.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>

#include "cupti/abi.h"
#include "cupti/library.h"
#include "session/config.h"
#include "warpline_cuda.h"

namespace warpline::agent {

constexpr std::uint32_t kCollectsFaults = raw::kCollectsCpuFaults | raw::kCollectsGpuFaults;

// One thread at a time, except where any thread is allowed.
class RecordKinds {
 public:
  // Chooses the kinds that a recording asks for; nothing is turned on yet. The library must outlive this. A recording
  // is late if the program may have made graphs before.
  void choose(const CuptiLibrary& library, const CudaConfig& config, bool is_late) noexcept;

  // Bits of CudaCollects: what is asked for. Any thread.
  std::uint32_t collects() const noexcept { return collects_; }
  bool collects_any(std::uint32_t bits) const noexcept { return (collects_ & bits) != 0; }

  // Turns them on. Returns what is collected; a kind that cannot be turned on is told once.
  std::uint32_t enable() noexcept;
  void disable() noexcept;

  // Turns unified memory on where CUPTI refused it before: the agent is loaded by cuInit, within which it may. It is
  // asked again until CUDA is initialized, long before there is a context whose pages could migrate.
  void take_up_unified_memory() noexcept;

  // Turns on tracing of whole graphs, which adds a microsecond of overhead to every launch. Any thread.
  cupti::Result trace_graphs() noexcept;
  // Whether that is on, also while nothing is recorded. Any thread.
  bool traces_graphs() const noexcept { return traces_graphs_; }
  void end_graphs() noexcept;

  // Whether the kind stays on while nothing is recorded, because it cannot safely be turned off.
  bool keeps_on(cupti::Kind kind) const noexcept;

 private:
  struct Choice;

  bool is_left_out(cupti::Kind kind) const noexcept;
  bool is_asked_for(const Choice& choice) const noexcept;
  cupti::Result enable_unified_memory() const noexcept;
  cupti::Result enable_one(const Choice& choice) noexcept;
  std::uint32_t enable_or_tell(const Choice& choice) noexcept;

  static const Choice kAll[];

  const CuptiLibrary* library_ = nullptr;
  std::uint32_t collects_ = 0;
  std::uint32_t told_failed_ = 0;  // whose failure was told
  bool is_late_ = false;
  bool awaits_driver_ = false;  // unified memory is turned on once CUDA is initialized
  std::atomic<bool> traces_graphs_{false};
  pthread_mutex_t graphs_lock_ = PTHREAD_MUTEX_INITIALIZER;  // held while that is turned on; the last one taken
};

// Writes down what is collected from now on. Any thread.
void tell_collecting(std::uint32_t collects) noexcept;

}  // namespace warpline::agent
