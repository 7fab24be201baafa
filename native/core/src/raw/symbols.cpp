#include "raw/symbols.h"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "elf/debug_file.h"
#include "elf/line_table.h"

namespace warpline {

namespace {

constexpr std::size_t kMaxListed = std::size_t{1} << 22;
constexpr std::size_t kChunkSymbols = 65536;

// The function found so far for an address.
struct Match {
  uint64_t begin = 0;
  uint64_t end = 0;
  uint32_t name = 0;  // place in the section of texts; 0: none
};

void match_symbol(const Elf64_Sym &symbol, const std::vector<uint64_t> &addresses,
                  std::vector<Match> &matches) {
  const unsigned char type = ELF64_ST_TYPE(symbol.st_info);
  const bool is_function = type == STT_FUNC || type == STT_GNU_IFUNC;
  if (!is_function || symbol.st_shndx == SHN_UNDEF || symbol.st_size == 0) return;
  const uint64_t end = symbol.st_value + std::min(symbol.st_size, ~uint64_t{0} - symbol.st_value);
  auto found = std::lower_bound(addresses.begin(), addresses.end(), symbol.st_value);
  for (; found != addresses.end() && *found < end; ++found) {
    Match &match = matches[static_cast<std::size_t>(found - addresses.begin())];
    // Of names for the same code the first counts, of functions in each other the inner.
    const bool is_better = match.name == 0 || end - symbol.st_value < match.end - match.begin;
    if (is_better) match = {symbol.st_value, end, symbol.st_name};
  }
}

void match_symbols(const ElfFile &file, const Elf64_Shdr &section,
                   const std::vector<uint64_t> &addresses, std::vector<Match> &matches) {
  const uint64_t count = section.sh_size / sizeof(Elf64_Sym);
  for (uint64_t first = 0; first < count; first += kChunkSymbols) {
    const uint64_t at = section.sh_offset + first * sizeof(Elf64_Sym);
    const uint64_t some = std::min<uint64_t>(kChunkSymbols, count - first);
    const std::vector<Elf64_Sym> symbols = file.read<Elf64_Sym>(at, some);
    if (symbols.empty()) return;
    for (const Elf64_Sym &symbol : symbols) match_symbol(symbol, addresses, matches);
  }
}

// The symbols for debuggers are more than those for the loader, where they were kept.
void name_from(const ElfFile &file, uint32_t type, const std::vector<uint64_t> &addresses,
               std::vector<std::string> &names) {
  for (const Elf64_Shdr &section : file.sections()) {
    if (section.sh_type != type || section.sh_link >= file.sections().size()) continue;
    std::vector<Match> matches(addresses.size());
    match_symbols(file, section, addresses, matches);
    for (std::size_t i = 0; i < matches.size(); ++i) {
      if (!names[i].empty() || matches[i].name == 0) continue;
      names[i] = file.text(file.sections()[section.sh_link], matches[i].name);
    }
  }
}

// The text of a file of symbols: lines "address rest" in hexadecimal.
struct Listed {
  uint64_t begin = 0;
  uint64_t end = 0;  // 0: where the next begins
  std::string name;
};

std::vector<std::string> names_among(std::vector<Listed> &listed,
                                     const std::vector<uint64_t> &addresses) {
  // Of two for the same code the later counts: code is made anew where other code was.
  std::stable_sort(listed.begin(), listed.end(),
                   [](const Listed &a, const Listed &b) { return a.begin < b.begin; });
  std::vector<std::string> names(addresses.size());
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    const auto after =
        std::upper_bound(listed.begin(), listed.end(), addresses[i],
                         [](uint64_t at, const Listed &each) { return at < each.begin; });
    if (after == listed.begin()) continue;
    const Listed &found = *(after - 1);
    if (found.end == 0 || addresses[i] < found.end) names[i] = found.name;
  }
  return names;
}

class TextFile {
 public:
  explicit TextFile(const std::string &path) : file_(std::fopen(path.c_str(), "re")) {}
  ~TextFile() {
    if (file_ != nullptr) std::fclose(file_);
    std::free(line_);
  }
  TextFile(const TextFile &) = delete;
  TextFile &operator=(const TextFile &) = delete;

  // The next line, null at the end.
  char *line() {
    if (file_ == nullptr) return nullptr;
    const ssize_t bytes = getline(&line_, &room_, file_);
    if (bytes <= 0) return nullptr;
    if (line_[bytes - 1] == '\n') line_[bytes - 1] = '\0';
    return line_;
  }

 private:
  std::FILE *file_;
  char *line_ = nullptr;
  std::size_t room_ = 0;
};

// "START SIZE NAME", as compilers write that make code while the program runs (perf's convention).
std::vector<std::string> names_in_map(const std::string &path, const std::vector<uint64_t> &addresses) {
  TextFile file(path);
  std::vector<Listed> listed;
  while (char *at = file.line()) {
    if (listed.size() >= kMaxListed) break;
    Listed each;
    each.begin = std::strtoull(at, &at, 16);
    const uint64_t bytes = std::strtoull(at, &at, 16);
    each.end = each.begin + bytes;
    if (*at != ' ' || bytes == 0 || each.end < each.begin) continue;
    each.name = at + 1;
    listed.push_back(std::move(each));
  }
  return names_among(listed, addresses);
}

// "ADDRESS TYPE NAME [MODULE]"; addresses are zeros for those who may not know them.
std::vector<std::string> names_in_kernel(const std::vector<uint64_t> &addresses) {
  TextFile file("/proc/kallsyms");
  std::vector<Listed> listed;
  while (char *at = file.line()) {
    Listed each;
    each.begin = std::strtoull(at, &at, 16);
    if (each.begin == 0 || at[0] != ' ' || (at[1] | 0x20) != 't' || at[2] != ' ') continue;
    each.name.assign(at + 3, std::strcspn(at + 3, "\t "));
    listed.push_back(std::move(each));
  }
  return names_among(listed, addresses);
}

// What tells one boot of the machine from others: the kernel's addresses differ.
BuildId boot_id() {
  TextFile file("/proc/sys/kernel/random/boot_id");
  BuildId found{};
  const char *at = file.line();
  if (at != nullptr) std::memcpy(found.data(), at, std::min(found.size(), std::strlen(at)));
  return found;
}

void name_from(const ElfFile &file, const std::vector<uint64_t> &addresses,
               std::vector<std::string> &names) {
  name_from(file, SHT_SYMTAB, addresses, names);
  name_from(file, SHT_DYNSYM, addresses, names);
}

std::vector<CodeName> named(std::vector<std::string> names) {
  std::vector<CodeName> found(names.size());
  for (std::size_t i = 0; i < names.size(); ++i) found[i].function = std::move(names[i]);
  return found;
}

bool has_gaps(const std::vector<std::string> &names) {
  return std::any_of(names.begin(), names.end(), [](const std::string &name) { return name.empty(); });
}

std::vector<CodeName> names_in_file(const std::string &path, const BuildId &build,
                                    const std::vector<uint64_t> &addresses, Decompress decompress) {
  std::vector<std::string> names(addresses.size());
  const ElfFile file(path);
  if (file.sections().empty() || file.build_id() != build) return named(std::move(names));
  name_from(file, addresses, names);
  const bool has_lines = file.section(".debug_line") != nullptr;
  const auto debug = has_lines && !has_gaps(names) ? nullptr : debug_file_of(file, path);
  if (debug != nullptr) name_from(*debug, addresses, names);
  std::vector<CodeName> found = named(std::move(names));
  const ElfFile *const source = has_lines ? &file : debug.get();
  if (source == nullptr) return found;
  std::vector<SourceLine> lines = source_lines(*source, addresses, decompress);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    found[i].file = std::move(lines[i].file);
    found[i].line = lines[i].line;
  }
  std::vector<std::vector<InlinedCall>> inlined = inlined_calls(*source, addresses, decompress);
  for (std::size_t i = 0; i < inlined.size(); ++i) found[i].inlined = std::move(inlined[i]);
  return found;
}

}  // namespace

std::vector<CodeName> code_names(const std::string &path, const BuildId &build,
                                 const std::vector<uint64_t> &addresses, Decompress decompress) {
  std::vector<std::string> names(addresses.size());
  if (path == "[kernel]") return named(build == boot_id() ? names_in_kernel(addresses) : names);
  if (path.starts_with("/tmp/perf-") && path.ends_with(".map")) {
    return named(names_in_map(path, addresses));
  }
  if (path != "[vdso]") return names_in_file(path, build, addresses, decompress);
  const ElfFile vdso(ElfFile::Vdso{});
  if (vdso.build_id() == build) name_from(vdso, addresses, names);
  return named(std::move(names));
}

}  // namespace warpline
