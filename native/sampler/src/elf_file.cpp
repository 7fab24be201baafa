#include "elf_file.h"

#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace warpline::sampler {
namespace {

constexpr std::size_t kMostFiles = 16384;
constexpr std::size_t kMostSegments = 256;
constexpr std::uint64_t kMostMapped = std::uint64_t{1} << 40;
constexpr std::uint64_t kPage = 4096;

bool is_elf(const Elf64_Ehdr& head) {
  return std::memcmp(head.e_ident, ELFMAG, SELFMAG) == 0 && head.e_ident[EI_CLASS] == ELFCLASS64 &&
         head.e_phentsize == sizeof(Elf64_Phdr) && head.e_phnum <= kMostSegments;
}

std::uint64_t page_of(std::uint64_t address) { return address & ~(kPage - 1); }

}  // namespace

ElfFile::~ElfFile() {
  if (mapped_ != nullptr) munmap(mapped_, mapped_bytes_);
}

bool ElfFile::map(int file) {
  struct stat facts {};
  Elf64_Ehdr head;
  if (fstat(file, &facts) != 0 || !S_ISREG(facts.st_mode)) return false;
  if (pread(file, &head, sizeof head, 0) != static_cast<ssize_t>(sizeof head)) return false;
  if (!is_elf(head)) return false;
  segments_.resize(head.e_phnum);
  const auto bytes = static_cast<ssize_t>(segments_.size() * sizeof(Elf64_Phdr));
  if (pread(file, segments_.data(), static_cast<std::size_t>(bytes),
            static_cast<off_t>(head.e_phoff)) != bytes) {
    return false;
  }
  first_ = ~std::uint64_t{0};
  for (const Elf64_Phdr& segment : segments_) {
    if (segment.p_type != PT_LOAD) continue;
    if (segment.p_vaddr + segment.p_memsz < segment.p_vaddr) return false;
    first_ = std::min(first_, page_of(segment.p_vaddr));
    end_ = std::max(end_, segment.p_vaddr + segment.p_memsz);
  }
  if (first_ >= end_ || end_ - first_ > kMostMapped) return false;
  mapped_bytes_ = static_cast<std::size_t>(end_ - first_);
  void* at = mmap(nullptr, mapped_bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) return false;
  mapped_ = at;
  bias_ = reinterpret_cast<std::uint64_t>(at) - first_;
  for (Elf64_Phdr& segment : segments_) {
    if (segment.p_type != PT_LOAD) continue;
    const std::uint64_t begin = page_of(segment.p_vaddr);
    const std::uint64_t offset = page_of(segment.p_offset);
    const auto size = static_cast<std::uint64_t>(facts.st_size);
    const bool is_there = segment.p_offset <= size && segment.p_filesz <= size - segment.p_offset &&
                          segment.p_vaddr % kPage == segment.p_offset % kPage;
    const std::uint64_t wanted = segment.p_filesz + (segment.p_vaddr - begin);
    void* part = is_there && segment.p_filesz != 0
                     ? mmap(reinterpret_cast<void*>(bias_ + begin), wanted, PROT_READ,
                            MAP_PRIVATE | MAP_FIXED, file, static_cast<off_t>(offset))
                     : MAP_FAILED;
    if (part == MAP_FAILED) segment.p_filesz = 0;  // nothing of it is read
  }
  return true;
}

bool ElfFile::map_vdso() {
  const std::uint64_t at = getauxval(AT_SYSINFO_EHDR);
  if (at == 0) return false;
  Elf64_Ehdr head;
  std::memcpy(&head, reinterpret_cast<const void*>(at), sizeof head);
  if (!is_elf(head)) return false;
  const auto* segments = reinterpret_cast<const Elf64_Phdr*>(at + head.e_phoff);
  segments_.assign(segments, segments + head.e_phnum);
  for (const Elf64_Phdr& segment : segments_) {
    if (segment.p_type == PT_LOAD) end_ = std::max(end_, segment.p_vaddr + segment.p_memsz);
  }
  bias_ = at;
  is_loaded_ = true;
  return true;
}

void ElfFile::read_notes() {
  const stack::ElfImage mapped = image();
  for (const Elf64_Phdr& segment : segments_) {
    if (segment.p_type != PT_NOTE) continue;
    std::uint64_t at = bias_ + segment.p_vaddr;
    const std::uint64_t end = at + segment.p_filesz;
    if (segment.p_filesz == 0 || !stack::holds(mapped, at) || !stack::holds(mapped, end - 1)) continue;
    while (end - at >= sizeof(Elf64_Nhdr)) {
      Elf64_Nhdr note;
      std::memcpy(&note, reinterpret_cast<const void*>(at), sizeof note);
      const std::uint64_t name = at + sizeof note;
      const std::uint64_t data = name + ((std::uint64_t{note.n_namesz} + 3) & ~std::uint64_t{3});
      const std::uint64_t next = data + ((std::uint64_t{note.n_descsz} + 3) & ~std::uint64_t{3});
      if (next > end || next <= at) break;
      if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
          std::memcmp(reinterpret_cast<const void*>(name), "GNU", 4) == 0) {
        std::memcpy(build_id_, reinterpret_cast<const void*>(data),
                    std::min<std::size_t>(note.n_descsz, sizeof build_id_));
        return;
      }
      at = next;
    }
  }
}

stack::FrameRule ElfFile::rule_at(std::uint64_t address) const noexcept {
  return stack::frame_rule_in(image(), bias_ + address);
}

bool ElfFile::bias_of(std::uint64_t mapped_at, std::uint64_t file_offset,
                      std::uint64_t& bias) const noexcept {
  for (const Elf64_Phdr& segment : segments_) {
    if (segment.p_type != PT_LOAD || (segment.p_flags & PF_X) == 0) continue;
    const std::uint64_t begin = page_of(segment.p_offset);
    if (file_offset < begin || file_offset >= segment.p_offset + segment.p_filesz) continue;
    bias = mapped_at - file_offset - (segment.p_vaddr - segment.p_offset);
    return true;
  }
  return false;
}

const ElfFile* ElfFiles::find(pid_t pid, const std::string& path, dev_t device, ino_t number) {
  const auto known = files_.find({path, device, number});
  if (known != files_.end()) return known->second.get();
  if (files_.size() >= kMostFiles) return nullptr;
  std::unique_ptr<ElfFile> found;
  // The program may see other files by that name than we do.
  const std::string inside = "/proc/" + std::to_string(pid) + "/root" + path;
  for (const std::string& name : {path, inside}) {
    const int file = open(name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (file < 0) continue;
    struct stat facts {};
    // Devices of overlay and btrfs file systems have two numbers; that of the file is what counts.
    const bool is_same = fstat(file, &facts) == 0 && facts.st_ino == number;
    std::unique_ptr<ElfFile> mapped(new ElfFile);
    const bool is_mapped = is_same && mapped->map(file);
    close(file);
    if (!is_mapped) continue;
    mapped->read_notes();
    found = std::move(mapped);
    break;
  }
  return files_.emplace(Key{path, device, number}, std::move(found)).first->second.get();
}

const ElfFile* ElfFiles::vdso() {
  if (!has_looked_for_vdso_) {
    has_looked_for_vdso_ = true;
    vdso_.reset(new ElfFile);
    if (vdso_->map_vdso()) {
      vdso_->read_notes();
    } else {
      vdso_.reset();
    }
  }
  return vdso_.get();
}

}  // namespace warpline::sampler
