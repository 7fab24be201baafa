// The tables whose rows are records: native/raw/records.toml declares them, and the code here is
// the same for all.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "growing.h"
#include "raw/alike_rows.h"
#include "warpline_tables.h"

namespace warpline {

class CudaClock;
class CudaDecoder;
struct RawPart;
struct RawTables;

// Rows refer to each other by int32_t, as in the schema.
inline constexpr std::size_t kMaxRows = 0x7fffffff;

// What became of a record.
struct Taken {
  bool is_sound = true;     // false: the log is damaged here
  bool is_foreign = false;  // a kind that this version does not know
  bool is_counted = false;  // in the header's number of records
  uint64_t host_time = 0;   // the last time on the host's clock that it has, 0: none
};

// A table, whatever its rows are.
class AnyRows {
 public:
  virtual ~AnyRows() = default;

  virtual std::size_t size() const = 0;
  // Makes a row of a record of the table's kind.
  virtual Taken take(CudaDecoder &decoder, const uint64_t *record, std::size_t words) = 0;
  // Puts the times of a process on the host's clock, if they are CUPTI's.
  virtual void settle_times(const RawTables &tables, int32_t process, const CudaClock &clock) = 0;
  // Sorts the rows.
  virtual void seal(RawTables &tables) = 0;
  // Copies part of a column and returns how many values are null; -1: there is no such column.
  virtual int64_t copy(const RawTables &tables, std::string_view column,
                       const RawPart &part) const = 0;
};

// How the rows of a table are stored: as they are where they differ in more than AlikeRows expects.
template <bool IsAlike, typename Row>
struct Stored {
  using Rows = Growing<Row>;
};
template <typename Row>
struct Stored<true, Row> {
  using Rows = AlikeRows<Row>;
};

// The rows of a table, for code that joins them.
template <typename Row>
class RowsOf : public AnyRows {
 public:
  typename Stored<Row::kIsAlike, Row>::Rows rows;
};

class RawRows {
 public:
  RawRows();

  template <typename Row>
  auto &of() {
    return static_cast<RowsOf<Row> &>(*tables_[Row::kNumber]).rows;
  }
  template <typename Row>
  const auto &of() const {
    return static_cast<const RowsOf<Row> &>(*tables_[Row::kNumber]).rows;
  }

  // Returns the table whose rows are records of a kind, or null.
  AnyRows *of_kind(raw::Kind kind) { return by_kind_[static_cast<uint8_t>(kind)]; }

  void settle_times(const RawTables &tables, int32_t process, const CudaClock &clock);
  void seal(RawTables &tables);

  // The number of rows of a table, or -1 if it is none of these.
  int64_t count(std::string_view table) const;

  // Copies part of the column "TABLE/COLUMN", as AnyRows does.
  int64_t copy(const RawTables &tables, std::string_view name, const RawPart &part) const;

 private:
  template <typename... Row>
  void make(RowTypes<Row...>);
  const AnyRows *find(std::string_view table) const;

  std::vector<std::unique_ptr<AnyRows>> tables_;
  std::vector<std::string_view> names_;
  std::array<AnyRows *, 256> by_kind_{};
};

}  // namespace warpline
