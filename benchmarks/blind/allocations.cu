// Each time step allocates its temporary arrays and frees them, which waits for the GPU; the fixed
// variant keeps them.
#include "blind.h"

namespace {

constexpr int kCells = 1 << 24;
constexpr int kStages = 12;

__global__ void diffuse(const float* from, float* to, int cells, float rate) {
  const int cell = blockIdx.x * blockDim.x + threadIdx.x;
  if (cell >= cells) return;
  const float left = from[cell == 0 ? cells - 1 : cell - 1];
  const float right = from[cell == cells - 1 ? 0 : cell + 1];
  to[cell] = from[cell] + rate * (left - 2 * from[cell] + right);
}

__global__ void limit(float* values, const float* change, int cells) {
  const int cell = blockIdx.x * blockDim.x + threadIdx.x;
  if (cell < cells) values[cell] = fminf(fmaxf(change[cell], -4.0f), 4.0f);
}

__global__ void begin(float* values, int cells) {
  const int cell = blockIdx.x * blockDim.x + threadIdx.x;
  if (cell < cells) values[cell] = static_cast<float>(cell % 97) / 24.0f - 2.0f;
}

struct Program {
  explicit Program(bool bad) : bad(bad) {
    CHECKED(cudaMalloc(&field, kCells * sizeof(float)));
    for (float*& buffer : kept) CHECKED(cudaMalloc(&buffer, kCells * sizeof(float)));
    begin<<<kBlocks, kThreads>>>(field, kCells);
    CHECKED(cudaGetLastError());
  }
  ~Program() {
    for (float* buffer : kept) cudaFree(buffer);
    cudaFree(field);
  }
  Program(const Program&) = delete;

  void step(int) {
    for (int stage = 0; stage < kStages; ++stage) {
      float* first = kept[0];
      float* second = kept[1];
      if (bad) {
        CHECKED(cudaMalloc(&first, kCells * sizeof(float)));
        CHECKED(cudaMalloc(&second, kCells * sizeof(float)));
      }
      for (int pass = 0; pass < 4; ++pass) {
        diffuse<<<kBlocks, kThreads>>>(field, first, kCells, 0.2f);
        diffuse<<<kBlocks, kThreads>>>(first, second, kCells, 0.1f);
        limit<<<kBlocks, kThreads>>>(field, second, kCells);
      }
      CHECKED(cudaGetLastError());
      if (bad) {
        CHECKED(cudaFree(first));
        CHECKED(cudaFree(second));
      }
    }
  }

  double result() {
    float values[64];
    CHECKED(cudaMemcpy(values, field, sizeof values, cudaMemcpyDeviceToHost));
    double total = 0;
    for (const float value : values) total += std::abs(value);
    return total;
  }

  static constexpr int kThreads = 256;
  static constexpr int kBlocks = (kCells + kThreads - 1) / kThreads;
  bool bad;
  float* field = nullptr;
  float* kept[2] = {};
};

}  // namespace

int main(int count, char** words) { return run<Program>(count, words); }
