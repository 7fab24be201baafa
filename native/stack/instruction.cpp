// Written from the opcode maps of Intel's and AMD's manuals.
#include "stack/instruction.h"

#include <cstring>

namespace warpline::stack {
namespace {


// What follows an opcode.
enum : std::uint8_t {
  kInvalid = 0x80,
  kOperands = 0x40,  // ModRM
  kByte = 1,         // an immediate of this kind
  kTwoBytes = 2,
  kFull = 3,         // of the operands' size, at most 4 bytes
  kEntire = 4,       // of the operands' size, also 8 bytes
  kAddress = 5,      // of the addresses' size
  kBranch = 6,       // 4 bytes, whatever the operands' size
  kThreeBytes = 7,
};

constexpr std::uint8_t plain_layout(std::uint8_t op) {
  if (op < 0x40) {
    const std::uint8_t low = op & 7;
    if (low < 4) return kOperands;
    if (low == 4) return kByte;
    return low == 5 ? std::uint8_t{kFull} : std::uint8_t{kInvalid};
  }
  if (is_among(op, 0x50, 0x5f) || is_among(op, 0x90, 0x99) || is_among(op, 0x9b, 0x9f)) return 0;
  if (is_among(op, 0x70, 0x7f) || is_among(op, 0xb0, 0xb7) || is_among(op, 0xe0, 0xe7)) return kByte;
  if (is_among(op, 0xa0, 0xa3)) return kAddress;
  if (is_among(op, 0xb8, 0xbf)) return kEntire;
  switch (op) {
    case 0x63: return kOperands;
    case 0x68: case 0xa9: return kFull;
    case 0x69: case 0x81: case 0xc7: return kOperands | kFull;
    case 0x6a: case 0xa8: case 0xcd: case 0xeb: return kByte;
    case 0x6b: case 0x80: case 0x83: case 0xc0: case 0xc1: case 0xc6: return kOperands | kByte;
    case 0xc2: case 0xca: return kTwoBytes;
    case 0xc8: return kThreeBytes;
    case 0xe8: case 0xe9: return kBranch;
    case 0x60: case 0x61: case 0x62: case 0x82: case 0x9a: case 0xc4: case 0xc5: case 0xce:
    case 0xd4: case 0xd5: case 0xd6: case 0xea: return kInvalid;
    default: break;
  }
  const bool has_operands = is_among(op, 0x84, 0x8f) || is_among(op, 0xd0, 0xd3) ||
                            is_among(op, 0xd8, 0xdf) || op == 0xf6 || op == 0xf7 || op >= 0xfe;
  return has_operands ? std::uint8_t{kOperands} : std::uint8_t{0};
}

constexpr bool has_byte_in_0f(std::uint8_t op) {
  return is_among(op, 0x70, 0x73) || op == 0xc2 || is_among(op, 0xc4, 0xc6);
}

constexpr std::uint8_t layout_0f(std::uint8_t op) {
  if (is_among(op, 0x80, 0x8f)) return kBranch;
  const bool is_alone = is_among(op, 0x05, 0x09) || op == 0x0b || op == 0x0e || op == 0x77 ||
                        is_among(op, 0x30, 0x37) || is_among(op, 0xa0, 0xa2) ||
                        is_among(op, 0xa8, 0xaa) || is_among(op, 0xc8, 0xcf);
  if (is_alone) return 0;
  const bool is_invalid = op == 0x04 || op == 0x0a || op == 0x0c || is_among(op, 0x24, 0x27) ||
                          op == 0x39 || is_among(op, 0x3b, 0x3f);
  if (is_invalid) return kInvalid;
  const bool has_byte = has_byte_in_0f(op) || op == 0x0f || op == 0xa4 || op == 0xac || op == 0xba;
  return has_byte ? kOperands | kByte : std::uint8_t{kOperands};
}

// VEX and EVEX count the maps; those above the third are of half floats.
constexpr std::uint8_t vector_layout(std::uint8_t map, std::uint8_t op) {
  if (map == 1 && op == 0x77) return 0;
  if (map == 3 || (map == 1 && has_byte_in_0f(op))) return kOperands | kByte;
  return map == 0 || map == 4 || map > 6 ? std::uint8_t{kInvalid} : std::uint8_t{kOperands};
}

class Decoder {
 public:
  Decoder(const std::uint8_t* code, std::size_t bytes) noexcept
      : code_(code), bytes_(bytes < kLongest ? bytes : kLongest) {}

  Instruction decode() noexcept {
    std::uint8_t layout = read_opcode();
    if (is_cut_ || (layout & kInvalid) != 0) return {};
    if ((layout & kOperands) != 0) {
      read_operands();
    } else {
      found_.rm = static_cast<std::uint8_t>((found_.opcode & 7) | high_rm_);
    }
    const bool is_plain = found_.map == Instruction::Map::kPlain;
    // Of the group of `not`, `neg`, ..., only `test` has an immediate.
    if (is_plain && found_.opcode == 0xf6 && (found_.reg & 7) < 2) layout |= kByte;
    if (is_plain && found_.opcode == 0xf7 && (found_.reg & 7) < 2) layout |= kFull;
    read_immediate(layout & 7);
    if (is_cut_) return {};
    found_.length = static_cast<std::uint8_t>(at_);
    return found_;
  }

 private:
  static constexpr std::size_t kLongest = 15;

  std::uint8_t read_byte() noexcept {
    if (at_ < bytes_) return code_[at_++];
    is_cut_ = true;
    return 0;
  }

  template <class Number>
  Number read() noexcept {
    Number number{};
    if (bytes_ - at_ < sizeof number) {
      is_cut_ = true;
      return 0;
    }
    std::memcpy(&number, code_ + at_, sizeof number);
    at_ += sizeof number;
    return number;
  }

  // Reads prefixes and the opcode. Returns what follows.
  std::uint8_t read_opcode() noexcept {
    std::uint8_t byte = read_byte();
    for (;; byte = read_byte()) {
      if (is_cut_) return kInvalid;
      if (byte == 0x66) found_.is_narrow = true;
      if (byte == 0x67) has_short_addresses_ = true;
      const bool is_prefix = byte == 0x66 || byte == 0x67 || byte == 0xf0 || byte == 0xf2 || byte == 0xf3 ||
                             byte == 0x2e || byte == 0x36 || byte == 0x3e || byte == 0x26 ||
                             byte == 0x64 || byte == 0x65;
      if (!is_prefix) break;
    }
    if ((byte & 0xf0) == 0x40) {
      found_.has_rex = true;
      found_.is_wide = (byte & 8) != 0;
      high_reg_ = (byte & 4) != 0 ? 8 : 0;
      high_index_ = (byte & 2) != 0;
      high_rm_ = (byte & 1) != 0 ? 8 : 0;
      byte = read_byte();
    }
    if (byte == 0xc5 || byte == 0xc4 || byte == 0x62) return read_vector(byte);
    if (byte != 0x0f) {
      found_.opcode = byte;
      return plain_layout(byte);
    }
    byte = read_byte();
    if (byte == 0x38 || byte == 0x3a) {
      found_.map = byte == 0x38 ? Instruction::Map::k0F38 : Instruction::Map::k0F3A;
      found_.opcode = read_byte();
      return byte == 0x38 ? std::uint8_t{kOperands} : kOperands | kByte;
    }
    found_.map = Instruction::Map::k0F;
    found_.opcode = byte;
    return layout_0f(byte);
  }

  std::uint8_t read_vector(std::uint8_t prefix) noexcept {
    found_.map = Instruction::Map::kVector;
    found_.is_narrow = false;
    const std::uint8_t first = read_byte();
    std::uint8_t map = 1;
    if (prefix != 0xc5) {
      map = first & (prefix == 0x62 ? 0x07 : 0x1f);
      high_rm_ = (first & 0x20) == 0 ? 8 : 0;
      high_index_ = (first & 0x40) == 0;
      read_byte();
      if (prefix == 0x62) read_byte();
    }
    high_reg_ = (first & 0x80) == 0 ? 8 : 0;
    found_.opcode = read_byte();
    return vector_layout(map, found_.opcode);
  }

  void read_operands() noexcept {
    const std::uint8_t byte = read_byte();
    const std::uint8_t mode = byte >> 6;
    const std::uint8_t low = byte & 7;
    found_.has_operands = true;
    found_.reg = static_cast<std::uint8_t>((byte >> 3 & 7) | high_reg_);
    if (mode == 3) {
      found_.rm = static_cast<std::uint8_t>(low | high_rm_);
      return;
    }
    bool has_base = true;
    bool has_index = false;
    std::uint8_t base = low;
    if (low == 4) {
      const std::uint8_t scaled = read_byte();
      base = scaled & 7;
      has_index = (scaled >> 3 & 7) != 4 || high_index_;
      has_base = mode != 0 || base != 5;
    } else if (mode == 0 && low == 5) {
      has_base = false;
      found_.is_at_instruction = true;
    }
    if (mode == 1) found_.offset = read<std::int8_t>();
    if (mode == 2 || !has_base) found_.offset = read<std::int32_t>();
    if (has_base && !has_index) found_.base = static_cast<std::uint8_t>(base | high_rm_);
  }

  void read_immediate(std::uint8_t kind) noexcept {
    const bool is_narrow = found_.is_narrow && !found_.is_wide;
    switch (kind) {
      case kByte: found_.immediate = read<std::int8_t>(); break;
      case kTwoBytes: found_.immediate = read<std::int16_t>(); break;
      case kThreeBytes: found_.immediate = read<std::int16_t>(); read_byte(); break;
      case kBranch: found_.immediate = read<std::int32_t>(); break;
      case kAddress:
        found_.immediate = has_short_addresses_ ? read<std::int32_t>() : read<std::int64_t>();
        break;
      case kEntire:
        if (found_.is_wide) {
          found_.immediate = read<std::int64_t>();
          break;
        }
        [[fallthrough]];
      case kFull:
        found_.immediate = is_narrow ? read<std::int16_t>() : read<std::int32_t>();
        break;
      default: break;
    }
  }

  const std::uint8_t* code_;
  std::size_t bytes_;
  std::size_t at_ = 0;
  bool is_cut_ = false;
  bool has_short_addresses_ = false;
  bool high_index_ = false;
  std::uint8_t high_reg_ = 0;
  std::uint8_t high_rm_ = 0;
  Instruction found_;
};

}  // namespace

Instruction decode_instruction(const std::uint8_t* code, std::size_t bytes) noexcept {
  return Decoder(code, bytes).decode();
}

}  // namespace warpline::stack
