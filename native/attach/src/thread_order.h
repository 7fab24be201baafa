// The threads of a process in the order in which they are to be tried.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <vector>

namespace warpline::attach {

// What stopping a thread for a moment changes.
enum class Disturbance : std::uint8_t {
  kNone,     // it is in a system call that goes on as if it had not been stopped
  kSome,     // the same, but the kernel remembers the rest of a waiting time only until the next such call
  kRunning,  // nothing, but it may be anywhere
  kTimeout,  // it is in a call whose waiting time begins anew
};

struct Candidate {
  pid_t tid;
  Disturbance disturbance;
};

// Threads that cannot be stopped now are left out.
std::vector<Candidate> candidates_of(pid_t pid);

// How long a thread could have run so far, but others had the processors; 0: the kernel does not tell.
std::int64_t queued_ns(pid_t pid, pid_t tid);

// The number that a thread has for its process, in whichever container that is; 0: it has ended.
pid_t own_number(pid_t pid, pid_t tid);

}  // namespace warpline::attach
