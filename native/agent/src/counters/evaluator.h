// Computes the values of counted ranges beside the program, and writes them down.
#pragma once

#include <pthread.h>

#include <cstdint>
#include <deque>
#include <vector>

#include "counters/metrics.h"
#include "counters/range_profiler.h"

namespace warpline::agent {

inline constexpr std::uint32_t kUnwanted = 0xffffffff;  // a range that nobody asked for

// A counter data image and the launches whose ranges it has, in order.
struct CounterBatch {
  CounterImage image;
  std::vector<std::uint32_t> launches;
  bool is_busy = false;  // with the evaluator
};

class Evaluator {
 public:
  explicit Evaluator(const cupti::CounterFunctions& functions) : functions_(functions) {}
  ~Evaluator();
  Evaluator(const Evaluator&) = delete;
  Evaluator& operator=(const Evaluator&) = delete;

  bool start() noexcept;
  // Ends after all that was handed over. The evaluator stays usable for `wait`.
  void stop() noexcept;

  // Hands a decoded batch over; both must live until it is free again.
  void take(CounterBatch& batch, const Metrics& metrics) noexcept;
  // Waits until a batch is free.
  void wait(const CounterBatch& batch) noexcept;
  // Waits until all that was handed over is written down.
  void wait_for_all() noexcept;

  // Batches whose image did not have a range for each launch.
  std::uint64_t mismatches() const noexcept { return mismatches_; }

 private:
  struct Job {
    CounterBatch* batch;
    const Metrics* metrics;
  };
  static void* run(void* self);
  void work() noexcept;
  void write(const Job& job) noexcept;

  cupti::CounterFunctions functions_;
  pthread_mutex_t lock_ = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t changed_ = PTHREAD_COND_INITIALIZER;
  std::deque<Job> jobs_;
  std::size_t under_way_ = 0;  // with that which is being written
  std::vector<double> values_;
  pthread_t thread_{};
  bool runs_ = false;
  bool ends_ = false;
  std::uint64_t mismatches_ = 0;
};

}  // namespace warpline::agent
