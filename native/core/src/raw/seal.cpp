#include "raw/seal.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "radix_sort.h"
#include "raw/order.h"
#include "raw/payload.h"
#include "warpline_raw.h"

namespace warpline {

namespace {

// A thread that was about to record when a capture range ended may do so that much later.
constexpr int64_t kRaceNs = 1'000'000;
constexpr uint32_t kNoRange = UINT32_MAX;
constexpr std::size_t kMostOpens = 8;  // of a thread, that are told one by one

struct Half {
  uint64_t id;
  uint32_t process;
  uint32_t row;
};

template <typename Item>
std::vector<Half> halves_of(const std::vector<Item> &items) {
  std::vector<Half> halves;
  halves.reserve(items.size());
  for (std::size_t row = 0; row < items.size(); ++row) {
    halves.push_back({items[row].id, items[row].process, static_cast<uint32_t>(row)});
  }
  std::vector<Half> scratch(halves.size());
  radix_sort(halves.data(), scratch.data(), halves.size(), [](const Half &h) { return h.id; });
  radix_sort(halves.data(), scratch.data(), halves.size(),
             [](const Half &h) { return uint64_t{h.process}; });
  return halves;
}

// Joins the k-th start with an id with the k-th stop with it: ids are unique unless a log is
// damaged. Returns the range of each stop.
std::vector<uint32_t> join_halves(RawTables &tables) {
  std::vector<uint32_t> range_of(tables.stops.size(), kNoRange);
  const std::vector<Half> starts = halves_of(tables.starts);
  const std::vector<Half> stops = halves_of(tables.stops);
  auto start = starts.begin();
  auto stop = stops.begin();
  while (start != starts.end() && stop != stops.end()) {
    const auto left = std::pair(start->process, start->id);
    const auto right = std::pair(stop->process, stop->id);
    if (left == right) {
      const uint32_t row = tables.starts[start->row].range;
      const RawStop &end = tables.stops[stop->row];
      RawRange &range = tables.ranges[row];
      range.end_at(end.time_ns);
      range.close();
      if (end.thread != range_label(tables, row).thread) {
        range.end_elsewhere();
        tables.end_threads[row] = static_cast<int32_t>(end.thread);
      }
      range_of[stop->row] = row;
    }
    if (left <= right) ++start;
    if (right <= left) ++stop;
  }
  tables.lonely_ends += std::count(range_of.begin(), range_of.end(), kNoRange);
  return range_of;
}

// Finds when recording went off after a time, from when capture ranges ended and recording was on
// again.
class Closings {
 public:
  explicit Closings(RawTables &tables) : ends_(tables.closings_ns), resumes_(tables.resumes_ns) {
    std::sort(ends_.begin(), ends_.end());
    std::sort(resumes_.begin(), resumes_.end());
  }

  // The last end of a capture range, at or after `start`, before recording was on again or `until`.
  std::optional<int64_t> after(int64_t start_ns, int64_t until_ns) const {
    const auto first = std::lower_bound(ends_.begin(), ends_.end(), start_ns);
    if (first == ends_.end() || *first > until_ns) return std::nullopt;
    const auto resume = std::upper_bound(resumes_.begin(), resumes_.end(), *first);
    if (resume != resumes_.end()) until_ns = std::min(until_ns, *resume);
    return *(std::upper_bound(first, ends_.end(), until_ns) - 1);
  }

 private:
  std::vector<int64_t> &ends_;
  std::vector<int64_t> &resumes_;
};

std::vector<int64_t> process_ends(const RawTables &tables, int64_t end_ns) {
  int64_t session_last = 0;
  for (const RawProcess &process : tables.processes) {
    session_last = std::max(session_last, process.last_ns);
  }
  std::vector<int64_t> ends;
  for (const RawProcess &process : tables.processes) {
    const bool is_known = end_ns != kUnknownTime;
    int64_t last = process.is_alive ? session_last : process.last_ns;
    if (process.ended_ns != kUnknownTime) last = std::max(process.last_ns, process.ended_ns);
    // One that lives on is open until the recording's end; one that has ended, until then, or where
    // that is not known until it was last heard of. Nothing lasts longer than the recording.
    ends.push_back(!is_known ? last : process.is_alive ? end_ns : std::min(last, end_ns));
  }
  return ends;
}

// From when on each process has recorded without a rest, because of a capture range or sample of its
// own that has not ended: what others end there is not the end of its recording.
std::vector<int64_t> recorded_since(const RawTables &tables) {
  std::vector<int64_t> begun(tables.processes.size(), INT64_MIN);
  std::vector<int64_t> ended(tables.processes.size(), INT64_MIN);
  for (const RawNote &note : tables.notes) {
    const auto process = static_cast<std::size_t>(note.process);
    if (note.kind == static_cast<uint32_t>(raw::Note::kSampleBegin)) {
      begun[process] = std::max(begun[process], note.time_ns);
    } else if (note.kind == static_cast<uint32_t>(raw::Note::kSampleEnd)) {
      ended[process] = std::max(ended[process], note.time_ns);
    }
  }
  for (std::size_t process = 0; process < begun.size(); ++process) {
    if (begun[process] == INT64_MIN || begun[process] <= ended[process]) {
      begun[process] = INT64_MAX;
    }
  }
  return begun;
}

// Of each thread what it had pushed comes last, the innermost at the end; of many the first and it.
void keep_opens(RawTables &tables, std::vector<uint32_t> &opens) {
  const auto key = [&](uint32_t row) {
    const RawLabel &label = range_label(tables, row);
    return std::tuple(label.thread, !label.is_start_end, tables.ranges[row].start_ns(), row);
  };
  std::sort(opens.begin(), opens.end(), [&](uint32_t a, uint32_t b) { return key(a) < key(b); });
  std::size_t of_thread = 0;
  for (std::size_t place = 0; place < opens.size(); ++place) {
    const uint32_t thread = range_label(tables, opens[place]).thread;
    const bool is_first = place == 0 || thread != range_label(tables, opens[place - 1]).thread;
    const bool is_last =
        place + 1 == opens.size() || thread != range_label(tables, opens[place + 1]).thread;
    of_thread = is_first ? 1 : of_thread + 1;
    if (of_thread < kMostOpens || is_last) tables.opens.push_back({opens[place]});
  }
}

void end_ranges(RawTables &tables, int64_t end_ns) {
  const Closings closings(tables);
  const std::vector<int64_t> ends = process_ends(tables, end_ns);
  const std::vector<int64_t> since = recorded_since(tables);
  std::vector<uint32_t> opens;
  for (const RawVoid &item : tables.voids) {
    RawRange &range = tables.ranges[item.range];
    const auto closed = closings.after(range.start_ns(), item.time_ns);
    if (closed && range.end_ns() <= *closed + kRaceNs) range.end_at(*closed);
  }
  for (uint32_t row = 0; row < tables.ranges.size(); ++row) {
    RawRange &range = tables.ranges[row];
    if (!range.is(RawRange::kOpen) && !range.is(RawRange::kTruncated)) continue;
    const uint32_t thread = range_label(tables, row).thread;
    const auto process = static_cast<std::size_t>(tables.threads[thread].process);
    if (range.is(RawRange::kOpen)) {
      const auto closed = closings.after(range.start_ns(), since[process]);
      const bool is_cut = closed && range.end_ns() <= *closed + kRaceNs;
      range.end_at(is_cut ? *closed : ends[process]);
      range.truncate();
      if (!is_cut) opens.push_back(row);
    }
    ++tables.processes[process].truncated;
  }
  keep_opens(tables, opens);
}

void name_places(RawTables &tables) {
  for (RawPlace &place : tables.places) {
    if (place.domain != 0 && place.domain_name < 0) {
      place.domain_name = tables.texts.intern("domain " + std::to_string(place.domain));
    }
    if (place.category == 0) continue;
    for_ancestry(tables, place.process, [&](int32_t process) {
      const auto found = tables.categories.find({process, place.domain, place.category});
      if (found != tables.categories.end()) place.category_name = found->second;
      return place.category_name >= 0;
    });
    if (place.category_name < 0) {
      place.category_name = tables.texts.intern(std::to_string(place.category));
    }
  }
}

void name_threads(RawTables &tables) {
  for (const auto &[key, text] : tables.thread_names) {
    const auto found = tables.thread_of.find(key);
    if (found != tables.thread_of.end()) tables.threads[found->second].name = text;
  }
}

// Values of a stop belong to the range that it ends.
void settle_owners(RawTables &tables, const std::vector<uint32_t> &range_of) {
  const auto settle = [&](auto &item) {
    if (item.owner_kind != Owner::kStop) return true;
    item.owner = range_of[item.owner];
    item.owner_kind = Owner::kRange;
    return item.owner != kNoRange;
  };
  std::erase_if(tables.payloads, [&](RawPayload &item) {
    const bool is_stop = item.owner_kind == Owner::kStop;
    if (!settle(item)) return true;
    if (is_stop) {
      const auto place = static_cast<std::size_t>(range_label(tables, item.owner).place);
      item.domain = tables.places[place].domain;
    }
    return false;
  });
}

std::vector<uint32_t> inverse(const std::vector<uint32_t> &order) {
  std::vector<uint32_t> rank(order.size());
  for (std::size_t place = 0; place < order.size(); ++place) {
    rank[order[place]] = static_cast<uint32_t>(place);
  }
  return rank;
}

// Notes which range of those that start together came first, where their order differs from that.
void note_sources(RawTables &tables) {
  const std::vector<uint32_t> &order = tables.range_order;
  std::vector<uint32_t> &sources = tables.range_sources;
  std::vector<uint32_t> run;
  for_ties(order, [&](uint32_t row) { return tables.ranges[row].start_ns(); },
           [&](std::size_t begin, std::size_t end) {
             run.assign(&order[begin], &order[end - 1] + 1);
             if (std::is_sorted(run.begin(), run.end())) return;
             if (sources.empty()) {
               sources.resize(order.size());
               std::iota(sources.begin(), sources.end(), 1U);
             }
             std::sort(run.begin(), run.end());
             for (std::size_t place = begin; place < end; ++place) {
               const auto first = std::lower_bound(run.begin(), run.end(), order[place]);
               sources[place] = static_cast<uint32_t>(begin + 1) +
                                static_cast<uint32_t>(first - run.begin());
             }
           });
}

void order_ranges(RawTables &tables) {
  const Growing<RawRange> &ranges = tables.ranges;
  tables.range_order = by_time(ranges, [](const RawRange &r) { return r.start_ns(); });
  sort_ties(tables.range_order, [&](uint32_t row) { return ranges[row].start_ns(); },
            [&](uint32_t a, uint32_t b) {
              const auto key = [&](uint32_t row) {
                return std::pair(ranges[row].end_ns(), range_label(tables, row).thread);
              };
              return key(a) < key(b);
            });
  note_sources(tables);
}

void order_marks(RawTables &tables) {
  const Growing<RawMark> &marks = tables.marks;
  tables.mark_order = by_time(marks, [](const RawMark &m) { return m.time_ns; });
  sort_ties(tables.mark_order, [&](uint32_t row) { return marks[row].time_ns; },
            [&](uint32_t a, uint32_t b) {
              return tables.labels[marks[a].label].thread < tables.labels[marks[b].label].thread;
            });
}

// By range, then by mark; a value without a range comes before all that have one.
void order_values(RawTables &tables) {
  if (tables.values.empty()) return;
  tables.range_rank = inverse(tables.range_order);
  tables.mark_rank = inverse(tables.mark_order);
  std::vector<Keyed> items;
  items.reserve(tables.values.size());
  for (std::size_t row = 0; row < tables.values.size(); ++row) {
    const RawValue &value = tables.values[row];
    const bool is_mark = value.owner_kind == Owner::kMark;
    const uint64_t key = is_mark ? uint64_t{tables.mark_rank[value.owner]}
                                 : uint64_t{1} << 32 | tables.range_rank[value.owner];
    items.push_back({key, static_cast<uint32_t>(row)});
  }
  tables.value_order = rows_of(items);
}

template <typename Item>
void release(std::vector<Item> &items) {
  std::vector<Item>().swap(items);
}

}  // namespace

void seal(RawTables &tables, int64_t end_ns) {
  const std::vector<uint32_t> range_of = join_halves(tables);
  release(tables.starts);
  release(tables.stops);
  end_ranges(tables, end_ns);
  release(tables.voids);
  name_places(tables);
  name_threads(tables);
  settle_owners(tables, range_of);
  decode_payloads(tables);
  release(tables.payloads);
  order_ranges(tables);
  order_marks(tables);
  order_values(tables);
}

}  // namespace warpline
