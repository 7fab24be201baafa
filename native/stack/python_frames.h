// How CPython's frames and code objects are read, whatever memory they are read from.
//
// A Memory has
//   view(address, bytes, room)          what lies there: its own place, or a copy, in `room` if need be;
//   view_frame(address, bytes)          the same for a frame, valid until the next one;
//   expect(addresses, count, bytes)     looks at several places at once, at most kMostExpected of them;
//   view_expected(address, i, bytes)    what lies at the i-th of these.
// Each returns null for what cannot be read.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "stack/python_layout.h"

namespace warpline::stack {

inline constexpr std::size_t kMaxPythonFrames = 128;
inline constexpr std::size_t kMostExpected = 32;
inline constexpr std::size_t kMostObjectBytes = 160;  // of a frame, of a code object

struct PythonStack {
  std::size_t count = 0;
  std::uint64_t frames[2 * kMaxPythonFrames];  // innermost first: two words each, as a kPythonChain
  std::uint64_t code_addresses[kMaxPythonFrames];
  std::uint64_t entries[kMaxPythonFrames];  // where on the C stack the interpreter was entered, or 0
};

inline std::uint64_t word_at(const char* bytes) noexcept {
  std::uint64_t word;
  std::memcpy(&word, bytes, sizeof word);
  return word;
}

template <class Memory>
bool read_word(Memory& memory, std::uint64_t address, std::uint64_t& word) noexcept {
  char room[sizeof word];
  const char* bytes = memory.view(address, sizeof word, room);
  if (bytes != nullptr) word = word_at(bytes);
  return bytes != nullptr;
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

inline Characters characters_of(const PythonLayout& layout, std::uint64_t address,
                                const char* header) noexcept {
  constexpr std::uint32_t kCompact = 1u << 5, kAscii = 1u << 6;
  std::uint32_t state;
  std::memcpy(&state, header + kTextState, sizeof state);
  if ((state & kCompact) == 0) return {};
  const bool is_ascii = (state & kAscii) != 0;
  return {word_at(header + kTextLength), state >> 2 & 7,
          address + (is_ascii ? layout.text_of_ascii : layout.text_of_others)};
}

inline constexpr std::uint64_t kMostItems = std::uint64_t{1} << 24;

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
bool mix_text(const PythonBuild& python, Memory& memory, std::uint64_t address,
              std::uint64_t& hash) noexcept {
  char room[kTextHeaderBytes];
  const char* header = memory.view(address, kTextHeaderBytes, room);
  if (header == nullptr || word_at(header + kObjectType) != python.text_type) return false;
  hash = mixed(mixed(hash, address), word_at(header + kTextHash));
  const Characters found = characters_of(python.layout, address, header);
  return mix_bytes(memory, found.begin, found.count * found.width, hash);
}

// The number of a code object: another one for whatever code comes to lie at its place later. Once a
// build of Python is proven to be laid out as expected, its own number of the code is enough.
template <class Memory>
bool number_code(const PythonBuild& python, Memory& memory, std::uint64_t address, const char* code,
                 bool is_proven, std::uint64_t& number) noexcept {
  const PythonLayout& layout = python.layout;
  if (word_at(code + kObjectType) != python.code_type) return false;
  std::uint32_t first_line, version = 0;
  std::memcpy(&first_line, code + layout.code_first_line, sizeof first_line);
  if (layout.code_version != 0) {
    std::memcpy(&version, code + layout.code_version, sizeof version);
  }
  number = mixed(address, first_line | std::uint64_t{version} << 32);
  if (version != 0 && is_proven) return true;
  if (!mix_text(python, memory, word_at(code + layout.code_name), number)) return false;
  if (!mix_text(python, memory, word_at(code + layout.code_file), number)) return false;
  const std::uint64_t lines = word_at(code + layout.code_lines);
  std::uint64_t bytes;
  if (!read_word(memory, lines + kObjectSize, bytes)) return false;
  number = mixed(number, lines);
  return mix_bytes(memory, lines + kBytesStart, bytes, number);
}

// Calls take(i, code) for each frame of a stack, of whose code object `code` is null where it is not there.
template <class Memory, class Take>
void for_code(const PythonLayout& layout, Memory& memory, const PythonStack& stack,
              const Take& take) noexcept {
  const std::size_t bytes = layout.code_bytes;
  for (std::size_t i = 0; i < stack.count; ++i) {
    const std::uint64_t* address = stack.code_addresses + i;
    if (i % kMostExpected == 0) memory.expect(address, std::min(kMostExpected, stack.count - i), bytes);
    take(i, memory.view_expected(*address, i % kMostExpected, bytes));
  }
}

// What no two code objects that live at one place one after another have in common.
inline std::uint64_t identity_of(const PythonLayout& layout, const char* code) noexcept {
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
bool number_frames(const PythonBuild& python, Memory& memory, bool is_proven,
                   PythonStack& stack) noexcept {
  const std::size_t bytes = python.layout.code_bytes;
  constexpr std::size_t kGroup = kMostExpected;
  for (std::size_t i = 0; i < stack.count; ++i) {
    const std::uint64_t* address = stack.code_addresses + i;
    if (i % kGroup == 0) memory.expect(address, std::min(kGroup, stack.count - i), bytes);
    const char* code = memory.view_expected(*address, i % kGroup, bytes);
    if (code == nullptr ||
        !number_code(python, memory, *address, code, is_proven, stack.frames[2 * i])) {
      stack.count = i;
      return false;
    }
  }
  return true;
}

// ---- frames

inline std::uint64_t place_in(const PythonLayout& layout, std::uint64_t code,
                              const char* frame) noexcept {
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

inline bool is_shim(const PythonLayout& layout, const char* frame) noexcept {
  return layout.frame_owner != 0 && layout.frame_is_entry == 0 &&
         static_cast<std::uint8_t>(frame[layout.frame_owner]) >= PythonLayout::kFirstShim;
}

inline bool is_entry(const PythonLayout& layout, const char* frame) noexcept {
  return layout.frame_owner == 0 || (layout.frame_is_entry != 0 && frame[layout.frame_is_entry] != 0);
}

template <class Memory>
bool innermost_frame(const PythonLayout& layout, Memory& memory, std::uint64_t state,
                     std::uint64_t& frame) noexcept {
  if (!read_word(memory, state + layout.state_frame, frame)) return false;
  if (layout.link_frame == PythonLayout::kNoLink) return true;
  return frame != 0 && read_word(memory, frame + layout.link_frame, frame);
}

// The innermost entry of the interpreter that no frame was found for yet, in versions that list them.
template <class Memory>
class Entries {
 public:
  Entries(const PythonLayout& layout, Memory& memory, std::uint64_t state) noexcept
      : layout_(layout), memory_(memory) {
    const std::uint16_t offset = layout.state_entry;
    if (offset != 0 && !read_word(memory_, state + offset, next_)) next_ = 0;
  }
  std::uint64_t take() noexcept {
    const std::uint64_t entry = next_;
    const std::uint16_t offset = layout_.entry_previous;
    if (entry != 0 && !read_word(memory_, entry + offset, next_)) next_ = 0;
    return entry;
  }

 private:
  const PythonLayout& layout_;
  Memory& memory_;
  std::uint64_t next_ = 0;
};

inline std::uint64_t code_of(const PythonLayout& layout, const char* frame) noexcept {
  constexpr std::uint64_t kTags = 7;  // of references, from 3.14 on
  return word_at(frame + layout.frame_code) & ~kTags;
}

inline void add_frame(const PythonLayout& layout, const char* frame, PythonStack& stack) noexcept {
  const std::uint64_t code = code_of(layout, frame);
  stack.code_addresses[stack.count] = code;
  stack.entries[stack.count] = 0;
  stack.frames[2 * stack.count + 1] = place_in(layout, code, frame);
  ++stack.count;
}

// The last frame that was added is the first that this entry of the interpreter ran. The outermost shim of
// 3.15 is no entry.
inline void end_with_entry(std::uint64_t entry, PythonStack& stack) noexcept {
  if (stack.count == 0) return;
  std::uint64_t& place = stack.frames[2 * stack.count - 1];
  if ((place & raw::PythonFrame::kIsEntry) != 0) return;
  place |= raw::PythonFrame::kIsEntry;
  stack.entries[stack.count - 1] = entry;
}

// Fills the stack, but for the numbers of code. False if something is not as expected. Frames for which a
// chain has no room are followed only where that is asked for.
template <class Memory>
bool find_frames(const PythonLayout& layout, Memory& memory, std::uint64_t state, bool goes_to_end,
                 PythonStack& stack) noexcept {
  const std::size_t most_steps = goes_to_end ? 1'000'000 : 4 * kMaxPythonFrames;
  std::uint64_t at = 0;
  if (!innermost_frame(layout, memory, state, at)) return false;
  Entries<Memory> entries(layout, memory, state);
  for (std::size_t step = 0; at != 0; ++step) {
    if (step == most_steps || at % sizeof at != 0) return false;
    const char* frame = memory.view_frame(at, layout.frame_bytes);
    if (frame == nullptr) return false;
    if (is_shim(layout, frame)) {
      end_with_entry(at, stack);
    } else if (stack.count != kMaxPythonFrames) {
      add_frame(layout, frame, stack);
      if (is_entry(layout, frame)) end_with_entry(entries.take(), stack);
    } else if (!goes_to_end) {
      return true;
    }
    at = word_at(frame + layout.frame_previous);
  }
  return true;
}

// ---- what is told of code

// What is told of a code object.
struct PythonCode {
  static constexpr std::size_t kMostBytes = 65000;

  raw::PythonCodeText text;
  std::size_t bytes;  // of what follows it: file, name, lines
};

inline std::size_t put_utf8(std::uint32_t character, char* room) noexcept {
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
inline constexpr std::size_t kUnreadable = ~std::size_t{0};

template <class Memory>
std::size_t read_text(const PythonBuild& python, Memory& memory, std::uint64_t address, char* room,
                      std::size_t most) noexcept {
  char room_of_header[kTextHeaderBytes];
  const char* header = memory.view(address, sizeof room_of_header, room_of_header);
  if (header == nullptr || word_at(header + kObjectType) != python.text_type) return kUnreadable;
  const Characters found = characters_of(python.layout, address, header);
  if (found.width != 1 && found.width != 2 && found.width != 4) return kUnreadable;
  const bool is_ascii = found.begin == address + python.layout.text_of_ascii;
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

template <class Memory>
std::size_t read_lines(const PythonBuild& python, Memory& memory, std::uint64_t address, char* room,
                       std::size_t most) noexcept {
  char room_of_header[kBytesStart];
  const char* header = memory.view(address, sizeof room_of_header, room_of_header);
  if (header == nullptr || word_at(header + kObjectType) != python.bytes_type) return kUnreadable;
  const std::size_t bytes = std::min<std::size_t>(word_at(header + kObjectSize), most);
  if (bytes == 0) return 0;
  const char* table = memory.view(address + kBytesStart, bytes, room);
  if (table == nullptr) return kUnreadable;
  if (table != room) std::memcpy(room, table, bytes);
  return bytes;
}

// Reads the code at an address into `room`, which has space for kMostBytes. False where it cannot be read.
template <class Memory>
bool read_code(const PythonBuild& python, Memory& memory, std::uint64_t address, PythonCode& code,
               char* room) noexcept {
  constexpr std::size_t kMostFile = 4096, kMostName = 4096;
  const PythonLayout& layout = python.layout;
  memory.expect(&address, 1, layout.code_bytes);
  const char* object = memory.view_expected(address, 0, layout.code_bytes);
  if (object == nullptr) return false;
  const std::size_t file = read_text(python, memory, word_at(object + layout.code_file), room, kMostFile);
  if (file == kUnreadable) return false;
  const std::size_t name =
      read_text(python, memory, word_at(object + layout.code_name), room + file, kMostName);
  if (name == kUnreadable) return false;
  const std::size_t lines = read_lines(python, memory, word_at(object + layout.code_lines),
                                       room + file + name, PythonCode::kMostBytes - file - name);
  if (lines == kUnreadable) return false;
  std::memcpy(&code.text.first_line, object + layout.code_first_line, sizeof code.text.first_line);
  code.text.format = layout.lines;
  code.text.file_bytes = static_cast<std::uint32_t>(file);
  code.text.name_bytes = static_cast<std::uint32_t>(name);
  code.bytes = file + name + lines;
  return true;
}

}  // namespace warpline::stack
