#include "session/memory_map.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <string>

namespace warpline::agent {
namespace {

constexpr std::size_t kCountedBytes =
    offsetof(dl_phdr_info, dlpi_subs) + sizeof(dl_phdr_info::dlpi_subs);

int read_load_counts(dl_phdr_info* module, std::size_t bytes, void* data) {
  auto& counts = *static_cast<LoadCounts*>(data);
  if (bytes >= kCountedBytes) counts = {module->dlpi_adds, module->dlpi_subs};
  return 1;
}

}  // namespace

bool is_in(const std::vector<Span>& spans, std::uintptr_t address) noexcept {
  return std::any_of(spans.begin(), spans.end(),
                     [address](const Span& span) { return span.has(address); });
}

std::vector<Span> writable_memory() {
  std::vector<Span> writable;
  const int file = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  if (file < 0) return writable;
  std::string text;
  char part[1 << 14];
  ssize_t got = 0;
  while ((got = read(file, part, sizeof part)) > 0) text.append(part, static_cast<std::size_t>(got));
  close(file);
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at < end) {
    Span span{};
    const auto first = std::from_chars(at, end, span.first, 16);
    const auto last = std::from_chars(std::min(first.ptr + 1, end), end, span.end, 16);
    if (last.ptr + 2 < end && last.ptr[2] == 'w') writable.push_back(span);
    at = std::find(last.ptr, end, '\n') + 1;
  }
  return writable;
}

LoadCounts load_counts() noexcept {
  LoadCounts counts;
  dl_iterate_phdr(read_load_counts, &counts);
  return counts;
}

bool is_agent(const dl_phdr_info& module) noexcept {
  static const char here = 0;
  const auto address = reinterpret_cast<std::uintptr_t>(&here);
  for (std::size_t i = 0; i < module.dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = module.dlpi_phdr[i];
    const std::uintptr_t first = module.dlpi_addr + part.p_vaddr;
    if (part.p_type == PT_LOAD && address >= first && address < first + part.p_memsz) return true;
  }
  return false;
}

}  // namespace warpline::agent
