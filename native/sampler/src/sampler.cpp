#include "sampler.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <ctime>
#include <string_view>

#include "blocked_place.h"
#include "clock.h"
#include "running.h"
#include "waiter.h"
#include "warpline_cuda.h"

namespace warpline::sampler {
namespace {

constexpr std::uint64_t kTurnNs = 100'000;
constexpr std::uint64_t kLateNs = 10'000'000;
// Reading Python's stacks takes at most this share of the time that is sampled, 1 in so many, but for what
// was saved up.
constexpr std::uint64_t kMostPythonShare = 20;
constexpr std::int64_t kMostRoomNs = 100'000'000;
constexpr std::uint64_t kFlushNs = 500'000'000;
constexpr std::uint64_t kTickNs = 2'000'000;
constexpr std::uint64_t kLongestRestNs = 100'000'000;
// Threads that are blocked for longer have a stack. Reading one takes some 30 us.
constexpr std::uint64_t kLongNs = 1'000'000;
constexpr double kLooksPerSecond = 500;
constexpr double kMostLooks = 100;
constexpr std::size_t kMostBlocked = std::size_t{1} << 16;
// States of threads, as the schema numbers them.
constexpr std::uint8_t kRunning = 1, kInterruptible = 2, kUninterruptible = 3, kTerminated = 5;
constexpr std::uint64_t kKernelBegin = std::uint64_t{1} << 63;

std::uint64_t chain_number(const std::vector<std::uint64_t>& words) {
  std::uint64_t hash = words.size();
  for (const std::uint64_t word : words) {
    hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 29;
  }
  return hash == 0 ? 1 : hash;
}

const raw::ControlPage* map_control(const std::string& folder) {
  const int file = open((folder + "/control").c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return nullptr;
  void* page = mmap(nullptr, raw::kControlBytes, PROT_READ, MAP_SHARED, file, 0);
  close(file);
  if (page == MAP_FAILED) return nullptr;
  return static_cast<const raw::ControlPage*>(page);
}

}  // namespace

int Sampler::open(const wl_sampler_options& options) {
  folder_ = options.folder == nullptr ? "" : options.folder;
  by_frame_pointers_ = options.backtrace == WL_SAMPLER_FRAME_POINTERS;
  period_ns_ = static_cast<std::uint64_t>(options.period_ns);
  has_switches_ = options.has_switches != 0;
  running_.assign(options.running, options.running + options.running_count);
  if (!folder_.empty()) control_ = map_control(folder_);
  const bool has_perf = period_ns_ != 0 || has_switches_;
  if (options.python != 0) {
    // Without perf events nobody tells which processes there are.
    WallClock::Roots roots;
    if (!has_perf && running_.empty()) roots = {.pids = {options.pid}, .will_exec = true};
    if (!has_perf && !running_.empty()) roots = {.pids = running_};
    python_ = std::make_unique<WallClock>(
        images_, folder_,
        WallClock::Wanted{.period_ns = static_cast<std::uint64_t>(options.python_period_ns),
                          .has_samples = (options.python & WL_SAMPLER_PYTHON_SAMPLES) != 0,
                          .has_gil = (options.python & WL_SAMPLER_PYTHON_GIL) != 0},
        std::move(roots));
  }
  if (python_ == nullptr && period_ns_ != 0 && options.backtrace == WL_SAMPLER_DWARF) {
    python_ = std::make_unique<WallClock>(images_, folder_, WallClock::Wanted{}, WallClock::Roots{});
  }
  has_frames_ = period_ns_ != 0 && options.backtrace == WL_SAMPLER_DWARF;
  if (!running_.empty()) read_running(running_, images_);
  const int error = has_perf ? open_events(options) : 0;
  if (error != 0 || running_.empty() || !has_perf) return error;
  // Now that all that changes is recorded.
  images_.all().clear();
  read_running(running_, images_);
  return 0;
}

bool Sampler::reads_frames() const noexcept { return has_frames_ && images_.has_seen_python(); }

int Sampler::open_events(const wl_sampler_options& options) {
  const int error =
      events_.open({.period_ns = period_ns_,
                    .has_stacks = period_ns_ != 0 && options.backtrace != WL_SAMPLER_NO_STACKS,
                    .has_switches = has_switches_,
                    .wakes_each = reads_frames()});
  if (error != 0) return error;
  return running_.empty() ? events_.watch_from_exec(options.pid) : watch_running(running_, events_);
}

// Asks the scheduler for short turns: a thread that has them runs sooner after it was woken. No rights are
// needed; older kernels take no notice.
void take_short_turns() {
  struct {
    std::uint32_t size, policy;
    std::uint64_t flags;
    std::int32_t nice;
    std::uint32_t priority;
    std::uint64_t runtime, deadline, period;
  } attributes{};
  attributes.size = sizeof attributes;
  attributes.nice = getpriority(PRIO_PROCESS, 0);
  attributes.runtime = kTurnNs;
  syscall(SYS_sched_setattr, 0, &attributes, 0);
}

void Sampler::run(int until) {
  take_short_turns();
  const Waiter waiter(until, events_);
  while (true) {
    // Records may be written to one ring a little later than to another: those of before now are there.
    const std::uint64_t now = now_ns();
    drain(now);
    if (reads_frames() && !events_.wakes_each()) {
      std::vector<pid_t> pids;
      for (const auto& [pid, image] : images_.all()) pids.push_back(static_cast<pid_t>(pid));
      events_.wake_each([&] { return watch_running(pids, events_); });
    }
    if (!has_begun_ && is_recording()) begin_recording(now);
    look_at_blocked(now);
    if (now - flushed_ns_ >= kFlushNs) {
      flushed_ns_ = now;
      flush();
    }
    std::uint64_t next = now + kTickNs;
    if (python_ != nullptr && python_->is_wanted()) {
      if (python_->due_ns() <= now_ns()) python_->tick(now_ns(), is_recording());
      next = events_.rings().empty() ? python_->due_ns() : std::min(next, python_->due_ns());
    }
    const std::uint64_t rest = std::max(next, now_ns()) - now_ns();
    if (!waiter.wait(std::min(rest, kLongestRestNs))) return;
  }
}

void Sampler::close(wl_sampler_counts& counts) {
  const std::uint64_t now = now_ns();
  drain(now);
  look_at_blocked(now);
  if (python_ != nullptr) {
    python_->finish(now);
    python_->count(counts_);
  }
  for (auto& [pid, image] : images_.all()) {
    for (auto& [tid, thread] : image.threads) write_stop(image, tid, thread);
    if (image.log != nullptr) image.log->flush();  // it lives on, as far as we know
  }
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto ns_of = [](const timeval& time) {
    return std::int64_t{time.tv_sec} * 1'000'000'000 + std::int64_t{time.tv_usec} * 1000;
  };
  counts_.cpu_ns = ns_of(used.ru_utime) + ns_of(used.ru_stime);
  counts_.has_kernel = events_.has_kernel();
  counts = counts_;
}

// Takes the records of all rings in the order of their times: a process must be known before its
// samples are met, and these are of other CPUs.
void Sampler::drain(std::uint64_t until_ns) {
  std::vector<Ring>& rings = events_.rings();
  for (Ring& ring : rings) ring.refresh();
  while (true) {
    Ring* first = nullptr;
    std::uint64_t first_ns = until_ns;
    const perf_event_header* record = nullptr;
    for (Ring& ring : rings) {
      const perf_event_header* next = ring.peek();
      if (next == nullptr) continue;
      const std::uint64_t time_ns = time_of(*next);
      if (time_ns >= first_ns) continue;
      first = &ring;
      first_ns = time_ns;
      record = next;
    }
    if (first == nullptr) break;
    if (events_.counts(*record)) take(*record, first_ns);
    first->drop();
    first->release();
  }
  events_.have_read(until_ns);
}

void Sampler::take(const perf_event_header& header, std::uint64_t time_ns) {
  switch (header.type) {
    case PERF_RECORD_SAMPLE: on_sample(header); break;
    case PERF_RECORD_SWITCH: on_switch(header); break;
    case PERF_RECORD_LOST: on_lost(header); break;
    case PERF_RECORD_EXIT: on_exit(header, time_ns); [[fallthrough]];
    default:
      images_.take(header, time_ns,
                   [this](Image& image, std::uint64_t end_ns) { end_image(image, end_ns); });
  }
}

// A thread that ends has no other sign of it: it is not taken off its CPU for the program.
void Sampler::on_exit(const perf_event_header& header, std::uint64_t time_ns) {
  const auto& record = reinterpret_cast<const TaskRecord&>(header);
  const auto found = images_.all().find(record.pid);
  if (found == images_.all().end() || !has_switches_ || !is_recording()) return;
  Image& image = found->second;
  write_stop(image, record.tid, image.threads[record.tid]);
  image.write_thread(folder_, record.tid, time_ns);
  image.log->put(raw::SchedEvent{.is_in = 0,
                                 .state = kTerminated,
                                 .time_ns = time_ns,
                                 .cpu = identity_of(header).cpu});
}

void Sampler::end_image(Image& image, std::uint64_t time_ns) {
  if (python_ != nullptr) python_->forget(image, time_ns);
  sampled_.forget(static_cast<pid_t>(image.pid));
  for (auto& [tid, thread] : image.threads) write_stop(image, tid, thread);
  if (image.log != nullptr) image.log->end(time_ns);
}

bool Sampler::is_recording() const noexcept {
  if (control_ == nullptr) return true;
  const std::uint64_t word = __atomic_load_n(&control_->switch_word, __ATOMIC_ACQUIRE);
  const auto state = static_cast<raw::State>(word & 0xff);
  if (state == raw::State::kTimeWindow) return true;
  const auto mode = static_cast<raw::RangeMode>(word >> 8 & 0xff);
  return state == raw::State::kRecording && (mode == raw::RangeMode::kNone || word >> 32 != 0);
}

void Sampler::on_sample(const perf_event_header& header) {
  SampleRecord sample;
  if (!read_sample(header, events_, sample) || !is_recording()) return;
  Image& image = images_.of(sample.pid, sample.time_ns);
  ++counts_.samples;
  callers_.clear();
  std::uint64_t python_chain = 0;
  // The innermost first: what the kernel did for the program, then the program.
  std::uint64_t instruction = sample.instruction;
  for (std::size_t i = 0; i < sample.kernel_count; ++i) {
    const std::uint64_t address = sample.kernel[i];
    const bool is_place = address < static_cast<std::uint64_t>(PERF_CONTEXT_MAX);
    if (is_place && i > 1) callers_.addresses.push_back(address);
  }
  const bool is_in_kernel = instruction >= kKernelBegin;
  if (is_in_kernel && !image.has_kernel) {
    image.has_kernel = true;
    CodeMapping kernel;
    kernel.begin = kKernelBegin;
    kernel.end = static_cast<std::uint64_t>(PERF_CONTEXT_MAX);
    kernel.path = "[kernel]";
    image.code.add(std::move(kernel));
  }
  if (sample.has_registers) {
    const stack::Registers from = sample.registers;
    // It is noted like a return address, for it is not the innermost.
    if (is_in_kernel) callers_.addresses.push_back(from.instruction + 1);
    if (!is_in_kernel) instruction = from.instruction;
    StackMemory memory(static_cast<pid_t>(sample.pid), from.stack_pointer, sample.stack,
                       sample.stack_bytes, outer_);
    RemotePython* python = python_of(image);
    unwinder_.walk(image.code, from, memory, by_frame_pointers_, callers_, sample.kept,
                   python == nullptr ? CodeRange() : python->evaluator());
    if (python != nullptr) python_chain = find_python_chain(image, *python, sample.tid, sample.time_ns, memory);
    if (!callers_.is_complete) {
      ++counts_.incomplete;
      callers_.addresses.push_back(raw::kBrokenBacktrace);
    }
  }
  image.write_thread(folder_, sample.tid, sample.time_ns);
  see_code(image, instruction);
  const std::uint64_t chain = write_chain(image);
  image.log->put(raw::CpuSample{.flags = raw::CpuSample::kHasInstruction,
                                .time_ns = sample.time_ns,
                                .period = static_cast<std::uint32_t>(period_ns_),
                                .cpu = sample.cpu,
                                .chain = chain,
                                .python_chain = python_chain,
                                .instruction = instruction});
}

RemotePython* Sampler::python_of(Image& image) {
  const bool may_have_it = python_ != nullptr && image.may_have_python && !by_frame_pointers_;
  return may_have_it ? python_->python_of(image, now_ns()) : nullptr;
}

// The Python stack of the sample in `callers_`, written; 0: none.
std::uint64_t Sampler::find_python_chain(Image& image, RemotePython& python, std::uint32_t tid,
                                         std::uint64_t time_ns, StackMemory& memory) {
  if (callers_.watched.empty()) return 0;
  ++counts_.python_samples;
  // What is there after so long is hardly the sample's: to catch up is better.
  const bool is_late = now_ns() > time_ns + kLateNs;
  const CodeMapping* evaluator = image.code.find(python.build().evaluator);
  const auto more_ns = static_cast<std::int64_t>(period_ns_ / kMostPythonShare);
  python_room_ns_ = std::min(python_room_ns_ + more_ns, kMostRoomNs);
  std::uint64_t chain = 0;
  if (!is_late && evaluator != nullptr && python_room_ns_ > 0) {
    const std::uint64_t began_ns = own_cpu_ns();
    const bool is_found = sampled_.find(python, evaluator->file, static_cast<pid_t>(image.pid),
                                        static_cast<pid_t>(tid), callers_, memory, python_stack_);
    if (is_found) chain = python_->write_chain(image, python, python_stack_);
    python_room_ns_ -= static_cast<std::int64_t>(own_cpu_ns() - began_ns);
  }
  counts_.python_unmatched += chain == 0;
  return chain;
}

std::uint64_t Sampler::write_chain(Image& image) {
  if (callers_.addresses.empty()) return 0;
  const std::uint64_t number = chain_number(callers_.addresses);
  if (!image.log->is_new_chain(raw::Kind::kChain, number)) return number;
  for (const std::uint64_t address : callers_.addresses) see_code(image, address - 1);
  image.log->put_words(raw::Kind::kChain, number, callers_.addresses.data(),
                       callers_.addresses.size());
  return number;
}

void Sampler::see_code(Image& image, std::uint64_t instruction) {
  CodeMapping* mapping = image.code.find(instruction);
  if (mapping == nullptr || mapping->is_written) return;
  mapping->is_written = true;
  write_module(image, *mapping);
}

void Sampler::write_module(Image& image, CodeMapping& mapping) {
  raw::ModuleText text{};
  text.first_address = mapping.begin;
  text.end_address = mapping.end;
  std::string path = mapping.path;
  if (mapping.file != nullptr) {
    std::memcpy(text.build_id, mapping.file->build_id(), sizeof text.build_id);
  } else if (mapping.path == "[kernel]") {
    // Its addresses differ from boot to boot.
    const int file = ::open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    if (file >= 0 && read(file, text.build_id, sizeof text.build_id) < 0) text.build_id[0] = 0;
    if (file >= 0) ::close(file);
  } else {
    // Code that a compiler made while the program ran is named in a file, if anywhere.
    path = "/tmp/perf-" + std::to_string(image.pid) + ".map";
  }
  std::string bytes(reinterpret_cast<const char*>(&text), sizeof text);
  bytes += path;
  image.log->put_text(raw::Kind::kModule, mapping.bias, bytes);
}

void Sampler::on_switch(const perf_event_header& header) {
  if (!is_recording()) return;
  const RecordIdentity identity = identity_of(header);
  if (identity.pid == 0) return;
  Image& image = images_.of(identity.pid, identity.time_ns);
  Thread& thread = image.threads[identity.tid];
  // What was read after it had gone on is not where it was blocked.
  if (thread.looked_at_ns >= identity.time_ns) {
    thread.chain = thread.instruction = 0;
    thread.is_in_fault = false;
  }
  const bool is_stop = (header.misc & PERF_RECORD_MISC_SWITCH_OUT) != 0;
  if (thread.is_assumed && is_stop) thread.is_off = false;  // it stopped only now
  thread.is_assumed = false;
  write_stop(image, identity.tid, thread);
  ++counts_.switches;
  if (is_stop) {
    thread.is_off = true;
    thread.is_blocked = (header.misc & PERF_RECORD_MISC_SWITCH_OUT_PREEMPT) == 0;
    thread.is_in_fault = false;
    thread.off_ns = identity.time_ns;
    thread.cpu = identity.cpu;
    thread.looked_at_ns = 0;
    if (thread.is_blocked && period_ns_ != 0 && blocked_.size() < kMostBlocked) {
      blocked_.push_back({thread.off_ns, identity.pid, identity.tid});
    }
    return;
  }
  image.write_thread(folder_, identity.tid, identity.time_ns);
  image.log->put(raw::SchedEvent{.is_in = 1, .time_ns = identity.time_ns, .cpu = identity.cpu});
}

void Sampler::write_stop(Image& image, std::uint32_t tid, Thread& thread) {
  if (!thread.is_off) return;
  thread.is_off = false;
  image.write_thread(folder_, tid, thread.off_ns);
  const std::uint8_t blocked = thread.is_in_fault ? kUninterruptible : kInterruptible;
  raw::SchedEvent event{.is_in = 0,
                        .state = thread.is_blocked ? blocked : kRunning,
                        .time_ns = thread.off_ns,
                        .cpu = thread.cpu,
                        .chain = thread.chain};
  if (thread.instruction != 0) {
    event.flags = raw::SchedEvent::kHasInstruction;
    event.instruction = thread.instruction;
  }
  image.log->put(event);
  thread.chain = thread.instruction = 0;
}

void Sampler::begin_recording(std::uint64_t now) {
  has_begun_ = true;
  if (!has_switches_) return;
  note_blocked(images_, now);
  for (const auto& [pid, image] : images_.all()) {
    for (const auto& [tid, thread] : image.threads) {
      const bool is_looked_at = thread.is_assumed && period_ns_ != 0 && blocked_.size() < kMostBlocked;
      if (is_looked_at) blocked_.push_back({thread.off_ns, pid, tid});
    }
  }
}

void Sampler::look_at_blocked(std::uint64_t now) {
  looks_ = std::min(kMostLooks, looks_ + static_cast<double>(now - looks_ns_) * 1e-9 * kLooksPerSecond);
  looks_ns_ = now;
  while (!blocked_.empty() && blocked_.front().off_ns + kLongNs <= now && looks_ >= 1) {
    const Blocked next = blocked_.front();
    blocked_.pop_front();
    const auto image = images_.all().find(next.pid);
    if (image == images_.all().end()) continue;
    const auto thread = image->second.threads.find(next.tid);
    const bool is_blocked = thread != image->second.threads.end() && thread->second.is_off &&
                            thread->second.off_ns == next.off_ns;
    if (!is_blocked) continue;
    looks_ -= 1;
    look_at(image->second, next.tid, thread->second);
  }
}

void Sampler::look_at(Image& image, std::uint32_t tid, Thread& thread) {
  const BlockedPlace place = blocked_place(image.pid, tid);
  if (place.instruction == 0) return;
  stack_.resize(PerfEvents::kStackBytes);
  const auto pid = static_cast<pid_t>(image.pid);
  const std::size_t bytes = read_process(pid, place.stack_pointer, stack_.data(), stack_.size());
  callers_.clear();
  StackMemory memory(pid, place.stack_pointer, stack_.data(), bytes, outer_);
  // The frame pointer is not known: most functions of the C library that block do not use it, and
  // where one has saved it, it is known from there on.
  unwinder_.walk(image.code, {place.instruction, place.stack_pointer, 0}, memory, false, callers_);
  const bool waits_for_page = !place.is_in_call && sleeps_in_kernel(image.pid, tid);
  if (blocked_place(image.pid, tid) != place) return;  // it has gone on meanwhile
  if (!callers_.is_complete) callers_.addresses.push_back(raw::kBrokenBacktrace);
  image.open_log(folder_);
  see_code(image, place.instruction);
  thread.chain = write_chain(image);
  thread.instruction = place.instruction;
  thread.is_in_fault = waits_for_page;
  thread.looked_at_ns = now_ns();
}

void Sampler::on_lost(const perf_event_header& header) {
  std::uint64_t words[2];
  if (header.size < sizeof header + sizeof words) return;
  std::memcpy(words, &header + 1, sizeof words);
  counts_.lost += static_cast<std::int64_t>(words[1]);
}

void Sampler::flush() {
  for (auto& [pid, image] : images_.all()) {
    if (image.log != nullptr) image.log->flush();
  }
}

}  // namespace warpline::sampler
