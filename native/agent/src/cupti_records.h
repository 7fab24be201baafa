// CUPTI's activity records, written down as records of a log.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cupti_abi.h"
#include "thread_log.h"
#include "warpline_cuda.h"

namespace warpline::agent {

// The times at which recording was on, for a CUPTI that cannot be told to rest. Remembers the last
// kSpans; written with the tracing's lock held, read by whoever writes buffers down.
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

// How the records of the library that is loaded are to be read.
struct RecordReading {
  cupti::Functions functions{};
  std::uint32_t version = 0;
  // Kernels, and graphs, that began outside are left out; null: all are kept.
  const RecordingSpans* kernel_spans = nullptr;
  const RecordingSpans* graph_spans = nullptr;
};

// Writes a buffer's records into this thread's log, and how many CUPTI dropped. Any thread; holds a
// lock of its own meanwhile, so that one buffer is written at a time.
void write_buffer(const RecordReading& reading, void* context, std::uint32_t stream,
                  std::uint8_t* buffer, std::size_t valid_bytes) noexcept;

// Writes what is known of each device met in a buffer since the last call. Asks the driver for what
// CUPTI does not tell. Not from within a callback.
void write_new_devices() noexcept;

// Forgets what logs of an earlier session knew: names, devices. Before a session's first buffer.
void forget_written() noexcept;

}  // namespace warpline::agent
