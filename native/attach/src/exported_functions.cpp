#include "exported_functions.h"

#include <elf.h>

#include <algorithm>
#include <cstring>

namespace warpline::attach {
namespace {

constexpr std::uint32_t kMostSymbols = 1u << 22;
constexpr std::size_t kMostTextBytes = 4096;
constexpr std::uint16_t kHidden = 0x8000;  // a version that new programs do not get

std::uint32_t gnu_hash(std::string_view name) {
  std::uint32_t hash = 5381;
  for (const char each : name) hash = hash * 33 + static_cast<unsigned char>(each);
  return hash;
}

}  // namespace

template <class Value>
bool ExportedFunctions::read(std::uint64_t address, Value& value) const {
  const std::uint64_t place = image_.bias + address;
  if (!stack::holds(image_, place) || !stack::holds(image_, place + sizeof value - 1)) return false;
  std::memcpy(&value, reinterpret_cast<const void*>(place), sizeof value);
  return true;
}

ExportedFunctions::ExportedFunctions(const stack::ElfImage& image) : image_(image) {
  std::uint64_t hash = 0;
  for (std::size_t i = 0; i < image.segment_count; ++i) {
    if (image.segments[i].p_type != PT_DYNAMIC) continue;
    const std::uint64_t begin = image.segments[i].p_vaddr;
    const std::uint64_t count = image.segments[i].p_memsz / sizeof(Elf64_Dyn);
    Elf64_Dyn entry;
    for (std::uint64_t j = 0; j < count && read(begin + j * sizeof entry, entry); ++j) {
      switch (entry.d_tag) {
        case DT_SYMTAB: symbols_ = entry.d_un.d_ptr; break;
        case DT_STRTAB: texts_ = entry.d_un.d_ptr; break;
        case DT_STRSZ: text_bytes_ = entry.d_un.d_val; break;
        case DT_VERSYM: versions_ = entry.d_un.d_ptr; break;
        case DT_GNU_HASH: hash = entry.d_un.d_ptr; break;
        default: break;
      }
      if (entry.d_tag == DT_NULL) break;
    }
  }
  std::uint32_t head[4];
  if (hash == 0 || !read(hash, head) || head[0] == 0 || head[2] == 0) return;
  if (head[0] > kMostSymbols || head[2] > kMostSymbols) return;
  bucket_count_ = head[0];
  first_index_ = head[1];
  bloom_words_ = head[2];
  bloom_shift_ = head[3] & 31;
  bloom_ = hash + sizeof head;
  buckets_ = bloom_ + std::uint64_t{bloom_words_} * 8;
  chains_ = buckets_ + std::uint64_t{bucket_count_} * 4;
}

std::string_view ExportedFunctions::text(std::uint64_t offset) const {
  if (offset >= text_bytes_) return {};
  const std::uint64_t place = image_.bias + texts_ + offset;
  const std::uint64_t last = image_.bias + texts_ + text_bytes_ - 1;
  if (!stack::holds(image_, place) || !stack::holds(image_, last)) return {};
  const auto* begin = reinterpret_cast<const char*>(place);
  const std::size_t most = std::min<std::uint64_t>(text_bytes_ - offset, kMostTextBytes);
  return {begin, strnlen(begin, most)};
}

bool ExportedFunctions::function_at(std::uint32_t index, ExportedFunction& found, bool& is_hidden) const {
  Elf64_Sym symbol;
  if (!read(symbols_ + std::uint64_t{index} * sizeof symbol, symbol)) return false;
  if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || symbol.st_shndx == SHN_UNDEF) return false;
  found.name = text(symbol.st_name);
  found.code = {symbol.st_value, symbol.st_value + std::max<std::uint64_t>(symbol.st_size, 1)};
  std::uint16_t version = 0;
  is_hidden = versions_ != 0 && read(versions_ + std::uint64_t{index} * 2, version) && (version & kHidden) != 0;
  return true;
}

template <class Visit>
void ExportedFunctions::visit_bucket(std::uint32_t bucket, Visit&& visit) const {
  std::uint32_t index = 0;
  if (!read(buckets_ + std::uint64_t{bucket} * 4, index) || index < first_index_) return;
  for (std::uint32_t hash = 0; (hash & 1) == 0 && index < kMostSymbols; ++index) {
    if (!read(chains_ + std::uint64_t{index - first_index_} * 4, hash) || !visit(index, hash)) return;
  }
}

AddressRange ExportedFunctions::find(std::string_view name) const {
  if (bucket_count_ == 0) return {};
  const std::uint32_t wanted = gnu_hash(name);
  std::uint64_t word = 0;
  if (!read(bloom_ + std::uint64_t{wanted / 64 % bloom_words_} * 8, word)) return {};
  if ((word >> (wanted % 64) & word >> ((wanted >> bloom_shift_) % 64) & 1) == 0) return {};
  AddressRange best;
  visit_bucket(wanted % bucket_count_, [&](std::uint32_t index, std::uint32_t hash) {
    ExportedFunction found;
    bool is_hidden = false;
    if ((hash | 1) != (wanted | 1) || !function_at(index, found, is_hidden) || found.name != name) return true;
    best = found.code;
    return is_hidden;
  });
  return best;
}

std::vector<ExportedFunction> ExportedFunctions::all() const {
  std::vector<ExportedFunction> functions;
  std::uint32_t visited = 0;  // buckets of a damaged file may share symbols
  for (std::uint32_t bucket = 0; bucket < bucket_count_ && visited < kMostSymbols; ++bucket) {
    visit_bucket(bucket, [&](std::uint32_t index, std::uint32_t) {
      ExportedFunction found;
      bool is_hidden = false;
      if (function_at(index, found, is_hidden)) functions.push_back(found);
      return ++visited < kMostSymbols;
    });
  }
  return functions;
}

}  // namespace warpline::attach
