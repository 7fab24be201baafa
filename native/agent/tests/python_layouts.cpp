// Prints the layouts of Python that the agent knows: a line of JSON for each version.
#include <cstdio>

#include "stack/python_layout.h"

using warpline::stack::PythonLayout;

int main() {
  for (unsigned minor = 0; minor < 100; ++minor) {
    const PythonLayout* layout = warpline::stack::python_layout(minor);
    if (layout == nullptr) continue;
    auto print = [first = true](const char* name, unsigned value) mutable {
      std::printf("%s\"%s\": %u", first ? "{" : ", ", name, value);
      first = false;
    };
    print("minor", minor);
    print("state_frame", layout->state_frame);
    if (layout->link_frame != PythonLayout::kNoLink) print("link_frame", layout->link_frame);
    if (layout->state_entry != 0) {
      print("state_entry", layout->state_entry);
      print("entry_previous", layout->entry_previous);
    }
    print("frame_previous", layout->frame_previous);
    print("frame_code", layout->frame_code);
    print("frame_instruction", layout->frame_instruction);
    if (layout->frame_owner != 0) print("frame_owner", layout->frame_owner);
    if (layout->frame_is_entry != 0) print("frame_is_entry", layout->frame_is_entry);
    print("code_first_line", layout->code_first_line);
    print("code_file", layout->code_file);
    print("code_name", layout->code_name);
    print("code_lines", layout->code_lines);
    if (layout->code_start != 0) print("code_start", layout->code_start);
    if (layout->code_version != 0) print("code_version", layout->code_version);
    print("text_of_ascii", layout->text_of_ascii);
    print("text_of_others", layout->text_of_others);
    print("object_type", warpline::stack::kObjectType);
    print("object_size", warpline::stack::kObjectSize);
    print("bytes_start", warpline::stack::kBytesStart);
    print("text_length", warpline::stack::kTextLength);
    print("text_hash", warpline::stack::kTextHash);
    print("text_state", warpline::stack::kTextState);
    std::puts("}");
    // What is read of a frame and of a code object has all of it.
    const bool is_whole = layout->frame_bytes >= layout->frame_instruction + 8 &&
                          layout->frame_bytes >= layout->frame_previous + 8 &&
                          layout->frame_bytes > layout->frame_owner &&
                          layout->code_bytes >= layout->code_lines + 8 &&
                          layout->code_bytes >= layout->code_name + 8;
    if (!is_whole) return 1;
  }
  return 0;
}
