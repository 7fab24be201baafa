#include "nccl/communicators.h"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <new>

#include "library_calls/texts.h"

namespace warpline::agent::nccl {
namespace {

Communicator g_none{};
std::atomic<Communicator*> g_first{nullptr};

Communicator* free_place() noexcept {
  for (Communicator* each = g_first.load(std::memory_order_acquire); each != nullptr; each = each->next) {
    if (!each->is_used.exchange(true, std::memory_order_acquire)) return each;
  }
  auto* made = new (std::nothrow) Communicator{};
  if (made == nullptr) return nullptr;
  made->is_used.store(true, std::memory_order_relaxed);
  made->next = g_first.load(std::memory_order_relaxed);
  while (!g_first.compare_exchange_weak(made->next, made, std::memory_order_acq_rel)) continue;
  return made;
}

}  // namespace

const LibraryText* id_text(std::uint64_t hash) noexcept {
  char text[24];
  const int length = std::snprintf(text, sizeof text, "0x%016llx", static_cast<unsigned long long>(hash));
  return text_of({text, static_cast<std::size_t>(length)});
}

const LibraryText* name_text(const char* name) noexcept {
  return name == nullptr || *name == '\0' ? nullptr : text_of(name);
}

Communicator& no_communicator() noexcept { return g_none; }

Communicator& enter_communicator(std::uint64_t hash, const char* name, int ranks, int nodes) noexcept {
  Communicator* place = free_place();
  if (place == nullptr) return g_none;
  place->id.store(id_text(hash), std::memory_order_relaxed);
  place->name.store(name_text(name), std::memory_order_relaxed);
  place->ranks.store(static_cast<std::uint32_t>(std::max(ranks, 0)), std::memory_order_relaxed);
  place->nodes.store(static_cast<std::uint32_t>(std::max(nodes, 0)), std::memory_order_relaxed);
  return *place;
}

void leave_communicator(Communicator& communicator) noexcept {
  if (&communicator != &g_none) communicator.is_used.store(false, std::memory_order_release);
}

}  // namespace warpline::agent::nccl
