// Where an ELF file has code.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "elf/elf_file.h"

namespace warpline {

// Debug tables have functions that the linker removed: they lie at address 0, or where no code is.
class CodeRanges {
 public:
  explicit CodeRanges(const ElfFile &file) {
    for (const Elf64_Shdr &section : file.sections()) {
      if ((section.sh_flags & SHF_EXECINSTR) == 0) continue;
      ranges_.emplace_back(section.sh_addr, section.sh_addr + section.sh_size);
    }
  }
  bool hold(uint64_t address) const {
    return std::any_of(ranges_.begin(), ranges_.end(), [address](const auto &range) {
      return range.first <= address && address < range.second;
    });
  }

 private:
  std::vector<std::pair<uint64_t, uint64_t>> ranges_;
};

}  // namespace warpline
