// The files that code came from, mapped as they would be loaded.
#pragma once

#include <elf.h>
#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "stack/frame_rules.h"

namespace warpline::sampler {

// An ELF file of 64 bits. Its addresses are those in the file.
class ElfFile {
 public:
  ElfFile(const ElfFile&) = delete;
  ElfFile& operator=(const ElfFile&) = delete;
  ~ElfFile();

  // Returns the rule at an instruction of the file, and where other registers were saved, from its tables.
  stack::FrameRule rule_at(std::uint64_t address, stack::SavedRegisters& saved) const noexcept;
  // The rule from the code itself.
  stack::FrameRule code_rule_at(std::uint64_t address) const noexcept;
  // Whether a call may return to an address of the file.
  bool is_behind_call(std::uint64_t address) const noexcept;
  // What addresses are moved by where a part of the file was mapped; false: no code is there.
  bool bias_of(std::uint64_t mapped_at, std::uint64_t file_offset, std::uint64_t& bias) const noexcept;

  // The file as it lies in our memory.
  stack::ElfImage image() const noexcept { return {segments_.data(), segments_.size(), bias_, !is_loaded_}; }
  std::uint64_t first_address() const noexcept { return first_; }
  std::uint64_t end_address() const noexcept { return end_; }
  const std::uint8_t* build_id() const noexcept { return build_id_; }
  static constexpr std::size_t kBuildIdBytes = 24;

 private:
  friend class ElfFiles;
  ElfFile() = default;
  bool map(int file);
  bool map_vdso();
  void read_notes();

  std::vector<Elf64_Phdr> segments_;
  std::uint64_t first_ = 0;
  std::uint64_t end_ = 0;
  std::uint64_t bias_ = 0;      // of our mapping
  bool is_loaded_ = false;      // the vDSO is in memory as it is
  void* mapped_ = nullptr;
  std::size_t mapped_bytes_ = 0;
  std::uint8_t build_id_[kBuildIdBytes] = {};
};

// Files by name and identity, each mapped once.
class ElfFiles {
 public:
  // Returns the file that a process has mapped; null if it is none, or no longer there. Valid until
  // this object goes.
  const ElfFile* find(pid_t pid, const std::string& path, dev_t device, ino_t number);
  // The code that the kernel gives every process.
  const ElfFile* vdso();

 private:
  using Key = std::tuple<std::string, dev_t, ino_t>;
  std::map<Key, std::unique_ptr<ElfFile>> files_;
  std::unique_ptr<ElfFile> vdso_;
  bool has_looked_for_vdso_ = false;
};

}  // namespace warpline::sampler
