// Ranges that Python code in the program records: the functions of warpline_agent.h for it.
#include <dlfcn.h>

#include <cstdint>
#include <cstring>
#include <new>
#include <string_view>

#include "nvtx/events.h"
#include "nvtx/names.h"
#include "session/process.h"
#include "warpline_agent.h"

#define WL_EXPORT extern "C" __attribute__((visibility("default")))

namespace warpline::agent {
namespace {

// What a handle points to; kept for good, as a fork goes on using it.
struct Name {
  nvtx::Domain* domain;
  const nvtx::RegisteredText* text;
};

// CPython's types as its stable ABI has them, and what it exports: no header of Python's is needed, and
// the agent is loaded into programs without Python, too.
struct Object;
using Method = Object* (*)(Object* self, Object* const* arguments, std::intptr_t count);
constexpr int kFastCall = 0x80;  // METH_FASTCALL, in all versions from 3.7 on

struct MethodDefinition {  // PyMethodDef
  const char* name;
  Method function;
  int flags;
  const char* doc;
};

struct Python {
  long long (*number_of)(Object*);
  Object* (*error_occurred)();
  void (*keep)(Object*);
  Object* none;
};

Python g_python{};

template <class Function>
bool find(Function& function, const char* name) noexcept {
  void* found = dlsym(RTLD_DEFAULT, name);
  std::memcpy(&function, &found, sizeof function);
  return found != nullptr;
}

bool find_python() noexcept {
  return find(g_python.number_of, "PyLong_AsLongLong") &&
         find(g_python.error_occurred, "PyErr_Occurred") && find(g_python.keep, "Py_IncRef") &&
         find(g_python.none, "_Py_NoneStruct");
}

// A function of Python for one that takes a handle and a number.
template <void (*kCall)(void*, std::int64_t)>
Object* call_from_python(Object*, Object* const* arguments, std::intptr_t count) {
  long long given[2] = {0, -1};
  for (std::intptr_t i = 0; i < count && i < 2; ++i) {
    given[i] = g_python.number_of(arguments[i]);
    if (given[i] == -1 && g_python.error_occurred() != nullptr) return nullptr;
  }
  kCall(reinterpret_cast<void*>(static_cast<std::uintptr_t>(given[0])), given[1]);
  g_python.keep(g_python.none);
  return g_python.none;
}

const MethodDefinition kMethods[] = {
    {"push", call_from_python<wl_python_push>, kFastCall, nullptr},
    {"pop", call_from_python<wl_python_pop>, kFastCall, nullptr},
    {},
};

}  // namespace
}  // namespace warpline::agent

using namespace warpline::agent;

WL_EXPORT void* wl_python_name(const char* domain, const char* text) {
  if (domain == nullptr || text == nullptr || !ensure_attached()) return nullptr;
  nvtx::Domain* place = *domain == '\0' ? nullptr : nvtx::create_domain(nvtx::bounded(domain));
  const nvtx::RegisteredText* kept = nvtx::register_text(nvtx::bounded(text));
  if (kept == nullptr) return nullptr;
  return new (std::nothrow) Name{&nvtx::domain_of(place), kept};
}

WL_EXPORT void wl_python_push(void* name, int64_t sequence) {
  if (name == nullptr) return;
  const Name& given = *static_cast<const Name*>(name);
  nvtx::push_range(*given.domain, nvtx::Given::registered(given.text, sequence));
}

WL_EXPORT void wl_python_pop(void* name, int64_t sequence) {
  if (name == nullptr) return;
  const Name& given = *static_cast<const Name*>(name);
  nvtx::Given end = nvtx::Given::payloads(nullptr, 0);
  end.sequence = sequence;
  nvtx::pop_range(*given.domain, end);
}

WL_EXPORT int wl_python_is_recording(void) {
  const Session* session = g_session.load(std::memory_order_acquire);
  if (session == nullptr) return 0;
  if (recording_state(*session).is_on) return 1;
  // The usual names of steps are none of these ranges'.
  const std::uint32_t others = session->config.sample.range.empty() ? ~kWatchSteps : ~0u;
  return (ranges_watched() & others) != 0;
}

WL_EXPORT const void* wl_python_methods(void) { return find_python() ? kMethods : nullptr; }
