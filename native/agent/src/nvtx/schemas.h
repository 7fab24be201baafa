// The payload schemas and enums that a program registers, and their definitions in logs.
#pragma once

#include <cstddef>
#include <cstdint>

#include "nvtx/abi.h"
#include "nvtx/names.h"
#include "warpline_payload.h"

namespace warpline::agent {
class ThreadLog;
}

namespace warpline::agent::nvtx {

struct Schema;

struct Entry {
  std::uint64_t flags;
  std::uint64_t type;
  std::uint64_t detail;
  std::uint64_t offset;
  std::uint32_t bytes;  // of an element; 0: not known before the payload is
  std::uint32_t align;
  const Schema* nested;  // not of enums

  bool is_pointer() const noexcept {
    return (flags & raw::kEntryPointer) != 0 || raw::is_string_pointer(type, flags, detail);
  }
};

struct Schema {
  Schema* next;
  std::uint64_t id;
  Domain* domain;
  raw::Kind kind;  // kSchema or kEnum
  raw::SchemaType type;
  std::uint32_t bytes;  // of a payload or value; 0: not known before the payload is
  std::uint32_t align;
  bool speaks;  // its payloads hold pointers, or say something about the event itself
  std::size_t entry_count;
  Entry* entries;
  char* text;  // as it is written
  std::size_t text_bytes;
};

// Any thread, nullptr if there is none. Schemas stay as they are once they are registered.
const Schema* find_schema(const Domain& domain, std::uint64_t id) noexcept;

// Any thread. Return the id, or 0 for what cannot be registered.
std::uint64_t register_schema(Domain& domain, const SchemaAttributes& given,
                              std::uint16_t compat_id) noexcept;
std::uint64_t register_enum(Domain& domain, const EnumAttributes& given,
                            std::uint16_t compat_id) noexcept;

// Writes schemas missing in this log, before payloads.
bool define_schemas(ThreadLog& log, std::uint64_t& defined) noexcept;

// Elements of an entry that are in the payload; 0: not known before the payload is.
inline std::uint64_t static_elements(const Entry& entry) noexcept {
  if (entry.is_pointer()) return 1;
  const std::uint64_t array = entry.flags & raw::kEntryArrayMask;
  if (raw::is_string_type(entry.type) && (array == 0 || array == raw::kEntryArrayFixed)) {
    return entry.detail;
  }
  if (array == 0) return 1;
  return array == raw::kEntryArrayFixed ? entry.detail : 0;
}

inline std::size_t element_bytes(const Entry& entry) noexcept {
  return entry.is_pointer() ? sizeof(void*) : entry.bytes;
}

constexpr std::size_t align_up(std::size_t at, std::size_t align) {
  return (at + align - 1) / align * align;
}

}  // namespace warpline::agent::nvtx
