// Joins what the CUDA records of a session say in several places, and sorts the rows.
#include <algorithm>
#include <string>
#include <string_view>

#include "radix_sort.h"
#include "raw/cuda.h"
#include "raw/cuda_clock.h"
#include "raw/cuda_dimensions.h"
#include "raw/cuda_waits.h"
#include "raw/demangle.h"
#include "raw/order.h"
#include "raw/tables.h"

namespace warpline {

namespace {

void convert_times(RawTables &tables) {
  std::vector<CudaFacts> &facts = tables.cuda.facts;
  for (std::size_t process = 0; process < facts.size(); ++process) {
    if (facts[process].clock.empty()) continue;
    const CudaClock clock(facts[process].clock);
    tables.rows.settle_times(tables, static_cast<int32_t>(process), clock);
  }
}

// Calls visit(rows) for the tables of work on a device.
template <typename Tables, typename Visit>
void for_work(Tables &tables, const Visit &visit) {
  visit(tables.rows.template of<KernelRow>());
  visit(tables.rows.template of<MemcpyRow>());
  visit(tables.rows.template of<MemsetRow>());
  visit(tables.rows.template of<GraphLaunchRow>());
}

uint64_t join_key(int32_t process, uint32_t correlation) {
  return uint64_t{static_cast<uint32_t>(process)} << 32 | correlation;
}

void sort_keys(std::vector<uint64_t> &keys) {
  std::vector<uint64_t> scratch(keys.size());
  radix_sort(keys.data(), scratch.data(), keys.size(), [](uint64_t key) { return key; });
}

// What calls that only ask waited is no wait: it stays among the calls.
void remove_polls(RawTables &tables) {
  const CudaTables &cuda = tables.cuda;
  std::vector<uint64_t> polls;
  for (const ApiCallRow &call : tables.rows.of<ApiCallRow>()) {
    if (!cuda.call_names[static_cast<std::size_t>(call.call_name)].is_poll) continue;
    polls.push_back(join_key(tables.threads[call.thread].process, call.correlation));
  }
  if (polls.empty()) return;
  sort_keys(polls);
  std::erase_if(tables.rows.of<HostWaitRow>(), [&](const HostWaitRow &wait) {
    return std::binary_search(polls.begin(), polls.end(), join_key(wait.process, wait.correlation));
  });
}

// Graphs stay recorded while recording rests: one launched then has no call, and is left out.
void remove_graphs_at_rest(RawTables &tables) {
  CudaTables &cuda = tables.cuda;
  std::vector<GraphLaunchRow> &graphs = tables.rows.of<GraphLaunchRow>();
  if (graphs.empty()) return;
  std::vector<uint64_t> launches;
  for (const ApiCallRow &call : tables.rows.of<ApiCallRow>()) {
    if ((call.flags & raw::Call::kIsGraph) == 0) continue;
    launches.push_back(join_key(tables.threads[call.thread].process, call.correlation));
  }
  sort_keys(launches);
  std::erase_if(graphs, [&](const GraphLaunchRow &graph) {
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
  for (const ApiCallRow &call : tables.rows.of<ApiCallRow>()) {
    if ((call.flags & raw::Call::kCaptures) == 0) continue;
    Captures &captures =
        found[static_cast<std::size_t>(tables.threads[call.thread].process)];
    if (!cuda.call_names[static_cast<std::size_t>(call.call_name)].begins_capture()) {
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

std::vector<uint64_t> work_keys(RawTables &tables) {
  CudaTables &cuda = tables.cuda;
  std::vector<uint64_t> keys = std::exchange(cuda.lost_launches, {});
  std::size_t count = keys.size();
  for_work(tables, [&](const auto &rows) { count += rows.size(); });
  keys.reserve(count);
  for_work(tables, [&](const auto &rows) {
    for (const auto &work : rows) {
      keys.push_back(join_key(cuda.places[work.place].process, work.correlation));
    }
  });
  sort_keys(keys);
  return keys;
}

// What device work a call should have led to: the bits of what must be collected for that, and the
// number of those that did not.
struct Expected {
  uint32_t collected = 0;
  int64_t CudaFacts::*missing = nullptr;
};

Expected expected_of(const ApiCallRow &call, const CudaCallName &name) {
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
  const std::vector<ApiCallRow> &calls = tables.rows.of<ApiCallRow>();
  const auto expected = [&](const ApiCallRow &call) {
    return expected_of(call, cuda.call_names[static_cast<std::size_t>(call.call_name)]);
  };
  std::vector<Keyed> launches;
  for (std::size_t row = 0; row < calls.size(); ++row) {
    const ApiCallRow &call = calls[row];
    if (expected(call).collected == 0) continue;
    launches.push_back({join_key(tables.threads[call.thread].process, call.correlation),
                        static_cast<uint32_t>(row)});
  }
  const std::vector<uint64_t> keys = work_keys(tables);
  const std::vector<Captures> captures = find_captures(tables);
  const std::vector<uint32_t> rows = rows_of(launches);
  auto key = keys.begin();
  for (const uint32_t row : rows) {
    const ApiCallRow &call = calls[row];
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
  int64_t start_ns;
  int64_t end_ns;
  uint32_t place;
  uint32_t correlation;
  uint32_t graph;
  uint32_t device;
  int32_t process;
};

void add_nodes(const CudaTables &cuda, const auto &rows, std::vector<NodeWork> &nodes) {
  for (const auto &work : rows) {
    if (work.graph_node == 0 || work.correlation == 0) continue;
    const CudaPlace &place = cuda.places[work.place];
    nodes.push_back({work.start_ns, work.end_ns, work.place, work.correlation, work.graph,
                     place.device, place.process});
  }
}

// Adds a launch for every call and device whose work names nodes. It spans the work; context and
// stream are those of what began first.
void add_node_launches(RawTables &tables) {
  std::vector<NodeWork> nodes;
  add_nodes(tables.cuda, tables.rows.of<KernelRow>(), nodes);
  add_nodes(tables.cuda, tables.rows.of<MemcpyRow>(), nodes);
  add_nodes(tables.cuda, tables.rows.of<MemsetRow>(), nodes);
  if (nodes.empty()) return;
  std::vector<NodeWork> scratch(nodes.size());
  const auto sort = [&](const auto &key) {
    radix_sort(nodes.data(), scratch.data(), nodes.size(), key);
  };
  sort([](const NodeWork &n) { return ordered_bits(n.start_ns); });
  sort([](const NodeWork &n) { return uint64_t{n.device}; });
  sort([](const NodeWork &n) { return join_key(n.process, n.correlation); });
  std::vector<GraphLaunchRow> &launches = tables.rows.of<GraphLaunchRow>();
  const NodeWork *before = nullptr;
  for (const NodeWork &node : nodes) {
    const bool is_same = before != nullptr && before->process == node.process &&
                         before->correlation == node.correlation && before->device == node.device;
    before = &node;
    if (!is_same) {
      GraphLaunchRow launch;
      launch.start_ns = node.start_ns;
      launch.end_ns = node.end_ns;
      launch.place = node.place;
      launch.correlation = node.correlation;
      launches.push_back(launch);
    }
    GraphLaunchRow &launch = launches.back();
    launch.end_ns = std::max(launch.end_ns, node.end_ns);
    launch.source_graph = std::max(launch.source_graph, node.graph);
    ++launch.nodes;
  }
}

constexpr std::string_view kNoName = "[unknown]";

void name_kernels(RawTables &tables) {
  CudaTables &cuda = tables.cuda;
  std::unordered_map<int32_t, int32_t> name_of;
  int32_t last_text = -2;
  int32_t last_name = -1;
  for (KernelRow &kernel : tables.rows.of<KernelRow>()) {
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

void name_overhead(RawTables &tables) {
  for (OverheadRow &overhead : tables.rows.of<OverheadRow>()) {
    overhead.name = tables.texts.intern(overhead_name(overhead.overhead_kind));
  }
}

}  // namespace

void settle_cuda_times(RawTables &tables) {
  tables.cuda.facts.resize(tables.processes.size());
  convert_times(tables);
  for_work(tables, [&](const auto &rows) {
    for (const auto &work : rows) {
      const int32_t process = tables.cuda.places[work.place].process;
      int64_t &last_ns = tables.processes[static_cast<std::size_t>(process)].last_ns;
      if (work.end_ns <= int64_t{kFarNs}) last_ns = std::max(last_ns, work.end_ns);
    }
  });
}

void seal_cuda(RawTables &tables) {
  CudaTables &cuda = tables.cuda;
  for (CudaFacts &facts : cuda.facts) {
    std::stable_sort(facts.collecting.begin(), facts.collecting.end(),
                     [](const auto &a, const auto &b) { return a.first < b.first; });
  }
  remove_polls(tables);
  derive_waits(tables);
  remove_graphs_at_rest(tables);
  count_missing(tables);
  name_kernels(tables);
  number_dimensions(tables);
  add_node_launches(tables);
  name_overhead(tables);
  seal_chains(cuda.chains, tables.texts);
}

}  // namespace warpline
