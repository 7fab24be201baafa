// Records that are stored alike, decoded a column at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "sqlite/column_writer.h"
#include "sqlite/record.h"

namespace warpline {

// Where the wanted values of a record lie. The header of a record is a list of types, and few lists
// occur in a table: what one says is worked out once, and then looked up by its bytes.
class Shapes {
 public:
  Shapes(const std::vector<ColumnWriter> &writers, const std::vector<int32_t> &positions)
      : writers_(writers), positions_(positions) {
    if (positions_.empty()) return;
    // With types of one byte each, this much of the header tells all that is wanted.
    const auto types = static_cast<std::size_t>(positions_.back()) + 1;
    hashed_bytes_ = types < kMostHeaderBytes ? types + 1 : kMostHeaderBytes;
    places_.resize(kSlots * positions_.size());
  }

  // Returns the places of the wanted values, or nullptr where only a walk through the header tells
  // them. They hold until the next `learn`.
  const ValuePlace *find(const RecordReader &record) const {
    const std::size_t slot = slot_of(record);
    if (slot == kSlots) return nullptr;
    const Shape &shape = shapes_[slot];
    if (shape.header_bytes == 0 || shape.body_end > record.local_bytes()) return nullptr;
    if (std::memcmp(shape.header.data(), record.local(), shape.header_bytes) != 0) return nullptr;
    return &places_[slot * positions_.size()];
  }

  // Notes how a record that was just walked is stored, if its values can be looked up like that.
  void learn(RecordReader &record) {
    const std::size_t slot = slot_of(record);
    if (slot == kSlots) return;
    Shape &shape = shapes_[slot];
    shape.header_bytes = 0;
    ValuePlace *places = &places_[slot * positions_.size()];
    bool is_plain = true;
    uint64_t body_end = 0;
    const uint64_t walked = record.for_each_field(positions_, [&](std::size_t i, Field field) {
      is_plain = is_plain && writers_[i].place(field, places[i]);
      body_end = field.offset + (field.type == kAbsent ? 0 : stored_size(field.type));
    });
    if (!is_plain || walked > kMostHeaderBytes || body_end > record.local_bytes()) return;
    std::memcpy(shape.header.data(), record.local(), walked);
    shape.header_bytes = static_cast<uint32_t>(walked);
    shape.body_end = body_end;
  }

 private:
  static constexpr std::size_t kSlots = 256;
  static constexpr std::size_t kMostHeaderBytes = 48;

  struct Shape {
    uint64_t body_end = 0;
    uint32_t header_bytes = 0;  // those that are compared; 0: the slot is free
    std::array<uint8_t, kMostHeaderBytes> header;
  };

  // kSlots for a record without a slot: its header is long, or not on the leaf page itself, or
  // nothing in it is wanted.
  std::size_t slot_of(const RecordReader &record) const {
    const uint64_t local = record.local_bytes();
    const uint8_t *header = record.local();
    if (hashed_bytes_ == 0 || header == nullptr || local == 0) return kSlots;
    if (header[0] >= 0x80 || header[0] > local) return kSlots;
    const std::size_t bytes = header[0] < hashed_bytes_ ? header[0] : hashed_bytes_;
    uint64_t hash = bytes;
    for (std::size_t at = 0; at < bytes; at += 8) {
      uint64_t word;
      std::memcpy(&word, header + at, sizeof word);  // the page's buffer has kPadding
      if (bytes - at < 8) word &= (uint64_t{1} << (8 * (bytes - at))) - 1;
      hash = (hash ^ word) * 0x9e3779b97f4a7c15U;
      hash ^= hash >> 29;
    }
    return (hash * 0x9e3779b97f4a7c15U) >> 56;
  }

  const std::vector<ColumnWriter> &writers_;
  const std::vector<int32_t> &positions_;
  std::size_t hashed_bytes_ = 0;
  std::array<Shape, kSlots> shapes_{};
  std::vector<ValuePlace> places_;  // [slot][wanted column]
};

}  // namespace warpline
