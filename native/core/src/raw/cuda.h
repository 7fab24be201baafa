// What a raw session holds of CUDA beside the rows of its tables: what they are joined with. The
// records, the rows and their tables are declared in native/raw/records.toml.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "growing.h"
#include "raw/chains.h"
#include "raw/correlations.h"
#include "raw/rows.h"
#include "warpline_cuda.h"

namespace warpline {

struct RawTables;

inline constexpr int64_t kFarNs = int64_t{1} << 61;  // no time is later

// The number of a device at one end of a copy.
constexpr uint32_t peer_number(uint32_t device) { return device & 0x7fffffff; }

// Where device work ran: CUDA's numbers, and the rows that they become.
struct CudaPlace {
  int32_t process = 0;
  uint32_t device = 0;
  uint32_t context = 0;
  uint32_t stream = 0;
  int32_t device_row = 0;
  int32_t context_row = 0;
  int32_t stream_row = 0;
  bool is_green = false;
};

// What a call does with the stream, event or context that it concerns.
enum class CudaRole : uint8_t {
  kNone,
  kWaitForStream,   // the host waits
  kWaitForContext,
  kWaitForEvent,
  kStreamWait,      // the stream is to wait for the event
  kEventRecord,
  kEventEnd,
  kCaptureBegin,
  kCaptureEnd,
};

// The name of a function, and what finishing must know of it.
struct CudaCallName {
  int32_t text = 0;
  bool is_driver = false;
  bool is_poll = false;    // it only asks whether something is done
  bool is_kernel = false;  // it launches a kernel
  bool is_copy = false;
  bool is_fill = false;
  CudaRole role = CudaRole::kNone;

  bool begins_capture() const { return role == CudaRole::kCaptureBegin; }
};

// What the name of a function says; `text` is its number.
CudaCallName describe_call(int32_t text, std::string_view name, bool is_driver);

// The name of a function in a record of its kind; false where the record is not sound.
bool call_name_in(const uint64_t *record, std::size_t words, std::string_view &name);

// A call that said what it concerns.
struct CudaTarget {
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  uint64_t event = 0;  // the program's handle; 0: none
  int32_t process = 0;
  uint32_t context = 0;
  uint32_t stream = 0;
  uint32_t correlation = 0;
  CudaRole role = CudaRole::kNone;
};

// A GPU as one process sees it.
struct CudaDeviceFacts {
  int32_t name = -1;
  uint32_t multiprocessors = 0;
  std::array<uint64_t, 2> uuid{};
  uint64_t memory_bytes = 0;
  uint64_t memory_bytes_per_s = 0;
  uint64_t clock_hz = 0;
  uint32_t l2_bytes = 0;
  uint32_t compute_major = 0;
  uint32_t compute_minor = 0;
  uint64_t pci = ~uint64_t{0};
  uint32_t number = 0;  // one more than among the machine's GPUs; 0: not known
  std::map<std::string, int64_t, std::less<>> attributes;  // by name
};

struct CudaDevice {
  int64_t index = 0;
  int32_t name = -1;
  int32_t uuid = -1;
  int32_t bus = -1;
  CudaDeviceFacts facts;
};

struct CudaDeviceAttribute {
  int32_t device = 0;  // row
  int32_t name = 0;
  int64_t value = 0;
};

struct CudaContext {
  uint32_t device = 0;
  uint32_t null_stream = raw::kCudaNone;
  uint32_t parent = 0;
  bool is_green = false;
};

struct CudaStream {
  bool has_priority = false;
  int32_t priority = 0;
  bool has_kind = false;
  uint8_t kind = 0;
};

struct CudaContextRow {
  int32_t process = 0;
  int32_t device = 0;
  uint32_t native = 0;
  uint32_t parent = 0;
  bool is_green = false;
};

struct CudaStreamRow {
  int32_t process = 0;
  int32_t context = 0;
  uint32_t native = 0;
  CudaStream facts;
};

// The forms of a kernel's name, as texts.
struct CudaKernelName {
  int32_t mangled = -1;
  int32_t full = 0;
  int32_t base = 0;
};

struct CudaClockPair {
  int64_t cupti_ns = 0;
  int64_t host_ns = 0;
};

// Facts about CUDA in one process.
struct CudaFacts {
  uint32_t collected = 0;  // bits of CudaCollects: what was recorded at any time
  bool is_used = false;    // it has CUDA records
  std::vector<std::pair<int64_t, uint32_t>> collecting;  // from when on, what
  std::vector<CudaClockPair> clock;
  int64_t dropped = 0;         // by CUPTI
  int64_t without_time = 0;    // device work that CUPTI gave no times of
  int64_t missing_kernels = 0;  // launched, but without a record
  int64_t missing_graphs = 0;
  int64_t missing_copies = 0;
  int64_t missing_fills = 0;
  int64_t missing_from_ns = 0;  // when the first call began whose work has no record; 0: there is none
  int64_t last_buffer_ns = 0;
};

using CudaPlaceKey = std::tuple<int32_t, uint32_t, uint32_t, uint32_t>;

struct CudaTables {
  Growing<CudaTarget> targets;  // until they are made into waits and event records
  std::vector<CudaPlace> places;
  std::vector<CudaCallName> call_names;
  std::vector<CudaKernelName> names;
  std::vector<CudaFacts> facts;       // by process; grows as processes do
  Correlations lost_launches;         // of work without times
  // What was declared, by process and CUDA's number.
  std::map<std::pair<int32_t, uint32_t>, CudaDeviceFacts> declared_devices;
  std::map<std::pair<int32_t, uint32_t>, CudaContext> declared_contexts;
  std::map<std::tuple<int32_t, uint32_t, uint32_t>, CudaStream> declared_streams;  // context, stream
  std::map<CudaPlaceKey, uint32_t> place_of;
  std::map<std::pair<int32_t, bool>, int32_t> call_name_of;  // text, is driver
  CallChains chains;
  // Dimensions, once sealed.
  std::vector<CudaDevice> devices;
  std::vector<CudaDeviceAttribute> device_attributes;
  std::map<std::pair<int32_t, uint32_t>, int32_t> device_rows;  // process, CUDA's number
  std::vector<CudaContextRow> contexts;
  std::vector<CudaStreamRow> streams;
  int64_t beyond_limits = 0;  // rows left out because a table was full

  CudaFacts &facts_of(int32_t process);
};

// Numbers that a log defines, and what they stand for: most are small.
class CudaNumbers {
 public:
  void set(uint32_t number, int32_t value);
  int32_t get(uint32_t number) const;  // -1: not defined

 private:
  std::vector<int32_t> near_;
  std::unordered_map<uint32_t, int32_t> far_;
};

// Decodes the CUDA records of one log.
class CudaDecoder {
 public:
  CudaDecoder(RawTables &tables, int32_t process);

  // `thread` is the row of the log's thread, if it has one.
  Taken decode(const uint64_t *record, std::size_t words, const uint32_t *thread);

  // ---- for the tables whose rows are records

  int32_t process() const { return process_; }
  const uint32_t *thread() const { return thread_; }  // of the record, null: none

  // The text of a CudaName record's number, -1 if there is none.
  int32_t text_of(uint32_t number) const { return number == 0 ? -1 : names_.get(number); }

  // The chain of these numbers of a Chain and a PythonChain, of which 0 is none; 0 if no log has it.
  uint32_t chain_of(uint64_t chain, uint64_t python_chain);
  // The same chain, with where its innermost function was; 0: that is not known.
  uint32_t chain_at(uint32_t chain, uint64_t instruction);

  // The number of the place of a record.
  template <typename Record>
  uint32_t place_of(const Record &record) {
    return place_of(record.device, or_zero(record.context), or_zero(record.stream));
  }
  uint32_t place_of(const raw::Memory &record);
  uint32_t place_of(const raw::CountedKernel &record);
  uint32_t place_of(const raw::GpuFault &record);
  uint32_t place_of(const raw::PcSample &record);
  uint32_t place_of(const raw::PcSampling &record);

  // Notes that a device had work, and whether CUPTI knew its times.
  void see_work(uint32_t correlation, bool has_times);

  template <typename Rows, typename Row>
  void add(Rows &rows, const Row &row);

 private:
  // What runs on a device has a context and a stream, even if nobody says which.
  static uint32_t or_zero(uint32_t number) { return number == raw::kCudaNone ? 0 : number; }

  bool on_call_name(const uint64_t *record, std::size_t words);
  bool on_name(const uint64_t *record, std::size_t words);
  bool on_os_call_name(const uint64_t *record, std::size_t words);
  bool on_counter_name(const uint64_t *record, std::size_t words);
  bool on_device_attribute(const uint64_t *record, std::size_t words);

  // Reads a record and takes in what it says. Each returns whether that can be true.
  template <typename Record>
  Taken take(const uint64_t *record, std::size_t words);
  bool on(const raw::Call &record);
  bool on(const raw::Wait &record);
  bool on(const raw::Event &record);
  bool on(const raw::Pool &record);
  bool on(const raw::Device &record);
  bool on(const raw::Context &record);
  bool on(const raw::Stream &record);
  bool on(const raw::Lost &record);
  bool on(const raw::Buffer &record);
  bool on(const raw::CudaClock &record);
  bool on(const raw::Collecting &record);
  bool on(const raw::PassClock &record);
  bool on(const raw::OsCall &record);

  void add_target(const raw::Call &record, const ApiCallRow &call);

  template <typename Row>
  void add_wait(const raw::Wait &record, Growing<Row> &rows);
  uint32_t place_of(uint32_t device, uint32_t context, uint32_t stream);

  struct RecentPlace {
    uint32_t device = 0;
    uint32_t context = 0;
    uint32_t stream = 0;
    uint32_t place = 0;
    bool is_set = false;
  };

  RawTables &tables_;
  CudaTables &cuda_;
  int32_t process_;
  const uint32_t *thread_ = nullptr;  // of the record that is being decoded
  uint64_t host_time_ = 0;
  CudaNumbers names_;
  CudaNumbers os_functions_;  // texts
  CudaNumbers call_names_[3];  // unknown, driver, runtime
  std::array<RecentPlace, 64> recent_{};
};

template <typename Rows, typename Row>
void CudaDecoder::add(Rows &rows, const Row &row) {
  if (rows.size() < kMaxRows) {
    rows.push_back(row);
  } else {
    ++cuda_.beyond_limits;
  }
}

// Puts all times on the host's clock; device work that was recorded is a sign of life.
void settle_cuda_times(RawTables &tables);

// Places and joins the rows of CUDA; after seal(), which has the last word on processes.
void seal_cuda(RawTables &tables);

}  // namespace warpline
