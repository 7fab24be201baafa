// The kernel's events: which are counted for a program, and the rings that they are written to.
#pragma once

#include <linux/perf_event.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "clock.h"
#include "unwinding.h"

namespace warpline::sampler {

struct EventOptions {
  std::uint64_t period_ns = 0;  // 0: no samples
  bool has_stacks = false;
  bool has_switches = false;
  bool wakes_each = false;  // each sample wakes the reader; otherwise a ring that is half full does
};

// One ring of records, of one CPU. Its owner reads them in place. It belongs to an event of this process that
// counts nothing, so that it outlives every thread that is watched.
class Ring {
 public:
  Ring(int file, int cpu, void* mapped, std::size_t bytes) noexcept;
  Ring(Ring&& other) noexcept;
  Ring& operator=(Ring&&) = delete;
  ~Ring();

  // Looks for records that were written meanwhile.
  void refresh() noexcept;
  // The next record, valid until `drop`; null: none. One that wraps around the end is copied.
  const perf_event_header* peek() noexcept;
  void drop() noexcept;
  // Gives the room of dropped records back to the kernel.
  void release() noexcept;

  int file() const noexcept { return file_; }
  int cpu() const noexcept { return cpu_; }

 private:
  int file_;
  int cpu_;
  perf_event_mmap_page* page_;
  const std::byte* data_;
  std::size_t data_bytes_;
  std::size_t mapped_bytes_;
  std::uint64_t head_ = 0;
  std::uint64_t tail_ = 0;
  std::vector<std::uint64_t> whole_;  // of a record that wraps around
};

struct RecordIdentity;

// The events of threads and of all that they start: one for each CPU, which writes to that CPU's ring.
class PerfEvents {
 public:
  // Makes the rings. This and the next two return 0, or a number of errno.
  int open(const EventOptions& options);
  // Watches a process from its next exec on.
  int watch_from_exec(pid_t pid);
  // Watches a thread that runs. If a watched one may have started it meanwhile, it may have inherited
  // events: as soon as one of these writes, the thread's own are given up.
  int watch(pid_t tid, bool may_inherit);

  // Replaces all events by others, of which each sample wakes the reader. `watch_all` is to watch all threads
  // again. If it returns an error, all stays as it is. No record is lost or counted twice.
  template <class WatchAll>
  void wake_each(const WatchAll& watch_all) {
    options_.wakes_each = true;
    former_ = std::exchange(events_, {});
    if (watch_all() != 0) {
      events_ = std::exchange(former_, {});
      return;
    }
    changed_ns_ = now_ns();
    former_.close();
  }

  // Whether a record counts: false if the same is written by an event that the thread has inherited.
  bool counts(const perf_event_header& header);
  // All records up to a time have been read.
  void have_read(std::uint64_t until_ns) {
    if (until_ns > changed_ns_ && former_.is_closed()) former_ = {};
  }

  std::vector<Ring>& rings() noexcept { return rings_; }
  bool has_kernel() const noexcept { return has_kernel_; }
  bool has_stacks() const noexcept { return options_.has_stacks; }
  bool wakes_each() const noexcept { return options_.wakes_each; }

  static constexpr std::uint32_t kStackBytes = 16 << 10;

 private:
  // A thread that may have inherited events beside its own.
  struct Doubtful {
    std::size_t first = 0;  // of its own events, which follow each other
    std::size_t count = 0;
    bool is_given_up = false;
  };
  // Events that were opened, and are inherited.
  class Opened {
   public:
    Opened() = default;
    Opened(Opened&& other) noexcept = default;
    Opened& operator=(Opened&& other) noexcept;
    ~Opened() { close(); }

    void add(int file, std::uint64_t number);
    void close(std::size_t first = 0, std::size_t count = SIZE_MAX) noexcept;
    bool is_closed() const noexcept { return is_closed_ && !files_.empty(); }
    std::size_t count() const noexcept { return files_.size(); }
    bool has(std::uint64_t number) const { return places_.contains(number); }
    bool has(std::uint64_t number, const Doubtful& of) const {
      const auto place = places_.find(number);
      return place != places_.end() && place->second - of.first < of.count;
    }

    std::unordered_map<std::uint32_t, Doubtful> doubtful;  // by thread

   private:
    std::vector<int> files_;  // -1: closed
    std::unordered_map<std::uint64_t, std::size_t> places_;  // of events, by number
    bool is_closed_ = false;
  };

  int open_events(pid_t tid, bool is_from_exec);

  EventOptions options_;
  std::vector<Ring> rings_;
  Opened events_;
  Opened former_;  // what they have replaced, as long as there may be records of it
  std::uint64_t changed_ns_ = 0;
  bool has_kernel_ = false;
};

// ---- records

struct SampleRecord {
  std::uint64_t instruction = 0;
  std::uint32_t pid = 0;
  std::uint32_t tid = 0;
  std::uint64_t time_ns = 0;
  std::uint32_t cpu = 0;
  const std::uint64_t* kernel = nullptr;  // instructions within the kernel, innermost first
  std::size_t kernel_count = 0;
  bool has_registers = false;
  stack::Registers registers{};
  KeptRegisters kept;
  const std::byte* stack = nullptr;       // from the stack pointer on
  std::size_t stack_bytes = 0;
};

// What ends every other record.
struct RecordIdentity {
  std::uint32_t pid;
  std::uint32_t tid;
  std::uint64_t time_ns;
  std::uint64_t event;  // that which was inherited by the one that wrote it
  std::uint32_t cpu;
  std::uint32_t reserved;
};

// Reads a sample; false: it is damaged.
bool read_sample(const perf_event_header& header, const PerfEvents& events,
                 SampleRecord& found) noexcept;
// Of any record but a sample.
RecordIdentity identity_of(const perf_event_header& header) noexcept;
std::uint64_t time_of(const perf_event_header& header) noexcept;

}  // namespace warpline::sampler
