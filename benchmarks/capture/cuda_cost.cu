// What CUDA costs: cuda_cost launches FOLDER | calls FOLDER | graphs FOLDER | long COUNT
//
// launches: ns per launch of an empty kernel, 500 in a row, the device idle at the beginning.
// calls: ns per event record, stream wait, stream synchronize and event query, 400 of each in a row.
// graphs: us per launch of a CUDA graph whose kernels run one after another, until the device is done
//   with it: 10, 100 and 1,000 empty kernels, 100 kernels of 20 us, and 100 empty kernels in four
//   branches; and us that the call takes the host (host100).
//   These take turns as turns.py says, in FOLDER.
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

__global__ void spin(int* target, long long cycles) {
  const long long until = clock64() + cycles;
  while (clock64() < until) {
  }
  if (cycles < 0) *target = 1;
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

constexpr int kBranches = 4;

// A graph of so many kernels, in a chain or, forked and joined, in branches.
cudaGraphExec_t graph_of(int kernels, long long cycles, int* target, bool in_branches) {
  cudaStream_t streams[kBranches];
  cudaEvent_t forked, joined;
  for (cudaStream_t& stream : streams) check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  check(cudaEventCreateWithFlags(&forked, cudaEventDisableTiming));
  check(cudaEventCreateWithFlags(&joined, cudaEventDisableTiming));
  const int branches = in_branches ? kBranches : 1;
  check(cudaStreamBeginCapture(streams[0], cudaStreamCaptureModeGlobal));
  check(cudaEventRecord(forked, streams[0]));
  for (int i = 1; i < branches; ++i) check(cudaStreamWaitEvent(streams[i], forked, 0));
  for (int i = 0; i < kernels; ++i) {
    spin<<<1, 32, 0, streams[i % branches]>>>(target, cycles);
  }
  for (int i = 1; i < branches; ++i) {
    check(cudaEventRecord(joined, streams[i]));
    check(cudaStreamWaitEvent(streams[0], joined, 0));
  }
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  check(cudaStreamEndCapture(streams[0], &graph));
  check(cudaGraphInstantiate(&exec, graph, 0));
  return exec;
}

// us of a launch: in all, or of the call alone.
double launched_us(cudaGraphExec_t exec, cudaStream_t stream, int launches, bool is_call_alone) {
  using clock = std::chrono::steady_clock;
  for (int i = 0; i < 3; ++i) check(cudaGraphLaunch(exec, stream));
  check(cudaStreamSynchronize(stream));
  std::chrono::duration<double, std::micro> calls{};
  const auto begun = clock::now();
  for (int i = 0; i < launches; ++i) {
    const auto called = clock::now();
    check(cudaGraphLaunch(exec, stream));
    calls += clock::now() - called;
    if (is_call_alone) check(cudaStreamSynchronize(stream));
  }
  check(cudaStreamSynchronize(stream));
  const std::chrono::duration<double, std::micro> all = clock::now() - begun;
  return (is_call_alone ? calls : all).count() / launches;
}

int graphs(const char* folder, int* target) {
  constexpr long long twenty_us = 35'000;  // cycles, at 1.75 GHz
  cudaStream_t stream;
  check(cudaStreamCreate(&stream));
  const cudaGraphExec_t ten = graph_of(10, 0, target, false);
  const cudaGraphExec_t hundred = graph_of(100, 0, target, false);
  const cudaGraphExec_t thousand = graph_of(1000, 0, target, false);
  const cudaGraphExec_t busy = graph_of(100, twenty_us, target, false);
  const cudaGraphExec_t branched = graph_of(100, 0, target, true);
  return take_turns(folder, [=](std::FILE* answer) {
    std::fprintf(answer, "chain10 %.2f ", launched_us(ten, stream, 100, false));
    std::fprintf(answer, "chain100 %.2f ", launched_us(hundred, stream, 20, false));
    std::fprintf(answer, "chain1000 %.2f ", launched_us(thousand, stream, 5, false));
    std::fprintf(answer, "busy100 %.2f ", launched_us(busy, stream, 5, false));
    std::fprintf(answer, "branches100 %.2f ", launched_us(branched, stream, 20, false));
    std::fprintf(answer, "host100 %.2f\n", launched_us(hundred, stream, 20, true));
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
  if (!std::strcmp(mode, "graphs")) return graphs(words[2], target);
  if (!std::strcmp(mode, "long") && std::atol(words[2]) >= 10) {
    many(target, std::atol(words[2]));
    return 0;
  }
  std::fprintf(stderr, "cuda_cost launches FOLDER | calls FOLDER | graphs FOLDER | long COUNT\n");
  return 2;
}
