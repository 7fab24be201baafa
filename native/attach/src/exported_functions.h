// The functions that an ELF file exports.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "stack/frame_rules.h"

namespace warpline::attach {

// Addresses, in a file or in memory.
struct AddressRange {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  bool holds(std::uint64_t address) const noexcept { return begin <= address && address < end; }
};

struct ExportedFunction {
  std::string_view name;
  AddressRange code;
};

// The file must stay mapped. A damaged one exports nothing, or less.
class ExportedFunctions {
 public:
  explicit ExportedFunctions(const stack::ElfImage& image);

  // The default version if there are several; empty: there is none.
  AddressRange find(std::string_view name) const;
  std::vector<ExportedFunction> all() const;

 private:
  template <class Value>
  bool read(std::uint64_t address, Value& value) const;
  std::string_view text(std::uint64_t offset) const;
  bool function_at(std::uint32_t index, ExportedFunction& found, bool& is_hidden) const;
  // Calls `visit` with the index of each symbol of a bucket, until it returns false.
  template <class Visit>
  void visit_bucket(std::uint32_t bucket, Visit&& visit) const;

  stack::ElfImage image_;
  std::uint64_t symbols_ = 0;
  std::uint64_t texts_ = 0;
  std::uint64_t text_bytes_ = 0;
  std::uint64_t versions_ = 0;
  std::uint64_t bloom_ = 0;
  std::uint64_t buckets_ = 0;
  std::uint64_t chains_ = 0;
  std::uint32_t bucket_count_ = 0;
  std::uint32_t first_index_ = 0;
  std::uint32_t bloom_words_ = 0;
  std::uint32_t bloom_shift_ = 0;
};

}  // namespace warpline::attach
