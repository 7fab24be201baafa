#include "python/evaluator_places.h"

namespace warpline::sampler {

EvaluatorWords::EvaluatorWords(const WatchedFrame& frame, StackMemory& memory) noexcept {
  for (std::size_t i = 0; i < KeptRegisters::kCount; ++i) {
    if (frame.kept.are_known[i]) words_[i] = frame.kept.values[i];
  }
  std::uint64_t at = frame.caller_stack_pointer;
  for (std::size_t i = KeptRegisters::kCount; i < kCount && at > frame.stack_pointer; ++i) {
    at -= sizeof at;
    if (!memory.read(at, words_[i])) words_[i] = 0;
  }
}

}  // namespace warpline::sampler
