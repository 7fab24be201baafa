#include "unwinding.h"

#include <algorithm>
#include <cstring>

#include "blocked_place.h"

namespace warpline::sampler {
namespace {

using stack::Climbed;
using stack::FrameRule;
using stack::Registers;

constexpr std::size_t kOuterBytes = 64 << 10;
constexpr std::size_t kComparedBytes = 512;

// Whether a call may return to an address. Code that is in no file is not read.
bool may_return_to(CodeMap& code, std::uint64_t address) {
  const CodeMapping* mapping = code.find(address - 1);
  if (mapping == nullptr) return false;
  return mapping->file == nullptr || mapping->file->is_behind_call(address - mapping->bias);
}

// Makes a function's registers those of its caller: some were saved on the stack, whose place is counted
// from where the caller's begins. What a signal interrupted has them in the kernel's ucontext, whose
// offsets these are.
template <class Read>
void give_back(const stack::SavedRegisters& saved, bool is_signal, std::uint64_t stack_pointer,
               Read&& read, KeptRegisters& registers) {
  constexpr std::uint64_t kInContext[] = {128, 72, 80, 88, 96};
  for (std::size_t i = 0; i < stack::SavedRegisters::kCount; ++i) {
    std::uint64_t& value = registers.values[1 + i];
    bool& is_known = registers.are_known[1 + i];
    if (is_signal) {
      is_known = read(stack_pointer + kInContext[i], value);
    } else if (saved.at[i] == stack::SavedRegisters::kLost) {
      is_known = false;
    } else if (saved.at[i] != 0) {
      const std::int64_t offset = std::int64_t{8} * saved.at[i];
      is_known = read(stack_pointer + static_cast<std::uint64_t>(offset), value);
    }
  }
}

}  // namespace

bool StackMemory::read(std::uint64_t address, std::uint64_t& word) noexcept {
  if (address < begin_) return false;
  const std::uint64_t at = address - begin_;
  if (at <= bytes_ && bytes_ - at >= sizeof word) {
    std::memcpy(&word, copy_ + at, sizeof word);
    return true;
  }
  if (!has_outer(address)) return false;
  std::memcpy(&word, room_.data() + (address - outer_begin_), sizeof word);
  return true;
}

bool StackMemory::has_outer(std::uint64_t address) noexcept {
  const auto is_there = [&] {
    return outer_begin_ <= address && outer_end_ >= sizeof(std::uint64_t) &&
           address <= outer_end_ - sizeof(std::uint64_t);
  };
  if (is_there()) return true;
  if (is_changed_) return false;
  const std::size_t compared = std::min(bytes_, kComparedBytes);
  const std::uint64_t from = begin_ + bytes_ - compared;
  room_.resize(kOuterBytes + kComparedBytes);
  if (outer_end_ == 0) {
    // With it the end of the copy, at one time: if that is the same, so are the callers above it.
    const std::size_t got = read_process(pid_, from, room_.data(), kOuterBytes + compared);
    outer_begin_ = from;
    outer_end_ = from + got;
    is_changed_ = got < compared || std::memcmp(room_.data(), copy_ + bytes_ - compared, compared) != 0;
  } else {
    const std::uint64_t next = address & ~std::uint64_t{4095};
    outer_begin_ = next;
    outer_end_ = next + read_process(pid_, next, room_.data(), kOuterBytes);
  }
  return !is_changed_ && is_there();
}

const Unwinder::KnownRule& Unwinder::rule_at(const CodeMapping& mapping, std::uint64_t place,
                                             bool is_return) {
  const std::uint64_t address = place - mapping.bias;
  const std::uint64_t mixed = (address ^ reinterpret_cast<std::uint64_t>(mapping.file)) * 0x9e3779b97f4a7c15u;
  KnownRule& known = known_[mixed >> 49];
  static_assert(kKnown == std::size_t{1} << (64 - 49));
  if (known.file != mapping.file || known.address != address) {
    known = {mapping.file, address, {}, false, {}};
    known.rule = mapping.file->rule_at(address, known.saved);
    if (known.rule.base == FrameRule::Base::kUnknown) {
      known.rule = mapping.file->code_rule_at(address + (is_return ? 1 : 0));
      known.is_by_code = true;
      known.saved = kAllLost;
    }
  }
  return known;
}

Climbed Unwinder::go_up(CodeMap& code, const Frame& frame, bool by_frame_pointers, Registers& now,
                        StackMemory& memory, const stack::SavedRegisters*& saved) {
  const auto read = [&](std::uint64_t at, std::uint64_t& word) { return memory.read(at, word); };
  saved = &kAllLost;
  bool has_file = false;
#if defined(__x86_64__)
  has_file = !by_frame_pointers && frame.mapping != nullptr && frame.mapping->file != nullptr;
  if (has_file) {
    const KnownRule& known = rule_at(*frame.mapping, frame.place, frame.is_return);
    if (known.rule.base != FrameRule::Base::kUnknown && !known.is_by_code) {
      saved = &known.saved;
      return climb(known.rule, now, read);
    }
    Registers caller = now;
    const bool is_caller = known.rule.base != FrameRule::Base::kUnknown &&
                           climb(known.rule, caller, read) == Climbed::kCaller &&
                           may_return_to(code, caller.instruction);
    if (is_caller) {
      now = caller;
      return Climbed::kCaller;
    }
  }
#endif
  if (!has_file) return climb_by_frame_pointer(now, read);
  // Without a table, the register may be used for anything: what it leads to must look like a caller.
  Registers caller = now;
  const Climbed climbed = climb_by_frame_pointer(caller, read);
  const bool is_sound =
      climbed == Climbed::kOutermost ? frame.is_return : may_return_to(code, caller.instruction);
  if (climbed == Climbed::kLost || !is_sound) return Climbed::kLost;
  now = caller;
  return climbed;
}

void Unwinder::walk(CodeMap& code, Registers now, StackMemory& memory, bool by_frame_pointers,
                    Callers& found, const KeptRegisters& kept, CodeRange watched) {
  found.is_complete = false;
  const auto read = [&](std::uint64_t at, std::uint64_t& word) { return memory.read(at, word); };
  bool is_return = false, is_first = true;
  KeptRegisters registers = kept;
  while (found.addresses.size() < kMostCallers) {
    // A call may be the last instruction of its function: what counts is the call, not what follows.
    const std::uint64_t place = now.instruction - (is_return ? 1 : 0);
    const CodeMapping* mapping = code.find(place);
    if (mapping == nullptr && is_return) return;  // it was no return address
    registers.values[0] = now.frame_pointer;
    registers.are_known[0] = true;
    const bool is_watched = watched.holds(place);
    if (is_watched) {
      const auto callers = static_cast<std::uint32_t>(found.addresses.size());
      found.watched.push_back({callers, is_first, now.stack_pointer, 0, registers});
    }
    const std::uint64_t inner = now.stack_pointer;
    const stack::SavedRegisters* saved = nullptr;
    const Climbed climbed =
        go_up(code, {place, mapping, is_return}, by_frame_pointers, now, memory, saved);
    if (climbed == Climbed::kOutermost) found.is_complete = true;
    if (climbed == Climbed::kOutermost || climbed == Climbed::kLost) return;
    is_return = climbed == Climbed::kCaller;
    is_first = false;
    if (is_watched) found.watched.back().caller_stack_pointer = now.stack_pointer;
    give_back(*saved, !is_return, is_return ? now.stack_pointer : inner, read, registers);
    // What was interrupted is noted like a call: one is taken off these.
    found.addresses.push_back(is_return ? now.instruction : now.instruction + 1);
  }
}

}  // namespace warpline::sampler
