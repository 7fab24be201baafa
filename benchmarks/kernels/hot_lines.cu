// Kernels with one planted hot line each, marked by "hot: NAME". The load and the use of what was loaded
// are in that line, because a wait is sampled where the value is needed.
// Usage: hot_lines NAME [LAUNCHES]; hot_lines list
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace {

constexpr int kN = 1 << 22;
constexpr unsigned kMask = kN - 1;
constexpr int kRounds = 64;
float *in, *out;
int *links, *counts;

void check(cudaError_t error) {
  if (error != cudaSuccess) { std::fprintf(stderr, "%s\n", cudaGetErrorString(error)); std::exit(1); }
}

__device__ unsigned global_id() { return blockIdx.x * blockDim.x + threadIdx.x; }

__global__ void strided(const float* in, float* out) {
  const unsigned id = global_id();
  float sum = in[id & kMask];
  float scale = 1.0f;
  for (int i = 0; i < kRounds; ++i) {
    scale = scale * 0.999f + 0.001f;
    sum += scale * in[(id * 33u + i * 65537u) & kMask];  // hot: strided
    sum = fminf(sum, 1e6f);
  }
  out[id & kMask] = sum;
}

__global__ void conflicts(const float* in, float* out) {
  __shared__ float tile[4096];
  for (int i = threadIdx.x; i < 4096; i += blockDim.x) tile[i] = in[i];
  __syncthreads();
  const unsigned lane = threadIdx.x % 32;
  float sum = 0.0f;
  for (int i = 0; i < kRounds * 4; ++i) {
    const unsigned row = (lane * 32u + i) & 4095u;
    sum += tile[row];  // hot: conflicts
    sum *= 0.999f;
  }
  out[global_id() & kMask] = sum;
}

__global__ void sine(const float* in, float* out) {
  const unsigned id = global_id();
  float x = in[id & kMask];
  float sum = 0.0f;
  for (int i = 0; i < kRounds; ++i) {
    x = x * 0.5f + 0.25f;
    sum += sinf(x * 3.0f) + cosf(x);  // hot: sine
    x += sum * 1e-3f;
  }
  out[id & kMask] = sum;
}

__global__ void division(const float* in, float* out) {
  const unsigned id = global_id();
  float x = in[id & kMask] + 1.0f;
  float y = 2.0f;
  for (int i = 0; i < kRounds * 2; ++i) {
    y = y * 0.99f + 0.5f;
    x = y / x;  // hot: division
    x = x + 1.0f;
  }
  out[id & kMask] = x;
}

__global__ void atomics(const float* in, float* out, int* counts) {
  const unsigned id = global_id();
  float sum = in[id & kMask];
  for (int i = 0; i < 8; ++i) {
    const int bin = (id * 7u + i) & 3u;
    sum += atomicAdd(&counts[bin], 1);  // hot: atomics
    sum *= 0.5f;
  }
  out[id & kMask] = sum;
}

__global__ void chase(const int* links, float* out) {
  const unsigned id = global_id();
  unsigned at = id & kMask;
  float steps = 0.0f;
  for (int i = 0; i < kRounds; ++i) {
    steps += 1.0f;
    at = (links[at] + i) & kMask;  // hot: chase
  }
  out[id & kMask] = steps + at;
}

__global__ void doubles(const float* in, float* out) {
  const unsigned id = global_id();
  double x = in[id & kMask];
  float y = 1.0f;
  for (int i = 0; i < kRounds; ++i) {
    y = y * 0.99f + 0.01f;
    for (int k = 0; k < 8; ++k) x = x * 1.0000001 + 0.25;  // hot: doubles
    y += 0.5f;
  }
  out[id & kMask] = static_cast<float>(x) + y;
}

__global__ void histogram(const float* in, float* out) {
  __shared__ int bins[4];
  if (threadIdx.x < 4) bins[threadIdx.x] = 0;
  __syncthreads();
  const unsigned id = global_id();
  float sum = in[id & kMask];
  for (int i = 0; i < kRounds * 16; ++i) {  // the start of a block also waits for the same unit
    sum = sum * 0.5f + 1.0f;
    sum += atomicAdd(&bins[(threadIdx.x + i) & 3], 1);  // hot: histogram
  }
  out[id & kMask] = sum;
}

__device__ __forceinline__ float looked_up(const float* table, unsigned key) {
  const unsigned hash = key * 2654435761u;
  const float sign = (hash & 1u) ? 1.0f : -1.0f;
  return sign * table[(hash >> 8) & kMask];  // hot: inlined
}

__global__ void inlined(const float* in, float* out) {
  const unsigned id = global_id();
  float sum = 0.0f;
  for (int i = 0; i < kRounds; ++i) {
    sum *= 0.999f;
    sum += looked_up(in, id + i * 4099u);
  }
  out[id & kMask] = sum;
}

__global__ void local_array(const float* in, float* out) {
  const unsigned id = global_id();
  float values[128];
  for (int i = 0; i < 128; ++i) values[i] = i * 0.5f;
  float sum = in[id & kMask];
  for (int i = 0; i < kRounds * 8; ++i) {
    const unsigned at = (static_cast<unsigned>(sum) * 7u + id * 5u + i) & 127u;
    sum = sum * 0.5f + values[at];  // hot: local_array
  }
  out[id & kMask] = sum;
}

std::map<std::string, std::function<void()>> kernels() {
  const int blocks = kN / 4 / 256;
  return {
      {"strided", [=] { strided<<<blocks, 256>>>(in, out); }},
      {"conflicts", [=] { conflicts<<<blocks, 256>>>(in, out); }},
      {"sine", [=] { sine<<<blocks, 256>>>(in, out); }},
      {"division", [=] { division<<<blocks, 256>>>(in, out); }},
      {"atomics", [=] { atomics<<<blocks / 8, 256>>>(in, out, counts); }},
      {"chase", [=] { chase<<<blocks, 256>>>(links, out); }},
      {"doubles", [=] { doubles<<<blocks, 256>>>(in, out); }},
      {"histogram", [=] { histogram<<<blocks, 256>>>(in, out); }},
      {"inlined", [=] { inlined<<<blocks, 256>>>(in, out); }},
      {"local_array", [=] { local_array<<<blocks, 256>>>(in, out); }},
  };
}

}  // namespace

int main(int argc, char** argv) {
  const auto all = kernels();
  const std::string name = argc > 1 ? argv[1] : "list";
  if (!all.count(name)) {
    for (const auto& each : all) std::printf("%s\n", each.first.c_str());
    return name == "list" ? 0 : 2;
  }
  check(cudaMalloc(&in, kN * sizeof(float)));
  check(cudaMalloc(&out, kN * sizeof(float)));
  check(cudaMalloc(&links, kN * sizeof(int)));
  check(cudaMalloc(&counts, 64 * sizeof(int)));
  check(cudaMemset(counts, 0, 64 * sizeof(int)));
  std::vector<float> values(kN);
  std::vector<int> next(kN);
  for (int i = 0; i < kN; ++i) {
    values[i] = (i % 1000) * 1e-3f;
    next[i] = static_cast<int>((i * 2654435761u >> 7) & kMask);
  }
  check(cudaMemcpy(in, values.data(), kN * sizeof(float), cudaMemcpyHostToDevice));
  check(cudaMemcpy(links, next.data(), kN * sizeof(int), cudaMemcpyHostToDevice));
  const auto& launch = all.at(name);
  const int launches = argc > 2 ? std::atoi(argv[2]) : 200;
  for (int i = 0; i < launches; ++i) launch();
  check(cudaGetLastError());
  check(cudaDeviceSynchronize());
  return 0;
}
