// What the agent costs a program in CUDA and NVTX: agent_cost turns FOLDER | step TIMES | times KIND COUNT
//
// turns: ns per launch of an empty kernel, per event record and per NVTX range, many of each in a row;
//   in turns, as turns.py says, in FOLDER.
// step: between two signals SIGTRAP, TIMES of each kind in the order of kKinds, for instructions.c.
// times: COUNT of one kind, for callgrind.
//
// Compiled by nvcc it is a program in CUDA. Compiled as C++ it uses the stand-in for CUDA of
// native/agent/tests, which FAKE_CUDA and FAKE_CUPTI name.
#include <dlfcn.h>
#include <nvtx3/nvToolsExt.h>
#include <signal.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

#ifdef __CUDACC__

__global__ void kernel(int* target, int value) {
  if (value < 0) *target = value;
}

int* g_target;
cudaStream_t g_stream;
cudaEvent_t g_event;

void check(cudaError_t error) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s\n", cudaGetErrorString(error));
  std::exit(1);
}

void begin() {
  check(cudaMalloc(&g_target, sizeof *g_target));
  check(cudaStreamCreate(&g_stream));
  check(cudaEventCreateWithFlags(&g_event, cudaEventDisableTiming));
}

void launch() { kernel<<<1, 32, 0, g_stream>>>(g_target, 1); }
void call() { cudaEventRecord(g_event, g_stream); }
void settle() { check(cudaDeviceSynchronize()); }

#else

constexpr std::uint32_t kDriver = 1, kRuntime = 2, kLaunch = 13, kDriverLaunch = 5, kRecord = 30;

void (*g_call)(std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t, std::int32_t);
void (*g_call_with)(std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t, std::int32_t,
                    const void*);
void (*g_kernel)(std::uint32_t, const char*, std::uint64_t, std::uint64_t);
std::uint32_t g_correlation = 1000;

template <class Function>
void find(void* library, const char* name, Function& into) {
  into = library == nullptr ? nullptr : reinterpret_cast<Function>(dlsym(library, name));
  if (into != nullptr) return;
  std::fprintf(stderr, "no %s: FAKE_CUDA and FAKE_CUPTI name the stand-in\n", name);
  std::exit(1);
}

void* open_named(const char* variable) {
  const char* path = std::getenv(variable);
  return path == nullptr ? nullptr : dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

void begin() {
  void* cupti = open_named("FAKE_CUPTI");
  find(cupti, "fake_call", g_call);
  find(cupti, "fake_call_with", g_call_with);
  find(cupti, "fake_kernel", g_kernel);
  int (*initialise)(unsigned) = nullptr;
  find(open_named("FAKE_CUDA"), "cuInit", initialise);
  if (initialise(0) != 0) std::exit(1);
}

void launch() {
  const std::uint32_t correlation = ++g_correlation;
  const struct {
    std::uint64_t function;
    std::uint32_t grid[3], block[3];
  } parameters = {4096, {1, 1, 1}, {32, 1, 1}};
  g_call_with(kRuntime, kLaunch, 0, correlation, 0, &parameters);
  g_call(kDriver, kDriverLaunch, 0, correlation, 0);
  g_kernel(correlation, "_Z6kernelPii", 0, 0);
  g_call(kDriver, kDriverLaunch, 1, correlation, 0);
  g_call_with(kRuntime, kLaunch, 1, correlation, 0, &parameters);
}

void call() {
  const std::uint32_t correlation = ++g_correlation;
  const std::uint64_t parameters[] = {0x5000, 0x6000};  // the event, the stream
  g_call_with(kRuntime, kRecord, 0, correlation, 0, parameters);
  g_call_with(kRuntime, kRecord, 1, correlation, 0, parameters);
}

void settle() {}

#endif

void range() {
  nvtxRangePushA("a range of the program");
  nvtxRangePop();
}

void nothing() {}

struct Kind {
  const char* name;
  void (*once)();
  int in_a_row;  // of a turn
};
constexpr Kind kKinds[] = {
    {"launch", launch, 500}, {"call", call, 400}, {"range", range, 2000}, {"nothing", nothing, 1}};
constexpr int kWarm = 200;  // before each row: another program has just had its turn

void repeat(const Kind& kind, long count) {
  void (*volatile const once)() = kind.once;
  for (long i = 0; i < count; ++i) once();
}

double mean_ns(const Kind& kind) {
  using clock = std::chrono::steady_clock;
  repeat(kind, kWarm);
  settle();
  const auto begun = clock::now();
  repeat(kind, kind.in_a_row);
  const std::chrono::duration<double, std::nano> all = clock::now() - begun;
  settle();
  return all.count() / kind.in_a_row;
}

int take_turns(const std::string& folder) {
  std::FILE* asked = std::fopen((folder + "/ask").c_str(), "r");
  std::FILE* answer = std::fopen((folder + "/answer").c_str(), "w");
  if (asked == nullptr || answer == nullptr) return 2;
  std::fprintf(answer, "ready\n");
  std::fflush(answer);
  for (int read; (read = std::fgetc(asked)) != EOF;) {
    if (read != '\n') continue;
    for (const Kind& kind : kKinds) {
      if (kind.once != nothing) std::fprintf(answer, "%s %.1f ", kind.name, mean_ns(kind));
    }
    std::fprintf(answer, "\n");
    std::fflush(answer);
  }
  return 0;
}

int step(long times) {
  for (const Kind& kind : kKinds) {
    repeat(kind, kWarm);
    settle();
    raise(SIGTRAP);
    repeat(kind, times);
    raise(SIGTRAP);
    settle();
  }
  return 0;
}

}  // namespace

int main(int count, char** words) {
  const std::string mode = count > 2 ? words[1] : "";
  begin();
  if (mode == "turns") return take_turns(words[2]);
  if (mode == "step") return step(std::atol(words[2]));
  if (mode == "times" && count > 3) {
    for (const Kind& kind : kKinds) {
      if (std::strcmp(kind.name, words[2]) == 0) repeat(kind, std::atol(words[3]));
    }
    settle();
    return 0;
  }
  std::fprintf(stderr, "agent_cost turns FOLDER | step TIMES | times KIND COUNT\n");
  return 2;
}
