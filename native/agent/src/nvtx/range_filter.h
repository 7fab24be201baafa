// Which launches are counted by the NVTX ranges that are open: the expressions of Nsight Compute.
//
// Only a session with such expressions has a filter; NVTX's functions then tell it of all ranges, recorded
// or not. What is kept of a range is not its name but which names of the expressions it has.
#pragma once

#include <pthread.h>
#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <regex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "nvtx/names.h"
#include "session/config.h"

namespace warpline::agent {
struct Session;
}  // namespace warpline::agent

namespace warpline::agent::nvtx {

// Which of a number of instances are meant, counted from 1: "3", "2-5,7", or "regex:EXPRESSION", which
// must match all of the number.
class Instances {
 public:
  Instances() noexcept = default;
  // Throws std::regex_error.
  explicit Instances(std::string_view text);
  bool is_all() const noexcept { return spans_.empty() && !expression_; }
  bool has(std::uint64_t number) const noexcept;

 private:
  std::vector<std::pair<std::uint64_t, std::uint64_t>> spans_;
  std::optional<std::regex> expression_;
};

// A name, or an expression that is found in it.
struct NameMatcher {
  std::string text;
  std::optional<std::regex> expression;

  bool matches(std::string_view name) const;
};

struct RangeExpression {
  enum class Step : std::uint8_t { kName, kOne, kAny };
  struct Part {
    Step step;
    std::uint32_t bit;  // of a kName, among all names
  };
  std::string given;  // as the user wrote it
  bool is_stack = false;
  bool at_bottom = false;
  bool at_top = false;
  std::optional<NameMatcher> domain;  // none: the default domain
  std::vector<Part> parts;
  std::uint64_t names = 0;  // bits
};

class RangeFilter {
 public:
  // The filter of the session, for this process; null if it has none.
  static RangeFilter* current() noexcept;

  // Ranges of this thread, and of the process.
  void push(const Domain& domain, std::string_view name) noexcept;
  void pop(const Domain& domain) noexcept;
  // Returns whether the end is to be told.
  bool start(const Domain& domain, std::string_view name, std::uint64_t id) noexcept;
  // Returns whether the range was told.
  bool stop(std::uint64_t id) noexcept;

  // Whether a launch of this thread is to be counted now.
  bool has_launch() noexcept;

  // What is wrong with an expression; empty if nothing is.
  const std::string& problem() const noexcept { return problem_; }
  // Why no launch was chosen, a tab, and what to do.
  std::string reason() const;

 private:
  struct OpenRange {
    const Domain* domain;
    std::uint64_t names;  // bits of those that it has
    pid_t thread;
  };
  struct Stack {
    const RangeFilter* filter = nullptr;
    std::vector<OpenRange> ranges;
    std::uint64_t beyond = 0;  // deeper ones, which are not kept
    std::uint64_t open = 0;    // bits of expressions that hold
    std::uint64_t chosen = 0;  // and whose instance is wanted
  };
  struct Name {
    Name(NameMatcher of, std::size_t in) : matcher(std::move(of)), expression(in) {}
    NameMatcher matcher;
    std::size_t expression;
    std::atomic<std::uint32_t> pushed{0};  // open now, in all threads
  };
  struct Count {
    std::uint64_t window = 0;
    std::uint64_t instances = 0;
  };
  enum class Miss : std::uint8_t { kOtherKind, kOtherDomain, kOtherThread };

  explicit RangeFilter(const Session& session);
  void add(const std::string& form, bool is_include);
  std::uint64_t names_of(const Domain& domain, std::string_view name, bool is_push) noexcept;
  void tell(Miss miss, const RangeExpression& expression, const Domain* domain) noexcept;
  bool holds(const RangeExpression& expression, const std::vector<OpenRange>& ranges,
             const Domain& domain) const;
  void follow(Stack& stack);
  bool is_wanted_instance(std::size_t expression);
  void count_started(std::uint64_t names, int change);
  std::uint64_t stack_mask() const noexcept;
  void look_at_other_threads() noexcept;
  Stack& stack_here();

  const Session* session_;
  pid_t pid_;
  std::string problem_;
  std::vector<RangeExpression> expressions_;
  std::vector<std::unique_ptr<Name>> names_;
  std::uint64_t included_ = 0;  // bits of expressions
  std::uint64_t excluded_ = 0;
  bool per_process_ = false;
  bool per_window_ = false;
  Instances instances_;

  mutable pthread_mutex_t lock_ = PTHREAD_MUTEX_INITIALIZER;
  std::vector<Count> counts_;  // by expression
  std::unordered_map<std::uint64_t, std::uint64_t> started_;  // ids of open ranges with names
  std::vector<std::uint32_t> started_names_;                  // by bit: how many of these are open
  Stack all_;  // of the process
  std::string miss_;
  bool is_miss_of_threads_ = false;
  std::atomic<bool> has_missed_{false};
  std::atomic<bool> has_held_{false};  // an included expression has
  // What holds for every thread: of start/end ranges, and of the process's stack.
  std::atomic<std::uint64_t> open_{0};
  std::atomic<std::uint64_t> chosen_{0};

  static thread_local constinit Stack* t_stack;
  static thread_local constinit bool t_is_inside;  // a signal handler has come in between
  friend class Inside;
};

}  // namespace warpline::agent::nvtx
