// A unit of a line table: the program that makes its rows, and the names of its files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

namespace warpline {

// Reads numbers one after another; what lies beyond the end reads as zero and makes it unsound.
class DwarfBytes {
 public:
  DwarfBytes(const uint8_t *from, const uint8_t *end) : at_(from), end_(end) {}

  bool is_sound() const { return is_sound_; }
  bool has_more() const { return is_sound_ && at_ < end_; }
  const uint8_t *place() const { return at_; }
  const uint8_t *end() const { return end_; }

  template <typename Number>
  Number read() {
    Number number{};
    if (!is_sound_ || static_cast<std::size_t>(end_ - at_) < sizeof number) {
      is_sound_ = false;
      return 0;
    }
    std::memcpy(&number, at_, sizeof number);
    at_ += sizeof number;
    return number;
  }
  uint64_t read_unsigned();
  int64_t read_signed();
  // An offset into a section, of 4 or 8 bytes.
  uint64_t read_offset(bool is_long) { return is_long ? read<uint64_t>() : read<uint32_t>(); }
  std::string read_text();
  void skip_text();
  void skip(uint64_t bytes) {
    is_sound_ = is_sound_ && bytes <= static_cast<std::size_t>(end_ - at_);
    if (is_sound_) at_ += bytes;
  }

 private:
  // A number in groups of seven bits, the lowest first.
  struct Groups {
    uint64_t bits;
    unsigned width;
    bool is_negative;  // if it has a sign
  };
  Groups read_groups();

  const uint8_t *at_;
  const uint8_t *end_;
  bool is_sound_ = true;
};

// The head of a unit.
struct LineUnit {
  bool is_long = false;  // offsets have 8 bytes
  uint16_t version = 0;
  uint8_t address_bytes = 8;
  uint8_t step = 1;  // bytes that addresses are counted in
  int8_t line_base = 0;
  uint8_t line_range = 1;
  std::vector<uint8_t> operands;  // of each standard opcode, from 1 on
  DwarfBytes names{nullptr, nullptr};    // directories and files
  DwarfBytes program{nullptr, nullptr};

  // Reads what follows the unit's length. None: damaged, or of an unknown version.
  static std::optional<LineUnit> read(DwarfBytes bytes, bool is_long);
};

// A row of the table: code from here to the next row is of this line.
struct LineRow {
  uint64_t address = 0;
  uint32_t file = 1;
  uint32_t line = 1;
  bool is_end = false;  // the row ends a sequence
};

// Makes rows one at a time.
class LineProgram {
 public:
  explicit LineProgram(const LineUnit &unit) : unit_(unit), bytes_(unit.program) {}

  // Goes on to the next row; returns false at the end, and where the program is damaged.
  bool next(LineRow &row);

 private:
  void advance(uint64_t units) { now_.address += units * unit_.step; }
  void advance_line(int64_t lines) { now_.line = static_cast<uint32_t>(int64_t{now_.line} + lines); }
  bool special(uint8_t opcode, LineRow &row);
  bool standard(uint8_t opcode, LineRow &row);
  bool extended(LineRow &row);

  const LineUnit &unit_;
  DwarfBytes bytes_;
  LineRow now_;
};

}  // namespace warpline
