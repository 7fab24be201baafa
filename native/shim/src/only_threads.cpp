// What libwarpline_preload puts in the place of the C library's functions: pthread_create alone.
#include <pthread.h>

#include <atomic>
#include <cerrno>

#include "real.h"
#include "threads.h"

extern "C" __attribute__((visibility("default"))) int call_pthread_create(
    pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*),
    void* argument) __asm__("pthread_create");

extern "C" int call_pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                                   void* (*run)(void*), void* argument) {
  static std::atomic<void*> real{nullptr};
  void* found = real.load(std::memory_order_relaxed);
  if (found == nullptr) {
    found = warpline::shim::find_real_early("pthread_create");
    if (found == nullptr) return EAGAIN;
    real.store(found, std::memory_order_relaxed);
  }
  return warpline::shim::create_thread(reinterpret_cast<warpline::shim::CreateThread>(found), thread,
                                       attributes, run, argument);
}
