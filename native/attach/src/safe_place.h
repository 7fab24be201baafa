// Whether a stopped thread may be made to call a function that allocates memory and makes a thread.
#pragma once

#include <cstdint>

#include "program.h"
#include "unwinding.h"

namespace warpline::attach {

enum class Safety : std::uint8_t {
  kSafe,
  kUnsafe,
  kUnknown,  // some callers were not found, and nothing on the stack looks like one that speaks against it
};

class SafePlaces {
 public:
  explicit SafePlaces(Program& program) : program_(program) {}

  // `is_waiting`: the thread waits for something that is no lock within the C library.
  Safety judge(const stack::Registers& registers, bool is_waiting);

 private:
  // Whether a word of the stack may be an address to return to in the loader or another function in which
  // no thread may be made. Such a word may be left from an earlier call.
  bool may_return_to_forbidden(std::uint64_t stack_pointer);

  sampler::Unwinder unwinder_;
  sampler::Callers callers_;
  std::vector<std::byte> inner_;
  std::vector<std::byte> outer_;
  Program& program_;
};

}  // namespace warpline::attach
