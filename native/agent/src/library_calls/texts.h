// Texts of library calls: names and arguments, each with a number in the logs of the process.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace warpline::agent {

class ThreadLog;

struct LibraryText {
  std::uint32_t number;
  std::uint64_t key;
  std::string text;
};

// Returns the text with a key, made by `make()` at its first use; null: there are too many, or no memory.
// No lock. Texts live as long as the process.
const LibraryText* library_text(std::uint64_t key, std::string (*make)(const void*),
                                const void* made_of) noexcept;

// Returns a text that has itself as the key.
const LibraryText* text_of(std::string_view text) noexcept;

// Writes a text unless this thread's log has it. With a lease of that log held. False: no space.
bool define_text(ThreadLog& log, const LibraryText& text) noexcept;

// Mixes a word into a key.
constexpr std::uint64_t mixed(std::uint64_t key, std::uint64_t word) noexcept {
  key = (key ^ word) * 0x9e3779b97f4a7c15;
  return key ^ key >> 29;
}

}  // namespace warpline::agent
