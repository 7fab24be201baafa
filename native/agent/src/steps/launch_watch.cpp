#include "steps/launch_watch.h"

#include <algorithm>
#include <charconv>
#include <vector>

#include "cupti/tracing.h"
#include "session/clock.h"
#include "session/process.h"
#include "session/thread_log.h"
#include "steps/seen_calls.h"
#include "steps/steps.h"

namespace warpline::agent {
namespace {

// What a launch takes that is seen and not recorded: the callbacks of the runtime's call and of the
// driver's within it. On an H200's host it was 0.6 to 1.4 us.
constexpr std::int64_t kSeenCallNs = 1'250;
// All searches together may take so much, and this share of the run, in thousandths.
constexpr std::int64_t kSearchNs = 100'000'000;
constexpr std::int64_t kSearchShare = 2;
constexpr std::int64_t kLeastSearchNs = kSearchNs / 2;  // less is not begun
// At rest the anchor's kind of calls is seen if there is one in so much time at most: 0.1 %.
constexpr double kRareNs = 1'000'000;

// A shorter pattern may be a part of the one wanted: the search goes on for a while. It ends after
// so many repetitions in a row, a time that depends on how long one is, or all that it may take.
constexpr std::uint32_t kEnoughRepetitions = 256;
constexpr std::int64_t kEnoughPeriods = 64;
constexpr std::int64_t kLeastEnoughNs = 1'000'000'000;
constexpr std::int64_t kMostEnoughNs = 20'000'000'000;

constexpr std::int64_t kShortestRestNs = 60'000'000;  // a few ticks of the watcher
constexpr std::uint64_t kShortestRestSteps = 3;
constexpr std::uint64_t kLostAfter = 4;  // periods in which the anchor does not occur
constexpr std::int64_t kSilentNs = 500'000'000;  // at least: then calls of other kinds are seen, too

enum class Mode : std::uint32_t {
  kOff,
  kWaiting,    // for the next search, no calls are seen
  kSearching,
  kFollowing,
};

// What is followed. The watcher sets it before the mode, the thread that has the anchor reads it.
struct Followed {
  std::atomic<const SeenCalls*> thread;
  std::atomic<CallSignature> anchor;
  std::atomic<bool> has_grid;
  std::atomic<bool> has_previous;
  std::atomic<std::int64_t> length_ns;
  std::atomic<std::uint64_t> calls;
  std::atomic<std::uint64_t> anchor_calls;
  std::atomic<std::uint64_t> all_calls;  // of the whole process
  std::atomic<bool> rests_by_clock;
  std::atomic<std::int64_t> wake_ns;  // until then nothing is seen; 0: the anchor's calls are
  std::atomic<std::int64_t> seen_ns;     // when the anchor occurred last, or a rest ended
  std::atomic<bool> is_silent;           // for a while it has not occurred: all calls are seen
  std::atomic<std::uint64_t> elsewhere;  // calls of other threads meanwhile
  // The thread's alone, while it is followed:
  std::atomic<CallSignature> previous;       // call of the anchor's number
  std::atomic<std::uint64_t> missed;         // calls since the anchor occurred
  std::atomic<std::uint64_t> missed_anchor;  // of its kind
  std::atomic<std::int64_t> rest_from_ns;    // 0: not in a rest by the clock
  std::atomic<std::uint64_t> rest_steps;     // how many it is to last
};

// The watcher's own.
struct Search {
  std::int64_t begun_ns = 0;    // the watch
  std::int64_t spent_ns = 0;    // by searches that have ended
  std::size_t most = 0;         // calls that this one may see,
  std::size_t analyse_at = 0;   // and how many at which to look at them
  std::int64_t found_ns = 0;    // when a pattern was found first; 0: none is found
  std::int64_t certain_ns = 0;  // when to be content with it
  std::vector<ObservedCall> calls;
};

Followed g_followed;
Search& g_search = *new Search;  // never freed: the watcher goes on until the very end of the process
std::atomic<Mode> g_mode{Mode::kOff};

template <class Value>
Value get(const std::atomic<Value>& one) noexcept {
  return one.load(std::memory_order_relaxed);
}
template <class Value>
void set(std::atomic<Value>& one, Value value) noexcept {
  one.store(value, std::memory_order_relaxed);
}

void enter_mode(Mode mode) noexcept {
  g_mode.store(mode, std::memory_order_release);
  const bool sees = mode == Mode::kSearching || mode == Mode::kFollowing;
  g_sees_calls.store(sees, std::memory_order_relaxed);
}

// ---- following; the thread that has the anchor

void rest(const NextSample& next, std::int64_t now) noexcept {
  const std::int64_t length = get(g_followed.length_ns);
  // Half a period early: the anchor that follows is the one.
  const std::int64_t rest_ns = static_cast<std::int64_t>(next.in_steps) * length - length / 2;
  if (next.in_steps < kShortestRestSteps || rest_ns < kShortestRestNs) return;
  set(g_followed.rest_from_ns, now);
  set(g_followed.rest_steps, next.in_steps);
  // What was seen before the rest is not what comes before a call after it.
  set(g_followed.previous, CallSignature{0});
  set(g_followed.missed, std::uint64_t{0});
  set(g_followed.missed_anchor, std::uint64_t{0});
  g_followed.wake_ns.store(now + rest_ns, std::memory_order_release);
  follow_recording_state();
}

[[gnu::noinline]] void begin_step(std::int64_t now) noexcept {
  std::uint64_t to = 1;
  std::uint64_t passed = 1;
  if (const std::int64_t from = get(g_followed.rest_from_ns); from != 0) {
    const std::int64_t length = get(g_followed.length_ns);
    to = get(g_followed.rest_steps);
    passed = static_cast<std::uint64_t>(std::max<std::int64_t>((now - from + length / 2) / length, 1));
    set(g_followed.rest_from_ns, std::int64_t{0});
  }
  const NextSample next = step_begins_by_launch(to, passed);
  if (!next.is_counted) {
    enter_mode(Mode::kOff);
    follow_recording_state();
  } else if (!next.is_recording && get(g_followed.rests_by_clock)) {
    rest(next, now);
  }
}

[[gnu::noinline]] void lose_anchor() noexcept {
  if (!steps_by_launch_end()) return;
  enter_mode(Mode::kWaiting);  // the watcher sees to the rest
  follow_recording_state();
}

std::uint64_t most_missed(std::uint64_t in_a_period) noexcept {
  return kLostAfter * in_a_period + kLostAfter;
}

// Takes a call of the thread that has the anchor.
void follow(CallSignature signature, std::int64_t time_ns) noexcept {
  Followed& f = g_followed;
  if (get(f.wake_ns) != 0) return;
  const CallSignature anchor = get(f.anchor);
  const bool is_of_its_number = ((signature ^ anchor) & kCallNumber) == 0;
  if (is_of_its_number) {
    const Likeness likeness{get(f.has_grid), get(f.has_previous)};
    const bool is_anchor = likeness.of(signature, get(f.previous)) == anchor;
    set(f.previous, signature);
    if (is_anchor) {
      set(f.missed, std::uint64_t{0});
      set(f.missed_anchor, std::uint64_t{0});
      set(f.seen_ns, time_ns);
      set(f.is_silent, false);
      begin_step(time_ns);
      return;
    }
    set(f.missed_anchor, get(f.missed_anchor) + 1);
  }
  set(f.missed, get(f.missed) + 1);
  if (get(f.missed) > most_missed(get(f.calls)) ||
      get(f.missed_anchor) > most_missed(get(f.anchor_calls))) [[unlikely]] {
    lose_anchor();
  }
}

// Takes a call of another thread.
void follow_others() noexcept {
  if (!get(g_followed.is_silent)) [[likely]] return;
  const std::uint64_t count = g_followed.elsewhere.fetch_add(1, std::memory_order_relaxed);
  if (count > most_missed(get(g_followed.all_calls))) lose_anchor();
}

// Notices that the anchor stays away. The watcher.
void look_for_silence(std::int64_t now) noexcept {
  Followed& f = g_followed;
  const std::int64_t patience =
      std::max(static_cast<std::int64_t>(kLostAfter) * get(f.length_ns), kSilentNs);
  if (get(f.is_silent) || now - get(f.seen_ns) < patience) return;
  set(f.elsewhere, std::uint64_t{0});
  set(f.is_silent, true);
}

// Ends a rest that is over. The watcher.
void follow_clock(std::int64_t now) noexcept {
  const std::int64_t wake = g_followed.wake_ns.load(std::memory_order_acquire);
  if (wake == 0) {
    look_for_silence(now);
  } else if (now >= wake) {
    set(g_followed.seen_ns, now);
    g_followed.wake_ns.store(0, std::memory_order_release);
  }
}

// ---- searching; the watcher

// Begins a search as soon as enough is left of what it may take.
void begin_search(std::int64_t now) noexcept {
  const std::int64_t allowed = kSearchNs + (now - g_search.begun_ns) / 1000 * kSearchShare;
  const std::int64_t left = std::min(allowed - g_search.spent_ns, kSearchNs);
  if (left < kLeastSearchNs) return;
  g_search.most = static_cast<std::size_t>(left / kSeenCallNs);
  g_search.analyse_at = 0;
  g_search.found_ns = 0;
  forget_seen_calls();
  enter_mode(Mode::kSearching);
}

void end_search(Mode next) noexcept {
  g_search.spent_ns += static_cast<std::int64_t>(seen_calls()) * kSeenCallNs;
  enter_mode(next);
  release_seen_calls();
}

struct Found {
  Period period;
  const SeenCalls* thread = nullptr;
  double calls = 0;  // of the whole process, in one period, and of these
  double anchor_calls = 0;
  double launches = 0;
};

// Counts what the process does in a period, by the last repetitions.
void count_calls(Found& found) {
  const Period& period = found.period;
  for (const SeenCalls& thread : g_seen_calls) {
    thread.read(g_search.calls);
    for (const ObservedCall& call : g_search.calls) {
      if (call.time_ns < period.from_ns || call.time_ns >= period.last_ns) continue;
      found.calls += 1;
      found.launches += (call.signature & kIsLaunch) != 0 ? 1 : 0;
      found.anchor_calls += ((call.signature ^ period.anchor) & kCallNumber) == 0 ? 1 : 0;
    }
  }
  found.calls /= period.recent;
  found.launches /= period.recent;
  found.anchor_calls /= period.recent;
}

// Whether a pattern is the better one to follow: a longer one, or as long with a rarer anchor.
bool is_better(const Found& one, const Found& other) {
  const double longer = static_cast<double>(one.period.length_ns) /
                        static_cast<double>(std::max<std::int64_t>(other.period.length_ns, 1));
  constexpr double kAsLong = 1.1;
  if (longer > kAsLong) return true;
  return longer * kAsLong > 1 && one.anchor_calls < other.anchor_calls;
}

Found search_threads() {
  Found best;
  for (const SeenCalls& thread : g_seen_calls) {
    if (thread.count() <= kLeastRepetitions) continue;
    thread.read(g_search.calls);
    Found found{find_period(g_search.calls), &thread};
    if (!found.period) continue;
    count_calls(found);
    if (!best.period || is_better(found, best)) best = found;
  }
  return best;
}

void note_period(const Found& found, bool by_clock) noexcept {
  char text[64];
  char* to = std::to_chars(text, text + 24, found.period.length_ns).ptr;
  *to++ = ' ';
  to = std::to_chars(to, to + 24, static_cast<std::uint64_t>(found.launches + 0.5)).ptr;
  *to++ = ' ';
  *to++ = by_clock ? '1' : '0';
  if (LogLease log = definition_log()) {
    log->define(raw::Kind::kNote, static_cast<std::uint32_t>(raw::Note::kStepsByLaunch),
                static_cast<std::uint64_t>(now_ns()), {text, static_cast<std::size_t>(to - text)});
  }
}

void begin_following(const Found& found) noexcept {
  Followed& f = g_followed;
  const Period& period = found.period;
  const bool by_clock = found.anchor_calls * kRareNs > static_cast<double>(period.length_ns);
  set(f.thread, found.thread);
  set(f.anchor, period.anchor);
  set(f.has_grid, period.likeness.has_grid);
  set(f.has_previous, period.likeness.has_previous);
  set(f.previous, CallSignature{0});
  set(f.length_ns, period.length_ns);
  set(f.calls, std::uint64_t{period.calls});
  set(f.anchor_calls, std::uint64_t{period.anchor_calls});
  set(f.all_calls, static_cast<std::uint64_t>(found.calls + 0.5));
  set(f.rests_by_clock, by_clock);
  set(f.seen_ns, now_ns());
  set(f.is_silent, false);
  set(f.wake_ns, std::int64_t{0});
  set(f.missed, std::uint64_t{0});
  set(f.missed_anchor, std::uint64_t{0});
  set(f.rest_from_ns, std::int64_t{0});
  plan_samples(period.length_ns);
  note_period(found, by_clock);
  end_search(Mode::kFollowing);
}

// Says at how many calls to look again, having looked at so many.
std::size_t next_look(std::size_t seen, const Found& found) noexcept {
  // Each time a fifth more: all looks together take a few times as long as the last.
  const std::size_t next = seen + std::max<std::size_t>(seen / 5, 2);
  if (!found.period || found.period.repetitions >= kEnoughRepetitions) return next;
  const double wanted = found.calls * (kEnoughRepetitions - found.period.repetitions);
  return std::min(next, seen + std::max<std::size_t>(static_cast<std::size_t>(wanted), 1));
}

// Whether to be content with what was found.
bool is_certain(const Found& found, std::int64_t now) noexcept {
  if (!found.period) {
    g_search.found_ns = 0;
    return false;
  }
  if (g_search.found_ns == 0) g_search.found_ns = now;
  g_search.certain_ns = g_search.found_ns + std::clamp(kEnoughPeriods * found.period.length_ns,
                                                       kLeastEnoughNs, kMostEnoughNs);
  return found.period.repetitions >= kEnoughRepetitions || now >= g_search.certain_ns;
}

void search(std::int64_t now) {
  const std::size_t seen = seen_calls();
  const bool is_over = seen >= g_search.most;
  const bool is_due = g_search.found_ns != 0 && now >= g_search.certain_ns;
  if (seen < g_search.analyse_at && !is_over && !is_due) return;
  const Found found = search_threads();
  if (is_certain(found, now) || (is_over && found.period)) {
    begin_following(found);
  } else if (is_over) {
    end_search(Mode::kWaiting);
  } else {
    g_search.analyse_at = next_look(seen, found);
  }
}

}  // namespace

std::atomic<bool> g_sees_calls{false};

void begin_launch_watch(const Session& session) noexcept {
  const SampleConfig& sample = session.config.sample;
  const bool is_wanted = read_switch(*session.control).mode() == raw::RangeMode::kSteps &&
                         !sample.by_calls && sample.range.empty();
  if (!is_wanted || !prepare_seen_calls()) return;
  g_search.begun_ns = now_ns();
  g_search.spent_ns = 0;
  begin_search(g_search.begun_ns);
}

void end_launch_watch() noexcept { enter_mode(Mode::kOff); }

WatchedCalls watched_calls() noexcept {
  switch (g_mode.load(std::memory_order_acquire)) {
    case Mode::kOff:
    case Mode::kWaiting:
      break;
    case Mode::kSearching:
      return {WatchedCalls::Which::kAll};
    case Mode::kFollowing:
      if (g_followed.wake_ns.load(std::memory_order_acquire) != 0) break;
      if (get(g_followed.is_silent)) return {WatchedCalls::Which::kAll};
      return {WatchedCalls::Which::kOne,
              static_cast<std::uint32_t>(get(g_followed.anchor) & kCallNumber)};
  }
  return {};
}

void see_call(CallSignature signature, std::int64_t time_ns) noexcept {
  const Mode mode = g_mode.load(std::memory_order_acquire);
  if (mode == Mode::kSearching) {
    keep_call(signature, time_ns);
  } else if (mode == Mode::kFollowing) {
    if (is_of_this_thread(get(g_followed.thread))) {
      follow(signature, time_ns);
    } else {
      follow_others();
    }
  }
}

void tick_launch_watch() noexcept {
  const Mode mode = g_mode.load(std::memory_order_acquire);
  if (mode == Mode::kOff) return;
  if (!launches_may_begin_steps()) {
    enter_mode(Mode::kOff);
    return;
  }
  const std::int64_t now = now_ns();
  try {
    if (mode == Mode::kFollowing) follow_clock(now);
    if (mode == Mode::kWaiting) begin_search(now);
    if (mode == Mode::kSearching) search(now);
  } catch (...) {
    enter_mode(Mode::kOff);  // no memory for it: time windows are what is left
  }
}

}  // namespace warpline::agent
