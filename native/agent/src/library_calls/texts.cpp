#include "library_calls/texts.h"

#include <atomic>
#include <cstddef>
#include <new>

#include "session/process.h"
#include "session/thread_log.h"
#include "warpline_cuda.h"

namespace warpline::agent {
namespace {

constexpr std::size_t kMostTexts = 1u << 16;
constexpr std::size_t kMostSteps = 64;  // from the place that a key would have
std::atomic<const LibraryText*> g_texts[kMostTexts];

// Which texts this thread has written last, and in the logs of which generation.
struct Written {
  static constexpr std::size_t kPlaces = 256;

  std::uint64_t generation;
  std::uint32_t numbers[kPlaces];
};
thread_local constinit Written t_written{};

std::string as_text(const void* text) { return std::string(*static_cast<const std::string_view*>(text)); }

}  // namespace

const LibraryText* library_text(std::uint64_t key, std::string (*make)(const void*),
                                const void* made_of) noexcept {
  for (std::size_t step = 0; step < kMostSteps; ++step) {
    const std::size_t place = (key + step) % kMostTexts;
    const LibraryText* found = g_texts[place].load(std::memory_order_acquire);
    if (found == nullptr) {
      try {
        const auto number = static_cast<std::uint32_t>(raw::kFirstLibraryText + place);
        const auto* text = new LibraryText{number, key, make(made_of)};
        if (g_texts[place].compare_exchange_strong(found, text, std::memory_order_acq_rel)) {
          return text;
        }
        delete text;  // another thread was first
      } catch (...) {
        return nullptr;
      }
    }
    if (found->key == key) return found;
  }
  return nullptr;
}

const LibraryText* text_of(std::string_view text) noexcept {
  std::uint64_t key = text.size();
  for (const char symbol : text) key = mixed(key, static_cast<unsigned char>(symbol));
  return library_text(key, as_text, &text);
}

bool define_text(ThreadLog& log, const LibraryText& text) noexcept {
  const std::uint64_t generation = g_process->generation.load(std::memory_order_relaxed);
  if (t_written.generation != generation) {
    t_written = {};
    t_written.generation = generation;
  }
  std::uint32_t& written = t_written.numbers[text.number % Written::kPlaces];
  if (written == text.number) [[likely]] return true;
  if (!log.define(raw::Kind::kCudaName, text.number, 0, text.text)) return false;
  written = text.number;
  return true;
}

}  // namespace warpline::agent
