#include "steps/launch_period.h"

#include <algorithm>
#include <cstdlib>
#include <unordered_map>

namespace warpline::agent {
namespace {

constexpr std::size_t kComparedPeriods = 4;   // the last ones, each with the one before
constexpr double kLeastLikeness = 0.7;
constexpr std::size_t kMostComparisons = 24;  // so that a program without a period costs little

// The occurrences of one signature, and the last of them whose distances are alike.
struct Occurrences {
  std::size_t last = 0;
  std::size_t run_from = 0;
  std::uint32_t run = 0;  // distances that are alike
  bool is_met = false;

  double mean() const { return static_cast<double>(last - run_from) / run; }
};

// A few calls more now and then, such as those of a loss that is printed, do not make another
// pattern; an optimizer's do.
double tolerance(double distance) {
  return std::max(distance / 32, std::min(3.0, distance / 4));
}

bool is_alike(double distance, double mean) {
  return std::abs(distance - mean) <= tolerance(mean);
}

void meet(Occurrences& seen, std::size_t at) {
  const auto distance = static_cast<double>(at - seen.last);
  if (!seen.is_met) {
    seen.is_met = true;
  } else if (seen.run != 0 && is_alike(distance, seen.mean())) {
    ++seen.run;
  } else {
    seen.run_from = seen.last;
    seen.run = 1;
  }
  seen.last = at;
}

struct Candidate {
  CallSignature signature;
  Occurrences seen;
};

// The calls of a thread as far as they are told apart.
class Sequence {
 public:
  Sequence(const std::vector<ObservedCall>& calls, Likeness likeness) : calls_(calls) {
    std::vector<CallSignature> last(kCallNumber + 1);
    for (ObservedCall& call : calls_) {
      CallSignature& previous = last[call.signature & kCallNumber];
      const CallSignature own = call.signature;
      call.signature = likeness.of(own, previous);
      previous = own;
    }
  }

  // Returns the signatures that occur regularly up to the end, those furthest apart first.
  std::vector<Candidate> candidates() const {
    std::unordered_map<CallSignature, Occurrences> all;
    for (std::size_t at = 0; at < calls_.size(); ++at) meet(all[signature(at)], at);
    std::vector<Candidate> found;
    for (const auto& [signature, seen] : all) {
      if (seen.run < kLeastRepetitions || !lasts(seen)) continue;
      if (length_ns(seen) >= kShortestPeriodNs) found.push_back({signature, seen});
    }
    std::sort(found.begin(), found.end(), [](const Candidate& one, const Candidate& other) {
      const double apart = one.seen.mean() - other.seen.mean();
      return apart != 0 ? apart > 0 : one.signature < other.signature;
    });
    return found;
  }

  // Returns how much alike the last repetitions are in what follows on what, from 0 to 1.
  double likeness(const Candidate& candidate) const {
    const std::vector<std::size_t> edges = last_edges(candidate);
    double sum = 0;
    for (std::size_t i = 2; i < edges.size(); ++i) {
      sum += likeness(edges[i], edges[i - 1], edges[i - 2]);
    }
    return edges.size() < 3 ? 0 : sum / static_cast<double>(edges.size() - 2);
  }

  // Returns how many calls of each number one repetition has, the last.
  std::unordered_map<CallSignature, std::uint32_t> numbers(const Candidate& candidate) const {
    std::unordered_map<CallSignature, std::uint32_t> counts;
    const std::vector<std::size_t> edges = last_edges(candidate);
    for (std::size_t at = edges[1]; at < edges[0]; ++at) ++counts[signature(at) & kCallNumber];
    return counts;
  }

  // Returns how long a repetition takes on average.
  std::int64_t length_ns(const Occurrences& seen) const {
    return (calls_[seen.last].time_ns - calls_[seen.run_from].time_ns) / seen.run;
  }

  // Returns how long one of the later ones takes: the first may have run ahead of the device.
  std::int64_t late_length_ns(const Candidate& candidate) const {
    std::uint32_t later = 0;
    std::size_t from = candidate.seen.last;
    for (std::size_t at = from; at-- > candidate.seen.run_from && later * 2 < candidate.seen.run;) {
      if (signature(at) != candidate.signature) continue;
      from = at;
      ++later;
    }
    return (calls_[candidate.seen.last].time_ns - calls_[from].time_ns) / later;
  }

  // Says where the last repetitions lie.
  void locate(const Candidate& candidate, Period& period) const {
    const std::vector<std::size_t> edges = last_edges(candidate);
    period.from_ns = calls_[edges.back()].time_ns;
    period.last_ns = calls_[edges.front()].time_ns;
    period.recent = static_cast<std::uint32_t>(edges.size() - 1);
  }

 private:
  CallSignature signature(std::size_t at) const { return calls_[at].signature; }

  bool lasts(const Occurrences& seen) const {
    const double mean = seen.mean();
    return static_cast<double>(calls_.size() - seen.last) <= mean + tolerance(mean) + 1;
  }

  // Returns where the last repetitions begin, the newest first.
  std::vector<std::size_t> last_edges(const Candidate& candidate) const {
    std::vector<std::size_t> edges;
    for (std::size_t at = candidate.seen.last + 1;
         at-- > candidate.seen.run_from && edges.size() <= kComparedPeriods;) {
      if (signature(at) == candidate.signature) edges.push_back(at);
    }
    return edges;
  }

  std::uint64_t pair(std::size_t at) const {
    return signature(at) * 0x9e3779b97f4a7c15 + signature(at + 1);
  }

  // Compares [first, middle) with [middle, end) as bags of neighbours: an added call costs two.
  double likeness(std::size_t first, std::size_t middle, std::size_t end) const {
    std::unordered_map<std::uint64_t, std::uint32_t> counts;
    for (std::size_t at = first; at < middle; ++at) ++counts[pair(at)];
    std::size_t same = 0;
    for (std::size_t at = middle; at < end; ++at) {
      const auto found = counts.find(pair(at));
      if (found == counts.end() || found->second == 0) continue;
      --found->second;
      ++same;
    }
    return static_cast<double>(same) / static_cast<double>(std::max(middle - first, end - middle));
  }

  std::vector<ObservedCall> calls_;
};

// Whether a candidate goes on regularly where the longest pattern begins again.
bool spans(const Candidate& one, const Candidate& longest) {
  constexpr double kSpanned = 2.5;
  return static_cast<double>(one.seen.last - one.seen.run_from) >= kSpanned * longest.seen.mean();
}

// Returns the candidate that says what is repeated, or nullptr: of those that go on regularly all
// the time the shortest, as others merely count some of its repetitions; or else the longest.
const Candidate* choose(const Sequence& sequence, const std::vector<Candidate>& candidates) {
  std::size_t comparisons = 0;
  const auto is_pattern = [&](const Candidate& one) {
    return ++comparisons <= kMostComparisons && sequence.likeness(one) >= kLeastLikeness;
  };
  const auto longest = std::find_if(candidates.begin(), candidates.end(), is_pattern);
  if (longest == candidates.end()) return nullptr;
  comparisons = 0;
  for (std::size_t i = candidates.size(); i-- > 0;) {
    if (spans(candidates[i], *longest) && is_pattern(candidates[i])) return &candidates[i];
  }
  return &*longest;
}

// Returns the call by which to know a pattern: of those that occur once in it the one whose like
// are fewest, as at rest only those have to be seen.
const Candidate* choose_anchor(const std::vector<Candidate>& candidates, const Candidate& pattern,
                               std::unordered_map<CallSignature, std::uint32_t>& numbers) {
  const Candidate* anchor = nullptr;
  std::uint32_t fewest = ~0u;
  for (const Candidate& one : candidates) {
    if (!is_alike(one.seen.mean(), pattern.seen.mean())) continue;
    if (one.seen.run * 2 < pattern.seen.run || !can_stand_alone(one.signature)) continue;
    const std::uint32_t count = numbers[one.signature & kCallNumber];
    if (count == 0 || count >= fewest) continue;
    anchor = &one;
    fewest = count;
  }
  return anchor;
}

Period find_with(const std::vector<ObservedCall>& calls, Likeness likeness) {
  const Sequence sequence(calls, likeness);
  const std::vector<Candidate> candidates = sequence.candidates();
  const Candidate* pattern = choose(sequence, candidates);
  if (pattern == nullptr) return {};
  auto numbers = sequence.numbers(*pattern);
  const Candidate* anchor = choose_anchor(candidates, *pattern, numbers);
  if (anchor == nullptr) return {};
  Period period;
  period.anchor = anchor->signature;
  period.likeness = likeness;
  period.length_ns = sequence.late_length_ns(*anchor);
  sequence.locate(*anchor, period);
  period.repetitions = anchor->seen.run;
  period.calls = static_cast<std::uint32_t>(anchor->seen.mean() + 0.5);
  period.anchor_calls = numbers[anchor->signature & kCallNumber];
  return period;
}

}  // namespace

Period find_period(const std::vector<ObservedCall>& calls) {
  for (const bool has_grid : {false, true}) {
    const Period alone = find_with(calls, {has_grid, false});
    const Period paired = find_with(calls, {has_grid, true});
    if (!paired) {
      if (alone) return alone;
      continue;
    }
    // A call more before the anchor changes what it is known by in a pair: alone is better, if it
    // shows the same.
    const bool is_same = alone && is_alike(alone.calls, paired.calls);
    return is_same ? alone : paired;
  }
  return {};
}

}  // namespace warpline::agent
