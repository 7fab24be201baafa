// A set of correlations of processes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <unordered_map>

namespace warpline {

// Correlations count up, and most calls have one: a bit each is far less than sorting them needs.
class Correlations {
 public:
  bool empty() const { return pages_.empty(); }

  void add(int32_t process, uint32_t correlation) {
    const uint64_t key = key_of(process, correlation);
    if (last_ == nullptr || key != last_key_) {
      last_ = &pages_[key];
      last_key_ = key;
    }
    (*last_)[correlation % kBits / 64] |= uint64_t{1} << correlation % 64;
  }

  bool contains(int32_t process, uint32_t correlation) const {
    const auto page = pages_.find(key_of(process, correlation));
    if (page == pages_.end()) return false;
    return (page->second[correlation % kBits / 64] >> correlation % 64 & 1) != 0;
  }

 private:
  static constexpr uint32_t kBits = 512;  // of a page
  using Page = std::array<uint64_t, kBits / 64>;

  static uint64_t key_of(int32_t process, uint32_t correlation) {
    return uint64_t{static_cast<uint32_t>(process)} << 32 | correlation / kBits;
  }

  std::unordered_map<uint64_t, Page> pages_;
  uint64_t last_key_ = 0;
  Page *last_ = nullptr;
};

}  // namespace warpline
