#include "launch_watch.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <vector>

#include "clock.h"
#include "cupti_tracing.h"
#include "process.h"
#include "steps.h"
#include "thread_log.h"

namespace warpline::agent {
namespace {

// What a call takes that is seen and not recorded, its two callbacks with it; more or less.
constexpr std::int64_t kSeenCallNs = 300;
// The search may take so much at once, and then this share of the run, in thousandths.
constexpr std::int64_t kSearchNs = 150'000'000;
constexpr std::int64_t kSearchShare = 3;
constexpr std::int64_t kSearchAgainNs = 50'000'000;  // once spent, it waits for so much
// At rest the anchor's kind of calls is seen if that takes at most so many thousandths.
constexpr std::int64_t kRestShare = 2;

// A shorter pattern may be a part of the one wanted: the search goes on for a while. It ends after
// so many repetitions in a row, a time that depends on how long one is, or with all that is kept.
constexpr std::uint32_t kEnoughRepetitions = 256;
constexpr std::int64_t kEnoughPeriods = 64;
constexpr std::int64_t kLeastEnoughNs = 4'000'000'000;
constexpr std::int64_t kMostEnoughNs = 20'000'000'000;

constexpr std::int64_t kShortestRestNs = 60'000'000;  // a few ticks of the watcher
constexpr std::uint64_t kShortestRestSteps = 3;
constexpr std::uint64_t kLostAfter = 4;  // periods in which the anchor does not occur
constexpr std::int64_t kSilentNs = 500'000'000;  // at least: then calls of other kinds are seen, too

constexpr std::size_t kRings = 16;
constexpr std::size_t kRingCalls = 1u << 17;
constexpr std::size_t kRingBytes = kRingCalls * sizeof(ObservedCall);

// The last calls of a thread. Its own thread writes; the watcher reads, and leaves out what was
// overwritten meanwhile.
struct Ring {
  std::atomic<std::uint32_t> thread;  // 0: free
  std::atomic<std::uint32_t> round;   // of the search that the calls since `from` belong to
  std::atomic<std::uint64_t> from;
  std::atomic<std::uint64_t> count;   // of the calls seen in searches, as long as the ring is used

  ObservedCall* calls() const noexcept;
};
Ring g_rings[kRings];
ObservedCall* g_ring_memory = nullptr;  // mapped once, kept

ObservedCall* Ring::calls() const noexcept {
  return g_ring_memory + static_cast<std::size_t>(this - g_rings) * kRingCalls;
}

enum class Mode : std::uint32_t { kOff, kSearching, kFollowing };

// What is followed. The watcher sets it before the mode, the thread of the ring reads it.
struct Followed {
  std::atomic<Ring*> ring;
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
  // The ring's thread's alone, while it is followed:
  std::atomic<CallSignature> previous;       // call of the anchor's number
  std::atomic<std::uint64_t> missed;         // calls since the anchor occurred
  std::atomic<std::uint64_t> missed_anchor;  // of its kind
  std::atomic<std::int64_t> rest_from_ns;    // 0: not in a rest by the clock
  std::atomic<std::uint64_t> rest_steps;     // how many it is to last
};

// The watcher's own.
struct Search {
  std::int64_t begun_ns = 0;  // the watch
  std::int64_t spent_ns = 0;
  std::uint64_t seen = 0;      // calls, all rings
  std::uint64_t analyse_at = 0;  // of them, in this round
  std::int64_t found_ns = 0;     // when a pattern was found first; 0: none is found
  std::int64_t certain_ns = 0;   // when to be content with it
  std::vector<ObservedCall> calls;
};

Followed g_followed;
Search g_search;
std::atomic<Mode> g_mode{Mode::kOff};
std::atomic<std::uint32_t> g_round{0};
std::atomic<bool> g_is_spent{false};  // the search rests, as it has taken too much
thread_local constinit Ring* t_ring = nullptr;
thread_local constinit std::uint32_t t_refused_in = 0;  // the round in which no ring was free

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
  g_sees_calls.store(mode != Mode::kOff, std::memory_order_relaxed);
}

void begin_search() noexcept {
  g_round.fetch_add(1, std::memory_order_relaxed);
  enter_mode(Mode::kSearching);
}

// ---- the rings

bool lives(std::uint32_t thread) noexcept {
  const int kept = errno;
  const bool is_there = syscall(SYS_tgkill, getpid(), thread, 0) == 0;
  errno = kept;
  return is_there;
}

[[gnu::noinline]] Ring* take_ring() noexcept {
  const std::uint32_t round = get(g_round);
  if (t_refused_in == round) return nullptr;
  const auto me = static_cast<std::uint32_t>(syscall(SYS_gettid));
  for (Ring& ring : g_rings) {
    std::uint32_t owner = ring.thread.load(std::memory_order_acquire);
    if (owner != 0 && owner != me && lives(owner)) continue;
    if (!ring.thread.compare_exchange_strong(owner, me, std::memory_order_acq_rel)) continue;
    return t_ring = &ring;
  }
  t_refused_in = round;
  return nullptr;
}

void keep_call(Ring& ring, CallSignature signature, std::int64_t time_ns) noexcept {
  const std::uint32_t round = get(g_round);
  const std::uint64_t count = get(ring.count);
  if (get(ring.round) != round) [[unlikely]] {
    set(ring.from, count);
    ring.round.store(round, std::memory_order_release);
  }
  ObservedCall& place = ring.calls()[count % kRingCalls];
  __atomic_store_n(&place.signature, signature, __ATOMIC_RELAXED);
  __atomic_store_n(&place.time_ns, time_ns, __ATOMIC_RELAXED);
  ring.count.store(count + 1, std::memory_order_release);
}

// Copies what a ring holds of this round, the oldest first.
void read_ring(const Ring& ring, std::vector<ObservedCall>& into) {
  into.clear();
  if (ring.round.load(std::memory_order_acquire) != get(g_round)) return;
  const std::uint64_t end = ring.count.load(std::memory_order_acquire);
  const std::uint64_t oldest = end < kRingCalls ? 0 : end - kRingCalls;
  std::uint64_t begin = std::max(get(ring.from), oldest);
  into.reserve(end - begin);
  for (std::uint64_t at = begin; at < end; ++at) {
    const ObservedCall& place = ring.calls()[at % kRingCalls];
    into.push_back({__atomic_load_n(&place.signature, __ATOMIC_RELAXED),
                    __atomic_load_n(&place.time_ns, __ATOMIC_RELAXED)});
  }
  std::atomic_thread_fence(std::memory_order_acquire);
  // The place of the next call may be half written.
  const std::uint64_t now = get(ring.count) + 1;
  if (now <= begin + kRingCalls) return;
  const auto lost = std::min<std::uint64_t>(now - kRingCalls - begin, into.size());
  into.erase(into.begin(), into.begin() + static_cast<std::ptrdiff_t>(lost));
}

std::uint64_t calls_seen(bool in_round) noexcept {
  std::uint64_t sum = 0;
  for (const Ring& ring : g_rings) {
    const std::uint64_t count = ring.count.load(std::memory_order_acquire);
    if (!in_round) {
      sum += count;
    } else if (get(ring.round) == get(g_round)) {
      sum += count - std::min(get(ring.from), count);
    }
  }
  return sum;
}

// ---- following; the ring's thread

void rest(const NextSample& next, std::int64_t now) noexcept {
  const std::int64_t length = get(g_followed.length_ns);
  // Half a period early: the anchor that follows is the one.
  const std::int64_t rest_ns = static_cast<std::int64_t>(next.in_steps) * length - length / 2;
  if (next.in_steps < kShortestRestSteps || rest_ns < kShortestRestNs) return;
  set(g_followed.rest_from_ns, now);
  set(g_followed.rest_steps, next.in_steps);
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
  begin_search();
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

struct Found {
  Period period;
  Ring* ring = nullptr;
  double calls = 0;  // of the whole process, in one period, and of these
  double anchor_calls = 0;
  double launches = 0;
};

// Counts what the process does in a period, by the last repetitions.
void count_calls(Found& found) {
  const Period& period = found.period;
  for (const Ring& ring : g_rings) {
    read_ring(ring, g_search.calls);
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

Found search_rings(bool& is_full) {
  Found best;
  for (Ring& ring : g_rings) {
    read_ring(ring, g_search.calls);
    is_full = is_full || g_search.calls.size() + 2 >= kRingCalls;
    if (g_search.calls.size() <= kLeastRepetitions) continue;
    Found found{find_period(g_search.calls), &ring};
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
  const double rest_share_ns = found.anchor_calls * static_cast<double>(kSeenCallNs) * 1000;
  const bool by_clock = rest_share_ns > static_cast<double>(period.length_ns * kRestShare);
  set(f.ring, found.ring);
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
  madvise(g_ring_memory, kRings * kRingBytes, MADV_DONTNEED);
  plan_samples(period.length_ns);
  note_period(found, by_clock);
  enter_mode(Mode::kFollowing);
}

// Keeps the search within what it may take.
void spend(std::int64_t now) noexcept {
  const std::uint64_t seen = calls_seen(false);
  if (!get(g_is_spent)) {
    g_search.spent_ns += static_cast<std::int64_t>(seen - g_search.seen) * kSeenCallNs;
  }
  g_search.seen = seen;
  const std::int64_t allowed = kSearchNs + (now - g_search.begun_ns) / 1000 * kSearchShare;
  const std::int64_t left = allowed - g_search.spent_ns;
  if (left < 0) set(g_is_spent, true);
  if (left > kSearchAgainNs) set(g_is_spent, false);
}

// Says at how many calls to look again, having looked at so many.
std::uint64_t next_look(std::uint64_t seen, const Found& found) noexcept {
  // Each time a fifth more: all looks together take a few times as long as the last.
  const std::uint64_t next = seen + std::max<std::uint64_t>(seen / 5, 2);
  if (!found.period) return next;
  const double wanted = found.calls * (kEnoughRepetitions - found.period.repetitions);
  return std::min(next, seen + std::max<std::uint64_t>(static_cast<std::uint64_t>(wanted), 1));
}

void search(std::int64_t now) {
  spend(now);
  const std::uint64_t seen = calls_seen(true);
  const bool is_due = g_search.found_ns != 0 && now >= g_search.certain_ns;
  if (seen < g_search.analyse_at && !is_due) return;
  bool is_full = false;
  const Found found = search_rings(is_full);
  bool is_certain = false;
  if (!found.period) {
    g_search.found_ns = 0;
  } else {
    if (g_search.found_ns == 0) g_search.found_ns = now;
    g_search.certain_ns = g_search.found_ns + std::clamp(kEnoughPeriods * found.period.length_ns,
                                                         kLeastEnoughNs, kMostEnoughNs);
    is_certain = is_full || found.period.repetitions >= kEnoughRepetitions ||
                 now >= g_search.certain_ns;
  }
  g_search.analyse_at = is_certain ? 0 : next_look(seen, found);
  if (!is_certain) return;
  g_search.found_ns = 0;
  begin_following(found);
}

bool map_rings() noexcept {
  if (g_ring_memory != nullptr) return true;
  void* memory = mmap(nullptr, kRings * kRingBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return false;
  g_ring_memory = static_cast<ObservedCall*>(memory);
  return true;
}

}  // namespace

std::atomic<bool> g_sees_calls{false};

void begin_launch_watch(const Session& session) noexcept {
  const SampleConfig& sample = session.config.sample;
  const bool is_wanted = read_switch(*session.control).mode() == raw::RangeMode::kSteps &&
                         !sample.by_calls && sample.range.empty();
  if (!is_wanted || !map_rings()) return;
  g_search.begun_ns = now_ns();
  g_search.spent_ns = 0;
  g_search.seen = calls_seen(false);
  g_search.analyse_at = 0;
  g_search.found_ns = 0;
  set(g_is_spent, false);
  begin_search();
}

void end_launch_watch() noexcept { enter_mode(Mode::kOff); }

WatchedCalls watched_calls() noexcept {
  switch (g_mode.load(std::memory_order_acquire)) {
    case Mode::kOff:
      break;
    case Mode::kSearching:
      if (!get(g_is_spent)) return {WatchedCalls::Which::kAll};
      break;
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
    Ring* ring = t_ring != nullptr ? t_ring : take_ring();
    if (ring != nullptr) keep_call(*ring, signature, time_ns);
  } else if (mode == Mode::kFollowing) {
    if (t_ring != nullptr && t_ring == get(g_followed.ring)) {
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
  if (mode == Mode::kFollowing) {
    follow_clock(now);
    return;
  }
  try {
    search(now);
  } catch (...) {
    enter_mode(Mode::kOff);  // no memory for it: time windows are what is left
  }
}

}  // namespace warpline::agent
