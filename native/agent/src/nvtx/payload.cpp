// The payloads of NVTX events: blobs, read as their schemas describe them. What is written is
// described in warpline_payload.h.
#include "warpline_payload.h"

#include <cstring>

#include "nvtx/abi.h"
#include "nvtx/events.h"
#include "nvtx/names.h"
#include "nvtx/schemas.h"
#include "session/clock.h"
#include "session/process.h"
#include "session/thread_log.h"

namespace warpline::agent::nvtx {
namespace {

constexpr std::size_t kMaxPayloads = 64;        // of one event
constexpr std::size_t kMaxTargets = 64;         // of one payload
constexpr std::size_t kMaxTargetBytes = 16384;  // of one target
constexpr std::size_t kMaxAllTargets = 49152;   // of one payload; the largest fits beside them
constexpr std::size_t kMaxSteps = 4096;         // of a walk through one payload
constexpr int kMaxNesting = 8;

// What a pointer in a payload leads to.
struct Target {
  std::uint32_t offset;  // of the pointer
  std::uint32_t bytes;   // kTargetInSlot: of a registered string that is written once per log
  const void* data;      // RegisteredText then
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
      if (ThreadLog::writes_once(text->serial)) {
        add_target_in_slot(at, *text);
      } else {
        add_target(at, text->text, text->bytes);
      }
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

  void add_target_in_slot(std::size_t at, const RegisteredText& text) noexcept {
    if (target_count_ == kMaxTargets) {
      has_lost_ = true;
      return;
    }
    targets_[target_count_++] = {static_cast<std::uint32_t>(at), raw::kTargetInSlot, &text};
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

const RegisteredText& registered_text(const Target& target) noexcept {
  return *static_cast<const RegisteredText*>(target.data);
}

// Writes the registered strings that the log does not have yet.
bool define_texts(ThreadLog& log, const PayloadWalk& walk) noexcept {
  for (std::size_t i = 0; i < walk.target_count(); ++i) {
    const Target& target = walk.targets()[i];
    if (target.bytes != raw::kTargetInSlot) continue;
    const RegisteredText& text = registered_text(target);
    std::uint32_t slot = 0;
    if (!log.intern_registered(text.serial, text.view(), slot)) return false;
  }
  return true;
}

std::size_t words_of_targets(const PayloadWalk& walk) noexcept {
  std::size_t words = 1;
  for (std::size_t i = 0; i < walk.target_count(); ++i) {
    const std::uint32_t bytes = walk.targets()[i].bytes;
    words += 1 + (bytes == raw::kTargetInSlot ? 1 : raw::words_for(bytes));
  }
  return words;
}

void put_targets(std::uint64_t* to, const PayloadWalk& walk) noexcept {
  *to++ = walk.target_count();
  for (std::size_t i = 0; i < walk.target_count(); ++i) {
    const Target& target = walk.targets()[i];
    *to++ = std::uint64_t{target.bytes} << 32 | target.offset;
    if (target.bytes == raw::kTargetInSlot) {
      *to++ = ThreadLog::slot_of(registered_text(target).serial);
    } else {
      put_padded(to, target.data, target.bytes);
    }
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
  if (!define_texts(log, walk)) return false;
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

}  // namespace warpline::agent::nvtx
