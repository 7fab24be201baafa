#include "elf/debug_info.h"

#include <algorithm>
#include <cstring>

namespace warpline::dwarf {

namespace {

constexpr uint64_t kLongLength = 0xffffffff;
constexpr uint64_t kLongestInfo = uint64_t{1} << 28;  // of a unit; longer ones are not read
constexpr std::size_t kMostUnits = 1U << 20;
constexpr std::size_t kMostAbbreviations = 1U << 16;  // of a table
constexpr std::size_t kMostAttributes = 1U << 19;     // of a table
constexpr uint64_t kMostKept = 1U << 20;              // attributes and abbreviations of tables that are kept
constexpr std::size_t kMostRanges = 1U << 14;         // of an entry
constexpr uint64_t kLongestEntry = 32;                // of a list of ranges
constexpr int kMostIndirections = 4;

enum : uint64_t { kUnitTypes = 2, kUnitSkeleton = 4, kUnitSplitCompile = 5, kUnitSplitTypes = 6 };

// How values are written (DW_FORM_*).
enum : uint64_t {
  kAddr = 0x01,
  kBlock2 = 0x03,
  kBlock4 = 0x04,
  kData2 = 0x05,
  kData4 = 0x06,
  kData8 = 0x07,
  kString = 0x08,
  kBlock = 0x09,
  kBlock1 = 0x0a,
  kData1 = 0x0b,
  kFlag = 0x0c,
  kSdata = 0x0d,
  kStrp = 0x0e,
  kUdata = 0x0f,
  kRefAddr = 0x10,
  kRef1 = 0x11,
  kRef2 = 0x12,
  kRef4 = 0x13,
  kRef8 = 0x14,
  kRefUdata = 0x15,
  kIndirect = 0x16,
  kSecOffset = 0x17,
  kExprloc = 0x18,
  kFlagPresent = 0x19,
  kStrx = 0x1a,
  kAddrx = 0x1b,
  kRefSup4 = 0x1c,
  kStrpSup = 0x1d,
  kData16 = 0x1e,
  kLineStrp = 0x1f,
  kRefSig8 = 0x20,
  kImplicitConst = 0x21,
  kLoclistx = 0x22,
  kRnglistx = 0x23,
  kRefSup8 = 0x24,
  kStrx1 = 0x25,
  kStrx2 = 0x26,
  kStrx3 = 0x27,
  kStrx4 = 0x28,
  kAddrx1 = 0x29,
  kAddrx2 = 0x2a,
  kAddrx3 = 0x2b,
  kAddrx4 = 0x2c,
  kGnuAddrIndex = 0x1f01,
  kGnuStrIndex = 0x1f02,
  kGnuRefAlt = 0x1f20,
  kGnuStrpAlt = 0x1f21,
};

// Kinds of entries of a list of ranges (DW_RLE_*).
enum : uint8_t { kEndOfList, kBaseAt, kStartEndAt, kStartAtLength, kOffsets, kBase, kStartEnd, kStartLength };

uint64_t read_three(DwarfBytes &bytes) {
  const uint64_t low = bytes.read<uint16_t>();
  return low | uint64_t{bytes.read<uint8_t>()} << 16;
}

// The bytes of a head: the version, and where its entries begin.
std::optional<InfoUnit> read_head(DwarfBytes bytes, uint64_t at, uint64_t content, bool is_long) {
  const uint8_t *begin = bytes.place();
  InfoUnit unit;
  unit.at = at;
  unit.is_long = is_long;
  unit.version = bytes.read<uint16_t>();
  if (unit.version < 2 || unit.version > 5) return std::nullopt;
  uint64_t kind = 0;
  uint8_t address_bytes = 0;
  if (unit.version == 5) {
    kind = bytes.read<uint8_t>();
    address_bytes = bytes.read<uint8_t>();
  }
  unit.abbreviations = bytes.read_offset(is_long);
  if (unit.version < 5) address_bytes = bytes.read<uint8_t>();
  if (kind == kUnitSkeleton || kind == kUnitSplitCompile) bytes.skip(8);
  const bool is_code = kind != kUnitTypes && kind != kUnitSplitTypes;
  if (!bytes.is_sound() || address_bytes != 8 || !is_code) return std::nullopt;
  unit.first = content + static_cast<uint64_t>(bytes.place() - begin);
  return unit;
}

// Where parts begin if the first entry does not say it: behind the head.
uint64_t head_bytes(bool is_long) { return is_long ? 16 : 8; }

Abbreviations read_abbreviations(DwarfBytes bytes) {
  Abbreviations found;
  std::size_t attributes = 0;
  while (bytes.has_more() && found.size() < kMostAbbreviations && attributes < kMostAttributes) {
    const uint64_t number = bytes.read_unsigned();
    if (number == 0) break;
    Abbreviation one;
    one.tag = bytes.read_unsigned();
    one.has_children = bytes.read<uint8_t>() != 0;
    while (bytes.has_more() && ++attributes < kMostAttributes) {
      Attribute each{bytes.read_unsigned(), bytes.read_unsigned(), 0};
      if (each.form == kImplicitConst) each.constant = bytes.read_signed();
      if (each.name == 0 && each.form == 0) break;
      one.attributes.push_back(each);
    }
    if (bytes.is_sound()) found.try_emplace(number, std::move(one));
  }
  return found;
}

Value *place_of(Entry &entry, uint64_t name) {
  switch (name) {
    case kSibling: return &entry.sibling;
    case kName: return &entry.name;
    case kLineTable: return &entry.line_table;
    case kLowAddress: return &entry.low;
    case kHighAddress: return &entry.high;
    case kAbstractOrigin: return &entry.origin;
    case kSpecification: return &entry.specification;
    case kRanges: return &entry.ranges;
    case kCallFile: return &entry.call_file;
    case kCallLine: return &entry.call_line;
    case kLinkageName:
    case kOldLinkageName: return &entry.linkage_name;
    case kTextOffsets: return &entry.text_offsets;
    case kAddressTable: return &entry.addresses;
    case kRangeLists: return &entry.range_lists;
    default: return nullptr;
  }
}

}  // namespace

std::optional<Entry> EntryReader::next() {
  const uint64_t number = bytes_.read_unsigned();
  if (!bytes_.is_sound() || number == 0) return std::nullopt;
  const auto found = abbreviations_.find(number);
  if (found == abbreviations_.end()) {
    fail();
    return std::nullopt;
  }
  steps_.take(1 + found->second.attributes.size());
  Entry entry;
  entry.tag = found->second.tag;
  entry.has_children = found->second.has_children;
  for (const Attribute &attribute : found->second.attributes) {
    const Value value = read(attribute, attribute.form, 0);
    if (Value *kept = place_of(entry, attribute.name)) *kept = value;
    if (!bytes_.is_sound()) return std::nullopt;
  }
  return entry;
}

void EntryReader::skip_to(uint64_t place) {
  if (place > this->place()) bytes_.skip(place - this->place());
}

Value EntryReader::read(const Attribute &attribute, uint64_t form, int depth) {
  using Kind = ValueKind;
  const auto offset = [this] { return bytes_.read_offset(unit_.is_long); };
  const auto entry = [this](uint64_t at) { return Value{Kind::kEntry, unit_.at + at}; };
  switch (form) {
    case kAddr: return {Kind::kAddress, bytes_.read<uint64_t>()};
    case kData1: return {Kind::kNumber, bytes_.read<uint8_t>()};
    case kData2: return {Kind::kNumber, bytes_.read<uint16_t>()};
    // Before the fourth version, a place in another section is a plain number.
    case kData4: return {unit_.version < 4 ? Kind::kOffset : Kind::kNumber, bytes_.read<uint32_t>()};
    case kData8: return {unit_.version < 4 ? Kind::kOffset : Kind::kNumber, bytes_.read<uint64_t>()};
    case kUdata: return {Kind::kNumber, bytes_.read_unsigned()};
    case kSdata: return {Kind::kNumber, static_cast<uint64_t>(bytes_.read_signed())};
    case kImplicitConst: return {Kind::kNumber, static_cast<uint64_t>(attribute.constant)};
    case kFlag: bytes_.skip(1); return {};
    case kFlagPresent: return {};
    case kString: {
      const uint64_t at = place();
      bytes_.skip_text();
      return {Kind::kText, at};
    }
    case kStrp: return {Kind::kTextAt, offset()};
    case kLineStrp: return {Kind::kLineTextAt, offset()};
    case kStrx:
    case kGnuStrIndex: return {Kind::kTextNumber, bytes_.read_unsigned()};
    case kStrx1: return {Kind::kTextNumber, bytes_.read<uint8_t>()};
    case kStrx2: return {Kind::kTextNumber, bytes_.read<uint16_t>()};
    case kStrx3: return {Kind::kTextNumber, read_three(bytes_)};
    case kStrx4: return {Kind::kTextNumber, bytes_.read<uint32_t>()};
    case kAddrx:
    case kGnuAddrIndex: return {Kind::kAddressAt, bytes_.read_unsigned()};
    case kAddrx1: return {Kind::kAddressAt, bytes_.read<uint8_t>()};
    case kAddrx2: return {Kind::kAddressAt, bytes_.read<uint16_t>()};
    case kAddrx3: return {Kind::kAddressAt, read_three(bytes_)};
    case kAddrx4: return {Kind::kAddressAt, bytes_.read<uint32_t>()};
    case kRef1: return entry(bytes_.read<uint8_t>());
    case kRef2: return entry(bytes_.read<uint16_t>());
    case kRef4: return entry(bytes_.read<uint32_t>());
    case kRef8: return entry(bytes_.read<uint64_t>());
    case kRefUdata: return entry(bytes_.read_unsigned());
    case kRefAddr: return {Kind::kEntry, unit_.version == 2 ? bytes_.read<uint64_t>() : offset()};
    case kSecOffset: return {Kind::kOffset, offset()};
    case kRnglistx: return {Kind::kListNumber, bytes_.read_unsigned()};
    case kLoclistx: bytes_.read_unsigned(); return {};
    case kBlock1: bytes_.skip(bytes_.read<uint8_t>()); return {};
    case kBlock2: bytes_.skip(bytes_.read<uint16_t>()); return {};
    case kBlock4: bytes_.skip(bytes_.read<uint32_t>()); return {};
    case kBlock:
    case kExprloc: bytes_.skip(bytes_.read_unsigned()); return {};
    case kData16: bytes_.skip(16); return {};
    case kRefSig8:
    case kRefSup8: bytes_.skip(8); return {};
    case kRefSup4: bytes_.skip(4); return {};
    case kStrpSup:
    case kGnuRefAlt:
    case kGnuStrpAlt: offset(); return {};  // in a file that debug files share
    case kIndirect:
      if (depth < kMostIndirections) return read(attribute, bytes_.read_unsigned(), depth + 1);
      [[fallthrough]];
    default: fail(); return {};  // how long it is, is not known
  }
}

DebugInfo::DebugInfo(const ElfFile &file, Decompress decompress)
    : info_(file, ".debug_info", decompress),
      abbreviations_(file, ".debug_abbrev", decompress),
      texts_(file, ".debug_str", decompress),
      line_texts_(file, ".debug_line_str", decompress),
      text_offsets_(file, ".debug_str_offsets", decompress),
      addresses_(file, ".debug_addr", decompress),
      ranges_(file, ".debug_ranges", decompress),
      range_lists_(file, ".debug_rnglists", decompress) {
  read_heads();
}

void DebugInfo::read_heads() {
  constexpr uint64_t kMostHead = 64;
  for (uint64_t at = 0; at < info_.bytes() && units_.size() < kMostUnits;) {
    const uint64_t count = std::min(info_.bytes() - at, kMostHead);
    const uint8_t *content = info_.at(at, count);
    if (content == nullptr) return;
    DwarfBytes bytes(content, content + count);
    uint64_t length = bytes.read<uint32_t>();
    const bool is_long = length == kLongLength;
    if (is_long) length = bytes.read<uint64_t>();
    const uint64_t behind = at + (is_long ? 12 : 4);
    if (!bytes.is_sound() || length == 0 || length > info_.bytes() - behind) return;
    std::optional<InfoUnit> unit = read_head(bytes, at, behind, is_long);
    at = behind + length;
    if (!unit || length > kLongestInfo) continue;
    unit->end = at;
    if (unit->first < unit->end) units_.push_back(*unit);
  }
}

const Abbreviations *DebugInfo::abbreviations(uint64_t at) {
  constexpr uint64_t kLongestTable = 1U << 20;
  const auto found = known_.find(at);
  if (found != known_.end()) return &found->second;
  if (at >= abbreviations_.bytes() || !steps_.are_left()) return nullptr;
  const uint64_t count = std::min(abbreviations_.bytes() - at, kLongestTable);
  const uint8_t *content = abbreviations_.at(at, count);
  if (content == nullptr) return nullptr;
  if (kept_ >= kMostKept) {
    known_.clear();
    kept_ = 0;
  }
  Abbreviations &read = known_[at] = read_abbreviations(DwarfBytes(content, content + count));
  uint64_t size = 1;
  for (const auto &[number, one] : read) size += 1 + one.attributes.size();
  kept_ += size;
  steps_.take(size);
  return &read;
}

void DebugInfo::complete(InfoUnit &unit, const Entry &first) const {
  const auto part = [&unit](const Value &value) {
    const bool is_said = value.kind == ValueKind::kOffset || value.kind == ValueKind::kNumber;
    return is_said ? value.number : head_bytes(unit.is_long);
  };
  unit.text_offsets = part(first.text_offsets);
  unit.addresses = part(first.addresses);
  const uint64_t behind_head = unit.is_long ? 20 : 12;
  unit.range_lists = first.range_lists.kind == ValueKind::kNone ? behind_head : first.range_lists.number;
}

const InfoUnit *DebugInfo::unit_at(uint64_t place) const {
  const auto after = std::upper_bound(units_.begin(), units_.end(), place,
                                      [](uint64_t at, const InfoUnit &unit) { return at < unit.at; });
  if (after == units_.begin()) return nullptr;
  const InfoUnit &found = *(after - 1);
  return place >= found.first && place < found.end ? &found : nullptr;
}

std::optional<uint64_t> DebugInfo::number_at(SectionContent &section, uint64_t at, uint64_t bytes) {
  const uint8_t *content = section.at(at, bytes);
  if (content == nullptr) return std::nullopt;
  uint64_t number = 0;
  std::memcpy(&number, content, bytes);
  return number;
}

std::optional<uint64_t> DebugInfo::address(const InfoUnit &unit, const Value &value) {
  if (value.kind == ValueKind::kAddress) return value.number;
  if (value.kind != ValueKind::kAddressAt || value.number > addresses_.bytes() / 8) return std::nullopt;
  return number_at(addresses_, unit.addresses + 8 * value.number, 8);
}

std::string DebugInfo::text(const InfoUnit &unit, const Value &value) {
  switch (value.kind) {
    case ValueKind::kText: return info_.text(value.number);
    case ValueKind::kTextAt: return texts_.text(value.number);
    case ValueKind::kLineTextAt: return line_texts_.text(value.number);
    case ValueKind::kTextNumber: {
      const uint64_t bytes = unit.is_long ? 8 : 4;
      if (value.number > text_offsets_.bytes() / bytes) return {};
      const auto at = number_at(text_offsets_, unit.text_offsets + bytes * value.number, bytes);
      return at ? texts_.text(*at) : std::string();
    }
    default: return {};
  }
}

DebugInfo::Ranges DebugInfo::ranges(const InfoUnit &unit, const Entry &entry, uint64_t base) {
  if (entry.ranges.kind == ValueKind::kNone) {
    const auto low = address(unit, entry.low);
    if (!low || entry.high.kind == ValueKind::kNone) return {};
    // Since the fourth version, it may be the length.
    const auto high = address(unit, entry.high);
    const uint64_t end = high ? *high : *low + entry.high.number;
    return end > *low ? Ranges{{*low, end}} : Ranges{};
  }
  if (unit.version < 5) return old_ranges(entry.ranges.number, base);
  uint64_t at = entry.ranges.number;
  if (entry.ranges.kind == ValueKind::kListNumber) {
    const uint64_t bytes = unit.is_long ? 8 : 4;
    if (at > range_lists_.bytes() / bytes) return {};
    const auto offset = number_at(range_lists_, unit.range_lists + bytes * at, bytes);
    if (!offset) return {};
    at = unit.range_lists + *offset;
  }
  return listed_ranges(unit, at, base);
}

// Pairs of offsets; one that begins with all bits is a new base.
DebugInfo::Ranges DebugInfo::old_ranges(uint64_t at, uint64_t base) {
  Ranges found;
  for (std::size_t count = 0; count < kMostRanges && steps_.are_left(); ++count, at += 16) {
    steps_.take(1);
    const uint8_t *content = ranges_.at(at, 16);
    if (content == nullptr) break;
    uint64_t pair[2];
    std::memcpy(pair, content, sizeof pair);
    if (pair[0] == 0 && pair[1] == 0) break;
    if (pair[0] == ~uint64_t{0}) {
      base = pair[1];
    } else if (pair[1] > pair[0]) {
      found.emplace_back(base + pair[0], base + pair[1]);
    }
  }
  return found;
}

DebugInfo::Ranges DebugInfo::listed_ranges(const InfoUnit &unit, uint64_t at, uint64_t base) {
  const auto address_at = [&](uint64_t number) {
    return address(unit, {ValueKind::kAddressAt, number}).value_or(0);
  };
  Ranges found;
  for (std::size_t count = 0; count < kMostRanges && at < range_lists_.bytes() && steps_.are_left(); ++count) {
    steps_.take(1);
    const uint64_t there = std::min(range_lists_.bytes() - at, kLongestEntry);
    const uint8_t *content = range_lists_.at(at, there);
    if (content == nullptr) break;
    DwarfBytes bytes(content, content + there);
    uint64_t first = 0;
    uint64_t last = 0;
    switch (bytes.read<uint8_t>()) {
      case kBaseAt: base = address_at(bytes.read_unsigned()); break;
      case kBase: base = bytes.read<uint64_t>(); break;
      case kOffsets:
        first = base + bytes.read_unsigned();
        last = base + bytes.read_unsigned();
        break;
      case kStartEndAt:
        first = address_at(bytes.read_unsigned());
        last = address_at(bytes.read_unsigned());
        break;
      case kStartAtLength:
        first = address_at(bytes.read_unsigned());
        last = first + bytes.read_unsigned();
        break;
      case kStartEnd:
        first = bytes.read<uint64_t>();
        last = bytes.read<uint64_t>();
        break;
      case kStartLength:
        first = bytes.read<uint64_t>();
        last = first + bytes.read_unsigned();
        break;
      default: return found;  // the end, or damaged
    }
    if (!bytes.is_sound()) break;
    at += static_cast<uint64_t>(bytes.place() - content);
    if (last > first) found.emplace_back(first, last);
  }
  return found;
}

}  // namespace warpline::dwarf
