#include "stack/call_chain.h"

#include <elf.h>
#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <string_view>

#include "session/process.h"
#include "session/thread_log.h"
#include "stack/loaded_modules.h"
#include "stack/walk.h"
#include "stack/written_chains.h"
#include "warpline_cuda.h"

namespace warpline::agent {
namespace {

thread_local constinit WrittenChains t_written{0, nullptr, {}};

// ---- modules

constexpr std::size_t kMaxModules = 4096;
constexpr std::size_t kMaxPathBytes = 4096;

// The modules that this process has written to its logs: biases, mixed with the generation that has. The thread
// that enters one writes it.
std::atomic<std::uint64_t> g_written_modules[2 * kMaxModules];
std::atomic<std::uint64_t> g_seen_loads{0};
std::atomic<std::uint64_t> g_seen_generation{0};

// Returns the place of a module that no log has yet, now entered; null if it is written, or if there are too many.
std::atomic<std::uint64_t>* enter_module(std::uint64_t bias) noexcept {
  const std::uint64_t generation = g_process->generation.load(std::memory_order_relaxed);
  const std::uint64_t mark = ((bias ^ generation) * 0x9e3779b97f4a7c15u) | 1;
  for (std::size_t step = 0; step < kMaxModules; ++step) {
    auto& place = g_written_modules[(mark + step) % (2 * kMaxModules)];
    std::uint64_t found = place.load(std::memory_order_acquire);
    if (found == 0 && place.compare_exchange_strong(found, mark, std::memory_order_acq_rel)) {
      return &place;
    }
    if (found == mark) return nullptr;
  }
  return nullptr;
}

void read_build_id(std::uint64_t begin, std::uint64_t bytes, raw::ModuleText& text) noexcept {
  const std::uint64_t end = begin + bytes;
  std::uint64_t at = begin;
  while (end - at >= sizeof(ElfW(Nhdr))) {
    ElfW(Nhdr) note;
    std::memcpy(&note, reinterpret_cast<const void*>(at), sizeof note);
    const std::uint64_t name = at + sizeof note;
    const std::uint64_t data = name + ((std::uint64_t{note.n_namesz} + 3) & ~std::uint64_t{3});
    const std::uint64_t next = data + ((std::uint64_t{note.n_descsz} + 3) & ~std::uint64_t{3});
    if (next > end || next <= at) return;
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
        std::memcmp(reinterpret_cast<const void*>(name), "GNU", 4) == 0) {
      const std::size_t id_bytes = std::min<std::size_t>(note.n_descsz, sizeof text.build_id);
      std::memcpy(text.build_id, reinterpret_cast<const void*>(data), id_bytes);
      return;
    }
    at = next;
  }
}

void read_segments(const stack::ElfImage& image, raw::ModuleText& text) noexcept {
  text.first_address = ~std::uint64_t{0};
  for (std::size_t i = 0; i < image.segment_count; ++i) {
    const ElfW(Phdr)& segment = image.segments[i];
    const std::uint64_t begin = image.bias + segment.p_vaddr;
    if (segment.p_type == PT_NOTE) read_build_id(begin, segment.p_memsz, text);
    if (segment.p_type != PT_LOAD) continue;
    text.first_address = std::min(text.first_address, begin);
    text.end_address = std::max(text.end_address, begin + segment.p_memsz);
  }
}

// The program itself has no name in the loader's list.
std::size_t read_path(const char* name, char* path) noexcept {
  if (name != nullptr && name[0] != '\0') {
    const std::size_t bytes = ::strnlen(name, kMaxPathBytes);
    std::memcpy(path, name, bytes);
    return bytes;
  }
  const ssize_t bytes = readlink("/proc/self/exe", path, kMaxPathBytes);
  return bytes < 0 ? 0 : static_cast<std::size_t>(bytes);
}

// Writes a module unless a log has it. False: there is no space.
[[gnu::noinline]] bool write_module(ThreadLog& log, const stack::ElfImage& image,
                                    const char* name) noexcept {
  auto* place = enter_module(image.bias);
  if (place == nullptr) return true;
  char bytes[sizeof(raw::ModuleText) + kMaxPathBytes];
  raw::ModuleText text{};
  read_segments(image, text);
  std::memcpy(bytes, &text, sizeof text);
  const std::size_t path = read_path(name, bytes + sizeof text);
  if (log.define(raw::Kind::kModule, 0, image.bias, {bytes, sizeof text + path})) return true;
  place->store(0, std::memory_order_release);
  return false;
}

// Writes the modules of return addresses.
bool write_modules_of(ThreadLog& log, const std::uint64_t* frames, std::size_t count) noexcept {
  LoadedModule module;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t call = frames[i] - 1;
    if (i != 0 && module.begin <= call && call < module.end) continue;
    if (!find_module(call, module)) continue;
    if (!write_module(log, module.image, module.path)) return false;
  }
  return true;
}

struct Writing {
  ThreadLog& log;
  std::uint64_t loads;
  bool has_room;
};

int write_each(dl_phdr_info* module, std::size_t, void* data) noexcept {
  Writing& writing = *static_cast<Writing*>(data);
  writing.loads = module->dlpi_adds;
  const stack::ElfImage image{module->dlpi_phdr, module->dlpi_phnum, module->dlpi_addr, false};
  writing.has_room = write_module(writing.log, image, module->dlpi_name);
  return writing.has_room ? 0 : 1;
}

int read_loads(dl_phdr_info* module, std::size_t, void* data) noexcept {
  *static_cast<std::uint64_t*>(data) = module->dlpi_adds;
  return 1;
}

}  // namespace

void write_modules(ThreadLog& log) noexcept {
  const std::uint64_t generation = g_process->generation.load(std::memory_order_relaxed);
  std::uint64_t loads = 0;
  dl_iterate_phdr(read_loads, &loads);
  if (g_seen_loads.load(std::memory_order_acquire) == loads &&
      g_seen_generation.load(std::memory_order_acquire) == generation) {
    return;
  }
  Writing writing{log, 0, true};
  dl_iterate_phdr(write_each, &writing);
  if (!writing.has_room) return;
  g_seen_loads.store(writing.loads, std::memory_order_release);
  g_seen_generation.store(generation, std::memory_order_release);
}

std::uint64_t write_chain(ThreadLog& log, NativeStack& stack) noexcept {
  walk_stack(stack);
  return write_frames(log, stack.frames, stack.count, StackOf::kCaller);
}

std::uint64_t write_frames(ThreadLog& log, const std::uint64_t* frames, std::size_t count,
                           StackOf whose) noexcept {
  if (count == 0) return 0;
  const std::uint64_t number = chain_number(frames, count);
  std::uint64_t& known = t_written.place_of(number, log);
  if (known == number) [[likely]] return number;
  if (whose == StackOf::kCaller && finds_modules()) {
    if (!write_modules_of(log, frames, count)) return 0;
  } else {
    write_modules(log);
  }
  if (!write_words(log, raw::Kind::kChain, number, frames, count)) return 0;
  known = number;
  return number;
}

}  // namespace warpline::agent
