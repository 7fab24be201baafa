// The program's threads: each is made known to the agent before its function runs.
#pragma once

#include <pthread.h>

namespace warpline::shim {

// Makes the calling thread and all that it starts known to the agent. `agent` finds a function of it.
void watch_threads(void* (*agent)(const char* name)) noexcept;

// Whether the calling thread is known, so that the agent needs no memory for it.
bool is_thread_known() noexcept;

// Starts a thread as pthread_create does, which `real` is.
using CreateThread = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
int create_thread(CreateThread real, pthread_t* thread, const pthread_attr_t* attributes,
                  void* (*run)(void*), void* argument);

}  // namespace warpline::shim
