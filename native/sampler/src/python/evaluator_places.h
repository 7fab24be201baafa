// Where a build's compiler keeps two variables of CPython's evaluator, the function that runs Python's code:
// the frame that it runs, and the instruction that comes next.
//
// That is learned: the place of a variable is where, in samples, its value is found most often. The value
// that is looked for is read from the process a little after the sample, so that it often is another one
// by then; no other place has it more often, though.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "unwinding.h"

namespace warpline::sampler {

// What the evaluator's registers, and its frame on the C stack, have in them.
class EvaluatorWords {
 public:
  EvaluatorWords(const WatchedFrame& frame, StackMemory& memory) noexcept : frame_(frame), memory_(memory) {}

  static constexpr std::size_t kSlots = 80;  // below the caller's stack
  static constexpr std::size_t kCount = KeptRegisters::kCount + kSlots;

  // 0 where it is not known.
  std::uint64_t at(std::size_t place) const noexcept {
    constexpr std::size_t kRegisters = KeptRegisters::kCount;
    if (place < kRegisters) return frame_.kept.are_known[place] ? frame_.kept.values[place] : 0;
    std::uint64_t word;
    const std::uint64_t address = frame_.caller_stack_pointer - 8 * (place - kRegisters + 1);
    const bool is_in_frame = address >= frame_.stack_pointer && address < frame_.caller_stack_pointer;
    return is_in_frame && memory_.read(address, word) ? word : 0;
  }

 private:
  const WatchedFrame& frame_;
  StackMemory& memory_;
};

// A variable of the evaluator.
class LearnedPlace {
 public:
  static constexpr std::uint32_t kLeastTries = 8;
  static constexpr std::uint32_t kMostTries = 1024;

  // Counts the places whose word is what was looked for.
  template <class IsIt>
  void learn(const EvaluatorWords& words, const IsIt& is_it) noexcept {
    if (tries_ == kMostTries) return;
    ++tries_;
    for (std::size_t i = 0; i < EvaluatorWords::kCount; ++i) {
      const std::uint64_t word = words.at(i);
      if (word == 0 || !is_it(word)) continue;
      if (++hits_[i] > hits_[best_]) best_ = i;
    }
  }

  // Whether it was found often enough.
  bool is_known() const noexcept { return tries_ >= kLeastTries && 4 * hits_[best_] >= tries_; }
  // Its value; 0: not known.
  std::uint64_t of(const EvaluatorWords& words) const noexcept { return is_known() ? words.at(best_) : 0; }

 private:
  std::array<std::uint32_t, EvaluatorWords::kCount> hits_{};
  std::uint32_t tries_ = 0;
  std::size_t best_ = 0;
};

// While the evaluator runs, they are in registers; while a function that it has called does, they may be
// on the stack.
struct EvaluatorPlaces {
  struct Variables {
    LearnedPlace frame;
    LearnedPlace next;
  };
  Variables running;
  Variables calling;

  Variables& of(bool is_running) noexcept { return is_running ? running : calling; }
};

}  // namespace warpline::sampler
