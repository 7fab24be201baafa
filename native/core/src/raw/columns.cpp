#include "raw/columns.h"

#include <algorithm>
#include <cstring>

#include "raw/column.h"

namespace warpline {

namespace {

const RawRange &range(const RawTables &t, std::size_t row) { return t.ranges[t.range_order[row]]; }
const RawLabel &label(const RawTables &t, std::size_t row) {
  return range_label(t, t.range_order[row]);
}
const RawMark &mark(const RawTables &t, std::size_t row) { return t.marks[t.mark_order[row]]; }
const RawLabel &mark_label(const RawTables &t, std::size_t row) {
  return t.labels[mark(t, row).label];
}
const RawValue &value(const RawTables &t, std::size_t row) { return t.values[t.value_order[row]]; }
const RawRange &open_range(const RawTables &t, std::size_t row) { return t.ranges[t.opens[row].range]; }
const RawLabel &open_label(const RawTables &t, std::size_t row) {
  return range_label(t, t.opens[row].range);
}
const RawPlace &place(const RawTables &t, int32_t row) {
  return t.places[static_cast<std::size_t>(row)];
}

Maybe end_thread(const RawTables &t, std::size_t row) {
  if (!range(t, row).is(RawRange::kEndsElsewhere)) return {0, false};
  return known(t.end_threads.at(t.range_order[row]));
}

int64_t source(const RawTables &t, std::size_t row) {
  return t.range_sources.empty() ? static_cast<int64_t>(row) + 1 : t.range_sources[row];
}

Maybe owner(const RawTables &t, std::size_t row, Owner kind) {
  const RawValue &found = value(t, row);
  if (found.owner_kind != kind) return {0, false};
  return known(kind == Owner::kMark ? t.mark_rank[found.owner] : t.range_rank[found.owner]);
}

Maybe bits(const RawTables &t, std::size_t row, ValueKind kind) {
  const RawValue &found = value(t, row);
  return found.kind == kind ? known(found.bits) : Maybe{0, false};
}

const Column kColumns[] = {
    WL_COLUMN("range/start_ns", int64_t, known(range(t, row).start_ns() - origin)),
    WL_COLUMN("range/end_ns", int64_t, known(range(t, row).end_ns() - origin)),
    WL_COLUMN("range/process_id", int32_t, known(t.threads[label(t, row).thread].process)),
    WL_COLUMN("range/thread_id", int32_t, known(label(t, row).thread)),
    WL_COLUMN("range/end_thread_id", int32_t, end_thread(t, row)),
    WL_COLUMN("range/domain_id", int32_t,
              row_or_null(place(t, label(t, row).place).domain_name)),
    WL_COLUMN("range/name_id", int32_t, row_or_null(label(t, row).name)),
    WL_COLUMN("range/category_id", int32_t,
              row_or_null(place(t, label(t, row).place).category_name)),
    WL_COLUMN("range/color", int64_t,
              (Maybe{label(t, row).color, label(t, row).has_color})),
    WL_COLUMN("range/style", int32_t, known(label(t, row).is_start_end)),
    WL_COLUMN("range/is_truncated", uint8_t, known(range(t, row).is(RawRange::kTruncated))),
    WL_COLUMN("range/source_id", int64_t, known(source(t, row))),
    WL_COLUMN("mark/time_ns", int64_t, known(mark(t, row).time_ns - origin)),
    WL_COLUMN("mark/process_id", int32_t, known(t.threads[mark_label(t, row).thread].process)),
    WL_COLUMN("mark/thread_id", int32_t, known(mark_label(t, row).thread)),
    WL_COLUMN("mark/domain_id", int32_t, row_or_null(place(t, mark_label(t, row).place).domain_name)),
    WL_COLUMN("mark/name_id", int32_t, row_or_null(mark_label(t, row).name)),
    WL_COLUMN("mark/category_id", int32_t,
              row_or_null(place(t, mark_label(t, row).place).category_name)),
    WL_COLUMN("mark/color", int64_t, (Maybe{mark_label(t, row).color, mark_label(t, row).has_color})),
    WL_COLUMN("range_payload/range_id", int32_t, owner(t, row, Owner::kRange)),
    WL_COLUMN("range_payload/mark_id", int32_t, owner(t, row, Owner::kMark)),
    WL_COLUMN("range_payload/key_id", int32_t, known(value(t, row).key)),
    WL_COLUMN("range_payload/int_value", int64_t, bits(t, row, ValueKind::kInt)),
    WL_COLUMN("range_payload/float_value", int64_t /* its bits */, bits(t, row, ValueKind::kReal)),
    WL_COLUMN("range_payload/text_id", int32_t, bits(t, row, ValueKind::kText)),
    WL_COLUMN("process/pid", int64_t, known(t.processes[row].pid)),
    WL_COLUMN("process/name_id", int32_t, row_or_null(t.processes[row].executable)),
    WL_COLUMN("process/host_id", int32_t, row_or_null(t.processes[row].host)),
    WL_COLUMN("thread/process_id", int32_t, known(t.threads[row].process)),
    WL_COLUMN("thread/tid", int64_t, known(t.threads[row].tid)),
    WL_COLUMN("thread/name_id", int32_t, row_or_null(t.threads[row].name)),
    // Facts that become no column of the recording.
    WL_COLUMN("process/first_ns", int64_t, known(t.processes[row].first_ns)),
    WL_COLUMN("process/last_ns", int64_t, known(t.processes[row].last_ns)),
    WL_COLUMN("process/executable_id", int64_t, known(t.processes[row].executable)),
    WL_COLUMN("process/incarnation", int64_t,
              known(static_cast<int64_t>(t.processes[row].incarnation))),
    WL_COLUMN("process/is_closed", int64_t, known(t.processes[row].is_closed)),
    WL_COLUMN("process/is_alive", int64_t, known(t.processes[row].is_alive)),
    WL_COLUMN("process/truncated", int64_t, known(t.processes[row].truncated)),
    WL_COLUMN("open/process_id", int64_t, known(t.threads[open_label(t, row).thread].process)),
    WL_COLUMN("open/thread_id", int64_t, known(open_label(t, row).thread)),
    WL_COLUMN("open/tid", int64_t, known(t.threads[open_label(t, row).thread].tid)),
    WL_COLUMN("open/start_ns", int64_t, known(open_range(t, row).start_ns())),
    WL_COLUMN("open/end_ns", int64_t, known(open_range(t, row).end_ns())),
    WL_COLUMN("open/last_ns", int64_t, known(t.threads[open_label(t, row).thread].last_ns)),
    WL_COLUMN("open/name_id", int64_t, known(open_label(t, row).name)),
    WL_COLUMN("open/style", int64_t, known(open_label(t, row).is_start_end)),
    WL_COLUMN("log/process_id", int64_t, known(t.logs[row].process)),
    WL_COLUMN("log/is_damaged", int64_t, known(t.logs[row].is_damaged)),
    WL_COLUMN("log/unread_bytes", int64_t, known(t.logs[row].unread_bytes)),
    WL_COLUMN("log/unread_events", int64_t, known(t.logs[row].unread_events)),
    WL_COLUMN("log/dropped_events", int64_t, known(t.logs[row].dropped_events)),
    WL_COLUMN("log/cut_texts", int64_t, known(t.logs[row].cut_texts)),
    WL_COLUMN("note/time_ns", int64_t, known(t.notes[row].time_ns)),
    WL_COLUMN("note/process_id", int64_t, known(t.notes[row].process)),
    WL_COLUMN("note/kind", int64_t, known(t.notes[row].kind)),
    WL_COLUMN("note/text_id", int64_t, known(t.notes[row].text)),
    WL_COLUMN("session/lonely_ends", int64_t, known(t.lonely_ends)),
    WL_COLUMN("session/beyond_limits", int64_t, known(t.beyond_limits)),
    WL_COLUMN("session/foreign_records", int64_t, known(t.foreign_records)),
    WL_COLUMN("session/notes_left_out", int64_t, known(t.notes_left_out)),
    WL_COLUMN("string/offsets", int64_t, known(t.texts.offsets()[row])),
};

}  // namespace

int64_t raw_rows(const RawTables &tables, std::string_view table) {
  const auto is = [&](std::string_view name, std::size_t rows) {
    return table == name ? static_cast<int64_t>(rows) : -1;
  };
  return std::max({is("range", tables.range_order.size()), is("mark", tables.mark_order.size()),
                   is("range_payload", tables.value_order.size()),
                   is("process", tables.processes.size()), is("thread", tables.threads.size()),
                   is("open", tables.opens.size()),
                   is("log", tables.logs.size()), is("note", tables.notes.size()),
                   is("session", 1), is("string", tables.texts.offsets().size()),
                   cuda_rows(tables, table), tables.rows.count(table)});
}

int64_t copy_raw_column(const RawTables &tables, std::string_view name, const RawPart &part) {
  if (name == "string/blob") {
    const std::string &bytes = tables.texts.bytes();
    const auto size = static_cast<int64_t>(bytes.size());
    if (part.first < 0 || part.count < 0 || part.first > size || part.count > size - part.first) {
      return -1;
    }
    if (part.values != nullptr) std::memcpy(part.values, bytes.data() + part.first,
                                            static_cast<std::size_t>(part.count));
    return 0;
  }
  const Column *column = std::find_if(std::begin(kColumns), std::end(kColumns),
                                      [&](const Column &c) { return c.name == name; });
  if (column == std::end(kColumns)) column = find_cuda_column(name);
  const int64_t rows = raw_rows(tables, name.substr(0, name.find('/')));
  if (part.first < 0 || part.count < 0 || part.first > rows || part.count > rows - part.first) {
    return -1;
  }
  return column == nullptr ? tables.rows.copy(tables, name, part) : column->copy(tables, part);
}

}  // namespace warpline
