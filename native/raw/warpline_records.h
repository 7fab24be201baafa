// The records of a raw session.
// Generated from native/raw/records.toml by `python native/raw/generate`.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace warpline::raw {

enum class Kind : std::uint8_t {
  kEnd = 0,
    // No record: the end of the log, or of what its writer could complete.
  kPad = 1,
    // Fills a block; its size counts, its content does not. words: [anything...]
  kThread = 2,
  kString = 3,
    // Redefines a slot from here on. Slots are sparse: below 1024 by hash, above by registered
    // string. aux: [slot] words: [bytes][text]
  kDomain = 4,
    // The name of an NVTX domain. aux: [domain] words: [bytes][name]
  kCategory = 5,
    // The name of a category of a domain. aux: [domain] words: [category][bytes][name]
  kThreadName = 6,
    // What the program calls a thread. aux: [tid] words: [bytes][name]
  kResourceName = 7,
    // The name of an NVTX resource; its type as NVTX numbers it. aux: [resource_type] words:
    // [identifier][bytes][name]
  kPush = 8,
  kPop = 9,
  kStart = 10,
  kStop = 11,
  kMark = 12,
  kPayload = 13,
    // Data of the Push, Start, Mark, Pop or Stop before it; see warpline_payload.h. `place` is its
    // place in the list of that event. aux: [place] words: [schema_id][bytes][data...]
  kSchema = 14,
    // The layout of payloads; see warpline_payload.h. aux: [domain] words:
    // [schema_id][bytes][SchemaText]
  kEnum = 15,
    // The names of an enumeration's values; see warpline_payload.h. aux: [domain] words:
    // [schema_id][bytes][EnumText]
  kWindow = 16,
  kDropped = 17,
  kClock = 18,
  kNote = 19,
    // A fact about the recording: a number of Note or CudaNote, and details. aux: [note] words:
    // [time_ns][bytes][details]
  kThreadEnd = 20,
  kCallName = 64,
    // The name of an API function, with its version, such as cudaLaunchKernel_v7000. Once per log
    // before its first use there, as CudaName. aux: [call | api] words: [zero][bytes][name]
  kCudaName = 65,
    // Mangled name of a kernel, name of a variable or of a device. Numbers count over the process
    // image, from 1. aux: [number] words: [zero][bytes][name]
  kCall = 66,
  kKernel = 67,
  kCopy = 68,
  kFill = 69,
  kGraph = 70,
  kWait = 71,
  kEvent = 72,
  kMemory = 73,
  kPool = 74,
  kOverhead = 75,
  kDevice = 76,
  kContext = 77,
  kStream = 78,
  kGraphNode = 79,
  kLost = 80,
  kBuffer = 81,
  kCudaClock = 82,
  kCollecting = 83,
  kChain = 84,
    // Return addresses, innermost first. Numbers are hashes: the same in every log. words:
    // [number][addresses...]
  kModule = 85,
    // A file that code came from, as ModuleText and its path; the load bias is what the file's own
    // addresses were moved by. words: [bias][bytes][ModuleText, path]
  kPythonCode = 95,
    // The code of a Python function, as PythonCodeText, its file, its name, and its table of lines
    // as CPython has it. Numbers are hashes: the same in every log. words:
    // [number][bytes][PythonCodeText, file, name, lines]
  kPythonChain = 97,
    // The Python frames of a thread, innermost first. Two words each: the number of its code; its
    // last instruction, in bytes from the start of the code, whether the interpreter was entered
    // there from C, and where in the call's Chain (PythonFrame). Numbers are hashes: the same in
    // every log. words: [number][frames...]
  kCounterName = 86,
    // A metric that is collected, and its unit after a space where it has one. The same number in
    // all logs of a process. aux: [metric] words: [zero][bytes][name]
  kCountedKernel = 87,
  kCounterValue = 88,
  kPassClock = 89,
  kDeviceAttribute = 90,
    // An attribute of a GPU and its value, signed. Names are those of CUdevice_attribute, in lower
    // case and without the prefix. Where counters are collected, once per device. aux: [device]
    // words: [value][bytes][name]
  kCpuFault = 91,
  kGpuFault = 92,
  kPcSample = 93,
  kPcSampling = 94,
  kCpuSample = 110,
  kSchedEvent = 111,
  kOsCallName = 130,
    // The name of a function of the C library. The same number in all logs of a process. aux:
    // [number] words: [zero][bytes][name]
  kOsCall = 131,
  kLibraryCall = 140,
  kNcclOperation = 150,
  kPythonSample = 120,
  kGilSpan = 121,
};

// The kind of a Note record.
enum class Note : std::uint32_t {
  // a library's NVTX was bound to the agent; text: its file, if known
  kNvtxBound = 1,
  // an NVTX function that is not recorded was offered; text: which
  kNvtxUnknownCall = 2,
  // unsupported version of an extension; text: which
  kPayloadUnknown = 3,
  // a text or payload was truncated or dropped
  kTooLong = 4,
  // this process is a fork; text: the parent's "PID-INCARNATION"
  kFork = 5,
  // this process records from here; text: the step's number where steps are sampled, else nothing:
  // a capture range begins
  kSampleBegin = 6,
  // and pauses from here; text: the number of the first step not recorded
  kSampleEnd = 7,
  // steps are detected from periodic launches; text: "PERIOD_NS LAUNCHES BY_CLOCK": duration and
  // launches of one, and 1 if pauses are timed
  kStepsByLaunch = 8,
};

// More kinds of a Note record; their text is shown to the user.
enum class CudaNote : std::uint32_t {
  // CUPTI's version and file: "CUPTI 130001 PATH"
  kUsing = 64,
  // CUDA is not recorded in this process; text: the reason
  kUnavailable = 65,
  // it is not, because another profiler uses CUPTI; text: which, a tab, and "held" (CUPTI supports
  // one), or "unshared" (that one does not share it)
  kOtherProfiler = 66,
  // it is, with a known limitation; text: which
  kDoubt = 67,
  // one kind of record could not be enabled; text: which, and why
  kKindFailed = 68,
  // it is, and CUPTI is shared with another profiler; text: which
  kShared = 69,
  // counters are collected; text: chip, passes and how
  kCounters = 70,
  // counters cannot be collected; text: the reason, a tab, and what to do or CUPTI's result, a
  // number
  kNoCounters = 71,
  // they are, with a known limitation; text: which
  kCountersDoubt = 72,
  // no launch was chosen; text: why, a tab, and what to do
  kNotChosen = 73,
  // this process has locked the clocks of a GPU; text: its CUDA ordinal
  kClocksLocked = 74,
  // and unlocked them; text: the same
  kClocksUnlocked = 75,
  // program counters are sampled; text: how
  kSampling = 76,
  // they cannot be sampled; text: as NoCounters
  kNoSampling = 77,
  // they are, with a known limitation; text: which
  kSamplingDoubt = 78,
  // Python stacks of calls cannot be recorded; text: why
  kNoPythonStacks = 79,
  // calls of libraries are not recorded, or not all; text: why
  kNoLibraryCalls = 91,
  // CPU samples for which there was no room; text: how many
  kCpuSamplesDropped = 85,
  // CPU samples cannot be taken, or not any more; text: why
  kNoCpuSamples = 86,
};

// Whether something is so.
enum class Known : std::uint32_t {
  kNo = 1,
  kYes = 2,
};

// What a thread does with the GIL, as the schema numbers it.
enum class GilState : std::uint32_t {
  kHolding = 1,
  kWaiting = 2,
};

// What is collected: the bits of a Collecting record.
enum CudaCollects : std::uint32_t {
  kCollectsCalls = 1,
  kCollectsKernels = 2,
  kCollectsCopies = 4,
  kCollectsFills = 8,
  // graph level: kernels of graphs are then not recorded
  kCollectsGraphs = 16,
  kCollectsWaits = 32,
  kCollectsEvents = 64,
  kCollectsMemory = 128,
  kCollectsOverhead = 256,
  kCollectsGraphNodes = 512,
  // calls say which stream and event they concern: waits, stream waits and event records follow
  // from that, in place of Wait and Event
  kCollectsTargets = 1024,
  // with migrations, as the next
  kCollectsCpuFaults = 2048,
  kCollectsGpuFaults = 4096,
};

// The first page of a log.
struct LogHeader {
  char magic[8];
  std::uint32_t version;
  std::uint32_t header_bytes;
  std::uint32_t pid;
  std::uint32_t ppid;
  // monotonic ns of the agent's start in this process image
  std::uint64_t incarnation;
  // 0: not a fork of a process that the agent was in
  std::uint32_t forked_from_pid;
  // 0: the agent, in the process; 1: the sampler, from outside
  std::uint32_t writer;
  std::uint64_t forked_from_incarnation;
  // CLOCK_MONOTONIC and
  std::int64_t anchor_monotonic_ns;
  // CLOCK_REALTIME, read together when the log was made
  std::int64_t anchor_utc_ns;
  // live, by the writer: records committed that are counted
  std::uint64_t records;
  // events dropped for lack of space
  std::uint64_t dropped_records;
  // texts cut and payloads left out, of every kind
  std::uint64_t cut_texts;
  // when the process ended normally or detached; 0: it has not
  std::int64_t closed_ns;
  // where the next record will be
  std::uint64_t used_bytes;
  char host[64];
  char executable[512];
  // zeros: the arguments of a process may hold secrets
  char reserved1[2056];
  // where the first record is, 0: behind this page. Written by who trims the log, as
  std::uint64_t first_bytes;
  // of the records there that stand for what was removed, and
  std::uint64_t past_bytes;
  // of those counted above, how many were removed
  std::uint64_t trimmed_records;
};

// The header word of a record: its words, itself included (16 bits) << 48 | flags (8) << 40 |
// kind (8) << 32 | aux (32).
constexpr std::uint64_t header_word(Kind kind, std::uint8_t flags, std::size_t words,
                                    std::uint32_t aux) {
  return std::uint64_t{words} << 48 | std::uint64_t{flags} << 40 |
         std::uint64_t{static_cast<std::uint8_t>(kind)} << 32 | aux;
}
constexpr Kind kind_of(std::uint64_t header) {
  return static_cast<Kind>(static_cast<std::uint8_t>(header >> 32));
}
constexpr std::uint8_t flags_of(std::uint64_t header) {
  return static_cast<std::uint8_t>(header >> 40);
}
constexpr std::size_t words_of(std::uint64_t header) { return header >> 48; }
constexpr std::uint32_t aux_of(std::uint64_t header) { return static_cast<std::uint32_t>(header); }
constexpr std::size_t words_for(std::size_t bytes) { return (bytes + 7) / 8; }

// A number as it is in so many bits: the largest, if it is too large for them.
template <unsigned kBits>
constexpr std::uint64_t fitted(std::uint64_t value) {
  static_assert(kBits < 64);
  return std::min(value, (std::uint64_t{1} << kBits) - 1);
}
template <unsigned kBits>
constexpr std::uint64_t bits_of(std::uint64_t word, unsigned shift) {
  static_assert(kBits < 64);
  return word >> shift & ((std::uint64_t{1} << kBits) - 1);
}

// In the structs below `write` fills the words after the header. `read` returns false for a record
// whose size is not what its flags imply; members whose flag is not set stay as they were.

// What takes the place of a record that lasts: see `lasts` in records.toml.
enum class Lasting : std::uint8_t { kNever, kByAux, kByAuxAndWord, kByWord, kByContent, kLatest };

// What is the same for all records of a kind. time_word: the word with the time at
// which they were complete, 0: none.
struct KindFacts {
  bool is_known = false;
  Lasting lasting = Lasting::kNever;
  std::uint8_t time_word = 0;
  bool is_on_gpu_clock = false;
  bool is_counted = false;
};
constexpr KindFacts facts_of(Kind kind) {
  switch (kind) {
    case Kind::kEnd: return {true, Lasting::kNever, 0, false, false};
    case Kind::kPad: return {true, Lasting::kNever, 0, false, false};
    case Kind::kThread: return {true, Lasting::kNever, 1, false, false};
    case Kind::kString: return {true, Lasting::kNever, 0, false, false};
    case Kind::kDomain: return {true, Lasting::kByAux, 0, false, false};
    case Kind::kCategory: return {true, Lasting::kByAuxAndWord, 0, false, false};
    case Kind::kThreadName: return {true, Lasting::kByAux, 0, false, false};
    case Kind::kResourceName: return {true, Lasting::kByAuxAndWord, 0, false, false};
    case Kind::kPush: return {true, Lasting::kNever, 1, false, true};
    case Kind::kPop: return {true, Lasting::kNever, 1, false, false};
    case Kind::kStart: return {true, Lasting::kNever, 1, false, true};
    case Kind::kStop: return {true, Lasting::kNever, 1, false, false};
    case Kind::kMark: return {true, Lasting::kNever, 1, false, true};
    case Kind::kPayload: return {true, Lasting::kNever, 0, false, false};
    case Kind::kSchema: return {true, Lasting::kByAuxAndWord, 0, false, false};
    case Kind::kEnum: return {true, Lasting::kByAuxAndWord, 0, false, false};
    case Kind::kWindow: return {true, Lasting::kNever, 1, false, false};
    case Kind::kDropped: return {true, Lasting::kNever, 1, false, false};
    case Kind::kClock: return {true, Lasting::kNever, 1, false, false};
    case Kind::kNote: return {true, Lasting::kByContent, 1, false, false};
    case Kind::kThreadEnd: return {true, Lasting::kNever, 1, false, false};
    case Kind::kCallName: return {true, Lasting::kByAux, 0, false, false};
    case Kind::kCudaName: return {true, Lasting::kByAux, 0, false, false};
    case Kind::kCall: return {true, Lasting::kNever, 2, false, true};
    case Kind::kKernel: return {true, Lasting::kNever, 2, true, true};
    case Kind::kCopy: return {true, Lasting::kNever, 2, true, true};
    case Kind::kFill: return {true, Lasting::kNever, 2, true, true};
    case Kind::kGraph: return {true, Lasting::kNever, 2, true, true};
    case Kind::kWait: return {true, Lasting::kNever, 2, true, false};
    case Kind::kEvent: return {true, Lasting::kNever, 0, true, false};
    case Kind::kMemory: return {true, Lasting::kNever, 1, true, false};
    case Kind::kPool: return {true, Lasting::kNever, 1, false, false};
    case Kind::kOverhead: return {true, Lasting::kNever, 2, true, false};
    case Kind::kDevice: return {true, Lasting::kByAux, 0, false, false};
    case Kind::kContext: return {true, Lasting::kByAux, 0, false, false};
    case Kind::kStream: return {true, Lasting::kByAux, 0, false, false};
    case Kind::kGraphNode: return {true, Lasting::kByContent, 1, false, false};
    case Kind::kLost: return {true, Lasting::kNever, 1, false, false};
    case Kind::kBuffer: return {true, Lasting::kNever, 1, false, false};
    case Kind::kCudaClock: return {true, Lasting::kLatest, 0, false, false};
    case Kind::kCollecting: return {true, Lasting::kLatest, 1, false, false};
    case Kind::kChain: return {true, Lasting::kByWord, 0, false, false};
    case Kind::kModule: return {true, Lasting::kByContent, 0, false, false};
    case Kind::kPythonCode: return {true, Lasting::kByWord, 0, false, false};
    case Kind::kPythonChain: return {true, Lasting::kByWord, 0, false, false};
    case Kind::kCounterName: return {true, Lasting::kByAux, 0, false, false};
    case Kind::kCountedKernel: return {true, Lasting::kNever, 2, false, true};
    case Kind::kCounterValue: return {true, Lasting::kNever, 0, false, false};
    case Kind::kPassClock: return {true, Lasting::kNever, 0, false, false};
    case Kind::kDeviceAttribute: return {true, Lasting::kByContent, 0, false, false};
    case Kind::kCpuFault: return {true, Lasting::kNever, 1, true, false};
    case Kind::kGpuFault: return {true, Lasting::kNever, 2, true, false};
    case Kind::kPcSample: return {true, Lasting::kNever, 0, false, true};
    case Kind::kPcSampling: return {true, Lasting::kNever, 0, false, false};
    case Kind::kCpuSample: return {true, Lasting::kNever, 1, false, true};
    case Kind::kSchedEvent: return {true, Lasting::kNever, 1, false, true};
    case Kind::kOsCallName: return {true, Lasting::kByAux, 0, false, false};
    case Kind::kOsCall: return {true, Lasting::kNever, 2, false, true};
    case Kind::kLibraryCall: return {true, Lasting::kNever, 2, false, true};
    case Kind::kNcclOperation: return {true, Lasting::kNever, 1, false, true};
    case Kind::kPythonSample: return {true, Lasting::kNever, 1, false, true};
    case Kind::kGilSpan: return {true, Lasting::kNever, 2, false, true};
  }
  return {};
}

// Records after it are this thread's. First in a log. The name is the kernel's, 16 bytes.
struct Thread {
  static constexpr Kind kKind = Kind::kThread;
  static constexpr bool kIsCounted = false;
  static constexpr std::uint8_t kFlags = 0;

  std::uint8_t flags = 0;
  std::uint64_t time_ns = 0;
  std::uint64_t tid = 0;
  std::uint64_t name_low = 0;
  std::uint64_t name_high = 0;

  constexpr bool has(std::uint8_t flag) const { return (flags & flag) != 0; }
  constexpr std::uint32_t aux() const {
    return static_cast<std::uint32_t>(0);
  }
  constexpr std::size_t words() const {
    return 5u;
  }
  constexpr void write(std::uint64_t* room) const {
    room[1] = time_ns;
    room[2] = tid;
    room[3] = name_low;
    room[4] = name_high;
  }
  constexpr bool read(const std::uint64_t* record, std::size_t size) {
    flags = flags_of(*record);
    if (size != words()) return false;
    time_ns = static_cast<std::uint64_t>(record[1]);
    tid = static_cast<std::uint64_t>(record[2]);
    name_low = static_cast<std::uint64_t>(record[3]);
    name_high = static_cast<std::uint64_t>(record[4]);
    return true;
  }
};

// A range begins, inside those of its thread and domain.
struct Push {
  static constexpr Kind kKind = Kind::kPush;
  static constexpr bool kIsCounted = true;
  static constexpr std::uint8_t kHasDomain = 1;
  // 0xAARRGGBB
  static constexpr std::uint8_t kHasColor = 2;
  // type as NVTX numbers it
  static constexpr std::uint8_t kHasValue = 4;
  // the program gave no message; aux is 0
  static constexpr std::uint8_t kHasNoName = 8;
  // of PyTorch's autograd, at the begin
  static constexpr std::uint8_t kHasSequence = 16;
  static constexpr std::uint8_t kFlags = 31;

  std::uint8_t flags = 0;
  std::uint32_t slot = 0;  // aux
  std::uint64_t time_ns = 0;
  std::uint32_t domain = 0;  // kHasDomain
  std::uint32_t category = 0;  // kHasDomain
  std::uint64_t color = 0;  // kHasColor
  std::uint64_t value_type = 0;  // kHasValue
  std::uint64_t value = 0;  // kHasValue
  std::uint64_t sequence = 0;  // kHasSequence

  constexpr bool has(std::uint8_t flag) const { return (flags & flag) != 0; }
  constexpr std::uint32_t aux() const {
    return static_cast<std::uint32_t>(std::uint64_t{slot});
  }
  constexpr std::size_t words() const {
    return 2u + (has(kHasDomain) ? 1u : 0u) + (has(kHasColor) ? 1u : 0u) + (has(kHasValue) ? 2u : 0u) + (has(kHasSequence) ? 1u : 0u);
  }
  constexpr void write(std::uint64_t* room) const {
    room[1] = time_ns;
    std::uint64_t* at = room + 2;
    if (has(kHasDomain)) {
      *at++ = std::uint64_t{domain} | std::uint64_t{category} << 32;
    }
    if (has(kHasColor)) {
      *at++ = color;
    }
    if (has(kHasValue)) {
      *at++ = value_type;
      *at++ = value;
    }
    if (has(kHasSequence)) {
      *at++ = sequence;
    }
  }
  constexpr bool read(const std::uint64_t* record, std::size_t size) {
    flags = flags_of(*record);
    if (size != words()) return false;
    slot = static_cast<std::uint32_t>(bits_of<32>(record[0], 0));
    time_ns = static_cast<std::uint64_t>(record[1]);
    const std::uint64_t* at = record + 2;
    if (has(kHasDomain)) {
      domain = static_cast<std::uint32_t>(bits_of<32>(at[0], 0));
      category = static_cast<std::uint32_t>(bits_of<32>(at[0], 32));
      at += 1;
    }
    if (has(kHasColor)) {
      color = static_cast<std::uint64_t>(at[0]);
      at += 1;
    }
    if (has(kHasValue)) {
      value_type = static_cast<std::uint64_t>(at[0]);
      value = static_cast<std::uint64_t>(at[1]);
      at += 2;
    }
    if (has(kHasSequence)) {
      sequence = static_cast<std::uint64_t>(at[0]);
      at += 1;
    }
    return true;
  }
};

// The innermost range of its thread and domain ends.
struct Pop {
  static constexpr Kind kKind = Kind::kPop;
  static constexpr bool kIsCounted = false;
  // of PyTorch's autograd, at the end
  static constexpr std::uint8_t kHasSequence = 1;
  static constexpr std::uint8_t kFlags = 1;

  std::uint8_t flags = 0;
  std::uint32_t domain = 0;  // aux
  std::uint64_t time_ns = 0;
  std::uint64_t sequence = 0;  // kHasSequence

  constexpr bool has(std::uint8_t flag) const { return (flags & flag) != 0; }
  constexpr std::uint32_t aux() const {
    return static_cast<std::uint32_t>(std::uint64_t{domain});
  }
  constexpr std::size_t words() const {
    return 2u + (has(kHasSequence) ? 1u : 0u);
  }
  constexpr void write(std::uint64_t* room) const {
    room[1] = time_ns;
    std::uint64_t* at = room + 2;
    if (has(kHasSequence)) {
      *at++ = sequence;
    }
  }
  constexpr bool read(const std::uint64_t* record, std::size_t size) {
    flags = flags_of(*record);
    if (size != words()) return false;
    domain = static_cast<std::uint32_t>(bits_of<32>(record[0], 0));
    time_ns = static_cast<std::uint64_t>(record[1]);
    const std::uint64_t* at = record + 2;
    if (has(kHasSequence)) {
      sequence = static_cast<std::uint64_t>(at[0]);
      at += 1;
    }
    return true;
  }
};

// A range begins that any thread of the process may end.
struct Start {
  static constexpr Kind kKind = Kind::kStart;
  static constexpr bool kIsCounted = true;
  static constexpr std::uint8_t kHasDomain = 1;
  // 0xAARRGGBB
  static constexpr std::uint8_t kHasColor = 2;
  // type as NVTX numbers it
  static constexpr std::uint8_t kHasValue = 4;
  // the program gave no message; aux is 0
  static constexpr std::uint8_t kHasNoName = 8;
  // of PyTorch's autograd, at the begin
  static constexpr std::uint8_t kHasSequence = 16;
  static constexpr std::uint8_t kFlags = 31;

  std::uint8_t flags = 0;
  std::uint32_t slot = 0;  // aux
  std::uint64_t time_ns = 0;
  std::uint64_t range_id = 0;
  std::uint32_t domain = 0;  // kHasDomain
  std::uint32_t category = 0;  // kHasDomain
  std::uint64_t color = 0;  // kHasColor
  std::uint64_t value_type = 0;  // kHasValue
  std::uint64_t value = 0;  // kHasValue
  std::uint64_t sequence = 0;  // kHasSequence

  constexpr bool has(std::uint8_t flag) const { return (flags & flag) != 0; }
  constexpr std::uint32_t aux() const {
    return static_cast<std::uint32_t>(std::uint64_t{slot});
  }
  constexpr std::size_t words() const {
    return 3u + (has(kHasDomain) ? 1u : 0u) + (has(kHasColor) ? 1u : 0u) + (has(kHasValue) ? 2u : 0u) + (has(kHasSequence) ? 1u : 0u);
  }
  constexpr void write(std::uint64_t* room) const {
    room[1] = time_ns;
    room[2] = range_id;
    std::uint64_t* at = room + 3;
    if (has(kHasDomain)) {
      *at++ = std::uint64_t{domain} | std::uint64_t{category} << 32;
    }
    if (has(kHasColor)) {
      *at++ = color;
    }
    if (has(kHasValue)) {
      *at++ = value_type;
      *at++ = value;
    }
    if (has(kHasSequence)) {
      *at++ = sequence;
    }
  }
  constexpr bool read(const std::uint64_t* record, std::size_t size) {
    flags = flags_of(*record);
    if (size != words()) return false;
    slot = static_cast<std::uint32_t>(bits_of<32>(record[0], 0));
    time_ns = static_cast<std::uint64_t>(record[1]);
    range_id = static_cast<std::uint64_t>(record[2]);
    const std::uint64_t* at = record + 3;
    if (has(kHasDomain)) {
      domain = static_cast<std::uint32_t>(bits_of<32>(at[0], 0));
      category = static_cast<std::uint32_t>(bits_of<32>(at[0], 32));
      at += 1;
    }
    if (has(kHasColor)) {
      color = static_cast<std::uint64_t>(at[0]);
      at += 1;
    }
    if (has(kHasValue)) {
      value_type = static_cast<std::uint64_t>(at[0]);
      value = static_cast<std::uint64_t>(at[1]);
      at += 2;
    }
    if (has(kHasSequence)) {
      sequence = static_cast<std::uint64_t>(at[0]);
      at += 1;
    }
    return true;
  }
};

// A range with an id ends.
struct Stop {
  static constexpr Kind kKind = Kind::kStop;
  static constexpr bool kIsCounted = false;
  static constexpr std::uint8_t kFlags = 0;

  std::uint8_t flags = 0;
  std::uint64_t time_ns = 0;
  std::uint64_t range_id = 0;

  constexpr bool has(std::uint8_t flag) const { return (flags & flag) != 0; }
  constexpr std::uint32_t aux() const {
    return static_cast<std::uint32_t>(0);
  }
  constexpr std::size_t words() const {
    return 3u;
  }
  constexpr void write(std::uint64_t* room) const {
    room[1] = time_ns;
    room[2] = range_id;
  }
  constexpr bool read(const std::uint64_t* record, std::size_t size) {
    flags = flags_of(*record);
    if (size != words()) return false;
    time_ns = static_cast<std::uint64_t>(record[1]);
    range_id = static_cast<std::uint64_t>(record[2]);
    return true;
  }
};

// A point in time.
struct Mark {
  static constexpr Kind kKind = Kind::kMark;
  static constexpr bool kIsCounted = true;
  static constexpr std::uint8_t kHasDomain = 1;
  // 0xAARRGGBB
  static constexpr std::uint8_t kHasColor = 2;
  // type as NVTX numbers it
  static constexpr std::uint8_t kHasValue = 4;
  // the program gave no message; aux is 0
  static constexpr std::uint8_t kHasNoName = 8;
  // of PyTorch's autograd, at the begin
  static constexpr std::uint8_t kHasSequence = 16;
  static constexpr std::uint8_t kFlags = 31;

  std::uint8_t flags = 0;
  std::uint32_t slot = 0;  // aux
  std::uint64_t time_ns = 0;
  std::uint32_t domain = 0;  // kHasDomain
  std::uint32_t category = 0;  // kHasDomain
  std::uint64_t color = 0;  // kHasColor
  std::uint64_t value_type = 0;  // kHasValue
  std::uint64_t value = 0;  // kHasValue
  std::uint64_t sequence = 0;  // kHasSequence

  constexpr bool has(std::uint8_t flag) const { return (flags & flag) != 0; }
  constexpr std::uint32_t aux() const {
    return static_cast<std::uint32_t>(std::uint64_t{slot});
  }
  constexpr std::size_t words() const {
    return 2u + (has(kHasDomain) ? 1u : 0u) + (has(kHasColor) ? 1u : 0u) + (has(kHasValue) ? 2u : 0u) + (has(kHasSequence) ? 1u : 0u);
  }
  constexpr void write(std::uint64_t* room) const {
    room[1] = time_ns;
    std::uint64_t* at = room + 2;
    if (has(kHasDomain)) {
      *at++ = std::uint64_t{domain} | std::uint64_t{category} << 32;
    }
    if (has(kHasColor)) {
      *at++ = color;
    }
    if (has(kHasValue)) {
      *at++ = value_type;
      *at++ = value;
    }
    if (has(kHasSequence)) {
      *at++ = sequence;
    }
  }
  constexpr bool read(const std::uint64_t* record, std::size_t size) {
    flags = flags_of(*record);
    if (size != words()) return false;
    slot = static_cast<std::uint32_t>(bits_of<32>(record[0], 0));
    time_ns = static_cast<std::uint64_t>(record[1]);
    const std::uint64_t* at = record + 2;
    if (has(kHasDomain)) {
      domain = static_cast<std::uint32_t>(bits_of<32>(at[0], 0));
      category = static_cast<std::uint32_t>(bits_of<32>(at[0], 32));
      at += 1;
    }
    if (has(kHasColor)) {
      color = static_cast<std::uint64_t>(at[0]);
      at += 1;
    }
    if (has(kHasValue)) {
      value_type = static_cast<std::uint64_t>(at[0]);
      value = static_cast<std::uint64_t>(at[1]);
      at += 2;
    }
    if (has(kHasSequence)) {
      sequence = static_cast<std::uint64_t>(at[0]);
      at += 1;
    }
    return true;
  }
};

// Of a kPayload: what the data points to follows.
inline constexpr std::uint8_t kPayloadHasTargets = 1;

// is_on 1: recording was off and is on again, for this log: what this thread had open is unknown,
// and its pops may be missing. is_on 0: this thread ended a capture range; recording may be off
// from here on.
struct Window {
  static constexpr Kind kKind = Kind::kWindow;
  static constexpr bool kIsCounted = false;
  static constexpr std::uint8_t kFlags = 0;

  std::uint8_t flags = 0;
  std::uint32_t is_on = 0;  // aux
  std::uint64_t time_ns = 0;

  constexpr bool has(std::uint8_t flag) const { return (flags & flag) != 0; }
  constexpr std::uint32_t aux() const {
    return static_cast<std::uint32_t>(std::uint64_t{is_on});
  }
  constexpr std::size_t words() const {
    return 2u;
  }
  constexpr void write(std::uint64_t* room) const {
    room[1] = time_ns;
  }
  constexpr bool read(const std::uint64_t* record, std::size_t size) {
    flags = flags_of(*record);
    if (size != words()) return false;
    is_on = static_cast<std::uint32_t>(bits_of<32>(record[0], 0));
    time_ns = static_cast<std::uint64_t>(record[1]);
    return true;
  }
};

// This many events were dropped for lack of space just before here; as with Window 1, the open
// ranges of this thread are unknown.
struct Dropped {
  static constexpr Kind kKind = Kind::kDropped;
  static constexpr bool kIsCounted = false;
  static constexpr std::uint8_t kFlags = 0;

  std::uint8_t flags = 0;
  std::uint64_t time_ns = 0;
  std::uint64_t events = 0;

  constexpr bool has(std::uint8_t flag) const { return (flags & flag) != 0; }
  constexpr std::uint32_t aux() const {
    return static_cast<std::uint32_t>(0);
  }
  constexpr std::size_t words() const {
    return 3u;
  }
  constexpr void write(std::uint64_t* room) const {
    room[1] = time_ns;
    room[2] = events;
  }
  constexpr bool read(const std::uint64_t* record, std::size_t size) {
    flags = flags_of(*record);
    if (size != words()) return false;
    time_ns = static_cast<std::uint64_t>(record[1]);
    events = static_cast<std::uint64_t>(record[2]);
    return true;
  }
};

// Monotonic and UTC ns, read together; one per block.
struct Clock {
  static constexpr Kind kKind = Kind::kClock;
  static constexpr bool kIsCounted = false;
  static constexpr std::uint8_t kFlags = 0;

  std::uint8_t flags = 0;
  std::uint64_t monotonic_ns = 0;
  std::uint64_t utc_ns = 0;

  constexpr bool has(std::uint8_t flag) const { return (flags & flag) != 0; }
  constexpr std::uint32_t aux() const {
    return static_cast<std::uint32_t>(0);
  }
  constexpr std::size_t words() const {
    return 3u;
  }
  constexpr void write(std::uint64_t* room) const {
    room[1] = monotonic_ns;
    room[2] = utc_ns;
  }
  constexpr bool read(const std::uint64_t* record, std::size_t size) {
    flags = flags_of(*record);
    if (size != words()) return false;
    monotonic_ns = static_cast<std::uint64_t>(record[1]);
    utc_ns = static_cast<std::uint64_t>(record[2]);
    return true;
  }
};

// The thread has ended, and with it what it had pushed; another thread may take the log over.
struct ThreadEnd {
  static constexpr Kind kKind = Kind::kThreadEnd;
  static constexpr bool kIsCounted = false;
  static constexpr std::uint8_t kFlags = 0;

  std::uint8_t flags = 0;
  std::uint64_t time_ns = 0;

  constexpr bool has(std::uint8_t flag) const { return (flags & flag) != 0; }
  constexpr std::uint32_t aux() const {
    return static_cast<std::uint32_t>(0);
  }
  constexpr std::size_t words() const {
    return 2u;
  }
  constexpr void write(std::uint64_t* room) const {
    room[1] = time_ns;
  }
  constexpr bool read(const std::uint64_t* record, std::size_t size) {
    flags = flags_of(*record);
    if (size != words()) return false;
    time_ns = static_cast<std::uint64_t>(record[1]);
    return true;
  }
};

// A CUDA call. API 1 is the driver's, 2 the runtime's. Status 0 is success, as a cudaError_t or
// CUresult. Only the outermost call is written: what the runtime calls in the driver is part of the
// runtime's call. Place and event: of calls that wait, order streams, record events or capture,
// while CudaCollects has targets. A handle stands for one event until cudaEventDestroy or
// cuEventDestroy.
struct Call {
  static constexpr Kind kKind = Kind::kCall;
  static constexpr bool kIsCounted = true;
  // it puts work on a device, unless its stream was being captured or it failed: expect a record of
  // GPU work with its correlation. Not of copies and fills of nothing
  static constexpr std::uint8_t kLaunches = 1;
  // it begins or ends the capture of a stream
  static constexpr std::uint8_t kCaptures = 2;
  // it launches a graph
  static constexpr std::uint8_t kIsGraph = 4;
  // number of a Chain
  static constexpr std::uint8_t kHasChain = 8;
  // stream kCudaNone: none or not known
  static constexpr std::uint8_t kHasPlace = 16;
  // the event's handle, as the program has it
  static constexpr std::uint8_t kHasEvent = 32;
  // number of a PythonChain
  static constexpr std::uint8_t kHasPythonChain = 64;
  static constexpr std::uint8_t kFlags = 127;

  std::uint8_t flags = 0;
  std::uint32_t call = 0;  // aux
  std::uint32_t api = 0;  // aux
  std::uint64_t start_ns = 0;
  std::uint64_t end_ns = 0;
  std::uint32_t correlation = 0;
  std::uint32_t status = 0;
  std::uint64_t chain = 0;  // kHasChain
  std::uint32_t stream = 0;  // kHasPlace
  std::uint32_t context = 0;  // kHasPlace
  std::uint64_t event = 0;  // kHasEvent
  std::uint64_t python_chain = 0;  // kHasPythonChain

  constexpr bool has(std::uint8_t flag) const { return (flags & flag) != 0; }
  constexpr std::uint32_t aux() const {
    return static_cast<std::uint32_t>(fitted<16>(call) | fitted<16>(api) << 16);
  }
  constexpr std::size_t words() const {
    return 4u + (has(kHasChain) ? 1u : 0u) + (has(kHasPlace) ? 1u : 0u) + (has(kHasEvent) ? 1u : 0u) + (has(kHasPythonChain) ? 1u : 0u);
  }
  constexpr void write(std::uint64_t* room) const {
    room[1] = start_ns;
    room[2] = end_ns;
    room[3] = std::uint64_t{correlation} | std::uint64_t{status} << 32;
    std::uint64_t* at = room + 4;
    if (has(kHasChain)) {
      *at++ = chain;
    }
    if (has(kHasPlace)) {
      *at++ = std::uint64_t{stream} | std::uint64_t{context} << 32;
    }
    if (has(kHasEvent)) {
      *at++ = event;
    }
    if (has(kHasPythonChain)) {
      *at++ = python_chain;
    }
  }
  constexpr bool read(const std::uint64_t* record, std::size_t size) {
    flags = flags_of(*record);
    if (size != words()) return false;
    call = static_cast<std::uint32_t>(bits_of<16>(record[0], 0));
    api = static_cast<std::uint32_t>(bits_of<16>(record[0], 16));
    start_ns = static_cast<std::uint64_t>(record[1]);
    end_ns = static_cast<std::uint64_t>(record[2]);
    correlation = static_cast<std::uint32_t>(bits_of<32>(record[3], 0));
    status = static_cast<std::uint32_t>(bits_of<32>(record[3], 32));
    const std::uint64_t* at = record + 4;
    if (has(kHasChain)) {
      chain = static_cast<std::uint64_t>(at[0]);
      at += 1;
    }
    if (has(kHasPlace)) {
      stream = static_cast<std::uint32_t>(bits_of<32>(at[0], 0));
      context = static_cast<std::uint32_t>(bits_of<32>(at[0], 32));
      at += 1;
    }
    if (has(kHasEvent)) {
      event = static_cast<std::uint64_t>(at[0]);
      at += 1;
    }
    if (has(kHasPythonChain)) {
      python_chain = static_cast<std::uint64_t>(at[0]);
      at += 1;
    }
    return true;
  }
};

// One execution of a kernel; name 0: it has none. Registers are per thread.
struct Kernel {
  static constexpr Kind kKind = Kind::kKernel;
  static constexpr bool kIsCounted = true;
  static constexpr std::uint8_t kHasGraphNode = 1;
  static constexpr std::uint8_t kHasCluster = 2;
  static constexpr std::uint8_t kIsCooperative = 16;
  static constexpr std::uint8_t kIsCooperativeMulti = 32;
  static constexpr std::uint8_t kIsDeviceLaunched = 64;
  static constexpr std::uint8_t kFlags = 115;

  std::uint8_t flags = 0;
  std::uint32_t name = 0;  // aux
  std::uint64_t start_ns = 0;
  std::uint64_t end_ns = 0;
  std::uint32_t device = 0;
  std::uint32_t context = 0;
  std::uint32_t stream = 0;
  std::uint32_t correlation = 0;
  std::uint32_t grid_x = 0;
  std::uint32_t grid_y = 0;
  std::uint32_t grid_z = 0;
  std::uint32_t block_x = 0;
  std::uint32_t block_y = 0;
  std::uint32_t block_z = 0;
  std::uint32_t registers = 0;
  std::uint32_t static_shared_bytes = 0;
  std::uint32_t dynamic_shared_bytes = 0;
  std::uint32_t executed_shared_bytes = 0;
  std::uint32_t local_bytes_per_thread = 0;
  std::uint64_t local_bytes = 0;
  std::uint64_t graph_node = 0;  // kHasGraphNode
  std::uint32_t graph = 0;  // kHasGraphNode
  std::uint32_t cluster_x = 0;  // kHasCluster
  std::uint32_t cluster_y = 0;  // kHasCluster
  std::uint32_t cluster_z = 0;  // kHasCluster
  std::uint32_t cluster_policy = 0;  // kHasCluster

  constexpr bool has(std::uint8_t flag) const { return (flags & flag) != 0; }
  constexpr std::uint32_t aux() const {
    return static_cast<std::uint32_t>(std::uint64_t{name});
  }
  constexpr std::size_t words() const {
    return 10u + (has(kHasGraphNode) ? 2u : 0u) + (has(kHasCluster) ? 1u : 0u);
  }
  constexpr void write(std::uint64_t* room) const {
    room[1] = start_ns;
    room[2] = end_ns;
    room[3] = std::uint64_t{device} | std::uint64_t{context} << 32;
    room[4] = std::uint64_t{stream} | std::uint64_t{correlation} << 32;
    room[5] = std::uint64_t{grid_x} | fitted<16>(grid_y) << 32 | fitted<16>(grid_z) << 48;
    room[6] = fitted<16>(block_x) | fitted<16>(block_y) << 16 | fitted<16>(block_z) << 32 | fitted<16>(registers) << 48;
    room[7] = std::uint64_t{static_shared_bytes} | std::uint64_t{dynamic_shared_bytes} << 32;
    room[8] = std::uint64_t{executed_shared_bytes} | std::uint64_t{local_bytes_per_thread} << 32;
    room[9] = local_bytes;
    std::uint64_t* at = room + 10;
    if (has(kHasGraphNode)) {
      *at++ = graph_node;
      *at++ = std::uint64_t{graph};
    }
    if (has(kHasCluster)) {
      *at++ = fitted<16>(cluster_x) | fitted<16>(cluster_y) << 16 | fitted<16>(cluster_z) << 32 | fitted<16>(cluster_policy) << 48;
    }
  }
  constexpr bool read(const std::uint64_t* record, std::size_t size) {
    flags = flags_of(*record);
    if (size != words()) return false;
    name = static_cast<std::uint32_t>(bits_of<32>(record[0], 0));
    start_ns = static_cast<std::uint64_t>(record[1]);
    end_ns = static_cast<std::uint64_t>(record[2]);
    device = static_cast<std::uint32_t>(bits_of<32>(record[3], 0));
    context = static_cast<std::uint32_t>(bits_of<32>(record[3], 32));
    stream = static_cast<std::uint32_t>(bits_of<32>(record[4], 0));
    correlation = static_cast<std::uint32_t>(bits_of<32>(record[4], 32));
    grid_x = static_cast<std::uint32_t>(bits_of<32>(record[5], 0));
    grid_y = static_cast<std::uint32_t>(bits_of<16>(record[5], 32));
    grid_z = static_cast<std::uint32_t>(bits_of<16>(record[5], 48));
    block_x = static_cast<std::uint32_t>(bits_of<16>(record[6], 0));
    block_y = static_cast<std::uint32_t>(bits_of<16>(record[6], 16));
    block_z = static_cast<std::uint32_t>(bits_of<16>(record[6], 32));
    registers = static_cast<std::uint32_t>(bits_of<16>(record[6], 48));
    static_shared_bytes = static_cast<std::uint32_t>(bits_of<32>(record[7], 0));
    dynamic_shared_bytes = static_cast<std::uint32_t>(bits_of<32>(record[7], 32));
    executed_shared_bytes = static_cast<std::uint32_t>(bits_of<32>(record[8], 0));
    local_bytes_per_thread = static_cast<std::uint32_t>(bits_of<32>(record[8], 32));
    local_bytes = static_cast<std::uint64_t>(record[9]);
    const std::uint64_t* at = record + 10;
    if (has(kHasGraphNode)) {
      graph_node = static_cast<std::uint64_t>(at[0]);
      graph = static_cast<std::uint32_t>(bits_of<32>(at[1], 0));
      at += 2;
    }
    if (has(kHasCluster)) {
      cluster_x = static_cast<std::uint32_t>(bits_of<16>(at[0], 0));
      cluster_y = static_cast<std::uint32_t>(bits_of<16>(at[0], 16));
      cluster_z = static_cast<std::uint32_t>(bits_of<16>(at[0], 32));
      cluster_policy = static_cast<std::uint32_t>(bits_of<16>(at[0], 48));
      at += 1;
    }
    return true;
  }
};

// A copy; its kind and memories as CUPTI numbers them: memory 0 unknown, 1 pageable, 2 pinned, 3
// device, 4 array, 5 managed, 6 device static, 7 managed static. copy_flags 1: asynchronous. Kinds
// 11, 12 and 13 are migrations of managed memory: to a device, to the host, between devices.
struct Copy {
  static constexpr Kind kKind = Kind::kCopy;
  static constexpr bool kIsCounted = true;
  static constexpr std::uint8_t kHasGraphNode = 1;
  static constexpr std::uint8_t kHasPeer = 2;
  // of the batch
  static constexpr std::uint8_t kHasCount = 4;
  // of managed memory; cause 0: unknown, 1: the program asked for it, 2: a page fault, 3: a
  // prefetch by the driver, 4: eviction, 5: access counters
  static constexpr std::uint8_t kIsMigration = 8;
  static constexpr std::uint8_t kFlags = 15;

  std::uint8_t flags = 0;
  std::uint32_t copy_kind = 0;  // aux
  std::uint32_t source_memory = 0;  // aux
  std::uint32_t destination_memory = 0;  // aux
  std::uint32_t copy_flags = 0;  // aux
  std::uint64_t start_ns = 0;
  std::uint64_t end_ns = 0;
  std::uint32_t device = 0;
  std::uint32_t context = 0;
  std::uint32_t stream = 0;
  std::uint32_t correlation = 0;
  std::uint64_t bytes = 0;
  std::uint64_t graph_node = 0;  // kHasGraphNode
  std::uint32_t graph = 0;  // kHasGraphNode
  std::uint32_t source_device = 0;  // kHasPeer
  std::uint32_t destination_device = 0;  // kHasPeer
  std::uint32_t source_context = 0;  // kHasPeer
  std::uint32_t destination_context = 0;  // kHasPeer
  std::uint64_t copies = 0;  // kHasCount
  std::uint64_t virtual_address = 0;  // kIsMigration
  std::uint32_t cause = 0;  // kIsMigration

  constexpr bool has(std::uint8_t flag) const { return (flags & flag) != 0; }
  constexpr std::uint32_t aux() const {
    return static_cast<std::uint32_t>(fitted<8>(copy_kind) | fitted<8>(source_memory) << 8 | fitted<8>(destination_memory) << 16 | fitted<8>(copy_flags) << 24);
  }
  constexpr std::size_t words() const {
    return 6u + (has(kHasGraphNode) ? 2u : 0u) + (has(kHasPeer) ? 2u : 0u) + (has(kHasCount) ? 1u : 0u) + (has(kIsMigration) ? 2u : 0u);
  }
  constexpr void write(std::uint64_t* room) const {
    room[1] = start_ns;
    room[2] = end_ns;
    room[3] = std::uint64_t{device} | std::uint64_t{context} << 32;
    room[4] = std::uint64_t{stream} | std::uint64_t{correlation} << 32;
    room[5] = bytes;
    std::uint64_t* at = room + 6;
    if (has(kHasGraphNode)) {
      *at++ = graph_node;
      *at++ = std::uint64_t{graph};
    }
    if (has(kHasPeer)) {
      *at++ = std::uint64_t{source_device} | std::uint64_t{destination_device} << 32;
      *at++ = std::uint64_t{source_context} | std::uint64_t{destination_context} << 32;
    }
    if (has(kHasCount)) {
      *at++ = copies;
    }
    if (has(kIsMigration)) {
      *at++ = virtual_address;
      *at++ = std::uint64_t{cause};
    }
  }
  constexpr bool read(const std::uint64_t* record, std::size_t size) {
    flags = flags_of(*record);
    if (size != words()) return false;
    copy_kind = static_cast<std::uint32_t>(bits_of<8>(record[0], 0));
    source_memory = static_cast<std::uint32_t>(bits_of<8>(record[0], 8));
    destination_memory = static_cast<std::uint32_t>(bits_of<8>(record[0], 16));
    copy_flags = static_cast<std::uint32_t>(bits_of<8>(record[0], 24));
    start_ns = static_cast<std::uint64_t>(record[1]);
    end_ns = static_cast<std::uint64_t>(record[2]);
    device = static_cast<std::uint32_t>(bits_of<32>(record[3], 0));
    context = static_cast<std::uint32_t>(bits_of<32>(record[3], 32));
    stream = static_cast<std::uint32_t>(bits_of<32>(record[4], 0));
    correlation = static_cast<std::uint32_t>(bits_of<32>(record[4], 32));
    bytes = static_cast<std::uint64_t>(record[5]);
    const std::uint64_t* at = record + 6;
    if (has(kHasGraphNode)) {
      graph_node = static_cast<std::uint64_t>(at[0]);
      graph = static_cast<std::uint32_t>(bits_of<32>(at[1], 0));
      at += 2;
    }
    if (has(kHasPeer)) {
      source_device = static_cast<std::uint32_t>(bits_of<32>(at[0], 0));
      destination_device = static_cast<std::uint32_t>(bits_of<32>(at[0], 32));
      source_context = static_cast<std::uint32_t>(bits_of<32>(at[1], 0));
      destination_context = static_cast<std::uint32_t>(bits_of<32>(at[1], 32));
      at += 2;
    }
    if (has(kHasCount)) {
      copies = static_cast<std::uint64_t>(at[0]);
      at += 1;
    }
    if (has(kIsMigration)) {
      virtual_address = static_cast<std::uint64_t>(at[0]);
      cause = static_cast<std::uint32_t>(bits_of<32>(at[1], 0));
      at += 2;
    }
    return true;
  }
};

// A memset. Memory as in Copy; fill_flags 1: asynchronous.
struct Fill {
  static constexpr Kind kKind = Kind::kFill;
  static constexpr bool kIsCounted = true;
  static constexpr std::uint8_t kHasGraphNode = 1;
  static constexpr std::uint8_t kFlags = 1;

  std::uint8_t flags = 0;
  std::uint32_t value = 0;  // aux
  std::uint64_t start_ns = 0;
  std::uint64_t end_ns = 0;
  std::uint32_t device = 0;
  std::uint32_t context = 0;
  std::uint32_t stream = 0;
  std::uint32_t correlation = 0;
  std::uint64_t bytes = 0;
  std::uint32_t memory = 0;
  std::uint32_t fill_flags = 0;
  std::uint64_t graph_node = 0;  // kHasGraphNode
  std::uint32_t graph = 0;  // kHasGraphNode

  constexpr bool has(std::uint8_t flag) const { return (flags & flag) != 0; }
  constexpr std::uint32_t aux() const {
    return static_cast<std::uint32_t>(std::uint64_t{value});
  }
  constexpr std::size_t words() const {
    return 7u + (has(kHasGraphNode) ? 2u : 0u);
  }
  constexpr void write(std::uint64_t* room) const {
    room[1] = start_ns;
    room[2] = end_ns;
    room[3] = std::uint64_t{device} | std::uint64_t{context} << 32;
    room[4] = std::uint64_t{stream} | std::uint64_t{correlation} << 32;
    room[5] = bytes;
    room[6] = std::uint64_t{memory} | std::uint64_t{fill_flags} << 32;
    std::uint64_t* at = room + 7;
    if (has(kHasGraphNode)) {
      *at++ = graph_node;
      *at++ = std::uint64_t{graph};
    }
  }
  constexpr bool read(const std::uint64_t* record, std::size_t size) {
    flags = flags_of(*record);
    if (size != words()) return false;
    value = static_cast<std::uint32_t>(bits_of<32>(record[0], 0));
    start_ns = static_cast<std::uint64_t>(record[1]);
    end_ns = static_cast<std::uint64_t>(record[2]);
    device = static_cast<std::uint32_t>(bits_of<32>(record[3], 0));
    context = static_cast<std::uint32_t>(bits_of<32>(record[3], 32));
    stream = static_cast<std::uint32_t>(bits_of<32>(record[4], 0));
    correlation = static_cast<std::uint32_t>(bits_of<32>(record[4], 32));
    bytes = static_cast<std::uint64_t>(record[5]);
    memory = static_cast<std::uint32_t>(bits_of<32>(record[6], 0));
    fill_flags = static_cast<std::uint32_t>(bits_of<32>(record[6], 32));
    const std::uint64_t* at = record + 7;
    if (has(kHasGraphNode)) {
      graph_node = static_cast<std::uint64_t>(at[0]);
      graph = static_cast<std::uint32_t>(bits_of<32>(at[1], 0));
      at += 2;
    }
    return true;
  }
};

// One launch of a graph traced at graph level; its nodes have no records. The graph's id is that of
// the launched (instantiated) one. Also written during pauses: those without a Call were launched
// then.
struct Graph {
  static constexpr Kind kKind = Kind::kGraph;
  static constexpr bool kIsCounted = true;
  // of its last node
  static constexpr std::uint8_t kHasPeer = 2;
  static constexpr std::uint8_t kFlags = 2;

  std::uint8_t flags = 0;
  std::uint32_t graph = 0;  // aux
  std::uint64_t start_ns = 0;
  std::uint64_t end_ns = 0;
  std::uint32_t device = 0;
  std::uint32_t context = 0;
  std::uint32_t stream = 0;
  std::uint32_t correlation = 0;
  std::uint32_t end_device = 0;  // kHasPeer
  std::uint32_t end_context = 0;  // kHasPeer

  constexpr bool has(std::uint8_t flag) const { return (flags & flag) != 0; }
  constexpr std::uint32_t aux() const {
    return static_cast<std::uint32_t>(std::uint64_t{graph});
  }
  constexpr std::size_t words() const {
    return 5u + (has(kHasPeer) ? 2u : 0u);
  }
  constexpr void write(std::uint64_t* room) const {
    room[1] = start_ns;
    room[2] = end_ns;
    room[3] = std::uint64_t{device} | std::uint64_t{context} << 32;
    room[4] = std::uint64_t{stream} | std::uint64_t{correlation} << 32;
    std::uint64_t* at = room + 5;
    if (has(kHasPeer)) {
      *at++ = std::uint64_t{end_device};
      *at++ = std::uint64_t{end_context};
    }
  }
  constexpr bool read(const std::uint64_t* record, std::size_t size) {
    flags = flags_of(*record);
    if (size != words()) return false;
    graph = static_cast<std::uint32_t>(bits_of<32>(record[0], 0));
    start_ns = static_cast<std::uint64_t>(record[1]);
    end_ns = static_cast<std::uint64_t>(record[2]);
    device = static_cast<std::uint32_t>(bits_of<32>(record[3], 0));
    context = static_cast<std::uint32_t>(bits_of<32>(record[3], 32));
    stream = static_cast<std::uint32_t>(bits_of<32>(record[4], 0));
    correlation = static_cast<std::uint32_t>(bits_of<32>(record[4], 32));
    const std::uint64_t* at = record + 5;
    if (has(kHasPeer)) {
      end_device = static_cast<std::uint32_t>(bits_of<32>(at[0], 0));
      end_context = static_cast<std::uint32_t>(bits_of<32>(at[1], 0));
      at += 2;
    }
    return true;
  }
};

// Kind 1: the host waited for an event, 2: a stream is to wait for an event (the host went on), 3:
// the host waited for a stream, 4: for a context. event_sync 0: not known. The device is that of
// the context. Queries that found the work done are here, too, as kinds 1 and 3: their calls are
// cudaEventQuery and the like.
struct Wait {
  static constexpr Kind kKind = Kind::kWait;
  static constexpr bool kIsCounted = false;
  static constexpr std::uint8_t kFlags = 0;

  std::uint8_t flags = 0;
  std::uint32_t wait_kind = 0;  // aux
  std::uint64_t start_ns = 0;
  std::uint64_t end_ns = 0;
  std::uint32_t context = 0;
  std::uint32_t stream = 0;
  std::uint32_t correlation = 0;
  std::uint32_t event = 0;
  std::uint64_t event_sync = 0;
  std::uint32_t status = 0;

  constexpr bool has(std::uint8_t flag) const { return (flags & flag) != 0; }
  constexpr std::uint32_t aux() const {
    return static_cast<std::uint32_t>(std::uint64_t{wait_kind});
  }
  constexpr std::size_t words() const {
    return 7u;
  }
  constexpr void write(std::uint64_t* room) const {
    room[1] = start_ns;
    room[2] = end_ns;
    room[3] = std::uint64_t{context} | std::uint64_t{stream} << 32;
    room[4] = std::uint64_t{correlation} | std::uint64_t{event} << 32;
    room[5] = event_sync;
    room[6] = std::uint64_t{status};
  }
  constexpr bool read(const std::uint64_t* record, std::size_t size) {
    flags = flags_of(*record);
    if (size != words()) return false;
    wait_kind = static_cast<std::uint32_t>(bits_of<32>(record[0], 0));
    start_ns = static_cast<std::uint64_t>(record[1]);
    end_ns = static_cast<std::uint64_t>(record[2]);
    context = static_cast<std::uint32_t>(bits_of<32>(record[3], 0));
    stream = static_cast<std::uint32_t>(bits_of<32>(record[3], 32));
    correlation = static_cast<std::uint32_t>(bits_of<32>(record[4], 0));
    event = static_cast<std::uint32_t>(bits_of<32>(record[4], 32));
    event_sync = static_cast<std::uint64_t>(record[5]);
    status = static_cast<std::uint32_t>(bits_of<32>(record[6], 0));
    return true;
  }
};

// A recording of an event in a stream. Device kCudaNone, event_sync 0: not known.
struct Event {
  static constexpr Kind kKind = Kind::kEvent;
  static constexpr bool kIsCounted = false;
  // when the device reached it
  static constexpr std::uint8_t kHasDeviceTime = 1;
  static constexpr std::uint8_t kFlags = 1;

  std::uint8_t flags = 0;
  std::uint32_t event = 0;  // aux
  std::uint32_t context = 0;
  std::uint32_t stream = 0;
  std::uint32_t correlation = 0;
  std::uint32_t device = 0;
  std::uint64_t event_sync = 0;
  std::uint64_t device_time_ns = 0;  // kHasDeviceTime

  constexpr bool has(std::uint8_t flag) const { return (flags & flag) != 0; }
  constexpr std::uint32_t aux() const {
    return static_cast<std::uint32_t>(std::uint64_t{event});
  }
  constexpr std::size_t words() const {
    return 4u + (has(kHasDeviceTime) ? 1u : 0u);
  }
  constexpr void write(std::uint64_t* room) const {
    room[1] = std::uint64_t{context} | std::uint64_t{stream} << 32;
    room[2] = std::uint64_t{correlation} | std::uint64_t{device} << 32;
    room[3] = event_sync;
    std::uint64_t* at = room + 4;
    if (has(kHasDeviceTime)) {
      *at++ = device_time_ns;
    }
  }
  constexpr bool read(const std::uint64_t* record, std::size_t size) {
    flags = flags_of(*record);
    if (size != words()) return false;
    event = static_cast<std::uint32_t>(bits_of<32>(record[0], 0));
    context = static_cast<std::uint32_t>(bits_of<32>(record[1], 0));
    stream = static_cast<std::uint32_t>(bits_of<32>(record[1], 32));
    correlation = static_cast<std::uint32_t>(bits_of<32>(record[2], 0));
    device = static_cast<std::uint32_t>(bits_of<32>(record[2], 32));
    event_sync = static_cast<std::uint64_t>(record[3]);
    const std::uint64_t* at = record + 4;
    if (has(kHasDeviceTime)) {
      device_time_ns = static_cast<std::uint64_t>(at[0]);
      at += 1;
    }
    return true;
  }
};

// Operation 1: allocation, 2: release. Memory as in Copy. Pool type 0: none, 1: local, 2: imported.
// The name is that of the variable.
struct Memory {
  static constexpr Kind kKind = Kind::kMemory;
  static constexpr bool kIsCounted = false;
  static constexpr std::uint8_t kHasPool = 1;
  static constexpr std::uint8_t kHasName = 2;
  static constexpr std::uint8_t kFlags = 3;

  std::uint8_t flags = 0;
  std::uint32_t operation = 0;  // aux
  std::uint32_t memory = 0;  // aux
  std::uint32_t is_async = 0;  // aux
  std::uint32_t pool_type = 0;  // aux
  std::uint64_t time_ns = 0;
  std::uint32_t device = 0;
  std::uint32_t context = 0;
  std::uint32_t stream = 0;
  std::uint32_t correlation = 0;
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  std::uint64_t pool_address = 0;  // kHasPool
  std::uint64_t pool_bytes = 0;  // kHasPool
  std::uint64_t pool_used_bytes = 0;  // kHasPool
  std::uint64_t pool_threshold_bytes = 0;  // kHasPool
  std::uint32_t name = 0;  // kHasName

  constexpr bool has(std::uint8_t flag) const { return (flags & flag) != 0; }
  constexpr std::uint32_t aux() const {
    return static_cast<std::uint32_t>(fitted<8>(operation) | fitted<8>(memory) << 8 | fitted<8>(is_async) << 16 | fitted<8>(pool_type) << 24);
  }
  constexpr std::size_t words() const {
    return 6u + (has(kHasPool) ? 4u : 0u) + (has(kHasName) ? 1u : 0u);
  }
  constexpr void write(std::uint64_t* room) const {
    room[1] = time_ns;
    room[2] = std::uint64_t{device} | std::uint64_t{context} << 32;
    room[3] = std::uint64_t{stream} | std::uint64_t{correlation} << 32;
    room[4] = address;
    room[5] = bytes;
    std::uint64_t* at = room + 6;
    if (has(kHasPool)) {
      *at++ = pool_address;
      *at++ = pool_bytes;
      *at++ = pool_used_bytes;
      *at++ = pool_threshold_bytes;
    }
    if (has(kHasName)) {
      *at++ = std::uint64_t{name};
    }
  }
  constexpr bool read(const std::uint64_t* record, std::size_t size) {
    flags = flags_of(*record);
    if (size != words()) return false;
    operation = static_cast<std::uint32_t>(bits_of<8>(record[0], 0));
    memory = static_cast<std::uint32_t>(bits_of<8>(record[0], 8));
    is_async = static_cast<std::uint32_t>(bits_of<8>(record[0], 16));
    pool_type = static_cast<std::uint32_t>(bits_of<8>(record[0], 24));
    time_ns = static_cast<std::uint64_t>(record[1]);
    device = static_cast<std::uint32_t>(bits_of<32>(record[2], 0));
    context = static_cast<std::uint32_t>(bits_of<32>(record[2], 32));
    stream = static_cast<std::uint32_t>(bits_of<32>(record[3], 0));
    correlation = static_cast<std::uint32_t>(bits_of<32>(record[3], 32));
    address = static_cast<std::uint64_t>(record[4]);
    bytes = static_cast<std::uint64_t>(record[5]);
    const std::uint64_t* at = record + 6;
    if (has(kHasPool)) {
      pool_address = static_cast<std::uint64_t>(at[0]);
      pool_bytes = static_cast<std::uint64_t>(at[1]);
      pool_used_bytes = static_cast<std::uint64_t>(at[2]);
      pool_threshold_bytes = static_cast<std::uint64_t>(at[3]);
      at += 4;
    }
    if (has(kHasName)) {
      name = static_cast<std::uint32_t>(bits_of<32>(at[0], 0));
      at += 1;
    }
    return true;
  }
};

// A pool of memory. Operation 1: created, 2: destroyed, 3: trimmed; its type as in Memory.
struct Pool {
  static constexpr Kind kKind = Kind::kPool;
  static constexpr bool kIsCounted = false;
  static constexpr std::uint8_t kFlags = 0;

  std::uint8_t flags = 0;
  std::uint32_t operation = 0;  // aux
  std::uint32_t pool_type = 0;  // aux
  std::uint64_t time_ns = 0;
  std::uint32_t device = 0;
  std::uint32_t correlation = 0;
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  std::uint64_t used_bytes = 0;
  std::uint64_t threshold_bytes = 0;
  std::uint64_t keep_bytes = 0;

  constexpr bool has(std::uint8_t flag) const { return (flags & flag) != 0; }
  constexpr std::uint32_t aux() const {
    return static_cast<std::uint32_t>(fitted<8>(operation) | fitted<8>(pool_type) << 8);
  }
  constexpr std::size_t words() const {
    return 8u;
  }
  constexpr void write(std::uint64_t* room) const {
    room[1] = time_ns;
    room[2] = std::uint64_t{device} | std::uint64_t{correlation} << 32;
    room[3] = address;
    room[4] = bytes;
    room[5] = used_bytes;
    room[6] = threshold_bytes;
    room[7] = keep_bytes;
  }
  constexpr bool read(const std::uint64_t* record, std::size_t size) {
    flags = flags_of(*record);
    if (size != words()) return false;
    operation = static_cast<std::uint32_t>(bits_of<8>(record[0], 0));
    pool_type = static_cast<std::uint32_t>(bits_of<8>(record[0], 8));
    time_ns = static_cast<std::uint64_t>(record[1]);
    device = static_cast<std::uint32_t>(bits_of<32>(record[2], 0));
    correlation = static_cast<std::uint32_t>(bits_of<32>(record[2], 32));
    address = static_cast<std::uint64_t>(record[3]);
    bytes = static_cast<std::uint64_t>(record[4]);
    used_bytes = static_cast<std::uint64_t>(record[5]);
    threshold_bytes = static_cast<std::uint64_t>(record[6]);
    keep_bytes = static_cast<std::uint64_t>(record[7]);
    return true;
  }
};

// Time that profiling itself took, or that a call took for a reason worth a name. Kind as CUPTI
// numbers it: 1 driver compiler, 1 << 16 buffer flush, 2 << 16 instrumentation, 3 << 16 resource
// creation, 4 << 16 module loading by the runtime, 5 << 16 lazy function loading, 6 << 16 command
// buffer full, 7 << 16 buffer request, 8 << 16 unified memory set-up. Object kind 2: thread, 4:
// context. Correlation 0: none.
struct Overhead {
  static constexpr Kind kKind = Kind::kOverhead;
  static constexpr bool kIsCounted = false;
  static constexpr std::uint8_t kFlags = 0;

  std::uint8_t flags = 0;
  std::uint32_t overhead_kind = 0;  // aux
  std::uint64_t start_ns = 0;
  std::uint64_t end_ns = 0;
  std::uint32_t object_kind = 0;
  std::uint32_t object_id = 0;
  std::uint32_t correlation = 0;

  constexpr bool has(std::uint8_t flag) const { return (flags & flag) != 0; }
  constexpr std::uint32_t aux() const {
    return static_cast<std::uint32_t>(std::uint64_t{overhead_kind});
  }
  constexpr std::size_t words() const {
    return 5u;
  }
  constexpr void write(std::uint64_t* room) const {
    room[1] = start_ns;
    room[2] = end_ns;
    room[3] = std::uint64_t{object_kind} | std::uint64_t{object_id} << 32;
    room[4] = std::uint64_t{correlation};
  }
  constexpr bool read(const std::uint64_t* record, std::size_t size) {
    flags = flags_of(*record);
    if (size != words()) return false;
    overhead_kind = static_cast<std::uint32_t>(bits_of<32>(record[0], 0));
    start_ns = static_cast<std::uint64_t>(record[1]);
    end_ns = static_cast<std::uint64_t>(record[2]);
    object_kind = static_cast<std::uint32_t>(bits_of<32>(record[3], 0));
    object_id = static_cast<std::uint32_t>(bits_of<32>(record[3], 32));
    correlation = static_cast<std::uint32_t>(bits_of<32>(record[4], 0));
    return true;
  }
};

// A GPU, by CUDA's id in this process; 0: not known. uuid: its 16 bytes. pci: domain (32 bits), bus
// (16), device (16); all bits set: not known. Maxima are per multiprocessor. gpu_number is one more
// than its number among the machine's GPUs.
struct Device {
  static constexpr Kind kKind = Kind::kDevice;
  static constexpr bool kIsCounted = false;
  static constexpr std::uint8_t kFlags = 0;

  std::uint8_t flags = 0;
  std::uint32_t device = 0;  // aux
  std::uint32_t name = 0;
  std::uint32_t multiprocessors = 0;
  std::uint64_t uuid_low = 0;
  std::uint64_t uuid_high = 0;
  std::uint64_t memory_bytes = 0;
  std::uint64_t memory_bytes_per_s = 0;
  std::uint64_t clock_hz = 0;
  std::uint32_t l2_bytes = 0;
  std::uint32_t warp_size = 0;
  std::uint32_t compute_major = 0;
  std::uint32_t compute_minor = 0;
  std::uint64_t pci = 0;
  std::uint32_t max_threads = 0;
  std::uint32_t max_shared_bytes = 0;
  std::uint32_t max_registers = 0;
  std::uint32_t is_mig = 0;
  std::uint32_t gpu_number = 0;

  constexpr bool has(std::uint8_t flag) const { return (flags & flag) != 0; }
  constexpr std::uint32_t aux() const {
    return static_cast<std::uint32_t>(std::uint64_t{device});
  }
  constexpr std::size_t words() const {
    return 12u;
  }
  constexpr void write(std::uint64_t* room) const {
    room[1] = std::uint64_t{name} | std::uint64_t{multiprocessors} << 32;
    room[2] = uuid_low;
    room[3] = uuid_high;
    room[4] = memory_bytes;
    room[5] = memory_bytes_per_s;
    room[6] = clock_hz;
    room[7] = std::uint64_t{l2_bytes} | std::uint64_t{warp_size} << 32;
    room[8] = std::uint64_t{compute_major} | std::uint64_t{compute_minor} << 32;
    room[9] = pci;
    room[10] = std::uint64_t{max_threads} | std::uint64_t{max_shared_bytes} << 32;
    room[11] = std::uint64_t{max_registers} | fitted<8>(is_mig) << 32 | fitted<24>(gpu_number) << 40;
  }
  constexpr bool read(const std::uint64_t* record, std::size_t size) {
    flags = flags_of(*record);
    if (size != words()) return false;
    device = static_cast<std::uint32_t>(bits_of<32>(record[0], 0));
    name = static_cast<std::uint32_t>(bits_of<32>(record[1], 0));
    multiprocessors = static_cast<std::uint32_t>(bits_of<32>(record[1], 32));
    uuid_low = static_cast<std::uint64_t>(record[2]);
    uuid_high = static_cast<std::uint64_t>(record[3]);
    memory_bytes = static_cast<std::uint64_t>(record[4]);
    memory_bytes_per_s = static_cast<std::uint64_t>(record[5]);
    clock_hz = static_cast<std::uint64_t>(record[6]);
    l2_bytes = static_cast<std::uint32_t>(bits_of<32>(record[7], 0));
    warp_size = static_cast<std::uint32_t>(bits_of<32>(record[7], 32));
    compute_major = static_cast<std::uint32_t>(bits_of<32>(record[8], 0));
    compute_minor = static_cast<std::uint32_t>(bits_of<32>(record[8], 32));
    pci = static_cast<std::uint64_t>(record[9]);
    max_threads = static_cast<std::uint32_t>(bits_of<32>(record[10], 0));
    max_shared_bytes = static_cast<std::uint32_t>(bits_of<32>(record[10], 32));
    max_registers = static_cast<std::uint32_t>(bits_of<32>(record[11], 0));
    is_mig = static_cast<std::uint32_t>(bits_of<8>(record[11], 32));
    gpu_number = static_cast<std::uint32_t>(bits_of<24>(record[11], 40));
    return true;
  }
};

// A context, and the id of its null stream. Parent 0: none. May be repeated.
struct Context {
  static constexpr Kind kKind = Kind::kContext;
  static constexpr bool kIsCounted = false;
  static constexpr std::uint8_t kFlags = 0;

  std::uint8_t flags = 0;
  std::uint32_t context = 0;  // aux
  std::uint32_t device = 0;
  std::uint32_t null_stream = 0;
  std::uint32_t parent = 0;
  std::uint32_t is_green = 0;

  constexpr bool has(std::uint8_t flag) const { return (flags & flag) != 0; }
  constexpr std::uint32_t aux() const {
    return static_cast<std::uint32_t>(std::uint64_t{context});
  }
  constexpr std::size_t words() const {
    return 3u;
  }
  constexpr void write(std::uint64_t* room) const {
    room[1] = std::uint64_t{device} | std::uint64_t{null_stream} << 32;
    room[2] = std::uint64_t{parent} | std::uint64_t{is_green} << 32;
  }
  constexpr bool read(const std::uint64_t* record, std::size_t size) {
    flags = flags_of(*record);
    if (size != words()) return false;
    context = static_cast<std::uint32_t>(bits_of<32>(record[0], 0));
    device = static_cast<std::uint32_t>(bits_of<32>(record[1], 0));
    null_stream = static_cast<std::uint32_t>(bits_of<32>(record[1], 32));
    parent = static_cast<std::uint32_t>(bits_of<32>(record[2], 0));
    is_green = static_cast<std::uint32_t>(bits_of<32>(record[2], 32));
    return true;
  }
};

// A stream; a lower priority is sooner. Kind 0: unknown, 1: default, 2: non-blocking, 3: null. May
// be repeated.
struct Stream {
  static constexpr Kind kKind = Kind::kStream;
  static constexpr bool kIsCounted = false;
  static constexpr std::uint8_t kFlags = 0;

  std::uint8_t flags = 0;
  std::uint32_t stream = 0;  // aux
  std::uint32_t context = 0;
  std::int32_t priority = 0;
  std::uint32_t stream_kind = 0;

  constexpr bool has(std::uint8_t flag) const { return (flags & flag) != 0; }
  constexpr std::uint32_t aux() const {
    return static_cast<std::uint32_t>(std::uint64_t{stream});
  }
  constexpr std::size_t words() const {
    return 3u;
  }
  constexpr void write(std::uint64_t* room) const {
    room[1] = std::uint64_t{context} | std::uint64_t{static_cast<std::uint32_t>(priority)} << 32;
    room[2] = std::uint64_t{stream_kind};
  }
  constexpr bool read(const std::uint64_t* record, std::size_t size) {
    flags = flags_of(*record);
    if (size != words()) return false;
    stream = static_cast<std::uint32_t>(bits_of<32>(record[0], 0));
    context = static_cast<std::uint32_t>(bits_of<32>(record[1], 0));
    priority = static_cast<std::int32_t>(bits_of<32>(record[1], 32));
    stream_kind = static_cast<std::uint32_t>(bits_of<32>(record[2], 0));
    return true;
  }
};

// A node of a graph was created, in the thread of this log; its type as CUDA numbers it. The
// original is the node it was cloned from.
struct GraphNode {
  static constexpr Kind kKind = Kind::kGraphNode;
  static constexpr bool kIsCounted = false;
  static constexpr std::uint8_t kFlags = 0;

  std::uint8_t flags = 0;
  std::uint32_t node_type = 0;  // aux
  std::uint64_t time_ns = 0;
  std::uint64_t graph_node_id = 0;
  std::uint64_t original_graph_node_id = 0;
  std::uint32_t graph = 0;

  constexpr bool has(std::uint8_t flag) const { return (flags & flag) != 0; }
  constexpr std::uint32_t aux() const {
    return static_cast<std::uint32_t>(std::uint64_t{node_type});
  }
  constexpr std::size_t words() const {
    return 5u;
  }
  constexpr void write(std::uint64_t* room) const {
    room[1] = time_ns;
    room[2] = graph_node_id;
    room[3] = original_graph_node_id;
    room[4] = std::uint64_t{graph};
  }
  constexpr bool read(const std::uint64_t* record, std::size_t size) {
    flags = flags_of(*record);
    if (size != words()) return false;
    node_type = static_cast<std::uint32_t>(bits_of<32>(record[0], 0));
    time_ns = static_cast<std::uint64_t>(record[1]);
    graph_node_id = static_cast<std::uint64_t>(record[2]);
    original_graph_node_id = static_cast<std::uint64_t>(record[3]);
    graph = static_cast<std::uint32_t>(bits_of<32>(record[4], 0));
    return true;
  }
};

// CUPTI dropped records because its buffers were full.
struct Lost {
  static constexpr Kind kKind = Kind::kLost;
  static constexpr bool kIsCounted = false;
  static constexpr std::uint8_t kFlags = 0;

  std::uint8_t flags = 0;
  std::uint64_t time_ns = 0;
  std::uint64_t records = 0;

  constexpr bool has(std::uint8_t flag) const { return (flags & flag) != 0; }
  constexpr std::uint32_t aux() const {
    return static_cast<std::uint32_t>(0);
  }
  constexpr std::size_t words() const {
    return 3u;
  }
  constexpr void write(std::uint64_t* room) const {
    room[1] = time_ns;
    room[2] = records;
  }
  constexpr bool read(const std::uint64_t* record, std::size_t size) {
    flags = flags_of(*record);
    if (size != words()) return false;
    time_ns = static_cast<std::uint64_t>(record[1]);
    records = static_cast<std::uint64_t>(record[2]);
    return true;
  }
};

// The records of a CUPTI buffer end here; `skipped` of them the agent did not recognize or need.
// GPU work after the last one of a killed process may be missing.
struct Buffer {
  static constexpr Kind kKind = Kind::kBuffer;
  static constexpr bool kIsCounted = false;
  static constexpr std::uint8_t kFlags = 0;

  std::uint8_t flags = 0;
  std::uint32_t skipped = 0;  // aux
  std::uint64_t time_ns = 0;
  std::uint64_t records = 0;

  constexpr bool has(std::uint8_t flag) const { return (flags & flag) != 0; }
  constexpr std::uint32_t aux() const {
    return static_cast<std::uint32_t>(std::uint64_t{skipped});
  }
  constexpr std::size_t words() const {
    return 3u;
  }
  constexpr void write(std::uint64_t* room) const {
    room[1] = time_ns;
    room[2] = records;
  }
  constexpr bool read(const std::uint64_t* record, std::size_t size) {
    flags = flags_of(*record);
    if (size != words()) return false;
    skipped = static_cast<std::uint32_t>(bits_of<32>(record[0], 0));
    time_ns = static_cast<std::uint64_t>(record[1]);
    records = static_cast<std::uint64_t>(record[2]);
    return true;
  }
};

// Only where CUPTI cannot use our clock: read together. Times of GPU work, waits and memory events
// are then CUPTI's, and are to be interpolated between the nearest two; calls are not concerned.
struct CudaClock {
  static constexpr Kind kKind = Kind::kCudaClock;
  static constexpr bool kIsCounted = false;
  static constexpr std::uint8_t kFlags = 0;

  std::uint8_t flags = 0;
  std::uint64_t cupti_ns = 0;
  std::uint64_t host_ns = 0;

  constexpr bool has(std::uint8_t flag) const { return (flags & flag) != 0; }
  constexpr std::uint32_t aux() const {
    return static_cast<std::uint32_t>(0);
  }
  constexpr std::size_t words() const {
    return 3u;
  }
  constexpr void write(std::uint64_t* room) const {
    room[1] = cupti_ns;
    room[2] = host_ns;
  }
  constexpr bool read(const std::uint64_t* record, std::size_t size) {
    flags = flags_of(*record);
    if (size != words()) return false;
    cupti_ns = static_cast<std::uint64_t>(record[1]);
    host_ns = static_cast<std::uint64_t>(record[2]);
    return true;
  }
};

// From this time on these kinds are recorded: bits of CudaCollects, 0 while none.
struct Collecting {
  static constexpr Kind kKind = Kind::kCollecting;
  static constexpr bool kIsCounted = false;
  static constexpr std::uint8_t kFlags = 0;

  std::uint8_t flags = 0;
  std::uint32_t kinds = 0;  // aux
  std::uint64_t time_ns = 0;

  constexpr bool has(std::uint8_t flag) const { return (flags & flag) != 0; }
  constexpr std::uint32_t aux() const {
    return static_cast<std::uint32_t>(std::uint64_t{kinds});
  }
  constexpr std::size_t words() const {
    return 2u;
  }
  constexpr void write(std::uint64_t* room) const {
    room[1] = time_ns;
  }
  constexpr bool read(const std::uint64_t* record, std::size_t size) {
    flags = flags_of(*record);
    if (size != words()) return false;
    kinds = static_cast<std::uint32_t>(bits_of<32>(record[0], 0));
    time_ns = static_cast<std::uint64_t>(record[1]);
    return true;
  }
};

// A kernel launch whose counters were collected, in the log of the launching thread; start and end
// are those of the call. `launch` numbers them in this process, from 0; `seen` is how many kernels
// it had launched before this one. Its values are CounterValue records of the same process, which
// may be in another log. A range of work that was counted as a whole has the name of the range, no
// grid and no stream: kCudaNone.
struct CountedKernel {
  static constexpr Kind kKind = Kind::kCountedKernel;
  static constexpr bool kIsCounted = true;
  // how many kernels it launched
  static constexpr std::uint8_t kIsRange = 1;
  // the profiler gave no values
  static constexpr std::uint8_t kIsFailed = 2;
  // clocks were to be locked
  static constexpr std::uint8_t kIsClockAsked = 4;
  // they were, by this process or another one
  static constexpr std::uint8_t kHasFixedClocks = 8;
  static constexpr std::uint8_t kFlags = 15;

  std::uint8_t flags = 0;
  std::uint32_t name = 0;  // aux
  std::uint64_t start_ns = 0;
  std::uint64_t end_ns = 0;
  std::uint32_t device = 0;
  std::uint32_t context = 0;
  std::uint32_t stream = 0;
  std::uint32_t correlation = 0;
  std::uint32_t launch = 0;
  std::uint32_t seen = 0;
  std::uint32_t grid_x = 0;
  std::uint32_t grid_y = 0;
  std::uint32_t grid_z = 0;
  std::uint32_t block_x = 0;
  std::uint32_t block_y = 0;
  std::uint32_t block_z = 0;
  std::uint32_t registers = 0;
  std::uint32_t static_shared_bytes = 0;
  std::uint32_t dynamic_shared_bytes = 0;
  std::uint32_t local_bytes_per_thread = 0;
  std::uint32_t passes = 0;
  std::uint64_t kernels = 0;  // kIsRange

  constexpr bool has(std::uint8_t flag) const { return (flags & flag) != 0; }
  constexpr std::uint32_t aux() const {
    return static_cast<std::uint32_t>(std::uint64_t{name});
  }
  constexpr std::size_t words() const {
    return 10u + (has(kIsRange) ? 1u : 0u);
  }
  constexpr void write(std::uint64_t* room) const {
    room[1] = start_ns;
    room[2] = end_ns;
    room[3] = std::uint64_t{device} | std::uint64_t{context} << 32;
    room[4] = std::uint64_t{stream} | std::uint64_t{correlation} << 32;
    room[5] = std::uint64_t{launch} | std::uint64_t{seen} << 32;
    room[6] = std::uint64_t{grid_x} | fitted<16>(grid_y) << 32 | fitted<16>(grid_z) << 48;
    room[7] = fitted<16>(block_x) | fitted<16>(block_y) << 16 | fitted<16>(block_z) << 32 | fitted<16>(registers) << 48;
    room[8] = std::uint64_t{static_shared_bytes} | std::uint64_t{dynamic_shared_bytes} << 32;
    room[9] = std::uint64_t{local_bytes_per_thread} | std::uint64_t{passes} << 32;
    std::uint64_t* at = room + 10;
    if (has(kIsRange)) {
      *at++ = kernels;
    }
  }
  constexpr bool read(const std::uint64_t* record, std::size_t size) {
    flags = flags_of(*record);
    if (size != words()) return false;
    name = static_cast<std::uint32_t>(bits_of<32>(record[0], 0));
    start_ns = static_cast<std::uint64_t>(record[1]);
    end_ns = static_cast<std::uint64_t>(record[2]);
    device = static_cast<std::uint32_t>(bits_of<32>(record[3], 0));
    context = static_cast<std::uint32_t>(bits_of<32>(record[3], 32));
    stream = static_cast<std::uint32_t>(bits_of<32>(record[4], 0));
    correlation = static_cast<std::uint32_t>(bits_of<32>(record[4], 32));
    launch = static_cast<std::uint32_t>(bits_of<32>(record[5], 0));
    seen = static_cast<std::uint32_t>(bits_of<32>(record[5], 32));
    grid_x = static_cast<std::uint32_t>(bits_of<32>(record[6], 0));
    grid_y = static_cast<std::uint32_t>(bits_of<16>(record[6], 32));
    grid_z = static_cast<std::uint32_t>(bits_of<16>(record[6], 48));
    block_x = static_cast<std::uint32_t>(bits_of<16>(record[7], 0));
    block_y = static_cast<std::uint32_t>(bits_of<16>(record[7], 16));
    block_z = static_cast<std::uint32_t>(bits_of<16>(record[7], 32));
    registers = static_cast<std::uint32_t>(bits_of<16>(record[7], 48));
    static_shared_bytes = static_cast<std::uint32_t>(bits_of<32>(record[8], 0));
    dynamic_shared_bytes = static_cast<std::uint32_t>(bits_of<32>(record[8], 32));
    local_bytes_per_thread = static_cast<std::uint32_t>(bits_of<32>(record[9], 0));
    passes = static_cast<std::uint32_t>(bits_of<32>(record[9], 32));
    const std::uint64_t* at = record + 10;
    if (has(kIsRange)) {
      kernels = static_cast<std::uint64_t>(at[0]);
      at += 1;
    }
    return true;
  }
};

// The value of a metric for a CountedKernel of this process, all instances of the unit together.
struct CounterValue {
  static constexpr Kind kKind = Kind::kCounterValue;
  static constexpr bool kIsCounted = false;
  static constexpr std::uint8_t kFlags = 0;

  std::uint8_t flags = 0;
  std::uint32_t metric = 0;  // aux
  std::uint64_t launch = 0;
  double value = 0;

  constexpr bool has(std::uint8_t flag) const { return (flags & flag) != 0; }
  constexpr std::uint32_t aux() const {
    return static_cast<std::uint32_t>(std::uint64_t{metric});
  }
  constexpr std::size_t words() const {
    return 3u;
  }
  constexpr void write(std::uint64_t* room) const {
    room[1] = launch;
    room[2] = std::bit_cast<std::uint64_t>(value);
  }
  constexpr bool read(const std::uint64_t* record, std::size_t size) {
    flags = flags_of(*record);
    if (size != words()) return false;
    metric = static_cast<std::uint32_t>(bits_of<32>(record[0], 0));
    launch = static_cast<std::uint64_t>(record[1]);
    value = std::bit_cast<double>(record[2]);
    return true;
  }
};

// The lowest and highest SM clock of the GPU while the passes of a CountedKernel of this process
// were made. In any log of the process; missing if it needed one pass, or if the clock is unknown.
struct PassClock {
  static constexpr Kind kKind = Kind::kPassClock;
  static constexpr bool kIsCounted = false;
  static constexpr std::uint8_t kFlags = 0;

  std::uint8_t flags = 0;
  std::uint32_t launch = 0;  // aux
  std::uint32_t lowest_mhz = 0;
  std::uint32_t highest_mhz = 0;

  constexpr bool has(std::uint8_t flag) const { return (flags & flag) != 0; }
  constexpr std::uint32_t aux() const {
    return static_cast<std::uint32_t>(std::uint64_t{launch});
  }
  constexpr std::size_t words() const {
    return 2u;
  }
  constexpr void write(std::uint64_t* room) const {
    room[1] = std::uint64_t{lowest_mhz} | std::uint64_t{highest_mhz} << 32;
  }
  constexpr bool read(const std::uint64_t* record, std::size_t size) {
    flags = flags_of(*record);
    if (size != words()) return false;
    launch = static_cast<std::uint32_t>(bits_of<32>(record[0], 0));
    lowest_mhz = static_cast<std::uint32_t>(bits_of<32>(record[1], 0));
    highest_mhz = static_cast<std::uint32_t>(bits_of<32>(record[1], 32));
    return true;
  }
};

// The CPU accessed a page of managed memory that was not there; pc is the instruction.
struct CpuFault {
  static constexpr Kind kKind = Kind::kCpuFault;
  static constexpr bool kIsCounted = false;
  static constexpr std::uint8_t kFlags = 0;

  std::uint8_t flags = 0;
  std::uint64_t time_ns = 0;
  std::uint64_t address = 0;
  std::uint64_t pc = 0;

  constexpr bool has(std::uint8_t flag) const { return (flags & flag) != 0; }
  constexpr std::uint32_t aux() const {
    return static_cast<std::uint32_t>(0);
  }
  constexpr std::size_t words() const {
    return 4u;
  }
  constexpr void write(std::uint64_t* room) const {
    room[1] = time_ns;
    room[2] = address;
    room[3] = pc;
  }
  constexpr bool read(const std::uint64_t* record, std::size_t size) {
    flags = flags_of(*record);
    if (size != words()) return false;
    time_ns = static_cast<std::uint64_t>(record[1]);
    address = static_cast<std::uint64_t>(record[2]);
    pc = static_cast<std::uint64_t>(record[3]);
    return true;
  }
};

// A GPU accessed a page of managed memory that was not there, so many times; the driver handled
// that from start to end. Access 0: unknown, 1: read, 2: write, 3: atomic, 4: prefetch.
struct GpuFault {
  static constexpr Kind kKind = Kind::kGpuFault;
  static constexpr bool kIsCounted = false;
  static constexpr std::uint8_t kFlags = 0;

  std::uint8_t flags = 0;
  std::uint32_t access = 0;  // aux
  std::uint64_t start_ns = 0;
  std::uint64_t end_ns = 0;
  std::uint32_t device = 0;
  std::uint64_t address = 0;
  std::uint64_t faults = 0;

  constexpr bool has(std::uint8_t flag) const { return (flags & flag) != 0; }
  constexpr std::uint32_t aux() const {
    return static_cast<std::uint32_t>(std::uint64_t{access});
  }
  constexpr std::size_t words() const {
    return 6u;
  }
  constexpr void write(std::uint64_t* room) const {
    room[1] = start_ns;
    room[2] = end_ns;
    room[3] = std::uint64_t{device};
    room[4] = address;
    room[5] = faults;
  }
  constexpr bool read(const std::uint64_t* record, std::size_t size) {
    flags = flags_of(*record);
    if (size != words()) return false;
    access = static_cast<std::uint32_t>(bits_of<32>(record[0], 0));
    start_ns = static_cast<std::uint64_t>(record[1]);
    end_ns = static_cast<std::uint64_t>(record[2]);
    device = static_cast<std::uint32_t>(bits_of<32>(record[3], 0));
    address = static_cast<std::uint64_t>(record[4]);
    faults = static_cast<std::uint64_t>(record[5]);
    return true;
  }
};

// Samples of one instruction with one stall reason, taken since the last such record of the
// process. The checksum is CUPTI's CRC of the module, the offset is from the start of the function.
// Those without an issue were taken in cycles in which the scheduler issued nothing. Any log of the
// process.
struct PcSample {
  static constexpr Kind kKind = Kind::kPcSample;
  static constexpr bool kIsCounted = true;
  static constexpr std::uint8_t kFlags = 0;

  std::uint8_t flags = 0;
  std::uint32_t function = 0;  // aux
  std::uint64_t checksum = 0;
  std::uint32_t offset = 0;
  std::uint32_t stall = 0;
  std::uint64_t samples = 0;
  std::uint64_t not_issued = 0;
  std::uint32_t device = 0;

  constexpr bool has(std::uint8_t flag) const { return (flags & flag) != 0; }
  constexpr std::uint32_t aux() const {
    return static_cast<std::uint32_t>(std::uint64_t{function});
  }
  constexpr std::size_t words() const {
    return 6u;
  }
  constexpr void write(std::uint64_t* room) const {
    room[1] = checksum;
    room[2] = std::uint64_t{offset} | std::uint64_t{stall} << 32;
    room[3] = samples;
    room[4] = not_issued;
    room[5] = std::uint64_t{device};
  }
  constexpr bool read(const std::uint64_t* record, std::size_t size) {
    flags = flags_of(*record);
    if (size != words()) return false;
    function = static_cast<std::uint32_t>(bits_of<32>(record[0], 0));
    checksum = static_cast<std::uint64_t>(record[1]);
    offset = static_cast<std::uint32_t>(bits_of<32>(record[2], 0));
    stall = static_cast<std::uint32_t>(bits_of<32>(record[2], 32));
    samples = static_cast<std::uint64_t>(record[3]);
    not_issued = static_cast<std::uint64_t>(record[4]);
    device = static_cast<std::uint32_t>(bits_of<32>(record[5], 0));
    return true;
  }
};

// What CUPTI told about the samples of a device since the last such record of the process, and how
// many modules were loaded there whose code was not kept.
struct PcSampling {
  static constexpr Kind kKind = Kind::kPcSampling;
  static constexpr bool kIsCounted = false;
  static constexpr std::uint8_t kFlags = 0;

  std::uint8_t flags = 0;
  std::uint32_t device = 0;  // aux
  std::uint32_t period_cycles = 0;
  std::uint32_t modules_left_out = 0;
  std::uint64_t total_samples = 0;
  std::uint64_t dropped_samples = 0;
  std::uint64_t non_user_samples = 0;
  std::uint32_t is_buffer_full = 0;

  constexpr bool has(std::uint8_t flag) const { return (flags & flag) != 0; }
  constexpr std::uint32_t aux() const {
    return static_cast<std::uint32_t>(std::uint64_t{device});
  }
  constexpr std::size_t words() const {
    return 6u;
  }
  constexpr void write(std::uint64_t* room) const {
    room[1] = std::uint64_t{period_cycles} | std::uint64_t{modules_left_out} << 32;
    room[2] = total_samples;
    room[3] = dropped_samples;
    room[4] = non_user_samples;
    room[5] = fitted<8>(is_buffer_full);
  }
  constexpr bool read(const std::uint64_t* record, std::size_t size) {
    flags = flags_of(*record);
    if (size != words()) return false;
    device = static_cast<std::uint32_t>(bits_of<32>(record[0], 0));
    period_cycles = static_cast<std::uint32_t>(bits_of<32>(record[1], 0));
    modules_left_out = static_cast<std::uint32_t>(bits_of<32>(record[1], 32));
    total_samples = static_cast<std::uint64_t>(record[2]);
    dropped_samples = static_cast<std::uint64_t>(record[3]);
    non_user_samples = static_cast<std::uint64_t>(record[4]);
    is_buffer_full = static_cast<std::uint32_t>(bits_of<8>(record[5], 0));
    return true;
  }
};

// A thread was running; the period is the CPU time in ns that the sample stands for. Chains are
// numbers of a Chain and a PythonChain of the process, 0: none. CPU 0xffffffff: unknown. Who
// samples several threads writes a Thread record before those of each.
struct CpuSample {
  static constexpr Kind kKind = Kind::kCpuSample;
  static constexpr bool kIsCounted = true;
  // where the thread was; the chain then begins with its caller
  static constexpr std::uint8_t kHasInstruction = 1;
  static constexpr std::uint8_t kFlags = 1;

  std::uint8_t flags = 0;
  std::uint64_t time_ns = 0;
  std::uint32_t period = 0;
  std::uint32_t cpu = 0;
  std::uint64_t chain = 0;
  std::uint64_t python_chain = 0;
  std::uint64_t instruction = 0;  // kHasInstruction

  constexpr bool has(std::uint8_t flag) const { return (flags & flag) != 0; }
  constexpr std::uint32_t aux() const {
    return static_cast<std::uint32_t>(0);
  }
  constexpr std::size_t words() const {
    return 5u + (has(kHasInstruction) ? 1u : 0u);
  }
  constexpr void write(std::uint64_t* room) const {
    room[1] = time_ns;
    room[2] = std::uint64_t{period} | std::uint64_t{cpu} << 32;
    room[3] = chain;
    room[4] = python_chain;
    std::uint64_t* at = room + 5;
    if (has(kHasInstruction)) {
      *at++ = instruction;
    }
  }
  constexpr bool read(const std::uint64_t* record, std::size_t size) {
    flags = flags_of(*record);
    if (size != words()) return false;
    time_ns = static_cast<std::uint64_t>(record[1]);
    period = static_cast<std::uint32_t>(bits_of<32>(record[2], 0));
    cpu = static_cast<std::uint32_t>(bits_of<32>(record[2], 32));
    chain = static_cast<std::uint64_t>(record[3]);
    python_chain = static_cast<std::uint64_t>(record[4]);
    const std::uint64_t* at = record + 5;
    if (has(kHasInstruction)) {
      instruction = static_cast<std::uint64_t>(at[0]);
      at += 1;
    }
    return true;
  }
};

// A thread was put on a CPU, or taken off it. State 1: it could have gone on (Running, as the
// schema numbers it), 2: it is blocked (Interruptible). Chains as of CpuSample: where it is
// blocked, if for long.
struct SchedEvent {
  static constexpr Kind kKind = Kind::kSchedEvent;
  static constexpr bool kIsCounted = true;
  // as of CpuSample
  static constexpr std::uint8_t kHasInstruction = 1;
  static constexpr std::uint8_t kFlags = 1;

  std::uint8_t flags = 0;
  std::uint32_t is_in = 0;  // aux
  std::uint32_t state = 0;  // aux
  std::uint64_t time_ns = 0;
  std::uint32_t cpu = 0;
  std::uint64_t chain = 0;
  std::uint64_t python_chain = 0;
  std::uint64_t instruction = 0;  // kHasInstruction

  constexpr bool has(std::uint8_t flag) const { return (flags & flag) != 0; }
  constexpr std::uint32_t aux() const {
    return static_cast<std::uint32_t>(fitted<8>(is_in) | fitted<8>(state) << 8);
  }
  constexpr std::size_t words() const {
    return 5u + (has(kHasInstruction) ? 1u : 0u);
  }
  constexpr void write(std::uint64_t* room) const {
    room[1] = time_ns;
    room[2] = std::uint64_t{cpu};
    room[3] = chain;
    room[4] = python_chain;
    std::uint64_t* at = room + 5;
    if (has(kHasInstruction)) {
      *at++ = instruction;
    }
  }
  constexpr bool read(const std::uint64_t* record, std::size_t size) {
    flags = flags_of(*record);
    if (size != words()) return false;
    is_in = static_cast<std::uint32_t>(bits_of<8>(record[0], 0));
    state = static_cast<std::uint32_t>(bits_of<8>(record[0], 8));
    time_ns = static_cast<std::uint64_t>(record[1]);
    cpu = static_cast<std::uint32_t>(bits_of<32>(record[2], 0));
    chain = static_cast<std::uint64_t>(record[3]);
    python_chain = static_cast<std::uint64_t>(record[4]);
    const std::uint64_t* at = record + 5;
    if (has(kHasInstruction)) {
      instruction = static_cast<std::uint64_t>(at[0]);
      at += 1;
    }
    return true;
  }
};

// A call of the C library that took at least as long as asked for. One whose thread was cancelled
// in it returned nothing: 0.
struct OsCall {
  static constexpr Kind kKind = Kind::kOsCall;
  static constexpr bool kIsCounted = true;
  // number of a Chain
  static constexpr std::uint8_t kHasChain = 1;
  // number of a PythonChain
  static constexpr std::uint8_t kHasPythonChain = 2;
  static constexpr std::uint8_t kFlags = 3;

  std::uint8_t flags = 0;
  std::uint32_t os_function = 0;  // aux
  std::uint64_t start_ns = 0;
  std::uint64_t end_ns = 0;
  std::int64_t return_value = 0;
  std::uint64_t chain = 0;  // kHasChain
  std::uint64_t python_chain = 0;  // kHasPythonChain

  constexpr bool has(std::uint8_t flag) const { return (flags & flag) != 0; }
  constexpr std::uint32_t aux() const {
    return static_cast<std::uint32_t>(std::uint64_t{os_function});
  }
  constexpr std::size_t words() const {
    return 4u + (has(kHasChain) ? 1u : 0u) + (has(kHasPythonChain) ? 1u : 0u);
  }
  constexpr void write(std::uint64_t* room) const {
    room[1] = start_ns;
    room[2] = end_ns;
    room[3] = static_cast<std::uint64_t>(return_value);
    std::uint64_t* at = room + 4;
    if (has(kHasChain)) {
      *at++ = chain;
    }
    if (has(kHasPythonChain)) {
      *at++ = python_chain;
    }
  }
  constexpr bool read(const std::uint64_t* record, std::size_t size) {
    flags = flags_of(*record);
    if (size != words()) return false;
    os_function = static_cast<std::uint32_t>(bits_of<32>(record[0], 0));
    start_ns = static_cast<std::uint64_t>(record[1]);
    end_ns = static_cast<std::uint64_t>(record[2]);
    return_value = static_cast<std::int64_t>(record[3]);
    const std::uint64_t* at = record + 4;
    if (has(kHasChain)) {
      chain = static_cast<std::uint64_t>(at[0]);
      at += 1;
    }
    if (has(kHasPythonChain)) {
      python_chain = static_cast<std::uint64_t>(at[0]);
      at += 1;
    }
    return true;
  }
};

// A call of a library, such as cuBLAS, in the thread of this log. The arguments are a JSON object.
// Texts are those of CudaName records, with numbers from kFirstLibraryText on.
struct LibraryCall {
  static constexpr Kind kKind = Kind::kLibraryCall;
  static constexpr bool kIsCounted = true;
  // the function returned a number
  static constexpr std::uint8_t kHasStatus = 1;
  // number of a Chain
  static constexpr std::uint8_t kHasChain = 2;
  // number of a PythonChain
  static constexpr std::uint8_t kHasPythonChain = 4;
  static constexpr std::uint8_t kFlags = 7;

  std::uint8_t flags = 0;
  std::uint32_t name = 0;  // aux
  std::uint64_t start_ns = 0;
  std::uint64_t end_ns = 0;
  std::uint32_t library = 0;
  std::uint32_t arguments = 0;
  std::uint32_t status = 0;
  std::uint64_t chain = 0;  // kHasChain
  std::uint64_t python_chain = 0;  // kHasPythonChain

  constexpr bool has(std::uint8_t flag) const { return (flags & flag) != 0; }
  constexpr std::uint32_t aux() const {
    return static_cast<std::uint32_t>(std::uint64_t{name});
  }
  constexpr std::size_t words() const {
    return 5u + (has(kHasChain) ? 1u : 0u) + (has(kHasPythonChain) ? 1u : 0u);
  }
  constexpr void write(std::uint64_t* room) const {
    room[1] = start_ns;
    room[2] = end_ns;
    room[3] = std::uint64_t{library} | std::uint64_t{arguments} << 32;
    room[4] = std::uint64_t{status};
    std::uint64_t* at = room + 5;
    if (has(kHasChain)) {
      *at++ = chain;
    }
    if (has(kHasPythonChain)) {
      *at++ = python_chain;
    }
  }
  constexpr bool read(const std::uint64_t* record, std::size_t size) {
    flags = flags_of(*record);
    if (size != words()) return false;
    name = static_cast<std::uint32_t>(bits_of<32>(record[0], 0));
    start_ns = static_cast<std::uint64_t>(record[1]);
    end_ns = static_cast<std::uint64_t>(record[2]);
    library = static_cast<std::uint32_t>(bits_of<32>(record[3], 0));
    arguments = static_cast<std::uint32_t>(bits_of<32>(record[3], 32));
    status = static_cast<std::uint32_t>(bits_of<32>(record[4], 0));
    const std::uint64_t* at = record + 5;
    if (has(kHasChain)) {
      chain = static_cast<std::uint64_t>(at[0]);
      at += 1;
    }
    if (has(kHasPythonChain)) {
      python_chain = static_cast<std::uint64_t>(at[0]);
      at += 1;
    }
    return true;
  }
};

// NCCL has handed an operation to its kernel: what its profiler plug-in interface tells, in the
// thread of this log. Times are of that and of the program's call, 0: not told. `count` elements of
// `dtype` have `bytes`. Texts as of LibraryCall.
struct NcclOperation {
  static constexpr Kind kKind = Kind::kNcclOperation;
  static constexpr bool kIsCounted = true;
  // among the operations of this kind and communicator
  static constexpr std::uint8_t kHasSequence = 1;
  // or root
  static constexpr std::uint8_t kHasPeer = 2;
  // count and bytes are known
  static constexpr std::uint8_t kHasCount = 4;
  static constexpr std::uint8_t kFlags = 7;

  std::uint8_t flags = 0;
  std::uint32_t name = 0;  // aux
  std::uint64_t time_ns = 0;
  std::uint64_t call_ns = 0;
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;
  std::uint32_t rank = 0;
  std::uint32_t rank_count = 0;
  std::uint32_t node_count = 0;
  std::uint32_t channels = 0;
  std::uint32_t warps = 0;
  std::uint32_t communicator = 0;
  std::uint32_t communicator_name = 0;
  std::uint32_t dtype = 0;
  std::uint32_t algorithm = 0;
  std::uint32_t protocol = 0;
  std::uint64_t sequence = 0;  // kHasSequence
  std::uint32_t peer = 0;  // kHasPeer

  constexpr bool has(std::uint8_t flag) const { return (flags & flag) != 0; }
  constexpr std::uint32_t aux() const {
    return static_cast<std::uint32_t>(std::uint64_t{name});
  }
  constexpr std::size_t words() const {
    return 10u + (has(kHasSequence) ? 1u : 0u) + (has(kHasPeer) ? 1u : 0u);
  }
  constexpr void write(std::uint64_t* room) const {
    room[1] = time_ns;
    room[2] = call_ns;
    room[3] = count;
    room[4] = bytes;
    room[5] = std::uint64_t{rank} | std::uint64_t{rank_count} << 32;
    room[6] = std::uint64_t{node_count} | fitted<16>(channels) << 32 | fitted<16>(warps) << 48;
    room[7] = std::uint64_t{communicator} | std::uint64_t{communicator_name} << 32;
    room[8] = std::uint64_t{dtype} | std::uint64_t{algorithm} << 32;
    room[9] = std::uint64_t{protocol};
    std::uint64_t* at = room + 10;
    if (has(kHasSequence)) {
      *at++ = sequence;
    }
    if (has(kHasPeer)) {
      *at++ = std::uint64_t{peer};
    }
  }
  constexpr bool read(const std::uint64_t* record, std::size_t size) {
    flags = flags_of(*record);
    if (size != words()) return false;
    name = static_cast<std::uint32_t>(bits_of<32>(record[0], 0));
    time_ns = static_cast<std::uint64_t>(record[1]);
    call_ns = static_cast<std::uint64_t>(record[2]);
    count = static_cast<std::uint64_t>(record[3]);
    bytes = static_cast<std::uint64_t>(record[4]);
    rank = static_cast<std::uint32_t>(bits_of<32>(record[5], 0));
    rank_count = static_cast<std::uint32_t>(bits_of<32>(record[5], 32));
    node_count = static_cast<std::uint32_t>(bits_of<32>(record[6], 0));
    channels = static_cast<std::uint32_t>(bits_of<16>(record[6], 32));
    warps = static_cast<std::uint32_t>(bits_of<16>(record[6], 48));
    communicator = static_cast<std::uint32_t>(bits_of<32>(record[7], 0));
    communicator_name = static_cast<std::uint32_t>(bits_of<32>(record[7], 32));
    dtype = static_cast<std::uint32_t>(bits_of<32>(record[8], 0));
    algorithm = static_cast<std::uint32_t>(bits_of<32>(record[8], 32));
    protocol = static_cast<std::uint32_t>(bits_of<32>(record[9], 0));
    const std::uint64_t* at = record + 10;
    if (has(kHasSequence)) {
      sequence = static_cast<std::uint64_t>(at[0]);
      at += 1;
    }
    if (has(kHasPeer)) {
      peer = static_cast<std::uint32_t>(bits_of<32>(at[0], 0));
      at += 1;
    }
    return true;
  }
};

// The stack of a thread of Python from a time on, for a period in ns. Chains as of CpuSample.
// Whether it ran, and whether it had the GIL: of Known.
struct PythonSample {
  static constexpr Kind kKind = Kind::kPythonSample;
  static constexpr bool kIsCounted = true;
  static constexpr std::uint8_t kFlags = 0;

  std::uint8_t flags = 0;
  std::uint32_t is_running = 0;  // aux
  std::uint32_t has_gil = 0;  // aux
  std::uint64_t time_ns = 0;
  std::uint64_t period = 0;
  std::uint64_t chain = 0;
  std::uint64_t python_chain = 0;

  constexpr bool has(std::uint8_t flag) const { return (flags & flag) != 0; }
  constexpr std::uint32_t aux() const {
    return static_cast<std::uint32_t>(fitted<8>(is_running) | fitted<8>(has_gil) << 8);
  }
  constexpr std::size_t words() const {
    return 5u;
  }
  constexpr void write(std::uint64_t* room) const {
    room[1] = time_ns;
    room[2] = period;
    room[3] = chain;
    room[4] = python_chain;
  }
  constexpr bool read(const std::uint64_t* record, std::size_t size) {
    flags = flags_of(*record);
    if (size != words()) return false;
    is_running = static_cast<std::uint32_t>(bits_of<8>(record[0], 0));
    has_gil = static_cast<std::uint32_t>(bits_of<8>(record[0], 8));
    time_ns = static_cast<std::uint64_t>(record[1]);
    period = static_cast<std::uint64_t>(record[2]);
    chain = static_cast<std::uint64_t>(record[3]);
    python_chain = static_cast<std::uint64_t>(record[4]);
    return true;
  }
};

// A thread held Python's global interpreter lock, or waited for it; the state is of GilState.
struct GilSpan {
  static constexpr Kind kKind = Kind::kGilSpan;
  static constexpr bool kIsCounted = true;
  static constexpr std::uint8_t kFlags = 0;

  std::uint8_t flags = 0;
  std::uint32_t state = 0;  // aux
  std::uint64_t start_ns = 0;
  std::uint64_t end_ns = 0;

  constexpr bool has(std::uint8_t flag) const { return (flags & flag) != 0; }
  constexpr std::uint32_t aux() const {
    return static_cast<std::uint32_t>(fitted<8>(state));
  }
  constexpr std::size_t words() const {
    return 3u;
  }
  constexpr void write(std::uint64_t* room) const {
    room[1] = start_ns;
    room[2] = end_ns;
  }
  constexpr bool read(const std::uint64_t* record, std::size_t size) {
    flags = flags_of(*record);
    if (size != words()) return false;
    state = static_cast<std::uint32_t>(bits_of<8>(record[0], 0));
    start_ns = static_cast<std::uint64_t>(record[1]);
    end_ns = static_cast<std::uint64_t>(record[2]);
    return true;
  }
};

}  // namespace warpline::raw
