// Pairs of kernels: one with a fault and one without it, which do the same work.
// Usage: pairs list                     prints the names
//        pairs NAME bad|fixed [LAUNCHES]  times one of them
//        pairs all bad|fixed LAUNCHES   launches those of all pairs, in the order of the names; the last launch of each
//                                       is between cudaProfilerStart and cudaProfilerStop
//        pairs check                    compares the results of pairs with equal ones
#include <cuda_profiler_api.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "checked_pairs.cuh"

namespace {

constexpr int kN = 1 << 24;
constexpr int kRoom = 160 * 1024;  // bytes of shared memory of blocks of which one fits on an SM
float *a, *b;
int* counts;

void check(cudaError_t error) {
  if (error != cudaSuccess) { std::fprintf(stderr, "%s\n", cudaGetErrorString(error)); std::exit(1); }
}

int multiprocessors() {
  int count = 0;
  if (cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, 0) != cudaSuccess) count = 1;  // without a GPU: names only
  return count;
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
struct Pair {
  Launch bad, fixed;
  double most_error = -1;  // largest difference of results, relative to the largest result; less than 0: not compared
  bool counts = false;     // results are in `counts`, not in `b`
  Launch prepare_bad = {}, prepare_fixed = {};
};

std::map<std::string, Pair> pairs() {
  const int n = kN, width = 4096;
  const dim3 tiles(width / 32, width / 32), tile(32, 8);
  const auto ints = reinterpret_cast<int*>(a);
  const auto halves = reinterpret_cast<uint16_t*>(a);
  const auto words = reinterpret_cast<int4*>(a);
  const auto wide = reinterpret_cast<float4*>(a);
  const auto wide_out = reinterpret_cast<float4*>(b);
  const auto real16 = reinterpret_cast<half*>(a);
  const int sms = multiprocessors();
  constexpr int kPassed = 3538944;  // float4: 57 MB, more than L2 has
  const Launch small_halves = [=] { checked::fill_halves<<<blocks(kN), 256>>>(real16, kN); };
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
      // Compared: results are equal, or nearly so where sums are in another order.
      {"barrier", {[=] { checked::rows_by_tree<<<sms * 2, checked::kRow>>>(a, b, n / checked::kRow); },
                   [=] { checked::rows_by_warps<<<sms * 8, 256>>>(a, b, n / checked::kRow); }, 1e-5}},
      {"copy_ahead", {[=] { checked::tiles_waiting<<<sms, checked::kTile, kRoom>>>(wide, b, 40); },
                      [=] { checked::tiles_ahead<<<sms, checked::kTile, kRoom>>>(wide, b, 40); }, 0}},
      {"misaligned", {[=] { checked::pitched_rows<<<2048, 256>>>(a, b, 65537, 64, 4); },
                      [=] { checked::pitched_rows<<<2048, 256>>>(a, b, 65536, 64, 4); }, 0, false,
                      [=] { checked::fill_pitched<<<1024, 256>>>(a, 65537, 65); },
                      [=] { checked::fill_pitched<<<1024, 256>>>(a, 65536, 65); }}},
      {"spills", {[=] { checked::many_values<6><<<4096, 256>>>(a, b, 64); },
                  [=] { checked::many_values<2><<<4096, 256>>>(a, b, 64); }, 1e-6}},
      {"shared_atomics", {[=] { checked::digits_shared<<<sms * 8, 256>>>(ints, counts, n); },
                          [=] { checked::digits_of_lanes<<<sms * 8, 256>>>(ints, counts, n); }, 0, true}},
      {"shared_swaps", {[=] { checked::sums_shared<<<sms * 8, 256>>>(ints, reinterpret_cast<float*>(counts), n); },
                        [=] { checked::sums_of_threads<<<sms * 8, 256>>>(ints, reinterpret_cast<float*>(counts), n); }, 1e-5, true}},
      {"last_wave", {[=] { checked::products_of_blocks<<<sms + 8, 256, kRoom>>>(real16, b, 8 * (sms + 8), 8, 400); },
                     [=] { checked::products_of_blocks<<<sms, 256, kRoom>>>(real16, b, 8 * (sms + 8), 9, 400); }, 0, false,
                     small_halves, small_halves}},
      {"l2_passes", {[=] { checked::passes_over_all<<<sms * 8, 256>>>(wide, wide_out, kPassed, 8); },
                     [=] { checked::passes_over_parts<<<sms * 8, 256>>>(wide, wide_out, kPassed, 8); }, 1e-5}},
      {"conversions", {[=] { checked::dequantized<false><<<blocks(n / 4), 256>>>(words, b, n / 4, 16); },
                       [=] { checked::dequantized<true><<<blocks(n / 4), 256>>>(words, b, n / 4, 16); }, 1e-6}},
      {"halves", {[=] { checked::halves_one<<<blocks(n * 2), 256>>>(halves, reinterpret_cast<uint16_t*>(b), n * 2); },
                  [=] { checked::halves_eight<<<blocks(n / 4), 256>>>(reinterpret_cast<uint4*>(a), reinterpret_cast<uint4*>(b), n / 4); }, 0}},
      {"polynomial", {[=] { checked::polynomial<double><<<8192, 256>>>(a, b, 400); },
                      [=] { checked::polynomial<float><<<8192, 256>>>(a, b, 400); }, 1e-5}},
  };
}

// Numbers from 0 to 1 that differ in all bits.
__global__ void fill(float* out, int n) {
  const int i = global_id();
  if (i < n) out[i] = static_cast<float>((static_cast<unsigned>(i) * 2654435761u) >> 8) * (1.0f / (1 << 24));
}

void fill_input(bool differs) {
  if (differs) fill<<<blocks(kN * 2), 256>>>(a, kN * 2);
  else check(cudaMemset(a, 0x3d, sizeof(float) * kN * 2));  // a small number everywhere
  check(cudaMemset(counts, 0, 4096));
  check(cudaMemset(b, 0, sizeof(float) * kN * 2));
}

void prepare(const Pair& pair, bool is_bad) {
  fill_input(pair.most_error >= 0);
  const Launch& launch = is_bad ? pair.prepare_bad : pair.prepare_fixed;
  if (launch) launch();
  check(cudaDeviceSynchronize());
}

std::vector<float> results(const Pair& pair, bool is_bad, bool is_float) {
  prepare(pair, is_bad), (is_bad ? pair.bad : pair.fixed)();
  check(cudaDeviceSynchronize());
  std::vector<float> found(pair.counts ? 256 : kN * 2);
  check(cudaMemcpy(found.data(), pair.counts ? static_cast<void*>(counts) : b, found.size() * 4, cudaMemcpyDeviceToHost));
  if (!is_float)
    for (float& value : found) { int bits; std::memcpy(&bits, &value, 4); value = static_cast<float>(bits); }
  return found;
}

int compare() {
  int wrong = 0;
  for (const auto& [name, pair] : pairs()) {
    if (pair.most_error < 0) continue;
    const bool is_float = !(pair.counts && pair.most_error == 0) && name != "halves";
    const auto bad = results(pair, true, is_float), fixed = results(pair, false, is_float);
    double most = 0, error = 0;
    for (size_t i = 0; i < bad.size(); ++i) most = std::max(most, std::fabs(double(bad[i]))), error = std::max(error, std::fabs(double(bad[i]) - fixed[i]));
    const bool is_equal = most > 0 && error <= pair.most_error * most;
    wrong += !is_equal;
    std::printf("%s: largest %g, difference %g%s\n", name.c_str(), most, error, is_equal ? "" : ", TOO MUCH");
  }
  return wrong;
}

}  // namespace

void launch_all(bool is_bad, int launches) {
  for (const auto& [name, pair] : pairs()) {
    prepare(pair, is_bad);
    for (int i = 0; i < launches; ++i) {
      if (i == launches - 1) check(cudaProfilerStart());
      (is_bad ? pair.bad : pair.fixed)();
      check(cudaDeviceSynchronize());
    }
    check(cudaProfilerStop());
  }
}

int main(int count, char** words) {
  const std::string name = count > 1 ? words[1] : "list";
  if (name == "list") { for (const auto& [known, _] : pairs()) std::printf("%s\n", known.c_str()); return 0; }
  check(cudaMalloc(&a, sizeof(float) * kN * 2)), check(cudaMalloc(&b, sizeof(float) * kN * 2)), check(cudaMalloc(&counts, 4096));
  for (const auto kernel : {checked::tiles_waiting, checked::tiles_ahead})
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kRoom));
  check(cudaFuncSetAttribute(checked::products_of_blocks, cudaFuncAttributeMaxDynamicSharedMemorySize, kRoom));
  if (name == "check") return compare();
  if (count < 3) { std::fprintf(stderr, "bad or fixed?\n"); return 2; }
  const bool is_bad = std::strcmp(words[2], "bad") == 0;
  const int launches = count > 3 ? std::atoi(words[3]) : 1;
  if (name == "all") { launch_all(is_bad, launches); check(cudaGetLastError()); return 0; }
  const Pair pair = pairs().at(name);
  prepare(pair, is_bad);
  const Launch& launch = is_bad ? pair.bad : pair.fixed;
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
