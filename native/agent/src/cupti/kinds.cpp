#include "cupti/kinds.h"

#include <algorithm>
#include <iterator>
#include <string>

#include "cupti/calls.h"
#include "cupti/setup.h"
#include "session/clock.h"
#include "session/lock.h"
#include "session/thread_log.h"

namespace warpline::agent {
namespace {

std::uint32_t wanted(const CudaConfig& config) noexcept {
  std::uint32_t bits = 0;
  const auto add = [&bits](bool is_wanted, std::uint32_t bit) {
    if (is_wanted) bits |= bit;
  };
  add(config.calls != CudaCalls::kNone, raw::kCollectsCalls);
  add(config.kernels, raw::kCollectsKernels);
  add(config.copies, raw::kCollectsCopies);
  add(config.fills, raw::kCollectsFills);
  add(config.kernels && !config.graph_nodes, raw::kCollectsGraphs);
  add(config.kernels && config.graph_nodes, raw::kCollectsGraphNodes);
  add(tells_targets(config), raw::kCollectsTargets);
  add(config.cupti_waits && config.waits, raw::kCollectsWaits);
  add(config.cupti_waits && config.events, raw::kCollectsEvents);
  add(config.memory, raw::kCollectsMemory);
  add(config.cpu_faults, raw::kCollectsCpuFaults);
  add(config.gpu_faults, raw::kCollectsGpuFaults);
  add(config.overhead, raw::kCollectsOverhead);
  return bits;
}

}  // namespace

struct RecordKinds::Choice {
  cupti::Kind kind;
  std::uint32_t collects;  // the bits that ask for it; 0: always
  const char* name;
};

constexpr RecordKinds::Choice RecordKinds::kAll[] = {
    {cupti::Kind::kDevice, 0, "devices"},
    {cupti::Kind::kContext, 0, "contexts"},
    {cupti::Kind::kStream, 0, "streams"},
    {cupti::Kind::kConcurrentKernel, raw::kCollectsKernels, "kernels"},
    {cupti::Kind::kMemcpy, raw::kCollectsCopies, "copies"},
    {cupti::Kind::kMemcpyPeer, raw::kCollectsCopies, "peer copies"},
    {cupti::Kind::kUnifiedMemory, kCollectsFaults, "page faults and migrations of unified memory"},
    {cupti::Kind::kMemset, raw::kCollectsFills, "memsets"},
    {cupti::Kind::kGraphTrace, raw::kCollectsGraphs, "graphs"},
    {cupti::Kind::kSynchronization, raw::kCollectsWaits, "waits"},
    {cupti::Kind::kCudaEvent, raw::kCollectsEvents, "events"},
    {cupti::Kind::kMemory, raw::kCollectsMemory, "memory events"},
    {cupti::Kind::kMemoryPool, raw::kCollectsMemory, "memory pools"},
    {cupti::Kind::kOverhead, raw::kCollectsOverhead, "overhead"},
};

void RecordKinds::choose(const CuptiLibrary& library, const CudaConfig& config, bool is_late) noexcept {
  library_ = &library;
  collects_ = wanted(config);
  told_failed_ = 0;
  is_late_ = is_late;
}

// CUPTI 13.0.0 may hang when kernels are turned off: they stay on, and are left out when read.
// A graph that was instantiated while graphs were not traced, and is launched while they are, crashes
// in the driver (CUPTI 13.0.1, driver 580): graphs are traced from before the first one on.
bool RecordKinds::keeps_on(cupti::Kind kind) const noexcept {
  if (kind == cupti::Kind::kGraphTrace) return true;
  return kind == cupti::Kind::kConcurrentKernel && library_->version == cupti::kVersion13_0_0;
}

// Graph-level tracing, copies and peer copies at the same time make a program that updates its graphs
// crash with CUDA_ERROR_ILLEGAL_ADDRESS or LAUNCH_FAILED (CUPTI 13.0.1, driver 580, H100; docs/harm.md).
// Without any one of them, it does not. And peer copies with any other kind of work make the driver hang in the launch
// of a graph that was made before, after 7,000 steps of a JAX program and more (the same; docs/attaching.md).
bool RecordKinds::is_left_out(cupti::Kind kind) const noexcept {
  return kind == cupti::Kind::kMemcpyPeer && (is_late_ || collects_any(raw::kCollectsGraphs));
}

bool RecordKinds::is_asked_for(const Choice& choice) const noexcept {
  if (choice.collects != 0 && !collects_any(choice.collects)) return false;
  return !is_left_out(choice.kind);
}

cupti::Result RecordKinds::trace_graphs() noexcept {
  const Lock lock(graphs_lock_);
  if (traces_graphs_) return cupti::kSuccess;
  const cupti::Result result = library_->functions.enable(cupti::Kind::kGraphTrace);
  traces_graphs_ = result == cupti::kSuccess;
  return result;
}

void RecordKinds::end_graphs() noexcept {
  library_->functions.disable(cupti::Kind::kGraphTrace);
  traces_graphs_ = false;
}

// Migrations, and the faults that are asked for.
cupti::Result RecordKinds::enable_unified_memory() const noexcept {
  const cupti::Functions& f = library_->functions;
  if (f.choose_unified_memory == nullptr) return cupti::kNotSupported;
  const auto chosen = [](cupti::UnifiedMemory counter, bool is_on) {
    return cupti::UnifiedMemoryChoice{cupti::kScopeOfOneDevice, counter, 0, is_on ? 1U : 0U};
  };
  cupti::UnifiedMemoryChoice choices[] = {
      chosen(cupti::UnifiedMemory::kToDevice, true),
      chosen(cupti::UnifiedMemory::kToHost, true),
      chosen(cupti::UnifiedMemory::kBetweenDevices, true),
      chosen(cupti::UnifiedMemory::kCpuFault, collects_any(raw::kCollectsCpuFaults)),
      chosen(cupti::UnifiedMemory::kGpuFault, collects_any(raw::kCollectsGpuFaults)),
  };
  const cupti::Result result = f.choose_unified_memory(choices, std::size(choices));
  return result == cupti::kSuccess ? f.enable(cupti::Kind::kUnifiedMemory) : result;
}

cupti::Result RecordKinds::enable_one(const Choice& choice) noexcept {
  const cupti::Functions& f = library_->functions;
  if (choice.kind == cupti::Kind::kGraphTrace) return trace_graphs();
  if (choice.kind == cupti::Kind::kUnifiedMemory) return enable_unified_memory();
  // What exists already is listed again with devices, contexts and streams.
  const bool dumps = choice.collects == 0 && f.enable_and_dump != nullptr;
  return dumps ? f.enable_and_dump(choice.kind) : f.enable(choice.kind);
}

// Returns the bits that are not collected then.
std::uint32_t RecordKinds::enable_or_tell(const Choice& choice) noexcept {
  const cupti::Result result = enable_one(choice);
  if (choice.kind == cupti::Kind::kUnifiedMemory) {
    awaits_driver_ = result == cupti::kNotReady || result == cupti::kNotInitialized;
    if (awaits_driver_) return 0;
  }
  if (result == cupti::kSuccess) return 0;
  const std::uint32_t bit = 1u << (&choice - kAll);
  if ((told_failed_ & bit) == 0) {
    note(raw::CudaNote::kKindFailed,
         std::string(choice.name) + ": " + words_of(library_->functions, result));
    told_failed_ |= bit;
  }
  // Peer copies have a kind of their own, but no bit.
  return choice.kind == cupti::Kind::kMemcpyPeer ? 0 : choice.collects;
}

std::uint32_t RecordKinds::enable() noexcept {
  std::uint32_t collected = collects_;
  for (const Choice& choice : kAll) {
    if (is_asked_for(choice)) collected &= ~enable_or_tell(choice);
  }
  return collected;
}

void RecordKinds::take_up_unified_memory() noexcept {
  if (!awaits_driver_) return;
  const auto* choice = std::find_if(std::begin(kAll), std::end(kAll), [](const Choice& each) {
    return each.kind == cupti::Kind::kUnifiedMemory;
  });
  const std::uint32_t missing = enable_or_tell(*choice);
  if (missing != 0) tell_collecting(collects_ & ~missing);
}

void RecordKinds::disable() noexcept {
  for (const Choice& choice : kAll) {
    if (is_asked_for(choice) && !keeps_on(choice.kind)) library_->functions.disable(choice.kind);
  }
}

void tell_collecting(std::uint32_t collects) noexcept {
  if (LogLease log = definition_log()) {
    log->put(raw::Collecting{.kinds = collects, .time_ns = timestamp()});
  }
}

}  // namespace warpline::agent
