#include "raw/counters.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <string>
#include <unordered_map>

#include "raw/tables.h"
#include "raw/texts.h"

namespace warpline {

namespace {

constexpr std::size_t kMostMetrics = 1U << 20;
constexpr std::size_t kMostOpen = 256;       // ranges of a thread, the outermost ones
constexpr std::size_t kMostBytes = 1U << 12;  // of a text with ranges

using Kernels = Growing<ProfiledKernelRow>;

// Finds launches by process and number. Of several with a number, which only a damaged log has, it
// finds the first.
class Launches {
 public:
  // The rows are sorted by number and process.
  explicit Launches(const RawTables &tables)
      : places_(tables.cuda.places), kernels_(tables.rows.of<ProfiledKernelRow>()) {}

  // Returns the row of a launch that has values, or -1.
  int64_t row_of(int32_t process, uint64_t launch) {
    // Values of a launch most often follow each other.
    if (process != process_ || launch != launch_) {
      process_ = process;
      launch_ = launch;
      row_ = find();
    }
    return row_;
  }

 private:
  int64_t find() const {
    const std::pair wanted(launch_, process_);
    const auto key = [&](const ProfiledKernelRow &kernel) {
      return std::pair(uint64_t{kernel.launch}, places_[kernel.place].process);
    };
    const auto found = std::lower_bound(
        kernels_.begin(), kernels_.end(), wanted,
        [&](const ProfiledKernelRow &kernel, const auto &value) { return key(kernel) < value; });
    if (found == kernels_.end() || key(*found) != wanted) return -1;
    return found->has(raw::CountedKernel::kIsFailed) ? -1 : found - kernels_.begin();
  }

  const std::vector<CudaPlace> &places_;
  const Kernels &kernels_;
  int32_t process_ = -1;
  uint64_t launch_ = 0;
  int64_t row_ = -1;
};

uint32_t metric_of(RawTables &tables, int32_t process, uint32_t number) {
  CounterTables &counters = tables.counters;
  const auto [found, is_new] = counters.metric_of.try_emplace(
      {process, number}, static_cast<uint32_t>(counters.metrics.size()));
  if (is_new) {
    const std::string name = "[unknown metric " + std::to_string(number) + "]";
    counters.metrics.push_back({tables.texts.intern(name), -1});
  }
  return found->second;
}

// Values get the row of their launch in place of its number, and the place of their metric.
void join_values(RawTables &tables) {
  Growing<KernelMetricRow> &values = tables.rows.of<KernelMetricRow>();
  Launches launches(tables);
  std::size_t kept = 0;
  for (KernelMetricRow value : values) {
    const int64_t row = launches.row_of(value.process, value.launch);
    if (row < 0) continue;
    value.launch = static_cast<uint64_t>(row);
    value.metric = metric_of(tables, value.process, value.metric);
    values[kept++] = value;
  }
  tables.counters.lost_values += static_cast<int64_t>(values.size() - kept);
  values.cut_to(kept);
}

// Launches get the clock of their passes. Only a damaged log has several of one launch: the widest.
void join_clocks(RawTables &tables) {
  Kernels &kernels = tables.rows.of<ProfiledKernelRow>();
  Launches launches(tables);
  for (const ClockOfLaunch &clock : tables.counters.clocks) {
    const int64_t row = launches.row_of(clock.process, clock.launch);
    if (row < 0 || clock.lowest_mhz == 0) continue;
    ProfiledKernelRow &kernel = kernels[static_cast<std::size_t>(row)];
    const uint32_t before = kernel.lowest_mhz == 0 ? clock.lowest_mhz : kernel.lowest_mhz;
    kernel.lowest_mhz = std::min(before, clock.lowest_mhz);
    kernel.highest_mhz = std::max(kernel.highest_mhz, clock.highest_mhz);
  }
}

// The push/pop ranges that a thread has open, as time goes on.
class OpenRanges {
 public:
  void push(const RawTables &tables, uint32_t range) {
    if (rows_.size() >= kMostOpen) drop_ended(tables, tables.ranges[range].start_ns());
    if (rows_.size() >= kMostOpen) return;
    rows_.push_back(range);
    is_told_ = false;
  }

  // Returns the text of those that are open at a time, -1 without any.
  int32_t text_at(RawTables &tables, int64_t time_ns) {
    drop_ended(tables, time_ns);
    if (!is_told_) text_ = rows_.empty() ? -1 : tables.texts.intern(told(tables));
    is_told_ = true;
    return text_;
  }

 private:
  void drop_ended(const RawTables &tables, int64_t time_ns) {
    const std::size_t dropped = std::erase_if(
        rows_, [&](uint32_t range) { return tables.ranges[range].end_ns() <= time_ns; });
    if (dropped != 0) is_told_ = false;
  }

  // Outermost first, joined by slashes; domains by semicolons: "step/forward@model".
  std::string told(const RawTables &tables) {
    // Of those that began together the outer one was written first.
    std::sort(rows_.begin(), rows_.end(), [&](uint32_t a, uint32_t b) {
      return std::pair(tables.ranges[a].start_ns(), a) < std::pair(tables.ranges[b].start_ns(), b);
    });
    std::vector<std::pair<int32_t, std::string>> paths;  // by domain
    for (const uint32_t range : rows_) {
      const RawLabel &label = range_label(tables, range);
      const int32_t domain = tables.places[static_cast<std::size_t>(label.place)].domain_name;
      auto path = std::find_if(paths.begin(), paths.end(),
                               [&](const auto &known) { return known.first == domain; });
      if (path == paths.end()) {
        path = paths.insert(paths.end(), {domain, {}});
      } else {
        path->second += '/';
      }
      if (label.name >= 0) path->second += tables.texts.text(label.name);
    }
    std::string text;
    for (const auto &[domain, path] : paths) {
      if (!text.empty()) text += "; ";
      text += path;
      if (domain >= 0) text.append("@").append(tables.texts.text(domain));
    }
    if (text.size() > kMostBytes) text.resize(kMostBytes);
    return text;
  }

  std::vector<uint32_t> rows_;
  int32_t text_ = -1;
  bool is_told_ = true;  // text_ is that of these ranges
};

void join_ranges(RawTables &tables) {
  Kernels &kernels = tables.rows.of<ProfiledKernelRow>();
  std::unordered_map<uint32_t, OpenRanges> open_in;  // by thread
  for (const ProfiledKernelRow &kernel : kernels) open_in[kernel.thread];
  std::vector<uint32_t> by_start(kernels.size());
  std::iota(by_start.begin(), by_start.end(), 0U);
  std::sort(by_start.begin(), by_start.end(), [&](uint32_t a, uint32_t b) {
    return kernels[a].start_ns < kernels[b].start_ns;
  });
  auto next = tables.range_order.begin();
  for (const uint32_t row : by_start) {
    ProfiledKernelRow &kernel = kernels[row];
    for (; next != tables.range_order.end(); ++next) {
      if (tables.ranges[*next].start_ns() > kernel.start_ns) break;
      const RawLabel &label = range_label(tables, *next);
      const auto open = open_in.find(label.thread);
      if (open != open_in.end() && !label.is_start_end) open->second.push(tables, *next);
    }
    kernel.nvtx = open_in[kernel.thread].text_at(tables, kernel.start_ns);
  }
}

}  // namespace

void CounterTables::add_metric(RawTexts &texts, int32_t process, uint32_t number,
                               std::string_view text) {
  const std::size_t space = text.find(' ');
  const std::string_view name = text.substr(0, space);
  if (name.empty() || metrics.size() >= kMostMetrics) return;
  const auto [found, is_new] =
      metric_of.try_emplace({process, number}, static_cast<uint32_t>(metrics.size()));
  if (!is_new) return;
  const std::string_view unit = space == text.npos ? "" : text.substr(space + 1);
  metrics.push_back({texts.intern(name), unit.empty() ? -1 : texts.intern(unit)});
}

void seal_counters(RawTables &tables) {
  if (AnyRows *kernels = tables.rows.of_kind(raw::Kind::kCountedKernel)) kernels->seal(tables);
  const Kernels &rows = tables.rows.of<ProfiledKernelRow>();
  tables.counters.failed_launches = std::count_if(
      rows.begin(), rows.end(),
      [](const ProfiledKernelRow &row) { return row.has(raw::CountedKernel::kIsFailed); });
  join_values(tables);
  join_clocks(tables);
  join_ranges(tables);
}

}  // namespace warpline
