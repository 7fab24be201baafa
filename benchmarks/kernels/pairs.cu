// Pairs of kernels: one with a fault and one without it, which do the same work. Each is timed alone.
// Usage: pairs NAME bad|fixed [LAUNCHES]; pairs list
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace {

constexpr int kN = 1 << 24;
float *a, *b;
int* counts;

void check(cudaError_t error) {
  if (error != cudaSuccess) { std::fprintf(stderr, "%s\n", cudaGetErrorString(error)); std::exit(1); }
}

// One thread per element: grids of 256 threads that cover n.
int blocks(int n) { return (n + 255) / 256; }
__device__ int global_id() { return blockIdx.x * blockDim.x + threadIdx.x; }

// ---- accesses

struct Record { float x, y, z, w, v[4]; };
__global__ void aos_bad(const Record* in, float* out, int n) {  // 4 of every 32 bytes
  const int i = global_id();
  if (i < n) out[i] = in[i].x * 2;
}
__global__ void aos_fixed(const float* in, float* out, int n) {
  const int i = global_id();
  if (i < n) out[i] = in[i] * 2;
}

__global__ void columns_bad(const float* in, float* out, int width, int height) {
  const int i = global_id();  // neighbors are a row apart
  if (i < width * height) { const int at = (i % height) * width + i / height; out[at] = in[at] + 1; }
}
__global__ void columns_fixed(const float* in, float* out, int width, int height) {
  const int i = global_id();
  if (i < width * height) out[i] = in[i] + 1;
}

__global__ void bytes_bad(const char* in, char* out, int n) {
  const int i = global_id();
  if (i < n) out[i] = in[i] ^ 1;
}
__global__ void bytes_fixed(const uint4* in, uint4* out, int n) {
  const int i = global_id();
  if (i < n) {
    uint4 v = in[i];
    v.x ^= 0x01010101u, v.y ^= 0x01010101u, v.z ^= 0x01010101u, v.w ^= 0x01010101u;
    out[i] = v;
  }
}

template <int kPad>
__global__ void transpose(const float* in, float* out, int width) {
  __shared__ float tile[32][32 + kPad];
  const int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
  for (int j = 0; j < 32; j += 8) tile[threadIdx.y + j][threadIdx.x] = in[(y + j) * width + x];
  __syncthreads();
  const int tx = blockIdx.y * 32 + threadIdx.x, ty = blockIdx.x * 32 + threadIdx.y;
  for (int j = 0; j < 32; j += 8) out[(ty + j) * width + tx] = tile[threadIdx.x][threadIdx.y + j];
}

template <int kStride>
__global__ void shared_stride(const float* in, float* out, int rounds) {  // bank conflicts, nothing else
  __shared__ float tile[256 * 8];
  for (int i = threadIdx.x; i < 256 * 8; i += 256) tile[i] = in[i];
  __syncthreads();
  float sum = 0;
  for (int r = 0; r < rounds; ++r) sum += tile[(threadIdx.x * kStride + r) & 2047];
  out[global_id()] = sum;
}

// ---- parallelism

__global__ void few_blocks(const float* in, float* out, int n) {
  float sum = 0;
  for (int i = global_id(); i < n; i += gridDim.x * blockDim.x) sum += in[i];
  out[global_id()] = sum;
}

__global__ void uneven_bad(const float* in, float* out, int rounds) {  // the first 16 blocks do more
  float v = in[global_id()];
  const int mine = blockIdx.x < 16 ? rounds * 64 : rounds;
  for (int r = 0; r < mine; ++r) v = v * 1.0001f + 0.5f;
  out[global_id()] = v;
}
__global__ void uneven_fixed(const float* in, float* out, int rounds, int blocks_in_all) {
  float v = in[global_id()];  // the same rounds in all, spread evenly
  const int mine = rounds + (rounds * 63 * 16) / blocks_in_all;
  for (int r = 0; r < mine; ++r) v = v * 1.0001f + 0.5f;
  out[global_id()] = v;
}

__global__ void divergent_bad(const float* in, float* out, int rounds) {  // odd threads of each warp
  float v = in[global_id()];
  if (threadIdx.x & 1) { for (int r = 0; r < rounds; ++r) v = v * 1.0001f + 0.5f; }
  else { for (int r = 0; r < rounds; ++r) v = v * 0.9999f - 0.5f; }
  out[global_id()] = v;
}
__global__ void divergent_fixed(const float* in, float* out, int rounds) {  // odd warps
  float v = in[global_id()];
  if ((threadIdx.x >> 5) & 1) { for (int r = 0; r < rounds; ++r) v = v * 1.0001f + 0.5f; }
  else { for (int r = 0; r < rounds; ++r) v = v * 0.9999f - 0.5f; }
  out[global_id()] = v;
}

// ---- arithmetic

__global__ void double_bad(const float* in, float* out, int rounds) {
  float v = in[global_id()];
  for (int r = 0; r < rounds; ++r) v = v * 1.0001 + 0.5;  // double constants
  out[global_id()] = v;
}
__global__ void double_fixed(const float* in, float* out, int rounds) {
  float v = in[global_id()];
  for (int r = 0; r < rounds; ++r) v = v * 1.0001f + 0.5f;
  out[global_id()] = v;
}

__global__ void exact_bad(const float* in, float* out, int rounds) {
  float v = in[global_id()];
  for (int r = 0; r < rounds; ++r) v = sinf(v) / (v * v + 1.5f);
  out[global_id()] = v;
}
__global__ void exact_fixed(const float* in, float* out, int rounds) {
  float v = in[global_id()];
  for (int r = 0; r < rounds; ++r) v = __fdividef(__sinf(v), v * v + 1.5f);
  out[global_id()] = v;
}

// ---- atomics, local memory

__global__ void histogram_bad(const int* in, int* out, int n) {
  for (int i = global_id(); i < n; i += gridDim.x * blockDim.x) atomicAdd(&out[in[i] & 255], 1);
}
__global__ void histogram_fixed(const int* in, int* out, int n) {
  __shared__ int mine[256];
  mine[threadIdx.x] = 0;
  __syncthreads();
  for (int i = global_id(); i < n; i += gridDim.x * blockDim.x) atomicAdd(&mine[in[i] & 255], 1);
  __syncthreads();
  atomicAdd(&out[threadIdx.x], mine[threadIdx.x]);
}

template <bool kDynamic>
__global__ void local_array(const float* in, float* out, int rounds, int step) {
  float v[32];
#pragma unroll
  for (int i = 0; i < 32; ++i) v[i] = in[global_id()] + i;
  for (int r = 0; r < rounds; ++r) {
    if (kDynamic) { const int i = (r * step) & 31; v[i] = v[i] * 1.0001f + v[(i + 7) & 31]; }
    else {
#pragma unroll
      for (int i = 0; i < 32; ++i) v[(i * 3) & 31] = v[(i * 3) & 31] * 1.0001f + v[(i * 3 + 7) & 31];
      r += 31;
    }
  }
  float sum = 0;
#pragma unroll
  for (int i = 0; i < 32; ++i) sum += v[i];
  out[global_id()] = sum;
}

// ---- nothing to gain

__global__ void copy_done(const float4* in, float4* out, int n) {
  const int i = global_id();
  if (i < n) out[i] = in[i];
}

using Launch = std::function<void()>;
struct Pair { Launch bad, fixed; };

std::map<std::string, Pair> pairs() {
  const int n = kN, width = 4096;
  const dim3 tiles(width / 32, width / 32), tile(32, 8);
  const auto ints = reinterpret_cast<int*>(a);
  return {
      {"aos", {[=] { aos_bad<<<blocks(n / 4), 256>>>(reinterpret_cast<Record*>(a), b, n / 4); },
               [=] { aos_fixed<<<blocks(n / 4), 256>>>(a, b, n / 4); }}},
      {"columns", {[=] { columns_bad<<<blocks(n), 256>>>(a, b, width, width); },
                   [=] { columns_fixed<<<blocks(n), 256>>>(a, b, width, width); }}},
      {"bytes", {[=] { bytes_bad<<<blocks(n * 4), 256>>>(reinterpret_cast<char*>(a), reinterpret_cast<char*>(b), n * 4); },
                 [=] { bytes_fixed<<<blocks(n / 4), 256>>>(reinterpret_cast<uint4*>(a), reinterpret_cast<uint4*>(b), n / 4); }}},
      {"transpose", {[=] { transpose<0><<<tiles, tile>>>(a, b, width); }, [=] { transpose<1><<<tiles, tile>>>(a, b, width); }}},
      {"shared_stride", {[=] { shared_stride<8><<<4096, 256>>>(a, b, 512); }, [=] { shared_stride<1><<<4096, 256>>>(a, b, 512); }}},
      {"few_blocks", {[=] { few_blocks<<<16, 256>>>(a, b, n); }, [=] { few_blocks<<<1056, 256>>>(a, b, n); }}},
      {"uneven", {[=] { uneven_bad<<<2112, 256>>>(a, b, 256); }, [=] { uneven_fixed<<<2112, 256>>>(a, b, 256, 2112); }}},
      {"divergent", {[=] { divergent_bad<<<8192, 256>>>(a, b, 2000); }, [=] { divergent_fixed<<<8192, 256>>>(a, b, 2000); }}},
      {"double", {[=] { double_bad<<<8192, 256>>>(a, b, 300); }, [=] { double_fixed<<<8192, 256>>>(a, b, 300); }}},
      {"exact", {[=] { exact_bad<<<8192, 256>>>(a, b, 100); }, [=] { exact_fixed<<<8192, 256>>>(a, b, 100); }}},
      {"histogram", {[=] { histogram_bad<<<1056, 256>>>(ints, counts, n); }, [=] { histogram_fixed<<<1056, 256>>>(ints, counts, n); }}},
      {"local_array", {[=] { local_array<true><<<4096, 256>>>(a, b, 512, 3); }, [=] { local_array<false><<<4096, 256>>>(a, b, 512, 3); }}},
      {"copy", {[=] { copy_done<<<blocks(n / 4), 256>>>(reinterpret_cast<float4*>(a), reinterpret_cast<float4*>(b), n / 4); },
                [=] { copy_done<<<blocks(n / 4), 256>>>(reinterpret_cast<float4*>(a), reinterpret_cast<float4*>(b), n / 4); }}},
  };
}

}  // namespace

int main(int count, char** words) {
  const auto known = pairs();
  if (count < 3) { for (const auto& [name, _] : known) std::printf("%s\n", name.c_str()); return 0; }
  check(cudaMalloc(&a, sizeof(float) * kN * 2)), check(cudaMalloc(&b, sizeof(float) * kN * 2)), check(cudaMalloc(&counts, 4096));
  check(cudaMemset(a, 0x3d, sizeof(float) * kN * 2));  // a small number everywhere
  check(cudaMemset(counts, 0, 4096));
  const auto made = pairs();  // with the addresses
  const Pair& pair = made.at(words[1]);
  const Launch& launch = std::strcmp(words[2], "bad") == 0 ? pair.bad : pair.fixed;
  const int launches = count > 3 ? std::atoi(words[3]) : 1;
  std::vector<float> times;
  cudaEvent_t begin, end;
  check(cudaEventCreate(&begin)), check(cudaEventCreate(&end));
  for (int i = 0; i < launches; ++i) {
    check(cudaEventRecord(begin)), launch(), check(cudaEventRecord(end)), check(cudaEventSynchronize(end));
    float ms = 0;
    check(cudaEventElapsedTime(&ms, begin, end)), times.push_back(ms * 1000);
  }
  check(cudaGetLastError());
  std::sort(times.begin(), times.end());
  std::printf("%s %s %.3f us\n", words[1], words[2], times[times.size() / 2]);
}
