#include "raw/schema.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "warpline_payload.h"

namespace warpline {

namespace {

// Reads values one after another; false from the first one on that is not there.
class SchemaReader {
 public:
  explicit SchemaReader(std::string_view bytes) : rest_(bytes) {}

  template <typename Value>
  bool read(Value &value) {
    if (rest_.size() < sizeof value) return false;
    std::memcpy(&value, rest_.data(), sizeof value);
    rest_.remove_prefix(sizeof value);
    return true;
  }

  bool read(std::string &text) {
    uint16_t bytes = 0;
    if (!read(bytes) || rest_.size() < bytes) return false;
    text = rest_.substr(0, bytes);
    rest_.remove_prefix(bytes);
    return true;
  }

  std::size_t left() const { return rest_.size(); }

 private:
  std::string_view rest_;
};

bool read_version(SchemaReader &reader) {
  uint16_t version = 0;
  uint16_t compat_id = 0;
  return reader.read(version) && reader.read(compat_id) && version == raw::kPayloadTextVersion;
}

bool read_entry(SchemaReader &reader, RawEntry &entry) {
  std::string description;
  return reader.read(entry.flags) && reader.read(entry.type) && reader.read(entry.detail) &&
         reader.read(entry.offset) && reader.read(entry.bytes) && reader.read(entry.align) &&
         reader.read(entry.name) && reader.read(description);
}

}  // namespace

std::optional<RawSchema> parse_schema(std::string_view bytes) {
  SchemaReader reader(bytes);
  RawSchema schema;
  uint64_t flags = 0;
  uint64_t pack_align = 0;
  uint32_t count = 0;
  std::string name;
  if (!read_version(reader) || !reader.read(schema.type) || !reader.read(flags) ||
      !reader.read(schema.static_bytes) || !reader.read(pack_align) || !reader.read(name) ||
      !reader.read(count) || count > reader.left()) {
    return std::nullopt;
  }
  for (uint32_t place = 0; place < count; ++place) {
    RawEntry entry;
    if (!read_entry(reader, entry)) return std::nullopt;
    if (entry.name.empty()) entry.name = std::to_string(place);
    entry.align = std::clamp<uint32_t>(std::bit_floor(entry.align), 1, 64);
    schema.entries.push_back(std::move(entry));
  }
  return schema;
}

std::optional<RawEnum> parse_enum(std::string_view bytes) {
  SchemaReader reader(bytes);
  RawEnum found;
  std::string name;
  uint32_t count = 0;
  if (!read_version(reader) || !reader.read(found.bytes) || !reader.read(name) ||
      !reader.read(count) || count > reader.left()) {
    return std::nullopt;
  }
  for (uint32_t place = 0; place < count; ++place) {
    RawEnum::Name item{};
    uint8_t is_flag = 0;
    if (!reader.read(item.value) || !reader.read(is_flag) || !reader.read(item.text)) {
      return std::nullopt;
    }
    item.is_flag = is_flag != 0;
    found.names.push_back(std::move(item));
  }
  return found;
}

std::optional<std::string> RawEnum::name_of(uint64_t value) const {
  const uint64_t mask = bytes >= 8 ? ~uint64_t{0} : (uint64_t{1} << bytes * 8) - 1;
  const auto exact = [&](uint64_t wanted) {
    return std::find_if(names.begin(), names.end(),
                        [&](const Name &name) { return (name.value & mask) == wanted; });
  };
  value &= mask;
  if (const auto found = exact(value); found != names.end()) return found->text;
  std::string flags;
  for (const Name &name : names) {
    if (!name.is_flag || name.value == 0 || (name.value & value) != name.value) continue;
    flags += (flags.empty() ? "" : "|") + name.text;
    value &= ~name.value;
  }
  if (flags.empty()) return std::nullopt;
  if (value == 0) return flags;
  const auto rest = exact(value);
  if (rest == names.end()) return std::nullopt;
  return rest->text + "|" + flags;
}

}  // namespace warpline
