#include "library_calls/library_calls.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <new>
#include <string>
#include <string_view>
#include <type_traits>

#include "cupti/setup.h"
#include "library_calls/families.h"
#include "library_calls/gemm_arguments.h"
#include "library_calls/modules.h"
#include "library_calls/texts.h"
#include "library_calls/trampoline.h"
#include "session/clock.h"
#include "session/collector.h"
#include "session/process.h"
#include "session/thread_log.h"
#include "stack/call_chain.h"
#include "stack/python_chain.h"
#include "stack/python_walk.h"
#include "stack/walk.h"
#include "warpline_cuda.h"

using warpline::agent::CallInProgress;

// What the trampoline calls, see trampoline.cpp.
extern "C" {
void* warpline_dlsym = nullptr;
void* warpline_call_begins(std::uint32_t number, const std::uint64_t* registers,
                           const std::uint64_t* stack, CallInProgress* call) noexcept;
void warpline_call_ends(const CallInProgress* call, std::uint64_t result) noexcept;
void* warpline_dlsym_begins(void* handle, const char* name) noexcept;
}

namespace warpline::agent {
namespace {

// A function that is replaced, at one place or for all who ask dlsym. Never freed: a program may hold the
// stub's address for as long as it runs.
struct Hook {
  std::atomic<void*> target;        // the function
  std::atomic<bool> is_lazy;        // the target will look the function up, and write it to `place`
  void** place;                     // null: dlsym returns the stub
  std::size_t number;               // of its stub
  const LibraryText* library;
  const LibraryText* name;
  GemmForm gemm;                    // of a function whose arguments are recorded
  std::atomic<bool> has_queries;
  GemmQueries queries;
};
std::atomic<Hook*> g_hooks[kStubs];  // by the number of the stub
std::atomic<std::uint32_t> g_hook_count{0};
std::atomic<std::uint32_t> g_wanted{0};  // a bit per family
std::atomic<bool> g_has_arguments{false};
std::atomic<std::int64_t> g_chains_from_ns{kNoChains};
std::atomic<pid_t> g_replacing{0};  // the process in which a thread replaces references

constexpr std::size_t kPlaces = 2 * kStubs;
std::atomic<std::uint64_t> g_keys[kPlaces];     // of what was replaced
std::atomic<std::uint32_t> g_numbers[kPlaces];  // and its stub, from 1

// Returns the number of the stub that a key has, from 1: a new one if it has none. 0: there are no more.
std::uint32_t stub_number(std::uint64_t key) noexcept {
  if (g_hook_count.load() >= kStubs) return 0;
  std::size_t place = key % kPlaces;
  for (;; place = (place + 1) % kPlaces) {
    std::uint64_t found = 0;
    if (g_keys[place].compare_exchange_strong(found, key) || found == key) break;
  }
  std::uint32_t number = g_numbers[place].load(std::memory_order_acquire);
  if (number != 0) return number;
  number = g_hook_count.fetch_add(1) + 1;
  if (number > kStubs) return 0;
  g_numbers[place].store(number, std::memory_order_release);
  return number;
}

// Returns what stands for a function at a place, or for all who ask dlsym: a stub, or null. A stub never
// comes to mean another function, as the program may have copies of its address.
void* stub_for(const Reference& reference) noexcept {
  const std::uint32_t family =
      family_of(reference.function, g_wanted.load(std::memory_order_relaxed));
  if (family == kNoFamily) return nullptr;
  const LibraryText* name = text_of(reference.function);
  const LibraryText* library = text_of(kFamilies[family].name);
  if (name == nullptr || library == nullptr) return nullptr;
  const auto word = [](const void* address) { return reinterpret_cast<std::uintptr_t>(address); };
  const std::uint32_t number =
      stub_number(mixed(mixed(name->key, word(reference.place)), word(reference.target)) | 1);
  if (number == 0) return nullptr;
  std::atomic<Hook*>& own = g_hooks[number - 1];
  if (const Hook* hook = own.load(std::memory_order_acquire)) {
    return hook->name == name && hook->place == reference.place ? stub(number - 1) : nullptr;
  }
  auto* hook = new (std::nothrow) Hook{};
  if (hook == nullptr) return nullptr;
  hook->target.store(reference.target);
  hook->is_lazy.store(reference.is_lazy);
  hook->place = reference.place;
  hook->number = number - 1;
  hook->library = library;
  hook->name = name;
  hook->gemm = gemm_form(reference.function);
  own.store(hook, std::memory_order_release);
  return stub(number - 1);
}

bool is_stub(const void* address) noexcept {
  return address >= stub(0) && address < stub(kStubs);
}

constexpr std::string_view kDlsym = "dlsym";

bool wants(std::string_view name) noexcept {
  return name == kDlsym ||
         family_of(name, g_wanted.load(std::memory_order_relaxed)) != kNoFamily;
}

void* replace(const Reference& reference) noexcept {
  if (reference.function == kDlsym) {
    // Another one in its place, of a library that is loaded before ours, stays.
    return reference.is_lazy || reference.target == warpline_dlsym ? dlsym_stub() : nullptr;
  }
  if (is_stub(reference.target)) return nullptr;
  return stub_for(reference);
}

// Replaces references in modules that are new, or in all.
void replace_references(bool is_of_all) noexcept {
  // One thread at a time; the others need not wait. A fork may find it taken by a thread that it lacks.
  const pid_t own = getpid();
  pid_t found = g_replacing.load();
  if (found == own || !g_replacing.compare_exchange_strong(found, own)) return;
  if (is_of_all) forget_modules();
  const std::size_t failed = replace_new_references({wants, replace, is_of_family});
  static std::atomic<bool> has_noted{false};
  if (failed != 0 && !has_noted.exchange(true)) {
    note(raw::CudaNote::kNoLibraryCalls,
         std::to_string(failed) + " references to functions could not be replaced");
  }
  g_replacing.store(0);
}

bool records_now() noexcept {
  const Session* session = g_session.load(std::memory_order_acquire);
  return session != nullptr && recording_state(*session).is_on;
}

// What the library of a function has for us.
void find_queries(Hook& hook) noexcept {
  const void* function = hook.target.load();
  if (hook.is_lazy.load()) function = dlsym(RTLD_DEFAULT, hook.name->text.c_str());
  Dl_info file{};
  if (function == nullptr || dladdr(function, &file) == 0 || file.dli_fname == nullptr) return;
  void* library = dlopen(file.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) return;
  const auto find = [library](const char* name, auto& found) noexcept {
    found = reinterpret_cast<std::remove_reference_t<decltype(found)>>(dlsym(library, name));
  };
  if (hook.gemm.is_matmul) {
    find("cublasLtMatmulDescGetAttribute", hook.queries.of_matmul);
    find("cublasLtMatrixLayoutGetAttribute", hook.queries.of_layout);
  } else {
    find("cublasGetMathMode", hook.queries.math_mode);
  }
  dlclose(library);  // it stays: the program has it open
  hook.has_queries.store(true, std::memory_order_release);
}

std::string as_gemm(const void* values) { return gemm_text(*static_cast<const GemmValues*>(values)); }

const LibraryText* arguments_of(Hook& hook, const CallArguments& arguments) noexcept {
  if (!hook.has_queries.load(std::memory_order_acquire)) find_queries(hook);
  const GemmValues values = gemm_values(hook.gemm, arguments, hook.queries);
  if (values.known == 0) return nullptr;
  std::uint64_t key = mixed(kFamilyCount, values.known);
  for (std::size_t field = 0; field < kGemmFields; ++field) {
    if ((values.known >> field & 1) != 0) {
      key = mixed(key, static_cast<std::uint64_t>(values.values[field]));
    }
  }
  return library_text(key, as_gemm, &values);
}

void add_chains(ThreadLog& log, raw::LibraryCall& call) noexcept {
  NativeStack stack;
  call.chain = write_chain(log, stack);
  if (call.chain != 0) call.flags |= raw::LibraryCall::kHasChain;
  call.python_chain = write_python_chain(log, stack, PythonPlace::kInCall);
  if (call.python_chain != 0) call.flags |= raw::LibraryCall::kHasPythonChain;
}

// Writes a call into the log of this thread, if recording is still on.
void write(const LibraryText& library, const LibraryText& name, const LibraryText* arguments,
           raw::LibraryCall call, std::int64_t chains_from_ns) noexcept {
  LogLease log = recording_log();
  if (!log || !define_text(*log, library) || !define_text(*log, name)) return;
  if (arguments != nullptr && !define_text(*log, *arguments)) return;
  call.library = library.number;
  call.name = name.number;
  call.arguments = arguments == nullptr ? 0 : arguments->number;
  const auto duration_ns = static_cast<std::int64_t>(call.end_ns - call.start_ns);
  if (chains_from_ns != kNoChains && duration_ns >= chains_from_ns) add_chains(*log, call);
  log->put(call);
}

void choose_chains(const Session& session) noexcept {
  const std::int64_t from_ns = session.config.library_calls.chains_from_ns;
  g_chains_from_ns.store(from_ns);
  if (from_ns != kNoChains) meet_python();
}

void begin_library_calls() noexcept {
  const Session* session = g_session.load(std::memory_order_acquire);
  if (session == nullptr) return;
  choose_chains(*session);
  const auto& names = session->config.collect;
  const std::uint32_t wanted = families_of(names) & ~(1u << kOpenMp);
  const bool has_arguments = std::find(names.begin(), names.end(), "cublas-verbose") != names.end();
  g_has_arguments.store(has_arguments);
  if (wanted == 0 || wanted == g_wanted.load()) return;
  if (!kHasTrampoline) {
    note(raw::CudaNote::kNoLibraryCalls, "calls of libraries are recorded on x86-64 only");
    return;
  }
  warpline_dlsym = reinterpret_cast<void*>(&dlsym);
  g_wanted.store(wanted);
  replace_references(true);
}

// One for each name; the first that begins does it for all.
const Collector g_collectors[] = {
    {"cublas", begin_library_calls, nullptr},
    {"cublas-verbose", begin_library_calls, nullptr},
    {"cudnn", begin_library_calls, nullptr},
    {"cufft", begin_library_calls, nullptr},
    {"cusolver", begin_library_calls, nullptr},
    {"cusparse", begin_library_calls, nullptr},
    {"mpi", begin_library_calls, nullptr},
    {"nccl", begin_library_calls, nullptr},
    {"nvjpeg", begin_library_calls, nullptr},
};

}  // namespace

void write_library_call(std::uint32_t family, std::string_view name, std::int64_t start_ns,
                        std::int64_t end_ns) noexcept {
  const LibraryText* library = text_of(kFamilies[family].name);
  const LibraryText* function = text_of(name);
  if (library == nullptr || function == nullptr) return;
  write(*library, *function, nullptr,
        {.start_ns = static_cast<std::uint64_t>(start_ns),
         .end_ns = static_cast<std::uint64_t>(end_ns)},
        kNoChains);
}

}  // namespace warpline::agent

using namespace warpline::agent;

void* warpline_call_begins(std::uint32_t number, const std::uint64_t* registers,
                           const std::uint64_t* stack, CallInProgress* call) noexcept {
  Hook& hook = *g_hooks[number].load(std::memory_order_acquire);
  const bool is_recorded = records_now();
  // A call that looks its function up is seen to its end, to be replaced again.
  const bool is_lazy = hook.is_lazy.load(std::memory_order_relaxed);
  call->hook = is_recorded || is_lazy ? &hook : nullptr;
  call->text = nullptr;
  call->start_ns = 0;
  if (is_recorded) {
    if (hook.gemm && g_has_arguments.load(std::memory_order_relaxed)) {
      call->text = arguments_of(hook, {registers, stack});
    }
    call->start_ns = now_ns();
  }
  return hook.target.load(std::memory_order_acquire);
}

void warpline_call_ends(const CallInProgress* call, std::uint64_t result) noexcept {
  Hook& hook = *static_cast<Hook*>(const_cast<void*>(call->hook));
  if (call->start_ns != 0) {
    write(*hook.library, *hook.name, static_cast<const LibraryText*>(call->text),
          {.flags = warpline::raw::LibraryCall::kHasStatus,
           .start_ns = static_cast<std::uint64_t>(call->start_ns),
           .end_ns = static_cast<std::uint64_t>(now_ns()),
           .status = static_cast<std::uint32_t>(result)},
          g_chains_from_ns.load(std::memory_order_relaxed));
  }
  if (!hook.is_lazy.load(std::memory_order_relaxed)) [[likely]] return;
  // The loader has put the function where the stub was.
  void* found = __atomic_load_n(hook.place, __ATOMIC_ACQUIRE);
  if (is_stub(found) || !hook.is_lazy.exchange(false)) return;
  hook.target.store(found, std::memory_order_release);
  __atomic_store_n(hook.place, stub(hook.number), __ATOMIC_RELEASE);
}

void* warpline_dlsym_begins(void* handle, const char* name) noexcept {
  replace_references(false);
  // What these mean depends on who asks: dlsym itself sees that.
  if (handle == RTLD_DEFAULT || handle == RTLD_NEXT || name == nullptr) return nullptr;
  const std::string_view function = name;
  if (family_of(function, g_wanted.load(std::memory_order_relaxed)) == kNoFamily) return nullptr;
  void* target = reinterpret_cast<void* (*)(void*, const char*)>(warpline_dlsym)(handle, name);
  if (target == nullptr || is_stub(target)) return target;
  return stub_for({function, nullptr, target, false});
}
