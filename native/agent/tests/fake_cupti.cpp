// A stand-in for CUPTI, for tests without a GPU: it exports what the agent uses and makes records.
//
// Nothing here is shared with the agent: records are laid out by byte offsets of their own, taken
// from the versions of CUPTI named beside them. The environment sets it up:
// FAKE_CUPTI_VERSION (as cuptiGetVersion tells it), FAKE_CUPTI_BUSY (the name of another
// subscriber), FAKE_CUPTI_SUBSCRIBE (an error), FAKE_CUPTI_FAIL_KIND (a kind that cannot be
// enabled), FAKE_CUPTI_LOG (a file that is told of every subscription, every kind turned on
// or off, and every flush), FAKE_CUPTI_RESTARTS (after cuptiFinalize correlation ids count from 1), FAKE_CUPTI_TAKEN
// (after the first one another has subscribed, and leaves when it was in the way so often),
// FAKE_CUPTI_SHARES (the other one allows others, see fake_shared.h), FAKE_CUPTI_DRIFT (how many
// millionths its clock is too fast), FAKE_CUPTI_MANAGED (an error for whoever wants unified memory),
// FAKE_CUPTI_UNREADY (how often CUDA is not initialized then), FAKE_CUPTI_FLUSH_MS (for how long a flush
// has the lock that every record needs).
#include "fake_cupti.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <mutex>
#include <string>

#include "fake_counters.h"
#include "fake_pc_sampling.h"
#include "fake_shared.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

using Callback = void (*)(void*, std::uint32_t, std::uint32_t, const void*);
using Request = void (*)(std::uint8_t**, std::size_t*, std::size_t*);
using Done = void (*)(void*, std::uint32_t, std::uint8_t*, std::size_t, std::size_t);
using Timestamp = std::uint64_t (*)();

constexpr int kInvalidParameter = 1;
constexpr int kMaxLimitReached = 12;
constexpr int kNotCompatible = 14;
constexpr int kNotReady = 13;
constexpr int kInvalidKind = 21;
constexpr int kNotSupported = 27;
constexpr int kNoManagedMemory = 29;
constexpr int kMultipleSubscribers = 39;
constexpr std::uint32_t kNullStream = 7;
constexpr std::size_t kIds = 1024;
constexpr std::size_t kMaxRecordBytes = 512;

struct Name {
  std::uint32_t domain;
  std::uint32_t id;
  const char* name;
};
constexpr Name kNames[] = {
    {1, 1, "cuInit"},
    {1, 5, "cuLaunchKernel"},
    {1, 6, "cuMemcpyHtoDAsync_v2"},
    {1, 7, "cuProfilerStart"},
    {1, 8, "cuProfilerStop"},
    {1, 9, "cuLaunchKernelEx"},
    {1, 10, "cuCtxGetCurrent"},
    {1, 11, "cuCtxSynchronize"},
    {1, 12, "cuCtxSynchronize_v2"},
    {1, 13, "cuStreamSynchronize"},
    {1, 14, "cuStreamSynchronize_ptsz"},
    {1, 15, "cuStreamWaitEvent"},
    {1, 16, "cuEventRecord"},
    {1, 17, "cuEventRecordWithFlags_ptsz"},
    {1, 18, "cuEventSynchronize"},
    {1, 19, "cuEventDestroy_v2"},
    {1, 20, "cuStreamDestroy_v2"},
    {1, 21, "cuMemsetD8_v2"},
    {1, 22, "cuMemcpyHtoDAsync_v2_ptsz"},
    {1, 23, "cuLaunchCooperativeKernel"},
    {1, 24, "cuGraphLaunch"},
    {1, 25, "cuStreamBeginCapture_v2"},
    {1, 26, "cuStreamEndCapture"},
    {1, 27, "cuCtxDestroy_v2"},
    {1, 28, "cuDevicePrimaryCtxReset_v2"},
    {1, 29, "cuLaunchKernel_ptsz"},
    {1, 30, "cuGreenCtxCreate"},
    {2, 3, "cudaGetDevice_v3020"},
    {2, 13, "cudaLaunchKernel_v7000"},
    {2, 20, "cudaMemcpyAsync_v3020"},
    {2, 22, "cudaStreamSynchronize_v3020"},
    {2, 23, "cudaGraphLaunch_v10000"},
    {2, 24, "cudaMalloc_v3020"},
    {2, 25, "cudaStreamBeginCapture_v10000"},
    {2, 26, "cudaProfilerStart_v4000"},
    {2, 27, "cudaProfilerStop_v4000"},
    {2, 28, "cudaLaunchHostFunc_v10000"},
    {2, 29, "cudaEventQuery_v3020"},
    {2, 30, "cudaEventRecord_v3020"},
    {2, 31, "cudaEventRecordWithFlags_v11010"},
    {2, 32, "cudaEventSynchronize_v3020"},
    {2, 33, "cudaEventDestroy_v3020"},
    {2, 34, "cudaStreamWaitEvent_v3020"},
    {2, 35, "cudaStreamWaitEvent_ptsz_v7000"},
    {2, 36, "cudaStreamSynchronize_ptsz_v7000"},
    {2, 37, "cudaDeviceSynchronize_v3020"},
    {2, 38, "cudaStreamDestroy_v5050"},
    {2, 39, "cudaEventRecord_ptsz_v7000"},
    {2, 40, "cudaMemcpy_v3020"},
    {2, 41, "cudaMemset_v3020"},
    {2, 42, "cudaMemcpyPeerAsync_v4000"},
    {2, 43, "cudaMemcpy2D_v3020"},
    {2, 44, "cudaStreamEndCapture_v10000"},
    {2, 46, "cudaLaunchCooperativeKernel_v9000"},
    {2, 600, "__cudaLaunchKernel_v13000"},
};

std::uint32_t version() {
  static const std::uint32_t told = [] {
    const char* text = std::getenv("FAKE_CUPTI_VERSION");
    return static_cast<std::uint32_t>(text == nullptr ? FAKE_VERSION : std::atoi(text));
  }();
  return told;
}

std::uint64_t host_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(now.tv_nsec);
}
// Its own clock is an hour off, so that a test sees which one was taken.
std::uint64_t own_ns() {
  static const char* const drift = std::getenv("FAKE_CUPTI_DRIFT");
  const std::uint64_t now = host_ns();
  const std::uint64_t fast = drift == nullptr ? 0 : now / 1'000'000 * std::strtoull(drift, nullptr, 10);
  return now + fast + 3'600'000'000'000;
}

struct Buffer {
  std::uint8_t* data = nullptr;
  std::size_t bytes = 0;
  std::size_t used = 0;
  bool is_held = false;
  std::uint64_t begun_ns = 0;
};

std::mutex g_lock;
std::deque<Buffer>& g_buffers = *new std::deque<Buffer>;  // the last one is written; threads launch while the program exits
std::size_t g_dropped = 0;
bool g_holds = false;
bool g_wants_zeros = false;  // it clears no buffers: they must be clear
Request g_request = nullptr;
Done g_done = nullptr;
std::atomic<Timestamp> g_timestamp{nullptr};
std::atomic<Callback> g_callback{nullptr};
std::atomic<bool> g_is_subscribed{false};
std::atomic<std::uint32_t> g_streams_ended{0};  // what has a handle then is another stream
std::atomic<bool> g_kinds[64];
std::atomic<bool> g_managed[9];  // what there is of unified memory that was asked for
std::atomic<bool> g_calls[4][kIds];
std::atomic<std::uint32_t> g_last_correlation{0};
std::atomic<std::uint32_t> g_counted_from{0};  // what a correlation id is made less
std::atomic<bool> g_is_finalised{false};
std::atomic<bool> g_was_finalised{false};
std::atomic<int> g_taken{0};  // so many times more another subscriber is in the way
std::atomic<std::uint64_t> g_callbacks{0};  // of calls, made since they were asked for

std::uint64_t cupti_now() {
  const Timestamp timestamp = g_timestamp.load();
  return timestamp == nullptr ? own_ns() : timestamp();
}

void tell(const char* what, std::uint32_t kind) {
  static const char* const path = std::getenv("FAKE_CUPTI_LOG");
  if (path == nullptr) return;
  FILE* file = std::fopen(path, "a");
  std::fprintf(file, "%s %u\n", what, kind);
  std::fclose(file);
}

// Sizes of the records by version; a kind's later forms begin with its earlier ones.
std::size_t size_of(std::uint32_t kind) {
  const std::uint32_t v = version();
  switch (kind) {
    case 1: return v >= 130400 ? 112 : v >= 26 ? 96 : 88;
    case 2: return v >= 130400 ? 104 : 88;
    case 8: return v >= 130200 ? 192 : v >= 20 ? 184 : 176;
    case 9: return v >= 130100 ? 40 : v >= 23 ? 32 : v >= 22 ? 24 : 16;
    case 10:
      return v >= 130400 ? 248 : v >= 130300 ? 232 : v >= 130100 ? 224 : v >= 130000 ? 216 : 208;
    case 17: return v >= 22 ? 56 : v >= 21 ? 48 : 40;
    case 22: return 96;
    case 25: return v >= 28 ? 104 : 64;
    case 36: return v >= 130500 ? 80 : v >= 26 ? 56 : 24;
    case 37: return 24;
    case 38: return v >= 26 ? 56 : 40;
    case 49: return v >= 24 ? 128 : 120;
    case 50: return v >= 130000 ? 80 : 72;
    case 51: return v >= 21 ? 56 : 48;
    default: return 16;
  }
}

// A record under construction: what lies beyond the version's size is cut off.
struct Bytes {
  std::uint32_t kind;
  std::uint8_t data[kMaxRecordBytes];

  explicit Bytes(std::uint32_t of_kind) : kind(of_kind) {
    std::memset(data, 0, sizeof data);
    put(0, of_kind);
  }
  template <class Value>
  Bytes& put(std::size_t offset, Value value) {
    std::memcpy(data + offset, &value, sizeof value);
    return *this;
  }
};

bool is_zero(const Buffer& buffer) {
  return std::all_of(buffer.data, buffer.data + buffer.bytes,
                     [](std::uint8_t byte) { return byte == 0; });
}

// With g_lock held. Returns a buffer that was filled meanwhile and is to be returned.
Buffer append(const Bytes& record) {
  Buffer full;
  const std::size_t bytes = size_of(record.kind);
  if (!g_buffers.empty() && g_buffers.back().used + bytes > g_buffers.back().bytes) {
    if (!g_holds) {
      full = g_buffers.back();
      g_buffers.pop_back();
    }
  }
  const bool needs_one =
      g_buffers.empty() || g_buffers.back().used + bytes > g_buffers.back().bytes;
  if (needs_one) {
    Buffer fresh;
    std::size_t max_records = 0;
    if (g_request != nullptr) g_request(&fresh.data, &fresh.bytes, &max_records);
    if (fresh.data == nullptr || fresh.bytes < bytes) {
      ++g_dropped;
      return full;
    }
    fresh.is_held = g_holds;
    fresh.begun_ns = host_ns();
    if (g_wants_zeros && !is_zero(fresh)) std::abort();
    g_buffers.push_back(fresh);
  }
  Buffer& buffer = g_buffers.back();
  std::memcpy(buffer.data + buffer.used, record.data, bytes);
  buffer.used += bytes;
  return full;
}

void hand_over(const Buffer& buffer) {
  if (buffer.data != nullptr) g_done(nullptr, 0, buffer.data, buffer.bytes, buffer.used);
}

void add(const Bytes& record) {
  if (record.kind >= 64 || !g_kinds[record.kind]) return;
  Buffer full;
  {
    const std::lock_guard lock(g_lock);
    full = append(record);
  }
  hand_over(full);
}

Bytes kernel(std::uint32_t correlation, const char* name, std::uint64_t start, std::uint64_t end) {
  Bytes k(10);
  k.put<std::uint16_t>(6, 40).put(16, start).put(24, end);
  k.put<std::uint32_t>(40, 1).put<std::uint32_t>(44, 2).put<std::uint32_t>(48, 7);
  k.put<std::int32_t>(52, 70000).put<std::int32_t>(56, 300).put<std::int32_t>(60, 2);
  k.put<std::int32_t>(64, 256).put<std::int32_t>(68, 2).put<std::int32_t>(72, 1);
  k.put<std::int32_t>(76, 1024).put<std::int32_t>(80, 2048).put<std::uint32_t>(84, 16);
  k.put<std::uint32_t>(88, 0xffffffff).put(92, correlation).put(104, name);
  k.put<std::uint32_t>(140, 4096).put<std::uint64_t>(192, 5'000'000'000);
  return k;
}

void describe_devices() {
  Bytes d(8);
  d.put<std::uint64_t>(8, 4'800'000'000).put<std::uint64_t>(16, 150'000'000'000);
  d.put<std::uint32_t>(28, 52'428'800).put<std::uint32_t>(32, 32).put<std::uint32_t>(36, 1'980'000);
  d.put<std::uint32_t>(44, 132).put<std::uint32_t>(52, 64).put<std::uint32_t>(60, 233'472);
  d.put<std::uint32_t>(64, 65'536).put<std::uint32_t>(104, 9).put<std::uint32_t>(108, 0);
  d.put<std::uint32_t>(112, 1);
  for (std::uint8_t i = 0; i < 16; ++i) {
    d.put<std::uint8_t>(120 + std::size_t{i}, static_cast<std::uint8_t>(i * 17));
  }
  d.put<const char*>(136, "Fake GPU").put<std::uint8_t>(144, 1);
  add(d);
}

void describe_contexts() {
  Bytes c(9);
  c.put<std::uint32_t>(4, 2).put<std::uint32_t>(8, 1).put<std::uint16_t>(14, 7);
  add(c);
  if (version() >= 22) {
    Bytes green(9);
    green.put<std::uint32_t>(4, 3).put<std::uint32_t>(8, 1).put<std::uint16_t>(14, 17);
    green.put<std::uint32_t>(16, 2).put<std::uint8_t>(20, 1);
    add(green);
  }
}

void describe_streams() {
  Bytes s(37);
  s.put<std::uint32_t>(4, 2).put<std::uint32_t>(8, 13).put<std::int32_t>(12, -5);
  s.put<std::uint32_t>(16, 2);
  add(s);
}

void every_kernel() {
  add(kernel(101, "_Z5plainv", 1000, 2000));
  Bytes in_graph = kernel(102, "_Z5graphv", 3000, 4000);
  in_graph.put<std::uint64_t>(144, 0x500000001).put<std::uint32_t>(156, 9);
  in_graph.put<std::uint32_t>(176, 2).put<std::uint32_t>(180, 1).put<std::uint32_t>(184, 1);
  in_graph.put<std::uint32_t>(188, 1).put<std::uint8_t>(136, 1).put<std::uint8_t>(208, 1);
  add(in_graph);
  add(kernel(103, nullptr, 0, 0));
  static const auto* long_name = new std::string(3000, 'n');  // CUPTI keeps names to the end
  add(kernel(104, long_name->c_str(), 5000, 6000));
}

void every_copy() {
  const auto copy = [](std::uint32_t correlation) {
    Bytes c(1);
    c.put<std::uint8_t>(4, 1).put<std::uint8_t>(5, 2).put<std::uint8_t>(6, 3);
    c.put<std::uint8_t>(7, 1);
    c.put<std::uint64_t>(8, 1'048'576).put<std::uint64_t>(16, 7000).put<std::uint64_t>(24, 8000);
    c.put<std::uint32_t>(32, 1).put<std::uint32_t>(36, 2).put<std::uint32_t>(40, 13);
    return c.put(44, correlation);
  };
  add(copy(111));
  add(copy(112).put<std::uint64_t>(64, 77).put<std::uint32_t>(72, 9).put<std::uint64_t>(88, 4));
  Bytes peer(22);
  peer.put<std::uint8_t>(4, 10).put<std::uint8_t>(5, 3).put<std::uint8_t>(6, 3);
  peer.put<std::uint64_t>(8, 4096).put<std::uint64_t>(16, 8000).put<std::uint64_t>(24, 8100);
  peer.put<std::uint32_t>(32, 1).put<std::uint32_t>(36, 2).put<std::uint32_t>(40, 13);
  peer.put<std::uint32_t>(44, 0).put<std::uint32_t>(48, 1).put<std::uint32_t>(52, 1);
  peer.put<std::uint32_t>(56, 2).put<std::uint32_t>(60, 113);
  add(peer);
}

void every_fill_and_graph() {
  Bytes f(2);
  f.put<std::uint32_t>(4, 0xab).put<std::uint64_t>(8, 512).put<std::uint64_t>(16, 9000);
  f.put<std::uint64_t>(24, 9500).put<std::uint32_t>(32, 1).put<std::uint32_t>(36, 2);
  f.put<std::uint32_t>(40, 13).put<std::uint32_t>(44, 121).put<std::uint16_t>(48, 1);
  f.put<std::uint16_t>(50, 3);
  add(f);
  Bytes g(51);
  g.put<std::uint32_t>(4, 131).put<std::uint64_t>(8, 10'000).put<std::uint64_t>(16, 20'000);
  g.put<std::uint32_t>(24, 1).put<std::uint32_t>(28, 6).put<std::uint32_t>(32, 2);
  g.put<std::uint32_t>(36, 13).put<std::uint32_t>(48, 1).put<std::uint32_t>(52, 2);
  add(g);
  add(g.put<std::uint32_t>(4, 132).put<std::uint32_t>(48, 0).put<std::uint32_t>(52, 1));
}

void every_wait_and_event() {
  Bytes w(38);
  w.put<std::uint32_t>(4, 3).put<std::uint64_t>(8, 11'000).put<std::uint64_t>(16, 12'000);
  w.put<std::uint32_t>(24, 141).put<std::uint32_t>(28, 2).put<std::uint32_t>(32, 13);
  w.put<std::uint32_t>(36, 0xffffffff).put<std::uint64_t>(40, 0).put<std::uint32_t>(48, 0);
  add(w);
  w.put<std::uint32_t>(4, 2).put<std::uint32_t>(24, 142).put<std::uint32_t>(36, 55);
  add(w.put<std::uint64_t>(40, 99).put<std::uint32_t>(48, 600));
  Bytes e(36);
  e.put<std::uint32_t>(4, 151).put<std::uint32_t>(8, 2).put<std::uint32_t>(12, 13);
  e.put<std::uint32_t>(16, 55).put<std::uint32_t>(24, 1).put<std::uint64_t>(48, 99);
  add(e);
  add(e.put<std::uint32_t>(4, 152).put<std::uint64_t>(40, 13'000));
}

void every_memory_event() {
  Bytes m(49);
  m.put<std::uint32_t>(4, 1).put<std::uint32_t>(8, 3).put<std::uint32_t>(12, 161);
  m.put<std::uint64_t>(16, 0x7f00'0000'0000).put<std::uint64_t>(24, 2'097'152);
  m.put<std::uint64_t>(32, 14'000).put<std::uint32_t>(52, 1).put<std::uint32_t>(56, 2);
  m.put<std::uint32_t>(60, 0xffffffff);
  add(m);
  m.put<std::uint32_t>(4, 2).put<std::uint32_t>(12, 162).put<const char*>(64, "d_table");
  m.put<std::uint32_t>(72, 1).put<std::uint32_t>(60, 13).put<std::uint32_t>(80, 1);
  m.put<std::uint64_t>(88, 0x1000).put<std::uint64_t>(96, 10).put<std::uint64_t>(104, 20);
  add(m.put<std::uint64_t>(112, 30));
  Bytes p(50);
  p.put<std::uint32_t>(4, 3).put<std::uint32_t>(8, 1).put<std::uint32_t>(12, 171);
  p.put<std::uint32_t>(20, 1).put<std::uint64_t>(24, 1).put<std::uint64_t>(32, 0x1000);
  p.put<std::uint64_t>(40, 20).put<std::uint64_t>(48, 10).put<std::uint64_t>(56, 15'000);
  add(p.put<std::uint64_t>(64, 30));
}

void managed(std::uint32_t counter, std::uint64_t value, std::uint64_t start, std::uint64_t end,
             std::uint32_t from, std::uint32_t to, std::uint32_t flags) {
  Bytes m(25);
  m.put<std::uint32_t>(4, counter).put<std::uint64_t>(8, value).put<std::uint64_t>(16, start);
  m.put<std::uint64_t>(24, end).put<std::uint64_t>(32, 0x7f10'0000'0000 + counter * 0x1000);
  m.put<std::uint32_t>(40, from).put<std::uint32_t>(44, to).put<std::uint32_t>(48, 0xffffffff);
  m.put<std::uint32_t>(52, 4000).put<std::uint32_t>(56, flags);
  if (counter >= std::size(g_managed) || g_managed[counter]) add(m);
}

void every_overhead() {
  Bytes o(17);
  o.put<std::uint32_t>(4, 5u << 16).put<std::uint32_t>(8, 2).put<std::uint32_t>(12, 4000);
  o.put<std::uint32_t>(16, 4001).put<std::uint64_t>(24, 16'000).put<std::uint64_t>(32, 17'000);
  add(o.put<std::uint32_t>(40, 181));
  add(Bytes(60));  // never on: not even made
}

}  // namespace

EXPORT int cuptiGetVersion(std::uint32_t* into) {
  *into = version();
  return 0;
}

EXPORT int cuptiGetResultString(int result, const char** text) {
  *text = result == kMultipleSubscribers ? "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED"
          : result == kInvalidKind       ? "CUPTI_ERROR_INVALID_KIND"
          : result == kNotSupported      ? "CUPTI_ERROR_NOT_SUPPORTED"
          : result == kNoManagedMemory   ? "CUPTI_ERROR_UM_PROFILING_NOT_SUPPORTED_ON_DEVICE"
                                         : "CUPTI_ERROR_OTHER";
  return 0;
}

EXPORT int cuptiGetCallbackName(std::uint32_t domain, std::uint32_t id, const char** into) {
  for (const Name& name : kNames) {
    if (name.domain == domain && name.id == id) {
      *into = name.name;
      return 0;
    }
  }
  return kInvalidParameter;
}

namespace {
std::atomic<bool> g_is_torn_down{false};

// As the driver's own handler of exit(): what CUPTI reads is freed in it, while other threads go on.
void tear_down() {
  g_is_torn_down = true;
  tell("exit", 0);
  const long ms = std::atol(std::getenv("FAKE_CUPTI_EXIT_MS"));
  const timespec a_while{ms / 1000, ms % 1000 * 1'000'000};
  nanosleep(&a_while, nullptr);
}

int subscribe(void** subscriber, Callback callback, bool joins) {
  static const int registered = std::getenv("FAKE_CUPTI_EXIT_MS") == nullptr ? 0 : std::atexit(tear_down);
  static_cast<void>(registered);
  if (const char* error = std::getenv("FAKE_CUPTI_SUBSCRIBE")) return std::atoi(error);
  if (g_taken > 0) {
    --g_taken;
    return kMultipleSubscribers;
  }
  if ((!joins && std::getenv("FAKE_CUPTI_BUSY") != nullptr) || g_is_subscribed.exchange(true)) {
    return kMultipleSubscribers;
  }
  tell("subscribe", joins);
  g_callback = callback;
  g_is_finalised = false;
  *subscriber = &g_callback;
  if (joins) fake_shared::join(*subscriber);
  return 0;
}
}  // namespace

EXPORT int cuptiSubscribe(void** subscriber, Callback callback, void*) {
  return subscribe(subscriber, callback, false);
}

// Any call after cuptiFinalize brings CUPTI back, and with it what it costs: only subscribing may.
void must_be_there() {
  if (g_is_finalised || g_is_torn_down) std::abort();
}

// What CUPTI leaves is nothing: buffers that were not flushed are gone.
EXPORT int cuptiFinalize() {
  fake_shared::on_finalize();
  if (std::any_of(std::begin(g_kinds), std::end(g_kinds), [](const auto& kind) { return !!kind; })) {
    std::abort();  // kinds were left on
  }
  must_be_there();
  tell("finalize", 0);
  g_callback = nullptr;
  g_is_subscribed = false;
  g_timestamp = nullptr;
  for (auto& domain : g_calls) {
    for (auto& id : domain) id = false;
  }
  const std::lock_guard lock(g_lock);
  g_buffers.clear();
  g_request = nullptr;
  g_done = nullptr;
  if (std::getenv("FAKE_CUPTI_RESTARTS") != nullptr) g_counted_from = g_last_correlation.load();
  static const char* const taken = std::getenv("FAKE_CUPTI_TAKEN");
  if (taken != nullptr && !g_was_finalised) g_taken = std::atoi(taken);
  g_was_finalised = true;
  g_is_finalised = true;
  return 0;
}

EXPORT int cuptiUnsubscribe(void* subscriber) {
  must_be_there();
  if (subscriber != &g_callback) return kInvalidParameter;
  g_callback = nullptr;
  g_is_subscribed = false;
  fake_shared::leave();
  for (auto& domain : g_calls) {
    for (auto& id : domain) id = false;
  }
  return 0;
}

EXPORT int cuptiEnableCallback(std::uint32_t enable, void* subscriber, std::uint32_t domain,
                               std::uint32_t id) {
  must_be_there();
  if (subscriber != &g_callback || domain > 3 || id >= kIds) return kInvalidParameter;
  g_calls[domain][id] = enable != 0;
  return 0;
}

EXPORT int cuptiActivityRegisterCallbacks(Request request, Done done) {
  if (fake_shared::is_refused(__func__)) return kMultipleSubscribers;
  must_be_there();
  const std::lock_guard lock(g_lock);
  g_request = request;
  g_done = done;
  return 0;
}

EXPORT int cuptiActivityEnable(std::uint32_t kind) {
  if (fake_shared::is_refused(__func__)) return kMultipleSubscribers;
  must_be_there();
  const char* failing = std::getenv("FAKE_CUPTI_FAIL_KIND");
  if (kind >= 64 || (failing != nullptr && std::strtoul(failing, nullptr, 10) == kind)) {
    return kInvalidKind;
  }
  // What else there is of kernels, copies, fills and graphs must be on before.
  const bool is_work = kind == 1 || kind == 2 || kind == 10 || kind == 51;
  if (is_work && fake_counters::is_enabled()) return kNotCompatible;
  g_kinds[kind] = true;
  tell("on", kind);
  return 0;
}

EXPORT int cuptiActivityDisable(std::uint32_t kind) {
  if (fake_shared::is_refused(__func__)) return kMultipleSubscribers;
  must_be_there();
  if (kind >= 64) return kInvalidKind;
  g_kinds[kind] = false;
  tell("off", kind);
  return 0;
}

// Whether what a buffer tells of is still under way on the device, where FAKE_WORK_MS says how long work takes.
bool is_under_way(const Buffer& buffer) {
  static const char* const text = std::getenv("FAKE_WORK_MS");
  return text != nullptr && host_ns() < buffer.begun_ns + std::strtoull(text, nullptr, 10) * 1'000'000;
}

EXPORT int cuptiActivityFlushAll(std::uint32_t flags) {
  static const char* const takes = std::getenv("FAKE_CUPTI_FLUSH_MS");
  must_be_there();
  tell("flush", flags);
  fake_shared::on_flush(flags);
  std::deque<Buffer> returned;
  {
    const std::lock_guard lock(g_lock);
    if (takes != nullptr) usleep(static_cast<unsigned>(std::atoi(takes)) * 1000);
    std::deque<Buffer> kept;
    for (Buffer& buffer : g_buffers) {
      if (flags != 0 && is_under_way(buffer)) buffer.used = 0;  // records without an end
      const bool is_kept = flags == 0 && (buffer.is_held || is_under_way(buffer));
      (is_kept ? kept : returned).push_back(buffer);
    }
    g_buffers = kept;
  }
  // The newest first: order means nothing.
  for (auto buffer = returned.rbegin(); buffer != returned.rend(); ++buffer) hand_over(*buffer);
  return 0;
}

EXPORT int cuptiActivityGetNextRecord(std::uint8_t* buffer, std::size_t valid, std::uint8_t** at) {
  if (fake_shared::is_refused(__func__)) return kMultipleSubscribers;
  std::uint8_t* next = buffer;
  if (*at != nullptr) {
    std::uint32_t kind;
    std::memcpy(&kind, *at, sizeof kind);
    next = *at + size_of(kind);
  }
  if (next >= buffer + valid) return kMaxLimitReached;
  *at = next;
  return 0;
}

EXPORT int cuptiActivityGetNumDroppedRecords(void*, std::uint32_t, std::size_t* dropped) {
  if (fake_shared::is_refused(__func__)) return kMultipleSubscribers;
  const std::lock_guard lock(g_lock);
  *dropped = g_dropped;
  g_dropped = 0;
  return 0;
}

EXPORT int cuptiGetTimestamp(std::uint64_t* into) {
  if (fake_shared::is_refused(__func__)) return kMultipleSubscribers;
  must_be_there();
  *into = cupti_now();
  return 0;
}

#ifndef FAKE_BARE
EXPORT int cuptiActivityRegisterTimestampCallback(Timestamp timestamp) {
  if (fake_shared::is_refused(__func__)) return kMultipleSubscribers;
  must_be_there();
  g_timestamp = timestamp;
  return 0;
}

EXPORT int cuptiActivityEnableAndDump(std::uint32_t kind) {
  if (fake_shared::is_refused(__func__)) return kMultipleSubscribers;
  const int result = cuptiActivityEnable(kind);
  if (result != 0) return result;
  if (kind == 8) describe_devices();
  if (kind == 9) describe_contexts();
  if (kind == 37) describe_streams();
  return 0;
}

EXPORT int cuptiActivitySetAttribute(std::uint32_t attribute, std::size_t* bytes, void* value) {
  if (fake_shared::is_refused(__func__)) return kMultipleSubscribers;
  if (attribute != 5 || *bytes != 1) return kInvalidParameter;
  g_wants_zeros = *static_cast<std::uint8_t*>(value) != 0;
  return 0;
}

// Scope, kind, device, whether it is on.
struct ManagedChoice {
  std::uint32_t scope;
  std::uint32_t counter;
  std::uint32_t device;
  std::uint32_t is_on;
};

EXPORT int cuptiActivityConfigureUnifiedMemoryCounter(const ManagedChoice* choices,
                                                      std::uint32_t count) {
  if (fake_shared::is_refused(__func__)) return kMultipleSubscribers;
  must_be_there();
  static std::atomic<int> unready = [] {
    const char* const times = std::getenv("FAKE_CUPTI_UNREADY");
    return times == nullptr ? 0 : std::atoi(times);
  }();
  if (unready > 0) {
    --unready;
    return kNotReady;  // as CUPTI 13.0 within cuInit
  }
  if (const char* error = std::getenv("FAKE_CUPTI_MANAGED")) {
    tell("refused", 25);
    return std::atoi(error);
  }
  std::uint32_t bits = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    const ManagedChoice& choice = choices[i];
    if (choice.counter >= std::size(g_managed) || choice.scope != 1) return kInvalidParameter;
    g_managed[choice.counter] = choice.is_on != 0;
    if (choice.is_on != 0) bits |= 1u << choice.counter;
  }
  tell("managed", bits);
  return 0;
}

EXPORT int cuptiActivityEnableAllSyncRecords(std::uint8_t enable) {
  if (fake_shared::is_refused(__func__)) return kMultipleSubscribers;
  tell("all_sync_records", enable);
  return 0;
}

EXPORT int cuptiSetThreadIdType(std::uint32_t type) {
  if (fake_shared::is_refused(__func__)) return kMultipleSubscribers;
  return type == 1 ? 0 : kInvalidParameter;
}

EXPORT int cuptiGetGraphNodeId(void* node, std::uint64_t* id) {
  *id = reinterpret_cast<std::uint64_t>(node);
  return 0;
}

EXPORT int cuptiGetGraphId(void* graph, std::uint32_t* id) {
  *id = static_cast<std::uint32_t>(reinterpret_cast<std::uint64_t>(graph));
  return 0;
}

// A handle is 0x1000 times the stream's number; those below are of no stream, except 0 in a context.
// A thread's own stream has the number 21.
EXPORT int cuptiGetStreamIdEx(void* context, void* stream, std::uint8_t per_thread,
                              std::uint32_t* id) {
  const auto handle = reinterpret_cast<std::uint64_t>(stream);
  tell("stream_id", static_cast<std::uint32_t>(handle));
  if (handle == 0 && per_thread == 1 && context != nullptr) {
    *id = 21;
    return 0;
  }
  if (handle == 0 && context != nullptr) {
    *id = kNullStream;
    return 0;
  }
  if (handle < 0x1000 || per_thread != 0 || context != nullptr) return kInvalidParameter;
  *id = static_cast<std::uint32_t>(handle / 0x1000) + g_streams_ended;
  return 0;
}

EXPORT int cuptiGetContextId(void* context, std::uint32_t* id) {
  *id = static_cast<std::uint32_t>(reinterpret_cast<std::uint64_t>(context) / 0x1000);
  return 0;
}
#endif

#ifdef FAKE_SUBSCRIBE_V2
struct Parameters {
  std::size_t bytes;
  const char* name;
  char* other;
  std::size_t other_bytes;
  std::uint8_t allows_others;
};

EXPORT int cuptiSubscribe_v2(void** subscriber, Callback callback, void*, Parameters* parameters) {
  const std::size_t expected = version() >= 130200 ? 40 : 32;
  if (parameters->bytes != expected || std::strcmp(parameters->name, "Warpline") != 0) {
    return kInvalidParameter;
  }
  const bool allows_others = expected == 40 && parameters->allows_others == 1;
  const bool joins = allows_others && fake_shared::may_join(version());
  const int result = subscribe(subscriber, callback, joins);
  if (result == kMultipleSubscribers || joins) {
    const char* other = std::getenv("FAKE_CUPTI_BUSY");
    std::snprintf(parameters->other, parameters->other_bytes, "%s", other ? other : "Warpline");
  }
  return result;
}
#endif

EXPORT void fake_kernel(std::uint32_t correlation, const char* name, std::uint64_t start,
                        std::uint64_t ns) {
  fake_shared::on_kernel();
  if (!g_kinds[10]) return;
  const std::uint64_t begun = start == 0 ? cupti_now() : start;
  add(kernel(correlation - g_counted_from, name, begun, begun + (ns == 0 ? 1000 : ns)));
}

namespace {
constexpr std::uint64_t kSomeContext = 0x2000;

struct CallData {
  std::uint32_t site;
  const char* function;
  const void* parameters;
  void* status;
  const char* symbol;
  void* context;
  std::uint32_t context_id;
  std::uint64_t* shared;
  std::uint32_t correlation;
};

void call_back(std::uint32_t domain, std::uint32_t id, CallData data) {
  g_last_correlation = std::max<std::uint32_t>(g_last_correlation, data.correlation);
  data.correlation -= g_counted_from;
  fake_shared::on_call(domain);
  if (!g_calls[domain][id]) return;
  ++g_callbacks;
  if (const Callback callback = g_callback.load()) callback(nullptr, domain, id, &data);
}

CallData data_of(std::uint64_t context, std::uint32_t correlation, const void* parameters) {
  return {.site = 0,
          .function = "",
          .parameters = parameters,
          .status = nullptr,
          .symbol = "",
          .context = reinterpret_cast<void*>(context),
          .context_id = static_cast<std::uint32_t>(context / 0x1000),
          .shared = nullptr,
          .correlation = correlation};
}

// A callback when a call begins, and one with its status when it ends.
template <class Work>
std::int32_t call_around(std::uint32_t domain, std::uint32_t id, CallData data, Work work) {
  std::uint64_t shared = 0;
  data.shared = &shared;
  call_back(domain, id, data);
  std::int32_t status = work();
  data.site = 1;
  data.status = &status;
  call_back(domain, id, data);
  return status;
}

// The parameters of cuLaunchKernel and cuLaunchCooperativeKernel, and of cuLaunchKernelEx.
struct LaunchParameters {
  std::uint64_t function;
  std::uint32_t grid[3];
  std::uint32_t block[3];
  std::uint32_t shared_bytes;
  std::uint64_t stream;
  void** arguments;
  void** extra;
};
struct LaunchConfig {
  std::uint32_t grid[3];
  std::uint32_t block[3];
  std::uint32_t shared_bytes;
  std::uint64_t stream;
  void* attributes;
  std::uint32_t count;
};
struct LaunchExParameters {
  const LaunchConfig* config;
  std::uint64_t function;
  void** arguments;
  void** extra;
};
constexpr std::uint32_t kLaunchKernelEx = 9;

}  // namespace

void fake_pc_sampling::call_back_resource(std::uint32_t id, std::uint64_t context, void* descriptor) {
  struct {
    void* context;
    void* handle;
    void* descriptor;
  } data = {reinterpret_cast<void*>(context), nullptr, descriptor};
  if (!g_calls[3][id]) return;
  if (const Callback callback = g_callback.load()) callback(nullptr, 3, id, &data);
}

void fake_counters::log_call(const char* what, std::uint32_t of) { tell(what, of); }

EXPORT std::int32_t fake_launch_kernel(const FakeLaunchCall* call, const FakeLaunch* launch) {
  LaunchConfig config{{}, {}, launch->shared_bytes, launch->stream, nullptr, 0};
  LaunchParameters plain{launch->function, {}, {}, launch->shared_bytes, launch->stream, nullptr,
                         nullptr};
  for (int i = 0; i < 3; ++i) {
    config.grid[i] = plain.grid[i] = launch->grid[i];
    config.block[i] = plain.block[i] = launch->block[i];
  }
  const LaunchExParameters extended{&config, launch->function, nullptr, nullptr};
  const bool is_extended = call->driver_id == kLaunchKernelEx;
  const void* const parameters = is_extended ? static_cast<const void*>(&extended) : &plain;
  CallData of_driver = data_of(launch->context, call->correlation, parameters);
  of_driver.symbol = launch->symbol;
  const auto of_runtime = data_of(launch->context, call->correlation, call->runtime_parameters);
  fake_pc_sampling::load_for(*launch);
  const auto drive = [&] {
    return call_around(1, call->driver_id, of_driver, [&] {
      const std::int32_t status = fake_counters::run(*launch);
      if (status == 0) fake_kernel(call->correlation, launch->symbol, 0, 0);
      return status;
    });
  };
  return call->runtime_id == 0 ? drive() : call_around(2, call->runtime_id, of_runtime, drive);
}

EXPORT std::int32_t fake_driver_act(FakeAct act, std::uint32_t driver_id,
                                    std::uint32_t correlation, std::uint64_t context,
                                    std::uint64_t stream) {
  struct {
    std::uint64_t first;
    std::uint64_t second;
  } parameters = {stream, 2};
  if (act == FakeAct::kLaunchGraph) parameters = {0x9000, stream};
  if (act == FakeAct::kEndContext) parameters.first = context;
  return call_around(1, driver_id, data_of(context, correlation, &parameters), [&] {
    switch (act) {
      case FakeAct::kBeginCapture: return fake_counters::begin_capture(context, stream);
      case FakeAct::kEndCapture: return fake_counters::end_capture(context, stream);
      case FakeAct::kLaunchGraph: return fake_counters::launch_graph(context);
      case FakeAct::kEndContext:
        fake_pc_sampling::call_back_resource(2, context, nullptr);
        fake_counters::end_context(context);
        fake_pc_sampling::end_context(context);
        break;
      case FakeAct::kEndStream: fake_counters::end_stream(stream); break;
    }
    return 0;
  });
}

EXPORT std::int32_t fake_is_capturing(std::uint64_t stream) {
  return fake_counters::is_capturing(stream) ? 1 : 0;
}

EXPORT void fake_call_with(std::uint32_t domain, std::uint32_t id, std::uint32_t site,
                           std::uint32_t correlation, std::int32_t status,
                           const void* parameters) {
  CallData data = data_of(kSomeContext, correlation, parameters);
  data.site = site;
  if (site == 1) data.status = &status;
  call_back(domain, id, data);
}

EXPORT void fake_call(std::uint32_t domain, std::uint32_t id, std::uint32_t site,
                      std::uint32_t correlation, std::int32_t status) {
  fake_call_with(domain, id, site, correlation, status, nullptr);
}

EXPORT std::uint64_t fake_callbacks() { return g_callbacks.exchange(0); }
EXPORT void fake_streams_end() { ++g_streams_ended; }

namespace {
// A CPU's fault is by an instruction of this library.
void every_managed_event() {
  managed(4, 3, 18'000, 18'900, 1, 0, 2);
  managed(1, 65'536, 18'100, 18'300, 0xffffffff, 1, 3);
  managed(1, 4096, 18'300, 18'400, 0xffffffff, 1, 2);
  const auto code = reinterpret_cast<std::uint64_t>(&cuptiGetCallbackName) + 4;
  managed(3, code, 19'000, 0, 0, 0, 1);
  managed(3, 16, 19'200, 0, 0, 0, 1);
  managed(2, 2'097'152, 19'300, 19'800, 1, 0xffffffff, 1);
  managed(8, 8192, 19'900, 19'950, 0, 1, 4);
  managed(5, 4096, 19'960, 0, 3, 0, 0);  // thrashing: nobody asks for it
}
}  // namespace

EXPORT void fake_every_record() {
  describe_devices();
  describe_contexts();
  describe_streams();
  every_kernel();
  every_copy();
  every_fill_and_graph();
  every_wait_and_event();
  every_memory_event();
  every_managed_event();
  every_overhead();
}

EXPORT void fake_allocate(std::int64_t bytes) {
  if (!g_kinds[49]) return;
  describe_devices();
  describe_contexts();
  const bool frees = bytes < 0;
  Bytes m(49);
  m.put<std::uint32_t>(4, frees ? 2 : 1).put<std::uint32_t>(8, 3);
  m.put<std::uint64_t>(16, 0x7f00'0000'0000);
  m.put<std::uint64_t>(24, static_cast<std::uint64_t>(frees ? -bytes : bytes));
  m.put<std::uint64_t>(32, cupti_now()).put<std::uint32_t>(52, 1).put<std::uint32_t>(56, 2);
  add(m.put<std::uint32_t>(60, 0xffffffff));
}

EXPORT void fake_node(std::uint64_t node, std::uint64_t original, std::uint32_t type) {
  struct {
    std::uint64_t graph;
    std::uint64_t original_graph;
    std::uint64_t node;
    std::uint64_t original_node;
    std::uint32_t type;
    void* dependency;
    void* exec;
  } graph = {9, 0, node, original, type, nullptr, nullptr};
  struct {
    void* context;
    void* handle;
    void* descriptor;
  } data = {nullptr, nullptr, &graph};
  const std::uint32_t id = original == 0 ? 13 : 20;
  if (!g_calls[3][id]) return;
  if (const Callback callback = g_callback.load()) callback(nullptr, 3, id, &data);
}

EXPORT void fake_graph_exec() {
  struct {
    void* context;
    void* handle;
    void* descriptor;
  } data = {nullptr, nullptr, nullptr};
  tell("graph made", g_kinds[51]);
  if (!g_calls[3][18]) return;
  if (const Callback callback = g_callback.load()) callback(nullptr, 3, 18, &data);
}

EXPORT void fake_hold(std::int32_t holds) {
  fake_shared::hold(holds != 0);
  const std::lock_guard lock(g_lock);
  g_holds = holds != 0;
  for (Buffer& buffer : g_buffers) buffer.is_held = g_holds;
}
