// A raw session on its way from logs to columns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "raw/decode.h"
#include "raw/tables.h"

namespace warpline {

class RawSession {
 public:
  // `incarnation` is that of the process that the log is of: see RawDecoder.
  void add(const char *path, uint64_t incarnation, bool is_alive);
  // Decodes about `budget` bytes; returns how many it went through, 0 once there are none left.
  int64_t decode(int64_t budget);
  void finish(int64_t origin_ns, int64_t end_ns);

  RawTables &tables() { return tables_; }
  const RawTables &tables() const { return tables_; }
  int64_t origin_ns() const { return origin_ns_; }

 private:
  void begin_log();

  RawTables tables_;
  std::vector<bool> is_alive_;  // by log
  std::size_t next_ = 0;        // log
  std::unique_ptr<RawDecoder> decoder_;
  int64_t origin_ns_ = 0;
};

}  // namespace warpline
