// A log that its writer goes on with, and that others may trim: read from where it was left.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "warpline_raw.h"

namespace warpline {

// What became of a walk through records.
enum class Walk : uint8_t {
  kDone,     // up to the end, or to where the visitor stopped
  kDamaged,  // there is something that is no record
};

// An open file of a log; one that is gone or no log is not open.
class GrowingLog {
 public:
  explicit GrowingLog(const std::string &path);
  ~GrowingLog();
  GrowingLog(const GrowingLog &) = delete;
  GrowingLog &operator=(const GrowingLog &) = delete;

  bool is_open() const { return file_ >= 0; }
  // Reads the header, which changes; false where it cannot be true.
  bool read_header();
  const raw::LogHeader &header() const { return header_; }
  // Where the first record is, and where the next one will be, of the header that was read last.
  int64_t first() const;
  int64_t end() const { return static_cast<int64_t>(header_.used_bytes); }

  // Calls visit(record, words, place) for the whole records from a place on, until `end`, and moves the place
  // behind them. The visitor returns whether to go on, which leaves the place at the record, or Walk::kDamaged.
  template <typename Visit>
  Walk walk(int64_t &at, int64_t end, const Visit &visit) const;

 private:
  // Reads words from a place on into the buffer that all logs share; returns how many there are.
  std::size_t fill(int64_t at, int64_t end) const;
  static uint64_t *buffer();

  int file_ = -1;
  raw::LogHeader header_{};
};

enum class Visited : uint8_t { kGoOn, kStop, kDamaged };

template <typename Visit>
Walk GrowingLog::walk(int64_t &at, int64_t end, const Visit &visit) const {
  while (at < end) {
    const std::size_t words = fill(at, end);
    const uint64_t *const read = buffer();
    std::size_t place = 0;
    while (place < words) {
      const uint64_t *record = read + place;
      const std::size_t size = raw::words_of(*record);
      if (*record == 0 || size == 0) break;
      if (size > words - place) break;
      const Visited visited = visit(record, size, at + static_cast<int64_t>(place * 8));
      if (visited != Visited::kGoOn) {
        at += static_cast<int64_t>(place * 8);
        return visited == Visited::kStop ? Walk::kDone : Walk::kDamaged;
      }
      place += size;
    }
    at += static_cast<int64_t>(place * 8);
    if (place == 0) return Walk::kDamaged;  // nothing that is whole
  }
  return Walk::kDone;
}

}  // namespace warpline
