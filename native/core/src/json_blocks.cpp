#include "json_blocks.h"

#if defined(__GLIBC__)
#include <malloc.h>
#endif

#include <algorithm>
#include <cstring>
#include <string_view>
#include <system_error>
#include <utility>

#include "json_bytes.h"
#include "parallel.h"

namespace warpline {
namespace {

constexpr std::size_t kBlockBytes = std::size_t{1} << 21;
// The most that is fed at once: a scan looks at its memory after each piece.
constexpr std::size_t kPieceBytes = std::size_t{1} << 20;
// After so many, the text is nothing that can be scanned in blocks.
constexpr std::size_t kMostWrongGuesses = 8;

// Returns where the last event seems to begin that a comma precedes, 0 if none does.
std::size_t last_event(const char *text, std::size_t bytes) {
  for (std::size_t at = bytes; at-- > 1;) {
    if (text[at] != '{' || first_event_key(text + at + 1) == nullptr) continue;
    std::size_t before = at - 1;
    while (before > 0 && is_json_space(text[before])) --before;
    if (text[before] == ',') return at;
  }
  return 0;
}

}  // namespace

JsonBlocks::JsonBlocks(const std::vector<std::string> &wanted, bool all, std::size_t memory_bytes,
                       std::size_t block_bytes)
    : scan_(wanted, all, memory_bytes),
      wanted_(wanted),
      memory_bytes_(memory_bytes),
      block_bytes_(block_bytes == 0 ? kBlockBytes : block_bytes),
      // If all arguments are kept, their number is limited, which only one scan can count.
      threads_(all ? 1 : slice_count(kDefaultThreads, 1, 0)) {}

JsonBlocks::~JsonBlocks() {
  for (const auto &block : ahead_) {
    if (block->thread.joinable()) block->thread.join();
  }
}

bool JsonBlocks::feed(const char *bytes, std::size_t count) {
  if (threads_ == 1) return scan_.feed(bytes, count);
  while (count > 0) {
    if (!room_) room_.reset(new char[block_bytes_ + kJsonPadBytes]);
    const std::size_t taken = std::min(count, block_bytes_ - held_bytes_);
    std::memcpy(&room_[held_bytes_], bytes, taken);
    held_bytes_ += taken;
    bytes += taken;
    count -= taken;
    if (held_bytes_ == block_bytes_) end_block();
  }
  return wants_more_;
}

void JsonBlocks::finish() {
  merge_all();
  scan_in_turn(room_.get(), held_bytes_);
  room_.reset();
  held_bytes_ = 0;
  scan_.finish();
#if defined(__GLIBC__)
  malloc_trim(0);  // what the threads have freed
#endif
}

// Scans what is held, except for the beginning of the last event.
void JsonBlocks::end_block() {
  std::memset(&room_[held_bytes_], 0, kJsonPadBytes);
  std::size_t bytes = last_event(room_.get(), held_bytes_);
  if (bytes == 0) bytes = held_bytes_;
  Text rest(new char[block_bytes_ + kJsonPadBytes]);
  const std::size_t rest_bytes = held_bytes_ - bytes;
  std::memcpy(rest.get(), &room_[bytes], rest_bytes);
  Text text = std::exchange(room_, std::move(rest));
  held_bytes_ = rest_bytes;
  const bool is_inside = !ahead_.empty() || scan_.is_between_events();
  if (is_inside && wrong_guesses_ < kMostWrongGuesses) {
    scan_ahead(std::move(text), bytes);
    if (ahead_.size() > threads_) merge_oldest();
  } else {
    merge_all();
    scan_in_turn(text.get(), bytes);
  }
}

void JsonBlocks::scan_ahead(Text text, std::size_t bytes) {
  std::memset(&text[bytes], 0, kJsonPadBytes);
  ahead_.push_back(std::make_unique<Ahead>(wanted_, memory_bytes_));
  Ahead &block = *ahead_.back();
  block.scan.begin_inside(std::move(text), bytes);
  const auto work = [&block]() noexcept {
    try {
      block.scan.run_inside();
    } catch (...) {
      block.failure = std::current_exception();
    }
  };
  try {
    block.thread = std::thread(work);
  } catch (const std::system_error &) {
    work();  // no more threads to be had
  }
}

void JsonBlocks::merge_oldest() {
  const std::unique_ptr<Ahead> block = std::move(ahead_.front());
  ahead_.pop_front();
  if (block->thread.joinable()) block->thread.join();
  if (block->failure) std::rethrow_exception(block->failure);
  if (scan_.is_between_events() && block->scan.is_whole_inside()) {
    wants_more_ = scan_.take(block->scan);
    return;
  }
  ++wrong_guesses_;
  const std::string_view text = block->scan.text_inside();
  scan_in_turn(text.data(), text.size());
}

void JsonBlocks::merge_all() {
  while (!ahead_.empty()) merge_oldest();
}

void JsonBlocks::scan_in_turn(const char *bytes, std::size_t count) {
  for (std::size_t at = 0; at < count; at += kPieceBytes) {
    wants_more_ = scan_.feed(bytes + at, std::min(kPieceBytes, count - at));
  }
}

}  // namespace warpline
