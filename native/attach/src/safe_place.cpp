#include "safe_place.h"

#include "blocked_place.h"

namespace warpline::attach {
namespace {

constexpr std::size_t kInnerBytes = 16 << 10;
constexpr std::size_t kPageBytes = 4096;
constexpr std::size_t kMostStackBytes = 1 << 20;

// A run of frames in the C library, from the inside out. Its outermost one is what the program called, or,
// at the outer end of the stack, what started the thread.
class Run {
 public:
  // `is_waiting`: the innermost run waits for something that is no lock of the C library.
  explicit Run(bool is_waiting) noexcept : is_waiting_(is_waiting) {}

  // False: the run ends, and it is not known what the program called.
  bool add(Program::Place place) noexcept {
    const bool is_library = place == Program::Place::kInside || place == Program::Place::kEntry;
    const bool is_good = is_library || !is_open_ || last_ == Program::Place::kEntry || waits_here();
    is_innermost_ = is_innermost_ && is_library;
    is_open_ = is_library;
    last_ = place;
    return is_good;
  }
  bool ends_well(bool is_complete) const noexcept {
    if (!is_open_ || last_ == Program::Place::kEntry || waits_here()) return true;
    return is_complete && !is_innermost_;
  }
  bool has_left_library() const noexcept { return !is_innermost_; }

 private:
  bool waits_here() const noexcept { return is_innermost_ && is_waiting_; }

  bool is_waiting_;
  bool is_open_ = false;
  bool is_innermost_ = true;  // all frames so far are of the C library
  Program::Place last_ = Program::Place::kPlain;
};

}  // namespace

Safety SafePlaces::judge(const stack::Registers& registers, bool is_waiting) {
  inner_.resize(kInnerBytes);
  const std::size_t bytes =
      sampler::read_process(program_.pid(), registers.stack_pointer, inner_.data(), inner_.size());
  callers_.clear();
  sampler::StackMemory memory(program_.pid(), registers.stack_pointer, inner_.data(), bytes, outer_);
  unwinder_.walk(program_.code(), registers, memory, false, callers_);

  Run run(is_waiting);
  const auto is_good = [&](std::uint64_t address) {
    const Program::Place place = program_.place_of(address);
    if (place == Program::Place::kForbidden) return false;
    if (place == Program::Place::kWaiting) return is_waiting && run.add(Program::Place::kEntry);
    return run.add(place);
  };
  if (!is_good(registers.instruction)) return Safety::kUnsafe;
  for (const std::uint64_t address : callers_.addresses) {
    if (!is_good(address - 1)) return Safety::kUnsafe;
  }
  if (!run.ends_well(callers_.is_complete)) return Safety::kUnsafe;
  if (callers_.is_complete) return Safety::kSafe;
  if (!run.has_left_library() || may_return_to_forbidden(registers.stack_pointer)) return Safety::kUnsafe;
  return Safety::kUnknown;
}

bool SafePlaces::may_return_to_forbidden(std::uint64_t stack_pointer) {
  std::uint64_t words[kPageBytes / sizeof(std::uint64_t)];
  std::uint64_t at = (stack_pointer + 7) & ~std::uint64_t{7};
  for (std::size_t read = 0; read < kMostStackBytes;) {
    const std::size_t wanted = kPageBytes - at % kPageBytes;
    const std::size_t bytes = sampler::read_process(program_.pid(), at, words, wanted);
    for (std::size_t i = 0; i < bytes / sizeof *words; ++i) {
      if (program_.may_return_to_forbidden(words[i])) return true;
    }
    if (bytes < wanted) return false;  // all of it was read
    at += bytes;
    read += bytes;
  }
  return true;  // too deep to tell
}

}  // namespace warpline::attach
