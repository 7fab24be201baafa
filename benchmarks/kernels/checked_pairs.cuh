// More pairs of kernels, whose results are compared: see pairs.cu.
#pragma once
#include <cuda_fp16.h>
#include <cuda_pipeline.h>
#include <cuda_runtime.h>
#include <mma.h>

#include <cstdint>

namespace checked {

__device__ inline int global_id() { return blockIdx.x * blockDim.x + threadIdx.x; }

// ---- barriers: a reduction through shared memory for each row, or within warps

constexpr int kRow = 1024;

__global__ void rows_by_tree(const float* in, float* out, int rows) {
  __shared__ float part[kRow];
  for (int row = blockIdx.x; row < rows; row += gridDim.x) {
    part[threadIdx.x] = in[row * kRow + threadIdx.x];
    for (int half = kRow / 2; half > 0; half /= 2) {
      __syncthreads();
      if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
    }
    if (threadIdx.x == 0) out[row] = part[0];
    __syncthreads();
  }
}

__global__ void rows_by_warps(const float* in, float* out, int rows) {
  const int lane = threadIdx.x & 31, warps = gridDim.x * (blockDim.x / 32);
  for (int row = global_id() / 32; row < rows; row += warps) {
    float sum = 0;
    for (int i = lane; i < kRow; i += 32) sum += in[row * kRow + i];
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
    if (lane == 0) out[row] = sum;
  }
}

// ---- copies to shared memory: each tile is used when it has come, or three more are on their way meanwhile

constexpr int kTile = 1024, kStages = 4, kUses = 24;  // float4 and threads; tiles; elements for each thread

__device__ inline float use(const float4* tile) {
  float v = 0;
#pragma unroll
  for (int i = 0; i < kUses; ++i) v = v * 0.99f + reinterpret_cast<const float*>(tile)[(threadIdx.x + i * 32) & (kTile * 4 - 1)];
  return v;
}

__global__ void tiles_waiting(const float4* in, float* out, int tiles) {
  extern __shared__ float4 tile[];
  float sum = 0;
  for (int t = 0; t < tiles; ++t) {
    tile[threadIdx.x] = in[(blockIdx.x * tiles + t) * kTile + threadIdx.x];
    __syncthreads();
    sum += use(tile);
    __syncthreads();
  }
  out[global_id()] = sum;
}

__global__ void tiles_ahead(const float4* in, float* out, int tiles) {
  extern __shared__ float4 stages[];
  const auto fetch = [&](int t) {
    if (t < tiles)
      __pipeline_memcpy_async(&stages[t % kStages * kTile + threadIdx.x], &in[(blockIdx.x * tiles + t) * kTile + threadIdx.x],
                              sizeof(float4));
    __pipeline_commit();
  };
  for (int t = 0; t < kStages - 1; ++t) fetch(t);
  float sum = 0;
  for (int t = 0; t < tiles; ++t) {
    __pipeline_wait_prior(kStages - 2);
    __syncthreads();
    fetch(t + kStages - 1);
    sum += use(&stages[t % kStages * kTile]);
  }
  out[global_id()] = sum;
}

// ---- rows whose pitch is no multiple of a sector: each request of a warp covers one sector more

__global__ void pitched_rows(const float* in, float* out, int pitch, int rows, int passes) {
  float sum = 0;
  for (int pass = 0; pass < passes; ++pass)
    for (int row = 0; row < rows; ++row) sum += __ldcg(&in[row * pitch + ((global_id() + pass * 4096) & 65535)]);
  out[global_id()] = sum;
}

// Both layouts hold the same numbers: those of the element's place in an unpadded matrix.
__global__ void fill_pitched(float* in, int pitch, int rows) {
  for (int i = global_id(); i < rows * pitch; i += gridDim.x * blockDim.x)
    in[i] = ((i / pitch * 65536 + i % pitch) & 1023) * 0.001f;
}

// ---- spills: more live values than registers are allowed

template <int kBlocks>
__global__ void __launch_bounds__(256, kBlocks) many_values(const float* in, float* out, int rounds) {
  constexpr int kValues = 56;
  float v[kValues];
#pragma unroll
  for (int i = 0; i < kValues; ++i) v[i] = in[global_id() + i * 64];
  for (int r = 0; r < rounds; ++r) {
#pragma unroll
    for (int i = 0; i < kValues; ++i) v[i] = v[i] * 0.75f + v[(i + 11) % kValues] * 0.2f;
  }
  float sum = 0;
#pragma unroll
  for (int i = 0; i < kValues; ++i) sum += v[i];
  out[global_id()] = sum;
}

// ---- atomics in shared memory: histograms of four digits, once or for each lane (additions of 1 would be counted by the
// hardware)

constexpr int kBins = 16, kDigits = 4;

__device__ inline int digit(int value, int place) { return (value >> (8 + 4 * place)) & (kBins - 1); }

__global__ void digits_shared(const int* in, int* out, int n) {
  __shared__ int bins[kDigits][kBins];
  if (threadIdx.x < kDigits * kBins) (&bins[0][0])[threadIdx.x] = 0;
  __syncthreads();
  for (int i = global_id(); i < n; i += gridDim.x * blockDim.x) {
#pragma unroll
    for (int d = 0; d < kDigits; ++d) atomicAdd(&bins[d][digit(in[i], d)], in[i] & 3);
  }
  __syncthreads();
  if (threadIdx.x < kDigits * kBins) atomicAdd(&out[threadIdx.x], (&bins[0][0])[threadIdx.x]);
}

__global__ void digits_of_lanes(const int* in, int* out, int n) {
  __shared__ int bins[kDigits][kBins][32];
  for (int i = threadIdx.x; i < kDigits * kBins * 32; i += blockDim.x) (&bins[0][0][0])[i] = 0;
  __syncthreads();
  const int lane = threadIdx.x & 31;
  for (int i = global_id(); i < n; i += gridDim.x * blockDim.x) {
#pragma unroll
    for (int d = 0; d < kDigits; ++d) atomicAdd(&bins[d][digit(in[i], d)][lane], in[i] & 3);
  }
  __syncthreads();
  if (threadIdx.x < kDigits * kBins) {
    int sum = 0;
    for (int i = 0; i < 32; ++i) sum += (&bins[0][0][0])[threadIdx.x * 32 + ((threadIdx.x + i) & 31)];
    atomicAdd(&out[threadIdx.x], sum);
  }
}

// The same with floats, which shared memory adds by compare and swap; or a column for each thread, without atomics.
__global__ void sums_shared(const int* in, float* out, int n) {
  __shared__ float bins[kBins];
  if (threadIdx.x < kBins) bins[threadIdx.x] = 0;
  __syncthreads();
  for (int i = global_id(); i < n; i += gridDim.x * blockDim.x) atomicAdd(&bins[digit(in[i], 0)], 1.0f);
  __syncthreads();
  if (threadIdx.x < kBins) atomicAdd(&out[threadIdx.x], bins[threadIdx.x]);
}

__global__ void sums_of_threads(const int* in, float* out, int n) {
  __shared__ float bins[kBins][256];
  for (int bin = 0; bin < kBins; ++bin) bins[bin][threadIdx.x] = 0;
  for (int i = global_id(); i < n; i += gridDim.x * blockDim.x) bins[digit(in[i], 0)][threadIdx.x] += 1.0f;
  __syncthreads();
  const int bin = threadIdx.x / 16, part = threadIdx.x % 16;  // 16 threads add up a bin
  float sum = 0;
  for (int i = part; i < 256; i += 16) sum += bins[bin][i];
  for (int step = 8; step > 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step, 16);
  if (part == 0) atomicAdd(&out[bin], sum);
}

// ---- the last wave: blocks of which one fits on an SM, a few more than SMs, or as many

__global__ void products_of_blocks(const half* in, float* out, int items, int of_block, int rounds) {
  using namespace nvcuda::wmma;
  constexpr int kSide = 16, kSize = kSide * kSide;
  const int warps = blockDim.x / 32;
  for (int k = 0; k < of_block; ++k) {
    const int item = blockIdx.x + k * gridDim.x;
    if (item >= items) return;
    const int place = (item * warps + threadIdx.x / 32) * kSize;
    fragment<matrix_a, kSide, kSide, kSide, half, row_major> left;
    fragment<matrix_b, kSide, kSide, kSide, half, row_major> right;
    fragment<accumulator, kSide, kSide, kSide, float> sum;
    load_matrix_sync(left, in + place, kSide), load_matrix_sync(right, in + place, kSide);
    fill_fragment(sum, 0.0f);
    for (int r = 0; r < rounds; ++r) mma_sync(sum, left, right, sum);
    store_matrix_sync(out + place, sum, kSide, mem_row_major);
  }
}

__global__ void fill_halves(half* in, int n) {
  const int i = global_id();
  if (i < n) in[i] = __float2half((i % 61) * 0.001f);
}

// ---- passes over an array that does not fit into L2, or over parts that do

__global__ void passes_over_all(const float4* in, float4* out, int n, int passes) {
  const int threads = gridDim.x * blockDim.x;
  for (int i = global_id(); i < n; i += threads) {
    float4 sum = {};
    for (int pass = 0; pass < passes; ++pass) {
      const float4 v = __ldcg(&in[(i + pass * (n / passes)) % n]);  // far apart
      sum.x += v.x, sum.y += v.y, sum.z += v.z, sum.w += v.w;
    }
    out[i] = sum;
  }
}

__global__ void passes_over_parts(const float4* in, float4* out, int n, int passes) {
  const int threads = gridDim.x * blockDim.x, part = n / passes;
  for (int i = global_id(); i < part; i += threads) {  // the elements that need the same ones
    float4 sum = {};
    for (int pass = 0; pass < passes; ++pass) {
      const float4 v = __ldcg(&in[i + pass * part]);
      sum.x += v.x, sum.y += v.y, sum.z += v.z, sum.w += v.w;
    }
    for (int pass = 0; pass < passes; ++pass) out[i + pass * part] = sum;
  }
}

// ---- conversions: bytes to floats by I2F, or by bits

__device__ inline float converted(int word) {
  return (static_cast<float>(static_cast<int8_t>(word)) + static_cast<float>(static_cast<int8_t>(word >> 8))) +
         (static_cast<float>(static_cast<int8_t>(word >> 16)) + static_cast<float>(static_cast<int8_t>(word >> 24)));
}

__device__ inline float of_byte(unsigned biased, unsigned at) {  // the bits of 2^23 + byte, less 2^23 and the bias
  return __uint_as_float(__byte_perm(biased, 0x4b000000u, 0x7540u | at)) - 8388736.0f;
}
__device__ inline float from_bits(int word) {
  const unsigned biased = static_cast<unsigned>(word) ^ 0x80808080u;
  return (of_byte(biased, 0) + of_byte(biased, 1)) + (of_byte(biased, 2) + of_byte(biased, 3));
}

template <bool kByBits>
__global__ void dequantized(const int4* in, float* out, int n, int rounds) {
  const int i = global_id();
  if (i >= n) return;
  int4 words = in[i];
  float sum = 0;
  for (int r = 0; r < rounds; ++r) {
    if (kByBits) sum += (from_bits(words.x) + from_bits(words.y)) + (from_bits(words.z) + from_bits(words.w));
    else sum += (converted(words.x) + converted(words.y)) + (converted(words.z) + converted(words.w));
    words.x ^= r, words.y += r, words.z ^= r << 8, words.w += 0x01010101;
  }
  out[i] = sum;
}

// ---- narrow accesses of two bytes, and sums in double precision

__global__ void halves_one(const uint16_t* in, uint16_t* out, int n) {
  const int i = global_id();
  if (i < n) out[i] = in[i] ^ 0x8000u;
}
__global__ void halves_eight(const uint4* in, uint4* out, int n) {
  const int i = global_id();
  if (i >= n) return;
  uint4 v = in[i];
  v.x ^= 0x80008000u, v.y ^= 0x80008000u, v.z ^= 0x80008000u, v.w ^= 0x80008000u;
  out[i] = v;
}

template <class Real>
__global__ void polynomial(const float* in, float* out, int rounds) {  // no conversions within the loop
  Real v = in[global_id()], x = v;
  for (int r = 0; r < rounds; ++r) v = (v * x + Real(0.25)) * Real(0.5) + x;
  out[global_id()] = static_cast<float>(v);
}

}  // namespace checked
