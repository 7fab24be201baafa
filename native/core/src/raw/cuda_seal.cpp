// Joins what the CUDA records of a session say in several places, and sorts the rows.
#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "raw/chains.h"
#include "raw/correlations.h"
#include "raw/counters.h"
#include "raw/cuda.h"
#include "raw/cuda_clock.h"
#include "raw/cuda_dimensions.h"
#include "raw/cuda_waits.h"
#include "raw/demangle.h"
#include "raw/expected_work.h"
#include "raw/pc_samples.h"
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

template <typename Row, typename Is>
void remove_if(Growing<Row> &rows, const Is &is_unwanted) {
  const Row *kept = std::remove_if(rows.begin(), rows.end(), is_unwanted);
  rows.cut_to(static_cast<std::size_t>(kept - rows.begin()));
}

// What calls that only ask waited is no wait: it stays among the calls.
void remove_polls(RawTables &tables) {
  const CudaTables &cuda = tables.cuda;
  Correlations polls;
  for (const ApiCallRow &call : tables.rows.of<ApiCallRow>()) {
    if (!cuda.call_names[static_cast<std::size_t>(call.call_name)].is_poll) continue;
    polls.add(tables.threads[call.thread].process, call.correlation);
  }
  if (polls.empty()) return;
  remove_if(tables.rows.of<HostWaitRow>(), [&](const HostWaitRow &wait) {
    return polls.contains(wait.process, wait.correlation);
  });
}

// Graphs stay recorded while recording rests: one launched then has no call, and is left out.
void remove_graphs_at_rest(RawTables &tables) {
  CudaTables &cuda = tables.cuda;
  Growing<GraphLaunchRow> &graphs = tables.rows.of<GraphLaunchRow>();
  if (graphs.empty()) return;
  Correlations launches;
  for (const ApiCallRow &call : tables.rows.of<ApiCallRow>()) {
    if ((call.flags & raw::Call::kIsGraph) == 0) continue;
    launches.add(tables.threads[call.thread].process, call.correlation);
  }
  remove_if(graphs, [&](const GraphLaunchRow &graph) {
    const int32_t process = cuda.places[graph.place].process;
    if ((cuda.facts_of(process).collected & raw::kCollectsCalls) == 0) return false;
    return !launches.contains(process, graph.correlation);
  });
}

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

// The correlations of all work on devices, with those of work whose times CUPTI did not know.
Correlations correlations_of_work(RawTables &tables) {
  Correlations found = std::move(tables.cuda.lost_launches);
  for_work(tables, [&](const auto &rows) {
    for (const auto &work : rows) {
      found.add(tables.cuda.places[work.place].process, work.correlation);
    }
  });
  return found;
}

// Counts calls that succeeded and should have led to work on a device, but did not.
void count_missing(RawTables &tables) {
  CudaTables &cuda = tables.cuda;
  const Correlations recorded = correlations_of_work(tables);
  const std::vector<Captures> captures = find_captures(tables);
  for (const ApiCallRow &call : tables.rows.of<ApiCallRow>()) {
    const Expected work = expected_of(call.flags, call.status != 0, call.correlation,
                                      cuda.call_names[static_cast<std::size_t>(call.call_name)]);
    if (work.collected == 0) continue;
    const int32_t process = tables.threads[call.thread].process;
    if (recorded.contains(process, call.correlation)) continue;
    CudaFacts &facts = cuda.facts_of(process);
    if ((collected_at(facts, call.start_ns) & work.collected) == 0) continue;
    if (captures[static_cast<std::size_t>(process)].holds(call.start_ns)) continue;
    ++(facts.*work.missing);
    int64_t &first = facts.missing_from_ns;
    first = first == 0 ? call.start_ns : std::min(first, call.start_ns);
  }
}

// Launches of graphs that were recorded node by node: of a call, one for every device.
class NodeLaunches {
 public:
  explicit NodeLaunches(const CudaTables &cuda) : cuda_(cuda) {}

  // Adds rows of work on devices to the launches that they name.
  void add(const auto &rows) {
    for (const auto &work : rows) {
      if (work.graph_node == 0 || work.correlation == 0) continue;
      const CudaPlace &place = cuda_.places[work.place];
      const Key key{place.process, work.correlation, place.device};
      // The nodes of a launch most often follow each other.
      if (last_ == launches_.end() || last_->first != key) {
        last_ = launches_.try_emplace(key).first;
      }
      add(last_->second, work);
    }
  }

  void move_to(Growing<GraphLaunchRow> &rows) const {
    for (const auto &[key, launch] : launches_) rows.push_back(launch);
  }

 private:
  using Key = std::tuple<int32_t, uint32_t, uint32_t>;  // process, correlation, device

  // A launch spans its work; context and stream are those of what began first.
  static void add(GraphLaunchRow &launch, const auto &work) {
    if (launch.nodes == 0 || work.start_ns < launch.start_ns) {
      launch.start_ns = work.start_ns;
      launch.place = work.place;
    }
    launch.end_ns = launch.nodes == 0 ? work.end_ns : std::max(launch.end_ns, work.end_ns);
    launch.correlation = work.correlation;
    launch.source_graph = std::max(launch.source_graph, work.graph);
    ++launch.nodes;
  }

  const CudaTables &cuda_;
  std::map<Key, GraphLaunchRow> launches_;
  std::map<Key, GraphLaunchRow>::iterator last_ = launches_.end();
};

void add_node_launches(RawTables &tables) {
  NodeLaunches launches(tables.cuda);
  launches.add(tables.rows.of<KernelRow>());
  launches.add(tables.rows.of<MemcpyRow>());
  launches.add(tables.rows.of<MemsetRow>());
  launches.move_to(tables.rows.of<GraphLaunchRow>());
}

constexpr std::string_view kNoName = "[unknown]";

// Makes names of kernels of the texts that logs have.
class KernelNames {
 public:
  explicit KernelNames(RawTables &tables) : tables_(tables) {}

  // Returns the place of a kernel's name among the names, from its mangled one; -1: it has none.
  int32_t of(int32_t mangled) {
    if (mangled == last_mangled_) return last_;
    const auto [found, is_new] = known_.try_emplace(mangled, next());
    if (is_new) names().push_back(made(mangled));
    last_mangled_ = mangled;
    return last_ = found->second;
  }

  // The same of a range of work, whose name is no kernel's.
  int32_t of_range(int32_t text) {
    const auto [found, is_new] = ranges_.try_emplace(text, next());
    if (is_new) {
      const int32_t name = text < 0 ? tables_.texts.intern(kNoName) : text;
      names().push_back({-1, name, name});
    }
    return found->second;
  }

 private:
  std::vector<CudaKernelName> &names() { return tables_.cuda.names; }
  int32_t next() { return static_cast<int32_t>(names().size()); }

  CudaKernelName made(int32_t mangled) {
    if (mangled < 0) {
      const int32_t name = tables_.texts.intern(kNoName);
      return {mangled, name, name};
    }
    const KernelName name = demangle_kernel(std::string(tables_.texts.text(mangled)));
    const int32_t full = tables_.texts.intern(name.full);
    return {mangled, full, tables_.texts.intern(name.base)};
  }

  RawTables &tables_;
  std::unordered_map<int32_t, int32_t> known_;
  std::unordered_map<int32_t, int32_t> ranges_;
  int32_t last_mangled_ = -2;
  int32_t last_ = -1;
};

void name_kernels(RawTables &tables) {
  KernelNames names(tables);
  tables.rows.of<KernelRow>().change_shared(
      [&](KernelRow &kernel) { kernel.name = names.of(kernel.name); });
  for (ProfiledKernelRow &kernel : tables.rows.of<ProfiledKernelRow>()) {
    const bool is_range = kernel.has(raw::CountedKernel::kIsRange);
    kernel.name = is_range ? names.of_range(kernel.name) : names.of(kernel.name);
  }
  for (PcSampleRow &sample : tables.rows.of<PcSampleRow>()) {
    sample.function = names.of(sample.function);
    if (sample.stall < 0) sample.stall = tables.texts.intern(kNoName);
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

// Of many faults few instructions are the cause.
void place_faults(RawTables &tables) {
  auto &faults = tables.rows.of<UmCpuPageFaultRow>();
  std::map<std::pair<int32_t, uint64_t>, CodePlace> places;
  for (const UmCpuPageFaultRow &fault : faults) {
    if (fault.pc != 0) places[{fault.process, fault.pc}] = {};
  }
  std::vector<std::pair<int32_t, uint64_t>> instructions;
  for (const auto &[instruction, place] : places) instructions.push_back(instruction);
  const std::vector<CodePlace> found =
      places_of(tables.cuda.chains, instructions, tables.texts);
  auto next = found.begin();
  for (auto &[instruction, place] : places) place = *next++;
  for (UmCpuPageFaultRow &fault : faults) {
    if (fault.pc == 0) continue;
    const CodePlace &place = places.at({fault.process, fault.pc});
    fault.function = place.function;
    fault.module = place.module;
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
  seal_counters(tables);
  add_up_pc_samples(tables);
  place_faults(tables);
  seal_chains(cuda.chains, tables.texts);
}

}  // namespace warpline
