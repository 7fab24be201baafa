#include "stack/python_chain.h"

#include <atomic>
#include <cstring>

#include "session/clock.h"
#include "session/process.h"
#include "session/thread_log.h"
#include "stack/python_walk.h"
#include "stack/walk.h"
#include "stack/written_chains.h"

namespace warpline::agent {
namespace {

thread_local constinit WrittenChains t_python_chains{0, nullptr, {}};
std::atomic<std::uint64_t> g_told_generation{0};  // whose logs say why there are no stacks

// The code that this process has written to its logs: numbers, mixed with the generation that has.
constexpr std::size_t kKnownCode = 1u << 14;
constexpr std::size_t kPlaces = 8;  // of a number
std::atomic<std::uint64_t> g_written_code[kKnownCode];

std::atomic<std::uint64_t>& code_place(std::uint64_t number, std::size_t i) noexcept {
  return g_written_code[(number + i) % kKnownCode];
}

bool write_code(ThreadLog& log, std::uint64_t number, std::uint64_t address) noexcept {
  constexpr std::size_t kText = sizeof(raw::PythonCodeText);
  // Some words are not written: the program's stack may be too small for a copy.
  std::uint64_t* room = log.reserve(3 + raw::words_for(kText + PythonCode::kMostBytes));
  if (room == nullptr) return false;
  auto* text = reinterpret_cast<char*>(room + 3);
  PythonCode code{};
  if (!read_python_code(address, code, text + kText)) return true;  // it has no name then
  std::memcpy(text, &code.text, kText);
  room[1] = number;
  room[2] = kText + code.bytes;
  const std::size_t words = 3 + raw::words_for(kText + code.bytes);
  std::memset(text + kText + code.bytes, 0, (words - 3) * 8 - kText - code.bytes);
  log.commit(room, raw::Kind::kPythonCode, 0, words, 0, false);
  return true;
}

// Writes code that no log has. Two threads may do so at the same time.
bool define_code(ThreadLog& log, std::uint64_t number, std::uint64_t address) noexcept {
  const std::uint64_t generation = g_process->generation.load(std::memory_order_relaxed);
  const std::uint64_t mark = number ^ generation * 0x9e3779b97f4a7c15u;
  std::size_t free = 0;  // the first, if none is
  for (std::size_t i = kPlaces; i-- > 0;) {
    const std::uint64_t found = code_place(number, i).load(std::memory_order_acquire);
    if (found == mark) return true;
    if (found == 0) free = i;
  }
  if (!write_code(log, number, address)) return false;
  code_place(number, free).store(mark, std::memory_order_release);
  return true;
}

// Says in which native frame each entry of the interpreter is.
void place_entries(const NativeStack& native, PythonStack& stack) noexcept {
  std::size_t inner = 0;
  for (std::size_t i = 0; i < stack.count && native.count != 0; ++i) {
    const std::uint64_t entry = stack.entries[i];
    if (entry < native.bottoms[0]) continue;
    while (inner + 1 < native.count && native.bottoms[inner + 1] <= entry) ++inner;
    stack.frames[2 * i + 1] |= (inner + 1) << raw::PythonFrame::kNativeShift;
  }
}

void tell(ThreadLog& log, const char* problem) noexcept {
  const std::uint64_t generation = g_process->generation.load(std::memory_order_relaxed);
  if (g_told_generation.exchange(generation, std::memory_order_relaxed) == generation) return;
  log.define(raw::Kind::kNote, static_cast<std::uint32_t>(raw::CudaNote::kNoPythonStacks),
             static_cast<std::uint64_t>(now_ns()), problem);
}

}  // namespace

std::uint64_t write_python_chain(ThreadLog& log, const NativeStack& native,
                                 PythonPlace place) noexcept {
  PythonStack stack;
  walk_python(stack, place);
  if (stack.count == 0) {
    if (const char* problem = python_problem()) [[unlikely]] tell(log, problem);
    return 0;
  }
  return write_python_stack(log, native, stack);
}

std::uint64_t write_python_stack(ThreadLog& log, const NativeStack& native, PythonStack& stack) noexcept {
  if (stack.count == 0) return 0;
  place_entries(native, stack);
  const std::uint64_t number = chain_number(stack.frames, 2 * stack.count);
  std::uint64_t& known = t_python_chains.place_of(number, log);
  if (known == number) [[likely]] return number;
  for (std::size_t i = 0; i < stack.count; ++i) {
    if (!define_code(log, stack.frames[2 * i], stack.code_addresses[i])) return 0;
  }
  if (!write_words(log, raw::Kind::kPythonChain, number, stack.frames, 2 * stack.count)) return 0;
  known = number;
  return number;
}

}  // namespace warpline::agent
