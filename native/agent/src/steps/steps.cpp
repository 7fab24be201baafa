#include "steps/steps.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>

#include "cupti/tracing.h"
#include "session/clock.h"
#include "session/process.h"
#include "session/thread_log.h"

namespace warpline::agent {
namespace {

// What a range that begins a step is usually called, numbers and signs left out.
constexpr std::string_view kUsualNames[] = {
    "step",          "trainstep", "trainingstep", "profilerstep",  "globalstep",
    "iteration",     "iter",      "trainiter",    "trainiteration", "trainingiteration",
    "batch",         "trainbatch", "trainingbatch",
};
// PyTorch names the step of every optimizer so, for who emits its operators as NVTX ranges.
constexpr std::string_view kOptimizerStep = "Optimizer.step#";
constexpr std::size_t kMostUsual = 64;  // longer names are not usual ones

// How a plan is chosen from the time that steps take: the first ones warm up, and turning CUPTI on
// and off takes time that few quick steps would not outweigh.
constexpr std::uint64_t kWarmSteps = 3;
constexpr std::uint64_t kMeasuredSteps = 4;
constexpr std::int64_t kMeasuredNs = 50'000'000;
constexpr std::uint64_t kMostMeasuredSteps = 10'000;
constexpr std::int64_t kWindowNs = 200'000'000;
constexpr std::uint64_t kLeastSteps = 2;
constexpr std::uint64_t kMostSteps = 10'000;
constexpr std::uint64_t kMillion = 1'000'000;

bool is_digit(char symbol) noexcept { return symbol >= '0' && symbol <= '9'; }

char lower(char symbol) noexcept {
  return symbol >= 'A' && symbol <= 'Z' ? static_cast<char>(symbol - 'A' + 'a') : symbol;
}

// Matches a pattern in which * stands for any text and ? for one byte.
bool matches(std::string_view text, std::string_view pattern) noexcept {
  std::size_t at = 0;
  std::size_t in = 0;
  std::size_t star = pattern.npos;
  std::size_t resume = 0;
  while (at < text.size()) {
    if (in < pattern.size() && pattern[in] == '*') {
      star = in++;
      resume = at;
    } else if (in < pattern.size() && (pattern[in] == '?' || pattern[in] == text[at])) {
      ++in;
      ++at;
    } else if (star != pattern.npos) {
      in = star + 1;
      at = ++resume;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', in) == pattern.npos;
}

bool is_usual(std::string_view name) noexcept {
  if (name.size() > kMostUsual) return false;
  if (name.starts_with(kOptimizerStep)) return true;
  char letters[kMostUsual];
  std::size_t count = 0;
  for (const char symbol : name) {
    const char small = lower(symbol);
    if (small >= 'a' && small <= 'z') letters[count++] = small;
  }
  const std::string_view plain(letters, count);
  return std::find(std::begin(kUsualNames), std::end(kUsualNames), plain) !=
         std::end(kUsualNames);
}

// Compares a name with a key, in which # stands for the digits of a number.
bool matches_key(std::string_view name, std::string_view key) noexcept {
  std::size_t at = 0;
  for (const char symbol : key) {
    if (at == name.size()) return false;
    if (symbol == '#' && is_digit(name[at])) {
      while (at < name.size() && is_digit(name[at])) ++at;
    } else if (name[at++] != symbol) {
      return false;
    }
  }
  return at == name.size();
}

void keep_key(StepCount& steps, std::string_view name) noexcept {
  std::uint32_t bytes = 0;
  for (std::size_t at = 0; at < name.size() && bytes < StepCount::kMostKey; ++at) {
    const bool is_number = is_digit(name[at]);
    if (is_number && at > 0 && is_digit(name[at - 1])) continue;
    steps.key[bytes++] = is_number ? '#' : name[at];
  }
  steps.key_bytes.store(bytes, std::memory_order_release);
}

std::uint32_t this_thread() noexcept { return static_cast<std::uint32_t>(syscall(SYS_gettid)); }

// Whether this thread is the one that counts the steps of this process: the first that begins one,
// or the next when that one has ended.
bool is_counting(StepCount& steps) noexcept {
  const std::uint32_t me = this_thread();
  std::uint32_t owner = steps.thread.load(std::memory_order_acquire);
  if (owner == me) [[likely]] return true;
  if (owner != 0) {
    const int kept = errno;
    const bool lives = syscall(SYS_tgkill, getpid(), owner, 0) == 0;
    errno = kept;
    if (lives) return false;
  }
  return steps.thread.compare_exchange_strong(owner, me, std::memory_order_acq_rel);
}

bool begins_step(std::string_view name, const SampleConfig& config,
                 std::string_view domain) noexcept {
  if (!config.any_domain && domain != config.domain) return false;
  if (!config.range.empty()) return matches(name, config.range);
  StepCount& steps = g_process->steps;
  const std::uint32_t bytes = steps.key_bytes.load(std::memory_order_acquire);
  return bytes == 0 ? is_usual(name) : matches_key(name, {steps.key, bytes});
}

void publish_plan(raw::ControlPage& page, const SampleConfig& config, std::int64_t step_ns,
                  std::uint64_t first) noexcept {
  const auto enough = static_cast<std::uint64_t>((kWindowNs + step_ns - 1) / step_ns);
  const std::uint64_t count = std::clamp(enough, kLeastSteps, kMostSteps);
  const std::uint64_t duty = std::max<std::uint64_t>(config.duty_ppm, 1);
  const std::uint64_t every = (count * kMillion + duty - 1) / duty;
  const raw::SamplePlan plan{static_cast<std::uint32_t>(count),
                             static_cast<std::uint32_t>(std::min<std::uint64_t>(first, 0xffff)),
                             static_cast<std::uint32_t>(std::min<std::uint64_t>(every, ~0u))};
  std::uint64_t none = 0;
  __atomic_compare_exchange_n(&page.sample_plan, &none, plan.word(), false, __ATOMIC_ACQ_REL,
                              __ATOMIC_RELAXED);
}

// Chooses what to record once enough steps were measured; the first process does for all.
void choose_plan(StepCount& steps, const SampleConfig& config, raw::ControlPage& page) noexcept {
  const std::int64_t now = now_ns();
  if (steps.begun == kWarmSteps) steps.measured_from_ns = now;
  if (steps.begun < kWarmSteps + kMeasuredSteps || steps.measured_from_ns == 0) return;
  const auto measured = static_cast<std::int64_t>(steps.begun - kWarmSteps);
  const std::int64_t took = now - steps.measured_from_ns;
  if (took < kMeasuredNs && steps.begun < kMostMeasuredSteps) return;
  publish_plan(page, config, std::max<std::int64_t>(took / measured, 1), steps.begun + 2);
}

// Returns which steps are to be recorded; of no steps while that is not chosen yet.
raw::SamplePlan plan_of(const Session& session) noexcept {
  const SampleConfig& config = session.config.sample;
  if (config.once) return {static_cast<std::uint32_t>(config.steps), 0, ~std::uint32_t{0}};
  if (config.every != 0) {
    return {static_cast<std::uint32_t>(config.steps), 0, static_cast<std::uint32_t>(config.every)};
  }
  return raw::SamplePlan::of(__atomic_load_n(&session.control->sample_plan, __ATOMIC_ACQUIRE));
}

// Whether a step is to be recorded.
bool is_sampled(StepCount& steps, const Session& session, std::uint64_t step) noexcept {
  if (plan_of(session).every == 0) {
    choose_plan(steps, session.config.sample, *session.control);
  }
  const raw::SamplePlan plan = plan_of(session);
  return plan.every != 0 && plan.records(step);
}

void note_step(raw::Note note, std::uint64_t step) noexcept {
  char text[24];
  const auto [end, error] = std::to_chars(text, text + sizeof text, step);
  note_window(note, {text, static_cast<std::size_t>(end - text)});
}

void begin_sample(StepCount& steps, std::uint64_t step) noexcept {
  window_begin();
  steps.windows.fetch_add(1, std::memory_order_relaxed);
  steps.own.store(OwnSteps::kRecording, std::memory_order_release);
  follow_recording_state();
  note_step(raw::Note::kSampleBegin, step);  // last: turning kinds on is not the step's
}

void end_sample(StepCount& steps, std::uint64_t step) noexcept {
  note_step(raw::Note::kSampleEnd, step);
  window_end();
  steps.own.store(OwnSteps::kResting, std::memory_order_release);
  follow_recording_state();
}

// Whose steps a thread may change: one at a time, and it never waits. Who counts is one thread, so
// that only the moment at which another kind of boundary takes over is contended.
class Change {
 public:
  explicit Change(StepCount& steps) noexcept
      : steps_(steps), is_mine_(!steps.is_changing.exchange(true, std::memory_order_acquire)) {}
  ~Change() {
    if (is_mine_) steps_.is_changing.store(false, std::memory_order_release);
  }
  Change(const Change&) = delete;
  Change& operator=(const Change&) = delete;
  explicit operator bool() const noexcept { return is_mine_; }

 private:
  StepCount& steps_;
  bool is_mine_;
};

// Whether a sample may begin. A window by time does not keep it from that: the launcher opened it
// before it knew of steps, and ends it when it looks again.
bool may_begin_sample(const raw::ControlPage& page) noexcept {
  const raw::State state = read_switch(page).state();
  return state == raw::State::kRecording || state == raw::State::kTimeWindow;
}

// Tells the launcher of a step that begins, the last of as many as have passed.
void tell_step(raw::ControlPage& page, std::uint64_t passed) noexcept {
  const std::int64_t now = now_ns();
  const std::uint64_t before = __atomic_fetch_add(&page.steps_begun, passed, __ATOMIC_RELAXED);
  const std::uint64_t told = std::min<std::uint64_t>(passed, raw::kControlSteps);
  for (std::uint64_t step = before + passed - told; step < before + passed; ++step) {
    __atomic_store_n(&page.step_ns[step % raw::kControlSteps], now, __ATOMIC_RELAXED);
  }
}

// Counts a step that begins, the `to`th after the last. Whoever calls has the Change.
void count_step(StepCount& steps, const Session& session, std::uint64_t to,
                std::uint64_t passed) noexcept {
  raw::ControlPage& page = *session.control;
  // The only sample has the first steps after the start of recording.
  if (session.config.sample.once && steps.begun == 0 && !may_begin_sample(page)) return;
  steps.begun += to;
  const std::uint64_t step = steps.begun - 1;
  tell_step(page, passed);
  const OwnSteps before = steps.own.load(std::memory_order_relaxed);
  if (before == OwnSteps::kNone) {
    add(page.step_processes);
    steps.own.store(OwnSteps::kResting, std::memory_order_release);
    follow_recording_state();
  }
  const bool is_recording = before == OwnSteps::kRecording;
  const bool is_wanted = is_sampled(steps, session, step) &&
                         (is_recording || may_begin_sample(page));
  if (is_wanted && !is_recording) begin_sample(steps, step);
  if (!is_wanted && is_recording) end_sample(steps, step);
}

// Ends what was counted by launches: somebody marks steps, or there are none any more.
void leave_launches(StepCount& steps, StepSource next) noexcept {
  if (steps.own.load(std::memory_order_relaxed) == OwnSteps::kRecording) {
    end_sample(steps, steps.begun);
  }
  steps.thread.store(0, std::memory_order_release);
  steps.source.store(next, std::memory_order_release);
}

// Returns the session if this thread is to count a step now.
const Session* session_to_count_in() noexcept {
  const Session* session = g_session.load(std::memory_order_acquire);
  if (session == nullptr) return nullptr;
  // A fork becomes a process of its own first: its count begins at 0.
  if (g_process->generation.load(std::memory_order_acquire) == 0) definition_log();
  return is_counting(g_process->steps) ? session : nullptr;
}

// Marked steps are counted from here on, from 0.
void take_over_from_launches(StepCount& steps) noexcept {
  const Change change(steps);
  if (!change || steps.source.load(std::memory_order_relaxed) != StepSource::kLaunches) return;
  leave_launches(steps, StepSource::kMarked);
  steps.begun = 0;
  steps.measured_from_ns = 0;
}

// A step begins that the program marks. Returns whether this thread counts them.
bool marked_step_begins() noexcept {
  StepCount& steps = g_process->steps;
  if (steps.source.load(std::memory_order_acquire) == StepSource::kLaunches) {
    take_over_from_launches(steps);
  }
  const Session* session = session_to_count_in();
  if (session == nullptr) return false;
  const Change change(steps);
  if (!change) return false;
  steps.source.store(StepSource::kMarked, std::memory_order_release);
  count_step(steps, *session, 1, 1);
  return true;
}

}  // namespace

bool step_range_begins(std::string_view name, std::string_view domain) noexcept {
  const Session* session = g_session.load(std::memory_order_acquire);
  if (session == nullptr || !begins_step(name, session->config.sample, domain)) return false;
  if (!marked_step_begins()) return false;
  StepCount& steps = g_process->steps;
  if (steps.key_bytes.load(std::memory_order_relaxed) == 0) keep_key(steps, name);
  return true;
}

void step_begins() noexcept {
  if (g_session.load(std::memory_order_acquire) != nullptr) marked_step_begins();
}

NextSample step_begins_by_launch(std::uint64_t to, std::uint64_t passed) noexcept {
  StepCount& steps = g_process->steps;
  const Change change(steps);
  const Session* session = change ? g_session.load(std::memory_order_acquire) : nullptr;
  if (session == nullptr || steps.source.load(std::memory_order_relaxed) == StepSource::kMarked) {
    return {};
  }
  if (session_to_count_in() != session) return {};
  steps.source.store(StepSource::kLaunches, std::memory_order_release);
  count_step(steps, *session, to, passed);
  const bool is_recording = steps.own.load(std::memory_order_relaxed) == OwnSteps::kRecording;
  const raw::SamplePlan plan = plan_of(*session);
  const bool is_known = plan.every != 0 && !session->config.sample.once;
  const std::uint64_t next = is_known ? plan.steps_until(steps.begun - 1) : 0;
  return {true, is_recording, next};
}

bool steps_by_launch_end() noexcept {
  StepCount& steps = g_process->steps;
  const Change change(steps);
  const Session* session = change ? g_session.load(std::memory_order_acquire) : nullptr;
  if (session == nullptr) return false;
  // It may be that none has begun yet.
  if (steps.source.load(std::memory_order_relaxed) != StepSource::kLaunches) return true;
  const bool is_counted = steps.own.load(std::memory_order_relaxed) != OwnSteps::kNone;
  leave_launches(steps, StepSource::kNone);
  steps.own.store(OwnSteps::kNone, std::memory_order_release);
  if (is_counted) add(session->control->step_processes, ~std::uint64_t{0});
  return true;
}

bool launches_may_begin_steps() noexcept {
  const Session* session = g_session.load(std::memory_order_acquire);
  return session != nullptr && read_switch(*session->control).state() != raw::State::kStopped &&
         g_process->steps.source.load(std::memory_order_acquire) != StepSource::kMarked;
}

std::int64_t likely_rest_ns(std::int64_t sample_ns) noexcept {
  const Session* session = g_session.load(std::memory_order_acquire);
  if (session == nullptr) return 0;
  const raw::SamplePlan plan = plan_of(*session);
  const bool rests = g_process->steps.own.load(std::memory_order_acquire) == OwnSteps::kResting;
  if (!rests || plan.steps == 0 || plan.every <= plan.steps) return 0;
  const double share = static_cast<double>(plan.every - plan.steps) / plan.steps;
  constexpr double kLongest = 1e18;
  return static_cast<std::int64_t>(std::min(static_cast<double>(sample_ns) * share, kLongest));
}

void plan_samples(std::int64_t step_ns) noexcept {
  const Session* session = g_session.load(std::memory_order_acquire);
  if (session == nullptr || plan_of(*session).every != 0) return;
  publish_plan(*session->control, session->config.sample, step_ns, 1);
}

}  // namespace warpline::agent
