#include "stack/loaded_modules.h"

#include <dlfcn.h>
#include <elf.h>

#include <cstring>

namespace warpline::agent {
namespace {

// What the C library fills in; it never gets smaller, and may use what is reserved here.
struct FoundObject {
  unsigned long long flags;
  void* begin;
  void* end;
  link_map* map;
  void* eh_frame;
  std::uint64_t reserved[16];
};
using FindObject = int (*)(void* address, FoundObject* found);

// Looked up while this library is loaded, by a thread that has the loader's lock anyway.
const auto g_find_object = reinterpret_cast<FindObject>(dlsym(RTLD_DEFAULT, "_dl_find_object"));

constexpr std::uint64_t kHeaderPage = 4096;  // of a module, always mapped

std::uint64_t identity_of(const ElfW(Ehdr)& header, const LoadedModule& module) noexcept {
  std::uint64_t words[sizeof header / 8];
  std::memcpy(words, &header, sizeof words);
  std::uint64_t mixed = module.begin ^ module.end << 20;
  for (const std::uint64_t word : words) mixed = (mixed ^ word) * 0x9e3779b97f4a7c15u;
  return mixed | 1;
}

// The tables of a module's symbols. Their pointers were made addresses by the loader, but for the vDSO's.
struct SymbolTables {
  const ElfW(Sym)* symbols = nullptr;
  const char* texts = nullptr;
  const std::uint32_t* hashes = nullptr;

  explicit SymbolTables(const LoadedModule& module) noexcept {
    const auto at = [&module](ElfW(Addr) address) noexcept {
      return address < module.image.bias ? address + module.image.bias : address;
    };
    for (const ElfW(Dyn)* entry = module.dynamic; entry->d_tag != DT_NULL; ++entry) {
      const std::uint64_t address = at(entry->d_un.d_ptr);
      if (entry->d_tag == DT_SYMTAB) symbols = reinterpret_cast<const ElfW(Sym)*>(address);
      if (entry->d_tag == DT_STRTAB) texts = reinterpret_cast<const char*>(address);
      if (entry->d_tag == DT_GNU_HASH) hashes = reinterpret_cast<const std::uint32_t*>(address);
    }
  }
};

std::uint32_t gnu_hash(const char* name) noexcept {
  std::uint32_t hash = 5381;
  for (; *name != '\0'; ++name) hash = hash * 33 + static_cast<unsigned char>(*name);
  return hash;
}

}  // namespace

bool finds_modules() noexcept { return g_find_object != nullptr; }

bool find_module(std::uint64_t address, LoadedModule& found) noexcept {
  FoundObject object{};
  if (g_find_object(reinterpret_cast<void*>(address), &object) != 0) return false;
  const auto begin = reinterpret_cast<std::uint64_t>(object.begin);
  const auto* header = static_cast<const ElfW(Ehdr)*>(object.begin);
  const std::uint64_t bytes = std::uint64_t{header->e_phnum} * sizeof(ElfW(Phdr));
  // Linkers, and tools that edit their files, put the program headers behind the file's.
  if (std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 || header->e_phoff + bytes > kHeaderPage) {
    return false;
  }
  found.image = {reinterpret_cast<const ElfW(Phdr)*>(begin + header->e_phoff), header->e_phnum,
                 object.map->l_addr, false};
  found.begin = begin;
  found.end = reinterpret_cast<std::uint64_t>(object.end);
  found.path = object.map->l_name;
  found.dynamic = object.map->l_ld;
  found.identity = identity_of(*header, found);
  return true;
}

// By the hash table that linkers write: a filter, which is not needed here, buckets, and a chain of hashes for
// each, whose last one has its lowest bit set.
std::uint64_t symbol_in(const LoadedModule& module, const char* name) noexcept {
  if (module.dynamic == nullptr) return 0;
  const SymbolTables tables(module);
  if (tables.symbols == nullptr || tables.texts == nullptr || tables.hashes == nullptr) return 0;
  const std::uint32_t bucket_count = tables.hashes[0];
  const std::uint32_t first_symbol = tables.hashes[1];
  const std::uint32_t filter_words = tables.hashes[2];
  if (bucket_count == 0) return 0;
  const std::uint32_t* buckets = tables.hashes + 4 + 2 * filter_words;
  const std::uint32_t* chains = buckets + bucket_count;
  const std::uint32_t hash = gnu_hash(name);
  std::uint32_t number = buckets[hash % bucket_count];
  if (number < first_symbol) return 0;
  for (;; ++number) {
    const std::uint32_t chained = chains[number - first_symbol];
    const ElfW(Sym)& symbol = tables.symbols[number];
    if ((chained | 1) == (hash | 1) && std::strcmp(tables.texts + symbol.st_name, name) == 0 &&
        symbol.st_shndx != SHN_UNDEF) {
      return module.image.bias + symbol.st_value;
    }
    if ((chained & 1) != 0) return 0;
  }
}

}  // namespace warpline::agent
