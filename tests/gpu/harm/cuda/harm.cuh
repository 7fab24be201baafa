// What the CUDA programs of the harm test share: kernels on whole numbers, so that the order of
// work decides nothing; a checksum of device memory; steps; the count of kernels launched.
#pragma once

#include <cuda_runtime.h>
#include <nvtx3/nvToolsExt.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <thread>
#include <vector>

// Declared here because cuda_profiler_api.h comes in another package than the rest.
extern "C" cudaError_t CUDARTAPI cudaProfilerStart(void);
extern "C" cudaError_t CUDARTAPI cudaProfilerStop(void);

#define CHECK(call) harm::check((call), #call, __FILE__, __LINE__)

namespace harm {

constexpr int kThreads = 128;

inline std::atomic<unsigned long long> kernels{0};  // launched, those in graphs included
inline int steps_wanted = 12;
inline int pause_ms = 0;
inline const char* program_path = "";

inline void check(cudaError_t status, const char* what, const char* file, int line) {
  if (status == cudaSuccess) return;
  std::printf("%s:%d: %s: %s\n", file, line, what, cudaGetErrorString(status));
  std::fflush(stdout);
  _exit(3);
}

__global__ void mix(std::uint32_t* data, int count, std::uint32_t salt) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) data[i] = data[i] * 1664525u + salt + static_cast<std::uint32_t>(i);
}

__global__ void add(std::uint32_t* to, const std::uint32_t* from, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) to[i] += from[i];
}

// Keeps the device busy without touching memory, so that a program can end while it works.
__global__ void spin(long long cycles) {
  const long long begun = clock64();
  while (clock64() - begun < cycles) {
  }
}

inline dim3 grid_of(int count) { return dim3((count + kThreads - 1) / kThreads); }

// FNV-1a over bytes.
inline std::uint64_t checksum(const void* data, std::size_t bytes) {
  std::uint64_t sum = 1469598103934665603ull;
  for (std::size_t i = 0; i < bytes; ++i) {
    sum = (sum ^ static_cast<const unsigned char*>(data)[i]) * 1099511628211ull;
  }
  return sum;
}

// Loads the kernels: what is loaded at first use could spoil a capture that another thread makes.
inline void load() {
  cudaFuncAttributes attributes;
  CHECK(cudaFuncGetAttributes(&attributes, mix));
  CHECK(cudaFuncGetAttributes(&attributes, add));
  CHECK(cudaFuncGetAttributes(&attributes, spin));
}

// Device memory of `count` numbers, zero at first.
struct Buffer {
  std::uint32_t* data = nullptr;
  int count;

  explicit Buffer(int count = 1 << 14) : count(count) {
    load();
    CHECK(cudaMalloc(&data, bytes()));
    CHECK(cudaMemset(data, 0, bytes()));
    CHECK(cudaDeviceSynchronize());
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() { cudaFree(data); }

  std::size_t bytes() const { return sizeof(std::uint32_t) * static_cast<std::size_t>(count); }
};

inline void say_checksum(const char* name, const std::uint32_t* data, std::size_t bytes) {
  std::vector<unsigned char> copy(bytes);
  CHECK(cudaMemcpy(copy.data(), data, bytes, cudaMemcpyDeviceToHost));
  std::printf("%s checksum %016llx\n", name,
              static_cast<unsigned long long>(checksum(copy.data(), bytes)));
}

inline void say_checksum(const char* name, const Buffer& buffer) {
  CHECK(cudaDeviceSynchronize());
  say_checksum(name, buffer.data, buffer.bytes());
}

struct Stream {
  cudaStream_t stream = nullptr;
  Stream() { CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking)); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() { cudaStreamDestroy(stream); }
  operator cudaStream_t() const { return stream; }
};

struct Event {
  cudaEvent_t event = nullptr;
  explicit Event(unsigned flags = cudaEventDisableTiming) {
    CHECK(cudaEventCreateWithFlags(&event, flags));
  }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  ~Event() { cudaEventDestroy(event); }
  operator cudaEvent_t() const { return event; }
};

// A kernel that becomes part of a graph, and is counted when the graph is launched.
inline void capture_mix(cudaStream_t stream, const Buffer& buffer, std::uint32_t salt) {
  mix<<<grid_of(buffer.count), kThreads, 0, stream>>>(buffer.data, buffer.count, salt);
  CHECK(cudaGetLastError());
}

inline void launch_mix(cudaStream_t stream, const Buffer& buffer, std::uint32_t salt) {
  capture_mix(stream, buffer, salt);
  ++kernels;
}

inline void launch_graph(cudaGraphExec_t exec, cudaStream_t stream, int kernels_in_graph) {
  CHECK(cudaGraphLaunch(exec, stream));
  kernels += static_cast<unsigned long long>(kernels_in_graph);
}

inline cudaGraphExec_t instantiate(cudaGraph_t graph, unsigned long long flags = 0) {
  cudaGraphExec_t exec = nullptr;
  CHECK(cudaGraphInstantiate(&exec, graph, flags));
  return exec;
}

// Runs a body once per step, each in an NVTX range that --steps goes by.
template <typename Body>
void steps(Body body) {
  for (int number = 0; number < steps_wanted; ++number) {
    nvtxRangePushA("step");
    body(number);
    if (pause_ms) std::this_thread::sleep_for(std::chrono::milliseconds(pause_ms));
    nvtxRangePop();
  }
}

using Program = int (*)();

inline int run(int argc, char** argv, const std::map<std::string, Program>& programs) {
  program_path = argv[0];
  const char* name = argc > 1 ? argv[1] : "";
  for (int i = 2; i + 1 < argc; i += 2) {
    if (!std::strcmp(argv[i], "--steps")) steps_wanted = std::atoi(argv[i + 1]);
    if (!std::strcmp(argv[i], "--pause")) pause_ms = std::atoi(argv[i + 1]);
  }
  const auto found = programs.find(name);
  if (found == programs.end()) {
    for (const auto& entry : programs) std::printf("%s\n", entry.first.c_str());
    return 2;
  }
  const int status = found->second();
  std::printf("kernels %llu\n", kernels.load());
  std::fflush(stdout);
  return status;
}

}  // namespace harm
