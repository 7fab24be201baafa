#include "elf/debug_file.h"

#include <cstring>
#include <vector>

#include "crc32.h"

namespace warpline {

namespace {

constexpr char kDebugRoot[] = "/usr/lib/debug";
constexpr uint64_t kMaxLinkBytes = 4096;
constexpr uint64_t kPieceBytes = 4U << 20;
constexpr std::size_t kBuildIdBytes = 20;  // almost always

std::string path_of_build(const BuildId &build) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string path = std::string(kDebugRoot) + "/.build-id/";
  for (std::size_t i = 0; i < kBuildIdBytes; ++i) {
    path += kDigits[build[i] >> 4];
    path += kDigits[build[i] & 15];
    if (i == 0) path += '/';
  }
  return path + ".debug";
}

// The name of a debug file, and the checksum of its content.
struct DebugLink {
  std::string name;
  uint32_t checksum = 0;
};

DebugLink link_of(const ElfFile &code) {
  const Elf64_Shdr *section = code.section(".gnu_debuglink");
  if (section == nullptr || section->sh_size > kMaxLinkBytes || section->sh_size < 8) return {};
  DebugLink link{code.text(*section, 0), 0};
  const uint64_t at = (link.name.size() + 1 + 3) & ~uint64_t{3};
  const bool is_name = !link.name.empty() && link.name.find('/') == std::string::npos;
  if (!is_name || at + sizeof link.checksum > section->sh_size) return {};
  const auto checksum = code.read<uint32_t>(section->sh_offset + at, 1);
  return checksum.empty() ? DebugLink{} : DebugLink{link.name, checksum[0]};
}

uint32_t checksum_of(const ElfFile &file) {
  uint32_t checksum = 0;
  for (uint64_t at = 0; at < file.bytes(); at += kPieceBytes) {
    const auto piece = file.read<uint8_t>(at, std::min(kPieceBytes, file.bytes() - at));
    checksum = crc32(piece.data(), piece.size(), checksum, 1);
  }
  return checksum;
}

}  // namespace

std::unique_ptr<ElfFile> debug_file_of(const ElfFile &code, const std::string &path) {
  const BuildId build = code.build_id();
  const bool has_build = build != BuildId{};
  if (has_build) {
    auto file = std::make_unique<ElfFile>(path_of_build(build));
    if (!file->sections().empty() && file->build_id() == build) return file;
  }
  const DebugLink link = link_of(code);
  if (link.name.empty()) return nullptr;
  const std::string folder = path.substr(0, path.rfind('/') + 1);
  for (const std::string &place : {folder, folder + ".debug/", kDebugRoot + folder}) {
    auto file = std::make_unique<ElfFile>(place + link.name);
    if (file->sections().empty()) continue;
    // The checksum is of the whole file: a build id says the same in an instant.
    const bool belongs = has_build ? file->build_id() == build : checksum_of(*file) == link.checksum;
    if (belongs) return file;
  }
  return nullptr;
}

}  // namespace warpline
