// Reads the text of a Chrome trace in pieces, once, into columns.
//
// The text may be damaged or hostile. Whatever it is, the time is linear in its length, and the
// memory bounded by what is kept of it and by the longest event. What is read before a place
// that is no JSON, or before a cut, stays.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "json_arguments.h"
#include "json_events.h"

namespace warpline {

// Why a scan ended: WL_JSON_* of warpline_core.h.
enum class JsonStop : uint8_t { none, cut, syntax, memory, no_trace };

// What was met among the events and not kept.
struct JsonLoss {
  int64_t not_events = 0;      // elements between the events that are no objects
  int64_t bad_ts = 0;          // times that are no number of microseconds
  int64_t bad_dur = 0;         // likewise durations
  int64_t cut_texts = 0;       // texts longer than kMaxTextBytes, cut there
  int64_t long_values = 0;     // arrays and objects longer than that, left out
  int64_t deep_values = 0;     // arrays and objects nested deeper than kMaxDepth, left out
  int64_t long_events = 0;     // events longer than kMaxEventBytes, left out
  int64_t more_arguments = 0;  // arguments of more names than are kept, left out
  int64_t damages = 0;         // places that are no JSON, behind which events were found again
  int64_t damaged_at = -1;     // the first of them
};

// Returns the key that an event begins with, or nothing if what stands there is none. `at` is
// behind its brace, and the pad behind the text.
const char *first_event_key(const char *at);

class JsonScan {
 public:
  static constexpr std::size_t kMaxTextBytes = 1 << 20;
  static constexpr std::size_t kMaxMemberBytes = 1 << 22;
  static constexpr std::size_t kMaxMembers = 1 << 10;
  static constexpr std::size_t kMaxEventBytes = 1 << 26;
  // What may be read again, in all, to find events behind damage.
  static constexpr int64_t kMaxRereadBytes = int64_t{1} << 28;
  static constexpr uint32_t kMaxDepth = 512;
  static constexpr int64_t kMaxTimeNs = int64_t{1} << 62;  // their differences stay in int64

  // `wanted` are the names of the arguments to keep; `all` keeps every argument. The scan stops
  // when it holds more than `memory_bytes`.
  JsonScan(const std::vector<std::string> &wanted, bool all, std::size_t memory_bytes);

  // Reads on. Returns whether more text can change anything.
  bool feed(const char *bytes, std::size_t count);

  // There is no more text: nothing can be fed afterwards.
  void finish();

  // ---- for JsonBlocks, which scans parts of the text ahead

  // Begins in the array of events, with `bytes` of text before the pad.
  void begin_inside(std::unique_ptr<char[]> text, std::size_t bytes);
  void run_inside();
  std::string_view text_inside() const { return {window_.get(), static_cast<std::size_t>(byte_count_)}; }
  // Whether all of that text was events, up to its end.
  bool is_whole_inside() const { return is_between_events() && loss_.damages == 0; }

  // Whether all text so far was scanned, and the next byte is in the array of events, in no event.
  bool is_between_events() const {
    return state_ == State::events && at_ == end_ && damaged_at_ < 0 && stop_ == JsonStop::none;
  }
  // Adds what another scan found in the text that comes next, between two events of both. Returns
  // whether more text can change anything.
  bool take(const JsonScan &part);

  const JsonEvents &events() const { return events_; }
  const JsonLoss &loss() const { return loss_; }
  JsonStop stopped() const { return stop_; }
  // Where the scan stopped, and how many bytes it was given.
  int64_t stopped_at() const { return stop_at_; }
  int64_t byte_count() const { return byte_count_; }
  // Where something other than white space stands behind the end; -1 if nothing does.
  int64_t trailing_at() const { return trailing_at_; }
  // The members beside the events: name, value as it is written, name, value... and how many
  // more there were, or longer ones.
  const std::string &members() const { return members_; }
  const std::vector<int64_t> &member_offsets() const { return member_offsets_; }
  int64_t lost_members() const { return lost_members_; }

 private:
  enum class State : uint8_t { start, member, events, skip, search, done };
  enum class Step : uint8_t { ok, more, bad };  // more: the window ends inside

  // A string between its quotes, as it is written.
  struct Written {
    const char *begin;
    const char *end;
    bool has_escapes;
    std::string_view view() const { return {begin, static_cast<std::size_t>(end - begin)}; }
  };

  // The last text of a field, as written.
  struct Recent {
    std::string text;
    int32_t number = kNoText;
  };

  // Where the way through an element stands that is too long to hold.
  struct Skip {
    State then = State::events;
    uint64_t depth = 0;
    bool is_in_string = false;
    bool is_escaped = false;
  };

  // json_scan.cpp: the window, and what stands around the events.
  void finish_text();
  void append(const char *bytes, std::size_t count);
  void run();
  bool check_memory();
  void wait();
  Step advance();
  Step start();
  Step member();
  Step member_value(const std::string &key, const char *at);
  void begin_events(const char *at);
  void keep_member(std::string_view key, std::string_view value);
  Step element();
  void begin_skip();
  void skip_on();
  bool begin_search();
  Step search();
  void end_search(const char *at);
  void end_damage();
  Step trailing();
  void stop(JsonStop why, const char *at);
  int64_t offset(const char *at) const { return window_offset_ + (at - window_.get()); }

  // Parts of a value. Each leaves `at` behind what it read.
  Step bad(const char *at);
  Step read_string(const char *&at, Written &written);
  Step read_literal(const char *&at, std::string_view &text);
  Step skip_value(const char *&at);
  Step skip_nested(const char *&at, uint32_t &deepest);
  Step colon(const char *&at);
  Step comma_or(char close, const char *&at, bool &is_last);
  std::string_view meant(const Written &written);

  // json_event.cpp
  Step event();
  Step event_members(const char *&at);
  Step event_member(std::string_view key, const char *&at);
  Step read_phase(const char *&at);
  Step read_text(const char *&at, int32_t &number, Recent *recent = nullptr);
  Step read_time(const char *&at, JsonTime &time);
  Step read_arguments(const char *&at);
  Step read_value(const char *&at, int32_t key);
  Step read_nested(const char *&at, int32_t key);
  bool keep_literal(std::string_view text, int32_t key);
  void keep(int32_t key, JsonKind kind, int64_t value);
  int32_t intern(std::string_view text);
  int32_t intern(std::string_view text, Recent *recent);

  JsonEvents events_;
  JsonEvent event_;
  JsonLoss loss_;
  JsonArguments arguments_;
  std::size_t memory_bytes_;
  Recent category_, pid_, tid_;

  State state_ = State::start;
  Skip skip_;
  State searched_ = State::events;  // what the search was begun in
  int64_t damaged_at_ = -1;  // where the damage begins that is not passed yet
  int64_t reread_bytes_ = 0;
  bool is_final_ = false;  // there is no more text
  bool has_events_ = false;  // the array of events was met
  bool is_array_ = false;  // the text is an array of events, not an object that has one
  bool is_first_member_ = true;
  JsonStop stop_ = JsonStop::none;
  int64_t stop_at_ = -1;
  int64_t trailing_at_ = -1;
  int64_t byte_count_ = 0;
  std::string members_;
  std::vector<int64_t> member_offsets_{0};
  int64_t lost_members_ = 0;

  // What is not read yet: [at_, end_) of the window, behind which the pad stands.
  std::unique_ptr<char[]> window_;
  std::size_t window_room_ = 0;
  int64_t window_offset_ = 0;
  const char *at_ = nullptr;
  const char *end_ = nullptr;
  std::size_t retry_bytes_ = 0;  // an element was not whole: try again when so much is held
  const char *bad_at_ = nullptr;
  std::string unescaped_;
  std::string repaired_;
};

}  // namespace warpline
