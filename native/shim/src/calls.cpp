// The functions of calls.def, which take the place of the C library's: each calls the real one, and
// tells the agent if that took long.
//
// They must be as harmless as the real ones where those are called: in handlers of signals, in forks, in
// malloc, before constructors and after destructors. So they allocate nothing, take no lock and
// have no destructors, which an exception or the cancellation of a thread would have to pass.
#include <dirent.h>
#include <fcntl.h>
#include <mqueue.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <type_traits>

#include "real.h"
#include "recording.h"
#include "threads.h"

namespace warpline::shim {

Recording g_recording;

namespace {

// ---- what calls.def has

#define GROUP(title)
#define CALL(result, name, parameters, arguments) ENTRY(name, name)
#define NEWER(result, name, parameters, arguments) ENTRY(name, name)
#define CHECKED(result, name, symbol, parameters, arguments) ENTRY(name, symbol)
#define VARIADIC(result, name, parameters, last, arguments) ENTRY(name, name)
#define NEWER_VARIADIC(result, name, parameters, last, arguments) ENTRY(name, name)
#define THREAD(name, parameters, arguments) ENTRY(name, name)
#define JUMP(name, type) ENTRY(name, name)
#define LOCK(name, type, try_name) ENTRY(name, name) ENTRY(try_name, try_name)

#define ENTRY(name, symbol) k_##symbol,
enum Number : std::uint32_t {
#include "calls.def"
  kNumbers
};
#undef ENTRY

#define ENTRY(name, symbol) #name,
constexpr const char* kNames[] = {
#include "calls.def"
};
#undef ENTRY

#define ENTRY(name, symbol) #symbol,
constexpr const char* kSymbols[] = {
#include "calls.def"
};
#undef ENTRY

#undef CALL
#undef NEWER
#undef CHECKED
#undef VARIADIC
#undef NEWER_VARIADIC
#undef THREAD
#undef JUMP
#undef LOCK

// ---- the real functions

std::atomic<void*> g_real[kNumbers];

[[gnu::noinline, gnu::cold]] void* find_early(Number number) noexcept {
  const int error = errno;
  void* found = find_real_early(kSymbols[number]);
  errno = error;
  return found;
}

template <class Function>
[[gnu::always_inline]] inline Function real_of(Number number) noexcept {
  void* found = g_real[number].load(std::memory_order_relaxed);
  if (found == nullptr) [[unlikely]] found = find_early(number);
  return reinterpret_cast<Function>(found);
}

// What a function returns that this C library does not have.
template <class Result>
[[gnu::cold]] Result missing(Number number) noexcept {
  errno = ENOSYS;
  const bool returns_error = kNames[number][0] == 'p' && kNames[number][1] == 't';  // pthread_
  if constexpr (std::is_integral_v<Result>) {
    return static_cast<Result>(returns_error ? ENOSYS : -1);
  } else if constexpr (std::is_pointer_v<Result>) {
    return nullptr;
  }
}

// ---- time

std::int64_t now_ns() noexcept {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

// The outermost call that this thread is in, should it be cancelled there.
struct OpenCall {
  std::int64_t start_ns;  // 0: none
  std::uint32_t number;
};
[[gnu::tls_model("initial-exec")]] thread_local constinit OpenCall t_open{0, 0};
// While the agent writes a call down, it makes calls of its own.
[[gnu::tls_model("initial-exec")]] thread_local constinit bool t_is_writing = false;
[[gnu::tls_model("initial-exec")]] thread_local constinit bool t_is_watched = false;

[[gnu::noinline]] void write_call(const OpenCall& call, std::int64_t end_ns, std::int64_t result,
                                  const void* caller) noexcept {
  const wl_os_call_function record = g_recording.record.load(std::memory_order_acquire);
  if (record == nullptr || t_is_writing) return;
  const wl_os_call told{call.start_ns, end_ns, result, caller, call.number, is_thread_known()};
  t_is_writing = true;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  record(&told);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  t_is_writing = false;
}

// A thread that is cancelled in a call does not come back from it.
pthread_key_t g_thread_end;
int (*g_set_specific)(pthread_key_t, const void*) = nullptr;  // null: ends are not watched
constexpr pthread_key_t kKeysWithoutMemory = 32;  // setting others allocates

void thread_ends(void*) {
  const OpenCall call = t_open;
  t_open = {0, 0};
  t_is_watched = false;
  if (call.start_ns == 0) return;
  const std::int64_t end_ns = now_ns();
  if (end_ns - call.start_ns >= g_recording.threshold_ns) write_call(call, end_ns, 0, nullptr);
}

[[gnu::noinline, gnu::cold]] void watch_end_of_thread() noexcept {
  t_is_watched = true;
  if (g_set_specific != nullptr) g_set_specific(g_thread_end, &t_open);
}

template <class Result>
std::int64_t plain(Result result) noexcept {
  if constexpr (std::is_pointer_v<Result>) return reinterpret_cast<std::intptr_t>(result);
  else return static_cast<std::int64_t>(result);
}

// Makes a call and measures it.
template <Number kNumber, class Call>
[[gnu::always_inline]] inline auto timed(const Call& call, const void* caller) {
  using Result = decltype(call());
  if (g_recording.record.load(std::memory_order_relaxed) == nullptr || t_is_writing) return call();
  if (!t_is_watched) [[unlikely]] watch_end_of_thread();
  const OpenCall outer = t_open;
  const OpenCall mine{now_ns(), kNumber};
  if (outer.start_ns == 0) t_open = mine;
  const auto end = [&](std::int64_t result) {
    const std::int64_t end_ns = now_ns();
    t_open = outer;
    if (end_ns - mine.start_ns >= g_recording.threshold_ns) [[unlikely]] {
      write_call(mine, end_ns, result, caller);
    }
  };
  if constexpr (std::is_void_v<Result>) {
    call();
    end(0);
  } else {
    const Result result = call();
    if constexpr (kNumber == k_fork) {
      if (result == 0) {  // the child; the call was its parent's
        t_open = outer;
        return result;
      }
    }
    end(plain(result));
    return result;
  }
}

// ---- what declarations are checked against

template <class Function>
struct WithoutNoexcept {
  using Type = Function;
};
template <class Result, class... Parameters>
struct WithoutNoexcept<Result(Parameters...) noexcept> {
  using Type = Result(Parameters...);
};
template <class Result, class... Parameters>
struct WithoutNoexcept<Result(Parameters..., ...) noexcept> {
  using Type = Result(Parameters..., ...);
};
template <class One, class Other>
constexpr bool kIsSame = std::is_same_v<typename WithoutNoexcept<One>::Type,
                                        typename WithoutNoexcept<Other>::Type>;

}  // namespace

// ---- the functions

#define DECLARE(result, symbol, parameters)                                            \
  extern "C" __attribute__((visibility("default"))) result call_##symbol parameters \
      __asm__(#symbol);                                                                \
  extern "C" result call_##symbol parameters

// errno is the call's: nothing here changes it.
#define PASS_ON(result, symbol, arguments) PASS_ON_TO(result, symbol, real arguments)
#define PASS_ON_TO(result, symbol, call)                                                     \
  const auto real = real_of<decltype(&call_##symbol)>(k_##symbol);                           \
  if (real == nullptr) [[unlikely]] return missing<result>(k_##symbol);                      \
  return timed<k_##symbol>([&]() __attribute__((always_inline)) { return call; },            \
                           __builtin_return_address(0))

#define CHECK(name) static_assert(kIsSame<decltype(call_##name), decltype(::name)>);

#define NEWER(result, name, parameters, arguments) \
  DECLARE(result, name, parameters) { PASS_ON(result, name, arguments); }
#define CALL(result, name, parameters, arguments) \
  NEWER(result, name, parameters, arguments) CHECK(name)
#define CHECKED(result, name, symbol, parameters, arguments) \
  DECLARE(result, symbol, parameters) { PASS_ON(result, symbol, arguments); }
#define WITHOUT_PARENTHESES(...) __VA_ARGS__
#define NEWER_VARIADIC(result, name, parameters, last, arguments)         \
  DECLARE(result, name, parameters) {                                     \
    va_list list;                                                         \
    va_start(list, last);                                                 \
    const unsigned long more = va_arg(list, unsigned long);               \
    va_end(list);                                                         \
    PASS_ON(result, name, (WITHOUT_PARENTHESES arguments, more));         \
  }
#define VARIADIC(result, name, parameters, last, arguments) \
  NEWER_VARIADIC(result, name, parameters, last, arguments) CHECK(name)
// Trying takes the lock where locking takes it at once, with the same result; only where it is busy does
// locking differ, by waiting or by what it says of the owner.
// Leaves the calls that it jumps out of, from a handler of a signal.
#define JUMP(name, type)                                                      \
  DECLARE(void, name, (type * place, int value)) {                            \
    t_open = {0, 0};                                                          \
    const auto real = real_of<decltype(&call_##name)>(k_##name);              \
    if (real != nullptr) real(place, value);                                  \
    std::abort();                                                             \
  }
#define THREAD(name, parameters, arguments)                                              \
  DECLARE(int, name, parameters) {                                                       \
    PASS_ON_TO(int, name, create_thread(real, WITHOUT_PARENTHESES arguments));           \
  }                                                                                      \
  CHECK(name)
#define LOCK(name, type, try_name)                                            \
  DECLARE(int, name, (type * lock)) {                                         \
    const auto attempt = real_of<decltype(&call_##name)>(k_##try_name);       \
    if (g_recording.tries_locks && attempt != nullptr) [[likely]] {           \
      const int result = attempt(lock);                                       \
      if (result != EBUSY) return result;                                     \
    }                                                                         \
    PASS_ON(int, name, (lock));                                               \
  }                                                                           \
  CHECK(name)

#include "calls.def"

void find_real_functions() noexcept {
  const int error = errno;
  for (std::uint32_t number = 0; number < kNumbers; ++number) {
    g_real[number].store(find_real(kSymbols[number]), std::memory_order_relaxed);
  }
  errno = error;
}

void begin_recording(void* (*agent)(const char* name)) noexcept {
  const auto ask = reinterpret_cast<decltype(&wl_agent_os_calls)>(agent("wl_agent_os_calls"));
  if (ask == nullptr) return;
  const wl_os_call_function record = ask(kNames, kNumbers, &g_recording.threshold_ns);
  if (record == nullptr) return;
  using CreateKey = int (*)(pthread_key_t*, void (*)(void*));
  const auto create = reinterpret_cast<CreateKey>(find_real("pthread_key_create"));
  if (create != nullptr && create(&g_thread_end, thread_ends) == 0 &&
      g_thread_end < kKeysWithoutMemory) {
    g_set_specific = reinterpret_cast<decltype(g_set_specific)>(find_real("pthread_setspecific"));
  }
  constexpr std::int64_t kUncontendedNs = 500;
  g_recording.tries_locks = g_recording.threshold_ns >= kUncontendedNs;
  g_recording.record.store(record, std::memory_order_release);
}

}  // namespace warpline::shim
