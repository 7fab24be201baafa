#include "elf/line_program.h"

#include <algorithm>

namespace warpline {

namespace {

enum : uint8_t {
  kCopy = 1,
  kAdvanceAddress = 2,
  kAdvanceLine = 3,
  kSetFile = 4,
  kAddConstant = 8,
  kAddFixed = 9,
};
enum : uint8_t { kEndSequence = 1, kSetAddress = 2 };

}  // namespace

uint64_t DwarfBytes::read_unsigned() { return read_groups().bits; }

int64_t DwarfBytes::read_signed() {
  Groups number = read_groups();
  if (number.width < 64 && number.is_negative) number.bits |= ~uint64_t{0} << number.width;
  return static_cast<int64_t>(number.bits);
}

DwarfBytes::Groups DwarfBytes::read_groups() {
  Groups number{0, 0, false};
  uint8_t byte;
  do {
    byte = read<uint8_t>();
    if (number.width < 64) number.bits |= uint64_t{byte & 0x7fU} << number.width;
    number.width += 7;
  } while ((byte & 0x80) != 0 && is_sound_);
  number.is_negative = (byte & 0x40) != 0;
  return number;
}

std::string DwarfBytes::read_text() {
  const uint8_t *from = at_;
  skip_text();
  return is_sound_ ? std::string(from, at_ - 1) : std::string();
}

void DwarfBytes::skip_text() {
  const uint8_t *zero = is_sound_ ? std::find(at_, end_, uint8_t{0}) : end_;
  is_sound_ = zero != end_;
  if (is_sound_) at_ = zero + 1;
}

std::optional<LineUnit> LineUnit::read(DwarfBytes bytes, bool is_long) {
  LineUnit unit;
  unit.is_long = is_long;
  unit.version = bytes.read<uint16_t>();
  if (unit.version < 2 || unit.version > 5) return std::nullopt;
  if (unit.version == 5) {
    unit.address_bytes = bytes.read<uint8_t>();
    bytes.read<uint8_t>();  // the size of a segment's number
  }
  const uint64_t head = bytes.read_offset(is_long);
  DwarfBytes rest = bytes;
  rest.skip(head);
  if (!rest.is_sound()) return std::nullopt;
  unit.program = rest;
  DwarfBytes fields(bytes.place(), rest.place());
  unit.step = fields.read<uint8_t>();
  if (unit.version >= 4) fields.read<uint8_t>();  // instructions in a bundle: one, on our processors
  fields.read<uint8_t>();                         // whether rows begin a statement at first
  unit.line_base = fields.read<int8_t>();
  unit.line_range = fields.read<uint8_t>();
  const auto first_special = fields.read<uint8_t>();
  if (!fields.is_sound() || unit.line_range == 0 || first_special == 0) return std::nullopt;
  for (int opcode = 1; opcode < first_special; ++opcode) unit.operands.push_back(fields.read<uint8_t>());
  unit.names = fields;
  return fields.is_sound() ? std::optional(unit) : std::nullopt;
}

bool LineProgram::next(LineRow &row) {
  while (bytes_.has_more()) {
    const auto opcode = bytes_.read<uint8_t>();
    const bool is_row = opcode > unit_.operands.size() ? special(opcode, row)
                        : opcode == 0                  ? extended(row)
                                                       : standard(opcode, row);
    if (!bytes_.is_sound()) return false;
    if (is_row) return true;
  }
  return false;
}

bool LineProgram::special(uint8_t opcode, LineRow &row) {
  const auto number = static_cast<uint8_t>(opcode - unit_.operands.size() - 1);
  advance(number / unit_.line_range);
  advance_line(unit_.line_base + number % unit_.line_range);
  row = now_;
  return true;
}

bool LineProgram::standard(uint8_t opcode, LineRow &row) {
  switch (opcode) {
    case kCopy: row = now_; return true;
    case kAdvanceAddress: advance(bytes_.read_unsigned()); return false;
    case kAdvanceLine: advance_line(bytes_.read_signed()); return false;
    case kSetFile: now_.file = static_cast<uint32_t>(bytes_.read_unsigned()); return false;
    case kAddConstant: advance((255 - unit_.operands.size() - 1) / unit_.line_range); return false;
    case kAddFixed: now_.address += bytes_.read<uint16_t>(); return false;
    default:
      for (uint8_t i = 0; i < unit_.operands[opcode - 1U]; ++i) bytes_.read_unsigned();
      return false;
  }
}

bool LineProgram::extended(LineRow &row) {
  const uint64_t bytes = bytes_.read_unsigned();
  DwarfBytes operation = bytes_;
  bytes_.skip(bytes);
  if (!bytes_.is_sound() || bytes == 0) return false;
  switch (operation.read<uint8_t>()) {
    case kEndSequence:
      row = now_;
      row.is_end = true;
      now_ = {};
      return true;
    case kSetAddress:
      if (bytes == 9) now_.address = operation.read<uint64_t>();
      if (bytes == 5) now_.address = operation.read<uint32_t>();
      return false;
    default: return false;
  }
}

}  // namespace warpline
