// Ranges that Python code in the program records: the functions of warpline_agent.h for it.
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
