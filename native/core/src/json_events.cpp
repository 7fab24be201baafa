#include "json_events.h"

namespace warpline {
namespace {

constexpr std::size_t kEventBytes = 3 + 5 * sizeof(int32_t) + 2 * sizeof(int64_t);
constexpr std::size_t kArgumentRowBytes = sizeof(int32_t) + 1 + sizeof(int64_t);
constexpr std::size_t kTextBytes = 4 * sizeof(int64_t);  // its offset, its places in the table

}  // namespace

void JsonEvents::add(const JsonEvent &event) {
  const auto row = static_cast<int32_t>(phase.size());
  phase.push(event.phase);
  name.push(event.name);
  category.push(event.category);
  pid.push(event.pid);
  tid.push(event.tid);
  id.push(event.id);
  ts_ns.push(event.ts.ns);
  dur_ns.push(event.dur.ns);
  has_ts.push(event.ts.is_there);
  has_dur.push(event.dur.is_there);
  for (const auto &[key, value] : event.arguments) {
    Argument &column = arguments[static_cast<std::size_t>(key)];
    const std::size_t count = column.event.size();
    if (count != 0 && column.event[count - 1] == row) {  // the key stands there twice
      column.kind[count - 1] = static_cast<uint8_t>(value.kind);
      column.value[count - 1] = value.value;
      continue;
    }
    column.event.push(row);
    column.kind.push(static_cast<uint8_t>(value.kind));
    column.value.push(value.value);
    ++argument_rows_;
  }
}

void JsonEvents::clear() {
  for (auto *column : {&phase, &has_ts, &has_dur}) column->clear();
  for (auto *column : {&name, &category, &pid, &tid, &id}) column->clear();
  ts_ns.clear();
  dur_ns.clear();
  for (Argument &argument : arguments) {
    argument.event.clear();
    argument.kind.clear();
    argument.value.clear();
  }
  argument_rows_ = 0;
}

int32_t JsonEvents::add_argument(std::string_view name_text) {
  arguments.emplace_back().key = texts.intern(name_text);
  return static_cast<int32_t>(arguments.size()) - 1;
}

std::size_t JsonEvents::bytes() const {
  return phase.size() * kEventBytes + argument_rows_ * kArgumentRowBytes + texts.bytes().size() +
         static_cast<std::size_t>(texts.size()) * kTextBytes + arguments.size() * sizeof(Argument);
}

}  // namespace warpline
