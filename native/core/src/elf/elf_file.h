// ELF files of 64 bits: sections and what they hold.
//
// They are read with pread, a stretch at a time and none beyond reason: they may be gigabytes large,
// damaged, made to mislead, or changing while they are read.
#pragma once

#include <elf.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace warpline {

using BuildId = std::array<uint8_t, 24>;  // zeros behind it; all zeros: none

// Fills `out` with what the content of a compressed section expands to, and returns 0 where that has
// exactly as many bytes. `kind` is one of ELFCOMPRESS_*. The core knows no compression itself.
using Decompress = int32_t (*)(int32_t kind, const void *content, int64_t bytes, void *out, int64_t out_bytes);

class ElfFile {
 public:
  // A file that cannot be read, or is none of this kind, has no sections.
  explicit ElfFile(const std::string &path);
  // The code that the kernel gives every process, as it lies in the memory of this one.
  struct Vdso {};
  explicit ElfFile(Vdso);
  ~ElfFile();
  ElfFile(const ElfFile &) = delete;
  ElfFile &operator=(const ElfFile &) = delete;

  const std::vector<Elf64_Shdr> &sections() const { return sections_; }
  // Returns the first section with a name and content in the file, or null.
  const Elf64_Shdr *section(std::string_view name) const;
  BuildId build_id() const;
  uint64_t bytes() const { return bytes_; }

  // Reads what lies at a place, if all of it is there.
  template <typename Item>
  std::vector<Item> read(uint64_t at, uint64_t count) const {
    if (at > bytes_ || count > (bytes_ - at) / sizeof(Item)) return {};
    std::vector<Item> items(count);
    if (!read_into(items.data(), at, count * sizeof(Item))) return {};
    return items;
  }

  // Reads the text at a place of a section that holds texts.
  std::string text(const Elf64_Shdr &section, uint64_t at) const;

 private:
  bool read_into(void *to, uint64_t at, std::size_t bytes) const;
  void read_sections();

  int descriptor_;
  uint64_t base_ = 0;  // where it begins
  uint64_t bytes_ = 0;
  std::vector<Elf64_Shdr> sections_;
  std::size_t names_ = 0;  // the section with their names
};

// The content of a section, also of a compressed one: that is expanded when it is first read.
class SectionContent {
 public:
  SectionContent(const ElfFile &file, std::string_view name, Decompress decompress);

  // Zero where there is no such section, or one that cannot be read.
  uint64_t bytes() const { return bytes_; }
  // Returns bytes of it, valid until the next call; null where they are not all there.
  const uint8_t *at(uint64_t place, uint64_t count);
  // Returns the text that begins at a place; empty if it has no end.
  std::string text(uint64_t place);

 private:
  void expand(const Elf64_Shdr &section, Decompress decompress);

  const ElfFile &file_;
  uint64_t from_ = 0;  // in the file
  uint64_t bytes_ = 0;
  bool is_expanded_ = false;
  uint64_t window_at_ = 0;
  std::vector<uint8_t> window_;  // a part of the section, or all that it expands to
};

}  // namespace warpline
