// What calls of CUDA cost the host: cuda_cost launches | calls | long COUNT
//
// launches: ns per launch of an empty kernel, the median of 40 rows of 500 with the device idle at
//   the beginning of each.
// calls: ns per event record, stream wait, stream synchronize and event query, medians of 60 rows of 400.
// long: COUNT launches; prints private memory of the process at tenths of the way, in kB.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace {

__global__ void kernel(int* target, int value) {
  if (value < 0) *target = value;
}

void check(cudaError_t error) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s\n", cudaGetErrorString(error));
  std::exit(1);
}

template <class Call>
double median_ns(int rows, int calls, Call call) {
  using clock = std::chrono::steady_clock;
  std::vector<double> took;
  for (int row = 0; row < rows; ++row) {
    check(cudaDeviceSynchronize());
    const auto begun = clock::now();
    for (int i = 0; i < calls; ++i) call();
    const std::chrono::duration<double, std::nano> all = clock::now() - begun;
    took.push_back(all.count() / calls);
  }
  std::nth_element(took.begin(), took.begin() + rows / 2, took.end());
  return took[rows / 2];
}

long private_kb() {
  std::FILE* file = std::fopen("/proc/self/smaps_rollup", "r");
  char line[256];
  long sum = 0;
  while (file && std::fgets(line, sizeof line, file)) {
    if (!std::strncmp(line, "Private_", 8)) sum += std::atol(std::strchr(line, ':') + 1);
  }
  if (file) std::fclose(file);
  return sum;
}

void launches(int* target) {
  std::printf("launch %.0f\n", median_ns(40, 500, [=] { kernel<<<1, 32>>>(target, 1); }));
}

void calls() {
  cudaStream_t stream, other;
  cudaEvent_t event;
  check(cudaStreamCreate(&stream));
  check(cudaStreamCreate(&other));
  check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  check(cudaEventRecord(event, stream));
  std::printf("record %.0f\n", median_ns(60, 400, [=] { cudaEventRecord(event, stream); }));
  std::printf("wait %.0f\n", median_ns(60, 400, [=] { cudaStreamWaitEvent(other, event, 0); }));
  std::printf("synchronize %.0f\n", median_ns(60, 400, [=] { cudaStreamSynchronize(stream); }));
  std::printf("query %.0f\n", median_ns(60, 400, [=] { cudaEventQuery(event); }));
}

void many(int* target, long count) {
  const auto begun = std::chrono::steady_clock::now();
  for (long i = 0; i < count; ++i) {
    kernel<<<1, 32>>>(target, 1);
    if ((i + 1) % (count / 10) != 0) continue;
    check(cudaDeviceSynchronize());
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begun;
    std::printf("%ld launches, %.1f s, private %ld kB\n", i + 1, passed.count(), private_kb());
    std::fflush(stdout);
  }
}

}  // namespace

int main(int count, char** words) {
  int* target;
  check(cudaMalloc(&target, sizeof *target));
  kernel<<<1, 32>>>(target, 1);
  check(cudaDeviceSynchronize());
  const char* mode = count > 1 ? words[1] : "";
  if (!std::strcmp(mode, "launches")) {
    launches(target);
  } else if (!std::strcmp(mode, "calls")) {
    calls();
  } else if (!std::strcmp(mode, "long") && count > 2 && std::atol(words[2]) >= 10) {
    many(target, std::atol(words[2]));
  } else {
    std::fprintf(stderr, "cuda_cost launches | calls | long COUNT\n");
    return 2;
  }
  return cudaDeviceSynchronize() != cudaSuccess;
}
