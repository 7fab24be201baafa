#include "json_events.h"

#include "json_arguments.h"

namespace warpline {
namespace {

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
      column.value.set(count - 1, value.value);
      continue;
    }
    column.event.push(row);
    column.kind.push(static_cast<uint8_t>(value.kind));
    column.value.push(value.value);
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
}

int32_t JsonEvents::add_argument(std::string_view name_text) {
  arguments.emplace_back().key = texts.intern(name_text);
  return static_cast<int32_t>(arguments.size()) - 1;
}

void JsonEvents::take(const JsonEvents &others, JsonArguments &known) {
  std::vector<int32_t> here;  // the number of each text
  here.reserve(static_cast<std::size_t>(others.texts.size()));
  for (int32_t number = 0; number < others.texts.size(); ++number) {
    here.push_back(texts.intern(others.texts.text(number)));
  }
  const auto append = [](auto &column, const auto &from) {
    for (std::size_t place = 0; place < from.size(); ++place) column.push(from[place]);
  };
  const auto append_texts = [&](auto &column, const auto &from) {
    for (std::size_t place = 0; place < from.size(); ++place) {
      const int64_t number = from[place];
      column.push(number < 0 ? number : here[static_cast<std::size_t>(number)]);
    }
  };
  const auto first = static_cast<int32_t>(size());
  for (const Argument &from : others.arguments) {
    const auto number = known.find(others.texts.text(from.key), *this);
    Argument &column = arguments[static_cast<std::size_t>(number)];
    for (std::size_t place = 0; place < from.event.size(); ++place) {
      const int64_t value = from.value[place];
      const bool is_text = from.kind[place] >= static_cast<uint8_t>(JsonKind::text);
      column.event.push(first + from.event[place]);
      column.kind.push(from.kind[place]);
      column.value.push(is_text ? here[static_cast<std::size_t>(value)] : value);
    }
  }
  append(phase, others.phase);
  append(has_ts, others.has_ts);
  append(has_dur, others.has_dur);
  append_texts(name, others.name);
  append_texts(category, others.category);
  append_texts(pid, others.pid);
  append_texts(tid, others.tid);
  append_texts(id, others.id);
  append(ts_ns, others.ts_ns);
  append(dur_ns, others.dur_ns);
}

std::size_t JsonEvents::bytes() const {
  std::size_t sum = texts.bytes().size() + static_cast<std::size_t>(texts.size()) * kTextBytes +
                    arguments.size() * sizeof(Argument) + ts_ns.bytes() + dur_ns.bytes();
  for (const auto *column : {&phase, &has_ts, &has_dur}) sum += column->bytes();
  for (const auto *column : {&name, &category, &pid, &tid, &id}) sum += column->bytes();
  for (const Argument &argument : arguments) {
    sum += argument.event.bytes() + argument.kind.bytes() + argument.value.bytes();
  }
  return sum;
}

}  // namespace warpline
