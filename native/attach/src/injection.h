// Calls a function of a library in another process.
#pragma once

#include <string>
#include <vector>

#include "injected_code.h"
#include "program.h"
#include "safe_place.h"
#include "tracee.h"
#include "warpline_attach.h"

namespace warpline::attach {

class Injection {
 public:
  Injection(const wl_attach_call& call, wl_attach_outcome& outcome)
      : call_(call), outcome_(outcome), program_(call.pid), places_(program_) {}

  // Fills the outcome. To be run by a process that ends then: whatever is still traced goes on.
  void run();

 private:
  enum class Look : std::uint8_t { kElsewhere, kCalled, kOver };

  bool read_program();
  void end_without_library();
  bool find_thread();
  bool is_late() const { return now_ns() >= deadline_ns_; }
  void free_late_ones();
  bool is_late_one(pid_t tid) const;
  void rehearse(pid_t tid);
  Look look_at(pid_t tid);
  Look judge(Tracee& tracee, const user_regs_struct& registers, pid_t tid);
  bool has_own_state(const user_regs_struct& registers, pid_t tid) const;
  bool make_thread(Tracee& tracee, const user_regs_struct& registers);
  bool map_memory(Tracee& tracee);
  bool write_memory(Tracee& tracee, const user_regs_struct& registers, std::uint64_t signal_mask);
  bool run_code(Tracee& tracee, const user_regs_struct& registers);
  void wait_for_call();
  void finish_call();
  bool is_set(std::size_t offset, bool& is_there) const;
  std::int64_t end(std::int32_t status, std::int64_t error = 0);

  const wl_attach_call& call_;
  wl_attach_outcome& outcome_;
  Program program_;
  SafePlaces places_;
  LibraryFunctions functions_;
  const char* missing_ = nullptr;  // the first function that is not there
  std::vector<Tracee> late_;
  std::uint64_t memory_ = 0;
  std::int64_t begin_ns_ = 0;
  std::int64_t deadline_ns_ = 0;
  std::int64_t created_ns_ = 0;
};

}  // namespace warpline::attach
