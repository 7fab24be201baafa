// The code that recorded functions are replaced with. It needs no function's signature: it keeps the
// registers of arguments, calls the function with a copy of the arguments on the stack, and returns what
// the function returns. Where nothing is recorded it jumps to the function.
#pragma once

#include <cstddef>
#include <cstdint>

namespace warpline::agent {

#if defined(__x86_64__)
inline constexpr bool kHasTrampoline = true;
#else
inline constexpr bool kHasTrampoline = false;
#endif

// Replaced functions, of which each has a stub: an address that callers are given.
inline constexpr std::size_t kStubs = 8192;
void* stub(std::size_t number) noexcept;

// What replaces dlsym.
void* dlsym_stub() noexcept;

// A call as it was made. Integers and pointers are in order, first those in registers.
struct CallArguments {
  static constexpr std::size_t kRegisters = 6;

  const std::uint64_t* registers;
  const std::uint64_t* stack;

  std::uint64_t operator[](std::size_t place) const noexcept {
    return place < kRegisters ? registers[place] : stack[place - kRegisters];
  }
};

// A call that is under way, on its thread's stack.
struct CallInProgress {
  const void* hook;     // null: jump to the function
  const void* text;     // of the arguments, null: none
  std::int64_t start_ns;  // 0: it is not recorded
};

}  // namespace warpline::agent
