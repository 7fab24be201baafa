// Decodes JSON strings: escapes replaced, made valid UTF-8.
#pragma once

#include <string>
#include <string_view>

namespace warpline {

// Appends the text that stands between two quotes. An escape that does not exist stays as it is
// written; half a surrogate pair becomes U+FFFD.
void unescape_json(std::string_view written, std::string &text);

// Returns the text, with U+FFFD for each longest part that begins like a character and is none:
// as Python's decode(errors="replace"). `room` holds it if it had to be changed.
std::string_view repaired_utf8(std::string_view text, std::string &room);

// Returns the text, cut to `most` bytes or a few less, so that no character is split.
std::string_view cut_utf8(std::string_view text, std::size_t most);

}  // namespace warpline
