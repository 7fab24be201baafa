// The Python stacks of CPU samples.
//
// A sample has registers and a copy of the C stack, but no Python frames: these lie elsewhere, and are read
// a little later, while the program runs on. What a sample is of is therefore taken from the sample itself:
// each frame of CPython's evaluator on the C stack has a pointer to the Python frame that it ran, and to its
// next instruction, which lies in the code that ran. From there on, callers are read from the process, up
// to the one where the evaluator was entered. A frame that has ended meanwhile, or generator that was put
// to sleep, has no caller any more: it counts as called by what called that code there before, if this
// is still there. A stack whose parts do not fit together is none.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "python/evaluator_places.h"
#include "python/remote.h"
#include "unwinding.h"

namespace warpline::sampler {

// An activation of the evaluator, as a sample has it.
struct Entered {
  std::uint64_t frame = 0;  // the Python frame that it ran
  std::uint64_t next = 0;   // its next instruction; 0: not known
  std::uint64_t stack_begin = 0;
  std::uint64_t stack_end = 0;
  std::uint32_t native = 0;  // its number in the native chain

  bool has_on_stack(std::uint64_t address) const noexcept {
    return stack_begin <= address && address < stack_end;
  }
};

// How a frame was called when it was last seen running.
struct Link {
  std::uint64_t code = 0;
  std::uint64_t caller = 0;  // a frame; 0: that which the next activation of the evaluator ran
  std::uint64_t caller_code = 0;
  std::uint64_t caller_place = 0;  // in that code
  bool is_steady = false;          // the last two times that it was seen

  bool has_same_caller(const Link& other) const noexcept {
    return caller == other.caller && caller_code == other.caller_code && caller_place == other.caller_place;
  }
};
using Links = std::unordered_map<std::uint64_t, Link>;  // by frame and code

class SampledStacks {
 public:
  // Finds the stack of a sample, whose frames of the evaluator are `callers.watched`. `build` tells builds of
  // Python apart. False where none fits.
  bool find(RemotePython& python, const void* build, pid_t pid, pid_t tid, const Callers& callers,
            StackMemory& memory, RemotePythonStack& stack);
  void forget(pid_t pid) noexcept { links_.erase(pid); }

 private:
  void enter(RemotePython& python, EvaluatorPlaces& places, const Callers& callers, StackMemory& memory);

  std::unordered_map<const void*, EvaluatorPlaces> places_;
  std::unordered_map<pid_t, Links> links_;
  std::vector<Entered> entered_;
  std::vector<std::uint64_t> active_;  // frames
};

}  // namespace warpline::sampler
