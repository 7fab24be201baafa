// Loads the agent into a program that is started with this library in LD_PRELOAD.
//
// It does nothing where the program is not part of a session, has another C library, or the agent
// cannot be loaded: the program then runs as it does without it.
#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "threads.h"
#if WARPLINE_SHIM
#include "recording.h"
#endif

extern "C" const char* gnu_get_libc_version(void) __attribute__((weak));

namespace warpline::shim {
namespace {

constexpr char kAgent[] = "libwarpline_agent.so";
constexpr std::size_t kPathBytes = 4096;

void* g_agent = nullptr;

void* function_of_agent(const char* name) { return dlsym(g_agent, name); }

// The agent lies beside this library.
bool find_agent(char (&path)[kPathBytes]) noexcept {
  Dl_info own;
  if (dladdr(reinterpret_cast<void*>(&function_of_agent), &own) == 0 || own.dli_fname == nullptr) {
    return false;
  }
  const char* end = std::strrchr(own.dli_fname, '/');
  if (end == nullptr) return false;
  const auto folder = static_cast<std::size_t>(end + 1 - own.dli_fname);
  if (folder + sizeof kAgent > sizeof path) return false;
  std::memcpy(path, own.dli_fname, folder);
  std::memcpy(path + folder, kAgent, sizeof kAgent);
  return true;
}

__attribute__((constructor)) void load() noexcept {
#if WARPLINE_SHIM
  find_real_functions();
#endif
  const char* session = std::getenv("WARPLINE_SESSION");
  if (session == nullptr || gnu_get_libc_version == nullptr) return;
  char path[kPathBytes];
  if (!find_agent(path)) return;
  g_agent = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (g_agent == nullptr) {
    dlerror();  // the program's next look at it finds nothing of ours
    return;
  }
  using Attach = std::int32_t (*)(const char*);
  const auto attach = reinterpret_cast<Attach>(dlsym(g_agent, "wl_agent_attach"));
  if (attach == nullptr || attach(session) != 0) return;
  watch_threads(function_of_agent);
#if WARPLINE_SHIM
  begin_recording(function_of_agent);
#endif
}

}  // namespace
}  // namespace warpline::shim
