// Scans damaged traces, whole, in pieces and in blocks by several threads, and looks at every column:
// under the sanitizers nothing may be found, and all ways must give the same.
//
//     json_fuzz [TEXTS [SEED]]
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "warpline_core.h"

namespace {

constexpr int64_t kMemoryBytes = int64_t{1} << 28;

class Chance {
 public:
  explicit Chance(uint64_t seed) : engine_(seed) {}
  std::size_t below(std::size_t limit) { return engine_() % limit; }
  bool once_in(std::size_t times) { return below(times) == 0; }
  template <std::size_t n>
  std::string one_of(const char *const (&texts)[n]) {
    return texts[below(n)];
  }

 private:
  std::mt19937_64 engine_;
};

[[noreturn]] void fail(const std::string &text, const char *what) {
  std::fprintf(stderr, "%s, in:\n%s\n", what, text.c_str());
  std::abort();
}

constexpr const char *kScalars[] = {
    "0", "-1", "1", "12345", "4361160766121.451", "2215.186", "1e3", "-2.5e-3", "1e400", "-0",
    "9223372036854775807", "9223372036854775808", "-9223372036854775808", "18446744073709551615",
    "123456789012345678901234567890", "0.0005", "4611686018427387.903", "NaN", "-Infinity", "nan",
    "null", "true", "false", "\"\"", "\"7\"", "\"a\\u00e9\\ud83d\\ude00\"", "\"\\ud800\"",
    "\"\\q\\\"\\\\\"", "\"\xff\xc3\xa9\xe2\x82\"", "\"void at::native::kernel<float>(int, int)\""};
constexpr const char *kKeys[] = {"ph", "cat", "name", "pid", "tid", "ts", "dur", "id", "args", "s",
                                 "bp", "External id", "correlation", "n\\u0061me", "", "stream"};
constexpr const char *kSpaces[] = {"", "", " ", "\n    ", "\t\r\n"};
constexpr const char *kMembers[] = {"schemaVersion", "deviceProperties", "traceEvents",
                                    "displayTimeUnit", "traceEventz"};

std::string quoted(const std::string &text) {
  std::string result(1, '"');
  result += text;
  result += '"';
  return result;
}

void add_comma(Chance &chance, std::string &text) {
  text += ',';
  text += chance.one_of(kSpaces);
}

std::string value_text(Chance &chance, int depth) {
  const std::size_t kind = depth > 3 ? 0 : chance.below(8);
  if (kind < 5) return chance.one_of(kScalars);
  std::string text(1, kind == 5 ? '[' : '{');
  const std::size_t count = chance.below(4);
  for (std::size_t i = 0; i < count; ++i) {
    if (i != 0) add_comma(chance, text);
    if (kind != 5) text += quoted(chance.one_of(kKeys)) + ":" + chance.one_of(kSpaces);
    text += value_text(chance, depth + 1);
  }
  return text + (kind == 5 ? ']' : '}');
}

std::string event_text(Chance &chance) {
  // Half of them begin as those of the profiler do, which is where blocks are cut.
  std::string text = chance.once_in(2) ? "{" : "{\"ph\":\"X\"";
  const std::size_t count = chance.below(10);
  for (std::size_t i = 0; i < count; ++i) {
    if (text.size() > 1) text += ',';
    text += chance.one_of(kSpaces) + quoted(chance.one_of(kKeys)) + chance.one_of(kSpaces) + ":" +
            chance.one_of(kSpaces) + value_text(chance, 0);
  }
  return text + chance.one_of(kSpaces) + "}";
}

std::string events_text(Chance &chance) {
  std::string text = "[";
  const std::size_t count = chance.below(chance.once_in(8) ? 200 : 12);
  for (std::size_t i = 0; i < count; ++i) {
    if (i != 0) add_comma(chance, text);
    text += chance.once_in(10) ? value_text(chance, 0) : event_text(chance);
  }
  return text + chance.one_of(kSpaces) + "]";
}

std::string trace_text(Chance &chance) {
  const std::string mark = chance.once_in(8) ? "\xEF\xBB\xBF" : "";
  if (chance.once_in(6)) return mark + events_text(chance);
  std::string text = mark + "{";
  const std::size_t count = chance.below(4);
  for (std::size_t i = 0; i < count; ++i) {
    text += quoted(chance.one_of(kMembers)) + ":" + value_text(chance, 1) + ",";
  }
  return text + "\"traceEvents\":" + events_text(chance) + chance.one_of(kSpaces) + "}\n";
}

void damage(Chance &chance, std::string &text) {
  constexpr const char *kInserted[] = {"\"", "\\", "{", "}", "[", "]", ",", ":", "\\u", "\\ud83d",
                                       "e", "-", "\xf0\x9f", "[[[[[[[[", "{\"a\":", "\n"};
  for (std::size_t times = chance.below(4); times > 0 && !text.empty(); --times) {
    const std::size_t at = chance.below(text.size());
    const std::size_t length = 1 + chance.below(std::min<std::size_t>(32, text.size() - at));
    switch (chance.below(6)) {
      case 0:
        text[at] = static_cast<char>(text[at] ^ (1 << chance.below(8)));
        break;
      case 1:
        text.insert(at, chance.one_of(kInserted));
        break;
      case 2:
        text.erase(at, length);
        break;
      case 3:
        text.insert(chance.below(text.size()), text.substr(at, length));
        break;
      case 4:
        text.replace(at, length, length, chance.once_in(2) ? '\0' : '\xff');
        break;
      default:
        text.resize(at);
    }
  }
}

struct Closing {
  void operator()(wl_json *scan) const { wl_json_close(scan); }
};

// Everything that a scan gives, one piece of memory after the other.
class Looked {
 public:
  std::string bytes;

  template <typename Value>
  std::vector<Value> column(const wl_json *scan, const char *name) {
    const void *values = nullptr;
    int32_t value_bytes = 0;
    const int64_t count = wl_json_column(scan, name, &values, &value_bytes);
    if (count < 0 || value_bytes != sizeof(Value)) std::abort();
    std::vector<Value> copied(static_cast<std::size_t>(count));
    if (count != 0) std::memcpy(copied.data(), values, copied.size() * sizeof(Value));
    add(copied);
    return copied;
  }

  // A column whose values have the size that the largest needs.
  std::vector<int64_t> packed(const wl_json *scan, const char *name) {
    const void *values = nullptr;
    int32_t value_bytes = 0;
    const int64_t count = wl_json_column(scan, name, &values, &value_bytes);
    if (count < 0) std::abort();
    const std::vector<int64_t> wide = unpacked(values, count, value_bytes);
    add(wide);
    return wide;
  }

  static std::vector<int64_t> unpacked(const void *values, int64_t count, int32_t value_bytes) {
    if (value_bytes < 1 || value_bytes > 8 || (value_bytes & (value_bytes - 1)) != 0) std::abort();
    const auto size = static_cast<std::size_t>(value_bytes);
    std::vector<int64_t> wide(static_cast<std::size_t>(count));
    for (std::size_t place = 0; place < wide.size(); ++place) {
      uint64_t bits = 0;
      std::memcpy(&bits, static_cast<const char *>(values) + place * size, size);
      const unsigned unused = 64 - 8 * static_cast<unsigned>(size);
      wide[place] = static_cast<int64_t>(bits << unused) >> unused;
    }
    return wide;
  }

  template <typename Value>
  void add(const std::vector<Value> &values) {
    bytes += std::to_string(values.size()) + ":";
    bytes.append(reinterpret_cast<const char *>(values.data()), values.size() * sizeof(Value));
  }
};

void check_offsets(const std::string &text, const std::vector<int64_t> &offsets,
                   std::size_t bytes) {
  if (offsets.empty() || offsets.front() != 0 ||
      offsets.back() != static_cast<int64_t>(bytes)) {
    fail(text, "the offsets of texts do not span them");
  }
}

void check_argument(const std::string &text, const wl_json *scan, int64_t number, int64_t events,
                    int64_t texts, Looked &looked) {
  int32_t name = -1;
  const int32_t *event = nullptr;
  const uint8_t *kind = nullptr;
  const void *values = nullptr;
  int32_t value_bytes = 0;
  const int64_t count =
      wl_json_argument(scan, number, &name, &event, &kind, &values, &value_bytes);
  if (count < 0 || name < 0 || name >= texts) fail(text, "an argument without a name");
  const std::vector<int64_t> all = Looked::unpacked(values, count, value_bytes);
  const int64_t *value = all.data();
  for (int64_t i = 0; i < count; ++i) {
    const bool ascends = i == 0 || event[i] > event[i - 1];
    if (!ascends || event[i] < 0 || event[i] >= events) fail(text, "events do not ascend");
    if (kind[i] > 6) fail(text, "an unknown kind");
    if (kind[i] >= 4 && (value[i] < 0 || value[i] >= texts)) fail(text, "no such text");
  }
  looked.add(std::vector<int32_t>(event, event + count));
  looked.add(std::vector<uint8_t>(kind, kind + count));
  looked.add(all);
  looked.add(std::vector<int32_t>{name});
}

std::string look(const std::string &text, const wl_json *scan, int64_t &events) {
  Looked looked;
  events = static_cast<int64_t>(looked.column<uint8_t>(scan, "phase").size());
  const auto facts = looked.column<int64_t>(scan, "fact");
  const auto blob = looked.column<char>(scan, "text");
  const auto offsets = looked.column<int64_t>(scan, "text_offset");
  check_offsets(text, offsets, blob.size());
  const auto members = looked.column<char>(scan, "member");
  check_offsets(text, looked.column<int64_t>(scan, "member_offset"), members.size());
  const auto texts = static_cast<int64_t>(offsets.size()) - 1;
  for (const char *name : {"name", "category", "pid", "tid", "id"}) {
    const auto numbers = looked.packed(scan, name);
    if (static_cast<int64_t>(numbers.size()) != events) fail(text, "columns differ in length");
    for (const int64_t number : numbers) {
      if (number < -1 || number >= texts) fail(text, "no such text");
    }
  }
  looked.column<int64_t>(scan, "ts_ns");
  looked.packed(scan, "dur_ns");
  looked.column<uint8_t>(scan, "has_ts");
  looked.column<uint8_t>(scan, "has_dur");
  for (int64_t number = 0; number < facts.back(); ++number) {
    check_argument(text, scan, number, events, texts, looked);
  }
  return looked.bytes;
}

// Scans the text in pieces of at most `most` bytes.
std::string scanned(Chance &chance, const std::string &text, bool all, std::size_t most,
                    int64_t block_bytes, int64_t &events) {
  static constexpr char kNames[] = "External id\0correlation\0";
  char message[256];
  wl_json *opened = nullptr;
  if (wl_json_open(kNames, sizeof kNames - 1, all, kMemoryBytes, block_bytes, &opened, message,
                   sizeof message) != WL_OK) {
    fail(text, message);
  }
  const std::unique_ptr<wl_json, Closing> scan(opened);
  int32_t wants_more = 1;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t count = std::min(text.size() - at, 1 + chance.below(most));
    const std::vector<char> piece(text.data() + at, text.data() + at + count);
    if (wl_json_feed(scan.get(), piece.data(), static_cast<int64_t>(count), &wants_more, message,
                     sizeof message) != WL_OK) {
      fail(text, message);
    }
    at += count;  // also when no more is wanted: it must do no harm
  }
  if (wl_json_finish(scan.get(), message, sizeof message) != WL_OK) fail(text, message);
  return look(text, scan.get(), events);
}

}  // namespace

int main(int count, char **arguments) {
  const int texts = count > 1 ? std::atoi(arguments[1]) : 10000;
  const auto seed = static_cast<uint64_t>(count > 2 ? std::atoll(arguments[2]) : 1);
  Chance chance(seed);
  int64_t kept = 0;
  for (int number = 0; number < texts; ++number) {
    std::string text = trace_text(chance);
    damage(chance, text);
    const bool all = !chance.once_in(3);
    int64_t events = 0;
    const std::string whole = scanned(chance, text, all, text.size() * 64 + 1, 0, events);
    const std::string pieces = scanned(chance, text, all, 1 + chance.below(40), 0, events);
    if (whole != pieces) fail(text, "read in pieces, the text gives something else");
    const auto block_bytes = static_cast<int64_t>(1 + chance.below(text.size() + 1));
    const std::string blocks = scanned(chance, text, all, 1 + text.size(), block_bytes, events);
    if (whole != blocks) fail(text, "read in blocks, the text gives something else");
    kept += events;
  }
  std::printf("%d texts, %lld events\n", texts, static_cast<long long>(kept));
  return kept > texts ? 0 : 1;
}
