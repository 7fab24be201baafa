// One log of a raw session, read through a window that moves over the file.
//
// Not mapped: a file that shrinks under a mapping kills its reader.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "warpline_raw.h"

namespace warpline {

// A count of records that a log gives, so that sums of any number of them fit.
inline int64_t summable(uint64_t count) {
  return static_cast<int64_t>(std::min<uint64_t>(count, uint64_t{1} << 40));
}

// Reads from a place of an open file on. Returns how many bytes were read: fewer at the end, or after an error.
std::size_t read_file(int file, int64_t offset, void *room, std::size_t bytes);

// Whether a file is a log that was made and not written yet: see warpline_raw.h.
bool is_unwritten(const std::string &path);

class RawLog {
 public:
  // Throws Failure: WL_IO when the file cannot be read, WL_CORRUPT when it is no log.
  explicit RawLog(const std::string &path);
  ~RawLog();
  RawLog(const RawLog &) = delete;
  RawLog &operator=(const RawLog &) = delete;

  const raw::LogHeader &header() const { return header_; }
  // Where the first record is.
  int64_t first() const {
    return header_.first_bytes == 0 ? int64_t{raw::kHeaderBytes} : static_cast<int64_t>(header_.first_bytes);
  }
  // Its size once the header was read, so what that counts is within it. What a living writer adds later
  // is not looked at.
  int64_t size() const { return size_; }
  // Returns `count` words (at most 65,535) from a multiple of 8 bytes on, valid until the next
  // call; nullptr when the file ends before them.
  const uint64_t *words(int64_t offset, std::size_t count);

 private:
  bool is_first_sound() const;
  std::size_t read_at(int64_t offset, void *room, std::size_t bytes) const;

  int file_ = -1;
  int64_t size_ = 0;
  raw::LogHeader header_{};
  int64_t window_at_ = 0;
  std::size_t window_words_ = 0;
  std::vector<uint64_t> window_;
};

}  // namespace warpline
