// ELF files are read with pread, a stretch at a time and none beyond reason: they may be gigabytes
// large, damaged, made to mislead, or changing while they are read.
#include "raw/symbols.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#ifdef __linux__
#include <sys/auxv.h>
#endif
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>

namespace warpline {

namespace {

constexpr std::size_t kMaxSections = 65536;
constexpr std::size_t kMaxListed = std::size_t{1} << 22;
constexpr std::size_t kChunkSymbols = 65536;
constexpr std::size_t kMaxNameBytes = 16384;
constexpr uint64_t kMaxNoteBytes = 1U << 16;

uint64_t vdso_address() {
#ifdef __linux__
  return getauxval(AT_SYSINFO_EHDR);
#else
  return 0;
#endif
}

class ElfFile {
 public:
  explicit ElfFile(const std::string &path)
      : descriptor_(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)) {
    struct stat facts {};
    if (descriptor_ < 0 || fstat(descriptor_, &facts) != 0 || !S_ISREG(facts.st_mode)) return;
    bytes_ = static_cast<uint64_t>(facts.st_size);
    read_sections();
  }
  ~ElfFile() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  // The code that the kernel gives every process, as it lies in the memory of this one.
  struct Vdso {};
  explicit ElfFile(Vdso)
      : descriptor_(open("/proc/self/mem", O_RDONLY | O_CLOEXEC)), base_(vdso_address()) {
    if (descriptor_ < 0 || base_ == 0) return;
    bytes_ = sizeof(Elf64_Ehdr);
    const std::vector<Elf64_Ehdr> head = read<Elf64_Ehdr>(0, 1);
    if (head.empty()) return;
    bytes_ = head[0].e_shoff + uint64_t{head[0].e_shnum} * head[0].e_shentsize;
    read_sections();
  }
  ElfFile(const ElfFile &) = delete;
  ElfFile &operator=(const ElfFile &) = delete;

  const std::vector<Elf64_Shdr> &sections() const { return sections_; }

  // Reads what lies at a place, if all of it is there.
  template <typename Item>
  std::vector<Item> read(uint64_t at, uint64_t count) const {
    if (at > bytes_ || count > (bytes_ - at) / sizeof(Item)) return {};
    std::vector<Item> items(count);
    std::size_t done = 0;
    const std::size_t wanted = count * sizeof(Item);
    while (done < wanted) {
      const ssize_t got = pread(descriptor_, reinterpret_cast<char *>(items.data()) + done,
                                wanted - done, static_cast<off_t>(base_ + at + done));
      if (got <= 0) return {};
      done += static_cast<std::size_t>(got);
    }
    return items;
  }

  // Reads the text at a place of a section that holds texts.
  std::string text(const Elf64_Shdr &section, uint64_t at) const {
    if (at >= section.sh_size || section.sh_offset > bytes_) return {};
    const uint64_t from = section.sh_offset + at;
    if (from < at || from >= bytes_) return {};
    const uint64_t longest = std::min({section.sh_size - at, bytes_ - from, uint64_t{kMaxNameBytes}});
    std::string found;
    while (found.size() < longest) {  // most are short
      const uint64_t step = std::min<uint64_t>(longest - found.size(), 256);
      const std::vector<char> piece = read<char>(from + found.size(), step);
      const auto end = std::find(piece.begin(), piece.end(), '\0');
      found.append(piece.begin(), end);
      if (end != piece.end() || piece.empty()) return found;
    }
    return {};  // it has no end
  }

 private:
  void read_sections() {
    const std::vector<Elf64_Ehdr> head = read<Elf64_Ehdr>(0, 1);
    if (head.empty() || std::memcmp(head[0].e_ident, ELFMAG, SELFMAG) != 0) return;
    const bool is_known = head[0].e_ident[EI_CLASS] == ELFCLASS64 &&
                          head[0].e_ident[EI_DATA] == ELFDATA2LSB &&
                          head[0].e_shentsize == sizeof(Elf64_Shdr);
    if (!is_known) return;
    uint64_t count = head[0].e_shnum;
    if (count == 0) {  // more than fit: the first section says how many
      const std::vector<Elf64_Shdr> first = read<Elf64_Shdr>(head[0].e_shoff, 1);
      if (!first.empty()) count = first[0].sh_size;
    }
    if (count <= kMaxSections) sections_ = read<Elf64_Shdr>(head[0].e_shoff, count);
  }

  int descriptor_;
  uint64_t base_ = 0;  // where it begins
  uint64_t bytes_ = 0;
  std::vector<Elf64_Shdr> sections_;
};

// Looks for the build id among the notes of a section.
std::optional<BuildId> build_id_in(const std::vector<char> &notes) {
  std::size_t at = 0;
  while (notes.size() - at >= sizeof(Elf64_Nhdr)) {
    Elf64_Nhdr note;
    std::memcpy(&note, notes.data() + at, sizeof note);
    const uint64_t data = at + sizeof note + ((uint64_t{note.n_namesz} + 3) & ~uint64_t{3});
    const uint64_t next = data + ((uint64_t{note.n_descsz} + 3) & ~uint64_t{3});
    if (next > notes.size()) break;
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
        std::memcmp(notes.data() + at + sizeof note, "GNU", 4) == 0) {
      BuildId found{};
      std::memcpy(found.data(), notes.data() + data,
                  std::min<std::size_t>(found.size(), note.n_descsz));
      return found;
    }
    at = next;
  }
  return std::nullopt;
}

BuildId build_id_of(const ElfFile &file) {
  for (const Elf64_Shdr &section : file.sections()) {
    if (section.sh_type != SHT_NOTE || section.sh_size > kMaxNoteBytes) continue;
    const auto found = build_id_in(file.read<char>(section.sh_offset, section.sh_size));
    if (found) return *found;
  }
  return {};
}

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

void name_from(const ElfFile &file, const BuildId &build, const std::vector<uint64_t> &addresses,
               std::vector<std::string> &names) {
  if (file.sections().empty() || build_id_of(file) != build) return;
  name_from(file, SHT_SYMTAB, addresses, names);
  name_from(file, SHT_DYNSYM, addresses, names);
}

// Where the symbols of a build are, if they are installed. A build id has 20 bytes almost always.
std::string debug_file(const BuildId &build) {
  constexpr char kDigits[] = "0123456789abcdef";
  constexpr std::size_t kBytes = 20;
  std::string path = "/usr/lib/debug/.build-id/";
  for (std::size_t i = 0; i < kBytes; ++i) {
    path += kDigits[build[i] >> 4];
    path += kDigits[build[i] & 15];
    if (i == 0) path += '/';
  }
  return path + ".debug";
}

}  // namespace

std::vector<std::string> function_names(const std::string &path, const BuildId &build,
                                        const std::vector<uint64_t> &addresses) {
  std::vector<std::string> names(addresses.size());
  if (path == "[kernel]") return build == boot_id() ? names_in_kernel(addresses) : names;
  if (path.starts_with("/tmp/perf-") && path.ends_with(".map")) return names_in_map(path, addresses);
  if (path == "[vdso]") {
    name_from(ElfFile(ElfFile::Vdso{}), build, addresses, names);
    return names;
  }
  name_from(ElfFile(path), build, addresses, names);
  const bool is_whole = std::none_of(names.begin(), names.end(),
                                     [](const std::string &name) { return name.empty(); });
  // Distributions keep the symbols of what they build in files of their own.
  if (!is_whole && build != BuildId{}) name_from(ElfFile(debug_file(build)), build, addresses, names);
  return names;
}

}  // namespace warpline
