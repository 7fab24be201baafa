// A table is read as a whole, but nothing is kept of it except what is asked for: that takes a second
// for hundreds of megabytes, and needs no index, which not all compilers write.
#include "elf/line_table.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "elf/line_files.h"
#include "elf/line_program.h"

namespace warpline {

namespace {

constexpr uint64_t kLongUnit = 0xffffffff;
constexpr uint64_t kLongestUnit = uint64_t{1} << 30;
constexpr uint64_t kLeastUnit = 8;

// Where an ELF file has code. Of functions that the linker removed there are lines at address 0.
class CodeRanges {
 public:
  explicit CodeRanges(const ElfFile &file) {
    for (const Elf64_Shdr &section : file.sections()) {
      if ((section.sh_flags & SHF_EXECINSTR) == 0) continue;
      ranges_.emplace_back(section.sh_addr, section.sh_addr + section.sh_size);
    }
  }
  bool hold(uint64_t address) const {
    return std::any_of(ranges_.begin(), ranges_.end(), [address](const auto &range) {
      return range.first <= address && address < range.second;
    });
  }

 private:
  std::vector<std::pair<uint64_t, uint64_t>> ranges_;
};

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
    const uint64_t left = table_.bytes() - place;
    const uint8_t *head = table_.at(place, std::min<uint64_t>(left, 12));
    if (head == nullptr) return 0;
    DwarfBytes length(head, head + std::min<uint64_t>(left, 12));
    uint64_t bytes = length.read<uint32_t>();
    const bool is_long = bytes == kLongUnit;
    if (is_long) bytes = length.read<uint64_t>();
    const uint64_t head_bytes = is_long ? 12 : 4;
    const bool is_sound = length.is_sound() && bytes >= kLeastUnit && bytes <= kLongestUnit;
    if (!is_sound) return 0;
    const uint64_t there = std::min(bytes, left - head_bytes);  // of a table that is cut, what there is
    const uint8_t *content = table_.at(place + head_bytes, there);
    if (content == nullptr) return 0;
    const auto unit = LineUnit::read(DwarfBytes(content, content + there), is_long);
    if (unit) search(*unit);
    return head_bytes + bytes;
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
