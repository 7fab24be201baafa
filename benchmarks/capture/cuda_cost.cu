// What calls of CUDA cost the host: cuda_cost launches FOLDER | calls FOLDER | long COUNT
//
// launches: ns per launch of an empty kernel, 500 in a row, the device idle at the beginning.
// calls: ns per event record, stream wait, stream synchronize and event query, 400 of each in a row.
//   Both take turns as turns.py says, in FOLDER.
// long: COUNT launches; prints private memory of the process at tenths of the way, in kB.

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

__global__ void kernel(int* target, int value) {
  if (value < 0) *target = value;
}

void check(cudaError_t error) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s\n", cudaGetErrorString(error));
  std::exit(1);
}

constexpr int kWarm = 200;  // before each row: another program has just had its turn

template <class Call>
double mean_ns(int calls, Call call) {
  using clock = std::chrono::steady_clock;
  for (int i = 0; i < kWarm; ++i) call();
  check(cudaDeviceSynchronize());
  const auto begun = clock::now();
  for (int i = 0; i < calls; ++i) call();
  const std::chrono::duration<double, std::nano> all = clock::now() - begun;
  check(cudaDeviceSynchronize());
  return all.count() / calls;
}

template <class Work>
int take_turns(const char* folder, Work work) {
  const std::string path = folder;
  std::FILE* asked = std::fopen((path + "/ask").c_str(), "r");
  std::FILE* answer = std::fopen((path + "/answer").c_str(), "w");
  if (!asked || !answer) return 2;
  std::fprintf(answer, "ready\n");
  std::fflush(answer);
  for (int read; (read = std::fgetc(asked)) != EOF;) {
    if (read != '\n') continue;
    work(answer);
    std::fflush(answer);
  }
  return 0;
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

int launches(const char* folder, int* target) {
  return take_turns(folder, [=](std::FILE* answer) {
    const auto launch = [=] { kernel<<<1, 32>>>(target, 1); };
    std::fprintf(answer, "launch %.1f\n", mean_ns(500, launch));
  });
}

int calls(const char* folder) {
  cudaStream_t stream, other;
  cudaEvent_t event;
  check(cudaStreamCreate(&stream));
  check(cudaStreamCreate(&other));
  check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  check(cudaEventRecord(event, stream));
  return take_turns(folder, [=](std::FILE* answer) {
    constexpr int count = 400;
    const double record = mean_ns(count, [=] { cudaEventRecord(event, stream); });
    const double wait = mean_ns(count, [=] { cudaStreamWaitEvent(other, event, 0); });
    const double synchronize = mean_ns(count, [=] { cudaStreamSynchronize(stream); });
    const double query = mean_ns(count, [=] { cudaEventQuery(event); });
    std::fprintf(answer, "record %.1f wait %.1f synchronize %.1f query %.1f\n", record, wait,
                 synchronize, query);
  });
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
  const char* mode = count > 2 ? words[1] : "";
  if (!std::strcmp(mode, "launches")) return launches(words[2], target);
  if (!std::strcmp(mode, "calls")) return calls(words[2]);
  if (!std::strcmp(mode, "long") && std::atol(words[2]) >= 10) {
    many(target, std::atol(words[2]));
    return 0;
  }
  std::fprintf(stderr, "cuda_cost launches FOLDER | calls FOLDER | long COUNT\n");
  return 2;
}
