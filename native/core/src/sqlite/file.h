// A SQLite database file as numbered pages. Layout: https://www.sqlite.org/fileformat2.html
#pragma once

#include <cstdint>
#include <string>

namespace warpline {

class SqliteFile {
 public:
  explicit SqliteFile(const char *path);
  ~SqliteFile();
  SqliteFile(const SqliteFile &) = delete;
  SqliteFile &operator=(const SqliteFile &) = delete;

  uint32_t page_size() const { return page_size_; }
  // The bytes of a page that hold content; extensions may keep the rest to themselves.
  uint32_t usable_size() const { return usable_size_; }
  // The whole pages that the file really has. Pages are numbered from 1.
  uint32_t page_count() const { return page_count_; }
  uint64_t byte_count() const { return uint64_t{page_count_} * page_size_; }

  // Reads `count` pages into `out`. It copies instead of mapping: a file that shrinks then gives
  // an error instead of a signal, and what was checked cannot change before it is used.
  void read_pages(uint32_t first, uint32_t count, uint8_t *out) const;

  // Throws if another program has written to the file since it was opened.
  void check_unchanged() const;

 private:
  void read_exactly(uint64_t offset, uint64_t bytes, uint8_t *out) const;
  void parse_header(const uint8_t *header, uint64_t file_bytes);

  int descriptor_ = -1;
  uint32_t page_size_ = 0;
  uint32_t usable_size_ = 0;
  uint32_t page_count_ = 0;
  uint32_t change_counter_ = 0;
};

// Throws WL_CORRUPT: "page 7: what".
[[noreturn]] void throw_corrupt(uint32_t page, const std::string &what);

}  // namespace warpline
