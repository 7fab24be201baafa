// The layouts of payloads, as programs registered them: see native/raw/warpline_payload.h.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace warpline {

struct RawEntry {
  uint64_t flags = 0;
  uint64_t type = 0;
  uint64_t detail = 0;
  uint64_t offset = 0;
  uint32_t bytes = 0;
  uint32_t align = 1;
  std::string name;
};

struct RawSchema {
  uint32_t type = 0;
  uint64_t static_bytes = 0;
  std::vector<RawEntry> entries;
};

struct RawEnum {
  struct Name {
    uint64_t value;
    bool is_flag;
    std::string text;
  };
  uint32_t bytes = 0;
  std::vector<Name> names;

  // Returns the name of a value, of flags those that make it up, or nothing.
  std::optional<std::string> name_of(uint64_t value) const;
};

// These return nothing for bytes that do not have the layout.
std::optional<RawSchema> parse_schema(std::string_view bytes);
std::optional<RawEnum> parse_enum(std::string_view bytes);

}  // namespace warpline
