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
constexpr uint64_t kFarNs = uint64_t{1} << 61;
constexpr std::size_t kMaxDeclared = 1U << 20;  // devices, contexts or streams
constexpr std::size_t kMaxClockPairs = 1U << 20;

// Whether the times of a record can be true; CUPTI writes 0 where it has none.
template <typename Record>
bool has_times(const Record &record) {
  const auto is_time = [](uint64_t time_ns) { return time_ns != 0 && time_ns <= kFarNs; };
  return is_time(record.start_ns) && is_time(record.end_ns);
}

// Takes the times of a record; none ends before it began.
template <typename Record, typename Row>
void take_times(const Record &record, Row &row) {
  row.start_ns = static_cast<int64_t>(record.start_ns);
  row.end_ns = std::max(row.start_ns, static_cast<int64_t>(record.end_ns));
}

bool text_of(const uint64_t *record, std::size_t words, std::string_view &text) {
  if (words < 3 || record[2] > words * 8) return false;
  const std::size_t bytes = record[2];
  if (3 + raw::words_for(bytes) != words) return false;
  text = {reinterpret_cast<const char *>(record + 3), bytes};
  return true;
}

// What runs on a device has a context and a stream, even if nobody says which.
uint32_t known(uint32_t number) { return number == raw::kCudaNone ? 0 : number; }

// CUPTI counts kinds of memory from 1 and calls the unknown 0; the schema counts from 0 and calls
// it 7.
uint8_t memory_kind(uint32_t cupti) {
  return static_cast<uint8_t>(cupti >= 1 && cupti <= 7 ? cupti - 1 : 7);
}

uint8_t copy_kind(uint32_t cupti) { return static_cast<uint8_t>(cupti <= 10 ? cupti : 0); }

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

CudaCallName describe(int32_t text, std::string_view name, bool is_driver) {
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

}  // namespace

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

CudaDecoder::Result CudaDecoder::decode(const uint64_t *record, std::size_t words,
                                        const uint32_t *thread) {
  host_time_ = 0;
  thread_ = thread;
  switch (raw::kind_of(*record)) {
    case Kind::kCallName: return {.is_sound = on_call_name(record, words)};
    case Kind::kCudaName: return {.is_sound = on_name(record, words)};
    case Kind::kChain: return {.is_sound = cuda_.chains.add_chain(process_, record, words)};
    case Kind::kModule: return {.is_sound = cuda_.chains.add_module(process_, record, words)};
    case Kind::kCall: return take<raw::Call>(record, words);
    case Kind::kKernel: return take<raw::Kernel>(record, words);
    case Kind::kCopy: return take<raw::Copy>(record, words);
    case Kind::kFill: return take<raw::Fill>(record, words);
    case Kind::kGraph: return take<raw::Graph>(record, words);
    case Kind::kWait: return take<raw::Wait>(record, words);
    case Kind::kEvent: return take<raw::Event>(record, words);
    case Kind::kMemory: return take<raw::Memory>(record, words);
    case Kind::kPool: return take<raw::Pool>(record, words);
    case Kind::kOverhead: return take<raw::Overhead>(record, words);
    case Kind::kDevice: return take<raw::Device>(record, words);
    case Kind::kContext: return take<raw::Context>(record, words);
    case Kind::kStream: return take<raw::Stream>(record, words);
    case Kind::kLost: return take<raw::Lost>(record, words);
    case Kind::kBuffer: return take<raw::Buffer>(record, words);
    case Kind::kCudaClock: return take<raw::CudaClock>(record, words);
    case Kind::kCollecting: return take<raw::Collecting>(record, words);
    default: return {.is_foreign = true};
  }
}

template <typename Record>
CudaDecoder::Result CudaDecoder::take(const uint64_t *record, std::size_t words) {
  Record found;
  const bool is_sound = found.read(record, words) && on(found);
  return {.is_sound = is_sound, .is_counted = Record::kIsCounted, .host_time = host_time_};
}

bool CudaDecoder::on_call_name(const uint64_t *record, std::size_t words) {
  std::string_view text;
  if (!text_of(record, words, text)) return false;
  const uint32_t key = raw::aux_of(*record);
  const uint32_t domain = std::min<uint32_t>(key >> 16, 3) % 3;
  const bool is_driver = domain == 1;
  const int32_t number = tables_.texts.intern(text);
  const auto [found, is_new] = cuda_.call_name_of.try_emplace(
      {number, is_driver}, static_cast<int32_t>(cuda_.call_names.size()));
  if (is_new) cuda_.call_names.push_back(describe(number, text, is_driver));
  call_names_[domain].set(key & 0xffff, found->second);
  return true;
}

bool CudaDecoder::on_name(const uint64_t *record, std::size_t words) {
  std::string_view text;
  if (!text_of(record, words, text)) return false;
  names_.set(raw::aux_of(*record), tables_.texts.intern(text));
  return true;
}

bool CudaDecoder::on(const raw::Call &record) {
  if (thread_ == nullptr || record.start_ns > kFarNs || record.end_ns > kFarNs) return false;
  const uint32_t api = std::min<uint32_t>(record.api, 3) % 3;
  CudaCall call;
  take_times(record, call);
  call.thread = *thread_;
  call.correlation = record.correlation;
  call.status = static_cast<int32_t>(record.status);
  call.flags = record.flags;
  if (record.has(raw::Call::kHasChain)) call.chain = cuda_.chains.find(process_, record.chain);
  call.name = call_names_[api].get(record.call);
  if (call.name < 0) {
    const std::string text = "[unknown call " + std::to_string(record.call) + "]";
    const int32_t number = tables_.texts.intern(text);
    call.name = static_cast<int32_t>(cuda_.call_names.size());
    cuda_.call_names.push_back(describe(number, text, api == 1));
    call_names_[api].set(record.call, call.name);
  }
  host_time_ = static_cast<uint64_t>(call.end_ns);
  add(cuda_.calls, call);
  if (record.has(raw::Call::kHasPlace | raw::Call::kHasEvent)) add_target(record, call);
  return true;
}

void CudaDecoder::add_target(const raw::Call &record, const CudaCall &call) {
  CudaTarget target;
  target.role = cuda_.call_names[static_cast<std::size_t>(call.name)].role;
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

bool CudaDecoder::on(const raw::Kernel &record) {
  CudaKernel kernel;
  if (!read_work(record, kernel)) return true;
  if (record.name != 0) kernel.name = names_.get(record.name);
  const auto narrow = [](uint32_t x, uint32_t y, uint32_t z) {
    return std::array{static_cast<uint16_t>(x), static_cast<uint16_t>(y), static_cast<uint16_t>(z)};
  };
  kernel.grid = {record.grid_x, record.grid_y, record.grid_z};
  kernel.block = narrow(record.block_x, record.block_y, record.block_z);
  kernel.cluster = narrow(record.cluster_x, record.cluster_y, record.cluster_z);
  kernel.registers = record.registers;
  kernel.static_shared = record.static_shared_bytes;
  kernel.dynamic_shared = record.dynamic_shared_bytes;
  kernel.executed_shared = record.executed_shared_bytes;
  kernel.local_per_thread = record.local_bytes_per_thread;
  kernel.local_total = record.local_bytes;
  kernel.graph_node = record.graph_node;
  kernel.graph = record.graph;
  if (record.has(raw::Kernel::kIsCooperative)) kernel.launch_kind = 2;
  if (record.has(raw::Kernel::kIsCooperativeMulti)) kernel.launch_kind = 3;
  add(cuda_.kernels, kernel);
  return true;
}

bool CudaDecoder::on(const raw::Copy &record) {
  CudaCopy copy;
  if (!read_work(record, copy)) return true;
  copy.kind = copy_kind(record.copy_kind);
  copy.source_memory = memory_kind(record.source_memory);
  copy.destination_memory = memory_kind(record.destination_memory);
  copy.bytes = record.bytes;
  copy.graph_node = record.graph_node;
  copy.graph = record.graph;
  if (record.has(raw::Copy::kHasPeer)) {
    copy.source = static_cast<int32_t>(record.source_device & 0x7fffffff);
    copy.destination = static_cast<int32_t>(record.destination_device & 0x7fffffff);
  }
  if (record.has(raw::Copy::kHasCount)) copy.count = static_cast<uint32_t>(record.copies);
  add(cuda_.copies, copy);
  return true;
}

bool CudaDecoder::on(const raw::Fill &record) {
  CudaFill fill;
  if (!read_work(record, fill)) return true;
  fill.value = record.value;
  fill.bytes = record.bytes;
  fill.memory = memory_kind(record.memory);
  fill.graph_node = record.graph_node;
  fill.graph = record.graph;
  add(cuda_.fills, fill);
  return true;
}

bool CudaDecoder::on(const raw::Graph &record) {
  CudaGraphLaunch graph;
  if (!read_work(record, graph)) return true;
  graph.instance = record.graph;
  add(cuda_.graphs, graph);
  return true;
}

bool CudaDecoder::on(const raw::Wait &record) {
  CudaFacts &facts = cuda_.facts_of(process_);
  facts.is_used = true;
  if (!has_times(record)) {
    ++facts.without_time;
    return true;
  }
  CudaWait wait;
  take_times(record, wait);
  wait.process = process_;
  wait.context = record.context;
  wait.stream = record.stream;
  wait.correlation = record.correlation;
  wait.event = record.event;
  wait.event_sync = record.event_sync == raw::kCudaNone ? 0 : record.event_sync;
  const uint32_t kind = record.wait_kind;
  // A wait of a stream that names no event is one of the host for the stream.
  const bool is_stream_wait = kind == 2 && wait.event != raw::kCudaNone;
  wait.kind = static_cast<uint8_t>(kind == 2 ? 3 : kind == 1 || kind == 3 || kind == 4 ? kind : 0);
  add(is_stream_wait ? cuda_.stream_waits : cuda_.host_waits, wait);
  return true;
}

bool CudaDecoder::on(const raw::Event &record) {
  CudaEvent event;
  event.process = process_;
  event.event = record.event;
  event.context = record.context;
  event.stream = known(record.stream);
  event.correlation = record.correlation;
  event.device = record.device;
  event.event_sync = record.event_sync == raw::kCudaNone ? 0 : record.event_sync;
  const uint64_t device_ns = record.device_time_ns;
  if (device_ns <= kFarNs) event.device_ns = static_cast<int64_t>(device_ns);
  cuda_.facts_of(process_).is_used = true;
  add(cuda_.events, event);
  return true;
}

bool CudaDecoder::on(const raw::Memory &record) {
  if (record.time_ns > kFarNs) return false;
  CudaMemoryEvent event;
  event.time_ns = static_cast<int64_t>(record.time_ns);
  const uint32_t context = record.context == 0 ? raw::kCudaNone : record.context;
  event.place = place_of(record.device, context, raw::kCudaNone);
  event.correlation = record.correlation;
  event.address = record.address;
  event.bytes = record.bytes;
  event.is_release = record.operation == 2;
  event.memory = memory_kind(record.memory);
  event.has_pool = record.has(raw::Memory::kHasPool);
  event.pool = record.pool_address;
  if (record.has(raw::Memory::kHasName)) event.name = names_.get(record.name);
  add(cuda_.memory, event);
  return true;
}

bool CudaDecoder::on(const raw::Pool &) { return true; }  // no table has pools

bool CudaDecoder::on(const raw::Overhead &record) {
  if (!has_times(record)) return true;
  CudaOverhead overhead;
  take_times(record, overhead);
  overhead.process = process_;
  overhead.kind = record.overhead_kind;
  if (record.object_kind == 2) overhead.tid = record.object_id;
  add(cuda_.overhead, overhead);
  return true;
}

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

template <typename Record>
bool CudaDecoder::read_work(const Record &record, CudaWork &work) {
  CudaFacts &facts = cuda_.facts_of(process_);
  facts.is_used = true;
  work.correlation = record.correlation;
  if (!has_times(record)) {
    ++facts.without_time;
    if (cuda_.lost_launches.size() < kMaxRows) {
      cuda_.lost_launches.push_back(uint64_t{static_cast<uint32_t>(process_)} << 32 |
                                    work.correlation);
    }
    return false;
  }
  take_times(record, work);
  work.place = place_of(record.device, known(record.context), known(record.stream));
  return true;
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

template <typename Row>
void CudaDecoder::add(std::vector<Row> &rows, const Row &row) {
  if (rows.size() < kMaxRows) {
    rows.push_back(row);
  } else {
    ++cuda_.beyond_limits;
  }
}

}  // namespace warpline
