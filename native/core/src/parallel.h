// Splitting a range of work over a few threads.
#pragma once

#include <algorithm>
#include <cstddef>
#include <exception>
#include <system_error>
#include <thread>
#include <vector>

namespace warpline {

inline constexpr std::size_t kDefaultThreads = 4;
inline constexpr std::size_t kMaxThreads = 64;

// The number of slices for `items`: at most the requested number, none smaller than `min_slice`.
inline std::size_t slice_count(std::size_t items, std::size_t min_slice, int requested) {
  const std::size_t processors = std::max(1U, std::thread::hardware_concurrency());
  std::size_t allowed = std::min(kDefaultThreads, processors);
  if (requested > 0) allowed = std::min(static_cast<std::size_t>(requested), kMaxThreads);
  return std::clamp<std::size_t>(items / min_slice, 1, allowed);
}

// Calls work(slice, begin, end) for consecutive parts of [0, items). A failure in any of them is
// thrown here once all have ended; of several, that of the first part.
template <typename Work>
void for_each_slice(std::size_t items, std::size_t slices, const Work &work) {
  std::vector<std::exception_ptr> failures(slices);
  const auto run = [&](std::size_t slice) noexcept {
    try {
      work(slice, items * slice / slices, items * (slice + 1) / slices);
    } catch (...) {
      failures[slice] = std::current_exception();
    }
  };
  std::vector<std::thread> threads;
  threads.reserve(slices);
  for (std::size_t slice = 1; slice < slices; ++slice) {
    try {
      threads.emplace_back(run, slice);
    } catch (const std::system_error &) {
      run(slice);  // no more threads to be had
    }
  }
  run(0);
  for (std::thread &thread : threads) thread.join();
  for (const std::exception_ptr &failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
}

}  // namespace warpline
