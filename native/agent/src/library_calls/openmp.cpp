// Regions, loops, tasks and waits of OpenMP, as its runtime tells them: the tools interface of OpenMP 5
// (OMPT). The runtime finds ompt_start_tool in the libraries of OMP_TOOL_LIBRARIES.
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "library_calls/families.h"
#include "library_calls/library_calls.h"
#include "session/clock.h"
#include "session/collector.h"
#include "session/process.h"

namespace warpline::agent {
namespace {

// OMPT's types, as the specification of OpenMP has them.
union OmptData {
  std::uint64_t value;
  void* pointer;
};
using OmptCallback = void (*)();
using OmptLookup = OmptCallback (*)(const char* name);
using OmptSetCallback = int (*)(int which, OmptCallback callback);
struct OmptStartToolResult {
  int (*initialize)(OmptLookup lookup, int device, OmptData* data);
  void (*finalize)(OmptData* data);
  OmptData data;
};

enum OmptEvent : int {
  kParallelBegin = 3, kParallelEnd = 4, kTaskCreate = 5, kTaskSchedule = 6, kSyncRegionWait = 16,
  kWork = 20, kMutexAcquire = 26, kMutexAcquired = 27
};
constexpr int kScopeBegin = 1;
constexpr int kExplicitTask = 4;  // a bit of the kind of a task
constexpr std::uint64_t kIsExplicit = 0x5741'5250;  // in the data of such a task

struct OmptKind {
  int number;
  std::string_view name;
};
constexpr OmptKind kWaits[] = {
    {1, "Barrier"}, {2, "Implicit barrier"}, {3, "Barrier"}, {4, "Barrier"},
    {5, "Taskwait"}, {6, "Taskgroup"}, {7, "Reduction"}, {8, "Implicit barrier"}, {9, "Implicit barrier"},
};
constexpr OmptKind kMutexes[] = {
    {1, "Lock wait"}, {2, "Lock wait"}, {3, "Lock wait"}, {4, "Lock wait"},
    {5, "Critical wait"}, {6, "Atomic wait"}, {7, "Ordered wait"},
};
constexpr OmptKind kWorks[] = {
    {1, "Loop"},      {2, "Sections"}, {3, "Single"}, {5, "Workshare"}, {6, "Distribute"},
    {7, "Taskloop"},  {8, "Scope"},    {10, "Loop"},  {11, "Loop"},     {12, "Loop"},
};

template <std::size_t Count>
std::string_view name_of(const OmptKind (&kinds)[Count], int number) noexcept {
  for (const OmptKind& kind : kinds) {
    if (kind.number == number) return kind.name;
  }
  return {};
}

// A wait or a piece of work that has begun.
struct OmptScope {
  int event;
  int kind;
  std::int64_t start_ns;
};

// What a thread is in.
struct ThreadRegions {
  std::array<OmptScope, 16> scopes;  // the innermost is the last
  std::uint32_t depth;
  std::uint32_t parallels;  // that this thread has begun
  std::int64_t mutex_start_ns;
  std::int64_t task_start_ns;
};
thread_local constinit ThreadRegions t_regions{};

void write(std::string_view name, std::int64_t start_ns) noexcept {
  if (start_ns != 0 && !name.empty()) write_library_call(kOpenMp, name, start_ns, now_ns());
}

// Scopes nest, but runtimes do not tell the end of each: those within one that ends are over.
void on_scope(int event, int kind, int endpoint, std::string_view name) noexcept {
  auto& scopes = t_regions.scopes;
  std::uint32_t& depth = t_regions.depth;
  if (endpoint == kScopeBegin) {
    if (depth == scopes.size()) depth = 0;
    scopes[depth++] = {event, kind, now_ns()};
    return;
  }
  for (std::uint32_t place = depth; place-- != 0;) {
    if (scopes[place].event != event || scopes[place].kind != kind) continue;
    depth = place;
    write(name, scopes[place].start_ns);
    return;
  }
}

void parallel_begins(OmptData*, const void*, OmptData* parallel, unsigned, int, const void*) noexcept {
  ++t_regions.parallels;
  if (parallel != nullptr) parallel->value = timestamp();
}
void parallel_ends(OmptData* parallel, OmptData*, int, const void*) noexcept {
  if (t_regions.parallels != 0) --t_regions.parallels;
  if (parallel != nullptr) write("Parallel", static_cast<std::int64_t>(parallel->value));
}

// At the end of a parallel region other threads wait for the next one: they are idle, and in no call.
void wait_changes(int kind, int endpoint, OmptData*, OmptData*, const void*) noexcept {
  constexpr int kImplicit = 2, kOfParallel = 9;
  const bool is_last = kind == kImplicit || kind == kOfParallel;
  const std::string_view name = name_of(kWaits, kind);
  on_scope(kSyncRegionWait, kind, endpoint, is_last && t_regions.parallels == 0 ? "" : name);
}
void work_changes(int kind, int endpoint, OmptData*, OmptData*, std::uint64_t, const void*) noexcept {
  on_scope(kWork, kind, endpoint, name_of(kWorks, kind));
}

void mutex_is_awaited(int, unsigned, unsigned, std::uint64_t, const void*) noexcept {
  t_regions.mutex_start_ns = now_ns();
}
void mutex_is_acquired(int kind, std::uint64_t, const void*) noexcept {
  write(name_of(kMutexes, kind), t_regions.mutex_start_ns);
  t_regions.mutex_start_ns = 0;
}

void task_is_created(OmptData*, const void*, OmptData* task, int kind, int, const void*) noexcept {
  if (task != nullptr && (kind & kExplicitTask) != 0) task->value = kIsExplicit;
}
void task_is_scheduled(OmptData* earlier, int, OmptData* next) noexcept {
  if (earlier != nullptr && earlier->value == kIsExplicit) write("Task", t_regions.task_start_ns);
  t_regions.task_start_ns = next != nullptr && next->value == kIsExplicit ? now_ns() : 0;
}

template <class Function>
OmptCallback as_callback(Function* function) noexcept {
  return reinterpret_cast<OmptCallback>(reinterpret_cast<void*>(function));
}

int initialize(OmptLookup lookup, int, OmptData*) {
  const auto set = reinterpret_cast<OmptSetCallback>(reinterpret_cast<void*>(lookup("ompt_set_callback")));
  if (set == nullptr) return 0;
  set(kParallelBegin, as_callback(parallel_begins));
  set(kParallelEnd, as_callback(parallel_ends));
  set(kTaskCreate, as_callback(task_is_created));
  set(kTaskSchedule, as_callback(task_is_scheduled));
  set(kSyncRegionWait, as_callback(wait_changes));
  set(kWork, as_callback(work_changes));
  set(kMutexAcquire, as_callback(mutex_is_awaited));
  set(kMutexAcquired, as_callback(mutex_is_acquired));
  return 1;
}

void finalize(OmptData*) {}

const Collector g_openmp("openmp", nullptr, nullptr);  // begun by the runtime

}  // namespace
}  // namespace warpline::agent

// Called by a runtime of OpenMP once it is used. Null: no tool of ours.
extern "C" __attribute__((visibility("default"))) void* ompt_start_tool(unsigned, const char*) {
  using namespace warpline::agent;
  if (!ensure_attached()) return nullptr;
  const Session* session = g_session.load(std::memory_order_acquire);
  if (session == nullptr || (families_of(session->config.collect) >> kOpenMp & 1) == 0) return nullptr;
  static OmptStartToolResult result{initialize, finalize, {0}};
  return &result;
}
