// A table is read as a whole, but nothing is kept of it except what is asked for: that takes a second
// for hundreds of megabytes, and needs no index, which not all compilers write.
#include "elf/line_table.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "elf/code_ranges.h"
#include "elf/line_files.h"
#include "elf/line_program.h"

namespace warpline {

namespace {

class LineSearch {
 public:
  LineSearch(const ElfFile &file, const std::vector<uint64_t> &addresses, Decompress decompress)
      : addresses_(addresses),
        code_(file),
        table_(file, ".debug_line", decompress),
        names_{SectionContent(file, ".debug_line_str", decompress),
               SectionContent(file, ".debug_str", decompress)},
        found_(addresses.size()),
        is_found_(addresses.size()),
        left_(addresses.size()) {}

  std::vector<SourceLine> run() {
    for (uint64_t place = 0; place < table_.bytes() && left_ > 0;) {
      const uint64_t bytes = search_unit(place);
      if (bytes == 0) break;
      place += bytes;
    }
    return std::move(found_);
  }

 private:
  struct Hit {
    std::size_t address;  // number of it
    uint32_t file;
    uint32_t line;
  };

  // Returns the length of the unit; 0 if it has none.
  uint64_t search_unit(uint64_t place) {
    const PlacedLineUnit found = line_unit_at(table_, place);
    if (found.unit) search(*found.unit);
    return found.bytes;
  }

  void search(const LineUnit &unit) {
    hits_.clear();
    LineProgram program(unit);
    LineRow row;
    LineRow before;
    bool is_begin = true;  // of a sequence
    bool is_code = false;
    while (program.next(row)) {
      if (is_begin) is_code = code_.hold(row.address);
      if (!is_begin && is_code) cover(before, row.address);
      is_begin = row.is_end;
      before = row;
    }
    if (hits_.empty()) return;
    const std::vector<std::string> files = line_files(unit, names_);
    for (const Hit &hit : hits_) {
      if (hit.file >= files.size() || files[hit.file].empty() || hit.line == 0) continue;
      found_[hit.address] = {files[hit.file], hit.line};
    }
  }

  // Notes a row for the addresses from its own on, up to the next row's.
  void cover(const LineRow &row, uint64_t end) {
    if (end <= row.address) return;
    const bool is_behind = next_ == 0 || addresses_[next_ - 1] < row.address;
    const bool is_here = is_behind && (next_ == addresses_.size() || addresses_[next_] >= row.address);
    if (!is_here) {
      const auto found = std::lower_bound(addresses_.begin(), addresses_.end(), row.address);
      next_ = static_cast<std::size_t>(found - addresses_.begin());
    }
    for (; next_ < addresses_.size() && addresses_[next_] < end; ++next_) {
      if (is_found_[next_]) continue;
      is_found_[next_] = true;
      --left_;
      hits_.push_back({next_, row.file, row.line});
    }
  }

  const std::vector<uint64_t> &addresses_;
  CodeRanges code_;
  SectionContent table_;
  NameSections names_;
  std::vector<SourceLine> found_;
  std::vector<bool> is_found_;
  std::size_t left_;
  std::vector<Hit> hits_;
  std::size_t next_ = 0;  // the first address that is not below the last row's
};

}  // namespace

std::vector<SourceLine> source_lines(const ElfFile &file, const std::vector<uint64_t> &addresses,
                                     Decompress decompress) {
  return LineSearch(file, addresses, decompress).run();
}

}  // namespace warpline
