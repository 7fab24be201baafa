#include "raw/os_calls.h"

#include <cstdint>
#include <map>
#include <vector>

#include "raw/tables.h"

namespace warpline {

void nest_os_calls(RawTables &tables) {
  std::map<uint32_t, std::vector<int64_t>> open_ends;  // of each thread, innermost last
  auto &calls = tables.rows.of<OsCallRow>();
  for (std::size_t place = 0; place < calls.size(); ++place) {
    OsCallRow &call = calls[place];
    std::vector<int64_t> &ends = open_ends[call.thread];
    while (!ends.empty() && ends.back() <= call.start_ns) ends.pop_back();
    call.level = static_cast<uint32_t>(ends.size());
    ends.push_back(call.end_ns);
  }
}

}  // namespace warpline
