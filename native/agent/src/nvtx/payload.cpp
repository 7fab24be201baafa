// NVTX's payload extension: blobs attached to events, and the schemas that describe them. What is
// written is described in warpline_payload.h. Of the counters extension only that it is used.
#include "warpline_payload.h"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>

#include "nvtx/abi.h"
#include "nvtx/events.h"
#include "nvtx/names.h"
#include "session/clock.h"
#include "session/process.h"
#include "session/thread_log.h"

namespace warpline::agent::nvtx {
namespace {

constexpr std::size_t kMaxSchemas = 1u << 14;
constexpr std::size_t kMaxEntries = 4096;       // of one schema
constexpr std::size_t kMaxNameBytes = 1024;     // of a schema, an entry, an enum's value
constexpr std::size_t kMaxPayloads = 64;        // of one event
constexpr std::size_t kMaxTargets = 64;         // of one payload
constexpr std::size_t kMaxTargetBytes = 16384;  // of one target
constexpr std::size_t kMaxAllTargets = 49152;   // of one payload; the largest fits beside them
constexpr std::size_t kMaxSteps = 4096;         // of a walk through one payload
constexpr int kMaxNesting = 8;

// --- Schemas -------------------------------------------------------------------------------------

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

// In order of registration, without gaps: what a schema nests stands before it.
constinit std::atomic<Schema*> g_schemas[kMaxSchemas];
constinit std::atomic<std::size_t> g_schema_count{0};
constinit GrowingTable<Schema, 256> g_static_schemas;
constinit std::atomic<std::uint64_t> g_next_id{raw::kFirstDynamicSchema};  // of scopes and the like

std::uint64_t hash_of_static(const Domain& domain, std::uint64_t id) noexcept {
  return (id ^ domain.id) * 0x9e3779b97f4a7c15u >> 32;
}

const Schema* find_schema(const Domain& domain, std::uint64_t id) noexcept {
  if (id >= raw::kFirstDynamicSchema) {
    const std::uint64_t at = id - raw::kFirstDynamicSchema;
    return at < kMaxSchemas ? g_schemas[at].load(std::memory_order_acquire) : nullptr;
  }
  if (id < raw::kFirstStaticSchema) return nullptr;
  return g_static_schemas.find(hash_of_static(domain, id), [&](const Schema& schema) {
    return schema.id == id && schema.domain == &domain;
  });
}

// Collects the text of a schema or enum; counts only, without a place to put it.
class TextWriter {
 public:
  explicit TextWriter(char* to) noexcept : to_(to) {}

  template <class Number>
  void put(Number number) noexcept {
    put_bytes(&number, sizeof number);
  }
  void put_text(const char* text) noexcept {
    const std::size_t bytes = text == nullptr ? 0 : strnlen(text, kMaxNameBytes);
    put(static_cast<std::uint16_t>(bytes));
    put_bytes(text, bytes);
  }
  std::size_t bytes() const noexcept { return bytes_; }

 private:
  void put_bytes(const void* from, std::size_t bytes) noexcept {
    if (to_ != nullptr && bytes != 0) std::memcpy(to_ + bytes_, from, bytes);
    bytes_ += bytes;
  }

  char* to_;
  std::size_t bytes_ = 0;
};

// Sets the text of a schema from what `write` puts. False without memory.
template <class Write>
bool keep_text(Schema& schema, const Write& write) noexcept {
  TextWriter counter(nullptr);
  write(counter);
  schema.text = static_cast<char*>(std::malloc(counter.bytes()));
  if (schema.text == nullptr) return false;
  TextWriter writer(schema.text);
  write(writer);
  schema.text_bytes = writer.bytes();
  return true;
}

void release(Schema* schema) noexcept {
  if (schema == nullptr) return;
  std::free(schema->text);
  std::free(schema->entries);
  delete schema;
}

bool is_alike(const Schema& one, const Schema& other) noexcept {
  return one.kind == other.kind && one.text_bytes == other.text_bytes &&
         std::memcmp(one.text, other.text, one.text_bytes) == 0;
}

// Counts the schemas that are in place, those of other threads too.
void count_schemas() noexcept {
  std::size_t count = g_schema_count.load(std::memory_order_acquire);
  while (count < kMaxSchemas && g_schemas[count].load(std::memory_order_acquire) != nullptr) {
    if (g_schema_count.compare_exchange_weak(count, count + 1, std::memory_order_acq_rel)) ++count;
  }
}

// Puts a schema in its place. Returns its id, or 0.
std::uint64_t publish(Schema* schema) noexcept {
  const bool is_static = schema->id != 0;
  for (std::size_t at = g_schema_count.load(std::memory_order_acquire); at < kMaxSchemas; ++at) {
    if (!is_static) schema->id = raw::kFirstDynamicSchema + at;
    Schema* none = nullptr;
    if (!g_schemas[at].compare_exchange_strong(none, schema, std::memory_order_acq_rel)) continue;
    count_schemas();
    return schema->id;
  }
  note_once(raw::Note::kTooLong, "more than 16384 payload schemas");
  if (!is_static) release(schema);  // others may have found a static one already
  return 0;
}

// Registers a complete schema. One with a program's own id may be registered again as it was.
std::uint64_t add_schema(Schema* schema) noexcept {
  const std::uint64_t id = schema->id;
  if (id == 0) return publish(schema);
  if (id < raw::kFirstStaticSchema || id >= raw::kFirstDynamicSchema) {
    release(schema);
    return 0;
  }
  const Domain* domain = schema->domain;
  const auto is_same_id = [&](const Schema& other) {
    return other.id == id && other.domain == domain;
  };
  Schema* kept = g_static_schemas.add(hash_of_static(*domain, id), schema, is_same_id);
  if (kept == schema) return publish(schema);
  const bool is_same = is_alike(*kept, *schema);
  release(schema);
  return is_same ? id : 0;
}

void measure(Entry& entry, const Domain& domain, std::size_t pack_align, bool& speaks) noexcept {
  entry.bytes = entry.align = raw::payload_type_bytes(entry.type);
  if (const Schema* nested = find_schema(domain, entry.type)) {
    entry.bytes = nested->bytes;
    entry.align = nested->align;
    if (nested->kind == raw::Kind::kSchema) entry.nested = nested;
    speaks = speaks || nested->speaks;
  }
  if (entry.is_pointer()) entry.align = sizeof(void*);
  if (entry.align == 0) entry.align = 1;
  if (pack_align != 0 && entry.align > pack_align) {
    entry.align = static_cast<std::uint32_t>(pack_align);
  }
  const bool is_about_event = (entry.flags & raw::kEntryMessage) != 0 ||
                              entry.type == raw::kTypeCategory || entry.type == raw::kTypeColor;
  speaks = speaks || entry.is_pointer() || is_about_event ||
           entry.type == raw::kTypeRegisteredString;
}

constexpr std::size_t align_up(std::size_t at, std::size_t align) {
  return (at + align - 1) / align * align;
}

// Elements of an entry that are in the payload; 0: not known before the payload is.
std::uint64_t static_elements(const Entry& entry) noexcept {
  if (entry.is_pointer()) return 1;
  const std::uint64_t array = entry.flags & raw::kEntryArrayMask;
  if (raw::is_string_type(entry.type) && (array == 0 || array == raw::kEntryArrayFixed)) {
    return entry.detail;
  }
  if (array == 0) return 1;
  return array == raw::kEntryArrayFixed ? entry.detail : 0;
}

std::size_t element_bytes(const Entry& entry) noexcept {
  return entry.is_pointer() ? sizeof(void*) : entry.bytes;
}

// Sets the size and alignment of a schema that does not say, or 0.
void measure(Schema& schema) noexcept {
  std::size_t end = 0;
  std::size_t largest = 0;
  bool is_known = schema.type != raw::SchemaType::kDynamic;
  schema.align = 1;
  for (std::size_t at = 0; at < schema.entry_count; ++at) {
    const Entry& entry = schema.entries[at];
    if (entry.align > schema.align) schema.align = entry.align;
    const std::size_t bytes = element_bytes(entry) * static_elements(entry);
    is_known = is_known && bytes != 0 && bytes < (1u << 30) && entry.offset < (1u << 30);
    if (!is_known) continue;
    end = (entry.offset != 0 || at == 0 ? entry.offset : align_up(end, entry.align)) + bytes;
    if (bytes > largest) largest = bytes;
  }
  if (schema.bytes != 0) return;
  if (schema.type != raw::SchemaType::kStatic) end = largest;
  schema.bytes = is_known ? static_cast<std::uint32_t>(align_up(end, schema.align)) : 0;
}

std::uint64_t register_schema(Domain& domain, const SchemaAttributes& given,
                              std::uint16_t compat_id) noexcept {
  constexpr std::uint64_t kNeeded = kSchemaKind | kSchemaEntries | kSchemaEntryCount;
  const auto has = [&given](std::uint64_t field) { return (given.fields & field) != 0; };
  const bool is_whole = (given.fields & kNeeded) == kNeeded && given.entries != nullptr;
  if (!is_whole || given.entry_count == 0 || given.entry_count > kMaxEntries) return 0;
  auto* schema = new (std::nothrow) Schema{};
  auto* entries = static_cast<Entry*>(std::calloc(given.entry_count, sizeof(Entry)));
  if (schema == nullptr || entries == nullptr) {
    delete schema;
    std::free(entries);
    return 0;
  }
  const std::size_t pack_align = has(kSchemaPackAlign) ? given.pack_align : 0;
  const std::size_t static_bytes = has(kSchemaStaticBytes) ? given.static_bytes : 0;
  schema->id = has(kSchemaId) ? given.id : 0;
  schema->domain = &domain;
  schema->kind = raw::Kind::kSchema;
  schema->type = static_cast<raw::SchemaType>(given.kind);
  schema->bytes = static_bytes < (1u << 31) ? static_cast<std::uint32_t>(static_bytes) : 0;
  if (schema->type == raw::SchemaType::kDynamic) schema->bytes = 0;
  schema->entries = entries;
  schema->entry_count = given.entry_count;
  for (std::size_t at = 0; at < given.entry_count; ++at) {
    const SchemaEntry& entry = given.entries[at];
    entries[at] = {entry.flags, entry.type, entry.detail, entry.offset, 0, 0, nullptr};
    measure(entries[at], domain, pack_align, schema->speaks);
  }
  measure(*schema);
  const bool is_kept = keep_text(*schema, [&](TextWriter& writer) {
    writer.put(raw::kPayloadTextVersion);
    writer.put(compat_id);
    writer.put(static_cast<std::uint32_t>(given.kind));
    writer.put(has(kSchemaFlags) ? given.flags : std::uint64_t{0});
    writer.put(static_cast<std::uint64_t>(schema->bytes));
    writer.put(static_cast<std::uint64_t>(pack_align));
    writer.put_text(has(kSchemaName) ? given.name : nullptr);
    writer.put(static_cast<std::uint32_t>(given.entry_count));
    for (std::size_t at = 0; at < given.entry_count; ++at) {
      const Entry& entry = entries[at];
      writer.put(entry.flags);
      writer.put(entry.type);
      writer.put(entry.detail);
      writer.put(entry.offset);
      writer.put(entry.bytes);
      writer.put(entry.align);
      writer.put_text(given.entries[at].name);
      writer.put_text(given.entries[at].description);
    }
  });
  if (is_kept) return add_schema(schema);
  release(schema);
  return 0;
}

std::uint64_t register_enum(Domain& domain, const EnumAttributes& given,
                            std::uint16_t compat_id) noexcept {
  constexpr std::uint64_t kNeeded = kEnumEntries | kEnumEntryCount | kEnumBytes;
  const bool is_whole = (given.fields & kNeeded) == kNeeded && given.entries != nullptr;
  if (!is_whole || given.bytes == 0 || given.bytes > 8 || given.entry_count > kMaxEntries) return 0;
  auto* schema = new (std::nothrow) Schema{};
  if (schema == nullptr) return 0;
  schema->id = (given.fields & kEnumId) != 0 ? given.id : 0;
  schema->domain = &domain;
  schema->kind = raw::Kind::kEnum;
  schema->bytes = schema->align = static_cast<std::uint32_t>(given.bytes);
  const bool is_kept = keep_text(*schema, [&](TextWriter& writer) {
    writer.put(raw::kPayloadTextVersion);
    writer.put(compat_id);
    writer.put(schema->bytes);
    writer.put_text((given.fields & kEnumName) != 0 ? given.name : nullptr);
    writer.put(static_cast<std::uint32_t>(given.entry_count));
    for (std::size_t at = 0; at < given.entry_count; ++at) {
      writer.put(given.entries[at].value);
      writer.put(static_cast<std::uint8_t>(given.entries[at].is_flag != 0));
      writer.put_text(given.entries[at].name);
    }
  });
  if (is_kept) return add_schema(schema);
  release(schema);
  return 0;
}

// --- Payloads ------------------------------------------------------------------------------------

// What a pointer in a payload leads to.
struct Target {
  std::uint32_t offset;  // of the pointer
  std::uint32_t bytes;
  const void* data;
};

// Goes through one payload by its schema: collects what pointers lead to, and gives the event what
// the payload says about it. Sizes in payloads are not believed.
class PayloadWalk {
 public:
  PayloadWalk(const Payload& payload, Event* event) noexcept
      : base_(static_cast<const char*>(payload.data)), bytes_(payload.bytes), event_(event) {}

  void walk(const Schema& schema) noexcept { walk(schema, 0, 0, kNoMember); }

  const Target* targets() const noexcept { return targets_; }
  std::size_t target_count() const noexcept { return target_count_; }
  bool has_lost() const noexcept { return has_lost_; }

 private:
  static constexpr std::size_t kNoMember = ~std::size_t{0};

  // Returns where the payload goes on after a schema that begins at `start`.
  std::size_t walk(const Schema& schema, std::size_t start, int nesting,
                   std::size_t member) noexcept {
    const bool is_union = schema.type == raw::SchemaType::kUnion ||
                          schema.type == raw::SchemaType::kUnionInternalSelector;
    std::size_t at = start;
    for (std::size_t i = 0; i < schema.entry_count && at <= bytes_; ++i) {
      const Entry& entry = schema.entries[i];
      if (is_union && i != member) continue;
      if (entry.offset != 0 || i == 0 || is_union) {
        at = start + entry.offset;
      } else {
        at = align_up(at, entry.align);
      }
      at = visit(schema, entry, start, at, nesting);
    }
    return schema.bytes != 0 ? start + schema.bytes : at;
  }

  std::size_t visit(const Schema& schema, const Entry& entry, std::size_t start, std::size_t at,
                    int nesting) noexcept {
    if (entry.is_pointer()) {
      follow(schema, entry, start, at);
      return at + sizeof(void*);
    }
    const std::uint64_t elements = count(schema, entry, start, at);
    if (raw::is_string_type(entry.type)) {
      if ((entry.flags & raw::kEntryMessage) != 0) set_name(entry, at, elements);
      return at + elements * entry.bytes;
    }
    const std::size_t member =
        entry.nested != nullptr && entry.nested->type == raw::SchemaType::kUnion
            ? value_of(schema, entry.detail, start)
            : kNoMember;
    for (std::uint64_t i = 0; i < elements && at < bytes_; ++i) {
      if (++steps_ > kMaxSteps) {
        has_lost_ = has_lost_ || (entry.nested != nullptr && entry.nested->speaks);
        return bytes_ + 1;
      }
      const bool is_worth_it =
          entry.nested != nullptr && (entry.nested->speaks || entry.bytes == 0);
      if (is_worth_it && nesting < kMaxNesting) {
        at = walk(*entry.nested, at, nesting + 1, member);
      } else if (says_something(entry)) {
        visit_value(entry, at);
        at += entry.bytes;
      } else {
        return at + (elements - i) * entry.bytes;
      }
    }
    return at;
  }

  static bool says_something(const Entry& entry) noexcept {
    return entry.type == raw::kTypeCategory || entry.type == raw::kTypeColor ||
           entry.type == raw::kTypeRegisteredString;
  }

  void visit_value(const Entry& entry, std::size_t at) noexcept {
    if (entry.type == raw::kTypeRegisteredString) {
      const RegisteredText* text = nullptr;
      if (!read(at, text) || text == nullptr) return;
      add_target(at, text->text, text->bytes);
      if (event_ != nullptr && (entry.flags & raw::kEntryMessage) != 0) event_->set_name(text);
    } else if (event_ != nullptr) {
      std::uint32_t value = 0;
      if (!read(at, value)) return;
      if (entry.type == raw::kTypeCategory) {
        event_->category = value;
      } else {
        event_->has_color = true;
        event_->color = value;
      }
    }
  }

  // Returns how many elements of an entry lie in the payload, at most as many as have room.
  std::uint64_t count(const Schema& schema, const Entry& entry, std::size_t start,
                      std::size_t at) const noexcept {
    const std::uint64_t bytes = entry.bytes == 0 ? 1 : entry.bytes;
    const std::uint64_t room = at < bytes_ ? (bytes_ - at) / bytes : 0;
    const std::uint64_t stated = stated_count(schema, entry, start, at, room);
    return stated < room ? stated : room;
  }

  std::uint64_t stated_count(const Schema& schema, const Entry& entry, std::size_t start,
                             std::size_t at, std::uint64_t room) const noexcept {
    switch (entry.flags & raw::kEntryArrayMask) {
      case 0:
        return raw::is_string_type(entry.type) ? entry.detail : 1;
      case raw::kEntryArrayFixed:
        return entry.detail;
      case raw::kEntryArrayLengthIndex:
        return value_of(schema, entry.detail, start);
      case raw::kEntryArrayZeroTerminated:
        return terminated(entry, at, room);
      default:
        return room;
    }
  }

  // Returns the number of elements up to one of zeros, that one included.
  std::uint64_t terminated(const Entry& entry, std::size_t at, std::uint64_t room) const noexcept {
    for (std::uint64_t i = 0; i < room && i < kMaxTargetBytes; ++i) {
      const char* element = base_ + at + i * entry.bytes;
      bool is_zero = true;
      for (std::uint32_t byte = 0; byte < entry.bytes; ++byte) is_zero &= element[byte] == 0;
      if (is_zero) return i + 1;
    }
    return room;
  }

  // Returns the value of an integer entry of fixed place, for lengths and selectors; else 0.
  std::uint64_t value_of(const Schema& schema, std::uint64_t place,
                         std::size_t start) const noexcept {
    if (place >= schema.entry_count) return 0;
    std::size_t at = start;
    for (std::size_t i = 0; i <= place; ++i) {
      const Entry& entry = schema.entries[i];
      at = entry.offset != 0 || i == 0 ? start + entry.offset : align_up(at, entry.align);
      if (i == place) return integer(entry, at);
      const std::uint64_t elements = static_elements(entry);
      if (elements == 0 || elements > bytes_ || element_bytes(entry) == 0) return 0;
      at += elements * element_bytes(entry);
    }
    return 0;
  }

  std::uint64_t integer(const Entry& entry, std::size_t at) const noexcept {
    std::uint64_t value = 0;
    if (entry.bytes == 0 || entry.bytes > 8 || at > bytes_ || bytes_ - at < entry.bytes) return 0;
    std::memcpy(&value, base_ + at, entry.bytes);
    const bool is_negative = (value >> (entry.bytes * 8 - 1)) != 0;
    return is_negative && is_signed(entry.type) ? 0 : value;
  }

  static bool is_signed(std::uint64_t type) noexcept {
    switch (type) {
      case raw::kTypeShort: case raw::kTypeInt: case raw::kTypeLong: case raw::kTypeLongLong:
      case raw::kTypeInt8: case raw::kTypeInt16: case raw::kTypeInt32: case raw::kTypeInt64:
        return true;
      default:
        return false;
    }
  }

  void follow(const Schema& schema, const Entry& entry, std::size_t start,
              std::size_t at) noexcept {
    const char* to = nullptr;
    if (!read(at, to) || to == nullptr) return;
    if (raw::is_string_type(entry.type)) {
      follow_text(entry, at, to, text_units(schema, entry, start));
      return;
    }
    std::uint64_t elements = 1;
    const std::uint64_t array = entry.flags & raw::kEntryArrayMask;
    if (array == raw::kEntryArrayFixed) elements = entry.detail;
    if (array == raw::kEntryArrayLengthIndex) elements = value_of(schema, entry.detail, start);
    const bool is_unknown = array > raw::kEntryArrayLengthIndex ||
                            array == raw::kEntryArrayZeroTerminated || entry.bytes == 0;
    if (is_unknown || elements > kMaxTargetBytes / entry.bytes) {
      has_lost_ = true;
      return;
    }
    add_target(at, to, elements * entry.bytes);
  }

  // Returns at how many units a text that is pointed to ends, if not at a zero.
  std::size_t text_units(const Schema& schema, const Entry& entry,
                         std::size_t start) const noexcept {
    const std::uint64_t array = entry.flags & raw::kEntryArrayMask;
    std::uint64_t units = kMaxTargetBytes;
    if (array == raw::kEntryArrayLengthIndex) {
      units = value_of(schema, entry.detail, start);
    } else if ((array == 0 || array == raw::kEntryArrayFixed) && entry.detail != 0) {
      units = entry.detail;
    }
    return units < kMaxTargetBytes ? units : kMaxTargetBytes;
  }

  void follow_text(const Entry& entry, std::size_t at, const char* to,
                   std::size_t units) noexcept {
    if (entry.bytes == 1) {
      const std::string_view text(to, strnlen(to, units));
      has_lost_ = has_lost_ || text.size() == kMaxTargetBytes;
      add_target(at, text.data(), text.size());
      if (event_ != nullptr && (entry.flags & raw::kEntryMessage) != 0) event_->set_name(text);
      return;
    }
    // Converted texts need a place until the record is written.
    if (converted_count_ == kMaxConverted) {
      has_lost_ = true;
      return;
    }
    Utf8Text& place = converted_[converted_count_++];
    const std::string_view text =
        entry.bytes == 2 ? place.from_utf16(to, units) : place.from_utf32(to, units);
    add_target(at, text.data(), text.size());
    if (event_ == nullptr || (entry.flags & raw::kEntryMessage) == 0) return;
    event_->set_name(entry.bytes == 2 ? event_->converted.from_utf16(to, units)
                                      : event_->converted.from_utf32(to, units));
  }

  void set_name(const Entry& entry, std::size_t at, std::uint64_t units) noexcept {
    if (event_ == nullptr || at >= bytes_ || units == 0) return;
    const char* text = base_ + at;
    if (entry.bytes == 1) {
      event_->set_name(std::string_view(text, strnlen(text, units)));
    } else if (entry.bytes == 2) {
      event_->set_name(event_->converted.from_utf16(text, units));
    } else {
      event_->set_name(event_->converted.from_utf32(text, units));
    }
  }

  template <class Value>
  bool read(std::size_t at, Value& value) const noexcept {
    if (at > bytes_ || bytes_ - at < sizeof value) return false;
    std::memcpy(&value, base_ + at, sizeof value);
    return true;
  }

  void add_target(std::size_t at, const void* data, std::size_t bytes) noexcept {
    const bool has_room = target_count_ < kMaxTargets && bytes <= kMaxTargetBytes &&
                          target_bytes_ + bytes <= kMaxAllTargets;
    if (!has_room) {
      has_lost_ = true;
      return;
    }
    target_bytes_ += bytes;
    targets_[target_count_++] = {static_cast<std::uint32_t>(at), static_cast<std::uint32_t>(bytes),
                                 data};
  }

  static constexpr std::size_t kMaxConverted = 4;

  const char* base_;
  std::size_t bytes_;
  Event* event_;
  std::size_t steps_ = 0;
  std::size_t target_count_ = 0;
  std::size_t target_bytes_ = 0;
  std::size_t converted_count_ = 0;
  bool has_lost_ = false;
  Target targets_[kMaxTargets];
  Utf8Text converted_[kMaxConverted];
};

// Returns the payload with its size in bytes, which a program may leave to us for texts.
Payload measured(const Payload& given) noexcept {
  Payload payload = given;
  if (payload.data == nullptr) payload.bytes = 0;
  if (payload.bytes != ~std::size_t{0}) return payload;
  payload.bytes = 0;
  if (payload.schema_id == raw::kTypeString || payload.schema_id == raw::kTypeStringUtf8) {
    payload.bytes = strnlen(static_cast<const char*>(payload.data), raw::kMaxPayloadBytes + 1);
  }
  return payload;
}

const Schema* speaking_schema(const Domain& domain, const Payload& payload) noexcept {
  const Schema* schema = find_schema(domain, payload.schema_id);
  const bool speaks = schema != nullptr && schema->kind == raw::Kind::kSchema && schema->speaks;
  return speaks ? schema : nullptr;
}

void put_padded(std::uint64_t*& to, const void* data, std::size_t bytes) noexcept {
  const std::size_t words = raw::words_for(bytes);
  if (words == 0) return;
  to[words - 1] = 0;
  std::memcpy(to, data, bytes);
  to += words;
}

std::size_t words_of_targets(const PayloadWalk& walk) noexcept {
  std::size_t words = 1;
  for (std::size_t i = 0; i < walk.target_count(); ++i) {
    words += 1 + raw::words_for(walk.targets()[i].bytes);
  }
  return words;
}

void put_targets(std::uint64_t* to, const PayloadWalk& walk) noexcept {
  *to++ = walk.target_count();
  for (std::size_t i = 0; i < walk.target_count(); ++i) {
    const Target& target = walk.targets()[i];
    *to++ = std::uint64_t{target.bytes} << 32 | target.offset;
    put_padded(to, target.data, target.bytes);
  }
}

void put_payload(ThreadLog& log, std::uint32_t place, const Payload& payload,
                 const PayloadWalk* walk) noexcept {
  const bool has_targets = walk != nullptr && walk->target_count() != 0;
  const std::size_t fixed = 3 + raw::words_for(payload.bytes);
  const std::size_t words = fixed + (has_targets ? words_of_targets(*walk) : 0);
  std::uint64_t* room = log.reserve(words);
  if (room == nullptr) return;
  room[1] = payload.schema_id;
  room[2] = payload.bytes;
  std::uint64_t* to = room + 3;
  put_padded(to, payload.data, payload.bytes);
  if (has_targets) put_targets(to, *walk);
  log.commit(room, raw::Kind::kPayload, has_targets ? raw::kPayloadHasTargets : std::uint8_t{0}, words,
             place, false);
}

[[gnu::noinline]] bool put_speaking_payload(ThreadLog& log, std::uint32_t place,
                                            const Payload& payload,
                                            const Schema& schema) noexcept {
  PayloadWalk walk(payload, nullptr);
  walk.walk(schema);
  put_payload(log, place, payload, &walk);
  return !walk.has_lost();
}

}  // namespace

void read_payload_attributes(Domain& domain, Event& event) noexcept {
  for (std::size_t i = 0; i < event.payload_count && i < kMaxPayloads; ++i) {
    const Payload payload = measured(event.payloads[i]);
    if (payload.bytes == 0) continue;
    if (const Schema* schema = speaking_schema(domain, payload)) {
      PayloadWalk walk(payload, &event);
      walk.walk(*schema);
    }
  }
}

bool define_schemas(ThreadLog& log, std::uint64_t& defined) noexcept {
  const std::size_t count = g_schema_count.load(std::memory_order_acquire);
  for (; defined < count; ++defined) {
    const Schema& schema = *g_schemas[defined].load(std::memory_order_acquire);
    const Domain& domain = *schema.domain;
    if (domain.id != 0 && !log.define_domain(domain.id, domain.view())) return false;
    if (schema.text_bytes > raw::kMaxTextBytes) {
      log.count_cut();
    } else if (!log.define(schema.kind, domain.id, schema.id, {schema.text, schema.text_bytes})) {
      return false;
    }
  }
  return true;
}

void write_payloads(ThreadLog& log, Domain& domain, const Payload* payloads,
                    std::size_t count) noexcept {
  if (count > kMaxPayloads) {
    log.count_cut();
    count = kMaxPayloads;
  }
  for (std::size_t i = 0; i < count; ++i) {
    const Payload payload = measured(payloads[i]);
    if (payload.bytes == 0) {
      if (payloads[i].bytes != 0 && payloads[i].data != nullptr) log.count_cut();
      continue;
    }
    if (payload.bytes > raw::kMaxPayloadBytes) {
      log.count_cut();
      continue;
    }
    const auto place = static_cast<std::uint32_t>(i);
    if (const Schema* schema = speaking_schema(domain, payload)) {
      if (!put_speaking_payload(log, place, payload, *schema)) log.count_cut();
    } else {
      put_payload(log, place, payload, nullptr);
    }
  }
}

// --- What the instances of NVTX call -------------------------------------------------------------

namespace {

// The two layouts are the same as far as we read them; finishing wants to know which it was.
template <std::uint16_t kCompatId>
std::uint64_t schema_register(Domain* domain, const SchemaAttributes* attributes) {
  return attributes == nullptr ? 0 : register_schema(domain_of(domain), *attributes, kCompatId);
}
template <std::uint16_t kCompatId>
std::uint64_t enum_register(Domain* domain, const EnumAttributes* attributes) {
  return attributes == nullptr ? 0 : register_enum(domain_of(domain), *attributes, kCompatId);
}

void mark_payload(Domain* domain, const Payload* payloads, std::size_t count) {
  mark(domain_of(domain), Given::payloads(payloads, count));
}
int push_payload(Domain* domain, const Payload* payloads, std::size_t count) {
  return push_range(domain_of(domain), Given::payloads(payloads, count));
}
int pop_payload(Domain* domain, const Payload* payloads, std::size_t count) {
  return pop_range(domain_of(domain), Given::payloads(payloads, payloads == nullptr ? 0 : count));
}
std::uint64_t start_payload(Domain* domain, const Payload* payloads, std::size_t count) {
  return start_range(domain_of(domain), Given::payloads(payloads, count));
}
void end_payload(Domain* domain, std::uint64_t id, const Payload* payloads, std::size_t count) {
  stop_range(domain_of(domain), id, Given::payloads(payloads, payloads == nullptr ? 0 : count));
}
// Programs ask once and keep the answer, and a later session of the process may want other domains.
// The events of a domain that is not wanted now cost next to nothing.
std::uint8_t domain_is_enabled(Domain*) { return 1; }
std::int64_t timestamp_get() { return now_ns(); }

// Programs go on with these ids, but nothing is kept of what they stand for.
std::uint64_t next_id(std::uint64_t own) noexcept {
  return own != 0 ? own : g_next_id.fetch_add(1, std::memory_order_relaxed);
}
std::uint64_t scope_register(Domain*, const ScopeAttributes* attributes) {
  if (attributes == nullptr || attributes->bytes < sizeof *attributes) return 0;
  return next_id(attributes->id);
}
std::uint64_t time_domain_register(Domain*, const TimeDomainAttributes* attributes) {
  return attributes == nullptr ? 0 : next_id(attributes->id);
}
std::uint64_t counter_register(Domain*, const CounterAttributes* attributes) {
  note_once(raw::Note::kNvtxUnknownCall, "nvtxCounterRegister");
  if (attributes == nullptr || attributes->bytes < sizeof *attributes) return 0;
  return next_id(attributes->id);
}
void event_submit(Domain*, const Payload*, std::size_t) {
  note_once(raw::Note::kNvtxUnknownCall, "nvtxEventSubmit");
}
void event_batch_submit(Domain*, const void*) {
  note_once(raw::Note::kNvtxUnknownCall, "nvtxEventBatchSubmit");
}

template <class Called>
void set(ExtensionModule& module, std::size_t at, Called* function) {
  ExtensionSegment& segment = module.segment[0];
  if (at < segment.slots) segment.functions[at] = reinterpret_cast<std::intptr_t>(function);
}

template <std::uint16_t kCompatId>
void fill_registration(ExtensionModule& module) {
  set(module, kSchemaRegister, schema_register<kCompatId>);
  set(module, kEnumRegister, enum_register<kCompatId>);
}

void fill_payload(ExtensionModule& module) {
  if (module.compat_id == raw::kOldestCompatId) {
    fill_registration<raw::kOldestCompatId>(module);
  } else {
    fill_registration<raw::kNewestCompatId>(module);
  }
  set(module, kMarkPayload, mark_payload);
  set(module, kRangePushPayload, push_payload);
  set(module, kRangePopPayload, pop_payload);
  set(module, kRangeStartPayload, start_payload);
  set(module, kRangeEndPayload, end_payload);
  set(module, kDomainIsEnabled, domain_is_enabled);
  set(module, kScopeRegister, scope_register);
  set(module, kTimestampGet, timestamp_get);
  set(module, kTimeDomainRegister, time_domain_register);
  set(module, kEventSubmit, event_submit);
  set(module, kEventBatchSubmit, event_batch_submit);
}

void note_unknown(const ExtensionModule& module) {
  constexpr char kDigits[] = "0123456789abcdef";
  char text[] = "NVTX extension 0x0000, compatibility 0x0000";
  for (int digit = 0; digit < 4; ++digit) {
    text[20 - digit] = kDigits[module.module >> (4 * digit) & 15];
    text[42 - digit] = kDigits[module.compat_id >> (4 * digit) & 15];
  }
  note_once(raw::Note::kPayloadUnknown, text);
}

}  // namespace
}  // namespace warpline::agent::nvtx

// Called once for every extension of every instance of NVTX. Returning 0 makes its functions do
// nothing from then on, and tells programs that no domain is enabled. So an extension of an
// unknown version gets 1 and no functions: then it does nothing, but says that domains are on.
extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtxExtension(
    warpline::agent::nvtx::ExtensionModule* module) {
  using namespace warpline::agent;
  namespace raw = warpline::raw;
  if (module == nullptr || !ensure_attached()) return 0;
  const bool is_whole = module->bytes >= sizeof *module && module->segments >= 1 &&
                        module->segment != nullptr && module->segment->functions != nullptr;
  if (!is_whole) return 0;
  const std::uint16_t compat_id = module->compat_id;
  if (module->module == nvtx::kExtensionPayload && compat_id >= raw::kOldestCompatId &&
      compat_id <= raw::kNewestCompatId) {
    nvtx::fill_payload(*module);
  } else if (module->module == nvtx::kExtensionCounters) {
    nvtx::set(*module, nvtx::kCounterRegister, nvtx::counter_register);
  } else {
    nvtx::note_unknown(*module);
  }
  return 1;
}
