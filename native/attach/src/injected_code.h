// What a thread of another process is made to run: machine code, and what that reads and writes.
#pragma once

#include <cstddef>
#include <cstdint>

namespace warpline::attach {

inline constexpr std::size_t kCodeBytes = 4096;
inline constexpr std::size_t kPathBytes = 4096;
inline constexpr std::size_t kTextBytes = 512;

// Registers to go on with, if nobody is there who sets them.
struct SavedRegisters {
  std::uint64_t r15, r14, r13, r12, rbp, rbx, r11, r10, r9, r8, rax, rcx, rdx, rsi, rdi;
  std::uint64_t flags, rsp, rip;
};

// One page after the code. The code knows the offsets, see injected_code.cpp.
struct InjectedData {
  // Functions of the process.
  std::uint64_t errno_location, pthread_create, pthread_self, pthread_detach;
  std::uint64_t dlopen, dlsym, dlerror, munmap;
  std::uint64_t begin, bytes;  // of all that was mapped for the call
  SavedRegisters saved;
  std::uint64_t signal_mask;
  std::uint64_t thread;  // its pthread_t
  // Written by the process. The states are written last.
  std::int32_t create_error;
  std::int32_t is_created;
  std::int32_t outcome;  // Outcome
  std::int32_t result;
  std::int32_t is_done;
  // Written by us: all has been read, and no other thread runs the code.
  std::int32_t is_released;
  std::int64_t wait_s, wait_ns;  // between two looks at that
  char text[kTextBytes];         // why it failed
  char function[kTextBytes];
  char library[kPathBytes];
  char argument[kPathBytes];
  std::int64_t now_s, now_ns;    // the first thread's clock

  enum Outcome : std::int32_t { kCalled = 1, kNotLoaded = 2, kNoFunction = 3 };
};

// Code, data, the stack that making a thread takes. The thread that loads the library has one of its own.
struct InjectedLayout {
  static constexpr std::size_t kData = kCodeBytes;
  static constexpr std::size_t kVectors = kData + 12288;  // of the processor's state, aligned to 64 bytes
  static constexpr std::size_t kVectorBytes = 32768;
  static constexpr std::size_t kStackEnd = kVectors + kVectorBytes + 65536;
  static constexpr std::size_t kBytes = kStackEnd;
};
static_assert(sizeof(InjectedData) <= InjectedLayout::kVectors - InjectedLayout::kData);
static_assert(InjectedLayout::kVectors % 64 == 0 && InjectedLayout::kBytes % 4096 == 0);

// The code, independent of where it lies; begins at its first byte.
const void* injected_code() noexcept;
std::size_t injected_code_bytes() noexcept;

// Whether this processor can save what the code saves, in the room there is for it.
bool can_save_vectors() noexcept;

}  // namespace warpline::attach
