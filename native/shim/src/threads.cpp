#include "threads.h"

#include <atomic>
#include <cstdlib>

#include "warpline_agent.h"

namespace warpline::shim {
namespace {

std::atomic<decltype(&wl_agent_thread_begin)> g_begin{nullptr};
[[gnu::tls_model("initial-exec")]] thread_local constinit bool t_is_known = false;

struct Start {
  void* (*run)(void*);
  void* argument;
};

void make_known() noexcept {
  const auto begin = g_begin.load(std::memory_order_acquire);
  if (begin == nullptr) return;
  begin();
  t_is_known = true;
}

// Ends with a jump to the thread's function, whose stack is as without us.
void* begin_thread(void* data) {
  const Start start = *static_cast<Start*>(data);
  std::free(data);
  make_known();
  return start.run(start.argument);
}

}  // namespace

void watch_threads(void* (*agent)(const char* name)) noexcept {
  const auto begin =
      reinterpret_cast<decltype(&wl_agent_thread_begin)>(agent("wl_agent_thread_begin"));
  g_begin.store(begin, std::memory_order_release);
  make_known();
}

bool is_thread_known() noexcept { return t_is_known; }

int create_thread(CreateThread real, pthread_t* thread, const pthread_attr_t* attributes,
                  void* (*run)(void*), void* argument) {
  auto* start = g_begin.load(std::memory_order_relaxed) == nullptr
                    ? nullptr
                    : static_cast<Start*>(std::malloc(sizeof(Start)));
  if (start == nullptr) return real(thread, attributes, run, argument);
  *start = {run, argument};
  const int result = real(thread, attributes, begin_thread, start);
  if (result != 0) std::free(start);
  return result;
}

}  // namespace warpline::shim
