// Standing by: this process is in no session until the page of its launcher announces one.
//
// While none is, nothing is recorded and nothing is looked at, but for one word at an NVTX call. A process
// with CUDA, or one that was attached to, has a thread that waits for the word to change, as no call of the
// program would show it.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "warpline_raw.h"

namespace warpline::agent {

// The page, never unmapped: any thread may be reading it; and its number that was followed last.
extern std::atomic<raw::StandingPage*> g_standing;
extern std::atomic<std::uint32_t> g_followed;

// Whether a folder is one to stand by for, and not a session.
bool is_standing_folder(const char* folder) noexcept;

// Stands by for what the page in a folder announces, in place of what this process stood by for before.
// Returns 0 or an errno value; EBUSY while a session is attached.
int stand_by(const char* folder) noexcept;

// The same for the folder that the environment names, unless this is done or there is none.
void stand_by_environment() noexcept;

// Returns the folder of the launch that this process belongs to; empty for none.
std::string launch_folder();

// Whether the page says that a session records now; and whether this process is in one that it announced, which
// ends when the page says so.
bool is_announced() noexcept;
bool is_in_announced_session() noexcept;

inline bool is_standing() noexcept { return g_standing.load(std::memory_order_relaxed) != nullptr; }

// Joins the session that is announced, or leaves one that is over. Does nothing where a thread of the agent's
// own does it, and while another thread does.
void follow_announcement() noexcept;

// The same if there is something new.
inline void follow_if_announced() noexcept {
  const raw::StandingPage* page = g_standing.load(std::memory_order_acquire);
  if (page == nullptr) [[likely]] return;
  const std::uint32_t number = __atomic_load_n(&page->number, __ATOMIC_ACQUIRE);
  if (number != g_followed.load(std::memory_order_relaxed)) [[unlikely]] follow_announcement();
}

// From now on a thread of the agent's own follows, and traces CUDA, unless that is done for the session that
// is attached now.
void follow_by_thread(bool is_cuda_traced) noexcept;

}  // namespace warpline::agent
