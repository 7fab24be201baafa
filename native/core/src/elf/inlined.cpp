// Only units with code at one of the addresses are read, entry by entry, and nothing is kept of them but what
// was inlined at these.
#include "elf/inlined.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>

#include "elf/code_ranges.h"
#include "elf/debug_info.h"
#include "elf/line_files.h"

namespace warpline {

namespace dwarf {

namespace {

constexpr std::size_t kDeepest = 64;  // calls at one address
constexpr uint64_t kFirstEntryBytes = 1U << 12;
constexpr uint64_t kNameEntryBytes = 1U << 12;
constexpr int kMostReferences = 8;  // from one entry to the next that has the name
// What a name, and a byte of the head of a line table, take beside an attribute.
constexpr uint64_t kStepsOfName = 256, kBytesOfStep = 64;

class InlineSearch {
 public:
  InlineSearch(const ElfFile &file, const std::vector<uint64_t> &addresses, Decompress decompress)
      : addresses_(addresses),
        code_(file),
        info_(file, decompress),
        lines_(file, ".debug_line", decompress),
        names_{SectionContent(file, ".debug_line_str", decompress),
               SectionContent(file, ".debug_str", decompress)},
        found_(addresses.size()),
        depths_(addresses.size()),
        unit_of_(addresses.size()) {}

  std::vector<std::vector<InlinedCall>> run() {
    for (const InfoUnit &unit : info_.units()) search(unit);
    std::vector<std::vector<InlinedCall>> calls(found_.size());
    for (std::size_t i = 0; i < found_.size(); ++i) {
      for (auto hit = found_[i].rbegin(); hit != found_[i].rend(); ++hit) {  // the innermost was met last
        calls[i].push_back({name_of(hit->origin), std::move(hit->call_file), hit->call_line});
      }
    }
    return calls;
  }

 private:
  struct Hit {
    uint64_t origin;  // the entry of the function
    std::string call_file;
    uint32_t call_line;
  };
  struct Met {
    std::size_t address;  // number of it
    uint64_t origin;
    uint64_t call_file;
    uint32_t call_line;
  };

  void search(InfoUnit unit) {
    Entry first;
    info_.read(unit, unit.first, kFirstEntryBytes, [&](EntryReader &reader) {
      if (const auto entry = reader.next()) first = *entry;
    });
    if (first.tag != kTagCompileUnit) return;
    info_.complete(unit, first);
    const uint64_t base = info_.address(unit, first.low).value_or(0);
    const bool has_ranges = first.ranges.kind != ValueKind::kNone || first.high.kind != ValueKind::kNone;
    if (has_ranges && !is_wanted(info_.ranges(unit, first, base))) return;
    met_.clear();
    ++unit_;
    info_.read(unit, unit.first, ~uint64_t{0}, [&](EntryReader &reader) { walk(unit, base, reader); });
    keep(first);
  }

  void walk(const InfoUnit &unit, uint64_t base, EntryReader &reader) {
    while (reader.has_more()) {
      const auto entry = reader.next();
      if (!entry || (entry->tag != kTagFunction && entry->tag != kTagInlined)) continue;
      const auto ranges = info_.ranges(unit, *entry, base);
      meet(*entry, ranges);
      // What was inlined into a function lies within it.
      const bool is_other = entry->tag == kTagFunction && !ranges.empty() && !is_wanted(ranges);
      const bool has_end = entry->has_children && entry->sibling.kind == ValueKind::kEntry;
      if (is_other && has_end) reader.skip_to(entry->sibling.number);
    }
  }

  // Linkers keep one of equal functions of several units: the first unit that has it counts.
  void meet(const Entry &entry, const std::vector<std::pair<uint64_t, uint64_t>> &ranges) {
    const bool is_call = entry.tag == kTagInlined && entry.origin.kind == ValueKind::kEntry;
    for (const auto &[low, high] : ranges) {
      if (!code_.hold(low)) continue;
      for (std::size_t i = first_from(low); i < addresses_.size() && addresses_[i] < high; ++i) {
        info_.steps().take(1);
        if (unit_of_[i] == 0) unit_of_[i] = unit_;
        if (unit_of_[i] != unit_ || !is_call || depths_[i] >= kDeepest) continue;
        ++depths_[i];
        const auto line = static_cast<uint32_t>(entry.call_line.number);
        met_.push_back({i, entry.origin.number, entry.call_file.number, line});
      }
    }
  }

  // Keeps what was met in a unit, with the names of files.
  void keep(const Entry &first) {
    if (met_.empty()) return;
    std::vector<std::string> files;
    if (!info_.steps().are_left()) return;
    const PlacedLineUnit lines = line_unit_at(lines_, first.line_table.number);
    if (first.line_table.kind != ValueKind::kNone && lines.unit) files = line_files(*lines.unit, names_);
    info_.steps().take(lines.bytes / kBytesOfStep + 8 * files.size());
    for (const Met &each : met_) {
      std::string file = each.call_file < files.size() ? files[each.call_file] : std::string();
      const uint32_t line = file.empty() ? 0 : each.call_line;
      found_[each.address].push_back({each.origin, std::move(file), line});
    }
  }

  bool is_wanted(const std::vector<std::pair<uint64_t, uint64_t>> &ranges) const {
    return std::any_of(ranges.begin(), ranges.end(), [this](const auto &range) {
      const std::size_t i = first_from(range.first);
      return i < addresses_.size() && addresses_[i] < range.second;
    });
  }
  std::size_t first_from(uint64_t low) const {
    const auto found = std::lower_bound(addresses_.begin(), addresses_.end(), low);
    return static_cast<std::size_t>(found - addresses_.begin());
  }

  // The name may be that of another entry: of the declaration, or of what an entry stands for.
  const std::string &name_of(uint64_t origin) {
    const auto [known, is_new] = function_names_.try_emplace(origin);
    if (!is_new) return known->second;
    std::string plain;
    uint64_t at = origin;
    for (int count = 0; count < kMostReferences && known->second.empty(); ++count) {
      info_.steps().take(kStepsOfName);
      if (!info_.steps().are_left()) break;
      const InfoUnit *found = info_.unit_at(at);
      if (found == nullptr) break;
      InfoUnit unit = *found;
      const Entry entry = entry_at(unit, at);
      complete(unit, entry);
      known->second = info_.text(unit, entry.linkage_name);
      if (plain.empty()) plain = info_.text(unit, entry.name);
      const Value &next = entry.origin.kind == ValueKind::kEntry ? entry.origin : entry.specification;
      if (next.kind != ValueKind::kEntry) break;
      at = next.number;
    }
    if (known->second.empty()) known->second = std::move(plain);
    return known->second;
  }

  Entry entry_at(const InfoUnit &unit, uint64_t at) {
    Entry found;
    info_.read(unit, at, kNameEntryBytes, [&](EntryReader &reader) {
      if (const auto entry = reader.next()) found = *entry;
    });
    return found;
  }

  // Numbers of texts have a meaning only by what the unit's first entry says.
  void complete(InfoUnit &unit, const Entry &entry) {
    const auto is_number = [](const Value &value) { return value.kind == ValueKind::kTextNumber; };
    if (is_number(entry.linkage_name) || is_number(entry.name)) info_.complete(unit, entry_at(unit, unit.first));
  }

  const std::vector<uint64_t> &addresses_;
  CodeRanges code_;
  DebugInfo info_;
  SectionContent lines_;
  NameSections names_;
  std::vector<std::vector<Hit>> found_;
  std::vector<std::size_t> depths_;  // calls that were met at each address
  std::vector<Met> met_;              // in the unit that is read
  std::vector<std::size_t> unit_of_;  // the number of the unit that has the address; 0: none yet
  std::size_t unit_ = 0;
  std::map<uint64_t, std::string> function_names_;
};

}  // namespace

}  // namespace dwarf

std::vector<std::vector<InlinedCall>> inlined_calls(const ElfFile &file, const std::vector<uint64_t> &addresses,
                                                    Decompress decompress) {
  return dwarf::InlineSearch(file, addresses, decompress).run();
}

}  // namespace warpline
