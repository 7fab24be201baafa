#include "session/collector.h"

#include "session/process.h"

namespace warpline::agent {
namespace {

constinit Collector* g_first = nullptr;  // filled while the library is loaded

}  // namespace

Collector::Collector(std::string_view name, void (*begin)() noexcept,
                     void (*end)() noexcept) noexcept
    : name_(name), begin_(begin), end_(end), next_(g_first) {
  g_first = this;
}

void begin_collectors(const Session& session) noexcept {
  for (const Collector* each = g_first; each != nullptr; each = each->next_) {
    if (session.config.collects(each->name_) && each->begin_ != nullptr) each->begin_();
  }
}

void end_collectors() noexcept {
  for (const Collector* each = g_first; each != nullptr; each = each->next_) {
    if (each->end_ != nullptr) each->end_();
  }
}

}  // namespace warpline::agent
