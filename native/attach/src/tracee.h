// One thread of another process, stopped and made to run on. To be used by one thread of ours.
#pragma once

#include <sys/ptrace.h>
#include <sys/types.h>
#include <sys/user.h>

#include <cstdint>

namespace warpline::attach {

std::int64_t now_ns() noexcept;
void pause_ns(std::int64_t duration_ns) noexcept;

// No signal is sent to the thread, and its parent is not told. A thread that is not detached goes on when
// the tracing process ends.
class Tracee {
 public:
  enum class Stop : std::uint8_t {
    kStopped,      // by us
    kProgramStopped,  // with its process, such as by Ctrl-Z
    kCall,         // at the begin or end of a system call
    kEnded,
    kLate,
  };

  Tracee(pid_t pid, pid_t tid) : pid_(pid), tid_(tid) {}
  pid_t tid() const noexcept { return tid_; }

  // Returns 0, or a number of errno.
  int seize() noexcept;
  // Stops it where it is. A system call that was cut short and would fail is set to be made again.
  Stop interrupt(std::int64_t deadline_ns) noexcept;
  // Looks whether that has come, where it was late.
  Stop interrupt_again() noexcept { return settle(look()); }
  // Makes a system call with an instruction of the process; returns its result. Changes the registers.
  Stop call_kernel(std::uint64_t instruction, std::uint64_t number, const std::uint64_t (&arguments)[6],
                   std::int64_t& result) noexcept;
  // Lets it run until something happens.
  bool resume() noexcept { return go_on(PTRACE_CONT, 0); }
  // Lets it stay stopped with its process until that is continued.
  bool stay_stopped() noexcept { return go_on(PTRACE_LISTEN, 0); }
  // What has happened; kLate: it runs.
  Stop look() noexcept;
  bool detach() noexcept;

  bool read_registers(user_regs_struct& registers) noexcept;
  bool write_registers(const user_regs_struct& registers) noexcept;
  bool read_signal_mask(std::uint64_t& mask) noexcept;
  bool write_signal_mask(std::uint64_t mask) noexcept;
  // Whether an instruction is in a restartable sequence of the thread, which going elsewhere would break.
  bool is_in_sequence(std::uint64_t instruction) noexcept;
  // Writes words to memory that the process itself may not write.
  bool write_code(std::uint64_t address, const void* code, std::size_t bytes) noexcept;

 private:
  Stop wait(std::int64_t deadline_ns) noexcept;
  Stop settle(Stop stop) noexcept;
  bool go_on(__ptrace_request how, int signal) noexcept;
  bool is_signalled() const noexcept;
  void repeat_cut_call() noexcept;

  pid_t pid_;
  pid_t tid_;
  __ptrace_request how_ = PTRACE_CONT;
};

}  // namespace warpline::attach
