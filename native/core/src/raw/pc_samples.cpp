#include "raw/pc_samples.h"

#include <cstddef>
#include <cstdint>
#include <limits>

#include "raw/conversions.h"
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
  sum.modules_left_out = static_cast<uint32_t>(
      left_out < UINT32_MAX ? left_out : UINT32_MAX);
  add_to(sum.total_samples, row.total_samples);
  add_to(sum.dropped_samples, row.dropped_samples);
  add_to(sum.non_user_samples, row.non_user_samples);
  sum.is_buffer_full |= row.is_buffer_full;
}

// Rows are the same when nothing in the order of their table tells them apart.
template <typename Row>
void add_up(RawTables &tables) {
  AnyRows *table = tables.rows.of_kind(Row::Record::kKind);
  Growing<Row> &rows = tables.rows.of<Row>();
  if (table == nullptr || rows.empty()) return;
  table->seal(tables);
  const SealedTables in{tables, 0};
  const auto are_same = [&](const Row &a, const Row &b) {
    return ColumnsOf<Row>::first(in, a) == ColumnsOf<Row>::first(in, b) &&
           ColumnsOf<Row>::others(in, a) == ColumnsOf<Row>::others(in, b);
  };
  std::size_t kept = 0;
  for (std::size_t at = 1; at < rows.size(); ++at) {
    const Row row = rows[at];
    if (are_same(rows[kept], row)) {
      add_to(rows[kept], row);
    } else {
      rows[++kept] = row;
    }
  }
  rows.cut_to(kept + 1);
}

}  // namespace

void add_up_pc_samples(RawTables &tables) {
  add_up<PcSampleRow>(tables);
  add_up<PcSamplingRow>(tables);
}

}  // namespace warpline
