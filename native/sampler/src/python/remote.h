// Python's stacks of other processes, read without stopping them.
//
// The kernel copies what a stack is made of (process_vm_readv); the program runs on meanwhile. A stack
// counts as of one moment if the thread's innermost frame is the same before and after the copy, which
// takes about a microsecond; otherwise it is read again, a few times at most: to try longer would prefer
// functions that run longer.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "python/remote_build.h"
#include "python/remote_memory.h"
#include "stack/python_frames.h"
#include "unwinding.h"

namespace warpline::sampler {

struct RemotePythonStack : stack::PythonStack {
  bool is_whole = false;    // to the thread's first frame
  bool is_settled = false;  // of one moment
};

// A thread of Python. One that is in a subinterpreter has a state of each that it is in.
struct RemoteThread {
  pid_t tid = 0;
  std::uint64_t state = 0;
  std::uint64_t gil = 0;  // the address of its interpreter's
};

// A global interpreter lock.
struct RemoteGil {
  std::uint64_t address = 0;
  pid_t holder = 0;  // 0: none
};

struct RemoteCounts {
  std::uint64_t read = 0;       // stacks
  std::uint64_t failed = 0;     // stacks that could not be read
  std::uint64_t cut = 0;        // those without their outer frames
  std::uint64_t unsettled = 0;  // those not of one moment

  void add(const RemoteCounts& other) noexcept {
    read += other.read;
    failed += other.failed;
    cut += other.cut;
    unsettled += other.unsettled;
  }
};

// The interpreter of one process image.
class RemotePython {
 public:
  explicit RemotePython(pid_t pid) noexcept : pid_(pid), memory_(pid) {}

  // Looks for an interpreter; false without one whose stacks can be read.
  bool find();
  // Why they cannot be, or null.
  const char* problem() const noexcept { return problem_; }

  // Reads the stack of a thread. False where it is no thread of Python, or cannot be read; a thread that
  // is not in Python has a stack of no frames.
  bool read(pid_t tid, RemotePythonStack& stack);

  // Lists the threads of Python anew. False if the process, or its interpreter, is gone.
  bool list_threads();
  // Whether that list has all of them still. Threads are added at its head.
  bool are_threads_listed() noexcept;
  const std::vector<RemoteThread>& threads() const noexcept { return threads_; }

  // Reads the GIL that threads have the address of. False where it cannot be read.
  bool read_gil(std::uint64_t address, RemoteGil& gil) const;

  // Reads the code with a number, at its address: both are of a stack that was just read. `room` has
  // space for PythonCode::kMostBytes. False where another code is there by now.
  bool read_code(std::uint64_t number, std::uint64_t address, stack::PythonCode& code, char* room);

  // ---- for stacks whose frames are known

  const RemoteBuild& build() const noexcept { return build_; }
  CodeRange evaluator() const noexcept { return {build_.evaluator, build_.evaluator_end}; }
  RemoteMemory& memory() noexcept { return memory_; }
  // Numbers the code of a stack's frames. False if something is not as expected.
  bool number_frames(RemotePythonStack& stack);
  // Where the instructions of a code object are; nowhere if it is none.
  CodeRange range_of(std::uint64_t code);
  // The code object that an instruction is in, of those that were seen, or of all; 0: none.
  std::uint64_t code_with(std::uint64_t next, bool is_known);
  // Copies the frames that a thread runs now, innermost first, with those of C. `memory` has them from then
  // on. False where that is not possible.
  bool copy_active(pid_t tid, std::vector<std::uint64_t>& frames);

  const RemoteCounts& counts() const noexcept { return counts_; }

 private:
  struct KnownStack {  // where the last one of a thread state lay
    std::uint64_t link = 0;
    RemoteMemory::Pages pages;
  };
  struct KnownCode {
    std::uint64_t told[4] = {};  // by its object: file, name, lines, first line and version
    std::uint64_t number = 0;
    CodeRange range;
  };

  const RemoteThread* thread_of(pid_t tid);
  bool read_state(const RemoteThread& thread, RemotePythonStack& stack);
  bool begin_copy(const RemoteThread& thread, KnownStack& known);
  bool try_state(const RemoteThread& thread, KnownStack& known, RemotePythonStack& stack);
  bool number_of(std::uint64_t address, const char* code, std::uint64_t& number);
  void find_range(std::uint64_t address, const char* code, CodeRange& range);
  bool add_states(std::uint64_t interpreter);
  std::uint64_t gil_of(std::uint64_t interpreter) const;
  bool name_threads();
  bool find_tid_offset();

  pid_t pid_;
  RemoteBuild build_;
  const char* problem_ = nullptr;
  bool is_proven_ = false;  // a walk has come to the end of a stack
  RemoteMemory memory_;
  Anchor anchors_[RemoteMemory::kMostAnchors];
  std::vector<RemoteThread> threads_;
  std::vector<std::uint64_t> heads_;    // of the lists that were followed, and what they were
  std::vector<std::uint64_t> head_places_;
  std::vector<std::uint64_t> handles_;  // of threads_, as Python has them
  std::uint64_t listed_ns_ = 0;
  std::int32_t tid_offset_ = -1;  // in what the C library's thread number points to
  std::unordered_map<std::uint64_t, KnownStack> stacks_;  // by state
  std::unordered_map<std::uint64_t, KnownCode> code_;     // by address
  std::map<std::uint64_t, std::uint64_t> ranges_;         // of code: where it ends, its address
  RemoteCounts counts_;
};

// The interpreters of processes.
class RemotePythons {
 public:
  // Looks for an interpreter in a process, after its start or exec, or when it has mapped a file. Returns
  // it, or null without one that can be read; `problem` then says why, if there is one.
  RemotePython* look_at(pid_t pid, const char*& problem);
  RemotePython* find(pid_t pid) const noexcept;
  void forget(pid_t pid) noexcept;
  RemoteCounts counts() const noexcept;

  // Reads the stack of a thread, as RemotePython does; false also for a process without Python.
  bool read(pid_t pid, pid_t tid, RemotePythonStack& stack) {
    RemotePython* python = find(pid);
    return python != nullptr && python->read(tid, stack);
  }

 private:
  std::unordered_map<pid_t, std::unique_ptr<RemotePython>> pythons_;
  RemoteCounts ended_;  // of those that were forgotten
};

}  // namespace warpline::sampler
