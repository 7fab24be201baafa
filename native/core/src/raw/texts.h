// The texts of a session, each kept once and numbered in order of first appearance.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace warpline {

class RawTexts {
 public:
  RawTexts();

  // Returns the number of a text. Throws Failure (WL_TOO_MANY) beyond 2^31 - 1 texts.
  int32_t intern(std::string_view text);

  // Frees what only intern() needs, which cannot be called afterwards.
  void end() { std::vector<Slot>().swap(slots_); }

  std::string_view text(int32_t number) const;
  int64_t size() const { return static_cast<int64_t>(ends_.size()) - 1; }
  const std::string &bytes() const { return bytes_; }
  const std::vector<int64_t> &offsets() const { return ends_; }

 private:
  struct Slot {
    uint32_t tag = 0;  // the text's hash
    int32_t number = -1;  // -1: free
  };

  uint32_t hash(std::string_view text) const;
  Slot &find(uint32_t tag, std::string_view text);
  void grow();

  std::string bytes_;
  std::vector<int64_t> ends_{0};  // text n is bytes_[ends_[n] .. ends_[n + 1])
  std::vector<Slot> slots_;
  uint64_t seed_;  // a program that is recorded cannot choose texts that collide
};

}  // namespace warpline
