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
#include "machine/gpus.h"
#include "session/clock.h"
#include "session/lock.h"
#include "session/process.h"

namespace warpline::agent {
namespace {

using raw::CudaKind;

constexpr raw::Kind raw_kind(CudaKind kind) { return static_cast<raw::Kind>(kind); }
constexpr std::uint64_t pair(std::uint32_t low, std::uint32_t high) {
  return std::uint64_t{high} << 32 | low;
}
constexpr std::uint64_t four(std::uint32_t a, std::uint32_t b, std::uint32_t c, std::uint32_t d) {
  const auto part = [](std::uint32_t value, int shift) {
    return std::uint64_t{value > 0xffff ? 0xffffu : value} << shift;
  };
  return part(a, 0) | part(b, 16) | part(c, 32) | part(d, 48);
}

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
    const auto now = static_cast<std::uint64_t>(now_ns());
    if (lost != 0) put(CudaKind::kLost, 0, 0, false, {now, lost});
    put(CudaKind::kBuffer, 0, not_taken, false, {now, records});
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

  template <std::size_t N>
  bool put(CudaKind kind, std::uint8_t flags, std::uint32_t aux, bool is_event,
           const std::uint64_t (&words)[N], std::size_t count = N) noexcept {
    std::uint64_t* room = log_.reserve(1 + count);
    if (room == nullptr) return true;  // the log counts what it has no space for
    std::memcpy(room + 1, words, count * sizeof words[0]);
    log_.commit(room, raw_kind(kind), flags, 1 + count, aux, is_event);
    return true;
  }

  // Returns the number that stands for a name in this log.
  std::uint32_t name(const char* text) noexcept {
    const std::uint32_t number = names().number(text);
    const bool is_remembered = number < NamesWritten::kRemembered;
    if (number == 0 || (is_remembered && written_[number])) return number;
    if (!log_.define(raw_kind(CudaKind::kName), number, 0, text)) return 0;
    if (is_remembered) written_[number] = true;
    return number;
  }

  bool kernel(const cupti::KernelRecord& k) noexcept {
    if (reading_.kernel_spans != nullptr && !reading_.kernel_spans->holds(k.start)) return false;
    std::uint8_t flags = k.launch_type == 1   ? raw::kIsCooperative
                         : k.launch_type == 2 ? raw::kIsCooperativeMulti
                                              : std::uint8_t{0};
    std::uint64_t words[12] = {
        k.start,
        k.end,
        pair(k.device, k.context),
        pair(k.stream, written(k.correlation)),
        std::uint64_t{static_cast<std::uint32_t>(k.grid[0])} |
            (four(0, 0, static_cast<std::uint32_t>(k.grid[1]),
                  static_cast<std::uint32_t>(k.grid[2]))),
        four(static_cast<std::uint32_t>(k.block[0]), static_cast<std::uint32_t>(k.block[1]),
             static_cast<std::uint32_t>(k.block[2]), k.registers_per_thread),
        pair(static_cast<std::uint32_t>(k.static_shared_bytes),
             static_cast<std::uint32_t>(k.dynamic_shared_bytes)),
        pair(k.executed_shared_bytes, k.local_bytes_per_thread),
        k.local_bytes,
    };
    std::size_t count = 9;
    add_graph_node(words, count, flags, k.graph_node, k.graph);
    if (k.cluster[0] > 1 || k.cluster[1] > 1 || k.cluster[2] > 1) {
      words[count++] = four(k.cluster[0], k.cluster[1], k.cluster[2], k.cluster_policy);
      flags |= raw::kHasCluster;
    }
    if (has(cupti::kVersion13_0_0) && k.is_device_launched != 0) flags |= raw::kIsDeviceLaunched;
    return put(CudaKind::kKernel, flags, name(k.name), true, words, count);
  }

  static std::uint32_t copy_kinds(std::uint8_t kind, std::uint8_t source,
                                  std::uint8_t destination, std::uint8_t flags) noexcept {
    return std::uint32_t{kind} | std::uint32_t{source} << 8 | std::uint32_t{destination} << 16 |
           std::uint32_t{flags} << 24;
  }

  template <std::size_t N>
  static void add_graph_node(std::uint64_t (&words)[N], std::size_t& count, std::uint8_t& flags,
                             std::uint64_t node, std::uint32_t graph) noexcept {
    if (node == 0) return;
    words[count++] = node;
    words[count++] = graph;
    flags |= raw::kHasGraphNode;
  }

  bool copy(const cupti::CopyRecord& c) noexcept {
    std::uint64_t words[8] = {c.start, c.end, pair(c.device, c.context),
                              pair(c.stream, written(c.correlation)), c.bytes};
    std::size_t count = 5;
    std::uint8_t flags = 0;
    add_graph_node(words, count, flags, c.graph_node, c.graph);
    if (has(cupti::kVersion12_8) && c.copies > 1) {
      words[count++] = c.copies;
      flags |= raw::kHasCount;
    }
    const std::uint32_t aux =
        copy_kinds(c.copy_kind, c.source_memory, c.destination_memory, c.flags);
    return put(CudaKind::kCopy, flags, aux, true, words, count);
  }

  bool peer_copy(const cupti::PeerCopyRecord& c) noexcept {
    std::uint64_t words[9] = {c.start, c.end, pair(c.device, c.context),
                              pair(c.stream, written(c.correlation)), c.bytes};
    std::size_t count = 5;
    std::uint8_t flags = raw::kHasPeer;
    add_graph_node(words, count, flags, c.graph_node, c.graph);
    words[count++] = pair(c.source_device, c.destination_device);
    words[count++] = pair(c.source_context, c.destination_context);
    const std::uint32_t aux =
        copy_kinds(c.copy_kind, c.source_memory, c.destination_memory, c.flags);
    return put(CudaKind::kCopy, flags, aux, true, words, count);
  }

  bool fill(const cupti::FillRecord& f) noexcept {
    std::uint64_t words[8] = {f.start, f.end, pair(f.device, f.context),
                              pair(f.stream, written(f.correlation)), f.bytes, pair(f.memory, f.flags)};
    std::size_t count = 6;
    std::uint8_t flags = 0;
    add_graph_node(words, count, flags, f.graph_node, f.graph);
    return put(CudaKind::kFill, flags, f.value, true, words, count);
  }

  bool graph(const cupti::GraphRecord& g) noexcept {
    if (reading_.graph_spans != nullptr && !reading_.graph_spans->holds(g.start)) return false;
    std::uint64_t words[6] = {g.start, g.end, pair(g.device, g.context),
                              pair(g.stream, written(g.correlation))};
    std::size_t count = 4;
    std::uint8_t flags = 0;
    if (has(cupti::kHasGraphEnd) && (g.end_device != g.device || g.end_context != g.context)) {
      words[count++] = g.end_device;
      words[count++] = g.end_context;
      flags = raw::kHasPeer;
    }
    return put(CudaKind::kGraph, flags, g.graph, true, words, count);
  }

  bool wait(const cupti::WaitRecord& w) noexcept {
    const bool has_sync = has(cupti::kHasEventSync);
    return put(CudaKind::kWait, 0, w.type, false,
               {w.start, w.end, pair(w.context, w.stream), pair(written(w.correlation), w.event),
                has_sync ? w.event_sync : 0, has_sync ? w.status : 0});
  }

  bool event(const cupti::EventRecord& e) noexcept {
    const bool is_long = has(cupti::kHasEventSync);
    const std::uint64_t words[4] = {
        pair(e.context, e.stream), pair(written(e.correlation), is_long ? e.device : raw::kCudaNone),
        is_long ? e.event_sync : 0, is_long ? e.device_time : 0};
    const bool has_time = words[3] != 0;
    return put(CudaKind::kEvent, has_time ? raw::kHasDeviceTime : 0, e.event, false, words,
               has_time ? 4 : 3);
  }

  bool memory(const cupti::MemoryRecord& m) noexcept {
    std::uint64_t words[10] = {m.time, pair(m.device, m.context), pair(m.stream, written(m.correlation)),
                               m.address, m.bytes};
    std::size_t count = 5;
    std::uint8_t flags = 0;
    if (m.pool_type != 0) {
      words[count++] = m.pool_address;
      words[count++] = m.pool_size;
      words[count++] = m.pool_used;
      words[count++] = m.pool_threshold;
      flags |= raw::kHasPool;
    }
    if (const std::uint32_t number = name(m.name); number != 0) {
      words[count++] = number;
      flags |= raw::kHasName;
    }
    const std::uint32_t aux = (m.operation & 0xff) | (m.memory & 0xff) << 8 |
                              (m.is_async != 0 ? 1u : 0u) << 16 | (m.pool_type & 0xff) << 24;
    return put(CudaKind::kMemory, flags, aux, false, words, count);
  }

  bool pool(const cupti::PoolRecord& p) noexcept {
    return put(CudaKind::kPool, 0, (p.operation & 0xff) | (p.type & 0xff) << 8, false,
               {p.time, pair(p.device, written(p.correlation)), p.address, p.size, p.used, p.threshold,
                p.min_bytes_to_keep});
  }

  bool overhead(const cupti::OverheadRecord& o) noexcept {
    const std::uint32_t correlation = has(cupti::kHasOverheadCorrelation) ? written(o.correlation) : 0;
    return put(CudaKind::kOverhead, 0, o.overhead, false,
               {o.start, o.end, pair(o.object, o.ids[1]), correlation});
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
    return put(CudaKind::kContext, 0, c.context, false,
               {pair(c.device, c.null_stream), pair(is_green ? c.parent : 0, is_green ? 1 : 0)});
  }

  bool stream(const cupti::StreamRecord& s) noexcept {
    return put(CudaKind::kStream, 0, s.stream, false,
               {pair(s.context, static_cast<std::uint32_t>(s.priority)), pair(s.flag, 0)});
  }

  const RecordReading& reading_;
  ThreadLog& log_;
  std::bitset<NamesWritten::kRemembered>& written_;
  std::uint32_t largest_ = 0;
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

bool write_device(CudaDevice& device) noexcept {
  LogLease log = definition_log();
  if (!log) return false;
  tell_number(*log, device);
  const std::uint32_t name = names().number(device.name);
  if (!log->define(raw_kind(CudaKind::kName), name, 0, device.name)) return false;
  std::uint64_t* room = log->reserve(12);
  if (room == nullptr) return false;
  room[1] = pair(name, device.multiprocessors);
  std::memcpy(room + 2, device.uuid, sizeof device.uuid);
  room[4] = device.memory_bytes;
  room[5] = device.memory_bytes_per_s;
  room[6] = device.clock_hz;
  room[7] = pair(device.l2_bytes, device.warp_size);
  room[8] = pair(device.compute_major, device.compute_minor);
  room[9] = device.pci;
  room[10] = pair(device.max_threads_per_multiprocessor, device.max_shared_per_multiprocessor);
  const std::uint32_t number = static_cast<std::uint32_t>(device.number + 1) << 8;
  room[11] = pair(device.max_registers_per_multiprocessor, number | (device.is_mig ? 1 : 0));
  log->commit(room, raw_kind(CudaKind::kDevice), 0, 12, device.id, false);
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

void write_new_devices() noexcept {
  const Lock lock(g_writing);
  for (CudaDevice& device : g_devices) {
    if (!device.is_known || device.is_written) continue;
    device.pci = pci_location(device.id);
    device.number = machine_number(device.pci, device.id);
    device.is_written = write_device(device);
  }
}

void forget_written() noexcept {
  const Lock lock(g_writing);
  g_untold_lost = 0;
  g_devices = {};
}

}  // namespace warpline::agent
