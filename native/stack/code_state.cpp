#include "stack/code_state.h"

#include <algorithm>

namespace warpline::stack {
namespace {

constexpr std::uint8_t kRax = 0, kRcx = 1, kRdx = 2, kRbx = 3, kRsi = 6, kRdi = 7;
constexpr std::uint32_t kPointers = 1u << kRsp | 1u << kRbp;
// What a called function may change, by the calling convention: rax, rcx, rdx, rsi, rdi, r8 to r11.
constexpr std::uint32_t kChangedByCalls = 0x0fc7;

constexpr std::uint32_t bit(std::uint8_t number) {
  return number == kNoRegister ? 0 : 1u << number;
}

// Without REX the bytes 4 to 7 are the second ones of the first registers.
std::uint32_t byte_bit(const Instruction& of, std::uint8_t number) {
  if (number == kNoRegister) return 0;
  return 1u << (of.has_rex || number < 4 || number > 7 ? number : number - 4);
}

std::uint32_t written_by_plain(const Instruction& of) {
  const std::uint8_t op = of.opcode;
  const std::uint8_t part = of.reg & 7;
  if (op < 0x40) {
    if (op >= 0x38) return 0;  // compares
    switch (op & 7) {
      case 0: return byte_bit(of, of.rm);
      case 1: return bit(of.rm);
      case 2: return byte_bit(of, of.reg);
      case 3: return bit(of.reg);
      default: return bit(kRax);
    }
  }
  if (is_among(op, 0x90, 0x97)) return bit(of.rm) | bit(kRax);
  if (is_among(op, 0xa4, 0xaf)) return bit(kRsi) | bit(kRdi) | bit(kRcx) | bit(kRax);
  if (is_among(op, 0xb0, 0xb7)) return byte_bit(of, of.rm);
  if (is_among(op, 0xb8, 0xbf)) return bit(of.rm);
  switch (op) {
    case 0x63: case 0x69: case 0x6b: case 0x8b: case 0x8d: return bit(of.reg);
    case 0x80: return part == 7 ? 0 : byte_bit(of, of.rm);
    case 0x81: case 0x83: return part == 7 ? 0 : bit(of.rm);
    case 0x86: return byte_bit(of, of.rm) | byte_bit(of, of.reg);
    case 0x87: return bit(of.rm) | bit(of.reg);
    case 0x88: case 0xc0: case 0xc6: case 0xd0: case 0xd2: return byte_bit(of, of.rm);
    case 0x89: case 0x8c: case 0x8f: case 0xc1: case 0xc7: case 0xd1: case 0xd3: return bit(of.rm);
    case 0x8a: return byte_bit(of, of.reg);
    case 0x98: case 0x99: return bit(kRax) | bit(kRdx);
    case 0xf6: case 0xf7:
      if (part < 2) return 0;
      return part > 3 ? bit(kRax) | bit(kRdx) : op == 0xf6 ? byte_bit(of, of.rm) : bit(of.rm);
    case 0xfe: return byte_bit(of, of.rm);
    case 0xff: return part < 2 ? bit(of.rm) : 0;
    default: return 0;
  }
}

std::uint32_t written_by_0f(const Instruction& of) {
  const std::uint8_t op = of.opcode;
  const bool is_to_register = is_among(op, 0x40, 0x4f) || op == 0xaf || is_among(op, 0xb6, 0xb8) ||
                              is_among(op, 0xbc, 0xbf);
  if (is_to_register) return bit(of.reg);
  if (is_among(op, 0x90, 0x9f)) return byte_bit(of, of.rm);
  if (is_among(op, 0xc8, 0xcf)) return bit(of.rm);
  switch (op) {
    case 0x01: case 0x05: case 0x31: case 0xa2:
      return bit(kRax) | bit(kRbx) | bit(kRcx) | bit(kRdx);
    case 0xa4: case 0xa5: case 0xab: case 0xac: case 0xad: case 0xb3: case 0xba: case 0xbb:
      return bit(of.rm);
    case 0xb0: case 0xb1: return bit(of.rm) | bit(kRax);
    case 0xc0: case 0xc1: return bit(of.rm) | bit(of.reg);
    default: return (bit(of.reg) | bit(of.rm)) & ~kPointers;  // of vectors, most of them
  }
}

}  // namespace

std::uint32_t written_by(const Instruction& instruction) noexcept {
  if (instruction.map == Instruction::Map::kPlain) return written_by_plain(instruction);
  if (instruction.map == Instruction::Map::k0F) return written_by_0f(instruction);
  return (bit(instruction.reg) | bit(instruction.rm)) & ~kPointers;
}

Value Value::plus(std::int64_t number) const noexcept {
  Value sum = *this;
  const std::int64_t all = added + number;
  if (all < -FrameRule::kMostOffset || all > FrameRule::kMostOffset) return {};
  sum.added = static_cast<std::int32_t>(all);
  return sum;
}

CodeState::CodeState() noexcept {
  registers_[kRsp] = {Value::Kind::kRegister, kRsp, 0, 0};
  registers_[kRbp] = {Value::Kind::kRegister, kRbp, 0, 0};
}

void CodeState::execute(const Instruction& instruction) noexcept {
  if (instruction.map == Instruction::Map::kPlain) {
    execute_plain(instruction);
  } else {
    forget_results(instruction);
  }
}

void CodeState::execute_plain(const Instruction& instruction) noexcept {
  const std::uint8_t op = instruction.opcode;
  const bool is_to_memory = instruction.rm == kNoRegister;
  if (is_among(op, 0x50, 0x57)) return push(registers_[instruction.rm]);
  if (is_among(op, 0x58, 0x5f)) {
    const Value value = pop();
    registers_[instruction.rm] = value;
    return;
  }
  switch (op) {
    case 0x68: case 0x6a: case 0x9c: return push({});
    case 0x9d: pop(); return;
    case 0x81: case 0x83: return execute_group(instruction);
    case 0x89: {
      const Value value = instruction.is_wide ? registers_[instruction.reg] : Value{};
      if (is_to_memory) return store(address_of(instruction), value);
      registers_[instruction.rm] = value;
      return;
    }
    case 0x8b: {
      const Value value = is_to_memory ? load(address_of(instruction)) : registers_[instruction.rm];
      registers_[instruction.reg] = instruction.is_wide ? value : Value{};
      return;
    }
    case 0x8d: {
      const Value value = address_of(instruction);
      registers_[instruction.reg] = instruction.is_wide ? value : Value{};
      return;
    }
    case 0x8f: pop(); return forget_results(instruction);
    case 0xc8: registers_[kRsp] = {}; return;  // `enter`: no compiler writes it
    case 0xc9:
      registers_[kRsp] = registers_[kRbp];
      registers_[kRbp] = pop();
      return;
    case 0xff:
      if ((instruction.reg & 7) == 6) return push({});
      [[fallthrough]];
    default: forget_results(instruction);
  }
}

// Additions and the like of a number.
void CodeState::execute_group(const Instruction& instruction) noexcept {
  const std::uint8_t part = instruction.reg & 7;
  const bool is_followed = instruction.rm != kNoRegister && instruction.is_wide && (part == 0 || part == 5);
  if (!is_followed) return forget_results(instruction);
  Value& value = registers_[instruction.rm];
  value = value.plus(part == 0 ? instruction.immediate : -instruction.immediate);
}

void CodeState::forget_results(const Instruction& instruction) noexcept {
  const std::uint32_t written = written_by(instruction);
  for (std::uint8_t number = 0; number < registers_.size(); ++number) {
    if ((written & bit(number)) != 0) registers_[number] = {};
  }
}

void CodeState::call() noexcept {
  for (std::uint8_t number = 0; number < registers_.size(); ++number) {
    if ((kChangedByCalls & bit(number)) != 0) registers_[number] = {};
  }
}

void CodeState::push(const Value& value) noexcept {
  const Value pushed = value;
  registers_[kRsp] = registers_[kRsp].plus(-8);
  store(registers_[kRsp], pushed);
}

Value CodeState::pop() noexcept {
  const Value value = load(registers_[kRsp]);
  registers_[kRsp] = registers_[kRsp].plus(8);
  return value;
}

Value CodeState::address_of(const Instruction& instruction) const noexcept {
  if (instruction.base == kNoRegister) return {};
  return registers_[instruction.base].plus(instruction.offset);
}

Value CodeState::load(const Value& address) const noexcept {
  if (address.kind != Value::Kind::kRegister) return {};
  for (std::size_t i = stored_count_; i > 0; --i) {
    if (stored_[i - 1].address == address) return stored_[i - 1].value;
  }
  // Below the stack pointer there was nothing yet.
  if (address.from == kRsp && address.added < 0) return {};
  return {Value::Kind::kMemory, address.from, address.added, 0};
}

void CodeState::store(const Value& address, const Value& value) noexcept {
  if (address.kind != Value::Kind::kRegister) return;
  for (std::size_t i = 0; i < stored_count_; ++i) {
    if (stored_[i].address == address) {
      stored_[i].value = value;
      return;
    }
  }
  if (value.kind == Value::Kind::kUnknown) return;  // where something is restored from is not used for others
  if (stored_count_ == kMostStored) {
    registers_[kRsp] = {};
    return;
  }
  stored_[stored_count_++] = {address, value};
}

FrameRule CodeState::rule() const noexcept {
  using Base = FrameRule::Base;
  const Value stack = registers_[kRsp].plus(8);  // behind the return address
  const Value& frame = registers_[kRbp];
  const bool is_kept = frame == Value{Value::Kind::kRegister, kRbp, 0, 0};
  FrameRule found;
  if (stack.kind == Value::Kind::kRegister) {
    if (stack.added <= 0 && stack.from == kRsp) return {};
    found.base = stack.from == kRsp ? Base::kStackPointer : Base::kFramePointer;
    found.offset = stack.added;
    if (is_kept) return found;
    const bool is_saved = frame.kind == Value::Kind::kMemory && frame.from == stack.from && frame.added == 0 &&
                          frame.offset < stack.added;
    found.frame_pointer = frame.offset - stack.added;
    return is_saved ? found : FrameRule{};
  }
  if (stack.kind != Value::Kind::kMemory || stack.added < 0 || stack.added % 8 != 0) return {};
  const bool is_from_frame = stack.from == kRbp;
  const bool is_frame_known = is_from_frame ? frame == Value{Value::Kind::kMemory, kRbp, 0, 0} : is_kept;
  if (!is_frame_known || stack.added / 8 > FrameRule::kMostAdded) return {};
  found.base = is_from_frame ? Base::kAtFramePointer : Base::kAtStackPointer;
  found.offset = stack.offset;
  found.added_words = static_cast<std::uint8_t>(stack.added / 8);
  return found;
}

}  // namespace warpline::stack
