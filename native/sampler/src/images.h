// The processes of a program, each as often as it executed a program, and their threads.
#pragma once

#include <linux/perf_event.h>
#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

#include "code_map.h"
#include "elf_file.h"
#include "raw_log.h"

namespace warpline::sampler {

// A thread, and where it stopped, until it goes on.
struct Thread {
  char name[16] = {};
  bool is_off = false;
  bool is_blocked = false;      // rather than preempted
  bool is_in_fault = false;     // blocked because a page was missing
  bool is_assumed = false;      // that it is off: it was when it was looked at, but no record says so
  std::uint64_t off_ns = 0;
  std::uint32_t cpu = 0;
  std::uint64_t looked_at_ns = 0;  // when the stack below was read
  std::uint64_t chain = 0;      // where it is blocked, 0: not known
  std::uint64_t instruction = 0;
};

// A process from its fork or exec to the next exec, or its end.
struct Image {
  std::uint32_t pid = 0;
  std::uint32_t ppid = 0;
  std::uint64_t incarnation = 0;
  std::uint64_t read_ns = 0;  // when it was read from /proc; 0: records say all of it
  std::uint32_t forked_from_pid = 0;
  std::uint64_t forked_from_incarnation = 0;
  std::string executable;
  CodeMap code;
  bool has_kernel = false;  // the log has the kernel as a module
  bool may_have_python = false;  // it has mapped a file with such a name
  std::unordered_map<std::uint32_t, Thread> threads;
  std::unique_ptr<RawLog> log;    // from its first record on
  std::uint32_t last_tid = 0;     // of the log's last Thread record

  explicit Image(std::uint32_t of_pid, std::uint64_t time_ns) : pid(of_pid), incarnation(time_ns) {}

  RawLog& open_log(const std::string& folder);
  // Makes what follows in the log a thread's.
  void write_thread(const std::string& folder, std::uint32_t tid, std::uint64_t time_ns);
};

class Images {
 public:
  // Takes in a record about processes, threads and code. `on_end` is called with an image that ends.
  template <class OnEnd>
  void take(const perf_event_header& header, std::uint64_t time_ns, OnEnd&& on_end);

  Image& of(std::uint32_t pid, std::uint64_t time_ns) {
    const auto found = images_.find(pid);
    if (found != images_.end()) return found->second;
    return images_.try_emplace(pid, pid, time_ns).first->second;
  }

  // Takes in that code was mapped: a part of a file, or with number 0 none.
  void map(Image& image, CodeMapping mapping, std::uint64_t file_offset, dev_t device, ino_t number);

  // Whether any image had a file of Python's.
  bool has_seen_python() const noexcept { return has_seen_python_; }

  std::unordered_map<std::uint32_t, Image>& all() noexcept { return images_; }
  ElfFiles& files() noexcept { return files_; }

 private:
  void on_mmap(const perf_event_header& header, std::uint64_t time_ns);
  void on_fork(const perf_event_header& header, std::uint64_t time_ns);

  std::unordered_map<std::uint32_t, Image> images_;
  bool has_seen_python_ = false;
  ElfFiles files_;
};

struct TaskRecord {
  perf_event_header header;
  std::uint32_t pid, ppid;
  std::uint32_t tid, ptid;
};
struct NameRecord {
  perf_event_header header;
  std::uint32_t pid, tid;
  char name[16];
};

template <class OnEnd>
void Images::take(const perf_event_header& header, std::uint64_t time_ns, OnEnd&& on_end) {
  switch (header.type) {
    case PERF_RECORD_MMAP2: on_mmap(header, time_ns); break;
    case PERF_RECORD_FORK: on_fork(header, time_ns); break;
    case PERF_RECORD_COMM: {
      const auto& record = reinterpret_cast<const NameRecord&>(header);
      if ((header.misc & PERF_RECORD_MISC_COMM_EXEC) != 0) {
        const auto old = images_.find(record.pid);
        const std::uint32_t ppid = old == images_.end() ? 0 : old->second.ppid;
        if (old != images_.end()) {
          on_end(old->second, time_ns);
          images_.erase(old);
        }
        of(record.pid, time_ns).ppid = ppid;
      }
      Image& image = of(record.pid, time_ns);
      Thread& thread = image.threads[record.tid];
      const std::size_t room = header.size - sizeof header - 8 - 24;
      for (std::size_t i = 0; i < sizeof thread.name; ++i) {
        thread.name[i] = i < room ? record.name[i] : '\0';
      }
      if (image.last_tid == record.tid) image.last_tid = 0;  // written again, with its name
      break;
    }
    case PERF_RECORD_EXIT: {
      const auto& record = reinterpret_cast<const TaskRecord&>(header);
      const auto found = images_.find(record.pid);
      if (found == images_.end()) break;
      found->second.threads.erase(record.tid);
      if (found->second.threads.empty()) {
        on_end(found->second, time_ns);
        images_.erase(found);
      }
      break;
    }
    default: break;
  }
}

}  // namespace warpline::sampler
