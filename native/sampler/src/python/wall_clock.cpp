#include "python/wall_clock.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <sstream>

#include "clock.h"
#include "python/proc_images.h"

namespace warpline::sampler {
namespace {

constexpr std::uint64_t kMostShare = 10;  // of a core: 1 in this many
constexpr std::uint64_t kFindNs = 20'000'000;
constexpr std::uint64_t kFirstPauseNs = 10'000'000;  // before an interpreter is looked for again
constexpr std::uint64_t kLongestPauseNs = 1'000'000'000;

std::string of_thread(pid_t pid, pid_t tid, const char* name) {
  return "/proc/" + std::to_string(pid) + "/task/" + std::to_string(tid) + "/" + name;
}

constexpr auto kYes = static_cast<std::uint8_t>(raw::Known::kYes);
constexpr auto kNo = static_cast<std::uint8_t>(raw::Known::kNo);
constexpr auto kHolding = static_cast<std::uint8_t>(raw::GilState::kHolding);
constexpr auto kWaiting = static_cast<std::uint8_t>(raw::GilState::kWaiting);

std::uint8_t known(bool is_so) noexcept { return is_so ? kYes : kNo; }

// Whether a system call waits for something in the GIL: its condition or its lock.
bool waits_for(std::string_view call, std::uint64_t gil) noexcept {
  if (gil == 0) return false;
  char text[64];
  const std::size_t bytes = std::min(call.size(), sizeof text - 1);
  std::memcpy(text, call.data(), bytes);
  text[bytes] = '\0';
  char* end = nullptr;
  if (std::strtol(text, &end, 10) != SYS_futex) return false;
  const std::uint64_t place = std::strtoull(end, nullptr, 16);
  return place >= gil && place < gil + kGilBytes;
}

std::uint64_t hash_of(const std::uint64_t* words, std::size_t count) noexcept {
  std::uint64_t hash = count;
  for (std::size_t i = 0; i < count; ++i) hash = stack::mixed(hash, words[i]);
  return hash == 0 ? 1 : hash;
}

}  // namespace

ProcFile::ProcFile(const std::string& path) : file_(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}

ProcFile::~ProcFile() {
  if (file_ >= 0) close(file_);
}

std::string_view ProcFile::read() noexcept {
  if (file_ < 0) return {};
  const ssize_t bytes = pread(file_, text_, sizeof text_, 0);
  return bytes <= 0 ? std::string_view() : std::string_view(text_, static_cast<std::size_t>(bytes));
}

WatchedThread::WatchedThread(pid_t pid, pid_t tid)
    : call(of_thread(pid, tid, "syscall")), turns(of_thread(pid, tid, "schedstat")) {}

WallClock::WallClock(Images& images, std::string folder, const Wanted& wanted, Roots roots)
    : images_(images),
      folder_(std::move(folder)),
      wanted_(wanted),
      roots_(std::move(roots)),
      code_room_(sizeof(raw::PythonCodeText) + stack::PythonCode::kMostBytes) {
  if (roots_.will_exec) waiting_identity_ = identity_of_image(roots_.pids.front());
}

// ---- when to look

void WallClock::tick(std::uint64_t now_ns, bool is_recording) {
  const std::uint64_t began_ns = own_cpu_ns();
  if (!roots_.pids.empty() && now_ns >= find_ns_) {
    find_images(now_ns);
    find_ns_ = now_ns + kFindNs;
  }
  if (!is_recording) {
    if (!is_paused_) pause(now_ns);
    is_paused_ = true;
  } else {
    is_paused_ = false;
    ++ticks_;
    for (auto& [pid, image] : images_.all()) look_at(image, now_ns);
  }
  const std::uint64_t cost_ns = own_cpu_ns() - began_ns;
  cost_ns_ = (15 * cost_ns_ + cost_ns) / 16;
  // A program that does something once in a period must not meet the same moment of it every time.
  random_ ^= random_ << 13;
  random_ ^= random_ >> 7;
  random_ ^= random_ << 17;
  const std::uint64_t period_ns = std::max(wanted_.period_ns, kMostShare * cost_ns_);
  due_ns_ = now_ns + period_ns / 2 + random_ % period_ns;
}

void WallClock::pause(std::uint64_t now_ns) {
  for (auto& [pid, image] : images_.all()) {
    const auto found = processes_.find(pid);
    if (found == processes_.end()) continue;
    for (auto& [tid, watched] : found->second.threads) end_thread(image, tid, watched, now_ns);
  }
}

void WallClock::finish(std::uint64_t now_ns) { pause(now_ns); }

void WallClock::count(wl_sampler_counts& counts) const noexcept {
  const RemoteCounts read = pythons_.counts();
  counts.python_looks = static_cast<std::int64_t>(ticks_);
  counts.python_stacks = static_cast<std::int64_t>(read.read);
  counts.python_failed = static_cast<std::int64_t>(read.failed);
  counts.python_cut = static_cast<std::int64_t>(read.cut);
  counts.python_unsettled = static_cast<std::int64_t>(read.unsettled);
}

void WallClock::forget(Image& image, std::uint64_t now_ns) {
  const auto pid = static_cast<pid_t>(image.pid);
  const auto found = processes_.find(pid);
  if (found == processes_.end()) return;
  for (auto& [tid, watched] : found->second.threads) end_thread(image, tid, watched, now_ns);
  processes_.erase(found);
  pythons_.forget(pid);
}

// ---- processes

WallClock::Process& WallClock::process_of(Image& image) {
  const auto pid = static_cast<pid_t>(image.pid);
  Process& process = processes_[pid];
  if (process.incarnation != image.incarnation) {
    pythons_.forget(pid);
    std::string identity = std::move(process.identity);
    process = {};
    process.identity = std::move(identity);
    process.incarnation = image.incarnation;
  }
  return process;
}

RemotePython* WallClock::python_of(Image& image, std::uint64_t now_ns) {
  Process& process = process_of(image);
  const auto pid = static_cast<pid_t>(image.pid);
  if (RemotePython* python = pythons_.find(pid)) return python;
  if (now_ns < process.look_again_ns) return nullptr;
  const char* problem = nullptr;
  RemotePython* python = pythons_.look_at(pid, problem);
  if (python == nullptr) {
    process.pause_ns = std::clamp(2 * process.pause_ns, kFirstPauseNs, kLongestPauseNs);
    process.look_again_ns = now_ns + process.pause_ns;
  } else {
    process.pause_ns = 0;
  }
  if (problem != nullptr && !process.has_told) {
    process.has_told = true;
    image.write_thread(folder_, image.pid, now_ns);
    image.log->put_text(raw::Kind::kNote, now_ns, problem,
                        static_cast<std::uint32_t>(raw::CudaNote::kNoPythonStacks));
  }
  return python;
}

void WallClock::look_at(Image& image, std::uint64_t now_ns) {
  RemotePython* python = python_of(image, now_ns);
  if (python == nullptr) return;
  Process& process = process_of(image);
  if (!python->are_threads_listed() && !python->list_threads()) {
    // Its end, or the interpreter's, or an exec.
    for (auto& [tid, watched] : process.threads) end_thread(image, tid, watched, now_ns);
    process.threads.clear();
    pythons_.forget(static_cast<pid_t>(image.pid));
    process.look_again_ns = now_ns + kFirstPauseNs;
    return;
  }
  RemoteGil gil;
  const std::vector<RemoteThread> threads = python->threads();  // read() may list them anew
  for (const RemoteThread& thread : threads) {
    if (thread.tid == 0) continue;
    if (gil.address != thread.gil && !python->read_gil(thread.gil, gil)) gil = {};
    look_at(image, process, *python, thread, gil.address == thread.gil ? gil.holder : -1, now_ns);
  }
  for (auto at = process.threads.begin(); at != process.threads.end();) {
    if (at->second.seen_ns == now_ns) {
      ++at;
      continue;
    }
    end_thread(image, at->first, at->second, now_ns);
    at = process.threads.erase(at);
  }
}

// ---- threads

void WallClock::look_at(Image& image, Process& process, RemotePython& python,
                        const RemoteThread& thread, pid_t gil_holder, std::uint64_t now_ns) {
  const auto pid = static_cast<pid_t>(image.pid);
  WatchedThread& watched = process.threads.try_emplace(thread.tid, pid, thread.tid).first->second;
  if (watched.seen_ns == now_ns) return;  // it has states of several interpreters
  const std::string_view call = watched.call.read();
  const bool is_known = !call.empty();
  const bool is_blocked = is_known && !call.starts_with("running");
  const bool is_waiting = is_blocked && waits_for(call, thread.gil);
  WatchedThread::Row row{.time_ns = now_ns};
  if (is_known) row.is_running = known(!is_blocked);
  if (gil_holder >= 0) row.has_gil = known(gil_holder == thread.tid && !is_waiting);
  if (wanted_.has_gil && gil_holder >= 0) {
    const std::uint8_t state = is_waiting              ? kWaiting
                               : row.has_gil == kYes ? kHolding
                                                          : std::uint8_t{0};
    set_gil(image, thread.tid, watched, state, now_ns);
  }
  watched.seen_ns = now_ns;
  if (!wanted_.has_samples) return;
  // A thread that has not run since the last look has the same stack.
  const std::string_view turns = is_blocked ? watched.turns.read() : std::string_view();
  const bool is_same = is_blocked && watched.row.time_ns != 0 && !turns.empty() &&
                       turns == watched.last_turns && call == watched.last_call;
  watched.last_turns = turns;
  watched.last_call = call;
  if (is_same) {
    row.chain = watched.row.chain;
  } else if (python.read(thread.tid, stack_)) {
    if (stack_.count != 0) row.chain = write_chain(image, python, stack_);
  } else {
    end_row(image, thread.tid, watched, now_ns);
    return;
  }
  add(image, thread.tid, watched, row);
}

void WallClock::add(Image& image, pid_t tid, WatchedThread& watched,
                    const WatchedThread::Row& next) {
  if (watched.row.goes_on_as(next)) return;
  end_row(image, tid, watched, next.time_ns);
  watched.row = next;
}

void WallClock::end_row(Image& image, pid_t tid, WatchedThread& watched, std::uint64_t now_ns) {
  const WatchedThread::Row& row = watched.row;
  // A thread that is not in Python has no stack of it: nothing is said of it.
  if (row.time_ns != 0 && row.chain != 0) {
    image.write_thread(folder_, static_cast<std::uint32_t>(tid), row.time_ns);
    image.log->put(raw::PythonSample{.is_running = row.is_running,
                                     .has_gil = row.has_gil,
                                     .time_ns = row.time_ns,
                                     .period = now_ns - row.time_ns,
                                     .chain = 0,
                                     .python_chain = row.chain});
  }
  watched.row = {};
}

void WallClock::set_gil(Image& image, pid_t tid, WatchedThread& watched, std::uint8_t state,
                        std::uint64_t now_ns) {
  if (watched.gil == state) return;
  if (watched.gil != 0) {
    image.write_thread(folder_, static_cast<std::uint32_t>(tid), watched.gil_since_ns);
    image.log->put(raw::GilSpan{
        .state = watched.gil, .start_ns = watched.gil_since_ns, .end_ns = now_ns});
  }
  watched.gil = state;
  watched.gil_since_ns = now_ns;
}

void WallClock::end_thread(Image& image, pid_t tid, WatchedThread& watched, std::uint64_t now_ns) {
  end_row(image, tid, watched, now_ns);
  set_gil(image, tid, watched, 0, now_ns);
}

// ---- stacks

std::uint64_t WallClock::write_chain(Image& image, RemotePython& python, RemotePythonStack& stack) {
  const std::uint64_t number = hash_of(stack.frames, 2 * stack.count);
  RawLog& log = image.open_log(folder_);
  if (!log.is_new_chain(raw::Kind::kPythonChain, number)) return number;
  for (std::size_t i = 0; i < stack.count; ++i) {
    write_code(image, python, stack.frames[2 * i], stack.code_addresses[i]);
  }
  log.put_words(raw::Kind::kPythonChain, number, stack.frames, 2 * stack.count);
  return number;
}

void WallClock::write_code(Image& image, RemotePython& python, std::uint64_t number,
                           std::uint64_t address) {
  if (!process_of(image).code.try_emplace(number, true).second) return;
  constexpr std::size_t kText = sizeof(raw::PythonCodeText);
  stack::PythonCode code{};
  if (!python.read_code(number, address, code, code_room_.data() + kText)) return;
  std::memcpy(code_room_.data(), &code.text, kText);
  image.log->put_text(raw::Kind::kPythonCode, number, {code_room_.data(), kText + code.bytes});
}

// ---- images, where nothing else finds them

void WallClock::add_image(pid_t pid, pid_t parent, std::uint64_t now_ns, std::vector<pid_t>& alive) {
  std::string identity = identity_of_image(pid);
  if (identity.empty() || identity == waiting_identity_) return;
  alive.push_back(pid);
  const auto found = images_.all().find(static_cast<std::uint32_t>(pid));
  const std::string& known = processes_[pid].identity;  // empty: of one that ran before
  if (found != images_.all().end() && !known.empty() && known != identity) {
    forget(found->second, now_ns);  // an exec
    if (found->second.log != nullptr) found->second.log->end(now_ns);
    images_.all().erase(found);
  }
  Image& image = images_.of(static_cast<std::uint32_t>(pid), now_ns);
  if (image.ppid == 0) {
    image.ppid = static_cast<std::uint32_t>(parent);
    image.executable = executable_of(pid);
  }
  processes_[pid].identity = std::move(identity);
  for (const pid_t tid : threads_of(pid)) {
    name_thread(image, tid);
    for (const pid_t child : children_of(pid, tid)) add_image(child, pid, now_ns, alive);
  }
}

void WallClock::find_images(std::uint64_t now_ns) {
  std::vector<pid_t> alive;
  for (const pid_t root : roots_.pids) add_image(root, parent_of(root), now_ns, alive);
  for (auto at = images_.all().begin(); at != images_.all().end();) {
    const auto pid = static_cast<pid_t>(at->first);
    const bool is_alive = std::find(alive.begin(), alive.end(), pid) != alive.end() ||
                          !identity_of_image(pid).empty();  // it may have lost its parent
    if (is_alive) {
      ++at;
      continue;
    }
    forget(at->second, now_ns);
    if (at->second.log != nullptr) at->second.log->end(now_ns);
    at = images_.all().erase(at);
  }
}

}  // namespace warpline::sampler
