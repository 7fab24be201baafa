// Collectors: what records by itself in each process of a session that asks for it.
#pragma once

#include <string_view>

namespace warpline::agent {

struct Session;

// A collector makes itself known by a constant of this type in its own file. Forks of the process
// have none of their own.
class Collector {
 public:
  // `name` is that of records.toml. `begin` runs once the process has attached, if the session asks
  // for it; `end` before the process detaches, begun or not. Either may be null.
  Collector(std::string_view name, void (*begin)() noexcept, void (*end)() noexcept) noexcept;

 private:
  friend void begin_collectors(const Session& session) noexcept;
  friend void end_collectors() noexcept;

  std::string_view name_;
  void (*begin_)() noexcept;
  void (*end_)() noexcept;
  Collector* next_;
};

void begin_collectors(const Session& session) noexcept;
void end_collectors() noexcept;

}  // namespace warpline::agent
