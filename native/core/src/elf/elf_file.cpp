#include "elf/elf_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#ifdef __linux__
#include <sys/auxv.h>
#endif
#include <unistd.h>

#include <cstring>

namespace warpline {

namespace {

constexpr std::size_t kMaxSections = 65536;
constexpr std::size_t kMaxNameBytes = 16384;
constexpr uint64_t kMaxNoteBytes = 1U << 16;
constexpr uint64_t kMaxExpanded = uint64_t{1} << 30;
constexpr uint64_t kMaxExpansion = 1100;  // zlib's is 1032 at most
constexpr uint64_t kWindow = 1U << 20;

uint64_t vdso_address() {
#ifdef __linux__
  return getauxval(AT_SYSINFO_EHDR);
#else
  return 0;
#endif
}

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

}  // namespace

ElfFile::ElfFile(const std::string &path)
    : descriptor_(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)) {
  struct stat facts {};
  if (descriptor_ < 0 || fstat(descriptor_, &facts) != 0 || !S_ISREG(facts.st_mode)) return;
  bytes_ = static_cast<uint64_t>(facts.st_size);
  read_sections();
}

ElfFile::ElfFile(Vdso)
    : descriptor_(open("/proc/self/mem", O_RDONLY | O_CLOEXEC)), base_(vdso_address()) {
  if (descriptor_ < 0 || base_ == 0) return;
  bytes_ = sizeof(Elf64_Ehdr);
  const std::vector<Elf64_Ehdr> head = read<Elf64_Ehdr>(0, 1);
  if (head.empty()) return;
  bytes_ = head[0].e_shoff + uint64_t{head[0].e_shnum} * head[0].e_shentsize;
  read_sections();
}

ElfFile::~ElfFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

const Elf64_Shdr *ElfFile::section(std::string_view name) const {
  if (names_ >= sections_.size()) return nullptr;
  for (const Elf64_Shdr &each : sections_) {
    if (each.sh_type != SHT_NOBITS && text(sections_[names_], each.sh_name) == name) return &each;
  }
  return nullptr;
}

BuildId ElfFile::build_id() const {
  for (const Elf64_Shdr &each : sections_) {
    if (each.sh_type != SHT_NOTE || each.sh_size > kMaxNoteBytes) continue;
    const auto found = build_id_in(read<char>(each.sh_offset, each.sh_size));
    if (found) return *found;
  }
  return {};
}

std::string ElfFile::text(const Elf64_Shdr &section, uint64_t at) const {
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

bool ElfFile::read_into(void *to, uint64_t at, std::size_t bytes) const {
  std::size_t done = 0;
  while (done < bytes) {
    const ssize_t got = pread(descriptor_, static_cast<char *>(to) + done, bytes - done,
                              static_cast<off_t>(base_ + at + done));
    if (got <= 0) return false;
    done += static_cast<std::size_t>(got);
  }
  return true;
}

void ElfFile::read_sections() {
  const std::vector<Elf64_Ehdr> head = read<Elf64_Ehdr>(0, 1);
  if (head.empty() || std::memcmp(head[0].e_ident, ELFMAG, SELFMAG) != 0) return;
  const bool is_known = head[0].e_ident[EI_CLASS] == ELFCLASS64 &&
                        head[0].e_ident[EI_DATA] == ELFDATA2LSB &&
                        head[0].e_shentsize == sizeof(Elf64_Shdr);
  if (!is_known) return;
  uint64_t count = head[0].e_shnum;
  names_ = head[0].e_shstrndx;
  if (count == 0 || names_ == SHN_XINDEX) {  // more than fit: the first section says it
    const std::vector<Elf64_Shdr> first = read<Elf64_Shdr>(head[0].e_shoff, 1);
    if (!first.empty() && count == 0) count = first[0].sh_size;
    if (!first.empty() && names_ == SHN_XINDEX) names_ = first[0].sh_link;
  }
  if (count <= kMaxSections) sections_ = read<Elf64_Shdr>(head[0].e_shoff, count);
}

SectionContent::SectionContent(const ElfFile &file, std::string_view name, Decompress decompress)
    : file_(file) {
  const Elf64_Shdr *found = file.section(name);
  if (found == nullptr || found->sh_offset > file.bytes()) return;
  if ((found->sh_flags & SHF_COMPRESSED) != 0) {
    expand(*found, decompress);
    return;
  }
  from_ = found->sh_offset;
  bytes_ = std::min(found->sh_size, file.bytes() - found->sh_offset);
}

void SectionContent::expand(const Elf64_Shdr &section, Decompress decompress) {
  const std::vector<Elf64_Chdr> head = file_.read<Elf64_Chdr>(section.sh_offset, 1);
  if (decompress == nullptr || head.empty() || section.sh_size <= sizeof(Elf64_Chdr)) return;
  const uint64_t packed = section.sh_size - sizeof(Elf64_Chdr);
  const uint64_t bytes = head[0].ch_size;
  if (packed > kMaxExpanded || bytes > kMaxExpanded || bytes / kMaxExpansion > packed) return;
  const std::vector<uint8_t> content =
      file_.read<uint8_t>(section.sh_offset + sizeof(Elf64_Chdr), packed);
  if (content.empty()) return;
  window_.resize(bytes);
  const int32_t status =
      decompress(static_cast<int32_t>(head[0].ch_type), content.data(), static_cast<int64_t>(packed),
                 window_.data(), static_cast<int64_t>(bytes));
  is_expanded_ = status == 0;
  if (is_expanded_) bytes_ = bytes;
}

const uint8_t *SectionContent::at(uint64_t place, uint64_t count) {
  if (place > bytes_ || count > bytes_ - place) return nullptr;
  const bool is_here = place >= window_at_ && place - window_at_ <= window_.size() &&
                       count <= window_.size() - (place - window_at_);
  if (!is_here) {
    if (is_expanded_) return nullptr;
    window_ = file_.read<uint8_t>(from_ + place, std::min(std::max(count, kWindow), bytes_ - place));
    window_at_ = place;
    if (window_.size() < count) return nullptr;
  }
  return window_.data() + (place - window_at_);
}

std::string SectionContent::text(uint64_t place) {
  if (place >= bytes_) return {};
  const uint64_t longest = std::min<uint64_t>(bytes_ - place, kMaxNameBytes);
  const uint8_t *from = at(place, longest);
  if (from == nullptr) return {};
  const uint8_t *end = std::find(from, from + longest, uint8_t{0});
  return end == from + longest ? std::string() : std::string(from, end);
}

}  // namespace warpline
