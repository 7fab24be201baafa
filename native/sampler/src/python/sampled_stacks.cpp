#include "python/sampled_stacks.h"

#include <algorithm>

namespace warpline::sampler {
namespace {

using stack::PythonLayout;

constexpr std::size_t kMostLinks = 8192;
constexpr std::size_t kKeptFrames = 8;  // the innermost of a stack: these may have ended soon
constexpr std::size_t kMostSteps = 4 * stack::kMaxPythonFrames;
constexpr std::uint64_t kUnit = 2;  // bytes of an instruction
constexpr std::uint64_t kLeastAddress = 4096;

// How the frames of an activation of the evaluator end.
enum class End : std::uint8_t {
  kEach,  // there is one
  kFlag,  // the first of them says that it is
  kShim,  // the caller of the first is a frame on the C stack
};

End end_of(const PythonLayout& layout) noexcept {
  if (layout.frame_owner == 0) return End::kEach;
  return layout.frame_is_entry != 0 ? End::kFlag : End::kShim;
}

// A Python frame of a sample.
struct Found {
  std::uint64_t code = 0;
  std::uint64_t caller = 0;
  std::uint64_t place = 0;  // in the code
  bool is_own = false;      // it is still there
  bool is_first = false;    // of its activation
};

// Walks the frames of a sample.
class Walk {
 public:
  Walk(RemotePython& python, Links& links, StackMemory& sampled, const std::vector<Entered>& entered,
       const std::vector<std::uint64_t>& active, RemotePythonStack& stack) noexcept
      : python_(python),
        layout_(python.build().python.layout),
        links_(links),
        sampled_(sampled),
        entered_(entered),
        active_(active),
        stack_(stack),
        end_(end_of(layout_)) {}

  bool find() {
    stack_.count = 0;
    const Link* link = nullptr;
    for (std::size_t i = 0; i < entered_.size() && !is_full(); ++i) {
      // It is about to begin, or to end.
      if (end_ == End::kShim && entered_[i].has_on_stack(entered_[i].frame)) continue;
      if (!walk(i, link)) return false;
    }
    stack_.is_whole = stack_.is_settled = true;
    return stack_.count != 0 && python_.number_frames(stack_);
  }

 private:
  bool is_full() const noexcept { return stack_.count == stack::kMaxPythonFrames; }

  // Walks an activation. `link` is that of the last frame, if that has ended.
  bool walk(std::size_t number, const Link*& link) {
    const Entered& entered = entered_[number];
    std::uint64_t at = entered.frame;
    for (std::size_t step = 0; step < kMostSteps; ++step) {
      Found frame;
      if (!read(number, at, frame)) return false;
      if (step == 0 && !is_of(number, entered.next, frame)) return false;
      if (link != nullptr && !is_called_by(*link, step == 0, frame)) return false;
      link = nullptr;
      if (!frame.is_own && !call_again(at, frame, link)) return false;
      add(frame, entered.native);
      if (frame.is_own && stack_.count <= kKeptFrames) keep(number, at, frame);
      if (frame.is_first) return !frame.is_own || continues(number, frame.caller);
      if (is_full()) return true;
      at = frame.caller;
    }
    return false;
  }

  const char* frame_at(std::uint64_t address) noexcept {
    const bool is_place = address >= kLeastAddress && address % sizeof address == 0;
    return is_place ? python_.memory().view_frame(address, layout_.frame_bytes) : nullptr;
  }

  // Reads what is there now. False where nothing is, and that is needed.
  bool read(std::size_t number, std::uint64_t at, Found& frame) {
    const char* bytes = frame_at(at);
    if (bytes == nullptr) return end_ == End::kEach;
    frame.code = stack::code_of(layout_, bytes);
    frame.caller = stack::word_at(bytes + layout_.frame_previous);
    frame.place = stack::place_in(layout_, frame.code, bytes);
    frame.is_first = is_first(number, bytes);
    frame.is_own = is_active(at);
    return true;
  }

  // Whether the sample tells which code a frame ran. That is not what is there now, if the place has been
  // used for another frame since.
  bool is_of(std::size_t number, std::uint64_t next, Found& frame) {
    const auto has = [next](const CodeRange& range) {
      return range.begin != 0 && range.begin <= next && next <= range.end;
    };
    CodeRange range = python_.range_of(frame.code);
    if (next != 0 && !has(range)) {
      // To look for code takes a while: callers mostly are still there.
      const std::uint64_t code = python_.code_with(next, frame.is_own && number != 0);
      if (code == 0) return frame.is_own && range.begin != 0;
      range = python_.range_of(frame.code = code);
      frame.is_own = false;
    }
    if (!has(range)) return frame.is_own && range.begin != 0;
    frame.place = next > range.begin ? next - range.begin - kUnit : raw::PythonFrame::kBeforeStart;
    return true;
  }

  // Whether a frame may be the caller of one that has ended. It may be at another call by now, and may have
  // ended, too.
  static bool is_called_by(const Link& link, bool is_of_sample, Found& frame) noexcept {
    const bool is_same = frame.code == link.caller_code;
    if (is_of_sample) return is_same;  // the sample says where it is
    if (!is_same && !link.is_steady) return false;
    frame.is_own = frame.is_own && is_same;
    frame.code = link.caller_code;
    frame.place = link.caller_place;
    return true;
  }

  // Finds the caller of a frame that has ended.
  bool call_again(std::uint64_t at, Found& frame, const Link*& link) {
    frame.is_first = end_ == End::kEach;
    if (frame.is_first) return true;
    const auto found = links_.find(stack::mixed(at, frame.code));
    if (found == links_.end() || found->second.code != frame.code) return false;
    link = &found->second;
    frame.caller = link->caller;
    frame.is_first = frame.caller == 0;
    return true;
  }

  void keep(std::size_t number, std::uint64_t at, const Found& frame) {
    if (end_ == End::kEach) return;
    Link next{.code = frame.code, .caller = frame.is_first ? 0 : frame.caller};
    const bool is_outermost = frame.is_first && number + 1 == entered_.size();
    if (!is_outermost) {
      const char* bytes = frame_at(frame.is_first ? entered_[number + 1].frame : frame.caller);
      if (bytes == nullptr) return;
      next.caller_code = stack::code_of(layout_, bytes);
      next.caller_place = stack::place_in(layout_, next.caller_code, bytes);
    }
    if (links_.size() > kMostLinks) links_.clear();
    const auto [found, is_new] = links_.try_emplace(stack::mixed(at, frame.code), next);
    if (is_new) return;
    next.is_steady = found->second.code == next.code && found->second.has_same_caller(next);
    found->second = next;
  }

  void add(const Found& frame, std::uint32_t native) noexcept {
    std::uint64_t place = frame.place;
    if (frame.is_first) {
      place |= raw::PythonFrame::kIsEntry | std::uint64_t{native} << raw::PythonFrame::kNativeShift;
    }
    stack_.code_addresses[stack_.count] = frame.code;
    stack_.entries[stack_.count] = 0;
    stack_.frames[2 * stack_.count + 1] = place;
    ++stack_.count;
  }

  bool is_active(std::uint64_t at) const noexcept {
    return std::find(active_.begin(), active_.end(), at) != active_.end();
  }

  bool is_first(std::size_t number, const char* bytes) const noexcept {
    switch (end_) {
      case End::kEach: return true;
      case End::kFlag: return bytes[layout_.frame_is_entry] != 0;
      case End::kShim: break;
    }
    return entered_[number].has_on_stack(stack::word_at(bytes + layout_.frame_previous));
  }

  // Whether the caller of an activation's first frame is the frame that the next activation runs.
  bool continues(std::size_t number, std::uint64_t caller) noexcept {
    if (number + 1 == entered_.size()) return true;
    if (end_ == End::kShim && !sampled_.read(caller + layout_.frame_previous, caller)) return false;
    return caller == entered_[number + 1].frame;
  }

  RemotePython& python_;
  const PythonLayout& layout_;
  Links& links_;
  StackMemory& sampled_;
  const std::vector<Entered>& entered_;
  const std::vector<std::uint64_t>& active_;
  RemotePythonStack& stack_;
  End end_;
};

}  // namespace

void SampledStacks::enter(RemotePython& python, EvaluatorPlaces& places, const Callers& callers,
                          StackMemory& memory) {
  entered_.clear();
  CodeRange range;
  const PythonLayout& layout = python.build().python.layout;
  const std::uint64_t frame = active_.empty() ? 0 : active_.front();
  const char* bytes = frame == 0 ? nullptr : python.memory().view_frame(frame, layout.frame_bytes);
  if (bytes != nullptr) range = python.range_of(stack::code_of(layout, bytes));
  for (const WatchedFrame& watched : callers.watched) {
    const EvaluatorWords words(watched, memory);
    auto& [of_frame, of_next] = places.of(watched.is_innermost);
    if (entered_.empty() && range.begin != 0) {
      of_frame.learn(words, [&](std::uint64_t word) { return word == frame; });
      of_next.learn(words, [&](std::uint64_t word) { return word > range.begin && word <= range.end; });
    }
    entered_.push_back({.frame = of_frame.of(words),
                        .next = of_next.of(words),
                        .stack_begin = watched.stack_pointer,
                        .stack_end = watched.caller_stack_pointer,
                        .native = watched.caller + 1});
  }
}

bool SampledStacks::find(RemotePython& python, const void* build, pid_t pid, pid_t tid,
                         const Callers& callers, StackMemory& memory, RemotePythonStack& stack) {
  // Without them, the sample and what was seen earlier may still tell enough.
  if (!python.copy_active(tid, active_)) active_.clear();
  enter(python, places_[build], callers, memory);
  Walk walk(python, links_[pid], memory, entered_, active_, stack);
  return walk.find();
}

}  // namespace warpline::sampler
