// What a session asks of the agent: its agent.conf.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace warpline::agent {

struct Config {
  bool nvtx = true;
  std::vector<std::string> include_domains;  // if any, only these; "default" is the default domain
  std::vector<std::string> exclude_domains;
  std::string range_name;                    // of the capture range
  std::string range_domain;                  // empty: the default domain
  bool any_range_domain = false;
  std::uint64_t block_bytes = 1u << 20;
  std::uint64_t keep_free_bytes = 64u << 20;

  bool is_domain_enabled(std::string_view name) const;
  bool is_capture_range(std::string_view name, std::string_view domain) const;
};

// Parses lines of KEY=VALUE with percent-encoded values. Unknown keys and broken lines are left
// out: a newer launcher may write what this agent does not know.
Config parse_config(std::string_view text);

// Reads the configuration of a session. Returns 0 or an errno value.
int read_config(const std::string& path, Config& config);

}  // namespace warpline::agent
