// NCCL's profiler plug-in: this library itself, which NCCL_PROFILER_PLUGIN names.
//
// An operation is written down when its event starts, with all that there is to say. So there is nothing to keep
// until it stops: no memory, no lock, and handles that are never followed. The handle of a call is its time, which
// its operation gets back as its parent. Every function returns success, whatever happens here.
//
// Events of the proxy threads and of the kernels' channels stay off: with them NCCL's kernels write down times,
// and its proxy threads work for each channel of each operation, which a program would feel.
#include "nccl/abi.h"
#include "nccl/communicators.h"
#include "nccl/operation.h"
#include "session/clock.h"
#include "session/process.h"

namespace warpline::agent::nccl {
namespace {

bool is_wanted() noexcept {
  const Session* session = g_session.load(std::memory_order_acquire);
  return session != nullptr && session->config.collects("nccl");
}

Communicator& communicator_of(void* context) noexcept {
  return context == nullptr ? no_communicator() : *static_cast<Communicator*>(context);
}

std::uint64_t call_time(const void* parent) noexcept { return reinterpret_cast<std::uintptr_t>(parent); }

// ---- what all versions have

Result begin(void** context, int* mask, std::uint64_t events, Communicator& communicator) noexcept {
  *context = &communicator;
  *mask = ensure_attached() && is_wanted() ? static_cast<int>(events) : 0;
  return kSuccess;
}

Result stop_event(void*) noexcept { return kSuccess; }
Result record_state(void*, int, void*) noexcept { return kSuccess; }
Result finalize(void* context) noexcept {
  leave_communicator(communicator_of(context));
  return kSuccess;
}

template <class Collective>
Operation operation_of(const Collective& event) noexcept {
  return {.function = event.function,
          .dtype = event.dtype,
          .algorithm = event.algorithm,
          .protocol = event.protocol,
          .sequence = event.sequence,
          .count = event.count,
          .peer = event.root,
          .channels = event.channels,
          .warps = event.warps,
          .has_sequence = true,
          .has_peer = has_root(event.function)};
}

template <class PointToPoint>
Operation operation_between(const PointToPoint& event) noexcept {
  return {.function = event.function,
          .dtype = event.dtype,
          .count = event.count,
          .peer = event.peer,
          .has_peer = true};
}

// NCCL keeps a plug-in: the session may be another one than when it was opened.
void write(const Operation& operation) noexcept {
  if (is_wanted()) write_operation(operation);
}

// ---- versions 2 and 3

Result init_2(void** context, int* mask) noexcept {
  return begin(context, mask, kCollective | kPointToPoint, no_communicator());
}

template <class OfEvent>
Result start_event_2(void*, void** handle, OfEvent* event) noexcept {
  *handle = nullptr;
  Operation operation;
  const NamedCommunicator* communicator = nullptr;
  if (event->type == kCollective) {
    operation = operation_of(event->collective);
    communicator = &event->collective.communicator;
  } else if (event->type == kPointToPoint) {
    operation = operation_between(event->point_to_point);
    communicator = &event->point_to_point.communicator;
  } else {
    return kSuccess;
  }
  operation.communicator = id_text(communicator->hash);
  operation.communicator_name = name_text(communicator->name);
  operation.rank = event->rank;
  write(operation);
  return kSuccess;
}

// ---- versions 4 to 6

Result init_4(void** context, int* mask, const char* name, std::uint64_t hash, int nodes, int ranks, int,
              Logger) noexcept {
  return begin(context, mask, kCollective | kPointToPoint,
               enter_communicator(hash, name, ranks, nodes));
}

Result init_5(void** context, std::uint64_t hash, int* mask, const char* name, int nodes, int ranks, int,
              Logger) noexcept {
  return begin(context, mask, kCollective | kPointToPoint,
               enter_communicator(hash, name, ranks, nodes));
}

Result init_6(void** context, std::uint64_t hash, int* mask, const char* name, int nodes, int ranks, int,
              Logger) noexcept {
  return begin(context, mask, kCollective | kPointToPoint | kCopyCollective,
               enter_communicator(hash, name, ranks, nodes));
}

void write(void* context, int rank, Operation operation) noexcept {
  const Communicator& communicator = communicator_of(context);
  operation.communicator = communicator.id.load(std::memory_order_relaxed);
  operation.communicator_name = communicator.name.load(std::memory_order_relaxed);
  operation.ranks = communicator.ranks.load(std::memory_order_relaxed);
  operation.nodes = communicator.nodes.load(std::memory_order_relaxed);
  operation.rank = rank;
  write(operation);
}

Result start_event_4(void* context, void** handle, Event4* event) noexcept {
  *handle = nullptr;
  if (event->type == kCollective) {
    write(context, event->rank, operation_of(event->collective));
  } else if (event->type == kPointToPoint) {
    Operation operation = operation_between(event->point_to_point);
    operation.channels = event->point_to_point.channels;
    write(context, event->rank, operation);
  }
  return kSuccess;
}

Result start_event_5(void* context, void** handle, Event5* event) noexcept {
  *handle = nullptr;
  Operation operation;
  switch (event->type) {
    case kCollectiveCall:
    case kPointToPointCall:
      *handle = reinterpret_cast<void*>(static_cast<std::uintptr_t>(now_ns()));
      return kSuccess;
    case kCollective: operation = operation_of(event->collective); break;
    case kPointToPoint:
      operation = operation_between(event->point_to_point);
      operation.channels = event->point_to_point.channels;
      break;
    case kCopyCollective: {
      const CopyCollective6& copied = event->copy_collective;
      operation = {.function = copied.function,
                   .dtype = copied.dtype,
                   .algorithm = "CE",
                   .sequence = copied.sequence,
                   .count = copied.count,
                   .peer = copied.root,
                   .has_sequence = true,
                   .has_peer = has_root(copied.function)};
      break;
    }
    default: return kSuccess;
  }
  operation.call_ns = call_time(event->parent);
  write(context, event->rank, operation);
  return kSuccess;
}

constexpr char kName[] = "Warpline";

}  // namespace
}  // namespace warpline::agent::nccl

#define WL_EXPORT extern "C" __attribute__((visibility("default")))

using namespace warpline::agent::nccl;

WL_EXPORT const Profiler<Init2, Event2> ncclProfiler_v2;
WL_EXPORT const Profiler<Init2, Event3> ncclProfiler_v3;
WL_EXPORT const Profiler<Init4, Event4> ncclProfiler_v4;
WL_EXPORT const Profiler<Init5, Event5> ncclProfiler_v5;
WL_EXPORT const Profiler<Init5, Event5> ncclProfiler_v6;

const Profiler<Init2, Event2> ncclProfiler_v2{kName, init_2, start_event_2<Event2>, stop_event, record_state,
                                              finalize};
const Profiler<Init2, Event3> ncclProfiler_v3{kName, init_2, start_event_2<Event3>, stop_event, record_state,
                                              finalize};
const Profiler<Init4, Event4> ncclProfiler_v4{kName, init_4, start_event_4, stop_event, record_state, finalize};
const Profiler<Init5, Event5> ncclProfiler_v5{kName, init_5, start_event_5, stop_event, record_state, finalize};
const Profiler<Init5, Event5> ncclProfiler_v6{kName, init_6, start_event_5, stop_event, record_state, finalize};
