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
bool mix_bytes(Memory& memory, std::uint64_t begin, std::uint64_t bytes, std::uint64_t& hash) noexcept {
  if (bytes > kMostItems) return false;
  hash = mixed(hash, bytes);
  if (bytes < sizeof hash) return true;  // shorter names are told by their hash
  std::uint64_t first, last;
  if (!read_word(memory, begin, first)) return false;
  if (!read_word(memory, begin + bytes - sizeof last, last)) return false;
  hash = mixed(mixed(hash, first), last);
  return true;
}

template <class Memory>
bool mix_text(Memory& memory, std::uint64_t address, std::uint64_t& hash) noexcept {
  char room[kTextHeaderBytes];
  const char* header = memory.view(address, kTextHeaderBytes, room);
  if (header == nullptr || word_at(header + kObjectType) != g_python.text_type) return false;
  hash = mixed(mixed(hash, address), word_at(header + kTextHash));
  const Characters found = characters_of(address, header);
  return mix_bytes(memory, found.begin, found.count * found.width, hash);
}

// The number of a code object: another one for whatever code comes to lie at its place later.
template <class Memory>
bool number_code(Memory& memory, std::uint64_t address, const char* code,
                 std::uint64_t& number) noexcept {
  const PythonLayout& layout = g_python.layout;
  if (word_at(code + kObjectType) != g_python.code_type) return false;
  std::uint32_t first_line, version = 0;
  std::memcpy(&first_line, code + layout.code_first_line, sizeof first_line);
  if (layout.code_version != 0) {
    std::memcpy(&version, code + layout.code_version, sizeof version);
  }
  number = mixed(address, first_line | std::uint64_t{version} << 32);
  if (version != 0 && g_trust.load(std::memory_order_relaxed) == Trust::kProven) return true;
  if (!mix_text(memory, word_at(code + layout.code_name), number)) return false;
  if (!mix_text(memory, word_at(code + layout.code_file), number)) return false;
  const std::uint64_t lines = word_at(code + layout.code_lines);
  std::uint64_t bytes;
  if (!read_word(memory, lines + kObjectSize, bytes)) return false;
  number = mixed(number, lines);
  return mix_bytes(memory, lines + kBytesStart, bytes, number);
}

// Calls take(i, code) for each frame of a stack, of whose code object `code` is null where it is not there.
template <class Memory, class Take>
void for_code(Memory& memory, const PythonStack& stack, const Take& take) noexcept {
  const std::size_t bytes = g_python.layout.code_bytes;
  constexpr std::size_t kGroup = CopiedMemory::kExpected;
  for (std::size_t i = 0; i < stack.count; ++i) {
    const std::uint64_t* address = stack.code_addresses + i;
    if (i % kGroup == 0) memory.expect(address, std::min(kGroup, stack.count - i), bytes);
    take(i, memory.view_expected(*address, i % kGroup, bytes));
  }
}

// What no two code objects that live at one place one after another have in common.
std::uint64_t identity_of(const char* code) noexcept {
  const PythonLayout& layout = g_python.layout;
  std::uint32_t first_line;
  std::memcpy(&first_line, code + layout.code_first_line, sizeof first_line);
  std::uint64_t identity = mixed(word_at(code + kObjectType), first_line);
  identity = mixed(identity, word_at(code + layout.code_name));
  identity = mixed(identity, word_at(code + layout.code_file));
  return mixed(identity, word_at(code + layout.code_lines));
}

// Numbers the code of a stack's frames. False if something is not as expected; the frames up to it then
// count.
template <class Memory>
bool number_frames(Memory& memory, PythonStack& stack) noexcept {
  const std::size_t bytes = g_python.layout.code_bytes;
  constexpr std::size_t kGroup = CopiedMemory::kExpected;
  for (std::size_t i = 0; i < stack.count; ++i) {
    const std::uint64_t* address = stack.code_addresses + i;
    if (i % kGroup == 0) memory.expect(address, std::min(kGroup, stack.count - i), bytes);
    const char* code = memory.view_expected(*address, i % kGroup, bytes);
    if (code == nullptr || !number_code(memory, *address, code, stack.frames[2 * i])) {
      stack.count = i;
      return false;
    }
  }
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
bool innermost_frame(Memory& memory, std::uint64_t state, std::uint64_t& frame) noexcept {
  const PythonLayout& layout = g_python.layout;
  if (!read_word(memory, state + layout.state_frame, frame)) return false;
  if (layout.link_frame == PythonLayout::kNoLink) return true;
  return frame != 0 && read_word(memory, frame + layout.link_frame, frame);
}

// The innermost entry of the interpreter that no frame was found for yet, in versions that list them.
template <class Memory>
class Entries {
 public:
  Entries(Memory& memory, std::uint64_t state) noexcept : memory_(memory) {
    const std::uint16_t offset = g_python.layout.state_entry;
    if (offset != 0 && !read_word(memory_, state + offset, next_)) next_ = 0;
  }
  std::uint64_t take() noexcept {
    const std::uint64_t entry = next_;
    const std::uint16_t offset = g_python.layout.entry_previous;
    if (entry != 0 && !read_word(memory_, entry + offset, next_)) next_ = 0;
    return entry;
  }

 private:
  Memory& memory_;
  std::uint64_t next_ = 0;
};

void add_frame(const char* frame, PythonStack& stack) noexcept {
  constexpr std::uint64_t kTags = 7;  // of references, from 3.14 on
  const std::uint64_t code = word_at(frame + g_python.layout.frame_code) & ~kTags;
  stack.code_addresses[stack.count] = code;
  stack.entries[stack.count] = 0;
  stack.frames[2 * stack.count + 1] = place_in(code, frame);
  ++stack.count;
}

// The last frame that was added is the first that this entry of the interpreter ran. The outermost shim of
// 3.15 is no entry.
void end_with_entry(std::uint64_t entry, PythonStack& stack) noexcept {
  if (stack.count == 0) return;
  std::uint64_t& place = stack.frames[2 * stack.count - 1];
  if ((place & raw::PythonFrame::kIsEntry) != 0) return;
  place |= raw::PythonFrame::kIsEntry;
  stack.entries[stack.count - 1] = entry;
}

// Fills the stack, but for the numbers of code. False if something is not as expected. Frames for which a
// chain has no room are followed only where that is asked for.
template <class Memory>
bool find_frames(Memory& memory, std::uint64_t state, bool goes_to_end, PythonStack& stack) noexcept {
  const std::size_t most_steps = goes_to_end ? 1'000'000 : 4 * kMaxPythonFrames;
  const PythonLayout& layout = g_python.layout;
  std::uint64_t at = 0;
  if (!innermost_frame(memory, state, at)) return false;
  Entries<Memory> entries(memory, state);
  for (std::size_t step = 0; at != 0; ++step) {
    if (step == most_steps || at % sizeof at != 0) return false;
    const char* frame = memory.view_frame(at, layout.frame_bytes);
    if (frame == nullptr) return false;
    if (is_shim(frame)) {
      end_with_entry(at, stack);
    } else if (stack.count != kMaxPythonFrames) {
      add_frame(frame, stack);
      if (is_entry(frame)) end_with_entry(entries.take(), stack);
    } else if (!goes_to_end) {
      return true;
    }
    at = word_at(frame + layout.frame_previous);
  }
  return true;
}

template <class Memory>
bool walk_frames(std::uint64_t state, PythonStack& stack) noexcept {
  Memory memory;
  const bool is_proven = g_trust.load(std::memory_order_relaxed) == Trust::kProven;
  const bool is_whole = find_frames(memory, state, !is_proven, stack);
  return number_frames(memory, stack) && is_whole;
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

std::size_t read_text(CopiedMemory& memory, std::uint64_t address, char* room, std::size_t most) noexcept {
  char room_of_header[kTextHeaderBytes];
  const char* header = memory.view(address, sizeof room_of_header, room_of_header);
  if (header == nullptr || word_at(header + kObjectType) != g_python.text_type) return kUnreadable;
  const Characters found = characters_of(address, header);
  if (found.width != 1 && found.width != 2 && found.width != 4) return kUnreadable;
  const bool is_ascii = found.begin == address + g_python.layout.text_of_ascii;
  std::size_t bytes = 0;
  char piece[256];
  for (std::uint64_t done = 0; done < found.count;) {
    const std::uint64_t some = std::min<std::uint64_t>(found.count - done, sizeof piece / found.width);
    const std::uint64_t from = found.begin + done * found.width;
    const char* text = memory.view(from, some * found.width, piece);
    if (text == nullptr) return kUnreadable;
    for (std::uint64_t i = 0; i < some; ++i) {
      if (most - bytes < 4) return bytes;
      std::uint32_t character = 0;
      std::memcpy(&character, text + i * found.width, found.width);
      bytes += is_ascii ? (room[bytes] = static_cast<char>(character), std::size_t{1})
                        : put_utf8(character, room + bytes);
    }
    done += some;
  }
  return bytes;
}

std::size_t read_lines(CopiedMemory& memory, std::uint64_t address, char* room, std::size_t most) noexcept {
  char room_of_header[kBytesStart];
  const char* header = memory.view(address, sizeof room_of_header, room_of_header);
  if (header == nullptr || word_at(header + kObjectType) != g_python.bytes_type) return kUnreadable;
  const std::size_t bytes = std::min<std::size_t>(word_at(header + kObjectSize), most);
  if (bytes == 0) return 0;
  const char* table = memory.view(address + kBytesStart, bytes, room);
  if (table == nullptr) return kUnreadable;
  if (table != room) std::memcpy(room, table, bytes);
  return bytes;
}

}  // namespace

void walk_python(PythonStack& stack) noexcept {
  const int error = errno;  // the program's
  stack.count = 0;
  walk(stack);
  errno = error;
}

void walk_python_in_handler(PythonStack& stack, CopiedMemory& memory, bool is_main_thread) noexcept {
  stack.count = 0;
  const Trust trust = g_trust.load(std::memory_order_acquire);
  if (trust == Trust::kNone || trust == Trust::kRefused) return;
  const auto state = reinterpret_cast<std::uint64_t>(g_python.state_of_thread());
  if (state == 0 || (!is_main_thread && g_python.is_finalizing() != 0)) return;
  // The innermost frame may be half made: frames count up to where they are not as expected.
  find_frames(memory, state, false, stack);
  for_code(memory, stack, [&](std::size_t i, const char* code) {
    stack.frames[2 * i] = code == nullptr ? 0 : identity_of(code);
  });
}

void number_python(PythonStack& stack) noexcept {
  if (stack.count == 0) return;
  const int error = errno;
  CopiedMemory memory(false);
  CopiedMemory texts(false);
  bool is_sound = true;
  for_code(memory, stack, [&](std::size_t i, const char* code) {
    std::uint64_t& number = stack.frames[2 * i];
    const std::uint64_t address = stack.code_addresses[i];
    if (code != nullptr && number == identity_of(code) && number_code(texts, address, code, number)) return;
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
  constexpr std::size_t kMostFile = 4096, kMostName = 4096;
  const PythonLayout& layout = g_python.layout;
  const int error = errno;
  CopiedMemory memory;
  memory.expect(&address, 1, layout.code_bytes);
  const char* object = memory.view_expected(address, 0, layout.code_bytes);
  std::size_t file = kUnreadable, name = kUnreadable, lines = kUnreadable;
  if (object != nullptr) {
    file = read_text(memory, word_at(object + layout.code_file), room, kMostFile);
  }
  if (file != kUnreadable) {
    name = read_text(memory, word_at(object + layout.code_name), room + file, kMostName);
  }
  if (name != kUnreadable) {
    lines = read_lines(memory, word_at(object + layout.code_lines), room + file + name,
                       PythonCode::kMostBytes - file - name);
  }
  errno = error;
  if (lines == kUnreadable) return false;
  std::memcpy(&code.text.first_line, object + layout.code_first_line, sizeof code.text.first_line);
  code.text.format = layout.lines;
  code.text.file_bytes = static_cast<std::uint32_t>(file);
  code.text.name_bytes = static_cast<std::uint32_t>(name);
  code.bytes = file + name + lines;
  return true;
}

}  // namespace warpline::agent
