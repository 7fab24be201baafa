// Writes CUPTI's activity records to a log.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cupti/abi.h"
#include "session/thread_log.h"
#include "warpline_cuda.h"

namespace warpline::agent {

// The times at which recording was on, for a CUPTI that cannot be turned off. Keeps the last
// kSpans; written under the tracing lock, read while writing buffers.
class RecordingSpans {
 public:
  void begin(std::uint64_t time) noexcept;
  void end(std::uint64_t time) noexcept;
  bool holds(std::uint64_t time) const noexcept;

 private:
  static constexpr std::uint32_t kSpans = 256;
  std::uint32_t count_ = 0;  // read and written with __atomic: the spans are
  std::uint64_t begins_[kSpans] = {};
  std::uint64_t ends_[kSpans] = {};
};

// How to read the records of the loaded CUPTI.
struct RecordReading {
  cupti::Functions functions{};
  std::uint32_t version = 0;
  // Kernels and graphs that started outside are dropped; null: all are kept.
  const RecordingSpans* kernel_spans = nullptr;
  const RecordingSpans* graph_spans = nullptr;
};

// Writes a buffer's records and CUPTI's count of drops to this thread's log. Any thread; holds a
// lock of its own meanwhile, so that one buffer is written at a time.
void write_buffer(const RecordReading& reading, void* context, std::uint32_t stream,
                  std::uint8_t* buffer, std::size_t valid_bytes) noexcept;

// Returns the number that stands for a kernel's name in a log, with its definition written; 0 if
// there is no space. Any thread, with a lease of its log.
std::uint32_t write_kernel_name(ThreadLog& log, const char* name) noexcept;

// Writes facts about each device found in buffers since the last call. Queries the driver for what
// CUPTI lacks, with all attributes on request. Not from within a callback.
void write_new_devices(bool with_attributes) noexcept;

// Resets the state of an earlier session: names, devices. Before a session's first buffer.
void forget_written() noexcept;

}  // namespace warpline::agent
