#include "raw/payload.h"

#include <cstring>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>

#include "failure.h"
#include "raw/layout.h"
#include "raw/log.h"
#include "warpline_payload.h"

namespace warpline {

namespace {

constexpr std::size_t kMaxTargets = 4096;

// The layouts that a process registered in a domain, or one that it was forked from did.
class ProcessLayouts final : public Layouts {
 public:
  explicit ProcessLayouts(const RawTables &tables) : tables_(tables) {}

  void choose(int32_t process, uint32_t domain) {
    process_ = process;
    domain_ = domain;
  }

  const RawSchema *schema(uint64_t id) override {
    return find(schemas_, tables_.schemas, id, parse_schema);
  }
  const RawEnum *enumeration(uint64_t id) override {
    return find(enums_, tables_.enums, id, parse_enum);
  }

 private:
  using Key = std::tuple<int32_t, uint32_t, uint64_t>;

  template <typename Parsed, typename Parse>
  const Parsed *find(std::map<Key, std::optional<Parsed>> &parsed,
                     const std::map<Key, std::string> &registered, uint64_t id,
                     const Parse &parse) {
    const auto [place, is_new] = parsed.try_emplace({process_, domain_, id});
    if (is_new) {
      for_ancestry(tables_, process_, [&](int32_t process) {
        const auto found = registered.find({process, domain_, id});
        if (found != registered.end()) place->second = parse(found->second);
        return found != registered.end();
      });
    }
    return place->second ? &*place->second : nullptr;
  }

  const RawTables &tables_;
  int32_t process_ = 0;
  uint32_t domain_ = 0;
  std::map<Key, std::optional<RawSchema>> schemas_;
  std::map<Key, std::optional<RawEnum>> enums_;
};

std::optional<std::string_view> text_in_slot(const RawTables &tables, uint32_t log, uint64_t slot) {
  const std::vector<int32_t> &slots = tables.logs[log].slots;
  if (slot >= slots.size() || slots[slot] < 0) return std::nullopt;
  return tables.texts.text(slots[slot]);
}

// Reads what pointers pointed to; what does not fit the record is left out.
Targets read_targets(const RawTables &tables, uint32_t log, const uint64_t *at,
                     std::size_t words) {
  Targets targets;
  if (words == 0) return targets;
  const uint64_t count = *at++;
  --words;
  for (uint64_t number = 0; number < count && number < kMaxTargets && words > 0; ++number) {
    const auto offset = static_cast<uint32_t>(*at);
    const std::size_t bytes = *at++ >> 32;
    --words;
    if (bytes == raw::kTargetInSlot) {
      if (words == 0) break;
      if (const auto text = text_in_slot(tables, log, *at)) targets.try_emplace(offset, *text);
      ++at;
      --words;
      continue;
    }
    if (raw::words_for(bytes) > words) break;
    targets.try_emplace(offset, reinterpret_cast<const char *>(at), bytes);
    at += raw::words_for(bytes);
    words -= raw::words_for(bytes);
  }
  return targets;
}

// Returns nothing for a log that is gone since it was decoded.
std::unique_ptr<RawLog> open_log(const std::string &path) {
  try {
    return std::make_unique<RawLog>(path);
  } catch (const Failure &) {
    return nullptr;
  }
}

int32_t process_of(RawTables &tables, const RawPayload &payload) {
  const RawLabel &label = tables.labels[label_number(tables, payload.owner_kind, payload.owner)];
  return tables.threads[label.thread].process;
}

void add_values(RawTables &tables, const RawPayload &payload, std::vector<PayloadValue> &&found) {
  for (const PayloadValue &item : found) {
    if (tables.values.size() >= kMaxRows) return;
    RawValue value;
    value.owner = payload.owner;
    value.owner_kind = payload.owner_kind;
    value.kind = item.kind;
    value.key = tables.texts.intern(item.key);
    value.bits = static_cast<int64_t>(item.number);
    if (item.kind == ValueKind::kReal) std::memcpy(&value.bits, &item.real, sizeof item.real);
    if (item.kind == ValueKind::kText) value.bits = tables.texts.intern(item.text);
    tables.values.push_back(value);
    if (item.is_message && item.kind == ValueKind::kText) {
      uint32_t &number = label_number(tables, payload.owner_kind, payload.owner);
      RawLabel label = tables.labels[number];
      if (label.name >= 0) continue;
      label.name = static_cast<int32_t>(value.bits);
      number = tables.labels.number_of(label);
    }
  }
}

}  // namespace

void decode_payloads(RawTables &tables) {
  ProcessLayouts layouts(tables);
  std::unique_ptr<RawLog> log;
  uint32_t open = UINT32_MAX;
  for (const RawPayload &payload : tables.payloads) {
    if (open != payload.log) {
      open = payload.log;
      log = open_log(tables.logs[open].path);
    }
    if (!log) continue;
    const uint64_t *record = log->words(payload.offset, 1);
    const std::size_t words = record == nullptr ? 0 : raw::words_of(*record);
    record = log->words(payload.offset, words);
    // The file may have changed since it was decoded.
    if (record == nullptr || words < 3 || record[2] > (words - 3) * 8) continue;
    const std::size_t bytes = record[2];
    const std::size_t behind = 3 + raw::words_for(bytes);
    const bool has_targets = (raw::flags_of(*record) & raw::kPayloadHasTargets) != 0;
    const Targets targets =
        has_targets ? read_targets(tables, open, record + behind, words - behind) : Targets();
    layouts.choose(process_of(tables, payload), payload.domain);
    const std::string_view data(reinterpret_cast<const char *>(record + 3), bytes);
    add_values(tables, payload, decode_payload(layouts, record[1], data, targets));
  }
  for (RawLogFacts &facts : tables.logs) std::vector<int32_t>().swap(facts.slots);
}

}  // namespace warpline
