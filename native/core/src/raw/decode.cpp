#include "raw/decode.h"

#include <algorithm>
#include <cstring>
#include <limits>

namespace warpline {

using raw::Kind;

namespace {

constexpr uint32_t kNearSlots = 1U << 20;     // of a vector of 4 MiB; a hash table has the others
constexpr std::size_t kMaxNotes = 1'000'000;
constexpr std::size_t kMaxSchemas = 100'000;
constexpr int64_t kMinEventBytes = 16;

std::string_view field_text(const char *field, std::size_t room) {
  return {field, strnlen(field, room)};
}

std::string_view base_name(const raw::LogHeader &header) {
  const std::string_view path = field_text(header.executable, sizeof header.executable);
  return path.substr(path.rfind('/') + 1);
}

int64_t bounded(uint64_t count) {
  return static_cast<int64_t>(std::min<uint64_t>(count, uint64_t{1} << 61));
}

// Returns the text behind a word that gives its bytes; false when it does not fill the record.
bool text_at(const uint64_t *record, std::size_t words, std::size_t first, std::string_view &text) {
  if (words <= first || record[first] > words * 8) return false;
  const std::size_t bytes = record[first];
  if (first + 1 + raw::words_for(bytes) != words) return false;
  text = {reinterpret_cast<const char *>(record + first + 1), bytes};
  return true;
}

}  // namespace

RawDecoder::RawDecoder(RawTables &tables, std::size_t log, bool is_alive)
    : tables_(tables), log_place_(log), log_(tables.logs[log].path) {
  const raw::LogHeader &header = log_.header();
  at_ = log_.first();
  const uint64_t incarnation = tables.logs[log].incarnation;
  const auto [found, is_new] = tables.process_of.try_emplace(
      {header.pid, incarnation}, static_cast<int32_t>(tables.processes.size()));
  process_ = found->second;
  if (is_new) {
    RawProcess added;
    added.pid = header.pid;
    added.incarnation = incarnation;
    added.forked_from_pid = header.forked_from_pid;
    added.forked_from_incarnation = header.forked_from_incarnation;
    added.host = tables.texts.intern(field_text(header.host, sizeof header.host));
    added.executable = tables.texts.intern(base_name(header));
    tables.processes.push_back(added);
  }
  RawProcess &process = tables.processes[static_cast<std::size_t>(process_)];
  const bool is_closed = header.closed_ns > 0 && header.closed_ns <= kFarNs;
  process.is_alive |= is_alive && !is_closed;
  process.is_closed &= is_closed;
  if (is_closed) process.last_ns = std::max(process.last_ns, header.closed_ns);
  RawLogFacts &facts = tables.logs[log];
  facts.process = process_;
  facts.dropped_events = bounded(header.dropped_records);
  facts.cut_texts = bounded(header.cut_texts);
  cuda_.emplace(tables, process_);
}

bool RawDecoder::step(int64_t budget) {
  const int64_t until = at_ + std::min(budget, log_.size());
  while (!is_done_ && at_ < until) {
    const uint64_t *record = log_.words(at_, 1);
    if (record == nullptr || *record == 0) {
      end();
      break;
    }
    const std::size_t words = raw::words_of(*record);
    record = log_.words(at_, words);
    if (words == 0 || record == nullptr || !decode(record, words)) {
      damaged();
      break;
    }
    at_ += static_cast<int64_t>(words * 8);
  }
  return !is_done_;
}

bool RawDecoder::decode(const uint64_t *record, std::size_t words) {
  switch (raw::kind_of(*record)) {
    case Kind::kPad:
      return true;
    case Kind::kThread:
      return on_thread(record, words);
    case Kind::kThreadEnd:
      return on_thread_end(record, words);
    case Kind::kString:
    case Kind::kDomain:
    case Kind::kCategory:
    case Kind::kThreadName:
    case Kind::kResourceName:
      return decode_text(record, words);
    case Kind::kSchema:
    case Kind::kEnum:
      return on_schema(record, words);
    case Kind::kWindow:
      return on_window(record, words);
    case Kind::kDropped:
      return on_dropped(record, words);
    case Kind::kClock:
      return on_clock(record, words);
    case Kind::kNote:
      return on_note(record, words);
    default:
      if (raw::kind_of(*record) >= raw::kFirstSkipped) return on_cuda(record, words);
      return has_thread_ && decode_event(record, words);
  }
}

bool RawDecoder::decode_event(const uint64_t *record, std::size_t words) {
  switch (raw::kind_of(*record)) {
    case Kind::kPush:
      return on_push(record, words);
    case Kind::kPop:
      return on_pop(record, words);
    case Kind::kStart:
      return on_start(record, words);
    case Kind::kStop:
      return on_stop(record, words);
    case Kind::kMark:
      return on_mark(record, words);
    case Kind::kPayload:
      return on_payload(record, words);
    default:
      return false;
  }
}

bool RawDecoder::decode_text(const uint64_t *record, std::size_t words) {
  const Kind kind = raw::kind_of(*record);
  const uint32_t aux = raw::aux_of(*record);
  const bool has_first = kind == Kind::kCategory || kind == Kind::kResourceName;
  std::string_view text;
  if (!text_at(record, words, has_first ? 2 : 1, text)) return false;
  if (kind == Kind::kResourceName) return true;  // no table has resources
  const int32_t number = tables_.texts.intern(text);
  switch (kind) {
    case Kind::kString:
      define_slot(aux, number);
      break;
    case Kind::kDomain:
      domain_of(aux).name = number;
      break;
    case Kind::kCategory:
      tables_.categories[{process_, aux, static_cast<uint32_t>(record[1])}] = number;
      break;
    default:
      tables_.thread_names[{process_, aux}] = number;
  }
  return true;
}

bool RawDecoder::on_thread_end(const uint64_t *record, std::size_t words) {
  raw::ThreadEnd found;
  if (!found.read(record, words) || !see_time(found.time_ns)) return false;
  truncate_open(now_ns_);
  has_owner_ = false;
  return true;
}

bool RawDecoder::on_thread(const uint64_t *record, std::size_t words) {
  note_silence();
  raw::Thread found;
  if (!found.read(record, words) || !see_time(found.time_ns)) return false;
  truncate_open(now_ns_);  // of the thread that had this log before
  has_owner_ = false;
  const auto tid = static_cast<uint32_t>(found.tid);
  const auto [thread, is_new] = tables_.thread_of.try_emplace(
      {process_, tid}, static_cast<uint32_t>(tables_.threads.size()));
  thread_ = thread->second;
  has_thread_ = true;
  if (is_new) tables_.threads.push_back({process_, tid, -1});
  const uint64_t letters[] = {found.name_low, found.name_high};
  const auto name = field_text(reinterpret_cast<const char *>(letters), sizeof letters);
  if (!name.empty()) tables_.threads[thread_].name = tables_.texts.intern(name);
  return true;
}

bool RawDecoder::on_push(const uint64_t *record, std::size_t words) {
  raw::Push push;
  if (!read_event(record, words, push)) return false;
  Domain &domain = domain_of(push.domain);
  if (!add_range(push, false)) return true;
  domain.open.push_back(owner_);
  return true;
}

bool RawDecoder::on_pop(const uint64_t *record, std::size_t words) {
  raw::Pop pop;
  if (!pop.read(record, words) || (pop.flags & ~raw::Pop::kFlags) != 0) return false;
  if (!see_time(pop.time_ns)) return false;
  event_ns_ = now_ns_;
  Domain &domain = domain_of(pop.domain);
  has_owner_ = !domain.open.empty();
  if (!has_owner_) {
    ++tables_.lonely_ends;
    return true;
  }
  owner_kind_ = Owner::kRange;
  owner_ = domain.open.back();
  owner_domain_ = pop.domain;
  domain.open.pop_back();
  RawRange &range = tables_.ranges[owner_];
  range.end_at(now_ns_);
  range.close();
  if (pop.has(raw::Pop::kHasSequence)) add_number("end_sequence", end_sequence_key_, pop.sequence);
  return true;
}

bool RawDecoder::on_start(const uint64_t *record, std::size_t words) {
  raw::Start start;
  if (!read_event(record, words, start)) return false;
  if (add_range(start, true)) {
    tables_.starts.push_back({start.range_id, static_cast<uint32_t>(process_), owner_});
  }
  return true;
}

bool RawDecoder::on_stop(const uint64_t *record, std::size_t words) {
  raw::Stop stop;
  if (!stop.read(record, words) || !see_time(stop.time_ns)) return false;
  event_ns_ = now_ns_;
  has_owner_ = tables_.stops.size() < kMaxRows;
  if (!has_owner_) return true;
  owner_kind_ = Owner::kStop;
  owner_ = static_cast<uint32_t>(tables_.stops.size());
  owner_domain_ = 0;  // that of the range, which may not be known yet
  tables_.stops.push_back({stop.range_id, static_cast<uint32_t>(process_), thread_, now_ns_});
  return true;
}

bool RawDecoder::on_mark(const uint64_t *record, std::size_t words) {
  raw::Mark mark;
  if (!read_event(record, words, mark)) return false;
  has_owner_ = tables_.marks.size() < kMaxRows;
  if (!has_owner_) {
    ++tables_.beyond_limits;
    return true;
  }
  owner_kind_ = Owner::kMark;
  owner_ = static_cast<uint32_t>(tables_.marks.size());
  owner_domain_ = mark.domain;
  tables_.marks.push({now_ns_, label_of(mark, false)});
  if (mark.has(raw::Mark::kHasValue)) add_value(mark);
  return true;
}

bool RawDecoder::on_payload(const uint64_t *record, std::size_t words) {
  if (words < 3 || record[2] > (words - 3) * 8) return false;
  if (!has_owner_ || tables_.payloads.size() >= kMaxRows) return true;
  has_payloads_ = true;
  tables_.payloads.push_back(
      {at_, owner_, static_cast<uint32_t>(log_place_), owner_domain_, owner_kind_});
  return true;
}

bool RawDecoder::on_schema(const uint64_t *record, std::size_t words) {
  std::string_view bytes;
  if (!text_at(record, words, 2, bytes)) return false;
  auto &known = raw::kind_of(*record) == Kind::kSchema ? tables_.schemas : tables_.enums;
  if (known.size() < kMaxSchemas) {
    known.try_emplace({process_, raw::aux_of(*record), record[1]}, bytes);
  }
  return true;
}

bool RawDecoder::on_window(const uint64_t *record, std::size_t words) {
  raw::Window window;
  const int64_t before = now_ns_;
  if (!window.read(record, words) || window.is_on > 1 || !see_time(window.time_ns)) return false;
  if (window.is_on == 0) {
    tables_.closings_ns.push_back(now_ns_);
  } else {
    tables_.resumes_ns.push_back(now_ns_);
    void_open(std::max(before, now_ns_));
  }
  return true;
}

bool RawDecoder::on_dropped(const uint64_t *record, std::size_t words) {
  raw::Dropped dropped;
  if (!dropped.read(record, words) || !see_time(dropped.time_ns)) return false;
  void_open(now_ns_);
  return true;
}

bool RawDecoder::on_clock(const uint64_t *record, std::size_t words) {
  raw::Clock clock;
  return clock.read(record, words) && see_time(clock.monotonic_ns);
}

bool RawDecoder::on_note(const uint64_t *record, std::size_t words) {
  std::string_view text;
  if (!text_at(record, words, 2, text) || !see_time(record[1])) return false;
  if (tables_.notes.size() >= kMaxNotes) {
    ++tables_.notes_left_out;
    return true;
  }
  tables_.notes.push_back(
      {now_ns_, process_, raw::aux_of(*record), tables_.texts.intern(text)});
  return true;
}

bool RawDecoder::on_cuda(const uint64_t *record, std::size_t words) {
  const Taken found =
      cuda_->decode(record, words, has_thread_ ? &thread_ : nullptr);
  tables_.foreign_records += found.is_foreign;
  if (!found.is_sound || (found.host_time != 0 && !see_time(found.host_time))) return false;
  events_ += found.is_counted;
  return true;
}

template <typename Record>
bool RawDecoder::read_event(const uint64_t *record, std::size_t words, Record &event) {
  if (!event.read(record, words) || (event.flags & ~Record::kFlags) != 0) return false;
  if (!see_time(event.time_ns)) return false;
  event_ns_ = now_ns_;
  ++events_;
  return true;
}

template <typename Record>
uint32_t RawDecoder::label_of(const Record &event, bool is_start_end) {
  return tables_.labels.number_of({thread_, place_of(event.domain, event.category), name_of(event),
                                   static_cast<uint32_t>(event.color),
                                   event.has(Record::kHasColor), is_start_end});
}

template <typename Record>
bool RawDecoder::add_range(const Record &event, bool is_start_end) {
  has_owner_ = tables_.ranges.size() < kMaxRows;
  if (!has_owner_) {
    ++tables_.beyond_limits;
    return false;
  }
  owner_kind_ = Owner::kRange;
  owner_ = static_cast<uint32_t>(tables_.ranges.size());
  owner_domain_ = event.domain;
  tables_.ranges.push(RawRange(now_ns_));
  tables_.range_labels.push(label_of(event, is_start_end));
  if (event.has(Record::kHasValue)) add_value(event);
  if (event.has(Record::kHasSequence)) add_number("sequence", sequence_key_, event.sequence);
  return true;
}

void RawDecoder::add_number(std::string_view name, int32_t &key, uint64_t number) {
  if (tables_.values.size() >= kMaxRows) return;
  if (key < 0) key = tables_.texts.intern(name);
  tables_.values.push_back(
      {owner_, owner_kind_, ValueKind::kInt, key, static_cast<int64_t>(number)});
}

// The types are those that NVTX numbers: unsigned, signed and real of 64 bits, then of 32.
template <typename Record>
void RawDecoder::add_value(const Record &event) {
  if (tables_.values.size() >= kMaxRows) return;
  RawValue value;
  value.owner = owner_;
  value.owner_kind = owner_kind_;
  if (value_key_ < 0) value_key_ = tables_.texts.intern("payload");
  value.key = value_key_;
  const auto low = static_cast<uint32_t>(event.value);
  value.bits = static_cast<int64_t>(event.value);
  if (event.value_type == 3) value.kind = ValueKind::kReal;
  if (event.value_type == 4) value.bits = low;
  if (event.value_type == 5) value.bits = static_cast<int32_t>(low);
  if (event.value_type == 6) {
    float narrow = 0;
    std::memcpy(&narrow, &low, sizeof narrow);
    const double real = narrow;
    std::memcpy(&value.bits, &real, sizeof real);
    value.kind = ValueKind::kReal;
  }
  tables_.values.push_back(value);
}

bool RawDecoder::see_time(uint64_t word) {
  const auto time_ns = static_cast<int64_t>(word);
  if (time_ns < 0 || time_ns > kFarNs) return false;
  now_ns_ = time_ns;
  RawProcess &process = tables_.processes[static_cast<std::size_t>(process_)];
  if (process.first_ns == 0 || time_ns < process.first_ns) process.first_ns = time_ns;
  process.last_ns = std::max(process.last_ns, time_ns);
  return true;
}

// What the thread had open may have ended unseen: it ends where something was last seen of it,
// unless a capture range ended meanwhile.
void RawDecoder::void_open(int64_t time_ns) {
  for (auto &[number, domain] : domains_) {
    for (const uint32_t open : domain.open) {
      RawRange &range = tables_.ranges[open];
      range.end_at(event_ns_);
      range.close();
      range.truncate();
      tables_.voids.push_back({open, time_ns});
    }
    domain.open.clear();
  }
}

void RawDecoder::truncate_open(int64_t time_ns) {
  for (auto &[number, domain] : domains_) {
    for (const uint32_t open : domain.open) {
      RawRange &range = tables_.ranges[open];
      range.end_at(time_ns);
      range.close();
      range.truncate();
    }
    domain.open.clear();
  }
}

// From here on nothing was seen of the thread that had this log.
void RawDecoder::note_silence() {
  if (!has_thread_) return;
  RawThread &thread = tables_.threads[thread_];
  thread.last_ns = std::max(thread.last_ns, now_ns_);
}

void RawDecoder::define_slot(uint32_t slot, int32_t text) {
  if (slot >= kNearSlots) {
    far_slots_[slot] = text;
    return;
  }
  if (slot >= slots_.size()) {
    slots_.resize(std::min<std::size_t>(kNearSlots, std::max<std::size_t>(1024, slot * 2)), -1);
  }
  slots_[slot] = text;
}

int32_t RawDecoder::text_of(uint32_t slot) const {
  if (slot < slots_.size()) return slots_[slot];
  const auto found = far_slots_.find(slot);
  return found == far_slots_.end() ? -1 : found->second;
}

template <typename Record>
int32_t RawDecoder::name_of(const Record &event) const {
  return event.has(Record::kHasNoName) ? -1 : text_of(event.slot);
}

int32_t RawDecoder::place_of(uint32_t domain, uint32_t category) {
  const uint64_t key = uint64_t{domain} << 32 | category;
  if (last_place_ >= 0 && key == last_place_key_) return last_place_;
  const auto [found, is_new] = places_.try_emplace(key, 0);
  if (is_new) {
    const auto [shared, is_first] = tables_.place_of.try_emplace(
        {process_, domain, category}, static_cast<int32_t>(tables_.places.size()));
    if (is_first) tables_.places.push_back({process_, domain, category, -1, -1});
    found->second = shared->second;
    RawPlace &place = tables_.places[static_cast<std::size_t>(found->second)];
    if (domain != 0 && place.domain_name < 0) place.domain_name = domain_of(domain).name;
  }
  last_place_key_ = key;
  last_place_ = found->second;
  return last_place_;
}

RawDecoder::Domain &RawDecoder::domain_of(uint32_t domain) {
  if (last_domain_ == nullptr || last_domain_key_ != domain) {
    last_domain_ = &domains_[domain];
    last_domain_key_ = domain;
  }
  return *last_domain_;
}

void RawDecoder::damaged() {
  is_done_ = true;
  RawLogFacts &facts = tables_.logs[log_place_];
  facts.is_damaged = true;
  const uint64_t used = log_.header().used_bytes;
  const bool is_sane = used < uint64_t{kFarNs} && static_cast<int64_t>(used) > at_;
  const int64_t until = is_sane ? std::min(static_cast<int64_t>(used), log_.size()) : log_.size();
  facts.unread_bytes = std::max<int64_t>(0, until - at_);
  const int64_t left = bounded(log_.header().records) - bounded(log_.header().trimmed_records);
  const int64_t promised = left - events_;
  const int64_t possible = is_sane ? (static_cast<int64_t>(used) - at_) / kMinEventBytes
                                   : facts.unread_bytes / kMinEventBytes;
  facts.unread_events = std::clamp<int64_t>(promised, 0, possible);
  end();
}

// At a header of zero: nothing more was written, or its writer died before the record was whole.
// The header's position is stored after the record, so one that lies further is a sign of damage.
void RawDecoder::end() {
  const auto last = static_cast<int64_t>(std::min<uint64_t>(log_.header().used_bytes, kFarNs));
  if (!is_done_ && last > at_) {
    damaged();
    return;
  }
  is_done_ = true;
  if (has_payloads_) tables_.logs[log_place_].slots = std::move(slots_);
  note_silence();
  for (auto &[number, domain] : domains_) {
    for (const uint32_t open : domain.open) tables_.ranges[open].end_at(event_ns_);
  }
}

}  // namespace warpline
