#include "library_calls/modules.h"

#include <elf.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <set>
#include <vector>

#include "session/memory_map.h"

namespace warpline::agent {
namespace {

#if defined(__x86_64__)
constexpr std::uint32_t kJumpSlot = R_X86_64_JUMP_SLOT;
constexpr std::uint32_t kAddress = R_X86_64_GLOB_DAT;
constexpr std::uint32_t kPointer = R_X86_64_64;
#else
constexpr std::uint32_t kJumpSlot = R_AARCH64_JUMP_SLOT;
constexpr std::uint32_t kAddress = R_AARCH64_GLOB_DAT;
constexpr std::uint32_t kPointer = R_AARCH64_ABS64;
#endif

// What was loaded when references were looked at last.
struct Loaded {
  LoadCounts counts;
  bool is_complete = false;  // each of them had been filled in by the loader
  std::set<ModuleKey> done;
};
Loaded& g_loaded = *new Loaded;  // never freed: calls come until the very end of the process

// A walk over the modules, with the loader's lock held.
struct Walk {
  const Replacing& replacing;
  std::vector<Span> code;      // of all modules, once it was needed
  std::vector<Span> writable;  // pages of the process, once they were needed
  bool is_complete = true;
  std::size_t failed = 0;
};

void add_code(const dl_phdr_info& module, std::vector<Span>& code) {
  for (std::size_t i = 0; i < module.dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = module.dlpi_phdr[i];
    if (part.p_type != PT_LOAD || (part.p_flags & PF_X) == 0) continue;
    const std::uintptr_t first = module.dlpi_addr + part.p_vaddr;
    code.push_back({first, first + part.p_memsz});
  }
}

// Stores a pointer. Where it is in a page that the loader has protected, the page is writable for that long.
bool store(Walk& walk, void** place, void* value) {
  if (walk.writable.empty()) walk.writable = writable_memory();
  if (walk.writable.empty()) return false;
  const auto address = reinterpret_cast<std::uintptr_t>(place);
  if (is_in(walk.writable, address)) {
    __atomic_store_n(place, value, __ATOMIC_RELEASE);
    return true;
  }
  const auto page_bytes = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  void* page = reinterpret_cast<void*>(address & ~(page_bytes - 1));
  if (mprotect(page, page_bytes, PROT_READ | PROT_WRITE) != 0) return false;
  __atomic_store_n(place, value, __ATOMIC_RELEASE);
  mprotect(page, page_bytes, PROT_READ);
  return true;
}

// The dynamic section of a module, as far as relocations go.
struct Dynamic {
  const ElfW(Sym)* symbols = nullptr;
  const char* texts = nullptr;
  std::size_t text_bytes = 0;
  const ElfW(Rela)* relocations[2] = {};
  std::size_t bytes[2] = {};
  bool has_addends = true;
};

Dynamic dynamic_of(const dl_phdr_info& module, const ElfW(Dyn)* entry) noexcept {
  // The loader has put the load address in, or not: in the vDSO, and with musl.
  const auto at = [&](ElfW(Addr) address) noexcept {
    return address < module.dlpi_addr ? address + module.dlpi_addr : address;
  };
  Dynamic found;
  for (; entry->d_tag != DT_NULL; ++entry) {
    switch (entry->d_tag) {
      case DT_SYMTAB: found.symbols = reinterpret_cast<const ElfW(Sym)*>(at(entry->d_un.d_ptr)); break;
      case DT_STRTAB: found.texts = reinterpret_cast<const char*>(at(entry->d_un.d_ptr)); break;
      case DT_STRSZ: found.text_bytes = entry->d_un.d_val; break;
      case DT_JMPREL:
        found.relocations[0] = reinterpret_cast<const ElfW(Rela)*>(at(entry->d_un.d_ptr));
        break;
      case DT_PLTRELSZ: found.bytes[0] = entry->d_un.d_val; break;
      case DT_RELA:
        found.relocations[1] = reinterpret_cast<const ElfW(Rela)*>(at(entry->d_un.d_ptr));
        break;
      case DT_RELASZ: found.bytes[1] = entry->d_un.d_val; break;
      case DT_PLTREL: found.has_addends = entry->d_un.d_val == DT_RELA; break;
      default: break;
    }
  }
  return found;
}

int look_at_code(dl_phdr_info* module, std::size_t, void* data) {
  try {
    add_code(*module, static_cast<Walk*>(data)->code);
  } catch (...) {
    return 1;
  }
  return 0;
}

// Replaces one reference. Returns false where the loader has not filled it in yet.
bool replace_one(Walk& walk, const dl_phdr_info& module, const Dynamic& dynamic,
                 const ElfW(Rela)& relocation, const std::vector<Span>& own_code) {
  const auto type = static_cast<std::uint32_t>(ELF64_R_TYPE(relocation.r_info));
  const bool is_pointer = type == kPointer && relocation.r_addend == 0;
  if (type != kJumpSlot && type != kAddress && !is_pointer) return true;
  const ElfW(Sym)& symbol = dynamic.symbols[ELF64_R_SYM(relocation.r_info)];
  if (symbol.st_name == 0 || symbol.st_name >= dynamic.text_bytes) return true;
  const std::string_view name = dynamic.texts + symbol.st_name;
  if (!walk.replacing.wants(name)) return true;
  auto** place = reinterpret_cast<void**>(module.dlpi_addr + relocation.r_offset);
  void* target = __atomic_load_n(place, __ATOMIC_ACQUIRE);
  if (walk.code.empty()) dl_iterate_phdr(look_at_code, &walk);
  const auto address = reinterpret_cast<std::uintptr_t>(target);
  if (!is_in(walk.code, address)) {
    const bool is_nowhere = target == nullptr && ELF64_ST_BIND(symbol.st_info) == STB_WEAK;
    const bool is_data = ELF64_ST_TYPE(symbol.st_info) == STT_OBJECT;
    return is_nowhere || is_data;
  }
  const bool is_lazy = type == kJumpSlot && is_in(own_code, address);
  void* replacement = walk.replacing.replace({name, place, target, is_lazy});
  if (replacement != nullptr && replacement != target) {
    walk.failed += !store(walk, place, replacement);
  }
  return true;
}

// Returns whether a module is done: the loader is through with it.
bool replace_in(Walk& walk, const dl_phdr_info& module) {
  const ElfW(Dyn)* entries = nullptr;
  for (std::size_t i = 0; i < module.dlpi_phnum; ++i) {
    if (module.dlpi_phdr[i].p_type != PT_DYNAMIC) continue;
    entries = reinterpret_cast<const ElfW(Dyn)*>(module.dlpi_addr + module.dlpi_phdr[i].p_vaddr);
  }
  if (entries == nullptr) return true;
  const Dynamic dynamic = dynamic_of(module, entries);
  if (dynamic.symbols == nullptr || dynamic.texts == nullptr || !dynamic.has_addends) return true;
  std::vector<Span> own_code;
  add_code(module, own_code);
  bool is_done = true;
  for (std::size_t list = 0; list < 2; ++list) {
    const ElfW(Rela)* first = dynamic.relocations[list];
    const std::size_t count = first == nullptr ? 0 : dynamic.bytes[list] / sizeof *first;
    for (std::size_t i = 0; i < count; ++i) {
      is_done &= replace_one(walk, module, dynamic, first[i], own_code);
    }
  }
  return is_done;
}

int look_at_references(dl_phdr_info* module, std::size_t, void* data) {
  auto& walk = *static_cast<Walk*>(data);
  const ModuleKey seen = key_of(*module);
  try {
    if (g_loaded.done.contains(seen)) return 0;
    const std::string_view path = module->dlpi_name == nullptr ? "" : module->dlpi_name;
    if (is_agent(*module) || walk.replacing.leaves_out(path) || replace_in(walk, *module)) {
      g_loaded.done.insert(seen);
    } else {
      walk.is_complete = false;
    }
  } catch (...) {
    return 1;
  }
  return 0;
}

}  // namespace

void forget_modules() noexcept {
  g_loaded.done.clear();
  g_loaded.is_complete = false;
}

std::size_t replace_new_references(const Replacing& replacing) noexcept {
  const LoadCounts counts = load_counts();
  if (counts == g_loaded.counts && g_loaded.is_complete) return 0;
  // What was unloaded may have left its addresses to another module.
  if (counts.removed != g_loaded.counts.removed) g_loaded.done.clear();
  Walk walk{.replacing = replacing, .code = {}, .writable = {}};
  dl_iterate_phdr(look_at_references, &walk);
  g_loaded.counts = counts;
  g_loaded.is_complete = walk.is_complete;
  return walk.failed;
}

}  // namespace warpline::agent
