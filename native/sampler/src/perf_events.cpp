#include "perf_events.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <iterator>
#include <string>
#include <utility>

namespace warpline::sampler {
namespace {

// Who may lock memory gets rings for a quarter of a second at 1 kHz, as the first look at a large library
// takes the reader that long; all of them together are limited. An unprivileged user may lock half a
// megabyte for each CPU (perf_event_mlock_kb): 30 samples with their stacks. Where that is used up, smaller
// rings must do.
constexpr std::size_t kMostRingBytes = 4 << 20;
constexpr std::size_t kLeastRingBytes = 64 << 10;
constexpr std::size_t kAllRingsBytes = 128 << 20;

#if defined(__x86_64__)
// rbx, rbp, rsp, rip, r12 to r15: they are recorded in this order.
constexpr std::uint64_t kRegisters = 1u << 1 | 1u << 6 | 1u << 7 | 1u << 8 | 0xfu << 20;
constexpr std::size_t kRegisterCount = 8;
constexpr std::size_t kFrame = 1, kStack = 2, kInstruction = 3;  // of these
constexpr std::size_t kKept[] = {1, 0, 4, 5, 6, 7};              // in the order of KeptRegisters
#elif defined(__aarch64__)
constexpr std::uint64_t kRegisters = 1ull << 29 | 1ull << 31 | 1ull << 32;  // fp, sp, pc
constexpr std::size_t kRegisterCount = 3;
constexpr std::size_t kFrame = 0, kStack = 1, kInstruction = 2;
constexpr std::size_t kKept[] = {0};
#else
#error "sampling needs the numbers of this machine's registers"
#endif

// The numbers in a list such as 0-3,8.
std::vector<int> online_cpus() {
  char text[4096];
  const int file = ::open("/sys/devices/system/cpu/online", O_RDONLY | O_CLOEXEC);
  const ssize_t bytes = file < 0 ? -1 : read(file, text, sizeof text - 1);
  if (file >= 0) close(file);
  std::vector<int> cpus;
  if (bytes <= 0) return {0};
  text[bytes] = '\0';
  for (const char* at = text; *at >= '0' && *at <= '9';) {
    char* end = nullptr;
    const long first = strtol(at, &end, 10);
    const long last = *end == '-' ? strtol(end + 1, &end, 10) : first;
    for (long cpu = first; cpu <= last; ++cpu) cpus.push_back(static_cast<int>(cpu));
    at = *end == ',' ? end + 1 : end;
  }
  return cpus;
}

// Of an event that counts nothing.
perf_event_attr attributes_of_ring() {
  perf_event_attr attributes{};
  attributes.size = sizeof attributes;
  attributes.type = PERF_TYPE_SOFTWARE;
  attributes.config = PERF_COUNT_SW_DUMMY;
  attributes.exclude_kernel = 1;
  attributes.exclude_hv = 1;
  attributes.disabled = 1;
  attributes.use_clockid = 1;
  attributes.clockid = CLOCK_MONOTONIC;
  return attributes;
}

perf_event_attr attributes_of(const EventOptions& options, bool has_kernel) {
  perf_event_attr attributes = attributes_of_ring();
  attributes.config = options.period_ns != 0 ? PERF_COUNT_SW_CPU_CLOCK : PERF_COUNT_SW_DUMMY;
  attributes.sample_period = options.period_ns;
  attributes.sample_type =
      PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_ID | PERF_SAMPLE_CPU;
  if (has_kernel) {
    attributes.sample_type |= PERF_SAMPLE_CALLCHAIN;
    attributes.exclude_callchain_user = 1;
  }
  if (options.has_stacks) {
    attributes.sample_type |= PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER;
    attributes.sample_regs_user = kRegisters;
    attributes.sample_stack_user = PerfEvents::kStackBytes;
  }
  attributes.exclude_kernel = !has_kernel;
  attributes.disabled = 0;
  attributes.inherit = 1;
  attributes.mmap = 1;
  attributes.mmap2 = 1;
  attributes.comm = 1;
  attributes.comm_exec = 1;
  attributes.task = 1;
  attributes.context_switch = options.has_switches;
  attributes.sample_id_all = 1;
  // Every sample wakes the reader, if it waits: what Python's frames have in them changes soon. Being woken
  // for each costs a program some CPU time, so others are not.
  attributes.wakeup_events = options.wakes_each;
  return attributes;
}

int open_event(const perf_event_attr& attributes, pid_t pid, int cpu) {
  return static_cast<int>(syscall(SYS_perf_event_open, &attributes, pid, cpu, -1,
                                  PERF_FLAG_FD_CLOEXEC));
}

}  // namespace

Ring::Ring(int file, int cpu, void* mapped, std::size_t bytes) noexcept
    : file_(file),
      cpu_(cpu),
      page_(static_cast<perf_event_mmap_page*>(mapped)),
      data_(static_cast<const std::byte*>(mapped) + page_->data_offset),
      data_bytes_(page_->data_size),
      mapped_bytes_(bytes) {}

Ring::Ring(Ring&& other) noexcept
    : file_(std::exchange(other.file_, -1)),
      cpu_(other.cpu_),
      page_(std::exchange(other.page_, nullptr)),
      data_(other.data_),
      data_bytes_(other.data_bytes_),
      mapped_bytes_(other.mapped_bytes_),
      head_(other.head_),
      tail_(other.tail_),
      whole_(std::move(other.whole_)) {}

Ring::~Ring() {
  if (page_ != nullptr) munmap(page_, mapped_bytes_);
  if (file_ >= 0) close(file_);
}

void Ring::refresh() noexcept { head_ = __atomic_load_n(&page_->data_head, __ATOMIC_ACQUIRE); }

const perf_event_header* Ring::peek() noexcept {
  if (tail_ >= head_) return nullptr;
  const std::size_t at = tail_ % data_bytes_;
  const auto* header = reinterpret_cast<const perf_event_header*>(data_ + at);
  const std::size_t until_end = data_bytes_ - at;
  if (header->size <= until_end) return header;
  whole_.resize((header->size + 7u) / 8);
  auto* copy = reinterpret_cast<std::byte*>(whole_.data());
  std::memcpy(copy, data_ + at, until_end);
  std::memcpy(copy + until_end, data_, header->size - until_end);
  return reinterpret_cast<const perf_event_header*>(copy);
}

void Ring::drop() noexcept {
  const auto* header =
      reinterpret_cast<const perf_event_header*>(data_ + tail_ % data_bytes_);
  // A header is never torn: records are multiples of 8 bytes.
  tail_ += header->size;
}

void Ring::release() noexcept { __atomic_store_n(&page_->data_tail, tail_, __ATOMIC_RELEASE); }

PerfEvents::Opened& PerfEvents::Opened::operator=(Opened&& other) noexcept {
  if (this == &other) return *this;
  close();
  doubtful = std::move(other.doubtful);
  files_ = std::exchange(other.files_, {});
  places_ = std::move(other.places_);
  is_closed_ = other.is_closed_;
  return *this;
}

void PerfEvents::Opened::add(int file, std::uint64_t number) {
  places_.emplace(number, files_.size());
  files_.push_back(file);
}

void PerfEvents::Opened::close(std::size_t first, std::size_t count) noexcept {
  for (std::size_t i = 0; i < count && first + i < files_.size(); ++i) {
    const int file = std::exchange(files_[first + i], -1);
    if (file >= 0) ::close(file);
  }
  if (first == 0 && count == SIZE_MAX) is_closed_ = true;
}

int PerfEvents::open(const EventOptions& options) {
  options_ = options;
  has_kernel_ = options.period_ns != 0;
  const perf_event_attr attributes = attributes_of_ring();
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::vector<int> cpus = online_cpus();
  std::size_t ring_bytes = kMostRingBytes;
  while (ring_bytes > kLeastRingBytes && ring_bytes * cpus.size() > kAllRingsBytes) ring_bytes /= 2;
  for (const int cpu : cpus) {
    const int file = open_event(attributes, 0, cpu);
    if (file < 0 && errno == ENODEV) continue;  // it went offline
    if (file < 0) return errno;
    void* mapped = MAP_FAILED;
    while (true) {
      mapped = mmap(nullptr, page + ring_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
      if (mapped != MAP_FAILED || ring_bytes <= kLeastRingBytes) break;
      ring_bytes /= 2;
    }
    if (mapped == MAP_FAILED) {
      const int error = errno;
      close(file);
      return error;
    }
    rings_.emplace_back(file, cpu, mapped, page + ring_bytes);
  }
  return rings_.empty() ? ENODEV : 0;
}

int PerfEvents::watch_from_exec(pid_t pid) { return open_events(pid, true); }

int PerfEvents::watch(pid_t tid, bool may_inherit) {
  const std::size_t first = events_.count();
  const int error = open_events(tid, false);
  if (error == 0 && may_inherit) {
    const Doubtful doubtful{.first = first, .count = events_.count() - first};
    events_.doubtful.insert_or_assign(static_cast<std::uint32_t>(tid), doubtful);
  }
  return error;
}

int PerfEvents::open_events(pid_t tid, bool is_from_exec) {
  const bool is_first = events_.count() == 0 && former_.count() == 0;
  const std::size_t first = events_.count();
  int error = 0;
  for (std::size_t i = 0; i < rings_.size() && error == 0; ++i) {
    const auto open_one = [&] {
      perf_event_attr attributes = attributes_of(options_, has_kernel_);
      attributes.disabled = attributes.enable_on_exec = is_from_exec;
      return open_event(attributes, tid, rings_[i].cpu());
    };
    int file = open_one();
    if (file < 0 && (errno == EACCES || errno == EPERM) && is_first && i == 0 && has_kernel_) {
      has_kernel_ = false;  // as for all that follow
      file = open_one();
    }
    if (file < 0 && errno == ENODEV) continue;
    std::uint64_t number = 0;
    const bool is_ready = file >= 0 &&
                          ioctl(file, PERF_EVENT_IOC_SET_OUTPUT, rings_[i].file()) == 0 &&
                          ioctl(file, PERF_EVENT_IOC_ID, &number) == 0;
    if (!is_ready) error = errno;
    if (file >= 0) events_.add(file, number);
  }
  if (error != 0) events_.close(first, events_.count() - first);
  return error;
}

bool PerfEvents::counts(const perf_event_header& header) {
  if (header.type == PERF_RECORD_LOST) return true;
  if (events_.doubtful.empty() && former_.count() == 0) return true;
  std::uint32_t tid = 0;
  std::uint64_t event = 0;
  if (header.type == PERF_RECORD_SAMPLE) {
    if (header.size < sizeof header + 32) return true;
    const auto* words = reinterpret_cast<const std::uint64_t*>(&header + 1);
    tid = static_cast<std::uint32_t>(words[1] >> 32);
    event = words[3];
  } else {
    const RecordIdentity identity = identity_of(header);
    tid = identity.tid;
    event = identity.event;
  }
  if (former_.count() != 0) {
    const bool is_former = former_.has(event);
    if (is_former != (time_of(header) < changed_ns_)) return false;
    if (is_former) return true;
  }
  const auto found = events_.doubtful.find(tid);
  if (found == events_.doubtful.end()) return true;
  Doubtful& thread = found->second;
  const bool is_own = events_.has(event, thread);
  if (!is_own && !thread.is_given_up) {
    thread.is_given_up = true;
    events_.close(thread.first, thread.count);
  }
  const bool is_counted = !is_own || !thread.is_given_up;
  // Another thread may get its number later.
  if (header.type == PERF_RECORD_EXIT && is_counted) events_.doubtful.erase(found);
  return is_counted;
}

RecordIdentity identity_of(const perf_event_header& header) noexcept {
  RecordIdentity found{};
  if (header.size >= sizeof header + sizeof found) {
    std::memcpy(&found, reinterpret_cast<const std::byte*>(&header) + header.size - sizeof found,
                sizeof found);
  }
  return found;
}

std::uint64_t time_of(const perf_event_header& header) noexcept {
  if (header.type != PERF_RECORD_SAMPLE) return identity_of(header).time_ns;
  std::uint64_t time_ns = 0;
  constexpr std::size_t kAt = sizeof header + 16;  // behind the instruction, pid and tid
  if (header.size >= kAt + 8) {
    std::memcpy(&time_ns, reinterpret_cast<const std::byte*>(&header) + kAt, sizeof time_ns);
  }
  return time_ns;
}

bool read_sample(const perf_event_header& header, const PerfEvents& events,
                 SampleRecord& found) noexcept {
  const auto* words = reinterpret_cast<const std::uint64_t*>(&header + 1);
  std::size_t left = (header.size - sizeof header) / 8;
  const auto take = [&](std::size_t count) -> const std::uint64_t* {
    if (count > left) return nullptr;
    const std::uint64_t* at = words;
    words += count;
    left -= count;
    return at;
  };
  const std::uint64_t* head = take(5);
  if (head == nullptr) return false;
  found.instruction = head[0];
  found.pid = static_cast<std::uint32_t>(head[1]);
  found.tid = static_cast<std::uint32_t>(head[1] >> 32);
  found.time_ns = head[2];
  found.cpu = static_cast<std::uint32_t>(head[4]);
  if (events.has_kernel()) {
    const std::uint64_t* count = take(1);
    found.kernel_count = count == nullptr ? 0 : *count;
    found.kernel = take(found.kernel_count);
    if (count == nullptr || (found.kernel == nullptr && found.kernel_count != 0)) return false;
  }
  if (!events.has_stacks()) return true;
  const std::uint64_t* abi = take(1);
  if (abi == nullptr) return false;
  if (*abi == PERF_SAMPLE_REGS_ABI_64) {
    const std::uint64_t* registers = take(kRegisterCount);
    if (registers == nullptr) return false;
    found.registers = {registers[kInstruction], registers[kStack], registers[kFrame]};
    for (std::size_t i = 0; i < std::size(kKept); ++i) {
      found.kept.values[i] = registers[kKept[i]];
      found.kept.are_known[i] = true;
    }
    found.has_registers = true;
  } else if (*abi != PERF_SAMPLE_REGS_ABI_NONE) {
    return take(kRegisterCount) != nullptr;  // of a program of 32 bits
  }
  const std::uint64_t* bytes = take(1);
  if (bytes == nullptr || *bytes == 0) return true;
  const std::uint64_t* stack = take(*bytes / 8);
  const std::uint64_t* used = take(1);
  if (stack == nullptr || used == nullptr || *used > *bytes) return false;
  found.stack = reinterpret_cast<const std::byte*>(stack);
  found.stack_bytes = *used;
  return true;
}

}  // namespace warpline::sampler
