// When the nodes of an event graph happen: one pass, each node after what it waits for.
#include <algorithm>
#include <exception>
#include <limits>
#include <vector>

#include "warpline_core.h"

namespace {

constexpr int64_t kNever = std::numeric_limits<int64_t>::min();

enum State : uint8_t { kNew, kOpen, kDone };

// Nodes mostly stand in the order in which they happen, so that the stack stays short; where they
// do not, it goes back along what the node waits for.
class Pass {
 public:
  Pass(int64_t n, const int64_t *first, const int32_t *source, const uint8_t *from_end,
       const int64_t *weight, const int64_t *length, int64_t *time)
      : n_(n),
        first_(first),
        source_(source),
        from_end_(from_end),
        weight_(weight),
        length_(length),
        time_(time),
        state_(static_cast<std::size_t>(n), kNew) {}

  void run() {
    for (int64_t root = 0; root < n_; ++root) {
      if (state(root) != kNew) continue;
      open(root);
      while (!stack_.empty()) step();
    }
  }

 private:
  struct Visit {
    int64_t node;
    int64_t edge;
  };

  State &state(int64_t node) { return state_[static_cast<std::size_t>(node)]; }

  void open(int64_t node) {
    state(node) = kOpen;
    stack_.push_back({node, first_[node]});
  }

  // Follows the edges of the node on top, until one leads to a node that is not known yet.
  void step() {
    Visit &visit = stack_.back();
    const int64_t node = visit.node;
    const int64_t end = first_[node + 1];
    int64_t latest = time_[node];
    for (int64_t edge = visit.edge; edge < end; ++edge) {
      if (weight_[edge] == kNever) continue;
      const int64_t origin = source_[edge];
      const State known = state(origin);
      if (known == kNew) {
        visit.edge = edge;
        time_[node] = latest;
        open(origin);
        return;
      }
      if (known == kOpen || time_[origin] == kNever) continue;  // open: a circle
      const int64_t length = from_end_[edge] != 0 ? length_[origin] : 0;
      latest = std::max(latest, time_[origin] + length + weight_[edge]);
    }
    time_[node] = latest;
    state(node) = kDone;
    stack_.pop_back();
  }

  int64_t n_;
  const int64_t *first_;
  const int32_t *source_;
  const uint8_t *from_end_;
  const int64_t *weight_;
  const int64_t *length_;
  int64_t *time_;
  std::vector<State> state_;
  std::vector<Visit> stack_;
};

}  // namespace

extern "C" int32_t wl_replay_times(int64_t n, const int64_t *first, const int32_t *source,
                                   const uint8_t *from_end, const int64_t *weight,
                                   const int64_t *length, const int64_t *earliest, int64_t *time) {
  if (n < 0) return WL_BAD_ARGUMENT;
  if (n == 0) return WL_OK;
  if (first == nullptr || length == nullptr || earliest == nullptr || time == nullptr) {
    return WL_BAD_ARGUMENT;
  }
  try {
    std::copy(earliest, earliest + n, time);
    Pass(n, first, source, from_end, weight, length, time).run();
    return WL_OK;
  } catch (const std::exception &) {
    return WL_NO_MEMORY;
  }
}
