#include "os_calls/os_calls.h"

#include <link.h>
#include <malloc.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <bitset>
#include <cerrno>
#include <cstdint>

#include "session/process.h"
#include "session/thread_log.h"
#include "stack/call_chain.h"
#include "stack/python_chain.h"
#include "stack/python_walk.h"
#include "stack/walk.h"
#include "warpline_agent.h"

namespace warpline::agent {
namespace {

constexpr std::uint32_t kMostFunctions = 512;

const char* const* g_functions = nullptr;
std::uint32_t g_function_count = 0;
std::int64_t g_chains_from_ns = kNoChains;

// ---- whose calls are left out

struct AddressRange {
  std::atomic<std::uint64_t> begin{0};
  std::atomic<std::uint64_t> end{0};  // written last

  bool has(std::uint64_t address) const noexcept {
    return address < end.load(std::memory_order_acquire) &&
           address >= begin.load(std::memory_order_relaxed);
  }
};

constexpr std::size_t kMostLeftOut = 4;
AddressRange g_left_out[kMostLeftOut];
std::atomic<std::size_t> g_left_out_count{0};
AddressRange g_allocator;  // where malloc is, if not in the C library

struct Search {
  std::uint64_t address;
  std::uint64_t begin;
  std::uint64_t end;  // 0: not found
};

int look_at_module(dl_phdr_info* module, std::size_t, void* data) noexcept {
  Search& search = *static_cast<Search*>(data);
  std::uint64_t begin = ~std::uint64_t{0};
  std::uint64_t end = 0;
  for (int i = 0; i < module->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = module->dlpi_phdr[i];
    if (segment.p_type != PT_LOAD) continue;
    const std::uint64_t at = module->dlpi_addr + segment.p_vaddr;
    if (at < begin) begin = at;
    if (at + segment.p_memsz > end) end = at + segment.p_memsz;
  }
  if (search.address < begin || search.address >= end) return 0;
  search.begin = begin;
  search.end = end;
  return 1;
}

Search module_at(const void* address) noexcept {
  Search search{reinterpret_cast<std::uint64_t>(address), 0, 0};
  dl_iterate_phdr(look_at_module, &search);
  return search;
}

void set(AddressRange& range, const Search& module) noexcept {
  range.begin.store(module.begin, std::memory_order_relaxed);
  range.end.store(module.end, std::memory_order_release);
}

bool is_left_out(std::uint64_t caller) noexcept {
  for (const AddressRange& range : g_left_out) {
    if (range.has(caller)) return true;
  }
  return false;
}

// A backtrace may need memory, which an allocator cannot give while it waits for a lock of its own.
// Whatever replaces malloc has this function, too. Of malloc, a program that is linked to a fixed place
// and takes its address, as Python's may, has an entry that stands for it in all libraries.
void find_allocator() noexcept {
  const Search allocator = module_at(reinterpret_cast<const void*>(&::malloc_usable_size));
  const Search libc = module_at(reinterpret_cast<const void*>(&::getauxval));
  if (allocator.begin != libc.begin) set(g_allocator, allocator);
}

// ---- records

// Which functions' names a log has.
struct NamedFunctions {
  std::uint64_t generation;
  const ThreadLog* log;
  std::bitset<kMostFunctions> known;
};
thread_local constinit NamedFunctions t_named{0, nullptr, {}};

bool define_name(ThreadLog& log, std::uint32_t function) noexcept {
  const std::uint64_t generation = g_process->generation.load(std::memory_order_relaxed);
  if (t_named.log != &log || t_named.generation != generation) t_named = {generation, &log, {}};
  if (t_named.known[function]) return true;
  if (!log.define(raw::Kind::kOsCallName, function, 0, g_functions[function])) return false;
  t_named.known[function] = true;
  return true;
}

// A child of vfork has its parent's memory, and would write to its log.
bool is_this_process() noexcept {
  const std::uint64_t generation = g_process->generation.load(std::memory_order_acquire);
  return generation == 0 || g_process->pid == static_cast<std::uint32_t>(syscall(SYS_getpid));
}

void add_chains(ThreadLog& log, raw::OsCall& record) noexcept {
  NativeStack stack;
  record.chain = write_chain(log, stack);
  if (record.chain != 0) record.flags |= raw::OsCall::kHasChain;
  record.python_chain = write_python_chain(log, stack, PythonPlace::kAnywhere);
  if (record.python_chain != 0) record.flags |= raw::OsCall::kHasPythonChain;
}

void record_call(const wl_os_call* call) {
  const int error = errno;
  const auto caller = reinterpret_cast<std::uint64_t>(call->caller);
  // A thread that is not known may need memory first.
  const bool is_safe = call->is_thread_known != 0 || !g_allocator.has(caller);
  const bool is_wanted =
      call->number < g_function_count && is_safe && !is_left_out(caller) && is_this_process();
  if (LogLease log = is_wanted ? recording_log() : LogLease()) {
    raw::OsCall record{.os_function = call->number,
                       .start_ns = static_cast<std::uint64_t>(call->start_ns),
                       .end_ns = static_cast<std::uint64_t>(call->end_ns),
                       .return_value = call->return_value};
    const std::int64_t duration_ns = call->end_ns - call->start_ns;
    const bool has_chain = g_chains_from_ns != kNoChains && duration_ns >= g_chains_from_ns;
    if (define_name(*log, call->number)) {
      if (has_chain && caller != 0 && !g_allocator.has(caller)) add_chains(*log, record);
      log->put(record);
    }
  }
  errno = error;
}

}  // namespace

void leave_out_calls_of(const void* address) noexcept {
  if (is_left_out(reinterpret_cast<std::uint64_t>(address))) return;
  const Search module = module_at(address);
  const std::size_t place = g_left_out_count.fetch_add(1);
  if (place < kMostLeftOut) set(g_left_out[place], module);
}

}  // namespace warpline::agent

extern "C" __attribute__((visibility("default"))) wl_os_call_function wl_agent_os_calls(
    const char* const* names, uint32_t count, int64_t* threshold_ns) {
  using namespace warpline::agent;
  const Session* session = g_session.load(std::memory_order_acquire);
  if (session == nullptr || !session->config.collects("osrt")) return nullptr;
  g_functions = names;
  g_function_count = count < kMostFunctions ? count : kMostFunctions;
  g_chains_from_ns = session->config.os_calls.chains_from_ns;
  leave_out_calls_of(reinterpret_cast<const void*>(&record_call));
  find_allocator();
  if (g_chains_from_ns != kNoChains) meet_python();
  *threshold_ns = session->config.os_calls.threshold_ns;
  return record_call;
}
