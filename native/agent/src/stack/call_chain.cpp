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
#include "stack/walk.h"
#include "stack/written_chains.h"
#include "warpline_cuda.h"

namespace warpline::agent {
namespace {

thread_local constinit WrittenChains t_written{0, nullptr, {}};

// ---- modules

constexpr std::size_t kMaxModules = 4096;
constexpr std::size_t kMaxPathBytes = 4096;

// The modules that this process has written to its logs.
struct WrittenModules {
  std::uint64_t generation;
  std::uint64_t loads;  // of the loader, when they were written
  std::size_t count;
  std::uint64_t biases[kMaxModules];
};
WrittenModules g_modules;
std::atomic<std::uint64_t> g_seen_loads{0};
std::atomic<std::uint64_t> g_seen_generation{0};
std::atomic<std::uint64_t> g_writing_generation{0};  // while a thread writes modules

// One thread at a time writes modules; the others need not wait for it. A fork in the midst of it
// leaves its child the number of the parent's generation, which keeps nobody out.
class ModuleTurn {
 public:
  explicit ModuleTurn(std::uint64_t generation) noexcept {
    std::uint64_t now = g_writing_generation.load(std::memory_order_relaxed);
    is_taken_ = now != generation && g_writing_generation.compare_exchange_strong(
                                         now, generation, std::memory_order_acquire);
  }
  ~ModuleTurn() {
    if (is_taken_) g_writing_generation.store(0, std::memory_order_release);
  }
  ModuleTurn(const ModuleTurn&) = delete;
  ModuleTurn& operator=(const ModuleTurn&) = delete;

  explicit operator bool() const noexcept { return is_taken_; }

 private:
  bool is_taken_;
};

struct Writing {
  ThreadLog& log;
  std::uint64_t loads;
  std::uint64_t unloads;
  bool has_room;
};

void read_build_id(const dl_phdr_info& module, const ElfW(Phdr)& segment,
                   raw::ModuleText& text) noexcept {
  const std::uint64_t begin = module.dlpi_addr + segment.p_vaddr;
  const std::uint64_t end = begin + segment.p_memsz;
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
      const std::size_t bytes = std::min<std::size_t>(note.n_descsz, sizeof text.build_id);
      std::memcpy(text.build_id, reinterpret_cast<const void*>(data), bytes);
      return;
    }
    at = next;
  }
}

void read_segments(const dl_phdr_info& module, raw::ModuleText& text) noexcept {
  text.first_address = ~std::uint64_t{0};
  for (int i = 0; i < module.dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = module.dlpi_phdr[i];
    const std::uint64_t begin = module.dlpi_addr + segment.p_vaddr;
    if (segment.p_type == PT_NOTE) read_build_id(module, segment, text);
    if (segment.p_type != PT_LOAD) continue;
    text.first_address = std::min(text.first_address, begin);
    text.end_address = std::max(text.end_address, begin + segment.p_memsz);
  }
}

// The program itself has no name in the loader's list.
std::size_t read_path(const dl_phdr_info& module, char* path) noexcept {
  if (module.dlpi_name != nullptr && module.dlpi_name[0] != '\0') {
    const std::size_t bytes = ::strnlen(module.dlpi_name, kMaxPathBytes);
    std::memcpy(path, module.dlpi_name, bytes);
    return bytes;
  }
  const ssize_t bytes = readlink("/proc/self/exe", path, kMaxPathBytes);
  return bytes < 0 ? 0 : static_cast<std::size_t>(bytes);
}

bool write_module(ThreadLog& log, const dl_phdr_info& module) noexcept {
  char bytes[sizeof(raw::ModuleText) + kMaxPathBytes];
  raw::ModuleText text{};
  read_segments(module, text);
  std::memcpy(bytes, &text, sizeof text);
  const std::size_t path = read_path(module, bytes + sizeof text);
  return log.define(raw::Kind::kModule, 0, module.dlpi_addr,
                    {bytes, sizeof text + path});
}

int write_new_module(dl_phdr_info* module, std::size_t, void* data) noexcept {
  Writing& writing = *static_cast<Writing*>(data);
  writing.loads = module->dlpi_adds;
  const std::uint64_t* begin = g_modules.biases;
  const std::uint64_t* end = begin + g_modules.count;
  const bool is_known = std::find(begin, end, std::uint64_t{module->dlpi_addr}) != end;
  if (is_known || g_modules.count == kMaxModules) return 0;
  writing.has_room = write_module(writing.log, *module);
  if (!writing.has_room) return 1;
  g_modules.biases[g_modules.count++] = module->dlpi_addr;
  return 0;
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
  const ModuleTurn turn(generation);
  if (!turn) return;
  if (g_modules.generation != generation) g_modules.count = 0;
  g_modules.generation = generation;
  Writing writing{log, 0, 0, true};
  dl_iterate_phdr(write_new_module, &writing);
  if (!writing.has_room) return;
  g_seen_loads.store(writing.loads, std::memory_order_release);
  g_seen_generation.store(generation, std::memory_order_release);
}

std::uint64_t write_chain(ThreadLog& log, NativeStack& stack) noexcept {
  walk_stack(stack);
  return write_frames(log, stack.frames, stack.count);
}

std::uint64_t write_frames(ThreadLog& log, const std::uint64_t* frames, std::size_t count) noexcept {
  if (count == 0) return 0;
  const std::uint64_t number = chain_number(frames, count);
  std::uint64_t& known = t_written.place_of(number, log);
  if (known == number) [[likely]] return number;
  write_modules(log);
  if (!write_words(log, raw::Kind::kChain, number, frames, count)) return 0;
  known = number;
  return number;
}

}  // namespace warpline::agent
