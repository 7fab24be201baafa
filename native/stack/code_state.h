// What registers hold at a place of a function, in terms of what they held at an earlier place.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "stack/frame_rules.h"
#include "stack/instruction.h"

namespace warpline::stack {

// The stack pointer or the frame pointer of the earlier place, or a word in memory there, and a number
// that is added.
struct Value {
  enum class Kind : std::uint8_t { kUnknown, kRegister, kMemory };
  Kind kind = Kind::kUnknown;
  std::uint8_t from = 0;     // kRsp or kRbp
  std::int32_t offset = 0;   // of the word in memory, from that register
  std::int32_t added = 0;

  bool operator==(const Value&) const = default;
  Value plus(std::int64_t number) const noexcept;
};

class CodeState {
 public:
  CodeState() noexcept;

  // Executes an instruction that goes on to the next one.
  void execute(const Instruction& instruction) noexcept;
  // A function was called: what it need not keep is unknown.
  void call() noexcept;

  bool knows_stack() const noexcept { return registers_[kRsp].kind != Value::Kind::kUnknown; }
  // The rule of the earlier place, if the function returns now.
  FrameRule rule() const noexcept;

 private:
  struct Stored {
    Value address;
    Value value;
  };
  static constexpr std::size_t kMostStored = 16;

  void execute_plain(const Instruction& instruction) noexcept;
  void execute_group(const Instruction& instruction) noexcept;
  void forget_results(const Instruction& instruction) noexcept;
  void push(const Value& value) noexcept;
  Value pop() noexcept;
  Value address_of(const Instruction& instruction) const noexcept;
  Value load(const Value& address) const noexcept;
  void store(const Value& address, const Value& value) noexcept;

  std::array<Value, 16> registers_;
  std::array<Stored, kMostStored> stored_;  // the latest last
  std::size_t stored_count_ = 0;
};

// The registers that an instruction may write, one bit each, as far as they matter: instructions on
// vectors are not expected to write the stack pointer or the frame pointer.
std::uint32_t written_by(const Instruction& instruction) noexcept;

}  // namespace warpline::stack
