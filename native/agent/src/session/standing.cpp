#include "session/standing.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>

#include "cupti/start_up.h"
#include "cupti/tracing.h"
#include "machine/cuda_devices.h"
#include "nvtx/binding.h"
#include "session/clock.h"
#include "session/collector.h"
#include "session/own_thread.h"
#include "session/process.h"
#include "session/thread_log.h"
#include "warpline_agent.h"

namespace warpline::agent {
namespace {

constexpr std::size_t kPagePathBytes = raw::kStandingFolderBytes + 16;
// While a session waits for the program to initialize CUDA or to load libraries, how often that is looked at.
constexpr long kLookNs = 100'000'000;

std::atomic<std::uint32_t> g_cuda_of{0};   // the number for which CUDA is traced
std::atomic<bool> g_is_late{false};  // the program may have looked for a tool before this library was there
std::atomic<bool> g_is_awaited{false};  // whoever attaches waits until CUDA is settled

bool page_path_of(const char* folder, char (&path)[kPagePathBytes]) noexcept {
  const int length = std::snprintf(path, sizeof path, "%s/standing", folder);
  return length > 0 && static_cast<std::size_t>(length) < sizeof path;
}

std::uint32_t number_of(const raw::StandingPage& page) noexcept {
  return __atomic_load_n(&page.number, __ATOMIC_ACQUIRE);
}

bool announces(std::uint32_t number) noexcept {
  return number % 2 == 1 && number != raw::kStandingOver;
}

// The folder that a number announces; empty if the page has gone on meanwhile.
std::string folder_of(const raw::StandingPage& page, std::uint32_t number) {
  const char* text = page.folders[number / 2 % 2];
  std::string folder(text, strnlen(text, raw::kStandingFolderBytes));
  return number_of(page) == number ? folder : std::string();
}

// Held by the one thread that follows. In the page that a fork sees as zeros, for the thread is not there.
class Following {
 public:
  Following() noexcept : is_mine_(!g_process->is_following.exchange(true)) {}
  ~Following() {
    if (is_mine_) g_process->is_following.store(false);
  }
  Following(const Following&) = delete;
  Following& operator=(const Following&) = delete;
  explicit operator bool() const noexcept { return is_mine_; }

 private:
  bool is_mine_;
};

void leave() noexcept {
  if (g_session.load(std::memory_order_acquire) == nullptr) return;
  end_collectors();  // what CUPTI still has belongs to this session
  if (detach() == 0) close_logs();
  // Only a thread of our own may wait for the loader.
  if (g_is_late.load() && g_process->is_followed_by_thread.load()) nvtx::release_loaded();
}

// Joins and leaves until the process is where the page says. With Following held.
void follow() noexcept {
  raw::StandingPage* page = g_standing.load(std::memory_order_acquire);
  if (page == nullptr) return;
  for (std::uint32_t number; (number = number_of(*page)) != g_followed.load();) {
    if (g_records_itself.load()) return;
    leave();
    g_followed.store(number);
    if (!announces(number)) continue;
    try {
      const std::string folder = folder_of(*page, number);
      if (!folder.empty() && attach(folder.c_str()) == 0) tell_nvtx_bound();
    } catch (...) {  // out of memory: not in this one
    }
  }
}

void wait_for_change(raw::StandingPage& page, std::uint32_t number, bool is_to_look) noexcept {
  const timespec a_while{0, kLookNs};
  syscall(SYS_futex, &page.number, FUTEX_WAIT, number, is_to_look ? &a_while : nullptr, nullptr, 0);
}

// Tells whoever attaches once CUDA is settled, or not in use. Returns whether it is still to be waited for.
bool await_cuda() noexcept {
  if (!g_is_awaited.load()) return false;
  if (is_cuda_initialised() && !is_cuda_settled(is_cuda_prepared())) return true;
  g_is_awaited.store(false);
  __atomic_fetch_sub(&g_standing.load()->unsettled, 1, __ATOMIC_ACQ_REL);
  return false;
}

// Returns whether CUDA is still to be waited for.
bool trace_cuda(const Session& session) noexcept {
  if (!session.config.cuda.is_on) return false;
  const std::uint32_t number = g_followed.load();
  if (g_cuda_of.load() == number) return false;
  if (!is_cuda_settled(is_cuda_prepared())) return true;
  g_cuda_of.store(number);
  add(session.control->cuda_bound);
  begin_cuda_tracing(true);
  return false;
}

// What the agent's own thread does next: joins, leaves, binds NVTX, begins to trace CUDA. Returns whether there
// is something to look for before the page changes.
bool follow_in_thread() noexcept {
  const Following mine;
  if (!mine) return true;  // a call of NVTX that came first is at it
  const bool is_awaited = await_cuda();
  follow();
  if (g_records_itself.load()) return true;  // until that ends
  const Session* session = g_session.load(std::memory_order_acquire);
  if (session == nullptr) return is_awaited;
  const bool is_to_bind = g_is_late.load() && (session->config.nvtx || ranges_watched() != 0);
  if (is_to_bind) nvtx::bind_loaded();
  return trace_cuda(*session) || is_to_bind;
}

void* follow_for_ever(void*) {
  pthread_setname_np(pthread_self(), "warpline-stand");
  while (true) {
    raw::StandingPage& page = *g_standing.load(std::memory_order_acquire);
    const std::uint32_t seen = number_of(page);
    const bool is_to_look = follow_in_thread();
    if (g_followed.load() == raw::kStandingOver) break;
    wait_for_change(page, seen, is_to_look);
  }
  g_process->is_followed_by_thread.store(false);
  return nullptr;
}

// The thread that stood by before has been told to end.
void wait_for_last_thread() noexcept {
  constexpr int kMostLooks = 200;
  for (int i = 0; i < kMostLooks && g_process != nullptr && g_process->is_followed_by_thread.load(); ++i) {
    const timespec a_while{0, 1'000'000};
    nanosleep(&a_while, nullptr);
  }
}

}  // namespace

std::atomic<raw::StandingPage*> g_standing{nullptr};
std::atomic<std::uint32_t> g_followed{0};

bool is_standing_folder(const char* folder) noexcept {
  char path[kPagePathBytes];
  return page_path_of(folder, path) && access(path, F_OK) == 0;
}

int stand_by(const char* folder) noexcept {
  if (!prepare_process()) return ENOMEM;
  if (g_session.load(std::memory_order_acquire) != nullptr) return EBUSY;
  char path[kPagePathBytes];
  if (!page_path_of(folder, path)) return ENAMETOOLONG;
  const int file = open(path, O_RDWR | O_CLOEXEC);
  if (file < 0) return errno;
  struct stat facts {};
  const bool is_whole = fstat(file, &facts) == 0 &&
                        facts.st_size == static_cast<off_t>(raw::kStandingBytes);
  void* page = is_whole ? mmap(nullptr, raw::kStandingBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0)
                        : MAP_FAILED;
  close(file);
  if (page == MAP_FAILED) return EINVAL;
  auto* standing = static_cast<raw::StandingPage*>(page);
  if (standing->magic != raw::kStandingMagic || standing->version != raw::kVersion) {
    munmap(page, raw::kStandingBytes);
    return EPROTO;
  }
  g_followed.store(0);
  g_cuda_of.store(0);
  g_is_late.store(false);
  g_standing.store(standing, std::memory_order_release);
  return 0;
}

void stand_by_environment() noexcept {
  if (is_standing()) return;
  const char* folder = std::getenv("WARPLINE_SESSION");
  if (folder != nullptr && is_standing_folder(folder)) stand_by(folder);
}

std::string launch_folder() {
  const char* folder = std::getenv("WARPLINE_SESSION");
  return folder != nullptr && is_standing_folder(folder) ? folder : std::string();
}

bool is_announced() noexcept {
  const raw::StandingPage* page = g_standing.load(std::memory_order_acquire);
  return page != nullptr && announces(number_of(*page));
}

bool is_in_announced_session() noexcept {
  return is_standing() && !g_records_itself.load() && g_session.load(std::memory_order_acquire) != nullptr;
}

void follow_announcement() noexcept {
  if (holds_process_lock() || g_process->is_followed_by_thread.load()) return;
  if (const Following mine; mine) follow();
}

void follow_by_thread(bool is_cuda_traced) noexcept {
  if (is_cuda_traced) g_cuda_of.store(g_followed.load());
  if (g_process->is_followed_by_thread.exchange(true)) return;
  pthread_t thread;
  if (start_own_thread(thread, follow_for_ever, nullptr)) {
    pthread_detach(thread);
  } else {
    g_process->is_followed_by_thread.store(false);
  }
}

}  // namespace warpline::agent

extern "C" __attribute__((visibility("default"))) int32_t wl_agent_stand(const char* folder) {
  using namespace warpline::agent;
  wait_for_last_thread();
  follow_if_announced();  // a fork of a process that was attached to leaves that session
  const int error = stand_by(folder);
  if (error != 0) return error;
  g_is_late.store(true);
  if (is_cuda_loaded()) {
    __atomic_fetch_add(&g_standing.load()->unsettled, 1, __ATOMIC_ACQ_REL);
    g_is_awaited.store(true);
  }
  follow_by_thread(false);
  follow_announcement();  // if there is no thread for it
  return 0;
}
