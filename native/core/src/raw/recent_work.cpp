#include "raw/recent_work.h"

#include <algorithm>
#include <string_view>

#include "raw/cuda_clock.h"
#include "raw/expected_work.h"
#include "raw/log.h"

namespace warpline {

using raw::Kind;

namespace {

constexpr int64_t kAgeNs = 4'000'000'000;       // of correlations, and twice that
constexpr int64_t kLongestNs = 60'000'000'000;  // that work may take until its record comes
constexpr std::size_t kMostLaunches = 100'000;  // without work
constexpr std::size_t kMostCaptures = 100'000;
constexpr std::size_t kMostNames = 1U << 20;

bool is_time(uint64_t time_ns) { return time_ns != 0 && time_ns <= uint64_t{kFarNs}; }

struct Span {
  int64_t start_ns;
  int64_t end_ns;
};

// The time that intervals cover; sorts them. Most come in order.
int64_t covered_ns(std::vector<Span> &spans) {
  const auto is_earlier = [](const Span &a, const Span &b) { return a.start_ns < b.start_ns; };
  if (!std::is_sorted(spans.begin(), spans.end(), is_earlier)) {
    std::sort(spans.begin(), spans.end(), is_earlier);
  }
  int64_t covered = 0;
  int64_t until_ns = INT64_MIN;
  for (const Span &span : spans) {
    if (span.end_ns <= until_ns) continue;
    covered += span.end_ns - std::max(span.start_ns, until_ns);
    until_ns = span.end_ns;
  }
  return covered;
}

}  // namespace

int64_t RecentWork::end() {
  const bool ages = from_ns_ >= ages_at_ns_;
  if (ages) ages_at_ns_ = from_ns_ + kAgeNs;
  int64_t found = 0;
  for (Process &process : processes_) {
    forget(process);
    const int64_t missing = missing_from_ns(process);
    if (missing != 0 && (found == 0 || missing < found)) found = missing;
    if (!ages) continue;
    process.worked.age();
    process.graphs.age();
  }
  return found;
}

bool RecentWork::take(Log &log, const uint64_t *record, std::size_t words) {
  const auto place = static_cast<std::size_t>(log.process);
  if (place >= processes_.size()) processes_.resize(place + 1);
  Process &process = processes_[place];
  switch (raw::kind_of(*record)) {
    case Kind::kKernel: return take_work<raw::Kernel>(process, log.process, record, words);
    case Kind::kCopy: return take_work<raw::Copy>(process, log.process, record, words);
    case Kind::kFill: return take_work<raw::Fill>(process, log.process, record, words);
    case Kind::kGraph: return take_work<raw::Graph>(process, log.process, record, words);
    case Kind::kCall: return take_call(log, process, record, words);
    case Kind::kCallName: return take_name(log, record, words);
    default: return take_fact(log, process, record, words);
  }
}

template <typename Record>
bool RecentWork::take_work(Process &process, int32_t number, const uint64_t *record, std::size_t words) {
  Record found;
  if (!found.read(record, words)) return false;
  process.worked.add(found.correlation);
  if (!is_time(found.start_ns) || !is_time(found.end_ns)) return true;  // CUPTI does not know them
  const Device device{number, found.device};
  if (device != last_device_) devices_.insert(device);
  last_device_ = device;
  const uint64_t end_ns = std::max(found.start_ns, found.end_ns);
  if (process.times.host_ns(end_ns, true) < from_ns_) return true;
  constexpr bool kIsGraph = Record::kKind == Kind::kGraph;
  process.work.push_back({static_cast<int64_t>(found.start_ns), static_cast<int64_t>(end_ns), found.device,
                          kIsGraph ? found.correlation : 0});
  return true;
}

bool RecentWork::take_call(Log &log, Process &process, const uint64_t *record, std::size_t words) {
  raw::Call call;
  if (!call.read(record, words)) return false;
  if (!call.has(raw::Call::kLaunches | raw::Call::kCaptures | raw::Call::kIsGraph)) return true;
  const uint32_t api = std::min<uint32_t>(call.api, 3) % 3;
  const int32_t place = log.calls[api].get(call.call);
  const CudaCallName name = place < 0 ? CudaCallName{} : names_[static_cast<std::size_t>(place)];
  if (call.has(raw::Call::kIsGraph)) process.graphs.add(call.correlation);
  if (call.has(raw::Call::kCaptures) && process.captures.size() < kMostCaptures) {
    const bool begins = name.begins_capture();
    if (!begins) process.captures.push_back({static_cast<int64_t>(call.end_ns), -1});
    if (begins && call.status == 0) process.captures.push_back({static_cast<int64_t>(call.start_ns), 1});
  }
  const Expected work = expected_of(call.flags, call.status != 0, call.correlation, name);
  const bool is_old = static_cast<int64_t>(call.end_ns) < from_ns_ - kLongestNs;
  if (work.collected != 0 && !is_old) {
    process.launches.push_back({static_cast<int64_t>(call.start_ns), call.correlation, work.collected});
  }
  return true;
}

bool RecentWork::take_name(Log &log, const uint64_t *record, std::size_t words) {
  std::string_view text;
  if (!call_name_in(record, words, text)) return false;
  if (names_.size() >= kMostNames) return true;
  const uint32_t key = raw::aux_of(*record);
  const uint32_t api = std::min<uint32_t>(key >> 16, 3) % 3;
  log.calls[api].set(key & 0xffff, static_cast<int32_t>(names_.size()));
  names_.push_back(describe_call(0, text, api == 1));
  return true;
}

bool RecentWork::take_fact(Log &log, Process &process, const uint64_t *record, std::size_t words) {
  switch (raw::kind_of(*record)) {
    case Kind::kCudaClock: {
      raw::CudaClock clock;
      if (!clock.read(record, words)) return false;
      process.times.see(record, words);
      process.facts.clock.push_back(
          {static_cast<int64_t>(clock.cupti_ns), static_cast<int64_t>(clock.host_ns)});
      return true;
    }
    case Kind::kCollecting: {
      raw::Collecting collecting;
      if (!collecting.read(record, words)) return false;
      process.facts.collected |= collecting.kinds;
      auto &changes = process.facts.collecting;
      changes.emplace_back(static_cast<int64_t>(collecting.time_ns), collecting.kinds);
      std::stable_sort(changes.begin(), changes.end(),
                       [](const auto &a, const auto &b) { return a.first < b.first; });
      return true;
    }
    case Kind::kDevice: {
      raw::Device device;
      if (!device.read(record, words)) return false;
      devices_.insert({log.process, device.device});
      return true;
    }
    case Kind::kContext: {
      raw::Context context;
      if (!context.read(record, words)) return false;
      devices_.insert({log.process, context.device});
      return true;
    }
    case Kind::kLost: {
      raw::Lost lost;
      if (!lost.read(record, words)) return false;
      lost_ += summable(lost.records);
      return true;
    }
    default: return true;
  }
}

void RecentWork::forget(Process &process) {
  std::erase_if(process.work, [&](const Work &work) {
    return process.times.host_ns(static_cast<uint64_t>(work.end_ns), true) < from_ns_;
  });
  std::erase_if(process.launches, [&](const Launch &launch) {
    return launch.start_ns < from_ns_ - kLongestNs || process.worked.contains(launch.correlation);
  });
  if (process.launches.size() > kMostLaunches) {
    const auto more = static_cast<std::ptrdiff_t>(process.launches.size() - kMostLaunches);
    process.launches.erase(process.launches.begin(), process.launches.begin() + more);
  }
}

int64_t RecentWork::missing_from_ns(Process &process) const {
  if (process.launches.empty()) return 0;
  Captures captures;
  for (const Capture &change : process.captures) captures.add(change.time_ns, change.change);
  captures.settle();
  int64_t found = 0;
  for (const Launch &launch : process.launches) {
    if ((collected_at(process.facts, launch.start_ns) & launch.collected) == 0) continue;
    if (captures.holds(launch.start_ns)) continue;
    found = found == 0 ? launch.start_ns : std::min(found, launch.start_ns);
  }
  return found;
}

void RecentWork::measure(int64_t from_ns, int64_t until_ns, const std::vector<int32_t> &rows,
                         std::vector<int64_t> &busy_ns, std::vector<int64_t> &operations) const {
  std::vector<std::vector<Span>> spans(busy_ns.size());
  for (std::size_t number = 0; number < processes_.size(); ++number) {
    const Process &process = processes_[number];
    std::vector<CudaClockPair> pairs = process.facts.clock;
    const bool has_clock = !pairs.empty();
    const CudaClock clock(pairs);
    const bool needs_calls = (process.facts.collected & raw::kCollectsCalls) != 0;
    uint32_t last = 0;
    int32_t row = -1;
    for (const Work &work : process.work) {
      const int64_t start = has_clock ? clock.host_ns(work.start_ns) : work.start_ns;
      const int64_t end = has_clock ? std::max(start, clock.host_ns(work.end_ns)) : work.end_ns;
      const bool is_within = start < until_ns && (end > from_ns || (start == from_ns && end == from_ns));
      // Graphs stay recorded while recording rests: those have no call.
      if (!is_within || (work.graph != 0 && needs_calls && !process.graphs.contains(work.graph))) continue;
      if (row < 0 || work.device != last) {
        const auto place = devices_.find({static_cast<int32_t>(number), work.device});
        row = rows[static_cast<std::size_t>(std::distance(devices_.begin(), place))];
        last = work.device;
      }
      ++operations[static_cast<std::size_t>(row)];
      spans[static_cast<std::size_t>(row)].push_back({std::max(start, from_ns), std::min(end, until_ns)});
    }
  }
  for (std::size_t row = 0; row < spans.size(); ++row) busy_ns[row] += covered_ns(spans[row]);
}

}  // namespace warpline
