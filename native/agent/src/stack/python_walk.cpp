#include "stack/python_walk.h"

#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

#include "session/clock.h"
#include "session/process.h"
#include "stack/python_find.h"
#include "stack/python_memory.h"

namespace warpline::agent {
namespace {

// ---- the interpreter

enum class Trust : std::uint8_t {
  kNone,     // no interpreter was found yet
  kUnproven,
  kProven,   // a walk has come to the end of a stack
  kRefused,
};
Python g_python;
std::atomic<Trust> g_trust{Trust::kNone};
std::atomic<const char*> g_problem{nullptr};  // why it is refused
std::atomic<std::uint64_t> g_looking_generation{0};  // while a thread looks for an interpreter
std::atomic<std::int64_t> g_look_again_ns{0};

void refuse(const char* problem) noexcept {
  g_problem.store(problem, std::memory_order_relaxed);
  g_trust.store(Trust::kRefused, std::memory_order_release);
}

// An interpreter may be loaded later than the first call. A fork while a thread looks for it leaves its
// child the number of the parent's generation, which keeps nobody out.
void look_for_python(bool may_lock) noexcept {
  constexpr std::int64_t kPause = 1'000'000'000;
  const std::int64_t now = now_ns();
  if (now < g_look_again_ns.load(std::memory_order_relaxed)) return;
  const std::uint64_t generation = g_process->generation.load(std::memory_order_relaxed);
  std::uint64_t looking = g_looking_generation.load(std::memory_order_relaxed);
  const bool is_taken = looking != generation && g_looking_generation.compare_exchange_strong(
                                                     looking, generation, std::memory_order_acquire);
  if (!is_taken) return;
  const char* problem = nullptr;
  if (g_trust.load(std::memory_order_relaxed) == Trust::kNone && find_python(g_python, problem, may_lock)) {
    if (problem != nullptr) {
      refuse(problem);
    } else {
      g_trust.store(Trust::kUnproven, std::memory_order_release);
    }
  }
  // A session begins before the program loads an interpreter: that look keeps no other one off.
  if (!may_lock) g_look_again_ns.store(now + kPause, std::memory_order_relaxed);
  g_looking_generation.store(0, std::memory_order_release);
}

// Whether this is the main thread, which is the one that ends the interpreter.
bool is_main_thread() noexcept {
  struct Known {
    std::uint64_t generation;
    bool is_main;
  };
  static thread_local constinit Known t_known{0, false};
  const std::uint64_t generation = g_process->generation.load(std::memory_order_relaxed);
  if (t_known.generation != generation) [[unlikely]] {
    t_known = {generation, syscall(SYS_gettid) == static_cast<long>(g_process->pid)};
  }
  return t_known.is_main;
}

// ---- walks

template <class Memory>
bool walk_frames(std::uint64_t state, PythonStack& stack) noexcept {
  Memory memory;
  const bool is_proven = g_trust.load(std::memory_order_relaxed) == Trust::kProven;
  const bool is_whole =
      find_frames(g_python.build.layout, memory, state, !is_proven, stack);
  return number_frames(g_python.build, memory, is_proven, stack) && is_whole;
}

// A walk that nothing is known of yet.
[[gnu::noinline]] void prove(std::uint64_t state, PythonStack& stack) noexcept {
  const bool is_sound = walk_frames<CopiedMemory>(state, stack);
  if (g_python.is_finalizing() != 0) {
    stack.count = 0;
  } else if (!is_sound) {
    stack.count = 0;
    refuse(CopiedMemory::is_allowed() ? "this build of Python is not known"
                      : "the kernel does not allow process_vm_readv");
  } else if (stack.count != 0) {
    g_trust.store(Trust::kProven, std::memory_order_release);
  }
}

// A thread that can be overtaken by the end of the interpreter.
[[gnu::noinline]] void walk_beside_others(std::uint64_t state, PythonStack& stack) noexcept {
  walk_frames<CopiedMemory>(state, stack);
  if (g_python.is_finalizing() != 0) stack.count = 0;
}

// Numbers of code by its address and identity, as reading what they are made of takes the kernel several
// copies. Threads read and write it at will: an entry's first word is its key mixed with its number, so that
// halves of two entries match none.
struct KnownNumber {
  std::atomic<std::uint64_t> mixed_key;
  std::atomic<std::uint64_t> number;
};
constexpr std::size_t kKnownNumbers = 1u << 12;
KnownNumber g_known_numbers[kKnownNumbers];

// Apart, as its memory is needed seldom, and the program's stack may be small.
[[gnu::noinline]] bool number_new(std::uint64_t address, const char* code, bool is_proven,
                                  std::uint64_t& number) noexcept {
  CopiedMemory texts;
  return number_code(g_python.build, texts, address, code, is_proven, number);
}

bool number_known(std::uint64_t address, const char* code, bool is_proven,
                  std::uint64_t& number) noexcept {
  const std::uint64_t key = stack::mixed(address, identity_of(g_python.build.layout, code));
  KnownNumber& known = g_known_numbers[key % kKnownNumbers];
  number = known.number.load(std::memory_order_relaxed);
  if ((known.mixed_key.load(std::memory_order_relaxed) ^ number) == key) return true;
  if (!number_new(address, code, is_proven, number)) return false;
  known.number.store(number, std::memory_order_relaxed);
  known.mixed_key.store(key ^ number, std::memory_order_relaxed);
  return true;
}

// A thread whose frames may be freed, or half made: nothing is taken from a stack that is not whole, and it
// does not tell against the interpreter.
[[gnu::noinline]] void walk_anywhere(std::uint64_t state, PythonStack& stack) noexcept {
  CopiedMemory memory;
  const bool is_proven = g_trust.load(std::memory_order_relaxed) == Trust::kProven;
  bool is_sound = find_frames(g_python.build.layout, memory, state, !is_proven, stack);
  for_code(g_python.build.layout, memory, stack, [&](std::size_t i, const char* code) {
    is_sound = is_sound && code != nullptr &&
               number_known(stack.code_addresses[i], code, is_proven, stack.frames[2 * i]);
  });
  if (!is_sound || g_python.is_finalizing() != 0) stack.count = 0;
  Trust unproven = Trust::kUnproven;
  if (stack.count != 0) {
    g_trust.compare_exchange_strong(unproven, Trust::kProven, std::memory_order_release);
  }
}

void walk(PythonStack& stack, PythonPlace place) noexcept {
  Trust trust = g_trust.load(std::memory_order_acquire);
  if (trust == Trust::kNone) [[unlikely]] {
    look_for_python(false);
    trust = g_trust.load(std::memory_order_acquire);
  }
  if (trust == Trust::kNone || trust == Trust::kRefused) return;
  const auto state = reinterpret_cast<std::uint64_t>(g_python.state_of_thread());
  if (state == 0) return;
  if (place == PythonPlace::kAnywhere) return walk_anywhere(state, stack);
  const bool has_gil = reinterpret_cast<std::uint64_t>(g_python.state_with_gil()) == state;
  const bool is_safe = has_gil || is_main_thread();
  if (!is_safe && g_python.is_finalizing() != 0) return;
  if (trust == Trust::kUnproven) [[unlikely]] {
    prove(state, stack);
  } else if (is_safe) [[likely]] {
    walk_frames<OwnMemory>(state, stack);
  } else {
    walk_beside_others(state, stack);
  }
}

}  // namespace

void walk_python(PythonStack& stack, PythonPlace place) noexcept {
  const int error = errno;  // the program's
  stack.count = 0;
  walk(stack, place);
  errno = error;
}

void meet_python() noexcept {
  if (g_trust.load(std::memory_order_acquire) == Trust::kNone) look_for_python(true);
}

void walk_python_in_handler(PythonStack& stack, CopiedMemory& memory, bool is_main_thread) noexcept {
  stack.count = 0;
  const Trust trust = g_trust.load(std::memory_order_acquire);
  if (trust == Trust::kNone || trust == Trust::kRefused) return;
  const auto state = reinterpret_cast<std::uint64_t>(g_python.state_of_thread());
  if (state == 0 || (!is_main_thread && g_python.is_finalizing() != 0)) return;
  // The innermost frame may be half made: frames count up to where they are not as expected.
  find_frames(g_python.build.layout, memory, state, false, stack);
  for_code(g_python.build.layout, memory, stack, [&](std::size_t i, const char* code) {
    stack.frames[2 * i] = code == nullptr ? 0 : identity_of(g_python.build.layout, code);
  });
}

void number_python(PythonStack& stack) noexcept {
  if (stack.count == 0) return;
  const int error = errno;
  CopiedMemory memory(false);
  CopiedMemory texts(false);
  const bool is_proven = g_trust.load(std::memory_order_relaxed) == Trust::kProven;
  bool is_sound = true;
  for_code(g_python.build.layout, memory, stack, [&](std::size_t i, const char* code) {
    std::uint64_t& number = stack.frames[2 * i];
    const std::uint64_t address = stack.code_addresses[i];
    const bool is_there = code != nullptr && number == identity_of(g_python.build.layout, code);
    if (is_there && number_code(g_python.build, texts, address, code, is_proven, number)) return;
    is_sound = false;
    number = stack.code_addresses[i] = 0;
  });
  Trust unproven = Trust::kUnproven;
  if (is_sound) {
    g_trust.compare_exchange_strong(unproven, Trust::kProven, std::memory_order_release);
  }
  errno = error;
}

const char* python_problem() noexcept { return g_problem.load(std::memory_order_relaxed); }

bool read_python_code(std::uint64_t address, PythonCode& code, char* room) noexcept {
  const int error = errno;
  CopiedMemory memory;
  const bool is_read = read_code(g_python.build, memory, address, code, room);
  errno = error;
  return is_read;
}

}  // namespace warpline::agent
