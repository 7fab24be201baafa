#include "cupti/records.h"

#include <pthread.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bitset>
#include <cstdlib>
#include <cstring>
#include <string>
#include <unordered_map>

#include "cupti/detach.h"
#include "machine/cuda_devices.h"
#include "machine/device_attributes.h"
#include "machine/gpus.h"
#include "session/clock.h"
#include "session/lock.h"
#include "session/process.h"
#include "stack/call_chain.h"

namespace warpline::agent {
namespace {

// Kinds of a Copy record that CUPTI does not count as copies.
constexpr std::uint32_t kMigratesToDevice = 11;
constexpr std::uint32_t kMigratesToHost = 12;
constexpr std::uint32_t kMigratesBetweenDevices = 13;

constexpr std::uint32_t size(std::int32_t number) { return static_cast<std::uint32_t>(number); }

// Numbers for the names of kernels. CUPTI's pointers are a hint only: when a module is unloaded,
// another's name may take its place. Used with g_writing held.
class Names {
 public:
  // Returns the number of a name, counted from 1; 0 when there is none or no memory.
  std::uint32_t number(const char* name) noexcept {
    if (name == nullptr) return 0;
    Recent& recent = recent_[reinterpret_cast<std::uintptr_t>(name) / 8 % recent_.size()];
    if (recent.pointer == name && *recent.text == name) return recent.number;
    try {
      const auto [entry, is_new] =
          numbers_.try_emplace(name, static_cast<std::uint32_t>(numbers_.size() + 1));
      recent = {name, &entry->first, entry->second};
      return entry->second;
    } catch (...) {
      return 0;
    }
  }

 private:
  struct Recent {
    const char* pointer;
    const std::string* text;
    std::uint32_t number;
  };
  std::unordered_map<std::string, std::uint32_t> numbers_;  // its nodes never move
  std::array<Recent, 1024> recent_{};
};

// Which names the logs of the last few writing threads know. Used with g_writing held.
class NamesWritten {
 public:
  // Returns the set of this thread's log. With a lease of that log held.
  auto& of_this_thread() noexcept {
    thread_local const std::uint64_t thread = ++threads_;
    const std::uint64_t generation = g_process->generation.load(std::memory_order_relaxed);
    Set* oldest = sets_;
    for (Set& set : sets_) {
      if (set.thread == thread && set.generation == generation) {
        set.used = ++uses_;
        return set.names;
      }
      if (set.used < oldest->used) oldest = &set;
    }
    oldest->thread = thread;
    oldest->generation = generation;
    oldest->used = ++uses_;
    oldest->names.reset();
    return oldest->names;
  }

  static constexpr std::size_t kRemembered = 1u << 16;

 private:
  struct Set {
    std::uint64_t thread;
    std::uint64_t generation;
    std::uint64_t used;
    std::bitset<kRemembered> names;
  };
  std::uint64_t threads_ = 0;
  std::uint64_t uses_ = 0;
  Set sets_[4] = {};
};

// One lock for all that follows. A fork may find it held: the child has no use for it.
pthread_mutex_t g_writing = PTHREAD_MUTEX_INITIALIZER;
NamesWritten g_names_written;
std::uint64_t g_untold_lost = 0;
std::array<CudaDevice, 64> g_devices{};

Names& names() {
  static Names* all = new Names;  // never freed: buffers come until the very end
  return *all;
}

// Returns the number that stands for a name in a log, of which `written` are known there.
template <class Written>
std::uint32_t write_name(ThreadLog& log, Written& written, const char* text) noexcept {
  const std::uint32_t number = names().number(text);
  const bool is_remembered = number < NamesWritten::kRemembered;
  if (number == 0 || (is_remembered && written[number])) return number;
  if (!log.define(raw::Kind::kCudaName, number, 0, text)) return 0;
  if (is_remembered) written[number] = true;
  return number;
}

// Writes the records of one buffer into a log.
class Writer {
 public:
  Writer(const RecordReading& reading, ThreadLog& log) noexcept
      : reading_(reading), log_(log), written_(g_names_written.of_this_thread()) {}

  // Returns false for a record that is not understood or not wanted.
  bool write(const cupti::Activity& record) noexcept {
    switch (static_cast<cupti::Kind>(record.kind)) {
      case cupti::Kind::kConcurrentKernel: return kernel(as<cupti::KernelRecord>(record));
      case cupti::Kind::kMemcpy: return copy(as<cupti::CopyRecord>(record));
      case cupti::Kind::kMemcpyPeer: return peer_copy(as<cupti::PeerCopyRecord>(record));
      case cupti::Kind::kMemset: return fill(as<cupti::FillRecord>(record));
      case cupti::Kind::kGraphTrace: return graph(as<cupti::GraphRecord>(record));
      case cupti::Kind::kSynchronization: return wait(as<cupti::WaitRecord>(record));
      case cupti::Kind::kCudaEvent: return event(as<cupti::EventRecord>(record));
      case cupti::Kind::kUnifiedMemory:
        return unified_memory(as<cupti::UnifiedMemoryRecord>(record));
      case cupti::Kind::kMemory: return memory(as<cupti::MemoryRecord>(record));
      case cupti::Kind::kMemoryPool: return pool(as<cupti::PoolRecord>(record));
      case cupti::Kind::kOverhead: return overhead(as<cupti::OverheadRecord>(record));
      case cupti::Kind::kDevice: return device(as<cupti::DeviceRecord>(record));
      case cupti::Kind::kContext: return context(as<cupti::ContextRecord>(record));
      case cupti::Kind::kStream: return stream(as<cupti::StreamRecord>(record));
    }
    return false;
  }

  void end(std::uint64_t records, std::uint64_t lost, std::uint32_t not_taken) noexcept {
    const std::uint64_t now = timestamp();
    if (lost != 0) log_.put(raw::Lost{.time_ns = now, .records = lost});
    if (has_instructions_) write_modules(log_);
    log_.put(raw::Buffer{.skipped = not_taken, .time_ns = now, .records = records});
    saw_written_correlation(largest_);
  }

 private:
  template <class Record>
  static const Record& as(const cupti::Activity& record) noexcept {
    return reinterpret_cast<const Record&>(record);
  }
  bool has(std::uint32_t since) const noexcept { return reading_.version >= since; }
  std::uint32_t written(std::uint32_t correlation) noexcept {
    const std::uint32_t id = written_correlation(correlation);
    largest_ = std::max(largest_, id);
    return id;
  }

  template <class Record>
  bool put(const Record& record) noexcept {
    log_.put(record);  // the log counts what it has no space for
    return true;
  }

  std::uint32_t name(const char* text) noexcept { return write_name(log_, written_, text); }

  // What all work on a device has.
  template <class Record, class Theirs>
  void add_work(Record& to, const Theirs& from) noexcept {
    to.start_ns = from.start;
    to.end_ns = from.end;
    to.device = from.device;
    to.context = from.context;
    to.stream = from.stream;
    to.correlation = written(from.correlation);
  }

  template <class Record, class Theirs>
  static void add_graph_node(Record& to, const Theirs& from) noexcept {
    if (from.graph_node == 0) return;
    to.flags |= Record::kHasGraphNode;
    to.graph_node = from.graph_node;
    to.graph = from.graph;
  }

  bool kernel(const cupti::KernelRecord& k) noexcept {
    if (reading_.kernel_spans != nullptr && !reading_.kernel_spans->holds(k.start)) return false;
    raw::Kernel to{.name = name(k.name),
                   .grid_x = size(k.grid[0]),
                   .grid_y = size(k.grid[1]),
                   .grid_z = size(k.grid[2]),
                   .block_x = size(k.block[0]),
                   .block_y = size(k.block[1]),
                   .block_z = size(k.block[2]),
                   .registers = k.registers_per_thread,
                   .static_shared_bytes = size(k.static_shared_bytes),
                   .dynamic_shared_bytes = size(k.dynamic_shared_bytes),
                   .executed_shared_bytes = k.executed_shared_bytes,
                   .local_bytes_per_thread = k.local_bytes_per_thread,
                   .local_bytes = k.local_bytes};
    add_work(to, k);
    add_graph_node(to, k);
    if (k.launch_type == 1) to.flags |= raw::Kernel::kIsCooperative;
    if (k.launch_type == 2) to.flags |= raw::Kernel::kIsCooperativeMulti;
    if (k.cluster[0] > 1 || k.cluster[1] > 1 || k.cluster[2] > 1) {
      to.flags |= raw::Kernel::kHasCluster;
      to.cluster_x = k.cluster[0];
      to.cluster_y = k.cluster[1];
      to.cluster_z = k.cluster[2];
      to.cluster_policy = k.cluster_policy;
    }
    if (has(cupti::kVersion13_0_0) && k.is_device_launched != 0) {
      to.flags |= raw::Kernel::kIsDeviceLaunched;
    }
    return put(to);
  }

  template <class Theirs>
  raw::Copy copy_of(const Theirs& c) noexcept {
    raw::Copy to{.copy_kind = c.copy_kind,
                 .source_memory = c.source_memory,
                 .destination_memory = c.destination_memory,
                 .copy_flags = c.flags,
                 .bytes = c.bytes};
    add_work(to, c);
    add_graph_node(to, c);
    return to;
  }

  bool copy(const cupti::CopyRecord& c) noexcept {
    raw::Copy to = copy_of(c);
    if (has(cupti::kVersion12_8) && c.copies > 1) {
      to.flags |= raw::Copy::kHasCount;
      to.copies = c.copies;
    }
    return put(to);
  }

  bool peer_copy(const cupti::PeerCopyRecord& c) noexcept {
    raw::Copy to = copy_of(c);
    to.flags |= raw::Copy::kHasPeer;
    to.source_device = c.source_device;
    to.destination_device = c.destination_device;
    to.source_context = c.source_context;
    to.destination_context = c.destination_context;
    return put(to);
  }

  bool unified_memory(const cupti::UnifiedMemoryRecord& m) noexcept {
    switch (static_cast<cupti::UnifiedMemory>(m.counter)) {
      case cupti::UnifiedMemory::kToDevice: return migration(m, kMigratesToDevice, m.destination);
      case cupti::UnifiedMemory::kToHost: return migration(m, kMigratesToHost, m.source);
      case cupti::UnifiedMemory::kBetweenDevices:
        return migration(m, kMigratesBetweenDevices, m.destination);
      case cupti::UnifiedMemory::kCpuFault:
        has_instructions_ = true;
        return put(raw::CpuFault{.time_ns = m.start, .address = m.address, .pc = m.value});
      case cupti::UnifiedMemory::kGpuFault:
        return put(raw::GpuFault{.access = m.flags,
                                 .start_ns = m.start,
                                 .end_ns = m.end,
                                 .device = m.source,
                                 .address = m.address,
                                 .faults = m.value});
    }
    return false;
  }

  // Nobody launches it, and it is of no context.
  bool migration(const cupti::UnifiedMemoryRecord& m, std::uint32_t copy_kind,
                 std::uint32_t device) noexcept {
    raw::Copy to{.copy_kind = copy_kind,
                 .start_ns = m.start,
                 .end_ns = m.end,
                 .device = device,
                 .bytes = m.value,
                 .virtual_address = m.address,
                 .cause = m.flags};
    to.flags = raw::Copy::kIsMigration;
    if (copy_kind == kMigratesBetweenDevices) {
      to.flags |= raw::Copy::kHasPeer;
      to.source_device = m.source;
      to.destination_device = m.destination;
    }
    return put(to);
  }

  bool fill(const cupti::FillRecord& f) noexcept {
    raw::Fill to{.value = f.value, .bytes = f.bytes, .memory = f.memory, .fill_flags = f.flags};
    add_work(to, f);
    add_graph_node(to, f);
    return put(to);
  }

  bool graph(const cupti::GraphRecord& g) noexcept {
    if (reading_.graph_spans != nullptr && !reading_.graph_spans->holds(g.start)) return false;
    raw::Graph to{.graph = g.graph};
    add_work(to, g);
    if (has(cupti::kHasGraphEnd) && (g.end_device != g.device || g.end_context != g.context)) {
      to.flags = raw::Graph::kHasPeer;
      to.end_device = g.end_device;
      to.end_context = g.end_context;
    }
    return put(to);
  }

  bool wait(const cupti::WaitRecord& w) noexcept {
    const bool has_sync = has(cupti::kHasEventSync);
    return put(raw::Wait{.wait_kind = w.type,
                         .start_ns = w.start,
                         .end_ns = w.end,
                         .context = w.context,
                         .stream = w.stream,
                         .correlation = written(w.correlation),
                         .event = w.event,
                         .event_sync = has_sync ? w.event_sync : 0,
                         .status = has_sync ? w.status : 0});
  }

  bool event(const cupti::EventRecord& e) noexcept {
    const bool is_long = has(cupti::kHasEventSync);
    raw::Event to{.event = e.event,
                  .context = e.context,
                  .stream = e.stream,
                  .correlation = written(e.correlation),
                  .device = is_long ? e.device : raw::kCudaNone,
                  .event_sync = is_long ? e.event_sync : 0,
                  .device_time_ns = is_long ? e.device_time : 0};
    if (to.device_time_ns != 0) to.flags = raw::Event::kHasDeviceTime;
    return put(to);
  }

  bool memory(const cupti::MemoryRecord& m) noexcept {
    raw::Memory to{.operation = m.operation,
                   .memory = m.memory,
                   .is_async = m.is_async != 0,
                   .pool_type = m.pool_type,
                   .time_ns = m.time,
                   .device = m.device,
                   .context = m.context,
                   .stream = m.stream,
                   .correlation = written(m.correlation),
                   .address = m.address,
                   .bytes = m.bytes,
                   .pool_address = m.pool_address,
                   .pool_bytes = m.pool_size,
                   .pool_used_bytes = m.pool_used,
                   .pool_threshold_bytes = m.pool_threshold,
                   .name = name(m.name)};
    if (m.pool_type != 0) to.flags |= raw::Memory::kHasPool;
    if (to.name != 0) to.flags |= raw::Memory::kHasName;
    return put(to);
  }

  bool pool(const cupti::PoolRecord& p) noexcept {
    return put(raw::Pool{.operation = p.operation,
                         .pool_type = p.type,
                         .time_ns = p.time,
                         .device = p.device,
                         .correlation = written(p.correlation),
                         .address = p.address,
                         .bytes = p.size,
                         .used_bytes = p.used,
                         .threshold_bytes = p.threshold,
                         .keep_bytes = p.min_bytes_to_keep});
  }

  bool overhead(const cupti::OverheadRecord& o) noexcept {
    const bool has_correlation = has(cupti::kHasOverheadCorrelation);
    return put(raw::Overhead{.overhead_kind = o.overhead,
                             .start_ns = o.start,
                             .end_ns = o.end,
                             .object_kind = o.object,
                             .object_id = o.ids[1],
                             .correlation = has_correlation ? written(o.correlation) : 0});
  }

  // Kept for write_new_devices.
  bool device(const cupti::DeviceRecord& d) noexcept {
    if (d.device >= g_devices.size()) return false;
    CudaDevice& kept = g_devices[d.device];
    if (kept.is_known) return true;
    kept.is_known = true;
    kept.id = d.device;
    std::memcpy(kept.uuid, d.uuid, sizeof kept.uuid);
    std::strncpy(kept.name, d.name == nullptr ? "" : d.name, sizeof kept.name - 1);
    kept.memory_bytes = d.memory_bytes;
    kept.memory_bytes_per_s = d.memory_kilobytes_per_s * 1000;
    kept.clock_hz = std::uint64_t{d.clock_khz} * 1000;
    kept.l2_bytes = d.l2_bytes;
    kept.warp_size = d.warp_size;
    kept.multiprocessors = d.multiprocessors;
    kept.compute_major = d.compute_major;
    kept.compute_minor = d.compute_minor;
    kept.max_threads_per_multiprocessor = d.max_warps_per_multiprocessor * d.warp_size;
    kept.max_shared_per_multiprocessor = d.max_shared_per_multiprocessor;
    kept.max_registers_per_multiprocessor = d.max_registers_per_multiprocessor;
    kept.is_mig = d.is_mig != 0;
    return true;
  }

  bool context(const cupti::ContextRecord& c) noexcept {
    const bool has_green = has(cupti::kHasGreenContext);
    const bool is_green = has_green && c.is_green != 0;
    return put(raw::Context{.context = c.context,
                            .device = c.device,
                            .null_stream = c.null_stream,
                            .parent = is_green ? c.parent : 0,
                            .is_green = is_green});
  }

  bool stream(const cupti::StreamRecord& s) noexcept {
    return put(raw::Stream{.stream = s.stream,
                           .context = s.context,
                           .priority = static_cast<std::int32_t>(s.priority),
                           .stream_kind = s.flag});
  }

  const RecordReading& reading_;
  ThreadLog& log_;
  std::bitset<NamesWritten::kRemembered>& written_;
  std::uint32_t largest_ = 0;
  bool has_instructions_ = false;  // addresses of the program's code
};

std::uint64_t dropped(const RecordReading& reading, void* context, std::uint32_t stream) noexcept {
  std::size_t count = 0;
  reading.functions.dropped_records(context, stream, &count);
  return count;
}

// Returns the next record of a buffer, or null after the last.
const cupti::Activity* next(const RecordReading& reading, std::uint8_t* buffer,
                            std::size_t valid_bytes, cupti::Activity*& at) noexcept {
  const cupti::Result result = reading.functions.next_record(buffer, valid_bytes, &at);
  return result == cupti::kSuccess ? at : nullptr;
}

// Tells that a device has CUDA's number for want of the machine's, if the two may differ.
void tell_number(ThreadLog& log, const CudaDevice& device) noexcept {
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  if (device.number >= 0 || visible == nullptr || *visible == '\0') return;
  log.define(raw::Kind::kNote, static_cast<std::uint32_t>(raw::CudaNote::kDoubt),
             static_cast<std::uint64_t>(now_ns()),
             "gpu_index counts visible GPUs only, because CUDA_VISIBLE_DEVICES could not be matched"
             " to the machine's GPUs");
}

bool write_device(CudaDevice& device, bool with_attributes) noexcept {
  LogLease log = definition_log();
  if (!log) return false;
  tell_number(*log, device);
  const std::uint32_t name = names().number(device.name);
  if (!log->define(raw::Kind::kCudaName, name, 0, device.name)) return false;
  raw::Device to{.device = device.id,
                 .name = name,
                 .multiprocessors = device.multiprocessors,
                 .memory_bytes = device.memory_bytes,
                 .memory_bytes_per_s = device.memory_bytes_per_s,
                 .clock_hz = device.clock_hz,
                 .l2_bytes = device.l2_bytes,
                 .warp_size = device.warp_size,
                 .compute_major = device.compute_major,
                 .compute_minor = device.compute_minor,
                 .pci = device.pci,
                 .max_threads = device.max_threads_per_multiprocessor,
                 .max_shared_bytes = device.max_shared_per_multiprocessor,
                 .max_registers = device.max_registers_per_multiprocessor,
                 .is_mig = device.is_mig,
                 .gpu_number = static_cast<std::uint32_t>(device.number + 1)};
  std::memcpy(&to.uuid_low, device.uuid, 8);
  std::memcpy(&to.uuid_high, device.uuid + 8, 8);
  if (!log->put(to)) return false;
  if (with_attributes) write_device_attributes(*log, device.id);
  return true;
}

}  // namespace

void RecordingSpans::begin(std::uint64_t time) noexcept {
  const std::uint32_t count = __atomic_load_n(&count_, __ATOMIC_RELAXED);
  __atomic_store_n(&begins_[count % kSpans], time, __ATOMIC_RELAXED);
  __atomic_store_n(&ends_[count % kSpans], ~std::uint64_t{0}, __ATOMIC_RELAXED);
  __atomic_store_n(&count_, count + 1, __ATOMIC_RELEASE);
}

void RecordingSpans::end(std::uint64_t time) noexcept {
  const std::uint32_t count = __atomic_load_n(&count_, __ATOMIC_RELAXED);
  if (count != 0) __atomic_store_n(&ends_[(count - 1) % kSpans], time, __ATOMIC_RELAXED);
}

bool RecordingSpans::holds(std::uint64_t time) const noexcept {
  const std::uint32_t count = __atomic_load_n(&count_, __ATOMIC_ACQUIRE);
  for (std::uint32_t i = 0; i < count && i < kSpans; ++i) {
    if (time >= __atomic_load_n(&begins_[i], __ATOMIC_RELAXED) &&
        time < __atomic_load_n(&ends_[i], __ATOMIC_RELAXED)) {
      return true;
    }
  }
  return false;
}

void write_buffer(const RecordReading& reading, void* context, std::uint32_t stream,
                  std::uint8_t* buffer, std::size_t valid_bytes) noexcept {
  const Lock lock(g_writing);
  LogLease log = definition_log();
  std::uint64_t lost = g_untold_lost + dropped(reading, context, stream);
  std::uint64_t records = 0;
  std::uint32_t not_taken = 0;
  cupti::Activity* at = nullptr;
  if (!log) {
    while (next(reading, buffer, valid_bytes, at) != nullptr) ++lost;
    g_untold_lost = lost;
    return;
  }
  g_untold_lost = 0;
  Writer writer(reading, *log);
  while (const cupti::Activity* record = next(reading, buffer, valid_bytes, at)) {
    ++records;
    if (!writer.write(*record)) ++not_taken;
  }
  writer.end(records, lost, not_taken);
}

std::uint32_t write_kernel_name(ThreadLog& log, const char* name) noexcept {
  const Lock lock(g_writing);
  return write_name(log, g_names_written.of_this_thread(), name);
}

void write_new_devices(bool with_attributes) noexcept {
  const Lock lock(g_writing);
  for (CudaDevice& device : g_devices) {
    if (!device.is_known || device.is_written) continue;
    device.pci = pci_location(device.id);
    device.number = machine_number(device.pci, device.id);
    device.is_written = write_device(device, with_attributes);
  }
}

void forget_written() noexcept {
  const Lock lock(g_writing);
  g_untold_lost = 0;
  g_devices = {};
}

}  // namespace warpline::agent
