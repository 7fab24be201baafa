// Compares what code says of its callers with what tables say, in the code of this program and of the
// libraries that it has loaded; then reads damaged code.
//
//     code_rules_test [DAMAGED [SEED]]
#include <link.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

#include "stack/code_rules.h"
#include "stack/instruction.h"

namespace {

using namespace warpline::stack;

// The functions that the search table of a module names (.eh_frame_hdr, as linkers write it).
std::vector<std::uint64_t> functions_of(const ElfImage& image) {
  std::vector<std::uint64_t> found;
  for (std::size_t i = 0; i < image.segment_count; ++i) {
    if (image.segments[i].p_type != PT_GNU_EH_FRAME) continue;
    const std::uint64_t table = image.bias + image.segments[i].p_vaddr;
    std::uint32_t count;
    std::memcpy(&count, reinterpret_cast<const void*>(table + 8), sizeof count);
    for (std::uint32_t n = 0; n < count; ++n) {
      std::int32_t begin;
      std::memcpy(&begin, reinterpret_cast<const void*>(table + 12 + std::uint64_t{8} * n), sizeof begin);
      found.push_back(table + static_cast<std::uint64_t>(std::int64_t{begin}));
    }
  }
  return found;
}

struct Counts {
  long functions = 0, tiled = 0;  // whose instructions end where the function does
  long places = 0, known = 0, equal = 0;
};

// What lies below the stack pointer was popped: the register has it again.
FrameRule in_effect(FrameRule rule) {
  if (rule.offset + rule.frame_pointer < 0) rule.frame_pointer = 0;
  return rule;
}

void compare(const ElfImage& image, std::uint64_t place, Counts& counts) {
  const FrameRule told = frame_rule_in(image, place);
  if (told.base != FrameRule::Base::kStackPointer) return;
  const FrameRule found = frame_rule_by_code(image, place);
  ++counts.places;
  if (found.base == FrameRule::Base::kUnknown) return;
  ++counts.known;
  // A table may say so later that the frame pointer was saved: both are true until it is changed.
  const bool is_equal = found.base == told.base && found.offset == told.offset;
  const bool is_frame_equal = in_effect(found).frame_pointer == in_effect(told).frame_pointer;
  if (is_equal && (is_frame_equal || in_effect(told).frame_pointer == 0)) ++counts.equal;
}

void walk_function(const ElfImage& image, std::uint64_t begin, Counts& counts) {
  if (function_begin_in(image, begin) != begin) return;
  std::uint64_t place = begin;
  for (long number = 0; function_begin_in(image, place) == begin; ++number) {
    const Instruction now = decode_instruction(reinterpret_cast<const std::uint8_t*>(place), 15);
    if (now.length == 0) break;
    const bool is_padding = now.opcode == 0x90 || (now.map == Instruction::Map::k0F && now.opcode == 0x1f);
    if (number % 16 == 3 && !is_padding) compare(image, place, counts);
    place += now.length;
  }
  ++counts.functions;
  // The end of a function is the first place that is none of it.
  counts.tiled += function_begin_in(image, place - 1) == begin && function_begin_in(image, place) != begin;
}

int check_module(dl_phdr_info* module, std::size_t, void* failed) {
  const ElfImage image{module->dlpi_phdr, module->dlpi_phnum, module->dlpi_addr, false};
  Counts counts;
  const std::vector<std::uint64_t> functions = functions_of(image);
  const std::size_t step = 1 + functions.size() / 2000;
  for (std::size_t n = 0; n < functions.size(); n += step) walk_function(image, functions[n], counts);
  std::printf("%s: %ld of %ld functions are read, %ld of %ld places are known, %ld alike\n",
              module->dlpi_name, counts.tiled, counts.functions, counts.known, counts.places, counts.equal);
  const bool is_small = counts.places < 200;  // such as the vDSO
  const bool is_right = counts.tiled * 100 >= counts.functions * 99 &&
                        counts.known * 100 >= counts.places * 85 && counts.equal * 100 >= counts.known * 97;
  if (!is_small && !is_right) *static_cast<int*>(failed) = 1;
  return 0;
}

// Code that is no longer what a compiler wrote, with nothing behind it.
int read_damaged(int times, std::uint64_t seed) {
  std::mt19937_64 chance(seed);
  const auto* from = reinterpret_cast<const std::uint8_t*>(&std::printf);
  long known = 0;
  for (int number = 0; number < times; ++number) {
    std::vector<std::uint8_t> code(1 + chance() % 3000);
    std::memcpy(code.data(), from, code.size());
    for (std::uint64_t count = chance() % 200; count > 0; --count) {
      code[chance() % code.size()] = static_cast<std::uint8_t>(chance());
    }
    Elf64_Phdr segment{};
    segment.p_type = PT_LOAD;
    segment.p_flags = PF_R | PF_X;
    segment.p_filesz = segment.p_memsz = code.size();
    const ElfImage image{&segment, 1, reinterpret_cast<std::uint64_t>(code.data()), true};
    const std::uint64_t place = image.bias + chance() % code.size();
    known += frame_rule_by_code(image, place).base != FrameRule::Base::kUnknown;
    known += is_behind_call(image, place);
  }
  std::printf("%ld known of %d\n", known, times);
  return known == 0;
}

[[gnu::noinline]] bool is_called_from_code() {
  const auto to = reinterpret_cast<std::uint64_t>(__builtin_return_address(0));
  struct Search {
    std::uint64_t to;
    bool is_found;
  } search{to, false};
  dl_iterate_phdr(
      [](dl_phdr_info* module, std::size_t, void* data) {
        const ElfImage image{module->dlpi_phdr, module->dlpi_phnum, module->dlpi_addr, false};
        auto& own = *static_cast<Search*>(data);
        own.is_found = own.is_found || (is_behind_call(image, own.to) && !is_behind_call(image, own.to - 1));
        return 0;
      },
      &search);
  return search.is_found;
}

}  // namespace

int main(int count, char** words) {
#if defined(__x86_64__)
  int failed = 0;
  dl_iterate_phdr(check_module, &failed);
  if (!is_called_from_code()) failed = 1;
  const int times = count > 1 ? std::atoi(words[1]) : 20000;
  return failed + read_damaged(times, count > 2 ? std::strtoull(words[2], nullptr, 10) : 1);
#else
  return count > 0 && words != nullptr ? 0 : 1;
#endif
}
