// A few long rows are summed by one warp each; the fixed variant uses 512 threads per row, which
// load ahead.
#include "blind.h"

namespace {

constexpr int kRows = 8;
constexpr int kColumns = 8192;
constexpr int kLayers = 30;
constexpr int kTokens = 8;  // in a step
constexpr int kThreads = 256;
constexpr int kWide = 512;
constexpr int kAhead = 8;

__device__ float warp_sum(float value) {
  for (int lane = 16; lane > 0; lane /= 2) value += __shfl_xor_sync(0xffffffffu, value, lane);
  return value;
}

__global__ void mean_narrow(const float* x, float* found, int columns) {
  const int row = blockIdx.x;
  float sum = 0;
  for (int column = threadIdx.x; column < columns; column += blockDim.x) {
    sum += x[row * columns + column];
  }
  sum = warp_sum(sum);
  if (threadIdx.x == 0) found[row] = sum / columns;
}

__global__ void mean_wide(const float* x, float* found, int columns) {
  __shared__ float parts[kWide / 32];
  const int row = blockIdx.x;
  const float* own = x + row * columns;
  float sums[kAhead] = {};
  for (int first = threadIdx.x; first < columns; first += kAhead * blockDim.x) {
    float loaded[kAhead];
#pragma unroll
    for (int turn = 0; turn < kAhead; ++turn) {
      const int column = first + turn * blockDim.x;
      loaded[turn] = column < columns ? own[column] : 0.0f;
    }
#pragma unroll
    for (int turn = 0; turn < kAhead; ++turn) sums[turn] += loaded[turn];
  }
  float sum = 0;
#pragma unroll
  for (int turn = 0; turn < kAhead; ++turn) sum += sums[turn];
  sum = warp_sum(sum);
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x >= 32) return;
  sum = warp_sum(threadIdx.x < kWide / 32 ? parts[threadIdx.x] : 0.0f);
  if (threadIdx.x == 0) found[row] = sum / columns;
}

__global__ void square(const float* x, float* out) {
  const int place = blockIdx.x * blockDim.x + threadIdx.x;
  out[place] = x[place] * x[place];
}

// Divides each row by the root of its mean square, and mixes in the row after it.
__global__ void correct(const float* x, const float* means, const float* weights, float* out) {
  const int place = blockIdx.x * blockDim.x + threadIdx.x;
  const int row = place / kColumns;
  const int next = (row + 1) % kRows;
  const float own = x[place] * rsqrtf(means[row] + 1e-6f);
  const float other = x[next * kColumns + place % kColumns] * rsqrtf(means[next] + 1e-6f);
  out[place] = 0.7f * own + 0.3f * weights[place] * other;
}

__global__ void begin(float* x, float* weights, int number) {
  const int place = blockIdx.x * blockDim.x + threadIdx.x;
  x[place] = 0.5f + static_cast<float>((place * 37 + number * 11) % 101) / 101.0f;
  weights[place] = 0.6f + static_cast<float>(place * 13 % 17) / 17.0f;
}

struct Program {
  explicit Program(bool bad) : bad(bad) {
    for (float** buffer : {&x, &squares, &weights, &mixed}) {
      CHECKED(cudaMalloc(buffer, kRows * kColumns * sizeof(float)));
    }
    CHECKED(cudaMalloc(&means, kRows * sizeof(float)));
  }
  ~Program() {
    for (float* buffer : {x, squares, weights, mixed, means}) cudaFree(buffer);
  }
  Program(const Program&) = delete;

  void step(int number) {
    constexpr int kBlocks = kRows * kColumns / kThreads;
    for (int token = 0; token < kTokens; ++token) {
      begin<<<kBlocks, kThreads>>>(x, weights, number * kTokens + token);
      float* from = x;
      float* to = mixed;
      for (int layer = 0; layer < kLayers; ++layer) {
        square<<<kBlocks, kThreads>>>(from, squares);
        if (bad) {
          mean_narrow<<<kRows, 32>>>(squares, means, kColumns);
        } else {
          mean_wide<<<kRows, kWide>>>(squares, means, kColumns);
        }
        correct<<<kBlocks, kThreads>>>(from, means, weights, to);
        float* kept = from;
        from = to;
        to = kept;
      }
    }
    CHECKED(cudaGetLastError());
  }

  double result() {
    static float values[kRows * kColumns];
    CHECKED(cudaMemcpy(values, x, sizeof values, cudaMemcpyDeviceToHost));
    double total = 0;
    for (float value : values) total += value;
    return total;
  }

  bool bad;
  float *x, *squares, *weights, *mixed, *means;
};

}  // namespace

int main(int count, char** words) { return run<Program>(count, words); }
