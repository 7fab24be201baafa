// CUDA records of a raw session: the program's CUDA calls and GPU work, written by the agent.
//
// They are in the same logs as all other records; see warpline_raw.h for the header word. CPU
// calls are in the log of the calling thread. GPU work, contexts, streams and memory events
// are in the logs of the threads in which CUPTI returns its buffers: their order in the log is
// not chronological, and their thread is not the one that caused them. Correlation ids and the
// ids of contexts, streams, graphs and events are unique within a process image (PID-INCARNATION),
// and join records across its logs.
//
// Words are written [low 32 bits | high 32 bits] where a word holds two numbers, and [a:16 | b:16 |
// ...] from the lowest bits where it holds more. Fields by flags follow the fixed ones in the order
// of their flags. Times are CLOCK_MONOTONIC ns, unless a log of the process has kCudaClock records.
// "As CUPTI numbers them" means the values of CUPTI's own enumerations, unchanged.
#pragma once

#include <cstdint>

#include "warpline_raw.h"

namespace warpline::raw {

enum class CudaKind : std::uint8_t {
  // Definitions, once per log before their first use there.
  kCallName = 64,  // aux: domain << 16 | call id. [0][bytes][text]: name of an API function, with
                   // its version, such as cudaLaunchKernel_v7000
  kName = 65,      // aux: name number. [0][bytes][text]: mangled name of a kernel, name of a
                   // variable or of a device. Numbers count over the process image, from 1

  // Host. Counted in LogHeader::records.
  kCall = 66,  // aux: domain << 16 | call id, as in kCallName; domain 1 is the driver's API, 2 the
               // runtime's. [start][end][correlation | status]. Flags: CallFlag. Status 0 is
               // success, as a cudaError_t or CUresult. Only the outermost call is written: what
               // the runtime calls in the driver is part of the runtime's call
                // kCallHasChain: [chain number]
                // kCallHasPlace: [stream id, kCudaNone: none or not known | context id]
                // kCallHasEvent: [handle of the event, as the program has it]

  // Device work. Counted in LogHeader::records. Start and end are both 0 where CUPTI could not
  // tell them. Common words: [start][end][device | context][stream | correlation].
  kKernel = 67,  // aux: name number, 0 when it has none. [start][end][device | context]
                 // [stream | correlation][grid x:32 | grid y:16 | grid z:16]
                 // [block x:16 | block y:16 | block z:16 | registers per thread:16]
                 // [static shared bytes | dynamic shared bytes]
                 // [executed shared bytes | local bytes per thread][local bytes in all]
                 // kHasGraphNode: [graph node id][graph id | 0]
                 // kHasCluster: [cluster x:16 | y:16 | z:16 | scheduling policy:16]
                 // kIsCooperative, kIsCooperativeMulti, kIsDeviceLaunched: no words
  kCopy = 68,    // aux: copy kind | source memory << 8 | destination memory << 16 | CUPTI's flags
                 // << 24 (1: asynchronous), as CUPTI numbers them (memory 0 unknown, 1 pageable, 2
                 // pinned, 3 device, 4 array, 5 managed, 6 device static, 7 managed static).
                 // [start][end][device | context][stream | correlation][bytes]
                 // kHasGraphNode: [graph node id][graph id | 0]
                 // kHasPeer: [source device | destination device][source ctx | destination ctx]
                 // kHasCount: [copies in the batch]
  kFill = 69,    // A memset. aux: value. [start][end][device | context][stream | correlation]
                 // [bytes][memory kind as in kCopy | CUPTI's flags (1: asynchronous)]
                 // kHasGraphNode: [graph node id][graph id | 0]
  kGraph = 70,   // One launch of a graph traced at graph level; its nodes have no records.
                 // aux: graph id of the launched (instantiated) graph. [start][end]
                 // [device | context][stream | correlation]
                 // kHasPeer: [last node's device | 0][last node's context | 0]
                 // Also written during pauses: those without a kCall were launched then

  // Ordering. Not counted. No stream, event or context: kCudaNone.
  kWait = 71,   // aux: kind: 1 the host waited for an event, 2 a stream is to wait for an event
                // (the host went on), 3 the host waited for a stream, 4 for a context. [start][end]
                // [context | stream][correlation | event id][event sync id, 0: not known]
                // [status | 0]. The device is that of the context. Queries that found the work
                // done are here, too, as kinds 1 and 3: their calls are cudaEventQuery and the like
  kEvent = 72,  // A recording of an event in a stream. aux: event id. [context | stream]
                // [correlation | device, kCudaNone: not known][event sync id, 0: not known]
                // kHasDeviceTime: [time at which the device reached it]

  // Memory. Not counted.
  kMemory = 73,  // aux: operation (1 allocation, 2 release) | memory kind as in kCopy << 8 |
                 // asynchronous (1) << 16 | pool type (0 none, 1 local, 2 imported) << 24. [time]
                 // [device | context][stream | correlation][address][bytes]
                 // kHasPool: [pool address][pool size][pool bytes in use][release threshold]
                 // kHasName: [name number of the variable | 0]
  kPool = 74,    // aux: operation (1 created, 2 destroyed, 3 trimmed) | pool type << 8. [time]
                 // [device | correlation][address][size][bytes in use][release threshold]
                 // [bytes to keep]

  // Facts and quality. Not counted.
  kOverhead = 75,   // Time that profiling itself took, or that a call took for a reason worth a
                    // name. aux: kind as CUPTI numbers it (1 driver compiler, 1 << 16 buffer flush,
                    // 2 << 16 instrumentation, 3 << 16 resource creation, 4 << 16 module loading by
                    // the runtime, 5 << 16 lazy function loading, 6 << 16 command buffer full, 7 <<
                    // 16 buffer request, 8 << 16 unified memory set-up). [start][end]
                    // [object kind (2: thread, 4: context) | thread id or context id]
                    // [correlation, 0: none | 0]
  kDevice = 76,     // aux: CUDA's device id in this process. [name number | multiprocessors]
                    // [uuid: 16 bytes, two words][memory bytes][memory bytes per second]
                    // [clock hz][l2 bytes | warp size][compute major | compute minor]
                    // [PCI domain:32 | bus:16 | device:16, all bits set: not known]
                    // [max threads per multiprocessor | max shared bytes per multiprocessor]
                    // [max registers per multiprocessor | is MIG instance (1), and from bit 8 on
                    // one more than its number among the machine's GPUs]. 0: not known
  kContext = 77,    // aux: context id. [device | stream id of its null stream]
                    // [parent context id, 0: none | is green context (1)]. May be repeated
  kStream = 78,     // aux: stream id. [context | priority (signed; lower is sooner)]
                    // [kind: 0 unknown, 1 default, 2 non-blocking, 3 null | 0]. May be repeated
  kGraphNode = 79,  // A node of a graph was created. aux: node type, as CUDA numbers it. [time]
                    // [node id][id of the node it was cloned from, 0: none][graph id | 0]. In the
                    // log of the thread that created it
  kLost = 80,       // CUPTI dropped records because its buffers were full. aux: 0. [time][records]
  kBuffer = 81,     // The records of a CUPTI buffer end here. aux: records that the agent did
                    // not recognize or need. [time][records in it]. GPU work after the
                    // last one of a killed process may be missing
  kClock = 82,      // Only where CUPTI cannot use our clock: [CUPTI's time][monotonic ns], read
                    // together. Times of device work, waits and memory events are then CUPTI's, and
                    // are to be interpolated between the nearest two; host calls are not concerned
  kCollecting = 83, // From [time] on these kinds are recorded. aux: CudaCollects, 0 while none

  // Call chains. Definitions: chains once per log before their first use there, modules once per
  // process image, in any of its logs.
  kChain = 84,      // aux: 0. [chain number][return address...], innermost first. Numbers are
                    // hashes: the same in every log
  kModule = 85,     // aux: 0. [load bias][bytes][ModuleText, path]: a file that code came from
};

inline constexpr std::uint32_t kCudaNone = 0xffffffff;
inline constexpr std::uint32_t kCudaNullStream = 0xfffffffe;  // a place's: the context's null stream

// The text of a kModule: this, then the path. Addresses as they are in memory; the record's first
// word is what the file's own addresses were moved by.
struct ModuleText {
  std::uint64_t first_address;
  std::uint64_t end_address;
  std::uint8_t build_id[24];  // zeros: none
};

// Flags of a kCall.
inline constexpr std::uint8_t kCallLaunches = 1;  // it puts work on a device, unless its stream was
                                                  // being captured or it failed: expect a record of
                                                  // device work with its correlation. Not of copies
                                                  // and fills of nothing
inline constexpr std::uint8_t kCallCaptures = 2;  // it begins or ends the capture of a stream
inline constexpr std::uint8_t kCallIsGraph = 4;   // it launches a graph
inline constexpr std::uint8_t kCallHasChain = 8;
// Of calls that wait, order streams, record events or capture, while kCollectsTargets: what they
// concern. A handle stands for one event until cudaEventDestroy or cuEventDestroy.
inline constexpr std::uint8_t kCallHasPlace = 16;
inline constexpr std::uint8_t kCallHasEvent = 32;

// Flags of device work, in the order of their words.
inline constexpr std::uint8_t kHasGraphNode = 1;
inline constexpr std::uint8_t kHasCluster = 2;          // of a kernel
inline constexpr std::uint8_t kHasPeer = 2;             // of a copy or a graph
inline constexpr std::uint8_t kHasCount = 4;            // of a copy
inline constexpr std::uint8_t kIsCooperative = 16;
inline constexpr std::uint8_t kIsCooperativeMulti = 32;
inline constexpr std::uint8_t kIsDeviceLaunched = 64;
inline constexpr std::uint8_t kHasDeviceTime = 1;       // of a kEvent
inline constexpr std::uint8_t kHasPool = 1;             // of a kMemory
inline constexpr std::uint8_t kHasName = 2;             // of a kMemory

// What is collected; the bits of kCollecting.
enum CudaCollects : std::uint32_t {
  kCollectsCalls = 1,
  kCollectsKernels = 2,
  kCollectsCopies = 4,
  kCollectsFills = 8,
  kCollectsGraphs = 16,  // graph level: kernels of graphs are then not recorded
  kCollectsWaits = 32,
  kCollectsEvents = 64,
  kCollectsMemory = 128,
  kCollectsOverhead = 256,
  kCollectsGraphNodes = 512,
  kCollectsTargets = 1024,  // calls say which stream and event they concern: waits, stream waits and
                            // event records follow from that, in place of kWait and kEvent
};

// More values of Note, for kNote records; their text becomes part of a sentence for the user.
enum class CudaNote : std::uint32_t {
  kUsing = 64,         // CUPTI's version and file: "CUPTI 130001 PATH"
  kUnavailable = 65,   // CUDA is not recorded in this process; text: the reason
  kOtherProfiler = 66, // it is not, because another profiler uses CUPTI; text: which, a tab, and
                       // "held" (CUPTI supports one), or "unshared" (that one does not share it)
  kDoubt = 67,         // it is, with a known limitation; text: which
  kKindFailed = 68,    // one kind of record could not be enabled; text: which, and why
  kShared = 69,        // it is, and CUPTI is shared with another profiler; text: which
};

}  // namespace warpline::raw
