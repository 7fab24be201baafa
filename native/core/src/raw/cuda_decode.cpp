// The CUDA records of a log. Whatever a record says is checked before it is used: a log may be
// damaged, or written by a program that means harm.
#include <algorithm>
#include <cstring>
#include <string_view>

#include "raw/cuda.h"
#include "raw/tables.h"

namespace warpline {

using raw::CudaKind;

namespace {

constexpr uint32_t kNearNumbers = 1U << 20;
constexpr uint64_t kFarNs = uint64_t{1} << 61;
constexpr std::size_t kMaxDeclared = 1U << 20;  // devices, contexts or streams
constexpr std::size_t kMaxClockPairs = 1U << 20;

uint32_t low(uint64_t word) { return static_cast<uint32_t>(word); }
uint32_t high(uint64_t word) { return static_cast<uint32_t>(word >> 32); }
uint16_t part(uint64_t word, unsigned place) { return static_cast<uint16_t>(word >> (16 * place)); }
uint8_t byte(uint32_t word, unsigned place) { return static_cast<uint8_t>(word >> (8 * place)); }
bool has(uint64_t header, uint8_t flag) { return (raw::flags_of(header) & flag) != 0; }

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

uint8_t copy_kind(uint8_t cupti) { return cupti <= 10 ? cupti : uint8_t{0}; }

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
  Result result;
  switch (static_cast<CudaKind>(raw::kind_of(*record))) {
    case CudaKind::kCallName: result.is_sound = on_call_name(record, words); break;
    case CudaKind::kName: result.is_sound = on_name(record, words); break;
    case CudaKind::kCall: result = {on_call(record, words, thread), false, true, 0}; break;
    case CudaKind::kKernel: result = {on_kernel(record, words), false, true, 0}; break;
    case CudaKind::kCopy: result = {on_copy(record, words), false, true, 0}; break;
    case CudaKind::kFill: result = {on_fill(record, words), false, true, 0}; break;
    case CudaKind::kGraph: result = {on_graph(record, words), false, true, 0}; break;
    case CudaKind::kWait: result.is_sound = on_wait(record, words); break;
    case CudaKind::kEvent: result.is_sound = on_event(record, words); break;
    case CudaKind::kMemory: result.is_sound = on_memory(record, words); break;
    case CudaKind::kPool: result.is_sound = words == 8; break;  // no table has pools
    case CudaKind::kOverhead: result.is_sound = on_overhead(record, words); break;
    case CudaKind::kDevice: result.is_sound = on_device(record, words); break;
    case CudaKind::kContext: result.is_sound = on_context(record, words); break;
    case CudaKind::kStream: result.is_sound = on_stream(record, words); break;
    case CudaKind::kGraphNode: result.is_sound = on_graph_node(record, words, thread); break;
    case CudaKind::kLost: result.is_sound = on_lost(record, words); break;
    case CudaKind::kBuffer: result.is_sound = on_buffer(record, words); break;
    case CudaKind::kClock: result.is_sound = on_clock(record, words); break;
    case CudaKind::kCollecting: result.is_sound = on_collecting(record, words); break;
    case CudaKind::kChain: result.is_sound = cuda_.chains.add_chain(process_, record, words); break;
    case CudaKind::kModule:
      result.is_sound = cuda_.chains.add_module(process_, record, words);
      break;
    default: result.is_foreign = true;
  }
  result.host_time = host_time_;
  return result;
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

bool CudaDecoder::on_call(const uint64_t *record, std::size_t words, const uint32_t *thread) {
  const bool has_chain = has(*record, raw::kCallHasChain);
  const bool has_target = has(*record, raw::kCallHasPlace | raw::kCallHasEvent);
  const std::size_t more = (has_chain ? 1U : 0U) + (has(*record, raw::kCallHasPlace) ? 1U : 0U) +
                           (has(*record, raw::kCallHasEvent) ? 1U : 0U);
  if (words != 4 + more || thread == nullptr) return false;
  if (record[1] > kFarNs || record[2] > kFarNs) return false;
  const uint32_t key = raw::aux_of(*record);
  const uint32_t domain = std::min<uint32_t>(key >> 16, 3) % 3;
  CudaCall call;
  call.start_ns = static_cast<int64_t>(record[1]);
  call.end_ns = std::max(call.start_ns, static_cast<int64_t>(record[2]));
  call.thread = *thread;
  call.correlation = low(record[3]);
  call.status = static_cast<int32_t>(high(record[3]));
  call.flags = raw::flags_of(*record);
  if (has_chain) call.chain = cuda_.chains.find(process_, record[4]);
  call.name = call_names_[domain].get(key & 0xffff);
  if (call.name < 0) {
    const std::string text = "[unknown call " + std::to_string(key & 0xffff) + "]";
    const int32_t number = tables_.texts.intern(text);
    call.name = static_cast<int32_t>(cuda_.call_names.size());
    cuda_.call_names.push_back(describe(number, text, domain == 1));
    call_names_[domain].set(key & 0xffff, call.name);
  }
  host_time_ = static_cast<uint64_t>(call.end_ns);
  add(cuda_.calls, call);
  if (has_target) add_target(record, record + (has_chain ? 5 : 4), call);
  return true;
}

void CudaDecoder::add_target(const uint64_t *record, const uint64_t *at, const CudaCall &call) {
  CudaTarget target;
  target.role = cuda_.call_names[static_cast<std::size_t>(call.name)].role;
  // A capture ends even where that fails. Of the others a failed call did nothing.
  if (target.role == CudaRole::kNone) return;
  if (call.status != 0 && target.role != CudaRole::kCaptureEnd) return;
  target.start_ns = call.start_ns;
  target.end_ns = call.end_ns;
  target.process = process_;
  target.correlation = call.correlation;
  target.stream = target.context = raw::kCudaNone;
  if (has(*record, raw::kCallHasPlace)) {
    target.stream = low(*at);
    target.context = high(*at++);
  }
  if (has(*record, raw::kCallHasEvent)) target.event = *at;
  cuda_.facts_of(process_).is_used = true;
  add(cuda_.targets, target);
}

bool CudaDecoder::on_kernel(const uint64_t *record, std::size_t words) {
  const std::size_t more = (has(*record, raw::kHasGraphNode) ? 2 : 0) +
                           (has(*record, raw::kHasCluster) ? 1 : 0);
  if (words != 10 + more) return false;
  CudaKernel kernel;
  if (!read_work(record, kernel)) return true;
  const uint32_t number = raw::aux_of(*record);
  if (number != 0) kernel.name = names_.get(number);
  kernel.grid = {low(record[5]), part(record[5], 2), part(record[5], 3)};
  kernel.block = {part(record[6], 0), part(record[6], 1), part(record[6], 2)};
  kernel.registers = part(record[6], 3);
  kernel.static_shared = low(record[7]);
  kernel.dynamic_shared = high(record[7]);
  kernel.executed_shared = low(record[8]);
  kernel.local_per_thread = high(record[8]);
  kernel.local_total = record[9];
  const uint64_t *at = record + 10;
  if (has(*record, raw::kHasGraphNode)) {
    kernel.graph_node = *at++;
    kernel.graph = low(*at++);
  }
  if (has(*record, raw::kHasCluster)) kernel.cluster = {part(*at, 0), part(*at, 1), part(*at, 2)};
  if (has(*record, raw::kIsCooperative)) kernel.launch_kind = 2;
  if (has(*record, raw::kIsCooperativeMulti)) kernel.launch_kind = 3;
  add(cuda_.kernels, kernel);
  return true;
}

bool CudaDecoder::on_copy(const uint64_t *record, std::size_t words) {
  const std::size_t more = (has(*record, raw::kHasGraphNode) ? 2 : 0) +
                           (has(*record, raw::kHasPeer) ? 2 : 0) +
                           (has(*record, raw::kHasCount) ? 1 : 0);
  if (words != 6 + more) return false;
  CudaCopy copy;
  if (!read_work(record, copy)) return true;
  const uint32_t kinds = raw::aux_of(*record);
  copy.kind = copy_kind(byte(kinds, 0));
  copy.source_memory = memory_kind(byte(kinds, 1));
  copy.destination_memory = memory_kind(byte(kinds, 2));
  copy.bytes = record[5];
  const uint64_t *at = record + 6;
  if (has(*record, raw::kHasGraphNode)) {
    copy.graph_node = *at++;
    copy.graph = low(*at++);
  }
  if (has(*record, raw::kHasPeer)) {
    copy.source = static_cast<int32_t>(low(*at) & 0x7fffffff);
    copy.destination = static_cast<int32_t>(high(*at) & 0x7fffffff);
    at += 2;
  }
  if (has(*record, raw::kHasCount)) copy.count = low(*at);
  add(cuda_.copies, copy);
  return true;
}

bool CudaDecoder::on_fill(const uint64_t *record, std::size_t words) {
  if (words != 7 + (has(*record, raw::kHasGraphNode) ? 2U : 0U)) return false;
  CudaFill fill;
  if (!read_work(record, fill)) return true;
  fill.value = raw::aux_of(*record);
  fill.bytes = record[5];
  fill.memory = memory_kind(low(record[6]));
  if (has(*record, raw::kHasGraphNode)) {
    fill.graph_node = record[7];
    fill.graph = low(record[8]);
  }
  add(cuda_.fills, fill);
  return true;
}

bool CudaDecoder::on_graph(const uint64_t *record, std::size_t words) {
  if (words != 5 + (has(*record, raw::kHasPeer) ? 2U : 0U)) return false;
  CudaGraphLaunch graph;
  if (!read_work(record, graph)) return true;
  graph.instance = raw::aux_of(*record);
  add(cuda_.graphs, graph);
  return true;
}

bool CudaDecoder::on_wait(const uint64_t *record, std::size_t words) {
  if (words != 7) return false;
  CudaFacts &facts = cuda_.facts_of(process_);
  facts.is_used = true;
  if (record[1] == 0 || record[2] == 0 || record[1] > kFarNs || record[2] > kFarNs) {
    ++facts.without_time;
    return true;
  }
  CudaWait wait;
  wait.start_ns = static_cast<int64_t>(record[1]);
  wait.end_ns = std::max(wait.start_ns, static_cast<int64_t>(record[2]));
  wait.process = process_;
  wait.context = low(record[3]);
  wait.stream = high(record[3]);
  wait.correlation = low(record[4]);
  wait.event = high(record[4]);
  wait.event_sync = record[5] == raw::kCudaNone ? 0 : record[5];
  const uint32_t kind = raw::aux_of(*record);
  // A wait of a stream that names no event is one of the host for the stream.
  const bool is_stream_wait = kind == 2 && wait.event != raw::kCudaNone;
  wait.kind = static_cast<uint8_t>(kind == 2 ? 3 : kind == 1 || kind == 3 || kind == 4 ? kind : 0);
  add(is_stream_wait ? cuda_.stream_waits : cuda_.host_waits, wait);
  return true;
}

bool CudaDecoder::on_event(const uint64_t *record, std::size_t words) {
  const bool has_time = has(*record, raw::kHasDeviceTime);
  if (words != 4 + (has_time ? 1U : 0U)) return false;
  CudaEvent event;
  event.process = process_;
  event.event = raw::aux_of(*record);
  event.context = low(record[1]);
  event.stream = known(high(record[1]));
  event.correlation = low(record[2]);
  event.device = high(record[2]);
  event.event_sync = record[3] == raw::kCudaNone ? 0 : record[3];
  if (has_time && record[4] <= kFarNs) event.device_ns = static_cast<int64_t>(record[4]);
  cuda_.facts_of(process_).is_used = true;
  add(cuda_.events, event);
  return true;
}

bool CudaDecoder::on_memory(const uint64_t *record, std::size_t words) {
  const bool has_pool = has(*record, raw::kHasPool);
  const bool has_name = has(*record, raw::kHasName);
  if (words != 6 + (has_pool ? 4U : 0U) + (has_name ? 1U : 0U) || record[1] > kFarNs) return false;
  const uint32_t aux = raw::aux_of(*record);
  CudaMemoryEvent event;
  event.time_ns = static_cast<int64_t>(record[1]);
  const uint32_t context = high(record[2]);
  event.place = place_of(low(record[2]), context == 0 ? raw::kCudaNone : context, raw::kCudaNone);
  event.correlation = high(record[3]);
  event.address = record[4];
  event.bytes = record[5];
  event.is_release = byte(aux, 0) == 2;
  event.memory = memory_kind(byte(aux, 1));
  event.has_pool = has_pool;
  if (has_pool) event.pool = record[6];
  if (has_name) event.name = names_.get(low(record[words - 1]));
  add(cuda_.memory, event);
  return true;
}

bool CudaDecoder::on_overhead(const uint64_t *record, std::size_t words) {
  if (words != 5) return false;
  if (record[1] == 0 || record[2] == 0 || record[1] > kFarNs || record[2] > kFarNs) return true;
  CudaOverhead overhead;
  overhead.start_ns = static_cast<int64_t>(record[1]);
  overhead.end_ns = std::max(overhead.start_ns, static_cast<int64_t>(record[2]));
  overhead.process = process_;
  overhead.kind = raw::aux_of(*record);
  if (low(record[3]) == 2) overhead.tid = high(record[3]);
  add(cuda_.overhead, overhead);
  return true;
}

bool CudaDecoder::on_device(const uint64_t *record, std::size_t words) {
  if (words != 12) return false;
  if (cuda_.declared_devices.size() >= kMaxDeclared) return true;
  CudaDeviceFacts &device = cuda_.declared_devices[{process_, raw::aux_of(*record)}];
  if (low(record[1]) != 0) device.name = names_.get(low(record[1]));
  device.multiprocessors = high(record[1]);
  device.uuid = {record[2], record[3]};
  device.memory_bytes = record[4];
  device.memory_bytes_per_s = record[5];
  device.clock_hz = record[6];
  device.l2_bytes = low(record[7]);
  device.compute_major = low(record[8]);
  device.compute_minor = high(record[8]);
  device.pci = record[9];
  device.number = high(record[11]) >> 8;
  return true;
}

bool CudaDecoder::on_context(const uint64_t *record, std::size_t words) {
  if (words != 3) return false;
  if (cuda_.declared_contexts.size() >= kMaxDeclared) return true;
  cuda_.declared_contexts[{process_, raw::aux_of(*record)}] = {
      low(record[1]), high(record[1]), low(record[2]), (high(record[2]) & 1) != 0};
  return true;
}

bool CudaDecoder::on_stream(const uint64_t *record, std::size_t words) {
  if (words != 3) return false;
  if (cuda_.declared_streams.size() >= kMaxDeclared) return true;
  const uint32_t kind = low(record[2]);
  cuda_.declared_streams[{process_, low(record[1]), raw::aux_of(*record)}] = {
      true, static_cast<int32_t>(high(record[1])), true,
      static_cast<uint8_t>(kind <= 3 ? kind : 0)};
  return true;
}

bool CudaDecoder::on_graph_node(const uint64_t *record, std::size_t words,
                                const uint32_t *thread) {
  if (words != 5 || record[1] > kFarNs || thread == nullptr) return false;
  host_time_ = record[1];
  add(cuda_.nodes, {static_cast<int64_t>(record[1]), record[2], record[3], *thread});
  return true;
}

bool CudaDecoder::on_lost(const uint64_t *record, std::size_t words) {
  if (words != 3 || record[1] > kFarNs) return false;
  host_time_ = record[1];
  int64_t &dropped = cuda_.facts_of(process_).dropped;
  dropped += static_cast<int64_t>(std::min<uint64_t>(record[2], uint64_t{1} << 40));
  return true;
}

bool CudaDecoder::on_buffer(const uint64_t *record, std::size_t words) {
  if (words != 3 || record[1] > kFarNs) return false;
  host_time_ = record[1];
  int64_t &last = cuda_.facts_of(process_).last_buffer_ns;
  last = std::max(last, static_cast<int64_t>(record[1]));
  return true;
}

bool CudaDecoder::on_clock(const uint64_t *record, std::size_t words) {
  if (words != 3 || record[1] > kFarNs || record[2] > kFarNs) return false;
  host_time_ = record[2];
  std::vector<CudaClockPair> &clock = cuda_.facts_of(process_).clock;
  if (clock.size() < kMaxClockPairs) {
    clock.push_back({static_cast<int64_t>(record[1]), static_cast<int64_t>(record[2])});
  }
  return true;
}

bool CudaDecoder::on_collecting(const uint64_t *record, std::size_t words) {
  if (words != 2 || record[1] > kFarNs) return false;
  host_time_ = record[1];
  CudaFacts &facts = cuda_.facts_of(process_);
  const uint32_t mask = raw::aux_of(*record);
  facts.collected |= mask;
  if (facts.collecting.size() < kMaxDeclared) {
    facts.collecting.emplace_back(static_cast<int64_t>(record[1]), mask);
  }
  return true;
}

bool CudaDecoder::read_work(const uint64_t *record, CudaWork &work) {
  CudaFacts &facts = cuda_.facts_of(process_);
  facts.is_used = true;
  work.correlation = high(record[4]);
  if (record[1] == 0 || record[2] == 0 || record[1] > kFarNs || record[2] > kFarNs) {
    ++facts.without_time;
    if (cuda_.lost_launches.size() < kMaxRows) {
      cuda_.lost_launches.push_back(uint64_t{static_cast<uint32_t>(process_)} << 32 |
                                    work.correlation);
    }
    return false;
  }
  work.start_ns = static_cast<int64_t>(record[1]);
  work.end_ns = std::max(work.start_ns, static_cast<int64_t>(record[2]));
  work.place = place_of(low(record[3]), known(high(record[3])), known(low(record[4])));
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
