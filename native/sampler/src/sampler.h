// Takes what the kernel's rings have, and writes the logs of a session.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "images.h"
#include "perf_events.h"
#include "python/wall_clock.h"
#include "unwinding.h"
#include "warpline_sampler.h"

namespace warpline::sampler {

class Sampler {
 public:
  // Returns 0, or a number of errno.
  int open(const wl_sampler_options& options);
  void run(int until);
  // Writes what is left.
  void close(wl_sampler_counts& counts);

 private:
  void drain(std::uint64_t until_ns);
  void take(const perf_event_header& header, std::uint64_t time_ns);
  void on_sample(const perf_event_header& header);
  void on_switch(const perf_event_header& header);
  void on_lost(const perf_event_header& header);
  void write_switches(Image& image, std::uint32_t tid, Thread& thread);
  void end_image(Image& image, std::uint64_t time_ns);
  // Writes the chain in `callers_` if the log has not got it; returns its number, 0: none.
  std::uint64_t write_chain(Image& image);
  void write_module(Image& image, CodeMapping& mapping);
  void see_code(Image& image, std::uint64_t instruction);
  bool is_recording() const noexcept;
  void flush();

  std::string folder_;
  bool by_frame_pointers_ = false;
  std::uint64_t period_ns_ = 0;
  PerfEvents events_;
  Images images_;
  std::unique_ptr<WallClock> python_;  // null: nothing is wanted of it
  Unwinder unwinder_;
  Callers callers_;
  std::vector<std::byte> outer_;
  const raw::ControlPage* control_ = nullptr;
  wl_sampler_counts counts_{};
  std::uint64_t flushed_ns_ = 0;
};

}  // namespace warpline::sampler
