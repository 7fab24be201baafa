// A histogram adds to global memory with atomics; the fixed variant counts in shared memory first.
#include "blind.h"

namespace {

constexpr int kValues = 1 << 25;
constexpr int kBins = 100;

__device__ int bin_of(float value) {
  const int bin = static_cast<int>((value + 4.0f) * (kBins / 8.0f));
  return bin < 0 ? 0 : bin >= kBins ? kBins - 1 : bin;
}

__global__ void count_global(const float* values, int count, unsigned long long* bins) {
  for (int place = blockIdx.x * blockDim.x + threadIdx.x; place < count;
       place += gridDim.x * blockDim.x) {
    atomicAdd(&bins[bin_of(values[place])], 1ull);
  }
}

__global__ void count_shared(const float* values, int count, unsigned long long* bins) {
  __shared__ unsigned int own[kBins];
  for (int bin = threadIdx.x; bin < kBins; bin += blockDim.x) own[bin] = 0;
  __syncthreads();
  for (int place = blockIdx.x * blockDim.x + threadIdx.x; place < count;
       place += gridDim.x * blockDim.x) {
    atomicAdd(&own[bin_of(values[place])], 1u);
  }
  __syncthreads();
  for (int bin = threadIdx.x; bin < kBins; bin += blockDim.x) {
    atomicAdd(&bins[bin], static_cast<unsigned long long>(own[bin]));
  }
}

// The sum of four hashed numbers: roughly a normal distribution.
__global__ void draw(float* values, int count) {
  const int place = blockIdx.x * blockDim.x + threadIdx.x;
  if (place >= count) return;
  unsigned int state = place * 2654435761u + 12345u;
  float total = 0;
  for (int part = 0; part < 4; ++part) {
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    total += static_cast<float>(state) * (2.0f / 4294967296.0f) - 1.0f;
  }
  values[place] = total;
}

__global__ void scale(float* values, int count, float factor) {
  const int place = blockIdx.x * blockDim.x + threadIdx.x;
  if (place < count) values[place] *= factor;
}

struct Program {
  explicit Program(bool bad) : bad(bad) {
    CHECKED(cudaMalloc(&values, kValues * sizeof(float)));
    CHECKED(cudaMalloc(&bins, kBins * sizeof(unsigned long long)));
    CHECKED(cudaMemset(bins, 0, kBins * sizeof(unsigned long long)));
    draw<<<kValues / 256, 256>>>(values, kValues);
    CHECKED(cudaGetLastError());
  }
  ~Program() {
    cudaFree(values);
    cudaFree(bins);
  }
  Program(const Program&) = delete;

  void step(int number) {
    for (int pass = 0; pass < 8; ++pass) {
      scale<<<kValues / 256, 256>>>(values, kValues, (number + pass) % 2 ? 0.5f : 2.0f);
      if (bad) {
        count_global<<<132 * 8, 256>>>(values, kValues, bins);
      } else {
        count_shared<<<132 * 8, 256>>>(values, kValues, bins);
      }
    }
    CHECKED(cudaGetLastError());
  }

  double result() {
    unsigned long long counted[kBins];
    CHECKED(cudaMemcpy(counted, bins, sizeof counted, cudaMemcpyDeviceToHost));
    double total = 0;
    for (int bin = 0; bin < kBins; ++bin) total += static_cast<double>(counted[bin]) * (bin + 1);
    return total;
  }

  bool bad;
  float* values = nullptr;
  unsigned long long* bins = nullptr;
};

}  // namespace

int main(int count, char** words) { return run<Program>(count, words); }
