// One machine instruction of x86-64: how long it is, and its operands as far as they may touch the stack.
#pragma once

#include <cstddef>
#include <cstdint>

namespace warpline::stack {

inline constexpr std::uint8_t kRsp = 4;
inline constexpr std::uint8_t kRbp = 5;
inline constexpr std::uint8_t kNoRegister = 0xff;

constexpr bool is_among(std::uint8_t opcode, std::uint8_t first, std::uint8_t last) {
  return first <= opcode && opcode <= last;
}

struct Instruction {
  enum class Map : std::uint8_t { kPlain, k0F, k0F38, k0F3A, kVector };

  std::uint8_t length = 0;  // 0: no valid instruction is there
  Map map = Map::kPlain;    // kVector: of VEX and EVEX, whose registers are no general ones, mostly
  std::uint8_t opcode = 0;
  bool has_rex = false;
  bool is_wide = false;     // 64-bit operands by REX.W; pushes, pops and branches have them anyway
  bool is_narrow = false;   // 16-bit operands
  bool has_operands = false;    // a ModRM byte
  std::uint8_t reg = 0;         // general register, or part of the opcode
  std::uint8_t rm = kNoRegister;    // the other register, also one in the opcode; none: memory
  std::uint8_t base = kNoRegister;  // memory: at this register plus `offset`, none: at anything else
  bool is_at_instruction = false;   // memory: at the next instruction plus `offset`
  std::int32_t offset = 0;
  std::int64_t immediate = 0;
};

// Decodes the instruction that begins with the first of some bytes.
Instruction decode_instruction(const std::uint8_t* code, std::size_t bytes) noexcept;

}  // namespace warpline::stack
