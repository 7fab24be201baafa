#include "stack/python_layout.h"

#include <cstring>
#include <iterator>

namespace warpline::stack {
namespace {

constexpr unsigned kOldest = 9;  // of 3.x
constexpr std::uint16_t kNoLink = PythonLayout::kNoLink;

// Made of CPython's own headers; tests/agent_cuda/test_python_layouts.py compares them.
constexpr PythonLayout kLayouts[] = {
    // 3.9
    {.state_frame = 24, .link_frame = kNoLink, .state_entry = 0, .entry_previous = 0,
     .frame_previous = 24, .frame_code = 32, .frame_instruction = 104, .frame_owner = 0,
     .frame_is_entry = 0, .frame_bytes = 112, .code_first_line = 40, .code_file = 104,
     .code_name = 112, .code_lines = 120, .code_start = 0, .code_version = 0, .code_bytes = 128,
     .text_of_ascii = 48, .text_of_others = 72, .instruction = PythonInstruction::kByte,
     .lines = raw::PythonLines::kDeltas},
    // 3.10
    {.state_frame = 24, .link_frame = kNoLink, .state_entry = 48, .entry_previous = 8,
     .frame_previous = 24, .frame_code = 32, .frame_instruction = 96, .frame_owner = 0,
     .frame_is_entry = 0, .frame_bytes = 104, .code_first_line = 40, .code_file = 104,
     .code_name = 112, .code_lines = 120, .code_start = 0, .code_version = 0, .code_bytes = 128,
     .text_of_ascii = 48, .text_of_others = 72, .instruction = PythonInstruction::kUnit,
     .lines = raw::PythonLines::kRanges},
    // 3.11
    {.state_frame = 56, .link_frame = 8, .state_entry = 56, .entry_previous = 16,
     .frame_previous = 48, .frame_code = 32, .frame_instruction = 56, .frame_owner = 69,
     .frame_is_entry = 68, .frame_bytes = 72, .code_first_line = 72, .code_file = 112,
     .code_name = 128, .code_lines = 136, .code_start = 184, .code_version = 0,
     .code_bytes = 144, .text_of_ascii = 48, .text_of_others = 72,
     .instruction = PythonInstruction::kPointer, .lines = raw::PythonLines::kLocations},
    // 3.12
    {.state_frame = 56, .link_frame = 0, .state_entry = 0, .entry_previous = 0,
     .frame_previous = 8, .frame_code = 0, .frame_instruction = 56, .frame_owner = 70,
     .frame_is_entry = 0, .frame_bytes = 72, .code_first_line = 68, .code_file = 112,
     .code_name = 128, .code_lines = 136, .code_start = 192, .code_version = 92,
     .code_bytes = 144, .text_of_ascii = 40, .text_of_others = 56,
     .instruction = PythonInstruction::kPointer, .lines = raw::PythonLines::kLocations},
    // 3.13
    {.state_frame = 72, .link_frame = kNoLink, .state_entry = 0, .entry_previous = 0,
     .frame_previous = 8, .frame_code = 0, .frame_instruction = 56, .frame_owner = 70,
     .frame_is_entry = 0, .frame_bytes = 72, .code_first_line = 68, .code_file = 112,
     .code_name = 128, .code_lines = 136, .code_start = 200, .code_version = 92,
     .code_bytes = 144, .text_of_ascii = 40, .text_of_others = 56,
     .instruction = PythonInstruction::kPointer, .lines = raw::PythonLines::kLocations},
    // 3.14
    {.state_frame = 72, .link_frame = kNoLink, .state_entry = 0, .entry_previous = 0,
     .frame_previous = 8, .frame_code = 0, .frame_instruction = 56, .frame_owner = 74,
     .frame_is_entry = 0, .frame_bytes = 80, .code_first_line = 68, .code_file = 112,
     .code_name = 128, .code_lines = 136, .code_start = 208, .code_version = 92,
     .code_bytes = 144, .text_of_ascii = 40, .text_of_others = 56,
     .instruction = PythonInstruction::kPointer, .lines = raw::PythonLines::kLocations},
    // 3.15
    {.state_frame = 72, .link_frame = kNoLink, .state_entry = 0, .entry_previous = 0,
     .frame_previous = 8, .frame_code = 0, .frame_instruction = 56, .frame_owner = 74,
     .frame_is_entry = 0, .frame_bytes = 80, .code_first_line = 68, .code_file = 112,
     .code_name = 128, .code_lines = 136, .code_start = 208, .code_version = 92,
     .code_bytes = 144, .text_of_ascii = 40, .text_of_others = 56,
     .instruction = PythonInstruction::kPointer, .lines = raw::PythonLines::kLocations},
};

constexpr DebugGroups kDebugGroups[] = {{16, 25, 31}, {19, 28, 36}, {19, 36, 44}};

bool agree(const std::uint64_t* words, DebugGroups groups, const PythonLayout& layout) noexcept {
  const std::uint64_t* frame = words + groups.frame;
  const std::uint64_t* code = words + groups.code;
  return words[groups.state + 4] == layout.state_frame && frame[1] == layout.frame_previous &&
         frame[2] == layout.frame_code && frame[3] == layout.frame_instruction &&
         frame[5] == layout.frame_owner && code[1] == layout.code_file &&
         code[3] == layout.code_name && code[4] == layout.code_lines &&
         code[5] == layout.code_first_line && code[9] == layout.code_start;
}

}  // namespace

const PythonLayout* python_layout(unsigned minor) noexcept {
  return minor < kOldest || minor - kOldest >= std::size(kLayouts) ? nullptr
                                                                  : kLayouts + (minor - kOldest);
}

DebugGroups debug_groups(unsigned minor) noexcept { return kDebugGroups[minor - kFirstWithOffsets]; }

const char* check_debug_offsets(const DebugOffsets& offsets, unsigned minor,
                                const PythonLayout& layout) noexcept {
  const bool is_there = std::memcmp(offsets.cookie, "xdebugpy", sizeof offsets.cookie) == 0 &&
                        offsets.version >> 16 == (3u << 8 | minor);
  if (!is_there) return kUnknownPython;
  if (offsets.is_free_threaded != 0) return "this build of Python is free-threaded";
  return agree(offsets.words, debug_groups(minor), layout) ? nullptr : kUnknownPython;
}

}  // namespace warpline::stack
