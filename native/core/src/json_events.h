// The events of a Chrome trace as columns, which the caller reads in place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string_view>
#include <utility>
#include <vector>

#include "growing.h"
#include "packed.h"
#include "raw/texts.h"

namespace warpline {

class JsonArguments;

constexpr int32_t kNoText = -1;

// WL_JSON_* of warpline_core.h.
enum class JsonKind : uint8_t { null, boolean, integer, real, text, json, large_integer };

// The value of one argument: what `value` means depends on the kind.
struct JsonValue {
  JsonKind kind;
  int64_t value;
};

struct JsonTime {
  int64_t ns = 0;
  bool is_there = false;
  bool is_bad = false;  // something is there, and it is no time
};

// One event while it is read.
struct JsonEvent {
  struct Argument {
    int32_t key;
    JsonValue value;
  };

  uint8_t phase = 0;
  int32_t name = kNoText;
  int32_t category = kNoText;
  int32_t pid = kNoText;
  int32_t tid = kNoText;
  int32_t id = kNoText;
  JsonTime ts;
  JsonTime dur;
  std::vector<Argument> arguments;

  void clear() {
    std::vector<Argument> kept = std::move(arguments);
    *this = JsonEvent();
    arguments = std::move(kept);
    arguments.clear();
  }
};

class JsonEvents {
 public:
  // The arguments of one name: which events have it, ascending, and its values.
  struct Argument {
    int32_t key = 0;  // its text
    Growing<int32_t> event;
    Growing<uint8_t> kind;
    Packed value;
  };

  void add(const JsonEvent &event);
  void clear();

  // Adds the column of an argument; returns its number.
  int32_t add_argument(std::string_view name);

  // Adds all events of another scan that keeps the same arguments.
  void take(const JsonEvents &others, JsonArguments &known);

  int64_t size() const { return static_cast<int64_t>(phase.size()); }
  // Bytes in use, of columns and texts.
  std::size_t bytes() const;

  RawTexts texts;
  Growing<uint8_t> phase, has_ts, has_dur;
  Packed name, category, pid, tid, id;
  Growing<int64_t> ts_ns;
  Packed dur_ns;
  std::deque<Argument> arguments;  // a deque: what is in it never moves

 private:
};

}  // namespace warpline
