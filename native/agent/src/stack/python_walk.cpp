#include "stack/python_walk.h"

#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "session/clock.h"
#include "session/process.h"

namespace warpline::agent {
namespace {

// ---- memory

std::uint64_t word_at(const char* bytes) noexcept {
  std::uint64_t word;
  std::memcpy(&word, bytes, sizeof word);
  return word;
}

// Memory that is known to be there.
struct OwnMemory {
  static constexpr bool kIsChecked = false;
  static const char* view(std::uint64_t address, std::size_t, char*) noexcept {
    return reinterpret_cast<const char*>(address);
  }
};

// Memory that may not be there: the kernel copies it.
struct CopiedMemory {
  static constexpr bool kIsChecked = true;
  static const char* view(std::uint64_t address, std::size_t bytes, char* room) noexcept {
    const iovec here{room, bytes};
    const iovec there{reinterpret_cast<void*>(address), bytes};
    const auto pid = static_cast<pid_t>(g_process->pid);
    const ssize_t copied = process_vm_readv(pid, &here, 1, &there, 1, 0);
    return copied == static_cast<ssize_t>(bytes) ? room : nullptr;
  }
};

template <class Memory>
bool read_word(std::uint64_t address, std::uint64_t& word) noexcept {
  char room[sizeof word];
  const char* bytes = Memory::view(address, sizeof word, room);
  if (bytes != nullptr) word = word_at(bytes);
  return bytes != nullptr;
}

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
void look_for_python() noexcept {
  constexpr std::int64_t kPause = 1'000'000'000;
  const std::int64_t now = now_ns();
  if (now < g_look_again_ns.load(std::memory_order_relaxed)) return;
  const std::uint64_t generation = g_process->generation.load(std::memory_order_relaxed);
  std::uint64_t looking = g_looking_generation.load(std::memory_order_relaxed);
  const bool is_taken = looking != generation && g_looking_generation.compare_exchange_strong(
                                                     looking, generation, std::memory_order_acquire);
  if (!is_taken) return;
  const char* problem = nullptr;
  if (g_trust.load(std::memory_order_relaxed) == Trust::kNone && find_python(g_python, problem)) {
    if (problem != nullptr) {
      refuse(problem);
    } else {
      g_trust.store(Trust::kUnproven, std::memory_order_release);
    }
  }
  g_look_again_ns.store(now + kPause, std::memory_order_relaxed);
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

// ---- code

constexpr std::uint64_t mixed(std::uint64_t hash, std::uint64_t word) noexcept {
  hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
  return hash ^ hash >> 29;
}

// The characters of a string: how many bytes each has, and where they begin. 0 bytes: not known.
struct Characters {
  std::uint64_t count = 0;
  std::uint64_t width = 0;
  std::uint64_t begin = 0;
};

Characters characters_of(std::uint64_t address, const char* header) noexcept {
  constexpr std::uint32_t kCompact = 1u << 5, kAscii = 1u << 6;
  std::uint32_t state;
  std::memcpy(&state, header + kTextState, sizeof state);
  if ((state & kCompact) == 0) return {};
  const PythonLayout& layout = g_python.layout;
  const bool is_ascii = (state & kAscii) != 0;
  return {word_at(header + kTextLength), state >> 2 & 7,
          address + (is_ascii ? layout.text_of_ascii : layout.text_of_others)};
}

constexpr std::uint64_t kMostItems = std::uint64_t{1} << 24;

// Adds what tells an object with bytes from another one that may lie at its place later: its size, its
// first and its last bytes.
template <class Memory>
bool mix_bytes(std::uint64_t begin, std::uint64_t bytes, std::uint64_t& hash) noexcept {
  if (bytes > kMostItems) return false;
  hash = mixed(hash, bytes);
  if (bytes < sizeof hash) return true;  // shorter names are told by their hash
  std::uint64_t first, last;
  if (!read_word<Memory>(begin, first)) return false;
  if (!read_word<Memory>(begin + bytes - sizeof last, last)) return false;
  hash = mixed(mixed(hash, first), last);
  return true;
}

template <class Memory>
bool mix_text(std::uint64_t address, std::uint64_t& hash) noexcept {
  char room[kTextHeaderBytes];
  const char* header = Memory::view(address, kTextHeaderBytes, room);
  if (header == nullptr || word_at(header + kObjectType) != g_python.text_type) return false;
  hash = mixed(mixed(hash, address), word_at(header + kTextHash));
  const Characters found = characters_of(address, header);
  return mix_bytes<Memory>(found.begin, found.count * found.width, hash);
}

// The number of a code object: another one for whatever code comes to lie at its place later.
template <class Memory>
bool number_code(std::uint64_t address, std::uint64_t& number) noexcept {
  const PythonLayout& layout = g_python.layout;
  char room[256];
  const char* code = Memory::view(address, layout.code_bytes, room);
  if (code == nullptr || word_at(code + kObjectType) != g_python.code_type) return false;
  std::uint32_t first_line;
  std::memcpy(&first_line, code + layout.code_first_line, sizeof first_line);
  std::uint64_t hash = mixed(address, first_line);
  if (!mix_text<Memory>(word_at(code + layout.code_name), hash)) return false;
  if (!mix_text<Memory>(word_at(code + layout.code_file), hash)) return false;
  const std::uint64_t lines = word_at(code + layout.code_lines);
  std::uint64_t bytes;
  if (!read_word<Memory>(lines + kObjectSize, bytes)) return false;
  hash = mixed(hash, lines);
  if (!mix_bytes<Memory>(lines + kBytesStart, bytes, hash)) return false;
  number = hash;
  return true;
}

// ---- frames

std::uint64_t place_in(std::uint64_t code, const char* frame) noexcept {
  const PythonLayout& layout = g_python.layout;
  std::int64_t offset;
  if (layout.instruction == PythonInstruction::kPointer) {
    offset = static_cast<std::int64_t>(word_at(frame + layout.frame_instruction) - code -
                                       layout.code_start);
  } else {
    std::int32_t last;
    std::memcpy(&last, frame + layout.frame_instruction, sizeof last);
    offset = layout.instruction == PythonInstruction::kUnit ? std::int64_t{last} * 2 : last;
  }
  const bool has_begun = offset >= 0 && offset < static_cast<std::int64_t>(kMostItems);
  return has_begun ? static_cast<std::uint64_t>(offset) : raw::PythonFrame::kBeforeStart;
}

bool is_shim(const char* frame) noexcept {
  const PythonLayout& layout = g_python.layout;
  return layout.frame_owner != 0 && layout.frame_is_entry == 0 &&
         static_cast<std::uint8_t>(frame[layout.frame_owner]) >= PythonLayout::kFirstShim;
}

bool is_entry(const char* frame) noexcept {
  const PythonLayout& layout = g_python.layout;
  return layout.frame_owner == 0 || (layout.frame_is_entry != 0 && frame[layout.frame_is_entry] != 0);
}

template <class Memory>
bool innermost_frame(std::uint64_t state, std::uint64_t& frame) noexcept {
  const PythonLayout& layout = g_python.layout;
  if (!read_word<Memory>(state + layout.state_frame, frame)) return false;
  if (layout.link_frame == PythonLayout::kNoLink) return true;
  return frame != 0 && read_word<Memory>(frame + layout.link_frame, frame);
}

// Fills the stack. False if something is not as expected; what was found until there then counts.
template <class Memory>
bool walk_frames(std::uint64_t state, PythonStack& stack) noexcept {
  // Frames that no chain has room for are followed until a walk has come to an end.
  constexpr std::size_t kMostSteps = Memory::kIsChecked ? 100'000 : 4 * kMaxPythonFrames;
  const PythonLayout& layout = g_python.layout;
  std::uint64_t at = 0;
  if (!innermost_frame<Memory>(state, at)) return false;
  for (std::size_t step = 0; at != 0; ++step) {
    if (step == kMostSteps || at % sizeof at != 0) return false;
    char room[128];
    const char* frame = Memory::view(at, layout.frame_bytes, room);
    if (frame == nullptr) return false;
    if (is_shim(frame)) {
      if (stack.count != 0) stack.frames[2 * stack.count - 1] |= raw::PythonFrame::kIsEntry;
    } else {
      if (stack.count == kMaxPythonFrames) {
        if (!Memory::kIsChecked || g_trust.load(std::memory_order_relaxed) == Trust::kProven) {
          return true;
        }
      } else {
        const std::uint64_t code = word_at(frame + layout.frame_code);
        std::uint64_t* words = stack.frames + 2 * stack.count;
        if (code % sizeof code != 0 || !number_code<Memory>(code, words[0])) return false;
        words[1] = place_in(code, frame) | (is_entry(frame) ? raw::PythonFrame::kIsEntry : 0);
        stack.code_addresses[stack.count++] = code;
      }
    }
    at = word_at(frame + layout.frame_previous);
  }
  return true;
}

// A walk that nothing is known of yet.
void prove(std::uint64_t state, PythonStack& stack) noexcept {
  const bool is_sound = walk_frames<CopiedMemory>(state, stack);
  if (g_python.is_finalizing() != 0) {
    stack.count = 0;
  } else if (!is_sound) {
    stack.count = 0;
    std::uint64_t probe = 0;
    const bool is_allowed = read_word<CopiedMemory>(reinterpret_cast<std::uint64_t>(&state), probe);
    refuse(is_allowed ? "this build of Python is not known"
                      : "the kernel does not allow process_vm_readv");
  } else if (stack.count != 0) {
    g_trust.store(Trust::kProven, std::memory_order_release);
  }
}

// A thread that can be overtaken by the end of the interpreter.
void walk_beside_others(std::uint64_t state, PythonStack& stack) noexcept {
  walk_frames<CopiedMemory>(state, stack);
  if (g_python.is_finalizing() != 0) stack.count = 0;
}

void walk(PythonStack& stack) noexcept {
  Trust trust = g_trust.load(std::memory_order_acquire);
  if (trust == Trust::kNone) [[unlikely]] {
    look_for_python();
    trust = g_trust.load(std::memory_order_acquire);
  }
  if (trust == Trust::kNone || trust == Trust::kRefused) return;
  const auto state = reinterpret_cast<std::uint64_t>(g_python.state_of_thread());
  if (state == 0) return;
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

// ---- what is told of code

std::size_t put_utf8(std::uint32_t character, char* room) noexcept {
  const auto low = [&](int shift) { return static_cast<char>(0x80 | (character >> shift & 0x3f)); };
  if (character < 0x80) {
    room[0] = static_cast<char>(character);
    return 1;
  }
  if (character < 0x800) {
    room[0] = static_cast<char>(0xc0 | character >> 6);
    room[1] = low(0);
    return 2;
  }
  if (character >= 0xd800 && character < 0xe000) character = 0xfffd;  // bytes that are no text
  if (character < 0x10000) {
    room[0] = static_cast<char>(0xe0 | character >> 12);
    room[1] = low(6);
    room[2] = low(0);
    return 3;
  }
  room[0] = static_cast<char>(0xf0 | (character >> 18 & 7));
  room[1] = low(12);
  room[2] = low(6);
  room[3] = low(0);
  return 4;
}

// Copies a string as UTF-8, at most `most` bytes of it. Returns how many; npos where it cannot be read.
constexpr std::size_t kUnreadable = ~std::size_t{0};

std::size_t read_text(std::uint64_t address, char* room, std::size_t most) noexcept {
  char header[kTextHeaderBytes];
  if (CopiedMemory::view(address, sizeof header, header) == nullptr) return kUnreadable;
  if (word_at(header + kObjectType) != g_python.text_type) return kUnreadable;
  const Characters found = characters_of(address, header);
  if (found.width != 1 && found.width != 2 && found.width != 4) return kUnreadable;
  const bool is_ascii = found.begin == address + g_python.layout.text_of_ascii;
  std::size_t bytes = 0;
  char piece[256];
  for (std::uint64_t done = 0; done < found.count;) {
    const std::uint64_t some = std::min<std::uint64_t>(found.count - done, sizeof piece / found.width);
    const std::uint64_t from = found.begin + done * found.width;
    if (CopiedMemory::view(from, some * found.width, piece) == nullptr) return kUnreadable;
    for (std::uint64_t i = 0; i < some; ++i) {
      if (most - bytes < 4) return bytes;
      std::uint32_t character = 0;
      std::memcpy(&character, piece + i * found.width, found.width);
      bytes += is_ascii ? (room[bytes] = static_cast<char>(character), std::size_t{1})
                        : put_utf8(character, room + bytes);
    }
    done += some;
  }
  return bytes;
}

std::size_t read_lines(std::uint64_t address, char* room, std::size_t most) noexcept {
  char header[kObjectSize + sizeof(std::uint64_t)];
  if (CopiedMemory::view(address, sizeof header, header) == nullptr) return kUnreadable;
  if (word_at(header + kObjectType) != g_python.bytes_type) return kUnreadable;
  const std::size_t bytes = std::min<std::size_t>(word_at(header + kObjectSize), most);
  if (bytes == 0) return 0;
  return CopiedMemory::view(address + kBytesStart, bytes, room) == nullptr ? kUnreadable : bytes;
}

}  // namespace

void walk_python(PythonStack& stack) noexcept {
  const int error = errno;  // the program's
  stack.count = 0;
  walk(stack);
  errno = error;
}

const char* python_problem() noexcept { return g_problem.load(std::memory_order_relaxed); }

bool read_python_code(std::uint64_t address, PythonCode& code, char* room) noexcept {
  constexpr std::size_t kMostFile = 4096, kMostName = 4096;
  const PythonLayout& layout = g_python.layout;
  const int error = errno;
  char object[256];
  bool is_read = CopiedMemory::view(address, layout.code_bytes, object) != nullptr;
  if (is_read) {
    const std::size_t file = read_text(word_at(object + layout.code_file), room, kMostFile);
    is_read = file != kUnreadable;
    const std::size_t name =
        is_read ? read_text(word_at(object + layout.code_name), room + file, kMostName) : 0;
    is_read = is_read && name != kUnreadable;
    const std::size_t lines = is_read ? read_lines(word_at(object + layout.code_lines),
                                                   room + file + name,
                                                   PythonCode::kMostBytes - file - name)
                                      : 0;
    is_read = is_read && lines != kUnreadable;
    std::memcpy(&code.text.first_line, object + layout.code_first_line, sizeof code.text.first_line);
    code.text.format = layout.lines;
    code.text.file_bytes = static_cast<std::uint32_t>(file);
    code.text.name_bytes = static_cast<std::uint32_t>(name);
    code.bytes = file + name + lines;
  }
  errno = error;
  return is_read;
}

}  // namespace warpline::agent
