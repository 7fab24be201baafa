// Ranges and marks of NVTX, written to the logs of their threads.
#include <atomic>
#include <cstring>

#include "cupti/tracing.h"
#include "nvtx/abi.h"
#include "nvtx/events.h"
#include "nvtx/names.h"
#include "nvtx/range_filter.h"
#include "nvtx/schemas.h"
#include "session/clock.h"
#include "session/process.h"
#include "session/standing.h"
#include "session/thread_log.h"
#include "steps/steps.h"

namespace warpline::agent::nvtx {
namespace {

// The ranges of one thread and domain that are open: how many, and which of them are in the
// thread's log. Recording is switched rarely, so runs of the same kind stand for them: of ranges
// that are not in the log, that are, that are not, and so on.
struct OpenRanges {
  static constexpr std::uint32_t kMaxRuns = 8;

  const Domain* domain;
  std::uint32_t depth;
  std::uint32_t run;  // the one on top; odd: in the log
  std::uint32_t lengths[kMaxRuns];

  bool can_record() const noexcept { return run % 2 == 1 || run + 1 < kMaxRuns; }

  int push(bool is_recorded) noexcept {
    if (is_recorded != (run % 2 == 1) && run + 1 < kMaxRuns) lengths[++run] = 0;
    ++lengths[run];
    return static_cast<int>(depth++);
  }

  // Returns whether the range that ends is in the log.
  bool pop() noexcept {
    const bool is_recorded = run % 2 == 1;
    --depth;
    --lengths[run];
    while (run > 0 && lengths[run] == 0) --run;
    return is_recorded;
  }

  // None of the open ranges is in the log that follows.
  void forget() noexcept {
    run = 0;
    lengths[0] = depth;
  }
};

// A push that opened a capture range.
struct OpenWindow {
  const Domain* domain;
  std::uint32_t depth;  // of its range
};

// What is kept for a thread. All zero is its start, and nothing happens at its end: it is there
// for NVTX calls before and after all constructors and destructors.
struct ThreadRanges {
  static constexpr std::size_t kDomains = 32;
  static constexpr std::size_t kWindows = 8;

  OpenRanges domains[kDomains];
  OpenWindow windows[kWindows];
  std::size_t window_count;
  const Domain* step_domain;  // of the range that began a step and is open; or nullptr
  std::uint32_t step_depth;
  std::uint64_t step_generation;  // of the process: a fork may have been made within a step
  bool has_watched;  // a range that a capture range, a step, or the filter of launches may end with
  std::uint64_t unplaced;  // open ranges in domains that had no place
  bool has_missed;  // a range that is not the capture range was opened
  const ThreadLog* log;
  std::uint64_t generation;
  std::uint64_t schemas_defined;

  // Returns the place of a domain; nullptr when the thread has open ranges in too many of them.
  OpenRanges* of(const Domain& domain) noexcept {
    OpenRanges& home = domains[domain.id % kDomains];
    if (home.domain == &domain) [[likely]] return &home;
    return search(domain, home);
  }

  // To be called with the thread's log before it is written to.
  void see(ThreadLog& now) noexcept {
    const std::uint64_t now_in = g_process->generation.load(std::memory_order_relaxed);
    if (log == &now && generation == now_in) [[likely]] return;
    for (OpenRanges& open : domains) open.forget();
    log = &now;
    generation = now_in;
    schemas_defined = 0;
    write_names(now);
  }

  // Whether this is the log that the open ranges are in.
  bool is_in(const ThreadLog& now) const noexcept {
    return log == &now &&
           generation == g_process->generation.load(std::memory_order_relaxed);
  }

 private:
  [[gnu::noinline]] OpenRanges* search(const Domain& domain, OpenRanges& home) noexcept {
    OpenRanges* free = home.depth == 0 ? &home : nullptr;
    for (OpenRanges& open : domains) {
      if (open.domain == &domain) return &open;
      if (open.depth == 0 && free == nullptr) free = &open;
    }
    if (free != nullptr) *free = {&domain, 0, 0, {}};
    return free;
  }
};
thread_local constinit ThreadRanges t_ranges{};

// Range ids whose start opened a capture range. 0 is a free place.
std::atomic<std::uint64_t> g_window_ids[64];
// Ranges whose end closes a capture range or is told to the filter of launches, but for those that are
// not in a log: they have ids of their own.
std::atomic<std::uint32_t> g_watched_ids{0};
constexpr std::uint64_t kUnlogged = std::uint64_t{1} << 63;
std::atomic<std::uint64_t> g_unlogged_ids{0};

// Both without a lease; CUDA tracing follows at once.
void begin_window() noexcept {
  const bool is_outermost = window_begin();
  follow_recording_state();
  if (is_outermost) note_window(raw::Note::kSampleBegin, {});  // turning kinds on is not its own
}

void end_window() noexcept {
  window_end();
  follow_recording_state();
}

// Returns a name that can be told without converting anything.
bool plain_name_of(const Given& given, std::string_view& name) noexcept {
  if (given.data == nullptr) return false;
  if (given.form == Given::Form::kText) {
    name = bounded(static_cast<const char*>(given.data));
    return true;
  }
  if (given.form == Given::Form::kRegistered) {
    name = static_cast<const RegisteredText*>(given.data)->view();
    return true;
  }
  if (given.form != Given::Form::kAttributes) return false;
  const auto& attributes = *static_cast<const EventAttributes*>(given.data);
  if (attributes.bytes < sizeof attributes || attributes.value_type == kValuePayloads) return false;
  if (attributes.message_type == kMessageRegistered && attributes.message.registered != nullptr) {
    name = attributes.message.registered->view();
    return true;
  }
  if (attributes.message_type != kMessageText) return false;
  name = bounded(attributes.message.text);
  return true;
}

// Sees to a range that may begin a step; ranges within the step's own never do. Returns whether it
// does.
[[gnu::noinline]] bool see_step(const ThreadRanges& mine, Domain& domain,
                                const Given& given) noexcept {
  if (mine.step_domain != nullptr &&
      mine.step_generation == g_process->generation.load(std::memory_order_relaxed)) {
    return false;
  }
  std::string_view name;
  if (plain_name_of(given, name)) return step_range_begins(name, domain.view());
  const Event event(domain, given);
  return event.has_name && step_range_begins(event.name, domain.view());
}

[[gnu::noinline]] bool opens_window(ThreadRanges& mine, Domain& domain,
                                    const Given& given) noexcept {
  const Event event(domain, given);
  if (is_capture_range(event.name, domain.view())) return true;
  if (!mine.has_missed) {
    mine.has_missed = true;
    count_range_miss();
  }
  return false;
}

void open_window_of_push(ThreadRanges& mine, Domain& domain, const Given& given,
                         std::uint32_t depth) noexcept {
  if (mine.window_count == ThreadRanges::kWindows || !opens_window(mine, domain, given)) return;
  mine.windows[mine.window_count++] = {&domain, depth};
  begin_window();
}

void close_window_of_pop(ThreadRanges& mine, const Domain& domain, std::uint32_t depth) noexcept {
  for (std::size_t at = mine.window_count; at-- > 0;) {
    const OpenWindow& window = mine.windows[at];
    if (window.domain != &domain || window.depth != depth) continue;
    std::memmove(&mine.windows[at], &mine.windows[at + 1],
                 (--mine.window_count - at) * sizeof(OpenWindow));
    end_window();
    return;
  }
}

// Sees to a range that may begin a step or a capture range, or that launches are counted by.
[[gnu::noinline]] void see_push(ThreadRanges& mine, Domain& domain, const Given& given,
                                const OpenRanges* open, std::uint32_t watched) noexcept {
  mine.has_watched = true;
  if ((watched & kWatchSteps) != 0 && see_step(mine, domain, given) && open != nullptr) {
    mine.step_domain = &domain;
    mine.step_depth = open->depth;
    mine.step_generation = g_process->generation.load(std::memory_order_relaxed);
  }
  if (open == nullptr) return;  // its end would not be known
  if ((watched & kWatchFilter) != 0) {
    if (RangeFilter* filter = RangeFilter::current()) filter->push(domain, Event(domain, given).name);
  }
  if ((watched & kWatchWindows) != 0) open_window_of_push(mine, domain, given, open->depth);
}

[[gnu::noinline]] void see_pop(ThreadRanges& mine, const Domain& domain, std::uint32_t depth) noexcept {
  if (RangeFilter* filter = RangeFilter::current()) filter->pop(domain);
  if (mine.window_count != 0) close_window_of_pop(mine, domain, depth);
  if (mine.step_domain == &domain && depth <= mine.step_depth) mine.step_domain = nullptr;
}

bool keep_window_id(std::uint64_t id) noexcept {
  for (std::atomic<std::uint64_t>& place : g_window_ids) {
    std::uint64_t free = 0;
    if (place.compare_exchange_strong(free, id, std::memory_order_acq_rel)) {
      g_watched_ids.fetch_add(1, std::memory_order_release);
      return true;
    }
  }
  return false;
}

void close_window_of_stop(std::uint64_t id) noexcept {
  for (std::atomic<std::uint64_t>& place : g_window_ids) {
    std::uint64_t same = id;
    if (place.compare_exchange_strong(same, 0, std::memory_order_acq_rel)) {
      g_watched_ids.fetch_sub(1, std::memory_order_release);
      end_window();
      return;
    }
  }
}

// Tells the filter of launches of a range that begins; returns its id, also if it is in no log.
[[gnu::noinline]] std::uint64_t tell_start(Domain& domain, const Given& given, std::uint64_t id) noexcept {
  RangeFilter* filter = RangeFilter::current();
  if (filter == nullptr) return id;
  const bool is_logged = id != 0;
  if (!is_logged) id = kUnlogged | g_unlogged_ids.fetch_add(1, std::memory_order_relaxed);
  const bool is_told = filter->start(domain, Event(domain, given).name, id);
  if (is_told && is_logged) g_watched_ids.fetch_add(1, std::memory_order_release);
  return is_told || is_logged ? id : 0;
}

[[gnu::noinline]] void tell_stop(std::uint64_t id) noexcept {
  RangeFilter* filter = RangeFilter::current();
  const bool is_told = filter != nullptr && filter->stop(id);
  if (is_told && (id & kUnlogged) == 0) g_watched_ids.fetch_sub(1, std::memory_order_release);
}

// Adds what a raw::Push, Start or Mark has besides its time.
template <class Record>
void add_fields(Record& record, const Domain& domain, const Event& event) noexcept {
  if (domain.id != 0 || event.category != 0) {
    record.flags |= Record::kHasDomain;
    record.domain = domain.id;
    record.category = event.category;
  }
  if (event.has_color) {
    record.flags |= Record::kHasColor;
    record.color = event.color;
  }
  if (event.value_type != kValueNone) {
    record.flags |= Record::kHasValue;
    record.value_type = static_cast<std::uint32_t>(event.value_type);
    record.value = event.value;
  }
  if (event.sequence >= 0) {
    record.flags |= Record::kHasSequence;
    record.sequence = static_cast<std::uint64_t>(event.sequence);
  }
  if (!event.has_name) record.flags |= Record::kHasNoName;
}

bool define(ThreadLog& log, ThreadRanges& mine, const Domain& domain, const Event& event,
            std::uint32_t& slot) noexcept {
  if (domain.id != 0 && !log.define_domain(domain.id, domain.view())) return false;
  if (event.payload_count != 0 && !define_schemas(log, mine.schemas_defined)) return false;
  slot = 0;
  if (!event.has_name) return true;
  if (event.serial != 0) return log.intern_registered(event.serial, event.name, slot);
  return log.intern(event.name, slot);
}

// Writes a raw::Push, Start or Mark and what it needs. Returns whether it is in the log.
template <class Record>
bool write_event(ThreadRanges& mine, Domain& domain, const Given& given, Record& record) noexcept {
  LogLease log = recording_log();
  if (!log) return false;
  mine.see(*log);
  const Event event(domain, given);
  if (!define(*log, mine, domain, event, record.slot)) return false;
  add_fields(record, domain, event);
  if constexpr (requires { record.range_id; }) record.range_id = log->next_range_id();
  std::uint64_t* room = log->reserve(record.words());
  if (room == nullptr) return false;
  record.time_ns = timestamp();  // last: what it took is not the program's
  log->commit(room, record);
  if (event.payload_count != 0) write_payloads(*log, domain, event.payloads, event.payload_count);
  return true;
}

// Writes a raw::Pop or Stop and its payloads.
template <class Record>
void write_end(LogLease log, ThreadRanges& mine, Domain& domain, Record record,
               const Given& end) noexcept {
  record.time_ns = timestamp();  // first, for the same reason
  if (end.count != 0 && !define_schemas(*log, mine.schemas_defined)) return;
  if (!log->put(record) || end.count == 0) return;
  write_payloads(*log, domain, static_cast<const Payload*>(end.data), end.count);
}

}  // namespace

Event::Event(Domain& domain, const Given& given) noexcept {
  switch (given.form) {
    case Given::Form::kText:
      set_name(static_cast<const char*>(given.data));
      return;
    case Given::Form::kWide:
      has_name = given.data != nullptr;
      if (has_name) name = converted.from_wide(static_cast<const wchar_t*>(given.data));
      return;
    case Given::Form::kAttributes:
      if (given.data != nullptr) read(*static_cast<const EventAttributes*>(given.data));
      break;
    case Given::Form::kRegistered:
      set_name(static_cast<const RegisteredText*>(given.data));
      sequence = given.sequence;
      return;
    case Given::Form::kPayloads:
      payloads = static_cast<const Payload*>(given.data);
      payload_count = payloads == nullptr ? 0 : given.count;
      break;
  }
  if (payload_count != 0) read_payload_attributes(domain, *this);
}

// Reads the members that the program's struct has: older programs have fewer, newer ones more.
void Event::read(const EventAttributes& attributes) noexcept {
  const auto has = [&attributes](std::size_t end) { return attributes.bytes >= end; };
  if (!has(offsetof(EventAttributes, value_type))) return;
  category = attributes.category;
  has_color = attributes.color_type == kColorArgb;
  color = attributes.color;
  if (has(offsetof(EventAttributes, message_type))) {
    if (attributes.value_type == kValuePayloads) {
      payloads = reinterpret_cast<const Payload*>(attributes.value.bits);
      const bool has_payloads = payloads != nullptr && attributes.payload_count > 0;
      payload_count = has_payloads ? static_cast<std::size_t>(attributes.payload_count) : 0;
    } else if (attributes.value_type >= kValueUint64 && attributes.value_type <= kValueFloat) {
      value_type = attributes.value_type;
      value = value_type >= kValueUint32 ? attributes.value.low_bits : attributes.value.bits;
    }
  }
  if (!has(sizeof(EventAttributes))) return;
  const MessageValue& message = attributes.message;
  if (attributes.message_type == kMessageRegistered) {
    set_name(message.registered);
  } else if (attributes.message_type == kMessageText) {
    set_name(message.text);
  } else if (attributes.message_type == kMessageWide && message.wide != nullptr) {
    set_name(converted.from_wide(message.wide));
  }
}

void Event::set_name(const char* text) noexcept {
  if (text != nullptr) set_name(bounded(text));
}

void Event::set_name(std::string_view text) noexcept {
  has_name = true;
  serial = 0;
  name = text;
}

void Event::set_name(const RegisteredText* text) noexcept {
  if (text == nullptr) return;
  set_name(text->view());
  serial = text->serial;
}

void mark(Domain& domain, const Given& given) noexcept {
  follow_if_announced();
  if (!is_enabled(domain)) return;
  raw::Mark record;
  write_event(t_ranges, domain, given, record);
}

int push_range(Domain& domain, const Given& given) noexcept {
  follow_if_announced();
  const std::uint32_t watched = ranges_watched();
  if (!is_enabled(domain)) {
    if ((watched & kWatchSteps) != 0) see_step(t_ranges, domain, given);
    return kNotTracked;
  }
  ThreadRanges& mine = t_ranges;
  OpenRanges* open = mine.of(domain);
  raw::Push record;
  if (watched != 0) [[unlikely]] see_push(mine, domain, given, open, watched);
  if (open == nullptr) {
    ++mine.unplaced;
    write_event(mine, domain, given, record);
    return kNotTracked;
  }
  const bool is_recorded =
      open->can_record() && write_event(mine, domain, given, record);
  return open->push(is_recorded);
}

int pop_range(Domain& domain, const Given& end) noexcept {
  if (!is_enabled(domain)) return kNotTracked;
  ThreadRanges& mine = t_ranges;
  OpenRanges* open = mine.of(domain);
  const bool is_placed = open != nullptr && open->depth != 0;
  if (!is_placed) {
    if (mine.unplaced == 0) return kNothingOpen;
    --mine.unplaced;
  }
  if (!is_placed || open->pop()) {
    LogLease log = recording_log();
    if (log && mine.is_in(*log)) {
      raw::Pop record{.domain = domain.id};
      if (end.sequence >= 0) {
        record.flags |= raw::Pop::kHasSequence;
        record.sequence = static_cast<std::uint64_t>(end.sequence);
      }
      write_end(static_cast<LogLease&&>(log), mine, domain, record, end);
    }
  }
  if (!is_placed) return kNotTracked;
  if (mine.has_watched) [[unlikely]] see_pop(mine, domain, open->depth);
  return static_cast<int>(open->depth);
}

std::uint64_t start_range(Domain& domain, const Given& given) noexcept {
  follow_if_announced();
  const std::uint32_t watched = ranges_watched();
  ThreadRanges& mine = t_ranges;
  if ((watched & kWatchSteps) != 0) [[unlikely]] see_step(mine, domain, given);
  if (!is_enabled(domain)) return 0;
  const bool is_window = (watched & kWatchWindows) != 0 && opens_window(mine, domain, given);
  if (is_window) begin_window();
  raw::Start record;
  std::uint64_t id = write_event(mine, domain, given, record) ? record.range_id : 0;
  if (is_window && (id == 0 || !keep_window_id(id))) end_window();
  if ((watched & kWatchFilter) != 0) [[unlikely]] id = tell_start(domain, given, id);
  return id;
}

void stop_range(Domain& domain, std::uint64_t id, const Given& end) noexcept {
  if (id == 0) return;
  if ((id & kUnlogged) != 0) [[unlikely]] return tell_stop(id);
  if (LogLease log = recording_log()) {
    ThreadRanges& mine = t_ranges;
    mine.see(*log);
    write_end(static_cast<LogLease&&>(log), mine, domain, raw::Stop{.range_id = id}, end);
  }
  if (g_watched_ids.load(std::memory_order_acquire) == 0) [[likely]] return;
  close_window_of_stop(id);
  tell_stop(id);
}

}  // namespace warpline::agent::nvtx
