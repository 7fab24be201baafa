// Units and entries of .debug_info (DWARF 2 to 5): what compilers say of functions.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "elf/elf_file.h"
#include "elf/line_program.h"

namespace warpline::dwarf {

// Kinds of entries (DW_TAG_*) and of attributes (DW_AT_*) that are of interest.
enum : uint64_t {
  kTagCompileUnit = 0x11,
  kTagInlined = 0x1d,
  kTagFunction = 0x2e,
};
enum : uint64_t {
  kSibling = 0x01,
  kName = 0x03,
  kLineTable = 0x10,
  kLowAddress = 0x11,
  kHighAddress = 0x12,
  kAbstractOrigin = 0x31,
  kSpecification = 0x47,
  kRanges = 0x55,
  kCallFile = 0x58,
  kCallLine = 0x59,
  kLinkageName = 0x6e,
  kTextOffsets = 0x72,
  kAddressTable = 0x73,
  kRangeLists = 0x74,
  kOldLinkageName = 0x2007,
};

struct Attribute {
  uint64_t name;
  uint64_t form;
  int64_t constant;  // where the form has it here
};

// How entries are written: their kind and attributes, by number.
struct Abbreviation {
  uint64_t tag = 0;
  bool has_children = false;
  std::vector<Attribute> attributes;
};
using Abbreviations = std::unordered_map<uint64_t, Abbreviation>;

// What the value of an attribute is.
enum class ValueKind {
  kNone,
  kNumber,
  kAddress,
  kAddressAt,   // a number of .debug_addr
  kText,        // in the entry
  kTextAt,      // in .debug_str
  kLineTextAt,  // in .debug_line_str
  kTextNumber,  // of .debug_str_offsets
  kOffset,      // in another section
  kListNumber,  // of .debug_rnglists
  kEntry,
};

struct Value {
  ValueKind kind = ValueKind::kNone;
  uint64_t number = 0;  // of kText and kEntry a place in .debug_info
};

struct InfoUnit {
  uint64_t at = 0;     // in .debug_info
  uint64_t first = 0;  // its first entry
  uint64_t end = 0;
  uint64_t abbreviations = 0;
  uint16_t version = 0;
  bool is_long = false;
  // Where its parts of other sections begin, as its first entry says.
  uint64_t text_offsets = 0;
  uint64_t addresses = 0;
  uint64_t range_lists = 0;
};

// An entry with the attributes of interest; absent ones are kNone.
struct Entry {
  uint64_t tag = 0;
  bool has_children = false;
  Value low, high, ranges, sibling, origin, specification, name, linkage_name;
  Value call_file, call_line, line_table, text_offsets, addresses, range_lists;
};

// How many steps may be taken: information that is made to mislead has few bytes for many steps, such as
// entries with the same long list of ranges. Some 300 MB of honest entries take as many.
class Steps {
 public:
  void take(uint64_t count) { left_ -= count < left_ ? count : left_; }
  bool are_left() const { return left_ > 0; }

 private:
  uint64_t left_ = uint64_t{1} << 28;  // some seconds
};

// Reads entries one after another.
class EntryReader {
 public:
  // `content` is what lies at `at` of .debug_info, in the unit.
  EntryReader(const InfoUnit &unit, const Abbreviations &abbreviations, DwarfBytes content, uint64_t at,
              Steps &steps)
      : unit_(unit),
        abbreviations_(abbreviations),
        bytes_(content),
        begin_(content.place()),
        at_(at),
        steps_(steps) {}

  // Reads the next one; none at the end of siblings. Unsound bytes end it all.
  std::optional<Entry> next();
  bool has_more() const { return bytes_.has_more() && steps_.are_left(); }
  // Goes on at a place of .debug_info that lies ahead; others are ignored.
  void skip_to(uint64_t place);

 private:
  Value read(const Attribute &attribute, uint64_t form, int depth);
  uint64_t place() const { return at_ + static_cast<uint64_t>(bytes_.place() - begin_); }
  void fail() { bytes_.skip(~uint64_t{0}); }

  const InfoUnit &unit_;
  const Abbreviations &abbreviations_;
  DwarfBytes bytes_;
  const uint8_t *begin_;
  uint64_t at_;
  Steps &steps_;
};

// The sections of debug information of a file.
class DebugInfo {
 public:
  DebugInfo(const ElfFile &file, Decompress decompress);

  Steps &steps() { return steps_; }
  // The heads of all units, in order. Of a section that is cut, those before that place.
  const std::vector<InfoUnit> &units() const { return units_; }
  // Sets what the first entry of a unit says of its parts of other sections.
  void complete(InfoUnit &unit, const Entry &first) const;
  // Calls use(reader) for the entries of a unit from a place on, of no more than `most` bytes.
  template <class Use>
  void read(const InfoUnit &unit, uint64_t from, uint64_t most, const Use &use) {
    if (from < unit.first || from >= unit.end) return;
    const Abbreviations *known = abbreviations(unit.abbreviations);
    const uint64_t count = std::min(unit.end - from, most);
    const uint8_t *content = info_.at(from, count);
    if (content == nullptr || known == nullptr) return;
    EntryReader reader(unit, *known, DwarfBytes(content, content + count), from, steps_);
    use(reader);
  }
  // The unit that a place is in, null for none.
  const InfoUnit *unit_at(uint64_t place) const;

  std::optional<uint64_t> address(const InfoUnit &unit, const Value &value);
  std::string text(const InfoUnit &unit, const Value &value);
  // The addresses of an entry, each from its first to before its end.
  std::vector<std::pair<uint64_t, uint64_t>> ranges(const InfoUnit &unit, const Entry &entry, uint64_t base);

 private:
  using Ranges = std::vector<std::pair<uint64_t, uint64_t>>;

  void read_heads();
  const Abbreviations *abbreviations(uint64_t at);
  Ranges old_ranges(uint64_t at, uint64_t base);
  Ranges listed_ranges(const InfoUnit &unit, uint64_t at, uint64_t base);
  std::optional<uint64_t> number_at(SectionContent &section, uint64_t at, uint64_t bytes);

  SectionContent info_;
  SectionContent abbreviations_;
  SectionContent texts_;
  SectionContent line_texts_;
  SectionContent text_offsets_;
  SectionContent addresses_;
  SectionContent ranges_;
  SectionContent range_lists_;
  Steps steps_;
  std::vector<InfoUnit> units_;
  std::map<uint64_t, Abbreviations> known_;  // by place
  uint64_t kept_ = 0;                        // what they hold
};

}  // namespace warpline::dwarf
