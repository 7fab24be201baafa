#include "nvtx/binding.h"

#include <link.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <new>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "nvtx/instances.h"
#include "session/memory_map.h"
#include "session/process.h"

namespace warpline::agent::nvtx {
namespace {

// Version 2 of NVTX is a library.
constexpr std::string_view kLibraryName = "libnvToolsExt.so";

// The function pointers of an instance, and how far it has come if it tells.
struct Pointers {
  FunctionTable tables[kModules];  // each with `sizes` places, from 1
  unsigned sizes[kModules];
  std::uint32_t* state;

  template <class Visit>
  void for_each(const Visit& visit) const noexcept {
    for (unsigned module = 0; module < kModules; ++module) {
      for (unsigned at = 1; at < sizes[module]; ++at) visit(tables[module][at]);
    }
  }
};

Pointers pointers_of(Instance& instance) noexcept {
  Pointers found{{}, {}, &instance.state};
  FunctionTable table = instance.tables;
  for (unsigned module = 0; module < kModules; ++module) {
    found.tables[module] = table;
    found.sizes[module] = kFunctionCounts[module] + 1;
    table += kFunctionCounts[module] + 2;
  }
  return found;
}

std::string_view name_of(const dl_phdr_info& module) noexcept {
  const std::string_view path = module.dlpi_name == nullptr ? "" : module.dlpi_name;
  return path.substr(path.rfind('/') + 1);
}

// Returns whether a module is the library of version 2, and its pointers are where they should be.
bool find_library(const dl_phdr_info& module, const ModuleMemory& memory, Pointers& found) noexcept {
  if (!name_of(module).starts_with(kLibraryName)) return false;
  found.state = nullptr;
  if (!find_library_tables(memory, found.tables)) return false;
  for (unsigned number = 0; number < kModules; ++number) found.sizes[number] = kLibraryCounts[number] + 1;
  return true;
}

bool find_table(const void* context, Module module, FunctionTable& table, unsigned& size) noexcept {
  const auto& pointers = *static_cast<const Pointers*>(context);
  table = pointers.tables[module - 1];
  size = pointers.sizes[module - 1];
  return size != 0;
}

enum class Holder { kNobody, kItself, kAgent, kOther };

// Whose functions an instance calls. Its own are those that look for a tool.
Holder holder_of(const Pointers& pointers, const ModuleMemory& module, const ModuleMemory& agent) noexcept {
  bool has_null = false, has_own = false, has_ours = false, has_other = false;
  pointers.for_each([&](Function* place) {
    const auto* function = reinterpret_cast<const void*>(__atomic_load_n(place, __ATOMIC_ACQUIRE));
    if (function == nullptr) {
      has_null = true;
    } else if (agent.has_code(function)) {
      has_ours = true;
    } else {
      (module.has_code(function) ? has_own : has_other) = true;
    }
  });
  if (has_other || (has_own && (has_null || has_ours))) return Holder::kOther;
  return has_own ? Holder::kItself : has_ours ? Holder::kAgent : Holder::kNobody;
}

enum class Binding { kBound, kNotNow, kNever };

// As the instance itself does at its first call: who comes then waits until it is complete.
Binding bind_fresh(const Pointers& pointers, const Tables& tables, const ModuleMemory& agent) noexcept {
  std::uint32_t state = kFresh;
  if (!__atomic_compare_exchange_n(pointers.state, &state, static_cast<std::uint32_t>(kStarted), false,
                                   __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
    return Binding::kNotNow;
  }
  write_functions(tables);
  pointers.for_each([&agent](Function* place) {
    if (!agent.has_code(reinterpret_cast<const void*>(*place))) {
      __atomic_store_n(place, nullptr, __ATOMIC_RELEASE);
    }
  });
  __atomic_store_n(pointers.state, static_cast<std::uint32_t>(kComplete), __ATOMIC_RELEASE);
  return Binding::kBound;
}

Binding bind_pointers(const Pointers& pointers, const ModuleMemory& module, const ModuleMemory& agent) noexcept {
  const bool tells = pointers.state != nullptr;
  const std::uint32_t state = tells ? __atomic_load_n(pointers.state, __ATOMIC_ACQUIRE) : kComplete;
  if (state == kStarted) return Binding::kNotNow;
  const Tables tables{&pointers, find_table};
  switch (holder_of(pointers, module, agent)) {
    case Holder::kNobody:
      if (state != kComplete) return Binding::kNever;
      return write_functions(tables) ? Binding::kBound : Binding::kNever;
    case Holder::kItself:
      if (!tells) return Binding::kNotNow;  // until its first call
      return state == kFresh ? bind_fresh(pointers, tables, agent) : Binding::kNever;
    case Holder::kAgent:
    case Holder::kOther: break;
  }
  return Binding::kNever;
}

// An instance that we have bound; a null place is the library's.
struct BoundInstance {
  ModuleKey module;
  std::uintptr_t place;
};

// What is known of the loaded modules. Of the one thread that binds.
struct Bindings {
  LoadCounts counts;
  bool is_settled = false;
  std::set<ModuleKey> done;
  std::vector<BoundInstance> bound;
};
// Never freed: that thread goes on after a program has destroyed its static objects.
Bindings* g_bindings = new Bindings;
// A thread is changing them. In memory that a fork copies: there it means that they are half changed.
std::atomic<bool> g_is_changing{false};

// Held by the one thread that binds. In the page that a fork sees as zeros, for the thread is not there.
class BindingTurn {
 public:
  BindingTurn() noexcept : is_mine_(g_process != nullptr && !g_process->is_binding.exchange(true)) {
    if (!is_mine_ || !g_is_changing.exchange(true)) return;
    Bindings* const fresh = new (std::nothrow) Bindings;
    if (fresh != nullptr) {
      g_bindings = fresh;
    } else {
      is_mine_ = false;
      g_process->is_binding.store(false);
    }
  }
  ~BindingTurn() {
    if (!is_mine_) return;
    g_is_changing.store(false);
    g_process->is_binding.store(false);
  }
  BindingTurn(const BindingTurn&) = delete;
  BindingTurn& operator=(const BindingTurn&) = delete;
  explicit operator bool() const noexcept { return is_mine_; }

 private:
  bool is_mine_;
};

// A module that is looked at: first what is there, then, knowing which memory can be written, to bind it. The
// loader's lock is held in each visit, so these need no memory of the heap.
struct Visit {
  const std::set<ModuleKey>& seen;
  std::optional<ModuleMemory> agent;
  ModuleKey key{};
  bool is_there = false;
  bool has_library = false;
  FoundInstances found;
  std::vector<Span> writable;
  std::uintptr_t bound[FoundInstances::kMost + 1];
  std::size_t bound_count = 0;
  bool is_settled = true;
  char path[4096] = "";

  bool can_write(const Pointers& pointers) const noexcept {
    bool can = pointers.state == nullptr || is_in(writable, reinterpret_cast<std::uintptr_t>(pointers.state));
    pointers.for_each([&](const Function* place) {
      can = can && is_in(writable, reinterpret_cast<std::uintptr_t>(place));
    });
    return can;
  }

  void bind(const Pointers& pointers, const ModuleMemory& module, std::uintptr_t place) noexcept {
    const Binding done = can_write(pointers) ? bind_pointers(pointers, module, *agent) : Binding::kNever;
    if (done == Binding::kBound) bound[bound_count++] = place;
    if (done == Binding::kNotNow) is_settled = false;
  }
};

// The loader has no path of the program itself.
template <std::size_t kBytes>
void copy_path(const dl_phdr_info& module, char (&path)[kBytes]) noexcept {
  const char* known = module.dlpi_name == nullptr ? "" : module.dlpi_name;
  std::snprintf(path, kBytes, "%s", known);
  if (*known != '\0') return;
  const ssize_t bytes = readlink("/proc/self/exe", path, kBytes - 1);
  path[bytes < 0 ? 0 : bytes] = '\0';
}

int find_agent(dl_phdr_info* module, std::size_t, void* agent) {
  if (!is_agent(*module)) return 0;
  static_cast<std::optional<ModuleMemory>*>(agent)->emplace(*module);
  return 1;
}

int look_at_next(dl_phdr_info* module, std::size_t, void* data) {
  auto& visit = *static_cast<Visit*>(data);
  const ModuleKey key = key_of(*module);
  if (visit.seen.contains(key) || is_agent(*module)) return 0;
  visit.key = key;
  visit.is_there = true;
  visit.has_library = name_of(*module).starts_with(kLibraryName);
  find_instances(ModuleMemory(*module), visit.found);
  visit.is_settled = visit.found.is_relocated;
  return 1;
}

int bind_in(dl_phdr_info* module, std::size_t, void* data) {
  auto& visit = *static_cast<Visit*>(data);
  if (key_of(*module) != visit.key) return 0;
  copy_path(*module, visit.path);
  const ModuleMemory memory(*module);
  for (std::size_t i = 0; i < visit.found.count; ++i) {
    const std::uintptr_t place = visit.found.places[i];
    if (!is_instance(place, memory)) continue;
    visit.bind(pointers_of(*reinterpret_cast<Instance*>(place)), memory, place);
  }
  Pointers library{};
  if (visit.has_library && find_library(*module, memory, library)) visit.bind(library, memory, 0);
  return 1;
}

// Looks at a module that has not been seen; returns whether there was one.
bool visit_next(std::set<ModuleKey>& seen, const std::optional<ModuleMemory>& agent) {
  Visit visit{.seen = seen, .agent = agent, .found = {}, .writable = {}, .bound = {}};
  dl_iterate_phdr(look_at_next, &visit);
  if (!visit.is_there) return false;
  if (visit.found.count != 0 || visit.has_library) {
    visit.writable = writable_memory();
    g_bindings->bound.reserve(g_bindings->bound.size() + FoundInstances::kMost + 1);
    dl_iterate_phdr(bind_in, &visit);
  }
  for (std::size_t i = 0; i < visit.bound_count; ++i) {
    g_bindings->bound.push_back({visit.key, visit.bound[i]});
    note_nvtx_bound(visit.path);
  }
  seen.insert(visit.key);
  if (visit.is_settled) {
    g_bindings->done.insert(visit.key);
  } else {
    g_bindings->is_settled = false;
  }
  return true;
}

// What is taken out again.
struct Release {
  ModuleMemory agent;
  std::vector<Span> writable;

  void clear(const Pointers& pointers) const noexcept {
    pointers.for_each([this](Function* place) {
      const auto* function = reinterpret_cast<const void*>(__atomic_load_n(place, __ATOMIC_ACQUIRE));
      if (!agent.has_code(function) || !is_in(writable, reinterpret_cast<std::uintptr_t>(place))) return;
      __atomic_store_n(place, nullptr, __ATOMIC_RELEASE);
    });
  }
};

int release_in(dl_phdr_info* module, std::size_t, void* data) {
  const auto& release = *static_cast<const Release*>(data);
  const ModuleMemory memory(*module);
  for (const BoundInstance& bound : g_bindings->bound) {
    if (bound.module != key_of(*module)) continue;
    Pointers library{};
    if (bound.place == 0) {
      if (find_library(*module, memory, library)) release.clear(library);
    } else if (is_instance(bound.place, memory)) {
      release.clear(pointers_of(*reinterpret_cast<Instance*>(bound.place)));
    }
  }
  return 0;
}

}  // namespace

void bind_loaded() noexcept {
  const BindingTurn mine;
  if (!mine) return;
  try {
    const LoadCounts counts = load_counts();
    if (counts == g_bindings->counts && g_bindings->is_settled) return;
    // What was unloaded may have left its addresses to another module.
    if (counts.removed != g_bindings->counts.removed) g_bindings->done.clear();
    g_bindings->counts = counts;
    g_bindings->is_settled = true;
    std::optional<ModuleMemory> agent;
    dl_iterate_phdr(find_agent, &agent);
    std::set<ModuleKey> seen = g_bindings->done;
    while (agent && visit_next(seen, agent)) {
    }
  } catch (...) {  // out of memory: at the next look
    g_bindings->is_settled = false;
  }
}

void release_loaded() noexcept {
  const BindingTurn mine;
  if (!mine || g_bindings->bound.empty()) return;
  try {
    std::optional<ModuleMemory> agent;
    dl_iterate_phdr(find_agent, &agent);
    if (!agent) return;
    Release release{*agent, writable_memory()};
    dl_iterate_phdr(release_in, &release);
    note_nvtx_released(g_bindings->bound.size());
    *g_bindings = {};
  } catch (...) {  // out of memory: they stay, and do nothing without a session
  }
}

}  // namespace warpline::agent::nvtx
