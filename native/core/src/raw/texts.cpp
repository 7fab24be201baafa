#include "raw/texts.h"

#include <cstring>
#include <limits>
#include <random>
#include <utility>

#include "failure.h"
#include "warpline_core.h"

namespace warpline {

RawTexts::RawTexts() : slots_(1024) {
  std::random_device random;
  seed_ = uint64_t{random()} << 32 | random();
}

int32_t RawTexts::intern(std::string_view text) {
  const uint32_t tag = hash(text);
  Slot &slot = find(tag, text);
  if (slot.number >= 0) return slot.number;
  if (size() >= std::numeric_limits<int32_t>::max()) {
    throw Failure(WL_TOO_MANY, "the session has more than 2,147,483,647 distinct strings");
  }
  const auto number = static_cast<int32_t>(size());
  bytes_.append(text);
  ends_.push_back(static_cast<int64_t>(bytes_.size()));
  slot = {tag, number};
  if (ends_.size() * 2 > slots_.size()) grow();
  return number;
}

std::string_view RawTexts::text(int32_t number) const {
  const auto place = static_cast<std::size_t>(number);
  const auto begin = static_cast<std::size_t>(ends_[place]);
  return std::string_view(bytes_).substr(begin, static_cast<std::size_t>(ends_[place + 1]) - begin);
}

uint32_t RawTexts::hash(std::string_view text) const {
  uint64_t value = seed_ ^ text.size();
  const auto mix = [&](uint64_t word) {
    value = (value ^ word) * 0xff51afd7ed558ccdU;
    value ^= value >> 29;
    value *= seed_ | 1;
    value ^= value >> 32;
  };
  const char *at = text.data();
  std::size_t left = text.size();
  for (; left >= 8; at += 8, left -= 8) {
    uint64_t word = 0;
    std::memcpy(&word, at, 8);
    mix(word);
  }
  uint64_t word = 0;
  if (left != 0) std::memcpy(&word, at, left);
  mix(word);
  return static_cast<uint32_t>(value >> 32);
}

RawTexts::Slot &RawTexts::find(uint32_t tag, std::string_view wanted) {
  const std::size_t mask = slots_.size() - 1;
  std::size_t place = tag & mask;
  while (slots_[place].number >= 0 &&
         (slots_[place].tag != tag || text(slots_[place].number) != wanted)) {
    place = (place + 1) & mask;
  }
  return slots_[place];
}

void RawTexts::grow() {
  std::vector<Slot> larger(slots_.size() * 2);
  const std::size_t mask = larger.size() - 1;
  for (const Slot &slot : slots_) {
    if (slot.number < 0) continue;
    std::size_t place = slot.tag & mask;
    while (larger[place].number >= 0) place = (place + 1) & mask;
    larger[place] = slot;
  }
  slots_ = std::move(larger);
}

}  // namespace warpline
