// Cells of a table's leaf pages and the records in them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sqlite/big_endian.h"
#include "sqlite/file.h"

namespace warpline {

inline constexpr uint8_t kTableInterior = 0x05;
inline constexpr uint8_t kTableLeaf = 0x0d;

// The header of a b-tree page, checked against the page's size.
struct PageHeader {
  uint8_t type;
  uint32_t cell_count;
  uint32_t pointers_at;  // where the array of 16-bit cell positions begins
};
PageHeader parse_page_header(const SqliteFile &file, uint32_t page_number, const uint8_t *page);

// Where cell `index` lies in its page, checked to be inside it.
uint32_t cell_position(const SqliteFile &file, uint32_t page_number, const uint8_t *page,
                       const PageHeader &header, uint32_t index);

// Serial types, which say how a value is stored.
inline constexpr uint64_t kNull = 0;
inline constexpr uint64_t kReal = 7;
inline constexpr uint64_t kZero = 8;
inline constexpr uint64_t kOne = 9;
inline constexpr uint64_t kFirstBlob = 12;  // from here on even: blob, odd: text
inline constexpr uint64_t kAbsent = ~uint64_t{0};  // ours: the record ends before the column
inline constexpr uint8_t kSmallSizes[kFirstBlob] = {0, 1, 2, 3, 4, 6, 8, 8, 0, 0, 0, 0};

inline bool is_integer(uint64_t type) { return type <= kOne && type != kNull && type != kReal; }
inline bool is_blob_or_text(uint64_t type) { return type >= kFirstBlob && type != kAbsent; }
inline bool is_text(uint64_t type) { return is_blob_or_text(type) && (type & 1) != 0; }
// Types 10 and 11 are reserved; sqlite3 reads them as NULL.
inline bool is_null(uint64_t type) {
  return type == kNull || type == kAbsent || (type > kOne && type < kFirstBlob);
}
inline uint64_t stored_size(uint64_t type) {
  return type < kFirstBlob ? kSmallSizes[type] : (type - kFirstBlob) / 2;
}

// A value inside a record: its serial type and where its bytes begin.
struct Field {
  uint64_t type;
  uint64_t offset;
};

// Walks the records of leaf pages, one cell at a time. Not for several threads at once.
class RecordReader {
 public:
  explicit RecordReader(const SqliteFile &file) : file_(file), budget_(file.byte_count()) {}

  // Goes to the cell at `position` of a page; the page's buffer must have kPadding spare bytes.
  void open_cell(uint32_t page_number, const uint8_t *page, uint32_t position);

  int64_t rowid() const { return rowid_; }

  // The bytes of the record on its leaf page, and how many there are; nullptr once `front` has
  // joined them with those of overflow pages.
  const uint8_t *local() const { return data_ == joined_.data() ? nullptr : data_; }
  uint64_t local_bytes() const { return available_; }

  // Calls on_field(i, field) for each of the ascending, non-negative positions. Returns how many
  // bytes of the header it has read.
  template <typename OnField>
  uint64_t for_each_field(const std::vector<int32_t> &positions, const OnField &on_field);

  // The first bytes of the record, at least `bytes` of them, overflow pages included. The pointer
  // holds until the next call; kPadding more bytes may be read, and mean nothing.
  const uint8_t *front(uint64_t bytes) {
    return bytes <= available_ ? data_ : join_overflow(bytes);
  }

  int64_t integer(Field field) {
    if (field.type >= kZero) return static_cast<int64_t>(field.type - kZero);
    const auto width = kSmallSizes[field.type];
    return load_signed(front(field.offset + width) + field.offset, width);
  }

  double real(Field field);

 private:
  const uint8_t *join_overflow(uint64_t bytes);
  [[noreturn]] void corrupt(const char *what) const;

  const SqliteFile &file_;
  uint64_t budget_;  // rows of a sound file are together no larger than the file
  uint32_t page_number_ = 0;
  int64_t rowid_ = 0;
  uint64_t payload_bytes_ = 0;
  const uint8_t *data_ = nullptr;
  uint64_t available_ = 0;      // bytes of the record at data_
  uint32_t overflow_page_ = 0;  // where it goes on; 0: nowhere
  std::vector<uint8_t> joined_;
  std::vector<uint8_t> overflow_;
};

template <typename OnField>
uint64_t RecordReader::for_each_field(const std::vector<int32_t> &positions,
                                      const OnField &on_field) {
  if (positions.empty()) return 0;
  const uint8_t *header = front(available_);
  uint64_t header_bytes = 0;
  const uint8_t *at = load_varint(header, header + available_, header_bytes);
  if (at == nullptr || header_bytes > payload_bytes_) corrupt("a record's header is too long");
  const auto size_bytes = static_cast<uint64_t>(at - header);
  if (header_bytes < size_bytes) corrupt("a record's header is too short");
  if (header_bytes > available_) {
    header = front(header_bytes);
    at = header + size_bytes;
  }
  // Values are read while the header is walked, and may move it: remember places, not pointers.
  uint64_t header_at = size_bytes;
  uint64_t body_at = header_bytes;
  int32_t position = 0;
  for (std::size_t i = 0; i < positions.size();) {
    Field field{kAbsent, body_at};
    if (header_at < header_bytes) {
      header = data_;
      at = load_varint(header + header_at, header + header_bytes, field.type);
      if (at == nullptr) corrupt("a record's header is cut");
      header_at = static_cast<uint64_t>(at - header);
      const uint64_t size = stored_size(field.type);
      if (size > payload_bytes_ - body_at) corrupt("a value extends beyond its record");
      body_at += size;
    }
    while (i < positions.size() && positions[i] == position) on_field(i++, field);
    ++position;
  }
  return header_at;
}

}  // namespace warpline
