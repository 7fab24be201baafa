// NCCL's profiler plug-in interface, versions 2 to 6, as far as it is used here: NCCL 2.24 and later. A library
// exports `ncclProfiler_vN` for each version that it knows, and NCCL takes the newest that it knows, too.
//
// Layouts are those of NCCL's public headers; members behind the last one that is read are left out.
#pragma once

#include <cstddef>
#include <cstdint>

namespace warpline::agent::nccl {

using Result = int;
inline constexpr Result kSuccess = 0;

// Types of events: bits of the mask that a plug-in sets. NCCL then also begins events that those are part of.
inline constexpr std::uint64_t kCollective = 1u << 1;
inline constexpr std::uint64_t kPointToPoint = 1u << 2;
inline constexpr std::uint64_t kCollectiveCall = 1u << 9;   // from version 5 on
inline constexpr std::uint64_t kPointToPointCall = 1u << 10;
inline constexpr std::uint64_t kCopyCollective = 1u << 12;  // by copy engines, from version 6 on

using Logger = void (*)(int level, unsigned long flags, const char* file, int line, const char* format, ...);

// ---- versions 2 and 3: events say which communicator they are of

struct NamedCommunicator {
  const char* name;
  std::uint64_t hash;
};

struct Collective2 {
  NamedCommunicator communicator;
  std::uint64_t sequence;
  const char* function;
  const void* send;
  void* receive;
  std::size_t count;
  int root;
  const char* dtype;
  std::size_t traffic_bytes;
  std::uint8_t channels;
  std::uint8_t warps;
  const char* algorithm;
  const char* protocol;
};

struct Collective3 {
  NamedCommunicator communicator;
  std::uint64_t sequence;
  const char* function;
  const void* send;
  void* receive;
  std::size_t count;
  int root;
  const char* dtype;
  std::uint8_t channels;
  std::uint8_t warps;
  const char* algorithm;
  const char* protocol;
};

struct PointToPoint2 {
  NamedCommunicator communicator;
  const char* function;
  void* buffer;
  const char* dtype;
  std::size_t count;
  int peer;
};

// ---- versions 4 to 6: `init` says it

struct Collective4 {
  std::uint64_t sequence;
  const char* function;
  const void* send;
  void* receive;
  std::size_t count;
  int root;
  const char* dtype;
  std::uint8_t channels;
  std::uint8_t warps;
  const char* algorithm;
  const char* protocol;
};

struct PointToPoint4 {
  const char* function;
  void* buffer;
  const char* dtype;
  std::size_t count;
  int peer;
  std::uint8_t channels;
};

struct CopyCollective6 {
  std::uint64_t sequence;
  const char* function;
  const void* send;
  void* receive;
  std::size_t count;
  int root;
  const char* dtype;
};

// ---- events and tables of functions

template <class Type, class Collective, class PointToPoint>
struct Event {
  Type type;
  void* parent;
  int rank;
  union {
    Collective collective;
    PointToPoint point_to_point;
    CopyCollective6 copy_collective;
  };
};
using Event2 = Event<std::uint8_t, Collective2, PointToPoint2>;
using Event3 = Event<std::uint8_t, Collective3, PointToPoint2>;
using Event4 = Event<std::uint8_t, Collective4, PointToPoint4>;
using Event5 = Event<std::uint64_t, Collective4, PointToPoint4>;
static_assert(offsetof(Event2, collective) == 24 && offsetof(Event5, collective) == 24);
static_assert(sizeof(Collective2) == 104 && sizeof(Collective3) == 96 && sizeof(Collective4) == 80);

template <class Init, class OfEvent>
struct Profiler {
  const char* name;
  Init init;
  Result (*start_event)(void* context, void** handle, OfEvent* event);
  Result (*stop_event)(void* handle);
  Result (*record_state)(void* handle, int state, void* arguments);
  Result (*finalize)(void* context);
};

using Init2 = Result (*)(void** context, int* mask);
using Init4 = Result (*)(void** context, int* mask, const char* name, std::uint64_t hash, int nodes, int ranks,
                         int rank, Logger logger);
using Init5 = Result (*)(void** context, std::uint64_t hash, int* mask, const char* name, int nodes, int ranks,
                         int rank, Logger logger);

}  // namespace warpline::agent::nccl
