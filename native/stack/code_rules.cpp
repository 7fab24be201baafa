// A function returns with the stack as its caller left it. So wherever a thread is within a function, any way
// from there to a return says how far away the return address is, without knowing where the function
// begins. Several ways are followed, and must agree.
#include "stack/code_rules.h"

#include <array>
#include <cstddef>

#include "stack/code_state.h"
#include "stack/instruction.h"

namespace warpline::stack {
namespace {

constexpr std::size_t kMostInstructions = 1u << 15;  // until a return is found
constexpr std::size_t kMoreInstructions = 1u << 9;  // for others that may contradict it
constexpr std::size_t kMostWays = 16;
constexpr std::size_t kMostBlocks = 256;
constexpr std::size_t kLongestCall = 7;

// The code of an image that may be read.
class Code {
 public:
  explicit Code(const ElfImage& image) noexcept : image_(image) {}

  Instruction at(std::uint64_t place) noexcept {
    if (place < begin_ || place >= end_) find_segment(place);
    if (place < begin_ || place >= end_) return {};
    return decode_instruction(reinterpret_cast<const std::uint8_t*>(place), end_ - place);
  }

 private:
  void find_segment(std::uint64_t place) noexcept {
    begin_ = end_ = 0;
    for (std::size_t i = 0; i < image_.segment_count; ++i) {
      const Elf64_Phdr& segment = image_.segments[i];
      constexpr std::uint32_t kCode = PF_R | PF_X;
      if (segment.p_type != PT_LOAD || (segment.p_flags & kCode) != kCode) continue;
      const std::uint64_t begin = image_.bias + segment.p_vaddr;
      if (place < begin || place - begin >= segment.p_filesz) continue;
      begin_ = begin;
      end_ = begin + segment.p_filesz;
      return;
    }
  }

  const ElfImage& image_;
  std::uint64_t begin_ = 0;
  std::uint64_t end_ = 0;
};

bool is_plain(const Instruction& of, std::uint8_t opcode) {
  return of.map == Instruction::Map::kPlain && of.opcode == opcode;
}

bool is_indirect(const Instruction& of, std::uint8_t part) { return is_plain(of, 0xff) && (of.reg & 7) == part; }

bool is_call(const Instruction& of) { return is_plain(of, 0xe8) || is_indirect(of, 2); }

bool is_jump(const Instruction& of) { return is_plain(of, 0xe9) || is_plain(of, 0xeb); }

bool is_branch(const Instruction& of) {
  if (of.map == Instruction::Map::kPlain) return (of.opcode & 0xf0) == 0x70 || (of.opcode & 0xfc) == 0xe0;
  return of.map == Instruction::Map::k0F && (of.opcode & 0xf0) == 0x80;
}

// A return, or a jump to a function that returns in this one's place: those are made through a table of
// addresses that lies at a fixed distance.
bool is_end(const Instruction& of) {
  return is_plain(of, 0xc3) || (is_indirect(of, 4) && of.is_at_instruction);
}

// Instructions behind which nothing is executed: other returns and jumps, and traps.
bool is_dead_end(const Instruction& of) {
  if (of.length == 0) return true;
  if (of.map == Instruction::Map::k0F) return of.opcode == 0x0b || of.opcode == 0xff || of.opcode == 0xb9;
  if (of.map != Instruction::Map::kPlain) return false;
  switch (of.opcode) {
    case 0xc2: case 0xca: case 0xcb: case 0xcc: case 0xcf: case 0xf1: case 0xf4: return true;
    default: return is_indirect(of, 4) || is_indirect(of, 5);
  }
}

struct Way {
  std::uint64_t place;
  CodeState state;
};

class Search {
 public:
  explicit Search(const ElfImage& image) noexcept : image_(image), code_(image) {}

  FrameRule run(std::uint64_t place) noexcept {
    std::size_t left = kMostInstructions;
    add(place, CodeState());
    while (count_ > 0 && left > 0 && !is_contradicted_) {
      Way way = ways_[--count_];
      const bool had_rule = has_rule_;
      follow(way, left);
      if (has_rule_ && !had_rule && left > kMoreInstructions) left = kMoreInstructions;
    }
    return has_rule_ && !is_contradicted_ ? rule_ : FrameRule{};
  }

 private:
  // Each block of code is followed once.
  bool add(std::uint64_t place, const CodeState& state) noexcept {
    if (count_ == kMostWays || !is_new(place)) return false;
    ways_[count_++] = {place, state};
    return true;
  }

  bool is_new(std::uint64_t block) noexcept {
    std::size_t slot = block * 0x9e3779b97f4a7c15u >> 56;
    static_assert(kMostBlocks == 1u << (64 - 56));
    if (block_count_ == kMostBlocks - 1) return false;
    for (; blocks_[slot] != 0; slot = (slot + 1) % kMostBlocks) {
      if (blocks_[slot] == block) return false;
    }
    blocks_[slot] = block;
    ++block_count_;
    return true;
  }

  void follow(Way& way, std::size_t& left) noexcept {
    for (; left > 0; --left) {
      const Instruction now = code_.at(way.place);
      const std::uint64_t next = way.place + now.length;
      if (is_end(now)) return take(way.state.rule());
      if (is_dead_end(now)) return;
      if (is_jump(now)) {
        way.place = next + static_cast<std::uint64_t>(now.immediate);
        if (!is_new(way.place)) return;
        continue;
      }
      if (is_branch(now)) {
        add(next + static_cast<std::uint64_t>(now.immediate), way.state);
        if (!is_new(next)) return;
      } else if (is_call(now)) {
        // Some functions do not return: what then follows may be another function.
        if (function_begin_in(image_, next) != function_begin_in(image_, way.place)) return;
        way.state.call();
      } else {
        way.state.execute(now);
      }
      if (!way.state.knows_stack()) return;
      way.place = next;
    }
  }

  void take(const FrameRule& rule) noexcept {
    if (rule.base == FrameRule::Base::kUnknown) return;
    is_contradicted_ = has_rule_ && rule.packed() != rule_.packed();
    has_rule_ = true;
    rule_ = rule;
  }

  const ElfImage& image_;
  Code code_;
  std::array<Way, kMostWays> ways_;
  std::array<std::uint64_t, kMostBlocks> blocks_{};
  std::size_t count_ = 0;
  std::size_t block_count_ = 0;
  FrameRule rule_;
  bool has_rule_ = false;
  bool is_contradicted_ = false;
};

}  // namespace

FrameRule frame_rule_by_code(const ElfImage& image, std::uint64_t place) noexcept {
  return Search(image).run(place);
}

bool is_behind_call(const ElfImage& image, std::uint64_t address) noexcept {
  Code code(image);
  for (std::size_t length = 2; length <= kLongestCall && length < address; ++length) {
    const Instruction before = code.at(address - length);
    if (before.length == length && is_call(before)) return true;
  }
  return false;
}

}  // namespace warpline::stack
