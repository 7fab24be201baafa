#include "counters/processes.h"

#include <sys/types.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include "session/expression.h"

namespace warpline::agent {
namespace {

constexpr std::string_view kRegexOfNames = "regex:";
constexpr std::string_view kExclude = "exclude:";
constexpr std::string_view kExcludeTree = "exclude-tree:";
constexpr int kMostAncestors = 64;

// Returns the name of a process's executable; empty if it cannot be known.
std::string executable_of(pid_t pid) {
  char path[4096];
  const std::string link = "/proc/" + std::to_string(pid) + "/exe";
  const ssize_t bytes = readlink(link.c_str(), path, sizeof path);
  if (bytes <= 0) return {};
  std::string_view name(path, static_cast<std::size_t>(bytes));
  if (constexpr std::string_view deleted = " (deleted)"; name.ends_with(deleted)) {
    name.remove_suffix(deleted.size());
  }
  return std::string(name.substr(name.rfind('/') + 1));
}

pid_t parent_of(pid_t pid) {
  char text[512] = {};
  std::FILE* file = std::fopen(("/proc/" + std::to_string(pid) + "/stat").c_str(), "re");
  if (file == nullptr) return 0;
  const std::size_t bytes = std::fread(text, 1, sizeof text - 1, file);
  std::fclose(file);
  text[bytes] = 0;
  const char* after = std::strrchr(text, ')');  // the name before may have spaces
  return after == nullptr || std::strlen(after) < 4 ? 0 : static_cast<pid_t>(std::atoi(after + 4));
}

// Whether a process that this one comes from, up to the program, has a name.
bool has_ancestor(std::string_view name, pid_t program) {
  pid_t pid = getpid();
  for (int i = 0; i < kMostAncestors && pid > 1 && pid != program; ++i) {
    pid = parent_of(pid);
    if (pid > 1 && executable_of(pid) == name) return true;
  }
  return false;
}

bool matches(std::string_view filter, const std::string& name) {
  if (!filter.starts_with(kRegexOfNames)) return filter == name;
  filter.remove_prefix(kRegexOfNames.size());
  return is_found(compiled(filter), name);
}

// What the filters say: the first that matches decides.
bool is_filtered_in(const ProcessesConfig& config, const std::string& name) {
  bool has_positive = false;
  for (const std::string& filter : config.filters) {
    const std::string_view text = filter;
    if (text.starts_with(kExcludeTree)) {
      const std::string_view tree = text.substr(kExcludeTree.size());
      if (tree == name || has_ancestor(tree, config.program)) return false;
    } else if (text.starts_with(kExclude)) {
      if (text.substr(kExclude.size()) == name) return false;
    } else {
      has_positive = true;
      if (matches(text, name)) return true;
    }
  }
  return !has_positive;
}

}  // namespace

bool is_counted_process(const ProcessesConfig& config, std::string& reason) {
  if (config.only_program && config.program != 0 && config.program != getpid()) {
    reason = "only child processes of the program used CUDA\tuse --target-processes all";
    return false;
  }
  if (config.filters.empty()) return true;
  const std::string name = executable_of(getpid());
  if (is_filtered_in(config, name)) return true;
  reason = "--target-processes-filter left out " + name +
           "\tname executables, such as --target-processes-filter " + name;
  return false;
}

}  // namespace warpline::agent
