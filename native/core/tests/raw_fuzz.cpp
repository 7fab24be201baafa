// Decodes damaged logs and copies every column out: under the sanitizers nothing may be found.
//
//     raw_fuzz [SESSIONS [SEED]]
#include <fcntl.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "warpline_core.h"
#include "warpline_cuda.h"
#include "warpline_payload.h"
#include "warpline_raw.h"

namespace raw = warpline::raw;
using raw::Kind;

namespace {

constexpr int64_t kOrigin = 1'000'000;
constexpr uint64_t kSchema = raw::kFirstStaticSchema;

class Chance {
 public:
  explicit Chance(uint64_t seed) : engine_(seed) {}
  uint64_t below(uint64_t limit) { return engine_() % limit; }
  uint64_t word() {
    constexpr uint64_t kOdd[] = {0, 1, 7, 0xffff, 1ULL << 31, ~0U, 1ULL << 63, ~0ULL};
    return below(2) == 0 ? kOdd[below(std::size(kOdd))] : engine_();
  }

 private:
  std::mt19937_64 engine_;
};

class Writer {
 public:
  std::vector<uint64_t> words;

  void add(Kind kind, uint32_t aux, uint8_t flags, std::vector<uint64_t> body,
           const std::string &text = "") {
    const std::size_t first = body.size();
    body.resize(first + raw::words_for(text.size()));
    if (!text.empty()) std::memcpy(body.data() + first, text.data(), text.size());
    words.push_back(raw::header_word(kind, flags, 1 + body.size(), aux));
    words.insert(words.end(), body.begin(), body.end());
  }
  void text(Kind kind, uint32_t aux, std::vector<uint64_t> first, const std::string &text) {
    first.push_back(text.size());
    add(kind, aux, 0, first, text);
  }
};

template <typename Value>
void put(std::string &bytes, Value value) {
  bytes.append(reinterpret_cast<const char *>(&value), sizeof value);
}

void put_text(std::string &bytes, const std::string &text) {
  put(bytes, static_cast<uint16_t>(text.size()));
  bytes += text;
}

// A layout of entries at random, which may contain each other and themselves.
std::string schema_text(Chance &chance) {
  constexpr uint64_t kTypes[] = {raw::kTypeInt32,      raw::kTypeDouble,  raw::kTypeString,
                                 raw::kTypeStringUtf16, raw::kTypeUint8,   raw::kTypeFloat16,
                                 raw::kTypeUnionSelector, raw::kTypeInt128, kSchema,
                                 kSchema + 1,          kSchema + 2,       kSchema + 9};
  std::string bytes;
  put(bytes, raw::kPayloadTextVersion);
  put(bytes, raw::kOldestCompatId);
  put(bytes, static_cast<uint32_t>(1 + chance.below(4)));
  put(bytes, uint64_t{0});
  put(bytes, chance.below(64));
  put(bytes, uint64_t{0});
  put_text(bytes, "schema");
  const auto count = static_cast<uint32_t>(1 + chance.below(5));
  put(bytes, count);
  for (uint32_t number = 0; number < count; ++number) {
    put(bytes, chance.below(3) == 0 ? chance.below(1 << 11) : chance.below(5) << 4);
    put(bytes, kTypes[chance.below(std::size(kTypes))]);
    put(bytes, chance.below(4) == 0 ? chance.word() : chance.below(5));
    put(bytes, chance.below(6) == 0 ? chance.word() : chance.below(2) * 8);
    put(bytes, static_cast<uint32_t>(chance.below(17)));
    put(bytes, static_cast<uint32_t>(1 << chance.below(4)));
    put_text(bytes, "entry");
    put_text(bytes, "");
  }
  return bytes;
}

std::string enum_text() {
  std::string bytes;
  put(bytes, raw::kPayloadTextVersion);
  put(bytes, raw::kOldestCompatId);
  put(bytes, uint32_t{4});
  put_text(bytes, "enum");
  put(bytes, uint32_t{2});
  for (const uint64_t value : {1, 4}) {
    put(bytes, value);
    put(bytes, uint8_t{value == 4});
    put_text(bytes, "name");
  }
  return bytes;
}

// A record of CUDA, as long as its flags say.
void add_cuda(Writer &log, Chance &chance, uint64_t now) {
  constexpr const char *kNames[] = {"_ZN1a1bILi8EZNS_1cEvEUlvE_EEvT_", "_Z1fPFviE", "plain",
                                    "_Z1fI1AEvDTcl1gfp_EE"};
  constexpr const char *kCalls[] = {"cudaLaunchKernel_v7000",      "cudaMemcpyAsync_v3020",
                                    "cudaStreamSynchronize_v3020", "cuCtxSynchronize",
                                    "cudaEventSynchronize_v3020",  "cudaStreamWaitEvent_v3020",
                                    "cudaEventRecord_v3020",       "cudaEventDestroy_v3020",
                                    "cuStreamBeginCapture_v2",     "cuStreamEndCapture"};
  // Words of each kind without flags, from kCallName on; then those that each flag adds.
  constexpr std::size_t kWords[] = {0, 0, 3, 9, 5, 6, 4, 6, 3, 5, 7, 4, 11, 2, 2, 4, 2, 2, 2, 1};
  const auto kind = static_cast<uint8_t>(64 + chance.below(std::size(kWords)));
  if (kind < 66) {
    const auto aux = static_cast<uint32_t>(chance.below(5) | (kind == 64 ? 2U << 16 : 0));
    log.text(static_cast<Kind>(kind), aux, {0},
             kind == 64 ? kCalls[chance.below(std::size(kCalls))]
                        : kNames[chance.below(std::size(kNames))]);
    return;
  }
  const auto flags = static_cast<uint8_t>(chance.below(kind == 66 ? 128 : 16));
  std::size_t count = kWords[kind - 64];
  if (kind == 66) count += (flags >> 3 & 1U) + (flags >> 4 & 1U);
  if (kind == 66) count += (flags >> 5 & 1U) + (flags >> 6 & 1U);
  if (kind == 67) count += (flags & 1) * 2U + (flags >> 1 & 1U);
  if (kind == 68) count += (flags & 1) * 2U + (flags >> 1 & 1U) * 2 + (flags >> 2 & 1U);
  if (kind == 68) count += (flags >> 3 & 1U) * 2;
  if (kind == 69) count += (flags & 1) * 2U;
  if (kind == 70) count += (flags >> 1 & 1U) * 2;
  if (kind == 72) count += flags & 1U;
  if (kind == 73) count += (flags & 1) * 4U + (flags >> 1 & 1U);
  std::vector<uint64_t> body(count);
  for (uint64_t &word : body) word = chance.below(3) == 0 ? chance.word() : chance.below(4);
  if (kind == 66 && (flags & 8) != 0) body[3] = chance.below(5);
  if (chance.below(8) != 0) body[0] = now;
  if (kind <= 71 && chance.below(8) != 0) body[1] = now + chance.below(90);
  log.add(static_cast<Kind>(kind), static_cast<uint32_t>(chance.below(4) | 2U << 16 * (kind == 66)),
          flags, body);
}

// Launches with counters, their values, and the names of these, in any order.
void add_counters(Writer &log, Chance &chance, uint64_t now) {
  constexpr const char *kMetrics[] = {"gpu__time_duration.sum ns", "ratio", "", " ", " unit"};
  const auto number = [&] {
    return static_cast<uint32_t>(chance.below(4) == 0 ? chance.word() : chance.below(6));
  };
  log.text(Kind::kCounterName, number(), {0}, kMetrics[chance.below(std::size(kMetrics))]);
  log.text(Kind::kDeviceAttribute, number(), {chance.word()}, kMetrics[chance.below(std::size(kMetrics))]);
  log.add(Kind::kCounterValue, number(), 0, {number(), chance.word()});
  const auto flags = static_cast<uint8_t>(chance.below(4));
  std::vector<uint64_t> body(9 + (flags & raw::CountedKernel::kIsRange));
  for (uint64_t &word : body) word = chance.below(3) == 0 ? chance.word() : chance.below(4);
  if (chance.below(8) != 0) body[0] = now;
  if (chance.below(8) != 0) body[1] = now + chance.below(90);
  log.add(Kind::kCountedKernel, static_cast<uint32_t>(chance.below(4)), flags, body);
}

// Page faults of unified memory, by instructions in the file of machine code, mostly.
void add_faults(Writer &log, Chance &chance, uint64_t now) {
  const uint64_t end = chance.below(8) == 0 ? chance.word() : now + chance.below(90);
  const uint64_t pc = chance.below(8) == 0 ? chance.word() : 0x10000 + chance.below(1 << 20);
  log.add(Kind::kGpuFault, static_cast<uint32_t>(chance.below(9)), 0,
          {chance.below(8) == 0 ? 0 : now, end, chance.word(), chance.word(), chance.word()});
  log.add(Kind::kCpuFault, 0, 0, {chance.below(8) == 0 ? chance.word() : now, chance.word(), pc});
}

// Chains whose addresses lie in a file of machine code, mostly.
void add_chains(Writer &log, Chance &chance, const std::string &file) {
  raw::ModuleText module{0x10000, 0x10000 + chance.below(1 << 24), {}};
  if (chance.below(8) == 0) module = {chance.word(), chance.word(), {1}};
  std::string bytes(reinterpret_cast<const char *>(&module), sizeof module);
  bytes += chance.below(4) == 0 ? "/dev/zero" : file;
  log.text(Kind::kModule, 0, {0x10000}, bytes);
  for (uint64_t number = 0; number < 4; ++number) {
    std::vector<uint64_t> body{number};
    for (uint64_t frames = chance.below(66); frames > 0; --frames) {
      body.push_back(chance.below(8) == 0 ? chance.word() : 0x10000 + chance.below(1 << 20));
    }
    log.add(Kind::kChain, 0, 0, body);
  }
}

// Python's chains, and code with tables of lines that may be anything.
void add_python(Writer &log, Chance &chance) {
  for (uint64_t number = 0; number < 4; ++number) {
    const auto length = [&] {
      return static_cast<uint32_t>(chance.below(chance.below(8) == 0 ? 999 : 9));
    };
    const raw::PythonCodeText code{length(), raw::PythonLines{static_cast<uint32_t>(chance.below(4))},
                                   length(), length()};
    std::string bytes(reinterpret_cast<const char *>(&code), sizeof code);
    for (uint64_t more = chance.below(99); more > 0; --more) {
      bytes += static_cast<char>(chance.below(256));
    }
    log.text(Kind::kPythonCode, 0, {number}, bytes);
    std::vector<uint64_t> body{number};
    for (uint64_t words = chance.below(300); words > 0; --words) {
      body.push_back(chance.below(8) == 0 ? chance.word() : chance.below(99));
    }
    log.add(Kind::kPythonChain, 0, 0, body);
  }
}

std::vector<uint64_t> records(Chance &chance, const std::string &code) {
  Writer log;
  log.add(Kind::kThread, 0, 0, {kOrigin, 7 + chance.below(2)}, "0123456789abcdef");
  log.text(Kind::kDomain, 1, {}, "domain");
  log.text(Kind::kCategory, 1, {3}, "category");
  log.text(Kind::kThreadName, 7, {}, "named");
  log.text(Kind::kString, 2, {}, "a name that is longer than a word");
  for (uint64_t id = kSchema; id < kSchema + 2; ++id) {
    log.text(Kind::kSchema, 1, {id}, schema_text(chance));
  }
  log.text(Kind::kEnum, 1, {kSchema + 2}, enum_text());
  if (chance.below(2) == 0) add_chains(log, chance, code);
  if (chance.below(2) == 0) add_python(log, chance);
  uint64_t now = kOrigin;
  for (int event = 0; event < 40; ++event) {
    now += chance.below(50);
    for (uint64_t more = chance.below(4); more > 0; --more) add_cuda(log, chance, now);
    if (chance.below(4) == 0) add_counters(log, chance, now);
    if (chance.below(4) == 0) add_faults(log, chance, now);
    const auto flags = static_cast<uint8_t>(chance.below(16));
    std::vector<uint64_t> fields;
    if (flags & raw::Push::kHasDomain) fields.push_back(1 | 3ULL << 32);
    if (flags & raw::Push::kHasColor) fields.push_back(0xff00ff00);
    if (flags & raw::Push::kHasValue) fields.insert(fields.end(), {chance.below(8), chance.word()});
    const auto with = [&](std::vector<uint64_t> fixed) {
      fixed.insert(fixed.end(), fields.begin(), fields.end());
      return fixed;
    };
    switch (chance.below(8)) {
      case 0:
        log.add(Kind::kStart, 2, flags, with({now, chance.below(20)}));
        break;
      case 1:
        log.add(Kind::kStop, 0, 0, {now, chance.below(20)});
        break;
      case 2:
        log.add(Kind::kMark, 2, flags, with({now}));
        break;
      case 3:
        log.add(Kind::kWindow, static_cast<uint32_t>(chance.below(2)), 0, {now});
        break;
      case 4:
        if (chance.below(2) == 0) {
          log.add(Kind::kPop, static_cast<uint32_t>(chance.below(2)), 0, {now});
        } else {
          log.add(Kind::kPop, static_cast<uint32_t>(chance.below(2)), raw::Pop::kHasSequence,
                  {now, chance.word()});
        }
        break;
      default:
        log.add(Kind::kPush, 2, flags, with({now}));
    }
    if (chance.below(2) == 0) {
      constexpr uint64_t kOthers[] = {kSchema, kSchema + 1, raw::kTypeInt32, raw::kBlobRaw};
      std::vector<uint64_t> body{kOthers[chance.below(4)], 40};
      for (int word = 0; word < 5; ++word) body.push_back(chance.word());
      const bool has_targets = chance.below(2) == 0;
      if (has_targets) body.insert(body.end(), {1, 8 | 5ULL << 32, 0x6f6c6c6568});
      log.add(Kind::kPayload, 0, has_targets ? raw::kPayloadHasTargets : 0, body);
    }
  }
  log.add(Kind::kDropped, 0, 0, {now, 5});
  log.text(Kind::kNote, 1, {now}, "libx.so");
  return log.words;
}

void damage(Chance &chance, std::vector<uint64_t> &words) {
  for (uint64_t times = chance.below(5); times > 0 && !words.empty(); --times) {
    const std::size_t at = chance.below(words.size());
    switch (chance.below(4)) {
      case 0:
        words[at] = chance.word();
        break;
      case 1:
        words[at] ^= 1ULL << chance.below(64);
        break;
      case 2:
        words.erase(words.begin() + static_cast<std::ptrdiff_t>(at));
        break;
      default:
        words.resize(at);
    }
  }
}

void write_log(Chance &chance, const std::string &path, uint32_t pid, const std::string &code) {
  raw::LogHeader header{};
  std::memcpy(header.magic, raw::kMagic, sizeof header.magic);
  header.version = raw::kVersion;
  header.header_bytes = raw::kHeaderBytes;
  header.pid = pid;
  header.incarnation = 5;
  header.forked_from_pid = static_cast<uint32_t>(chance.below(3));
  header.forked_from_incarnation = 5;
  std::memset(header.host, 'h', sizeof header.host);  // no zero byte ends it
  std::vector<uint64_t> words(raw::kHeaderBytes / 8);
  std::memcpy(words.data(), &header, sizeof header);
  if (chance.below(8) == 0) damage(chance, words);
  std::vector<uint64_t> body = records(chance, code);
  damage(chance, body);
  words.insert(words.end(), body.begin(), body.end());
  std::FILE *file = std::fopen(path.c_str(), "wb");
  if (file == nullptr) std::abort();
  std::fwrite(words.data(), 8, words.size(), file);
  std::fclose(file);
}

const char *const kColumns[] = {
    "range/start_ns",       "range/end_ns",        "range/process_id",     "range/thread_id",
    "range/end_thread_id",  "range/domain_id",     "range/name_id",        "range/category_id",
    "range/color",          "range/style",         "range/is_truncated",   "range/source_id",
    "mark/time_ns",         "mark/process_id",     "mark/thread_id",       "mark/domain_id",
    "mark/name_id",         "mark/category_id",    "mark/color",           "range_payload/range_id",
    "range_payload/mark_id", "range_payload/key_id", "range_payload/int_value",
    "range_payload/float_value", "range_payload/text_id", "process/name_id", "thread/name_id",
    "note/text_id",         "log/unread_bytes",    "string/offsets",       "open/start_ns",
    "open/end_ns",          "open/last_ns",        "open/tid",             "process/incarnation",
    "kernel/start_ns",      "kernel/name_id",      "kernel/short_name_id", "kernel/mangled_name_id",
    "kernel/device_id",     "kernel/context_id",   "kernel/stream_id",     "kernel/green_context_id",
    "memcpy/src_device_id", "memcpy/kind",         "memcpy/stream_id",     "memset/memory",
    "memset/device_id",     "graph_launch/node_count", "graph_launch/stream_id",
    "api_call/name_id",     "api_call/thread_id",  "host_wait/context_id", "host_wait/stream_id",
    "stream_wait/device_id", "event_record/stream_id", "event_record/device_time_ns",
    "memcpy/migration_cause", "memcpy/virtual_address", "um_cpu_page_fault/function_id",
    "um_cpu_page_fault/module_id", "um_cpu_page_fault/process_id", "um_cpu_page_fault/pc",
    "um_gpu_page_fault/device_id", "um_gpu_page_fault/process_id", "um_gpu_page_fault/access",
    "memory_event/name_id", "memory_event/context_id", "graph_node/name_id", "overhead/name_id",
    "overhead/thread_id",   "device/name_id",      "device/uuid_id",       "device/bus_id",
    "context/device_id",    "stream/context_id",   "stream/kind",          "cuda/missing_kernels",
    "cuda/missing_copies",  "cuda/missing_fills",  "host_wait/event_sync_id",
    "api_call/stack_id",    "stack/parent_id",     "stack/frame_id",       "stack/depth",
    "frame/symbol_id",      "frame/module_id",     "frame/kind",           "frame/address",
    "frame/is_unresolved",
    "profiled_kernel/launch_number", "profiled_kernel/process_id", "profiled_kernel/thread_id",
    "profiled_kernel/start_ns", "profiled_kernel/end_ns", "profiled_kernel/device_id",
    "profiled_kernel/context_id", "profiled_kernel/stream_id", "profiled_kernel/name_id",
    "profiled_kernel/short_name_id", "profiled_kernel/mangled_name_id", "profiled_kernel/nvtx_id",
    "profiled_kernel/is_range", "profiled_kernel/kernels", "kernel_metric/profiled_kernel_id",
    "kernel_metric/name_id", "kernel_metric/unit_id", "kernel_metric/value",
    "kernel_metric/instances", "cuda_session/lost_values", "cuda_session/failed_launches"};

// What the numbers of a column refer to: the rows of a table, or texts; nothing for other columns.
std::string referred(const std::string &column) {
  if (column.find("_ns") != std::string::npos) return "";
  if (column == "stack/parent_id") return "stack";
  constexpr const char *kDimensions[] = {"device", "context", "stream", "thread",
                                         "process", "stack", "frame", "profiled_kernel"};
  for (const std::string dimension : kDimensions) {
    const std::string ending = dimension + "_id";
    if (column.ends_with("/" + ending)) return dimension;
  }
  if (column.ends_with("_device_id")) return "device";
  const bool is_text = column.ends_with("name_id") || column.ends_with("key_id") ||
                       column.ends_with("uuid_id") || column.ends_with("symbol_id") ||
                       column.ends_with("module_id") || column.ends_with("bus_id") ||
                       column.ends_with("unit_id") || column.ends_with("nvtx_id") ||
                       column.ends_with("function_id");
  return is_text ? "string" : "";
}

// Returns the rows that were copied; every reference must be to a row that is there.
int64_t copy_all(const wl_raw *session) {
  int64_t copied = 0;
  const int64_t texts = wl_raw_rows(session, "string") - 1;
  for (const std::string column : kColumns) {
    const int64_t rows = wl_raw_rows(session, column.substr(0, column.find('/')).c_str());
    if (rows < 0) std::abort();
    std::vector<uint64_t> values(static_cast<std::size_t>(rows) + 1);
    std::vector<uint8_t> valid(static_cast<std::size_t>(rows) + 1);
    if (wl_raw_column(session, column.c_str(), 0, rows, values.data(), valid.data()) < 0) {
      std::abort();
    }
    const std::string table = referred(column);
    if (!table.empty()) {
      const int64_t targets = table == "string" ? texts : wl_raw_rows(session, table.c_str());
      const auto *numbers = reinterpret_cast<const int32_t *>(values.data());
      for (int64_t row = 0; row < rows; ++row) {
        if (valid[static_cast<std::size_t>(row)] && (numbers[row] < 0 || numbers[row] >= targets)) {
          std::fprintf(stderr, "%s refers to no %s\n", column.c_str(), table.c_str());
          std::abort();
        }
        if (column == "stack/parent_id" && numbers[row] >= row && valid[static_cast<std::size_t>(row)]) {
          std::fprintf(stderr, "%s refers to no earlier row\n", column.c_str());
          std::abort();
        }
      }
    }
    copied += rows;
  }
  return copied;
}

// Makes a file of machine code of this program, which has symbols, and damages it where it says
// what lies where.
void write_code(Chance &chance, const std::vector<char> &program, const std::string &path) {
  std::vector<char> bytes = program;
  constexpr std::size_t kTable = 64 * 48;  // at the end: what its sections are
  for (uint64_t times = chance.below(6); times > 0 && bytes.size() > kTable; --times) {
    const bool is_head = chance.below(3) == 0;
    const std::size_t at = is_head ? chance.below(64) : bytes.size() - 1 - chance.below(kTable);
    bytes[at] = static_cast<char>(chance.word());
  }
  if (chance.below(16) == 0) bytes.resize(chance.below(bytes.size()));
  std::FILE *file = std::fopen(path.c_str(), "wb");
  if (file == nullptr) std::abort();
  std::fwrite(bytes.data(), 1, bytes.size(), file);
  std::fclose(file);
}

std::vector<char> own_code() {
  std::vector<char> bytes;
  std::FILE *file = std::fopen("/proc/self/exe", "rb");
  if (file == nullptr) std::abort();
  char chunk[65536];
  for (std::size_t got; (got = std::fread(chunk, 1, sizeof chunk, file)) > 0;) {
    bytes.insert(bytes.end(), chunk, chunk + got);
  }
  std::fclose(file);
  return bytes;
}

// Removes what is old from all logs.
void trim(Chance &chance, const std::string &folder, bool is_last) {
  std::string paths[3];
  const char *names[3];
  for (uint32_t number = 0; number < 3; ++number) {
    paths[number] = folder + "/" + std::to_string(number);
    names[number] = paths[number].c_str();
  }
  const auto from_ns = chance.below(8) == 0 ? static_cast<int64_t>(chance.word())
                                            : kOrigin + static_cast<int64_t>(chance.below(999));
  const int64_t now_ns = chance.below(4) == 0 ? from_ns + 100 : INT64_MAX;
  wl_raw_trim(names, 3, from_ns, now_ns, is_last ? 1 : 0, nullptr, 0);
}

// Follows the logs as they are, and copies their last seconds to files of their own, which are logs, too.
void follow(Chance &chance, const std::string &folder) {
  wl_follower *follower = nullptr;
  if (wl_follow_open(&follower, 2, nullptr, 0) != WL_OK) std::abort();
  for (uint32_t number = 0; number < 3; ++number) {
    const std::string path = folder + "/" + std::to_string(number);
    wl_follow_add_log(follower, path.c_str(), static_cast<int32_t>(number % 2), nullptr, 0);
  }
  int64_t facts[5];
  for (uint64_t times = 1 + chance.below(3); times > 0; --times) {
    const auto from_ns = chance.below(8) == 0 ? static_cast<int64_t>(chance.word() >> 2)
                                              : kOrigin + static_cast<int64_t>(chance.below(999));
    const int64_t tails[] = {from_ns, from_ns - static_cast<int64_t>(chance.below(500))};
    const int64_t now_ns = from_ns + static_cast<int64_t>(chance.below(1000));
    if (wl_follow_read(follower, now_ns, from_ns, tails, facts, nullptr, 0) != WL_OK) std::abort();
    const auto devices = static_cast<std::size_t>(facts[4]);
    std::vector<int32_t> rows(devices + 1);
    std::vector<int64_t> numbers(devices + 1);
    wl_follow_devices(follower, rows.data(), numbers.data(), nullptr, 0);
    for (int32_t &row : rows) row = static_cast<int32_t>(chance.below(2));
    int64_t busy[2], operations[2];
    wl_follow_measure(follower, from_ns, now_ns, rows.data(), 2, busy, operations, nullptr, 0);
    if (chance.below(2) == 0) trim(chance, folder, false);
  }
  for (uint32_t number = 0; number < 3; ++number) {
    const std::string path = folder + "/" + std::to_string(number);
    const std::string copy = path + ".copy";
    const int file = open(copy.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    const auto tail = static_cast<int32_t>(chance.below(2));
    const int64_t end = wl_follow_copy(follower, tail, number, file, facts, nullptr, 0);
    close(file);
    if (end > 0 && chance.below(2) == 0) std::rename(copy.c_str(), path.c_str());
    unlink(copy.c_str());
  }
  wl_follow_close(follower);
}

int64_t try_session(Chance &chance, const std::string &folder) {
  char message[256];
  wl_raw *session = nullptr;
  if (wl_raw_open(&session, nullptr, message, sizeof message) != WL_OK) std::abort();
  for (uint32_t number = 0; number < 3; ++number) {
    const std::string path = folder + "/" + std::to_string(number);
    write_log(chance, path, 1 + number % 2, folder + "/code");
  }
  for (uint64_t times = chance.below(4); times > 0; --times) trim(chance, folder, times == 1);
  if (chance.below(2) == 0) follow(chance, folder);
  for (uint32_t number = 0; number < 3; ++number) {
    const std::string path = folder + "/" + std::to_string(number);
    wl_raw_add_log(session, path.c_str(), 1, number == 2, message, sizeof message);
  }
  while (wl_raw_decode(session, static_cast<int64_t>(1 + chance.below(4000)), message,
                       sizeof message) > 0) {
  }
  for (int64_t process = 0; process < wl_raw_rows(session, "process"); ++process) {
    if (chance.below(2) == 0) continue;
    const int64_t ended_ns = chance.below(8) == 0 ? static_cast<int64_t>(chance.word())
                                                  : kOrigin + static_cast<int64_t>(chance.below(999));
    wl_raw_end_process(session, process, ended_ns, message, sizeof message);
  }
  if (wl_raw_seal(session, kOrigin, chance.below(2) == 0 ? INT64_MIN : kOrigin + 500, message,
                  sizeof message) != WL_OK) {
    std::fprintf(stderr, "%s\n", message);
    std::abort();
  }
  const int64_t copied = copy_all(session);
  wl_raw_close(session);
  return copied;
}

}  // namespace

int main(int count, char **arguments) {
  const int sessions = count > 1 ? std::atoi(arguments[1]) : 2000;
  const auto seed = static_cast<uint64_t>(count > 2 ? std::atoll(arguments[2]) : 1);
  char folder[] = "/tmp/raw_fuzz.XXXXXX";
  if (mkdtemp(folder) == nullptr) return 1;
  Chance chance(seed);
  int64_t copied = 0;
  const std::vector<char> code = own_code();
  for (int session = 0; session < sessions; ++session) {
    if (session % 16 == 0) write_code(chance, code, std::string(folder) + "/code");
    copied += try_session(chance, folder);
  }
  for (const char *name : {"/0", "/1", "/2", "/code"}) unlink((std::string(folder) + name).c_str());
  rmdir(folder);
  std::printf("%d sessions, %lld rows\n", sessions, static_cast<long long>(copied));
  return copied > sessions ? 0 : 1;
}
