#include "stack/walk.h"

#include <pthread.h>
#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "stack/climb.h"
#include "stack/loaded_rules.h"

namespace warpline::agent {
namespace {

// The stack of one thread; `top` is beyond its end, 1 when that cannot be found out.
struct ThreadStack {
  std::uint64_t bottom;
  std::uint64_t top;
};
thread_local constinit ThreadStack t_stack{0, 0};

[[gnu::noinline]] void find_stack(ThreadStack& stack) noexcept {
  stack = {0, 1};
  pthread_attr_t attributes;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return;
  void* bottom = nullptr;
  std::size_t bytes = 0;
  if (pthread_attr_getstack(&attributes, &bottom, &bytes) == 0) {
    stack.bottom = reinterpret_cast<std::uint64_t>(bottom);
    stack.top = stack.bottom + bytes;
  }
  pthread_attr_destroy(&attributes);
}

using stack::Climbed;
using stack::FrameRule;
using stack::Registers;

// A word of the stack that lies above the stack pointer; what is below it may change. It may belong
// to anything, which a sanitizer does not like to see read.
[[gnu::no_sanitize_address, gnu::no_sanitize_thread]] bool read_word(const ThreadStack& stack, std::uint64_t low, std::uint64_t at,
               std::uint64_t& word) noexcept {
  if (at % 8 != 0 || at < low || at >= stack.top || stack.top - at < 8) return false;
  word = *reinterpret_cast<const volatile std::uint64_t*>(at);
  return true;
}

bool read_word(const CopiedStack& copied, std::uint64_t low, std::uint64_t at,
               std::uint64_t& word) noexcept {
  if (at % 8 != 0 || at < low || at - copied.stack_pointer + 8 > copied.bytes) return false;
  std::memcpy(&word, copied.copy + (at - copied.stack_pointer), sizeof word);
  return true;
}

#if defined(__x86_64__)

// Rules by address. Threads read and write it at will: an entry's first word is its address mixed with its
// rule, so that halves of two entries match none.
template <std::size_t kBits>
class KnownRules {
 public:
  // Returns whether the rule of a key is known.
  bool find(std::uint64_t key, FrameRule& rule) const noexcept {
    const Entry& entry = entries_[slot_of(key)];
    const std::uint64_t packed = entry.rule.load(std::memory_order_relaxed);
    rule = FrameRule::unpacked(packed);
    return (entry.mixed.load(std::memory_order_relaxed) ^ packed) == key;
  }
  void keep(std::uint64_t key, const FrameRule& rule) noexcept {
    Entry& entry = entries_[slot_of(key)];
    const std::uint64_t packed = rule.packed();
    entry.rule.store(packed, std::memory_order_relaxed);
    entry.mixed.store(key ^ packed, std::memory_order_relaxed);
  }
  void forget() noexcept {
    for (Entry& entry : entries_) entry.mixed.store(0, std::memory_order_relaxed);
  }

 private:
  struct Entry {
    std::atomic<std::uint64_t> mixed;
    std::atomic<std::uint64_t> rule;
  };
  static std::size_t slot_of(std::uint64_t key) noexcept {
    return key * 0x9e3779b97f4a7c15u >> (64 - kBits);
  }

  Entry entries_[std::size_t{1} << kBits];
};

constinit KnownRules<14> g_known_rules;
constinit KnownRules<12> g_known_code;  // of what no table tells

// What a rule is known by: that of a call and that of the instruction behind it may differ.
std::uint64_t key_of(std::uint64_t address, bool is_return) noexcept {
  return is_return ? address : address | std::uint64_t{1} << 63;
}

// Modules that were unloaded since leave their places to others.
void forget_unloaded(std::uint64_t place, StackOf whose) noexcept {
  if (!modules_were_unloaded(place, whose)) return;
  g_known_rules.forget();
  g_known_code.forget();
}

[[gnu::noinline]] FrameRule learn_rule(std::uint64_t address, bool is_return,
                                       StackOf whose) noexcept {
  // A call may be the last instruction of its function: what counts is the call, not what follows.
  const std::uint64_t place = address - (is_return ? 1 : 0);
  forget_unloaded(place, whose);
  const FrameRule rule = frame_rule_at(place, whose);
  g_known_rules.keep(key_of(address, is_return), rule);
  return rule;
}

FrameRule rule_at(std::uint64_t address, bool is_return, StackOf whose) noexcept {
  FrameRule rule;
  if (g_known_rules.find(key_of(address, is_return), rule)) [[likely]] return rule;
  return learn_rule(address, is_return, whose);
}

FrameRule known_code_rule_at(std::uint64_t address) noexcept {
  FrameRule rule;
  if (g_known_code.find(address, rule)) return rule;
  forget_unloaded(address, StackOf::kOther);
  rule = code_rule_at(address);
  g_known_code.keep(address, rule);
  return rule;
}

// Follows the code to its return. The walk of a thread's own stack does not: it may have little room.
template <class Read>
bool climb_by_code(const ThreadStack&, Registers&, Read&&) noexcept {
  return false;
}

template <class Read>
bool climb_by_code(const CopiedStack&, Registers& now, Read&& read) noexcept {
  const FrameRule rule = known_code_rule_at(now.instruction);
  Registers caller = now;
  if (rule.base == FrameRule::Base::kUnknown || climb(rule, caller, read) != Climbed::kCaller) return false;
  if (!may_return_to(caller.instruction)) return false;
  now = caller;
  return true;
}

// `from` is how the frame was come to: a caller is at the instruction behind its call.
template <class Stack>
Climbed go_up(const Stack& stack, Registers& now, Climbed from) noexcept {
  constexpr StackOf whose = std::is_same_v<Stack, ThreadStack> ? StackOf::kCaller : StackOf::kOther;
  const std::uint64_t low = now.stack_pointer;
  const auto read = [&](std::uint64_t at, std::uint64_t& word) {
    return read_word(stack, low, at, word);
  };
  const FrameRule rule = rule_at(now.instruction, from == Climbed::kCaller, whose);
  if (rule.base != FrameRule::Base::kUnknown) return climb(rule, now, read);
  if (climb_by_code(stack, now, read)) return Climbed::kCaller;
  // Code that no table tells of may keep a frame pointer, which counts if it leads to code that is told of.
  Registers caller = now;
  const Climbed climbed = climb_by_frame_pointer(caller, read);
  if (climbed != Climbed::kCaller) return Climbed::kLost;
  if (rule_at(caller.instruction, true, whose).base == FrameRule::Base::kUnknown) return Climbed::kLost;
  now = caller;
  return climbed;
}

[[gnu::always_inline]] inline Registers registers_here() noexcept {
  Registers here;
  asm volatile(
      "leaq 0(%%rip), %0\n\t"
      "movq %%rsp, %1\n\t"
      "movq %%rbp, %2"
      : "=r"(here.instruction), "=r"(here.stack_pointer), "=r"(here.frame_pointer));
  return here;
}

#else

// Elsewhere frame pointers are the rule.
template <class Stack>
Climbed go_up(const Stack& stack, Registers& now, Climbed) noexcept {
  const std::uint64_t low = now.stack_pointer;
  return climb_by_frame_pointer(now, [&](std::uint64_t at, std::uint64_t& word) {
    return read_word(stack, low, at, word);
  });
}

[[gnu::always_inline]] inline Registers registers_here() noexcept {
  const auto frame = reinterpret_cast<std::uint64_t>(__builtin_frame_address(0));
  return {0, frame, frame};
}

#endif

// Where the agent's own code lies; the linker knows.
extern "C" {
extern const char __ehdr_start __attribute__((weak, visibility("hidden")));
extern const char etext __attribute__((weak, visibility("hidden")));
}

bool is_own(std::uint64_t address) noexcept {
  const auto begin = reinterpret_cast<std::uint64_t>(&__ehdr_start);
  const auto end = reinterpret_cast<std::uint64_t>(&etext);
  return begin != 0 && begin <= address && address < end;
}

}  // namespace

[[gnu::noinline]] void walk_stack(NativeStack& found) noexcept {
  found.count = 0;
  ThreadStack& stack = t_stack;
  if (stack.top == 0) [[unlikely]] find_stack(stack);
  Registers now = registers_here();
  if (now.stack_pointer < stack.bottom || now.stack_pointer >= stack.top) return;
  Climbed climbed = Climbed::kInterrupted;
  while (found.count < kMaxFrames) {
    climbed = go_up(stack, now, climbed);
    // What a signal interrupted is no call, and chains have calls only.
    if (climbed != Climbed::kCaller) break;
    if (found.count == 0 && is_own(now.instruction)) continue;
    found.frames[found.count] = now.instruction;
    found.bottoms[found.count++] = now.stack_pointer;
  }
}

bool walk_copy(const CopiedStack& copied, NativeStack& found) noexcept {
  Registers now{copied.instruction, copied.stack_pointer, copied.frame_pointer};
  found.frames[0] = now.instruction;
  found.bottoms[0] = now.stack_pointer;
  found.count = 1;
  Climbed climbed = Climbed::kInterrupted;
  while (found.count < kMaxFrames) {
    climbed = go_up(copied, now, climbed);
    if (climbed == Climbed::kOutermost) return true;
    if (climbed == Climbed::kLost) return false;
    // What a signal interrupted made no call: it stands as if its instruction were the last of one.
    found.frames[found.count] = now.instruction + (climbed == Climbed::kInterrupted ? 1 : 0);
    found.bottoms[found.count++] = now.stack_pointer;
  }
  return true;
}

bool is_on_own_stack(std::uint64_t address, std::size_t bytes) noexcept {
  ThreadStack& stack = t_stack;
  if (stack.top == 0) [[unlikely]] find_stack(stack);
  const auto low = reinterpret_cast<std::uint64_t>(__builtin_frame_address(0));
  return low >= stack.bottom && address >= low && address < stack.top && stack.top - address >= bytes;
}

}  // namespace warpline::agent
