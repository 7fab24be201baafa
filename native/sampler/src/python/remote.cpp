#include "python/remote.h"

#include <dirent.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>
#include <unordered_set>

#include "clock.h"

namespace warpline::sampler {
namespace {

using stack::PythonLayout;
using stack::PythonStack;

constexpr std::size_t kMostTries = 3;
constexpr std::size_t kMostInterpreters = 256;
constexpr std::size_t kMostStates = 16384;
constexpr std::uint64_t kListPauseNs = 10'000'000;
constexpr std::size_t kMostKnownCode = 1u << 16;

std::unordered_set<std::uint32_t> tasks_of(pid_t pid) {
  std::unordered_set<std::uint32_t> tasks;
  DIR* folder = opendir(("/proc/" + std::to_string(pid) + "/task").c_str());
  if (folder == nullptr) return tasks;
  while (const dirent* entry = readdir(folder)) {
    const long tid = std::strtol(entry->d_name, nullptr, 10);
    if (tid > 0) tasks.insert(static_cast<std::uint32_t>(tid));
  }
  closedir(folder);
  return tasks;
}

// Adds the frames of a thread's state to those of another that it entered.
void append(PythonStack& inner, const PythonStack& outer) {
  const std::size_t more = std::min(outer.count, stack::kMaxPythonFrames - inner.count);
  std::copy_n(outer.frames, 2 * more, inner.frames + 2 * inner.count);
  std::copy_n(outer.code_addresses, more, inner.code_addresses + inner.count);
  std::copy_n(outer.entries, more, inner.entries + inner.count);
  inner.count += more;
}

std::uint64_t innermost_entry(const PythonStack& stack) {
  for (std::size_t i = 0; i < stack.count; ++i) {
    if (stack.entries[i] != 0) return stack.entries[i];
  }
  return ~std::uint64_t{0};
}

}  // namespace

bool RemotePython::find() {
  return find_python(pid_, build_, problem_) && problem_ == nullptr && list_threads();
}

// ---- threads

std::uint64_t RemotePython::gil_of(std::uint64_t interpreter) const {
  const RuntimeLayout& places = build_.places;
  std::uint64_t address = 0;
  if (places.runtime_gil != 0) return build_.runtime + places.runtime_gil;
  return copy_from(pid_, interpreter + places.interpreter_gil, &address, 8) ? address : 0;
}

bool RemotePython::add_states(std::uint64_t interpreter) {
  const RuntimeLayout& places = build_.places;
  const std::uint64_t gil = gil_of(interpreter);
  std::uint64_t state;
  if (!copy_from(pid_, interpreter + places.interpreter_states, &state, 8)) return false;
  head_places_.push_back(interpreter + places.interpreter_states);
  heads_.push_back(state);
  while (state != 0 && threads_.size() != kMostStates) {
    std::uint64_t words[2];
    const std::uint64_t wanted[2] = {state + places.state_thread, state + places.state_next};
    if (!copy_words(pid_, wanted, 2, words)) return false;
    const auto [handle, next] = words;
    threads_.push_back({0, state, gil});
    handles_.push_back(handle);
    state = next;
  }
  return true;
}

// The C library keeps the kernel's number of a thread somewhere in what its own number points to.
bool RemotePython::find_tid_offset() {
  constexpr std::size_t kBytes = 2048;
  const std::unordered_set<std::uint32_t> tasks = tasks_of(pid_);
  std::vector<bool> is_possible(kBytes / 4, true);
  for (const std::uint64_t handle : handles_) {
    std::uint32_t words[kBytes / 4];
    if (handle == 0) continue;
    if (!copy_from(pid_, handle, words, sizeof words)) return false;
    for (std::size_t i = 0; i < kBytes / 4; ++i) {
      if (!tasks.contains(words[i])) is_possible[i] = false;
    }
  }
  const auto found = std::find(is_possible.begin(), is_possible.end(), true);
  if (found == is_possible.end()) return false;
  tid_offset_ = static_cast<std::int32_t>(4 * (found - is_possible.begin()));
  return true;
}

bool RemotePython::name_threads() {
  for (std::size_t i = 0; i < threads_.size(); ++i) {
    std::uint32_t tid = static_cast<std::uint32_t>(handles_[i]);
    if (!build_.places.is_native_thread && handles_[i] != 0) {
      if (tid_offset_ < 0 && !find_tid_offset()) return false;
      const std::uint64_t place = handles_[i] + static_cast<std::uint64_t>(tid_offset_);
      if (!copy_from(pid_, place, &tid, sizeof tid)) tid = 0;  // the thread is ending
    }
    threads_[i].tid = static_cast<pid_t>(tid);
  }
  return true;
}

bool RemotePython::list_threads() {
  threads_.clear();
  handles_.clear();
  heads_.clear();
  head_places_.clear();
  listed_ns_ = now_ns();
  std::uint64_t interpreter;
  if (!copy_from(pid_, build_.runtime + build_.places.interpreters, &interpreter, 8)) return false;
  head_places_.push_back(build_.runtime + build_.places.interpreters);
  heads_.push_back(interpreter);
  for (std::size_t i = 0; interpreter != 0 && i < kMostInterpreters; ++i) {
    if (!add_states(interpreter)) return false;
    if (!copy_from(pid_, interpreter + build_.places.interpreter_next, &interpreter, 8)) return false;
  }
  if (stacks_.size() > 2 * threads_.size() + 16) stacks_.clear();  // of threads that have ended
  return name_threads();
}

bool RemotePython::are_threads_listed() noexcept {
  constexpr std::size_t kMost = 16;
  std::uint64_t now[kMost];
  if (heads_.empty() || heads_.size() > kMost) return false;
  // A thread's state is there before the thread has begun, and has no number then.
  if (std::find(handles_.begin(), handles_.end(), 0) != handles_.end()) return false;
  if (!copy_words(pid_, head_places_.data(), heads_.size(), now)) return false;
  return std::equal(heads_.begin(), heads_.end(), now);
}

bool RemotePython::read_gil(std::uint64_t address, RemoteGil& gil) const {
  char bytes[kGilIsLocked + 8];
  if (address == 0 || !copy_from(pid_, address, bytes, sizeof bytes)) return false;
  gil = {address, 0};
  std::int32_t is_locked;
  std::memcpy(&is_locked, bytes + kGilIsLocked, sizeof is_locked);
  if (is_locked <= 0) return true;
  const std::uint64_t state = stack::word_at(bytes + kGilHolder);
  const auto holder = std::find_if(threads_.begin(), threads_.end(),
                                   [&](const RemoteThread& each) { return each.state == state; });
  if (holder != threads_.end()) gil.holder = holder->tid;
  return true;
}

// ---- stacks

bool RemotePython::number_of(std::uint64_t address, const char* code, std::uint64_t& number) {
  const PythonLayout& layout = build_.python.layout;
  if (stack::word_at(code + stack::kObjectType) != build_.python.code_type) return false;
  std::uint32_t line, version = 0;
  std::memcpy(&line, code + layout.code_first_line, sizeof line);
  if (layout.code_version != 0) std::memcpy(&version, code + layout.code_version, sizeof version);
  const std::uint64_t told[4] = {
      stack::word_at(code + layout.code_file), stack::word_at(code + layout.code_name),
      stack::word_at(code + layout.code_lines), line | std::uint64_t{version} << 32};
  if (code_.size() > kMostKnownCode) code_.clear();
  KnownCode& known = code_[address];
  if (known.number == 0 || !std::equal(told, told + 4, known.told)) {
    known.number = 0;
    if (!stack::number_code(build_.python, memory_, address, code, is_proven_, known.number)) {
      known.number = 0;
      return false;
    }
    std::copy(told, told + 4, known.told);
    find_range(address, code, known.range);
  }
  number = known.number;
  return true;
}

void RemotePython::find_range(std::uint64_t address, const char* code, CodeRange& range) {
  const PythonLayout& layout = build_.python.layout;
  if (range.begin != 0) ranges_.erase(range.end);
  range = {};
  std::uint64_t size = 0;
  if (layout.code_start != 0) {
    size = stack::word_at(code + stack::kObjectSize) * 2;
    range.begin = address + layout.code_start;
  } else {
    const std::uint64_t bytes = stack::word_at(code + stack::kCodeBytes);
    if (!copy_from(pid_, bytes + stack::kObjectSize, &size, sizeof size)) return;
    range.begin = bytes + stack::kBytesStart;
  }
  if (size > stack::kMostItems) size = 0;
  range.end = range.begin + size;
  if (ranges_.size() > kMostKnownCode) ranges_.clear();
  ranges_[range.end] = address;
}

CodeRange RemotePython::range_of(std::uint64_t address) {
  const auto found = code_.find(address);
  if (found != code_.end() && found->second.number != 0) return found->second.range;
  char code[stack::kMostObjectBytes];
  std::uint64_t number;
  const bool is_code = copy_from(pid_, address, code, build_.python.layout.code_bytes) &&
                       number_of(address, code, number);
  return is_code ? code_[address].range : CodeRange();
}

std::uint64_t RemotePython::code_with(std::uint64_t next, bool is_known) {
  const auto found = ranges_.lower_bound(next);
  if (found != ranges_.end()) {
    const auto known = code_.find(found->second);
    if (known != code_.end() && known->second.range.begin <= next) return found->second;
  }
  // From 3.11 on, instructions are in their code object.
  if (is_known || build_.python.layout.code_start == 0 || next % 2 != 0) return 0;
  constexpr std::size_t kWords = 512;
  std::uint64_t words[kWords];
  const std::uint64_t begin = (next & ~std::uint64_t{7}) - sizeof words;
  if (!copy_from(pid_, begin, words, sizeof words)) return 0;
  for (std::size_t i = kWords; i-- > 1;) {
    if (words[i] != build_.python.code_type) continue;
    const std::uint64_t code = begin + 8 * i - stack::kObjectType;
    const CodeRange range = range_of(code);
    return range.begin <= next && next <= range.end ? code : 0;
  }
  return 0;
}

const RemoteThread* RemotePython::thread_of(pid_t tid) {
  const auto find = [&] {
    return std::find_if(threads_.begin(), threads_.end(),
                        [&](const RemoteThread& each) { return each.tid == tid; });
  };
  auto thread = find();
  if (thread == threads_.end() && now_ns() - listed_ns_ > kListPauseNs && list_threads()) thread = find();
  return thread == threads_.end() ? nullptr : &*thread;
}

bool RemotePython::copy_active(pid_t tid, std::vector<std::uint64_t>& frames) {
  constexpr std::size_t kMostFrames = 1024;
  const RemoteThread* thread = thread_of(tid);
  if (thread == nullptr) return false;
  const PythonLayout& layout = build_.python.layout;
  KnownStack& known = stacks_[thread->state];
  for (std::size_t i = 0; i < kMostTries; ++i) {
    std::uint64_t at;
    frames.clear();
    if (!begin_copy(*thread, known) || !stack::innermost_frame(layout, memory_, thread->state, at)) continue;
    while (at != 0 && at % sizeof at == 0 && frames.size() != kMostFrames) {
      const char* frame = memory_.view_frame(at, layout.frame_bytes);
      if (frame == nullptr) break;
      frames.push_back(at);
      at = stack::word_at(frame + layout.frame_previous);
    }
    known.pages = memory_.used();
    if (at == 0 && memory_.is_unmoved()) return true;
  }
  return false;
}

bool RemotePython::number_frames(RemotePythonStack& stack) {
  const std::size_t bytes = build_.python.layout.code_bytes;
  constexpr std::size_t kGroup = stack::kMostExpected;
  char copy[stack::kMostObjectBytes];
  for (std::size_t i = 0; i < stack.count; ++i) {
    const std::uint64_t* address = stack.code_addresses + i;
    if (i % kGroup == 0) memory_.expect(address, std::min(kGroup, stack.count - i), bytes);
    const char* code = memory_.view_expected(*address, i % kGroup, bytes);
    if (code == nullptr) return false;
    std::memcpy(copy, code, bytes);
    if (!number_of(*address, copy, stack.frames[2 * i])) return false;
  }
  return true;
}

// Begins to copy the frames of a thread. False if the state is another one's by now.
bool RemotePython::begin_copy(const RemoteThread& thread, KnownStack& known) {
  const PythonLayout& layout = build_.python.layout;
  const bool has_link = layout.link_frame != PythonLayout::kNoLink;
  anchors_[0] = {thread.state + layout.state_frame};
  anchors_[1] = {thread.state + build_.places.state_thread};
  anchors_[2] = {known.link + layout.link_frame};
  const std::size_t count = has_link && known.link != 0 ? 3 : 2;
  if (!memory_.begin(anchors_, count, known.pages)) return false;
  if (has_link) known.link = anchors_[0].before;
  return anchors_[1].before == handles_[static_cast<std::size_t>(&thread - threads_.data())];
}

bool RemotePython::try_state(const RemoteThread& thread, KnownStack& known,
                             RemotePythonStack& stack) {
  const PythonLayout& layout = build_.python.layout;
  stack.count = 0;
  if (!begin_copy(thread, known)) return false;
  stack.is_whole = find_frames(layout, memory_, thread.state, !is_proven_, stack);
  stack.is_settled = memory_.is_unmoved();
  known.pages = memory_.used();
  if (stack.count == 0) return stack.is_whole;
  return number_frames(stack) && (stack.is_whole || stack.is_settled);
}

bool RemotePython::read_state(const RemoteThread& thread, RemotePythonStack& stack) {
  KnownStack& known = stacks_[thread.state];
  bool is_read = false;
  for (std::size_t i = 0; i < kMostTries && !(is_read && stack.is_settled); ++i) {
    is_read = try_state(thread, known, stack);
  }
  if (!is_read) return false;
  is_proven_ |= stack.is_whole && stack.is_settled && stack.count != 0;
  return true;
}

bool RemotePython::read(pid_t tid, RemotePythonStack& stack) {
  const auto is_it = [&](const RemoteThread& each) { return each.tid == tid; };
  bool has_listed = false;
  stack.count = 0;
  for (;;) {
    bool is_there = false, is_read = true;
    for (const RemoteThread& thread : threads_) {
      if (!is_it(thread)) continue;
      RemotePythonStack of_state;
      RemotePythonStack& read = is_there ? of_state : stack;
      is_read &= read_state(thread, read);
      if (is_there && is_read) {
        if (innermost_entry(of_state) < innermost_entry(stack)) std::swap(stack, of_state);
        append(stack, of_state);
      }
      is_there = true;
    }
    if (is_there && is_read) {
      ++counts_.read;
      counts_.cut += !stack.is_whole;
      counts_.unsettled += !stack.is_settled;
      return true;
    }
    const bool may_list = !has_listed && (is_there || now_ns() - listed_ns_ > kListPauseNs);
    if (!may_list || !list_threads()) {
      counts_.failed += is_there;
      stack.count = 0;
      return false;
    }
    has_listed = true;
  }
}

bool RemotePython::read_code(std::uint64_t number, std::uint64_t address, stack::PythonCode& code,
                             char* room) {
  if (!stack::read_code(build_.python, memory_, address, code, room)) return false;
  char copy[stack::kMostObjectBytes];
  const std::size_t bytes = build_.python.layout.code_bytes;
  std::uint64_t now;
  return copy_from(pid_, address, copy, bytes) && number_of(address, copy, now) && now == number;
}

// ---- processes

RemotePython* RemotePythons::look_at(pid_t pid, const char*& problem) {
  auto python = std::make_unique<RemotePython>(pid);
  const bool is_found = python->find();
  problem = python->problem();
  if (!is_found) {
    forget(pid);
    return nullptr;
  }
  return (pythons_[pid] = std::move(python)).get();
}

void RemotePythons::forget(pid_t pid) noexcept {
  const auto found = pythons_.find(pid);
  if (found == pythons_.end()) return;
  ended_.add(found->second->counts());
  pythons_.erase(found);
}

RemoteCounts RemotePythons::counts() const noexcept {
  RemoteCounts counts = ended_;
  for (const auto& [pid, python] : pythons_) counts.add(python->counts());
  return counts;
}

RemotePython* RemotePythons::find(pid_t pid) const noexcept {
  const auto found = pythons_.find(pid);
  return found == pythons_.end() ? nullptr : found->second.get();
}

}  // namespace warpline::sampler
