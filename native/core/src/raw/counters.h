// Counters of kernels: what their values are joined with, in any log of a process.
#pragma once

#include <cstdint>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "growing.h"

namespace warpline {

class RawTexts;
struct RawTables;

// A metric: texts.
struct CounterMetric {
  int32_t name = -1;
  int32_t unit = -1;  // -1: none
};

// The clock while the passes over a launch were made.
struct ClockOfLaunch {
  int32_t process = -1;
  uint32_t launch = 0;
  uint32_t lowest_mhz = 0;
  uint32_t highest_mhz = 0;
};

struct CounterTables {
  std::vector<CounterMetric> metrics;
  std::map<std::pair<int32_t, uint32_t>, uint32_t> metric_of;  // process, the agent's number
  Growing<ClockOfLaunch> clocks;
  int64_t failed_launches = 0;
  int64_t lost_values = 0;  // of launches that have no row, or that failed

  // Takes a name, and the unit after a space. The first one of a number is the one that counts.
  void add_metric(RawTexts &texts, int32_t process, uint32_t number, std::string_view text);
};

// Joins values with launches and metrics, and launches with their clock and with the NVTX ranges that
// were open; once ranges are in their order and devices have rows.
void seal_counters(RawTables &tables);

}  // namespace warpline
