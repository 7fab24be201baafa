#include "nvtx/schemas.h"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>

#include "session/process.h"
#include "session/thread_log.h"

namespace warpline::agent::nvtx {
namespace {

constexpr std::size_t kMaxSchemas = 1u << 14;
constexpr std::size_t kMaxEntries = 4096;    // of one schema
constexpr std::size_t kMaxNameBytes = 1024;  // of a schema, an entry, an enum's value

// In order of registration, without gaps: what a schema nests stands before it.
constinit std::atomic<Schema*> g_schemas[kMaxSchemas];
constinit std::atomic<std::size_t> g_schema_count{0};
constinit GrowingTable<Schema, 256> g_static_schemas;

std::uint64_t hash_of_static(const Domain& domain, std::uint64_t id) noexcept {
  return (id ^ domain.id) * 0x9e3779b97f4a7c15u >> 32;
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

}  // namespace

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

}  // namespace warpline::agent::nvtx
