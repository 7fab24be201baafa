// The CUDA records of a log. Whatever a record says is checked before it is used: a log may be
// damaged, or written by a program that means harm.
#include <algorithm>
#include <cstring>
#include <string_view>

#include "raw/cuda.h"
#include "raw/tables.h"

namespace warpline {

using raw::Kind;

namespace {

constexpr uint32_t kNearNumbers = 1U << 20;
constexpr std::size_t kMaxDeclared = 1U << 20;  // devices, contexts or streams
constexpr std::size_t kMaxAttributes = 1U << 10;  // of a device
constexpr std::size_t kMaxClockPairs = 1U << 20;

// Whether the times of a record can be true; CUPTI writes 0 where it has none.
template <typename Record>
bool has_times(const Record &record) {
  const auto is_time = [](uint64_t time_ns) { return time_ns != 0 && time_ns <= kFarNs; };
  return is_time(record.start_ns) && is_time(record.end_ns);
}

bool text_at(const uint64_t *record, std::size_t words, std::string_view &text) {
  if (words < 3 || record[2] > words * 8) return false;
  const std::size_t bytes = record[2];
  if (3 + raw::words_for(bytes) != words) return false;
  text = {reinterpret_cast<const char *>(record + 3), bytes};
  return true;
}

bool begins(std::string_view &name, std::string_view start) {
  if (!name.starts_with(start)) return false;
  name.remove_prefix(start.size());
  return true;
}

struct RoleName {
  std::string_view start;
  CudaRole role;
};
constexpr RoleName kRoles[] = {
    {"StreamSynchronize", CudaRole::kWaitForStream},
    {"DeviceSynchronize", CudaRole::kWaitForContext},
    {"ThreadSynchronize", CudaRole::kWaitForContext},
    {"CtxSynchronize", CudaRole::kWaitForContext},
    {"EventSynchronize", CudaRole::kWaitForEvent},
    {"StreamWaitEvent", CudaRole::kStreamWait},
    {"EventRecord", CudaRole::kEventRecord},
    {"EventDestroy", CudaRole::kEventEnd},
    {"StreamBeginCapture", CudaRole::kCaptureBegin},
    {"StreamEndCapture", CudaRole::kCaptureEnd},
};

}  // namespace

CudaCallName describe_call(int32_t text, std::string_view name, bool is_driver) {
  CudaCallName found;
  found.text = text;
  found.is_driver = is_driver;
  if (!begins(name, "cuda")) begins(name, "cu");
  found.is_kernel = name.starts_with("Launch") && !name.starts_with("LaunchHostFunc");
  found.is_copy = name.starts_with("Memcpy");
  found.is_fill = name.starts_with("Memset");
  for (const RoleName &known : kRoles) {
    if (name.starts_with(known.start)) found.role = known.role;
  }
  if (begins(name, "EventQuery") || begins(name, "StreamQuery")) {
    found.is_poll = name.empty() || name.front() == '_';
  }
  return found;
}

bool call_name_in(const uint64_t *record, std::size_t words, std::string_view &name) {
  return text_at(record, words, name);
}

CudaFacts &CudaTables::facts_of(int32_t process) {
  const auto place = static_cast<std::size_t>(process);
  if (place >= facts.size()) facts.resize(place + 1);
  return facts[place];
}

void CudaNumbers::set(uint32_t number, int32_t value) {
  if (number >= kNearNumbers) {
    far_[number] = value;
    return;
  }
  if (number >= near_.size()) {
    near_.resize(std::min<std::size_t>(kNearNumbers, std::max<std::size_t>(64, number * 2)), -1);
  }
  near_[number] = value;
}

int32_t CudaNumbers::get(uint32_t number) const {
  if (number < near_.size()) return near_[number];
  const auto found = far_.find(number);
  return found == far_.end() ? -1 : found->second;
}

CudaDecoder::CudaDecoder(RawTables &tables, int32_t process)
    : tables_(tables), cuda_(tables.cuda), process_(process) {}

Taken CudaDecoder::decode(const uint64_t *record, std::size_t words,
                                        const uint32_t *thread) {
  host_time_ = 0;
  thread_ = thread;
  switch (raw::kind_of(*record)) {
    case Kind::kCallName: return {.is_sound = on_call_name(record, words)};
    case Kind::kCudaName: return {.is_sound = on_name(record, words)};
    case Kind::kOsCallName: return {.is_sound = on_os_call_name(record, words)};
    case Kind::kCounterName: return {.is_sound = on_counter_name(record, words)};
    case Kind::kDeviceAttribute: return {.is_sound = on_device_attribute(record, words)};
    case Kind::kChain: return {.is_sound = cuda_.chains.add_chain(process_, record, words)};
    case Kind::kModule: return {.is_sound = cuda_.chains.add_module(process_, record, words)};
    case Kind::kPythonChain:
      return {.is_sound = cuda_.chains.add_python_chain(process_, record, words)};
    case Kind::kPythonCode:
      return {.is_sound = cuda_.chains.add_python_code(process_, record, words)};
    case Kind::kCall: return take<raw::Call>(record, words);
    case Kind::kOsCall: return take<raw::OsCall>(record, words);
    case Kind::kWait: return take<raw::Wait>(record, words);
    case Kind::kEvent: return take<raw::Event>(record, words);
    case Kind::kPool: return take<raw::Pool>(record, words);
    case Kind::kDevice: return take<raw::Device>(record, words);
    case Kind::kContext: return take<raw::Context>(record, words);
    case Kind::kStream: return take<raw::Stream>(record, words);
    case Kind::kLost: return take<raw::Lost>(record, words);
    case Kind::kBuffer: return take<raw::Buffer>(record, words);
    case Kind::kCudaClock: return take<raw::CudaClock>(record, words);
    case Kind::kCollecting: return take<raw::Collecting>(record, words);
    case Kind::kPassClock: return take<raw::PassClock>(record, words);
    default: {
      AnyRows *rows = tables_.rows.of_kind(raw::kind_of(*record));
      return rows == nullptr ? Taken{.is_foreign = true} : rows->take(*this, record, words);
    }
  }
}

template <typename Record>
Taken CudaDecoder::take(const uint64_t *record, std::size_t words) {
  Record found;
  const bool is_sound = found.read(record, words) && on(found);
  return {.is_sound = is_sound, .is_counted = Record::kIsCounted, .host_time = host_time_};
}

bool CudaDecoder::on_call_name(const uint64_t *record, std::size_t words) {
  std::string_view text;
  if (!text_at(record, words, text)) return false;
  const uint32_t key = raw::aux_of(*record);
  const uint32_t domain = std::min<uint32_t>(key >> 16, 3) % 3;
  const bool is_driver = domain == 1;
  const int32_t number = tables_.texts.intern(text);
  const auto [found, is_new] = cuda_.call_name_of.try_emplace(
      {number, is_driver}, static_cast<int32_t>(cuda_.call_names.size()));
  if (is_new) cuda_.call_names.push_back(describe_call(number, text, is_driver));
  call_names_[domain].set(key & 0xffff, found->second);
  return true;
}

bool CudaDecoder::on_name(const uint64_t *record, std::size_t words) {
  std::string_view text;
  if (!text_at(record, words, text)) return false;
  names_.set(raw::aux_of(*record), tables_.texts.intern(text));
  return true;
}

bool CudaDecoder::on_os_call_name(const uint64_t *record, std::size_t words) {
  std::string_view text;
  if (!text_at(record, words, text)) return false;
  os_functions_.set(raw::aux_of(*record), tables_.texts.intern(text));
  return true;
}

bool CudaDecoder::on_counter_name(const uint64_t *record, std::size_t words) {
  std::string_view text;
  if (!text_at(record, words, text)) return false;
  tables_.counters.add_metric(tables_.texts, process_, raw::aux_of(*record), text);
  return true;
}

bool CudaDecoder::on_device_attribute(const uint64_t *record, std::size_t words) {
  std::string_view name;
  if (!text_at(record, words, name)) return false;
  const auto device = cuda_.declared_devices.find({process_, raw::aux_of(*record)});
  if (device == cuda_.declared_devices.end()) return true;
  auto &attributes = device->second.attributes;
  if (attributes.size() < kMaxAttributes) {
    attributes.try_emplace(std::string(name), static_cast<int64_t>(record[1]));
  }
  return true;
}

bool CudaDecoder::on(const raw::Call &record) {
  if (thread_ == nullptr || record.start_ns > kFarNs || record.end_ns > kFarNs) return false;
  const uint32_t api = std::min<uint32_t>(record.api, 3) % 3;
  ApiCallRow call;
  call.take(record, nullptr);
  call.end_ns = std::max(call.start_ns, call.end_ns);
  call.thread = *thread_;
  call.chain_number = chain_of(record.has(raw::Call::kHasChain) ? record.chain : 0,
                               record.has(raw::Call::kHasPythonChain) ? record.python_chain : 0);
  call.call_name = call_names_[api].get(record.call);
  if (call.call_name < 0) {
    const std::string text = "[unknown call " + std::to_string(record.call) + "]";
    const int32_t number = tables_.texts.intern(text);
    call.call_name = static_cast<int32_t>(cuda_.call_names.size());
    cuda_.call_names.push_back(describe_call(number, text, api == 1));
    call_names_[api].set(record.call, call.call_name);
  }
  host_time_ = static_cast<uint64_t>(call.end_ns);
  add(tables_.rows.of<ApiCallRow>(), call);
  if (record.has(raw::Call::kHasPlace | raw::Call::kHasEvent)) add_target(record, call);
  return true;
}

uint32_t CudaDecoder::chain_of(uint64_t chain, uint64_t python_chain) {
  const uint32_t native = chain == 0 ? 0 : cuda_.chains.find(process_, chain);
  return python_chain == 0 ? native : cuda_.chains.add_python(process_, native, python_chain);
}

uint32_t CudaDecoder::chain_at(uint32_t chain, uint64_t instruction) {
  return instruction == 0 ? chain : cuda_.chains.add_instruction(process_, chain, instruction);
}

void CudaDecoder::add_target(const raw::Call &record, const ApiCallRow &call) {
  CudaTarget target;
  target.role = cuda_.call_names[static_cast<std::size_t>(call.call_name)].role;
  // A capture ends even where that fails. Of the others a failed call did nothing.
  if (target.role == CudaRole::kNone) return;
  if (call.status != 0 && target.role != CudaRole::kCaptureEnd) return;
  target.start_ns = call.start_ns;
  target.end_ns = call.end_ns;
  target.process = process_;
  target.correlation = call.correlation;
  const bool has_place = record.has(raw::Call::kHasPlace);
  target.stream = has_place ? record.stream : raw::kCudaNone;
  target.context = has_place ? record.context : raw::kCudaNone;
  target.event = record.event;
  cuda_.facts_of(process_).is_used = true;
  add(cuda_.targets, target);
}

bool CudaDecoder::on(const raw::OsCall &record) {
  if (thread_ == nullptr || record.start_ns > kFarNs || record.end_ns > kFarNs) return false;
  OsCallRow call;
  call.take(record, nullptr);
  call.end_ns = std::max(call.start_ns, call.end_ns);
  call.thread = *thread_;
  call.chain_number = chain_of(record.chain, record.python_chain);
  call.function_name = os_functions_.get(record.os_function);
  if (call.function_name < 0) return false;
  host_time_ = static_cast<uint64_t>(call.end_ns);
  add(tables_.rows.of<OsCallRow>(), call);
  return true;
}

bool CudaDecoder::on(const raw::Wait &record) {
  CudaFacts &facts = cuda_.facts_of(process_);
  facts.is_used = true;
  if (!has_times(record)) {
    ++facts.without_time;
    return true;
  }
  // A wait of a stream that names no event is one of the host for the stream.
  if (record.wait_kind == 2 && record.event != raw::kCudaNone) {
    add_wait(record, tables_.rows.of<StreamWaitRow>());
  } else {
    add_wait(record, tables_.rows.of<HostWaitRow>());
  }
  return true;
}

template <typename Row>
void CudaDecoder::add_wait(const raw::Wait &record, Growing<Row> &rows) {
  Row wait;
  wait.take(record, nullptr);
  wait.end_ns = std::max(wait.start_ns, wait.end_ns);
  wait.process = process_;
  if (record.event_sync == raw::kCudaNone) wait.event_sync = 0;
  if constexpr (requires { wait.wait_kind; }) {
    const uint32_t kind = record.wait_kind;
    wait.wait_kind = kind == 2 ? 3 : kind == 1 || kind == 3 || kind == 4 ? kind : 0;
  }
  add(rows, wait);
}

bool CudaDecoder::on(const raw::Event &record) {
  EventRecordRow event;
  event.take(record, nullptr);
  event.process = process_;
  event.stream = or_zero(record.stream);
  if (record.event_sync == raw::kCudaNone) event.event_sync = 0;
  if (record.device_time_ns > kFarNs) event.device_time_ns = 0;
  cuda_.facts_of(process_).is_used = true;
  add(tables_.rows.of<EventRecordRow>(), event);
  return true;
}

bool CudaDecoder::on(const raw::Pool &) { return true; }  // no table has pools

bool CudaDecoder::on(const raw::Device &record) {
  if (cuda_.declared_devices.size() >= kMaxDeclared) return true;
  CudaDeviceFacts &device = cuda_.declared_devices[{process_, record.device}];
  if (record.name != 0) device.name = names_.get(record.name);
  device.multiprocessors = record.multiprocessors;
  device.uuid = {record.uuid_low, record.uuid_high};
  device.memory_bytes = record.memory_bytes;
  device.memory_bytes_per_s = record.memory_bytes_per_s;
  device.clock_hz = record.clock_hz;
  device.l2_bytes = record.l2_bytes;
  device.compute_major = record.compute_major;
  device.compute_minor = record.compute_minor;
  device.pci = record.pci;
  device.number = record.gpu_number;
  return true;
}

bool CudaDecoder::on(const raw::Context &record) {
  if (cuda_.declared_contexts.size() >= kMaxDeclared) return true;
  cuda_.declared_contexts[{process_, record.context}] = {
      record.device, record.null_stream, record.parent, (record.is_green & 1) != 0};
  return true;
}

bool CudaDecoder::on(const raw::Stream &record) {
  if (cuda_.declared_streams.size() >= kMaxDeclared) return true;
  const uint32_t kind = record.stream_kind;
  cuda_.declared_streams[{process_, record.context, record.stream}] = {
      true, record.priority, true, static_cast<uint8_t>(kind <= 3 ? kind : 0)};
  return true;
}

bool CudaDecoder::on(const raw::Lost &record) {
  if (record.time_ns > kFarNs) return false;
  host_time_ = record.time_ns;
  int64_t &dropped = cuda_.facts_of(process_).dropped;
  dropped += static_cast<int64_t>(std::min<uint64_t>(record.records, uint64_t{1} << 40));
  return true;
}

bool CudaDecoder::on(const raw::Buffer &record) {
  if (record.time_ns > kFarNs) return false;
  host_time_ = record.time_ns;
  int64_t &last = cuda_.facts_of(process_).last_buffer_ns;
  last = std::max(last, static_cast<int64_t>(record.time_ns));
  return true;
}

bool CudaDecoder::on(const raw::CudaClock &record) {
  if (record.cupti_ns > kFarNs || record.host_ns > kFarNs) return false;
  host_time_ = record.host_ns;
  std::vector<CudaClockPair> &clock = cuda_.facts_of(process_).clock;
  if (clock.size() < kMaxClockPairs) {
    clock.push_back({static_cast<int64_t>(record.cupti_ns), static_cast<int64_t>(record.host_ns)});
  }
  return true;
}

bool CudaDecoder::on(const raw::Collecting &record) {
  if (record.time_ns > kFarNs) return false;
  host_time_ = record.time_ns;
  CudaFacts &facts = cuda_.facts_of(process_);
  facts.collected |= record.kinds;
  if (facts.collecting.size() < kMaxDeclared) {
    facts.collecting.emplace_back(static_cast<int64_t>(record.time_ns), record.kinds);
  }
  return true;
}

bool CudaDecoder::on(const raw::PassClock &record) {
  tables_.counters.clocks.push_back(
      {process_, record.launch, record.lowest_mhz, record.highest_mhz});
  return true;
}

void CudaDecoder::see_work(uint32_t correlation, bool has_times) {
  CudaFacts &facts = cuda_.facts_of(process_);
  facts.is_used = true;
  if (has_times) return;
  ++facts.without_time;
  cuda_.lost_launches.add(process_, correlation);
}

// Memory is of no stream, and not always of a context.
uint32_t CudaDecoder::place_of(const raw::Memory &record) {
  const uint32_t context = record.context == 0 ? raw::kCudaNone : record.context;
  return place_of(record.device, context, raw::kCudaNone);
}

// A range of work may be of several streams.
uint32_t CudaDecoder::place_of(const raw::CountedKernel &record) {
  return place_of(record.device, or_zero(record.context), record.stream);
}

// A page is of no context.
uint32_t CudaDecoder::place_of(const raw::GpuFault &record) {
  return place_of(record.device, raw::kCudaNone, raw::kCudaNone);
}

// Samples of all contexts of a device are added up.
uint32_t CudaDecoder::place_of(const raw::PcSample &record) {
  return place_of(record.device, raw::kCudaNone, raw::kCudaNone);
}

uint32_t CudaDecoder::place_of(const raw::PcSampling &record) {
  return place_of(record.device, raw::kCudaNone, raw::kCudaNone);
}

uint32_t CudaDecoder::place_of(uint32_t device, uint32_t context, uint32_t stream) {
  RecentPlace &recent = recent_[(stream ^ context * 7 ^ device * 31) % recent_.size()];
  if (recent.is_set && recent.device == device && recent.context == context &&
      recent.stream == stream) {
    return recent.place;
  }
  const auto [found, is_new] = cuda_.place_of.try_emplace(
      {process_, device, context, stream}, static_cast<uint32_t>(cuda_.places.size()));
  if (is_new) cuda_.places.push_back({process_, device, context, stream, 0, 0, 0, false});
  recent = {device, context, stream, found->second, true};
  return found->second;
}

}  // namespace warpline
