// Whether a stopped thread may be made to call a function that allocates memory and makes a thread.
#pragma once

#include <cstdint>

#include "program.h"
#include "unwinding.h"

namespace warpline::attach {

enum class Safety : std::uint8_t {
  kSafe,
  kUnsafe,
  kUnknown,  // nothing speaks against it, but some callers were not found
};

class SafePlaces {
 public:
  explicit SafePlaces(Program& program) : program_(program) {}

  // `is_waiting`: the thread waits for something that is no lock within the C library.
  Safety judge(const stack::Registers& registers, bool is_waiting);

 private:
  sampler::Unwinder unwinder_;
  sampler::Callers callers_;
  std::vector<std::byte> inner_;
  std::vector<std::byte> outer_;
  Program& program_;
};

}  // namespace warpline::attach
