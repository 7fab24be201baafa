// Where CPython's structures have what a stack is read from.
//
// Shared by the agent, which reads its own process, and the sampler, which reads others.
#pragma once

#include <cstdint>

#include "warpline_cuda.h"

namespace warpline::stack {

// How a frame says which instruction it is at.
enum class PythonInstruction : std::uint8_t { kByte, kUnit, kPointer };

// Offsets in bytes. Every version has its own; within a version they never change.
struct PythonLayout {
  std::uint16_t state_frame;    // of a thread's state: its innermost frame,
  std::uint16_t link_frame;     // or, unless it is kNoLink, what has it there
  std::uint16_t state_entry;    // the innermost entry of the interpreter; 0: frames have them, or nothing
  std::uint16_t entry_previous;
  std::uint16_t frame_previous;
  std::uint16_t frame_code;
  std::uint16_t frame_instruction;
  std::uint16_t frame_owner;    // 0: every frame is an entry of the interpreter
  std::uint16_t frame_is_entry; // 0: frames with owner kFirstShim or above stand for entries
  std::uint16_t frame_bytes;    // all of the above are within
  std::uint16_t code_first_line;
  std::uint16_t code_file;
  std::uint16_t code_name;      // the qualified one from 3.11 on
  std::uint16_t code_lines;
  std::uint16_t code_start;     // of its instructions
  std::uint16_t code_version;   // a number that no other code of the interpreter has; 0: there is none
  std::uint16_t code_bytes;
  std::uint16_t text_of_ascii;  // of a string: its characters, if they are ASCII, or
  std::uint16_t text_of_others;
  PythonInstruction instruction;
  raw::PythonLines lines;

  static constexpr std::uint16_t kNoLink = 0xffff;
  static constexpr std::uint8_t kFirstShim = 3;
};

// What all versions have in common.
inline constexpr std::uint16_t kObjectType = 8;
inline constexpr std::uint16_t kObjectSize = 16;   // of those with items: bytes
inline constexpr std::uint16_t kBytesStart = 32;
inline constexpr std::uint16_t kCodeBytes = 48;    // of code up to 3.10: its instructions, as bytes
inline constexpr std::uint16_t kTextLength = 16;   // in characters
inline constexpr std::uint16_t kTextHash = 24;
inline constexpr std::uint16_t kTextState = 32;
inline constexpr std::uint16_t kTextHeaderBytes = 40;

// An interpreter: what its objects are of, and how they are laid out.
struct PythonBuild {
  std::uint64_t code_type = 0;
  std::uint64_t text_type = 0;
  std::uint64_t bytes_type = 0;
  PythonLayout layout{};

  bool has_types() const noexcept { return code_type != 0 && text_type != 0 && bytes_type != 0; }
};

// The layout of Python 3.MINOR, null if it is not known.
const PythonLayout* python_layout(unsigned minor) noexcept;

// What Python says of itself at the start of _PyRuntime from 3.13 on, for debuggers.
struct DebugOffsets {
  char cookie[8];
  std::uint64_t version;  // PY_VERSION_HEX
  std::uint64_t is_free_threaded;
  std::uint64_t words[61];
};
inline constexpr unsigned kFirstWithOffsets = 13;

// Where groups of its words begin; the first word of each is a size.
struct DebugGroups {
  std::uint8_t state;  // of a thread
  std::uint8_t frame;
  std::uint8_t code;
};
DebugGroups debug_groups(unsigned minor) noexcept;

// What is wrong with the layout of Python 3.MINOR, by what this Python says of itself; null: nothing.
const char* check_debug_offsets(const DebugOffsets& offsets, unsigned minor,
                                const PythonLayout& layout) noexcept;

inline constexpr const char* kUnknownPython = "this build of Python is not known";
inline constexpr const char* kOtherPython = "only Python 3.9 to 3.15 are supported";

}  // namespace warpline::stack
