// Finds what a program repeats: the period of the sequence of its CUDA calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace warpline::agent {

// What tells one call from another, in one word: the call's number in the lowest 12 bits, whether it
// is a launch, what it launches and with which grid, the last two as hashes.
using CallSignature = std::uint64_t;
inline constexpr unsigned kFunctionBit = 13;
inline constexpr unsigned kGridBit = 38;
inline constexpr CallSignature kIsLaunch = 1u << 12;
inline constexpr CallSignature kCallNumber = 0xfff;
inline constexpr CallSignature kWithoutGrid = (CallSignature{1} << kGridBit) - 1;

// A call's number is 11 bits of its id and one of its domain.
constexpr std::uint32_t call_number(std::uint32_t domain, std::uint32_t id) {
  return (domain - 1) << 11 | id;
}

// Whether calls of this signature can be known for certain while no other calls are seen: a call
// of the driver's without a function may come from within one of the runtime's.
constexpr bool can_stand_alone(CallSignature signature) {
  const bool is_of_driver = (signature & kCallNumber) < call_number(2, 0);
  return !is_of_driver || (signature & kWithoutGrid) >> kFunctionBit != 0;
}

struct ObservedCall {
  CallSignature signature;
  std::int64_t time_ns;
};

// What of a call counts when it is compared with others.
struct Likeness {
  bool has_grid = false;
  bool has_previous = false;  // together with the call of the same number before it

  CallSignature mask() const { return has_grid ? ~CallSignature{0} : kWithoutGrid; }

  // Returns a call's signature as far as it counts, in the thread's order. `previous` is that of
  // the last call of its number, or 0.
  CallSignature of(CallSignature call, CallSignature previous) const {
    const CallSignature own = call & mask();
    if (!has_previous || !can_stand_alone(own)) return own;
    const CallSignature both = (previous & mask()) * 0x9e3779b97f4a7c15 + own;
    const CallSignature bits = (both ^ both >> 29) * 0xbf58476d1ce4e5b9;
    return (call & (kCallNumber | kIsLaunch)) | (bits >> kFunctionBit | 1) << kFunctionBit;
  }
};

// A pattern that repeats, and the call that occurs in it once: the anchor.
struct Period {
  CallSignature anchor = 0;
  Likeness likeness;
  std::int64_t length_ns = 0;      // 0: none was found
  std::int64_t from_ns = 0;        // when the anchor occurred: before the last few of them,
  std::int64_t last_ns = 0;        // the last time,
  std::uint32_t recent = 0;        // and how many repetitions lie in between
  std::uint32_t repetitions = 0;   // in a row, up to the last
  std::uint32_t calls = 0;         // of the thread in one
  std::uint32_t anchor_calls = 0;  // of those the ones of the anchor's call number

  explicit operator bool() const { return length_ns != 0; }
};

inline constexpr std::uint32_t kLeastRepetitions = 6;
inline constexpr std::int64_t kShortestPeriodNs = 1'000'000;

// Returns the period of one thread's calls, oldest first, that has repeated often enough and up to
// the end; an empty one if there is none. Of nested patterns the longest counts, unless a shorter
// one goes on through it with only a few calls more now and then: a step of a training run with its
// optimizer, not the part that accumulates gradients, and not the ten steps after which a loss is
// printed. What is launched tells calls apart, and if need be also what was launched before, and
// with which grids.
// May throw std::bad_alloc.
Period find_period(const std::vector<ObservedCall>& calls);

}  // namespace warpline::agent
