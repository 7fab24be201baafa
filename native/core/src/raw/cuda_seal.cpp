// Joins what the CUDA records of a session say in several places, and sorts the rows.
#include <algorithm>
#include <string>
#include <string_view>

#include "radix_sort.h"
#include "raw/cuda.h"
#include "raw/cuda_dimensions.h"
#include "raw/cuda_waits.h"
#include "raw/demangle.h"
#include "raw/order.h"
#include "raw/tables.h"

namespace warpline {

namespace {

constexpr int64_t kFarNs = int64_t{1} << 61;

// Turns times of CUPTI's clock into the host's, along the lines between the pairs read together.
class Clock {
 public:
  explicit Clock(std::vector<CudaClockPair> &pairs) : pairs_(pairs) {
    std::sort(pairs_.begin(), pairs_.end(), [](const CudaClockPair &a, const CudaClockPair &b) {
      return std::pair(a.cupti_ns, a.host_ns) < std::pair(b.cupti_ns, b.host_ns);
    });
  }

  int64_t host_ns(int64_t cupti_ns) const {
    const auto after = std::upper_bound(
        pairs_.begin(), pairs_.end(), cupti_ns,
        [](int64_t time, const CudaClockPair &pair) { return time < pair.cupti_ns; });
    // The line between the two pairs around it, or the outermost two.
    const auto last = pairs_.end() - 1;
    const auto left = after == pairs_.begin() ? after : std::min(after - 1, last - (last > pairs_.begin()));
    const auto right = left == last ? left : left + 1;
    const int64_t step = right->cupti_ns - left->cupti_ns;
    const auto distance = static_cast<double>(cupti_ns - left->cupti_ns);
    const double rate =
        step <= 0 ? 1.0
                  : static_cast<double>(right->host_ns - left->host_ns) / static_cast<double>(step);
    const double moved = std::clamp(distance * rate, -2e18, 2e18);
    return std::clamp<int64_t>(left->host_ns + static_cast<int64_t>(moved), 0, kFarNs);
  }

 private:
  std::vector<CudaClockPair> &pairs_;
};

template <typename Rows, typename ProcessOf>
void convert_spans(Rows &rows, const Clock &clock, int32_t process, const ProcessOf &process_of) {
  for (auto &row : rows) {
    if (process_of(row) != process) continue;
    row.start_ns = clock.host_ns(row.start_ns);
    row.end_ns = std::max(row.start_ns, clock.host_ns(row.end_ns));
  }
}

void convert_times(CudaTables &cuda) {
  for (std::size_t place = 0; place < cuda.facts.size(); ++place) {
    if (cuda.facts[place].clock.empty()) continue;
    const auto process = static_cast<int32_t>(place);
    const Clock clock(cuda.facts[place].clock);
    const auto of_work = [&](const CudaWork &work) { return cuda.places[work.place].process; };
    const auto of_row = [](const auto &row) { return row.process; };
    convert_spans(cuda.kernels, clock, process, of_work);
    convert_spans(cuda.copies, clock, process, of_work);
    convert_spans(cuda.fills, clock, process, of_work);
    convert_spans(cuda.graphs, clock, process, of_work);
    convert_spans(cuda.host_waits, clock, process, of_row);
    convert_spans(cuda.stream_waits, clock, process, of_row);
    convert_spans(cuda.overhead, clock, process, of_row);
    for (CudaMemoryEvent &event : cuda.memory) {
      if (cuda.places[event.place].process == process) {
        event.time_ns = clock.host_ns(event.time_ns);
      }
    }
    for (CudaEvent &event : cuda.events) {
      if (event.process == process && event.device_ns != 0) {
        event.device_ns = clock.host_ns(event.device_ns);
      }
    }
  }
}

uint64_t join_key(int32_t process, uint32_t correlation) {
  return uint64_t{static_cast<uint32_t>(process)} << 32 | correlation;
}

void sort_keys(std::vector<uint64_t> &keys) {
  std::vector<uint64_t> scratch(keys.size());
  radix_sort(keys.data(), scratch.data(), keys.size(), [](uint64_t key) { return key; });
}

// What calls that only ask waited is no wait: it stays among the calls.
void remove_polls(const RawTables &tables, CudaTables &cuda) {
  std::vector<uint64_t> polls;
  for (const CudaCall &call : cuda.calls) {
    if (!cuda.call_names[static_cast<std::size_t>(call.name)].is_poll) continue;
    polls.push_back(join_key(tables.threads[call.thread].process, call.correlation));
  }
  if (polls.empty()) return;
  sort_keys(polls);
  std::erase_if(cuda.host_waits, [&](const CudaWait &wait) {
    return std::binary_search(polls.begin(), polls.end(), join_key(wait.process, wait.correlation));
  });
}

// Graphs stay recorded while recording rests: one launched then has no call, and is left out.
void remove_graphs_at_rest(const RawTables &tables, CudaTables &cuda) {
  if (cuda.graphs.empty()) return;
  std::vector<uint64_t> launches;
  for (const CudaCall &call : cuda.calls) {
    if ((call.flags & raw::Call::kIsGraph) == 0) continue;
    launches.push_back(join_key(tables.threads[call.thread].process, call.correlation));
  }
  sort_keys(launches);
  std::erase_if(cuda.graphs, [&](const CudaGraphLaunch &graph) {
    const int32_t process = cuda.places[graph.place].process;
    if ((cuda.facts_of(process).collected & raw::kCollectsCalls) == 0) return false;
    return !std::binary_search(launches.begin(), launches.end(),
                               join_key(process, graph.correlation));
  });
}

// When streams of a process were being captured: what is launched then runs later, in a graph.
class Captures {
 public:
  void add(int64_t time_ns, int change) { changes_.emplace_back(time_ns, change); }

  void settle() {
    std::sort(changes_.begin(), changes_.end());
    int depth = 0;
    for (auto &[time_ns, change] : changes_) {
      depth = std::max(0, depth + change);
      change = depth;
    }
  }

  bool holds(int64_t time_ns) const {
    const auto after = std::upper_bound(changes_.begin(), changes_.end(),
                                        std::pair(time_ns, INT32_MAX));
    return after != changes_.begin() && (after - 1)->second > 0;
  }

 private:
  std::vector<std::pair<int64_t, int>> changes_;  // once settled: from when on, how many
};

std::vector<Captures> find_captures(const RawTables &tables) {
  const CudaTables &cuda = tables.cuda;
  std::vector<Captures> found(tables.processes.size());
  for (const CudaCall &call : cuda.calls) {
    if ((call.flags & raw::Call::kCaptures) == 0) continue;
    Captures &captures =
        found[static_cast<std::size_t>(tables.threads[call.thread].process)];
    if (!cuda.call_names[static_cast<std::size_t>(call.name)].begins_capture()) {
      captures.add(call.end_ns, -1);
    } else if (call.status == 0) {
      captures.add(call.start_ns, 1);
    }
  }
  for (Captures &captures : found) captures.settle();
  return found;
}

// What was recorded of a process at a time.
uint32_t collected_at(const CudaFacts &facts, int64_t time_ns) {
  if (facts.collecting.empty()) return UINT32_MAX;
  const auto after = std::upper_bound(facts.collecting.begin(), facts.collecting.end(),
                                      std::pair(time_ns, UINT32_MAX));
  return after == facts.collecting.begin() ? 0 : (after - 1)->second;
}

std::vector<uint64_t> work_keys(CudaTables &cuda) {
  std::vector<uint64_t> keys = std::move(cuda.lost_launches);
  cuda.lost_launches = {};
  keys.reserve(keys.size() + cuda.kernels.size() + cuda.copies.size() + cuda.fills.size() +
               cuda.graphs.size());
  const auto add = [&](const auto &rows) {
    for (const CudaWork &work : rows) {
      keys.push_back(join_key(cuda.places[work.place].process, work.correlation));
    }
  };
  add(cuda.kernels);
  add(cuda.copies);
  add(cuda.fills);
  add(cuda.graphs);
  sort_keys(keys);
  return keys;
}

// What device work a call should have led to: the bits of what must be collected for that, and the
// number of those that did not.
struct Expected {
  uint32_t collected = 0;
  int64_t CudaFacts::*missing = nullptr;
};

Expected expected_of(const CudaCall &call, const CudaCallName &name) {
  const bool launches = (call.flags & raw::Call::kLaunches) != 0;
  if (!launches || call.status != 0 || call.correlation == 0) return {};
  if ((call.flags & raw::Call::kIsGraph) != 0) {
    return {raw::kCollectsKernels | raw::kCollectsGraphs, &CudaFacts::missing_graphs};
  }
  if (name.is_kernel) return {raw::kCollectsKernels, &CudaFacts::missing_kernels};
  if (name.is_copy) return {raw::kCollectsCopies, &CudaFacts::missing_copies};
  if (name.is_fill) return {raw::kCollectsFills, &CudaFacts::missing_fills};
  return {};
}

// Counts calls that succeeded and should have led to work on a device, but did not.
void count_missing(RawTables &tables) {
  CudaTables &cuda = tables.cuda;
  const auto expected = [&](const CudaCall &call) {
    return expected_of(call, cuda.call_names[static_cast<std::size_t>(call.name)]);
  };
  std::vector<Keyed> launches;
  for (std::size_t row = 0; row < cuda.calls.size(); ++row) {
    const CudaCall &call = cuda.calls[row];
    if (expected(call).collected == 0) continue;
    launches.push_back({join_key(tables.threads[call.thread].process, call.correlation),
                        static_cast<uint32_t>(row)});
  }
  const std::vector<uint64_t> keys = work_keys(cuda);
  const std::vector<Captures> captures = find_captures(tables);
  const std::vector<uint32_t> rows = rows_of(launches);
  auto key = keys.begin();
  for (const uint32_t row : rows) {
    const CudaCall &call = cuda.calls[row];
    const auto process = static_cast<std::size_t>(tables.threads[call.thread].process);
    const uint64_t wanted = join_key(static_cast<int32_t>(process), call.correlation);
    while (key != keys.end() && *key < wanted) ++key;
    if (key != keys.end() && *key == wanted) continue;
    const Expected work = expected(call);
    CudaFacts &facts = cuda.facts_of(static_cast<int32_t>(process));
    if ((collected_at(facts, call.start_ns) & work.collected) == 0) continue;
    if (captures[process].holds(call.start_ns)) continue;
    ++(facts.*work.missing);
  }
}

// One operation of a graph that was recorded node by node.
struct NodeWork {
  CudaWork work;
  uint32_t device;
  int32_t process;
};

void add_nodes(const CudaTables &cuda, const auto &rows, std::vector<NodeWork> &nodes) {
  for (const CudaWork &work : rows) {
    if (work.graph_node == 0 || work.correlation == 0) continue;
    const CudaPlace &place = cuda.places[work.place];
    nodes.push_back({work, place.device, place.process});
  }
}

// Adds a launch for every call and device whose work names nodes. It spans the work; context and
// stream are those of what began first.
void add_node_launches(CudaTables &cuda) {
  std::vector<NodeWork> nodes;
  add_nodes(cuda, cuda.kernels, nodes);
  add_nodes(cuda, cuda.copies, nodes);
  add_nodes(cuda, cuda.fills, nodes);
  if (nodes.empty()) return;
  std::vector<NodeWork> scratch(nodes.size());
  const auto sort = [&](const auto &key) {
    radix_sort(nodes.data(), scratch.data(), nodes.size(), key);
  };
  sort([](const NodeWork &n) { return ordered_bits(n.work.start_ns); });
  sort([](const NodeWork &n) { return uint64_t{n.device}; });
  sort([](const NodeWork &n) { return join_key(n.process, n.work.correlation); });
  const NodeWork *before = nullptr;
  for (const NodeWork &node : nodes) {
    const bool is_same = before != nullptr && before->process == node.process &&
                         before->work.correlation == node.work.correlation &&
                         before->device == node.device;
    before = &node;
    if (!is_same) {
      CudaGraphLaunch launch;
      static_cast<CudaWork &>(launch) = node.work;
      cuda.graphs.push_back(launch);
    }
    CudaGraphLaunch &launch = cuda.graphs.back();
    launch.end_ns = std::max(launch.end_ns, node.work.end_ns);
    launch.graph = std::max(launch.graph, node.work.graph);
    ++launch.nodes;
  }
}

constexpr std::string_view kNoName = "[unknown]";

void name_kernels(RawTables &tables) {
  CudaTables &cuda = tables.cuda;
  std::unordered_map<int32_t, int32_t> name_of;
  int32_t last_text = -2;
  int32_t last_name = -1;
  for (CudaKernel &kernel : cuda.kernels) {
    if (kernel.name != last_text) {
      last_text = kernel.name;
      const auto [found, is_new] =
          name_of.try_emplace(kernel.name, static_cast<int32_t>(cuda.names.size()));
      if (is_new) {
        CudaKernelName added{kernel.name, 0, 0};
        if (kernel.name < 0) {
          added.full = added.base = tables.texts.intern(kNoName);
        } else {
          const std::string mangled(tables.texts.text(kernel.name));
          const KernelName name = demangle_kernel(mangled);
          added.full = tables.texts.intern(name.full);
          added.base = tables.texts.intern(name.base);
        }
        cuda.names.push_back(added);
      }
      last_name = found->second;
    }
    kernel.name = last_name;
  }
}

std::string overhead_name(uint32_t kind) {
  switch (kind) {
    case 1: return "CUDA driver compiler";
    case 1 << 16: return "CUPTI Buffer flush";
    case 2 << 16: return "CUPTI instrumentation";
    case 3 << 16: return "CUPTI resource";
    case 4 << 16: return "CUDA runtime module loading";
    case 5 << 16: return "CUDA lazy function loading";
    case 6 << 16: return "CUDA command buffer full";
    case 7 << 16: return "CUPTI buffer request";
    case 8 << 16: return "CUDA unified memory set-up";
    default: return "Unknown";
  }
}

void complete_overhead(RawTables &tables) {
  for (CudaOverhead &overhead : tables.cuda.overhead) {
    overhead.name = tables.texts.intern(overhead_name(overhead.kind));
    const auto thread = tables.thread_of.find({overhead.process, overhead.tid});
    if (overhead.tid != 0 && thread != tables.thread_of.end()) {
      overhead.thread = static_cast<int32_t>(thread->second);
    }
  }
}

template <typename Row>
void sort_work(const CudaTables &cuda, std::vector<Row> &rows) {
  sort_rows(rows, [](const Row &row) { return row.start_ns; },
            [&](const Row &row) {
              const CudaPlace &place = cuda.places[row.place];
              return std::tuple(row.end_ns, place.device_row, place.stream_row, row.correlation);
            });
}

void sort_tables(CudaTables &cuda) {
  sort_work(cuda, cuda.kernels);
  sort_work(cuda, cuda.copies);
  sort_work(cuda, cuda.fills);
  sort_work(cuda, cuda.graphs);
  sort_rows(cuda.calls, [](const CudaCall &c) { return c.start_ns; },
            [](const CudaCall &c) { return std::tuple(c.end_ns, c.thread, c.correlation); });
  for (std::vector<CudaWait> *waits : {&cuda.host_waits, &cuda.stream_waits}) {
    sort_rows(*waits, [](const CudaWait &w) { return w.start_ns; },
              [](const CudaWait &w) { return std::tuple(w.end_ns, w.process, w.correlation); });
  }
  sort_rows(cuda.events, [](const CudaEvent &e) { return int64_t{e.process}; },
            [](const CudaEvent &e) {
              return std::tuple(e.correlation, static_cast<int64_t>(e.event_sync));
            });
  sort_rows(cuda.memory, [](const CudaMemoryEvent &e) { return e.time_ns; },
            [&](const CudaMemoryEvent &e) {
              return std::tuple(cuda.places[e.place].process, static_cast<int64_t>(e.address),
                                e.is_release);
            });
  sort_rows(cuda.overhead, [](const CudaOverhead &o) { return o.start_ns; },
            [](const CudaOverhead &o) { return std::pair(o.end_ns, o.thread); });
}

}  // namespace

void settle_cuda_times(RawTables &tables) {
  CudaTables &cuda = tables.cuda;
  cuda.facts.resize(tables.processes.size());
  convert_times(cuda);
  const auto see = [&](const auto &rows) {
    for (const CudaWork &work : rows) {
      const int32_t process = cuda.places[work.place].process;
      int64_t &last_ns = tables.processes[static_cast<std::size_t>(process)].last_ns;
      if (work.end_ns <= kFarNs) last_ns = std::max(last_ns, work.end_ns);
    }
  };
  see(cuda.kernels);
  see(cuda.copies);
  see(cuda.fills);
  see(cuda.graphs);
}

void seal_cuda(RawTables &tables) {
  CudaTables &cuda = tables.cuda;
  for (CudaFacts &facts : cuda.facts) {
    std::stable_sort(facts.collecting.begin(), facts.collecting.end(),
                     [](const auto &a, const auto &b) { return a.first < b.first; });
  }
  remove_polls(tables, cuda);
  derive_waits(tables);
  remove_graphs_at_rest(tables, cuda);
  count_missing(tables);
  name_kernels(tables);
  number_dimensions(tables);
  add_node_launches(cuda);
  complete_overhead(tables);
  seal_chains(cuda.chains, tables.texts);
  sort_tables(cuda);
}

}  // namespace warpline
