#include "raw/rows.h"

#include <algorithm>
#include <map>
#include <utility>

#include "raw/column.h"
#include "raw/conversions.h"
#include "raw/cuda_clock.h"
#include "raw/order.h"
#include "raw/tables.h"

namespace warpline {

namespace {

template <typename Row>
concept HasSpan = requires(Row row) { row.start_ns, row.end_ns; };
template <typename Row>
concept HasTime = requires(Row row) { row.time_ns; };

template <typename Row>
int32_t process_of(const RawTables &tables, const Row &row) {
  if constexpr (requires { row.process; }) {
    return row.process;
  } else if constexpr (Row::kOwner == RowOf::kThread) {
    return tables.threads[row.thread].process;
  } else {
    return tables.cuda.places[row.place].process;
  }
}

// Returns the correlation of a record, 0 if no call caused it.
template <typename Record>
uint32_t correlation_of(const Record &record) {
  if constexpr (requires { record.correlation; }) return record.correlation;
  return 0;
}

// Takes the times of a row that has them; returns whether it has those that it should.
template <typename Row>
bool take_times(const typename Row::Record &record, Row &row, Taken &taken) {
  if constexpr (HasSpan<Row>) {
    const auto is_far = [](uint64_t time_ns) { return time_ns > kFarNs; };
    const bool is_unknown = Row::kIsOnGpuClock && (record.start_ns == 0 || record.end_ns == 0);
    if (is_unknown || is_far(record.start_ns) || is_far(record.end_ns)) {
      taken.is_sound = Row::kIsOnGpuClock;  // CUPTI may not know them
      return false;
    }
    row.end_ns = std::max(row.start_ns, row.end_ns);
    if (!Row::kIsOnGpuClock) taken.host_time = static_cast<uint64_t>(row.end_ns);
  }
  if constexpr (HasTime<Row>) {
    taken.is_sound = record.time_ns <= kFarNs;
    if (!Row::kIsOnGpuClock) taken.host_time = record.time_ns;
  }
  return taken.is_sound;
}

template <typename Row>
class Table final : public RowsOf<Row> {
 public:
  using RowsOf<Row>::rows;

  std::size_t size() const override { return rows.size(); }

  Taken take(CudaDecoder &decoder, const uint64_t *record, std::size_t words) override {
    using Record = typename Row::Record;
    Taken taken{.is_counted = Record::kIsCounted};
    Record found;
    Row row;
    if (!found.read(record, words)) return {.is_sound = false};
    row.take(found, [&](uint32_t number) { return decoder.text_of(number); });
    const bool has_times = take_times(found, row, taken);
    if constexpr (requires { row.thread; }) {
      if (decoder.thread() == nullptr) return {.is_sound = false};
      row.thread = *decoder.thread();
    }
    if constexpr (requires { row.chain_number; found.python_chain; }) {
      row.chain_number = decoder.chain_of(found.chain, found.python_chain);
      if constexpr (requires { found.instruction; }) {
        row.chain_number = decoder.chain_at(row.chain_number, found.instruction);
      }
    }
    if constexpr (Row::kOwner == RowOf::kProcess) {
      row.process = decoder.process();
    } else if constexpr (Row::kOwner == RowOf::kPlace && requires { found.device; }) {
      if constexpr (HasSpan<Row> && Row::kIsOnGpuClock) {
        decoder.see_work(correlation_of(found), has_times);
      }
      if (has_times) row.place = decoder.place_of(found);
    }
    if (has_times) decoder.add(rows, row);
    return taken;
  }

  void settle_times(const RawTables &tables, int32_t process, const CudaClock &clock) override {
    if constexpr (Row::kIsOnGpuClock) {
      for (std::size_t place = 0; place < rows.size(); ++place) {
        Row row = rows[place];
        if (process_of(tables, row) != process) continue;
        convert(row, clock);
        put(place, row);
      }
    }
  }

  void seal(RawTables &tables) override {
    if (rows.empty()) return;
    ColumnsOf<Row>::visit(Constants{[&](std::string_view name, std::string_view text) {
      constants_[name] = tables.texts.intern(text);
    }});
    const SealedTables in{tables, 0};
    sort_rows(rows, [&](const Row &row) { return ColumnsOf<Row>::first(in, row); },
              [&](const Row &row) { return ColumnsOf<Row>::others(in, row); });
  }

  int64_t copy(const RawTables &tables, std::string_view column,
               const RawPart &part) const override {
    Copied copied{*this, {tables, part.origin_ns}, column, part};
    ColumnsOf<Row>::visit(copied);
    return copied.nulls;
  }

 private:
  template <typename Each>
  struct Constants {
    Each each;

    void operator()(std::string_view, const auto &) const {}
    void shared(std::string_view, const auto &) const {}
    void constant(std::string_view name, std::string_view text) const { each(name, text); }
  };

  // Copies the column of a name when it comes by.
  struct Copied {
    const Table &table;
    SealedTables in;
    std::string_view column;
    const RawPart &part;
    mutable int64_t nulls = -1;

    template <typename Get>
    void operator()(std::string_view name, const Get &get) const {
      if (name != column) return;
      using Stored = typename decltype(get(in, table.rows[0]))::Stored;
      nulls = copy_values<Stored>(part, [&](std::size_t row) { return get(in, table.rows[row]); });
    }

    // Such a column is made of the shared rows, of which there are far fewer.
    template <typename Get>
    void shared(std::string_view name, const Get &get) const {
      if (name != column) return;
      if (table.rows.shared_size() > static_cast<std::size_t>(part.count)) return (*this)(name, get);
      using Stored = typename decltype(get(in, table.rows[0]))::Stored;
      std::vector<Maybe> values;
      table.rows.for_shared([&](const Row &row) { values.push_back(get(in, row)); });
      nulls = copy_values<Stored>(
          part, [&](std::size_t row) { return values[table.rows.shared_number(row)]; });
    }

    void constant(std::string_view name, std::string_view) const {
      if (name != column) return;
      const auto found = table.constants_.find(name);
      const int32_t text = found == table.constants_.end() ? -1 : found->second;
      nulls = copy_values<int32_t>(part, [&](std::size_t) { return row_or_null(text); });
    }
  };

  void put(std::size_t place, const Row &row) {
    if constexpr (Row::kIsAlike) {
      rows.put(place, row);
    } else {
      rows[place] = row;
    }
  }

  static void convert(Row &row, const CudaClock &clock) {
    if constexpr (HasSpan<Row>) {
      row.start_ns = clock.host_ns(row.start_ns);
      row.end_ns = std::max(row.start_ns, clock.host_ns(row.end_ns));
    }
    if constexpr (HasTime<Row>) row.time_ns = clock.host_ns(row.time_ns);
    if constexpr (requires { row.device_time_ns; }) {
      if (row.device_time_ns != 0) row.device_time_ns = clock.host_ns(row.device_time_ns);
    }
  }

  std::map<std::string_view, int32_t> constants_;  // texts; once sealed
};

}  // namespace

RawRows::RawRows() { make(AllRows{}); }

template <typename... Row>
void RawRows::make(RowTypes<Row...>) {
  const auto add = [&]<typename Each>(const Each *) {
    tables_.push_back(std::make_unique<Table<Each>>());
    names_.push_back(Each::kTable);
    AnyRows *&taking = by_kind_[static_cast<uint8_t>(Each::Record::kKind)];
    if (taking == nullptr) taking = tables_.back().get();
  };
  (add(static_cast<const Row *>(nullptr)), ...);
}

void RawRows::settle_times(const RawTables &tables, int32_t process, const CudaClock &clock) {
  for (const auto &table : tables_) table->settle_times(tables, process, clock);
}

void RawRows::seal(RawTables &tables) {
  for (const auto &table : tables_) table->seal(tables);
}

const AnyRows *RawRows::find(std::string_view table) const {
  const auto found = std::find(names_.begin(), names_.end(), table);
  if (found == names_.end()) return nullptr;
  return tables_[static_cast<std::size_t>(found - names_.begin())].get();
}

int64_t RawRows::count(std::string_view table) const {
  const AnyRows *found = find(table);
  return found == nullptr ? -1 : static_cast<int64_t>(found->size());
}

int64_t RawRows::copy(const RawTables &tables, std::string_view name, const RawPart &part) const {
  const std::size_t slash = name.find('/');
  const AnyRows *found = find(name.substr(0, slash));
  if (found == nullptr || slash == name.npos) return -1;
  return found->copy(tables, name.substr(slash + 1), part);
}

}  // namespace warpline
