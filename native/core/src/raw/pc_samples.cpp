#include "raw/pc_samples.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <tuple>

#include "raw/tables.h"

namespace warpline {

namespace {

// Counts of a damaged log are not to wrap around.
void add_to(uint64_t &sum, uint64_t count) {
  constexpr uint64_t kMost = std::numeric_limits<int64_t>::max();
  sum = count > kMost || sum > kMost - count ? kMost : sum + count;
}

void add_to(PcSampleRow &sum, const PcSampleRow &row) {
  add_to(sum.samples, row.samples);
  add_to(sum.not_issued, row.not_issued);
}

void add_to(PcSamplingRow &sum, const PcSamplingRow &row) {
  uint64_t left_out = sum.modules_left_out;
  add_to(left_out, row.modules_left_out);
  sum.modules_left_out = static_cast<uint32_t>(std::min<uint64_t>(left_out, UINT32_MAX));
  add_to(sum.total_samples, row.total_samples);
  add_to(sum.dropped_samples, row.dropped_samples);
  add_to(sum.non_user_samples, row.non_user_samples);
  sum.is_buffer_full |= row.is_buffer_full;
}

// What rows have in common that are added up. All of a device have one place.
auto key_of(const PcSampleRow &row) {
  return std::tuple(row.place, row.checksum, row.offset, row.function, row.stall);
}
auto key_of(const PcSamplingRow &row) { return std::tuple(row.place); }

template <typename Row>
void add_up(Growing<Row> &rows) {
  if (rows.empty()) return;
  std::sort(rows.begin(), rows.end(),
            [](const Row &a, const Row &b) { return key_of(a) < key_of(b); });
  std::size_t kept = 0;
  for (std::size_t at = 1; at < rows.size(); ++at) {
    const Row row = rows[at];
    if (key_of(rows[kept]) == key_of(row)) {
      add_to(rows[kept], row);
    } else {
      rows[++kept] = row;
    }
  }
  rows.cut_to(kept + 1);
}

}  // namespace

void add_up_pc_samples(RawTables &tables) {
  add_up(tables.rows.of<PcSampleRow>());
  add_up(tables.rows.of<PcSamplingRow>());
}

}  // namespace warpline
