#include "nvtx/range_filter.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>

#include "session/expression.h"
#include "session/lock.h"
#include "session/process.h"

namespace warpline::agent::nvtx {
namespace {

constexpr std::size_t kMostNames = 64;  // bits
constexpr std::size_t kMostDepth = 1024;
constexpr std::string_view kRegex = "regex:";

std::atomic<RangeFilter*> g_filter{nullptr};

std::uint64_t bit(std::size_t at) noexcept { return std::uint64_t{1} << at; }

// Cuts what comes before a mark, and the mark, off a text.
std::string_view cut(std::string_view& text, char mark) noexcept {
  const std::size_t end = std::min(text.find(mark), text.size());
  const std::string_view part = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return part;
}

std::uint64_t number_of(std::string_view text) noexcept {
  std::uint64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

pid_t this_thread() noexcept { return static_cast<pid_t>(syscall(SYS_gettid)); }

}  // namespace

thread_local constinit RangeFilter::Stack* RangeFilter::t_stack = nullptr;
thread_local constinit bool RangeFilter::t_is_inside = false;

// A thread within the filter; false if it was already, and a signal handler uses NVTX.
class Inside {
 public:
  Inside() noexcept : is_first_(!RangeFilter::t_is_inside) { RangeFilter::t_is_inside = true; }
  ~Inside() {
    if (is_first_) RangeFilter::t_is_inside = false;
  }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
  explicit operator bool() const noexcept { return is_first_; }

 private:
  bool is_first_;
};

Instances::Instances(std::string_view text) {
  if (text.starts_with(kRegex)) {
    expression_ = compiled(text.substr(kRegex.size()));
    return;
  }
  while (!text.empty()) {
    std::string_view span = cut(text, ',');
    const std::string_view first = cut(span, '-');
    spans_.emplace_back(number_of(first), number_of(span.empty() ? first : span));
  }
}

bool Instances::has(std::uint64_t number) const noexcept {
  if (is_all()) return true;
  if (expression_) {
    try {
      return std::regex_match(std::to_string(number), *expression_);
    } catch (...) {
      return false;
    }
  }
  return std::any_of(spans_.begin(), spans_.end(), [number](const auto& span) {
    return span.first <= number && number <= span.second;
  });
}

bool NameMatcher::matches(std::string_view name) const {
  return expression ? is_found(*expression, name) : name == text;
}

// ---- the expressions

RangeFilter* RangeFilter::current() noexcept {
  const Session* session = g_session.load(std::memory_order_acquire);
  if (session == nullptr || session->ranges_watched == 0) return nullptr;
  RangeFilter* known = g_filter.load(std::memory_order_acquire);
  // A fork has its parent's, with a lock that may be held for ever.
  if (known != nullptr && known->session_ == session && known->pid_ == getpid()) return known;
  try {
    auto* made = new RangeFilter(*session);
    if (g_filter.compare_exchange_strong(known, made, std::memory_order_acq_rel)) return made;
    delete made;  // another thread's is there
    return known;
  } catch (...) {
    return nullptr;
  }
}

RangeFilter::RangeFilter(const Session& session) : session_(&session), pid_(getpid()) {
  const RangeFilterConfig& config = session.config.counters.ranges;
  per_process_ = config.per_process;
  per_window_ = config.per_window;
  const std::string* part = &config.instances;
  try {
    instances_ = Instances(config.instances);
    for (const bool is_include : {true, false}) {
      for (const std::string& form : is_include ? config.include : config.exclude) {
        part = &form;
        add(form, is_include);
      }
    }
  } catch (const std::regex_error&) {
    problem_ = "invalid filter " + part->substr(0, part->find('\n'));
  }
  counts_.resize(expressions_.size());
  started_names_.resize(names_.size());
}

void RangeFilter::add(const std::string& form, bool is_include) {
  std::string_view text = form;
  RangeExpression made;
  made.given = cut(text, '\n');
  made.is_stack = cut(text, '\n') == "push";
  const bool is_regex = cut(text, '\n') == "regex";
  const auto matcher_of = [is_regex](std::string_view name) {
    NameMatcher matcher{std::string(name), {}};
    if (is_regex) matcher.expression = compiled(name);
    return matcher;
  };
  if (const std::string_view domain = cut(text, '\n'); !domain.empty()) {
    made.domain = matcher_of(domain);
  }
  while (!text.empty()) {
    const std::string_view part = cut(text, '\n');
    if (part == "[") {
      made.at_bottom = true;
    } else if (part == "]") {
      made.at_top = true;
    } else if (part == "*" || part == "+") {
      made.parts.push_back({part == "*" ? RangeExpression::Step::kAny : RangeExpression::Step::kOne, 0});
    } else if (names_.size() < kMostNames) {
      made.parts.push_back(
          {RangeExpression::Step::kName, static_cast<std::uint32_t>(names_.size())});
      made.names |= bit(names_.size());
      names_.push_back(std::make_unique<Name>(matcher_of(part.substr(1)), expressions_.size()));
    }
  }
  (is_include ? included_ : excluded_) |= bit(expressions_.size());
  expressions_.push_back(std::move(made));
}

// ---- open ranges

// Returns the bits of the names that a range has; notes what is nearly right.
std::uint64_t RangeFilter::names_of(const Domain& domain, std::string_view name,
                                    bool is_push) noexcept {
  std::uint64_t names = 0;
  for (std::size_t i = 0; i < names_.size(); ++i) {
    const RangeExpression& expression = expressions_[names_[i]->expression];
    if (!names_[i]->matcher.matches(name)) continue;
    if (expression.domain ? !expression.domain->matches(domain.view()) : domain.id != 0) {
      tell(Miss::kOtherDomain, expression, &domain);
    } else if (expression.is_stack != is_push) {
      tell(Miss::kOtherKind, expression, nullptr);
    } else {
      names |= bit(i);
    }
  }
  return names;
}

// Keeps the first miss of an expression that was to choose launches.
void RangeFilter::tell(Miss miss, const RangeExpression& expression, const Domain* domain) noexcept {
  const std::size_t place = static_cast<std::size_t>(&expression - expressions_.data());
  if ((included_ & bit(place)) == 0 || has_missed_.exchange(true)) return;
  const Lock lock(lock_);
  try {
    const std::string flag = "--nvtx-include ";
    const std::string& given = expression.given;
    const std::string found = "no NVTX range matched " + flag + given + ": ";
    if (miss == Miss::kOtherThread) {
      is_miss_of_threads_ = true;
      miss_ = "the NVTX ranges of " + flag + given + " were open in other threads than those that launch\t" +
              "use --nvtx-push-pop-scope process";
    } else if (miss == Miss::kOtherDomain) {
      const std::string name = domain->id == 0 ? "the default domain" : "domain " + std::string(domain->view());
      const std::size_t at = given.find('@');
      const std::string rest = at == given.npos ? given : given.substr(at + 1);
      const std::string prefix = domain->id == 0 ? "" : std::string(domain->view()) + "@";
      miss_ = found + "ranges of this name are in " + name + "\t";
      miss_ += expression.domain && expression.domain->expression ? "name that domain before @"
                                                                  : "use " + flag + "'" + prefix + rest + "'";
    } else if (!expression.is_stack) {
      miss_ = found + "it is a push/pop range\tuse " + flag + "'" + given + "/'";
    } else {
      const bool is_plain = given.ends_with('/') && expression.parts.size() == 1;
      miss_ = found + "it is a start/end range\t" +
              (is_plain ? "use " + flag + "'" + given.substr(0, given.size() - 1) + "'"
                        : "name start/end ranges without / [ and ]");
    }
  } catch (...) {
  }
}

// Whether an expression holds for the ranges of a domain: which places of the stack can be reached, part
// by part.
bool RangeFilter::holds(const RangeExpression& expression, const std::vector<OpenRange>& ranges,
                        const Domain& domain) const {
  std::vector<std::uint64_t> stack;
  for (const OpenRange& range : ranges) {
    if (range.domain == &domain) stack.push_back(range.names);
  }
  std::vector<bool> reached(stack.size() + 1, !expression.at_bottom);
  reached[0] = true;
  for (const RangeExpression::Part& part : expression.parts) {
    std::vector<bool> next(reached.size(), false);
    bool is_below = false;
    for (std::size_t at = 0; at < reached.size(); ++at) {
      is_below = is_below || reached[at];
      if (part.step == RangeExpression::Step::kAny) {
        next[at] = is_below;
      } else if (at > 0 && reached[at - 1]) {
        next[at] = part.step == RangeExpression::Step::kOne || (stack[at - 1] & bit(part.bit)) != 0;
      }
    }
    reached = std::move(next);
  }
  return expression.at_top ? reached.back() : std::find(reached.begin(), reached.end(), true) != reached.end();
}

// A range has begun: whether its number is among those that are wanted.
bool RangeFilter::is_wanted_instance(std::size_t expression) {
  if ((included_ & bit(expression)) == 0) return true;
  has_held_.store(true, std::memory_order_relaxed);
  if (instances_.is_all()) return true;
  Count& count = counts_[expression];
  if (per_window_) {
    if (g_process->windows_open.load() == 0) return false;
    const std::uint64_t window = g_process->windows_begun.load();
    if (count.window != window) count = {window, 0};
  }
  return instances_.has(++count.instances);
}

// Finds which expressions hold for a stack that has changed. The lock is held where it is the process's.
void RangeFilter::follow(Stack& stack) {
  std::uint64_t open = 0;
  for (std::size_t i = 0; i < expressions_.size(); ++i) {
    const RangeExpression& expression = expressions_[i];
    if (!expression.is_stack) continue;
    const Domain* last = nullptr;
    for (const OpenRange& range : stack.ranges) {
      if (range.domain == last || (range.names & expression.names) == 0) continue;
      last = range.domain;
      if (holds(expression, stack.ranges, *last)) open |= bit(i);
    }
  }
  const std::uint64_t begun = open & ~stack.open;
  stack.open = open;
  stack.chosen &= open;
  if (begun == 0) return;
  std::optional<Lock> lock;
  if (&stack != &all_) lock.emplace(lock_);
  for (std::size_t i = 0; i < expressions_.size(); ++i) {
    if ((begun & bit(i)) != 0 && is_wanted_instance(i)) stack.chosen |= bit(i);
  }
}

RangeFilter::Stack& RangeFilter::stack_here() {
  if (t_stack == nullptr) t_stack = new Stack;
  if (t_stack->filter != this) {
    *t_stack = {};
    t_stack->filter = this;
  }
  return *t_stack;
}

namespace {

// Sets the bits of some expressions to those of a state.
void put(std::atomic<std::uint64_t>& word, std::uint64_t mask, std::uint64_t bits) noexcept {
  word.store((word.load(std::memory_order_relaxed) & ~mask) | bits, std::memory_order_release);
}

}  // namespace

void RangeFilter::push(const Domain& domain, std::string_view name) noexcept {
  const Inside inside;
  if (!inside) return;
  try {
    const std::uint64_t names = names_of(domain, name, true);
    std::optional<Lock> lock;
    if (per_process_) lock.emplace(lock_);
    Stack& stack = per_process_ ? all_ : stack_here();
    if (stack.ranges.size() >= kMostDepth) {
      ++stack.beyond;
      return;
    }
    stack.ranges.push_back({&domain, names, per_process_ ? this_thread() : 0});
    for (std::size_t i = 0; i < names_.size(); ++i) {
      if ((names & bit(i)) != 0) names_[i]->pushed.fetch_add(1, std::memory_order_relaxed);
    }
    follow(stack);
    if (!per_process_) return;
    put(open_, stack_mask(), stack.open);
    put(chosen_, stack_mask(), stack.chosen);
  } catch (...) {
  }
}

void RangeFilter::pop(const Domain& domain) noexcept {
  const Inside inside;
  if (!inside || (!per_process_ && t_stack == nullptr)) return;
  try {
    std::optional<Lock> lock;
    if (per_process_) lock.emplace(lock_);
    Stack& stack = per_process_ ? all_ : stack_here();
    if (stack.beyond != 0) {
      --stack.beyond;
      return;
    }
    const pid_t thread = per_process_ ? this_thread() : 0;
    const auto top = std::find_if(stack.ranges.rbegin(), stack.ranges.rend(), [&](const OpenRange& range) {
      return range.domain == &domain && range.thread == thread;
    });
    if (top == stack.ranges.rend()) return;  // it was pushed before the session
    for (std::size_t i = 0; i < names_.size(); ++i) {
      if ((top->names & bit(i)) != 0) names_[i]->pushed.fetch_sub(1, std::memory_order_relaxed);
    }
    stack.ranges.erase(std::next(top).base());
    follow(stack);
    if (per_process_) {
      put(open_, stack_mask(), stack.open);
      put(chosen_, stack_mask(), stack.chosen);
    } else if (stack.ranges.empty()) {
      delete t_stack;  // the thread may end
      t_stack = nullptr;
    }
  } catch (...) {
  }
}

bool RangeFilter::start(const Domain& domain, std::string_view name, std::uint64_t id) noexcept {
  const Inside inside;
  if (!inside) return false;
  try {
    const std::uint64_t names = names_of(domain, name, false);
    if (names == 0) return false;
    const Lock lock(lock_);
    started_[id] = names;
    count_started(names, 1);
    return true;
  } catch (...) {
    return false;
  }
}

bool RangeFilter::stop(std::uint64_t id) noexcept {
  const Inside inside;
  if (!inside) return false;
  try {
    const Lock lock(lock_);
    const auto found = started_.find(id);
    if (found == started_.end()) return false;
    const std::uint64_t names = found->second;
    started_.erase(found);
    count_started(names, -1);
    return true;
  } catch (...) {
    return false;
  }
}

// With the lock: of each name, one more range is open or one less.
void RangeFilter::count_started(std::uint64_t names, int change) {
  std::uint64_t open_names = 0;
  for (std::size_t i = 0; i < names_.size(); ++i) {
    if ((names & bit(i)) != 0) started_names_[i] += static_cast<std::uint32_t>(change);
    if (started_names_[i] != 0) open_names |= bit(i);
  }
  std::uint64_t open = open_.load(std::memory_order_relaxed);
  std::uint64_t chosen = chosen_.load(std::memory_order_relaxed);
  for (std::size_t i = 0; i < expressions_.size(); ++i) {
    const RangeExpression& expression = expressions_[i];
    if (expression.is_stack) continue;
    const bool was = (open & bit(i)) != 0;
    const bool is = (open_names & expression.names) == expression.names;
    if (is && !was) {
      open |= bit(i);
      if (is_wanted_instance(i)) chosen |= bit(i);
    } else if (!is && was) {
      open &= ~bit(i);
      chosen &= ~bit(i);
    }
  }
  open_.store(open, std::memory_order_release);
  chosen_.store(chosen, std::memory_order_release);
}

std::uint64_t RangeFilter::stack_mask() const noexcept {
  std::uint64_t mask = 0;
  for (std::size_t i = 0; i < expressions_.size(); ++i) {
    if (expressions_[i].is_stack) mask |= bit(i);
  }
  return mask;
}

// ---- launches

bool RangeFilter::has_launch() noexcept {
  std::uint64_t open = open_.load(std::memory_order_acquire);
  std::uint64_t chosen = chosen_.load(std::memory_order_acquire);
  if (t_stack != nullptr && t_stack->filter == this) {
    open |= t_stack->open;
    chosen |= t_stack->chosen;
  }
  if ((open & excluded_) != 0) return false;
  if (included_ == 0 || (chosen & included_) != 0) return true;
  if ((open & included_) == 0 && !has_missed_.load(std::memory_order_relaxed)) look_at_other_threads();
  return false;
}

void RangeFilter::look_at_other_threads() noexcept {
  const Inside inside;
  if (!inside || per_process_) return;
  for (std::size_t i = 0; i < expressions_.size(); ++i) {
    const RangeExpression& expression = expressions_[i];
    if (!expression.is_stack || (included_ & bit(i)) == 0) continue;
    const bool are_open = std::all_of(
        expression.parts.begin(), expression.parts.end(), [this](const RangeExpression::Part& part) {
          return part.step != RangeExpression::Step::kName ||
                 names_[part.bit]->pushed.load(std::memory_order_relaxed) != 0;
        });
    if (are_open) return tell(Miss::kOtherThread, expression, nullptr);
  }
}

std::string RangeFilter::reason() const {
  const Lock lock(lock_);
  const bool has_held = has_held_.load();
  if (!miss_.empty() && has_held == is_miss_of_threads_) return miss_;
  if (included_ == 0 || has_held) return {};
  std::string all;
  for (std::size_t i = 0; i < expressions_.size(); ++i) {
    if ((included_ & bit(i)) != 0) all += " --nvtx-include " + expressions_[i].given;
  }
  return "no NVTX range matched" + all + "\trecord a timeline to see the ranges: warpline profile";
}

}  // namespace warpline::agent::nvtx
