// The C boundary of the JSON scan: nothing is thrown across it.
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "boundary.h"
#include "json_blocks.h"
#include "warpline_core.h"

struct wl_json {
  wl_json(const std::vector<std::string> &wanted, bool all, std::size_t memory_bytes,
          std::size_t block_bytes)
      : blocks(wanted, all, memory_bytes, block_bytes) {}
  const warpline::JsonScan &scan() const { return blocks.scan(); }
  warpline::JsonBlocks blocks;
  std::vector<int64_t> facts;
};

namespace {

using warpline::JsonEvents;
using warpline::JsonScan;

struct Values {
  const void *data;
  std::size_t count;
  std::size_t value_bytes;
};

template <typename Column>
Values all_of(const Column &column) {
  return {column.data(), column.size(), sizeof column.data()[0]};
}

Values all_of(const warpline::Packed &column) {
  return {column.data(), column.size(), column.value_bytes()};
}

// A column of the events, by its name.
struct EventColumn {
  std::string_view name;
  Values (*get)(const JsonScan &scan);
};

constexpr EventColumn kEventColumns[] = {
    {"phase", [](const JsonScan &scan) { return all_of(scan.events().phase); }},
    {"name", [](const JsonScan &scan) { return all_of(scan.events().name); }},
    {"category", [](const JsonScan &scan) { return all_of(scan.events().category); }},
    {"pid", [](const JsonScan &scan) { return all_of(scan.events().pid); }},
    {"tid", [](const JsonScan &scan) { return all_of(scan.events().tid); }},
    {"id", [](const JsonScan &scan) { return all_of(scan.events().id); }},
    {"ts_ns", [](const JsonScan &scan) { return all_of(scan.events().ts_ns); }},
    {"dur_ns", [](const JsonScan &scan) { return all_of(scan.events().dur_ns); }},
    {"has_ts", [](const JsonScan &scan) { return all_of(scan.events().has_ts); }},
    {"has_dur", [](const JsonScan &scan) { return all_of(scan.events().has_dur); }},
    {"text", [](const JsonScan &scan) { return all_of(scan.events().texts.bytes()); }},
    {"text_offset", [](const JsonScan &scan) { return all_of(scan.events().texts.offsets()); }},
    {"member", [](const JsonScan &scan) { return all_of(scan.members()); }},
    {"member_offset", [](const JsonScan &scan) { return all_of(scan.member_offsets()); }},
};

// Reads the names that follow each other, a NUL behind each.
std::vector<std::string> names_of(const char *names, int64_t bytes) {
  std::vector<std::string> found;
  std::string_view rest(names, static_cast<std::size_t>(bytes));
  while (!rest.empty()) {
    const std::size_t end = rest.find('\0');
    warpline::require(end != std::string_view::npos);
    found.emplace_back(rest.substr(0, end));
    rest.remove_prefix(end + 1);
  }
  return found;
}

int64_t give(const Values &found, const void **values, int32_t *value_bytes) {
  *values = found.data;
  *value_bytes = static_cast<int32_t>(found.value_bytes);
  return static_cast<int64_t>(found.count);
}

// In the order of WL_JSON_FACTS in warpline_core.h.
std::vector<int64_t> facts_of(const JsonScan &scan) {
  const auto &loss = scan.loss();
  return {scan.byte_count(),    static_cast<int64_t>(scan.stopped()),
          scan.stopped_at(),    scan.trailing_at(),
          loss.not_events,      loss.bad_ts,
          loss.bad_dur,         loss.cut_texts,
          loss.long_values,     loss.deep_values,
          loss.long_events,     loss.more_arguments,
          loss.damages,         loss.damaged_at,
          scan.lost_members(),  static_cast<int64_t>(scan.events().arguments.size())};
}

}  // namespace

extern "C" {

int32_t wl_json_open(const char *names, int64_t name_bytes, int32_t all_names,
                     int64_t memory_bytes, int64_t block_bytes, wl_json **scan, char *message,
                     int64_t message_bytes) {
  return warpline::guarded(message, message_bytes, [&] {
    warpline::require(scan != nullptr && memory_bytes >= 0 && block_bytes >= 0 &&
                      name_bytes >= 0 &&
                      (names != nullptr || name_bytes == 0));
    const std::vector<std::string> wanted = names_of(names, name_bytes);
    *scan = std::make_unique<wl_json>(wanted, all_names != 0,
                                      static_cast<std::size_t>(memory_bytes),
                                      static_cast<std::size_t>(block_bytes))
                .release();
  });
}

void wl_json_close(wl_json *scan) { delete scan; }

int32_t wl_json_feed(wl_json *scan, const void *bytes, int64_t count, int32_t *wants_more,
                     char *message, int64_t message_bytes) {
  return warpline::guarded(message, message_bytes, [&] {
    warpline::require(scan != nullptr && wants_more != nullptr && scan->facts.empty() && count >= 0 &&
                      (bytes != nullptr || count == 0));
    *wants_more =
        scan->blocks.feed(static_cast<const char *>(bytes), static_cast<std::size_t>(count));
  });
}

int32_t wl_json_finish(wl_json *scan, char *message, int64_t message_bytes) {
  return warpline::guarded(message, message_bytes, [&] {
    warpline::require(scan != nullptr && scan->facts.empty());
    scan->blocks.finish();
    scan->facts = facts_of(scan->scan());
  });
}

int64_t wl_json_column(const wl_json *scan, const char *column, const void **values,
                       int32_t *value_bytes) {
  if (scan == nullptr || column == nullptr || values == nullptr || value_bytes == nullptr) {
    return -WL_BAD_ARGUMENT;
  }
  if (column == std::string_view("fact")) return give(all_of(scan->facts), values, value_bytes);
  for (const EventColumn &known : kEventColumns) {
    if (known.name == column) return give(known.get(scan->scan()), values, value_bytes);
  }
  return -WL_BAD_ARGUMENT;
}

int64_t wl_json_argument(const wl_json *scan, int64_t argument, int32_t *name,
                         const int32_t **events, const uint8_t **kinds, const void **values,
                         int32_t *value_bytes) {
  if (scan == nullptr || name == nullptr || events == nullptr || kinds == nullptr ||
      values == nullptr || value_bytes == nullptr || argument < 0 ||
      static_cast<std::size_t>(argument) >= scan->scan().events().arguments.size()) {
    return -WL_BAD_ARGUMENT;
  }
  const auto &found = scan->scan().events().arguments[static_cast<std::size_t>(argument)];
  *name = found.key;
  *events = found.event.data();
  *kinds = found.kind.data();
  *values = found.value.data();
  *value_bytes = static_cast<int32_t>(found.value.value_bytes());
  return static_cast<int64_t>(found.event.size());
}

}  // extern "C"
