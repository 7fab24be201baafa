#include "sqlite/record.h"

#include <algorithm>
#include <bit>
#include <string>

namespace warpline {
namespace {

constexpr uint32_t kFileHeaderBytes = 100;  // before the b-tree header of page 1
constexpr uint32_t kLeafHeaderBytes = 8;
constexpr uint32_t kInteriorHeaderBytes = 12;
constexpr uint32_t kSmallestCell = 4;

// The bytes of a record that its leaf page holds itself, from the file format's formulas.
uint64_t bytes_on_leaf(uint64_t payload, uint64_t usable) {
  const uint64_t most = usable - 35;
  if (payload <= most) return payload;
  const uint64_t least = (usable - 12) * 32 / 255 - 23;
  const uint64_t fitting = least + (payload - least) % (usable - 4);
  return fitting <= most ? fitting : least;
}

}  // namespace

PageHeader parse_page_header(const SqliteFile &file, uint32_t page_number, const uint8_t *page) {
  const uint32_t start = page_number == 1 ? kFileHeaderBytes : 0;
  PageHeader header{page[start], load_be16(page + start + 3), start + kLeafHeaderBytes};
  if (header.type == kTableInterior) header.pointers_at = start + kInteriorHeaderBytes;
  if (header.pointers_at + uint64_t{2} * header.cell_count > file.usable_size()) {
    throw_corrupt(page_number, "more cells than fit on a page");
  }
  return header;
}

uint32_t cell_position(const SqliteFile &file, uint32_t page_number, const uint8_t *page,
                       const PageHeader &header, uint32_t index) {
  const uint32_t position = load_be16(page + header.pointers_at + 2 * index);
  if (position < header.pointers_at + 2 * header.cell_count ||
      position > file.usable_size() - kSmallestCell) {
    throw_corrupt(page_number, "a cell outside its page");
  }
  return position;
}

void RecordReader::corrupt(const char *what) const { throw_corrupt(page_number_, what); }

void RecordReader::open_cell(uint32_t page_number, const uint8_t *page, uint32_t position) {
  page_number_ = page_number;
  const uint8_t *end = page + file_.usable_size();
  uint64_t rowid = 0;
  const uint8_t *at = load_varint(page + position, end, payload_bytes_);
  if (at != nullptr) at = load_varint(at, end, rowid);
  if (at == nullptr) corrupt("a cell extends beyond its page");
  if (payload_bytes_ > budget_) corrupt("its rows are larger than the file");
  budget_ -= payload_bytes_;
  rowid_ = static_cast<int64_t>(rowid);
  data_ = at;
  available_ = bytes_on_leaf(payload_bytes_, file_.usable_size());
  overflow_page_ = 0;
  const bool overflows = available_ < payload_bytes_;
  const auto room = static_cast<uint64_t>(end - at);
  if (available_ + (overflows ? 4 : 0) > room) corrupt("a cell extends beyond its page");
  if (overflows) overflow_page_ = load_be32(at + available_);
}

const uint8_t *RecordReader::join_overflow(uint64_t bytes) {
  if (bytes > payload_bytes_) corrupt("a value extends beyond its record");
  const uint64_t page_content = file_.usable_size() - 4;
  const bool is_first = data_ != joined_.data();
  if (is_first) {
    joined_.assign(data_, data_ + available_);
    overflow_.resize(file_.page_size());
  } else {
    joined_.resize(available_);
  }
  while (available_ < bytes) {
    if (overflow_page_ < 2 || overflow_page_ > file_.page_count()) {
      corrupt("an overflow page outside the file");
    }
    file_.read_pages(overflow_page_, 1, overflow_.data());
    overflow_page_ = load_be32(overflow_.data());
    const uint64_t taken = std::min(page_content, payload_bytes_ - available_);
    joined_.insert(joined_.end(), overflow_.data() + 4, overflow_.data() + 4 + taken);
    available_ += taken;
  }
  joined_.resize(available_ + kPadding);
  data_ = joined_.data();
  return data_;
}

double RecordReader::real(Field field) {
  return std::bit_cast<double>(load_be64(front(field.offset + 8) + field.offset));
}

}  // namespace warpline
