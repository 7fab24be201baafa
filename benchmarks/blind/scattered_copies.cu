// Cached keys and values are loaded from the host in thousands of small copies; the fixed variant
// reads the scattered pages with a kernel.
#include "blind.h"

#include <utility>

namespace {

constexpr int kLayers = 16;
constexpr int kHeads = 8;
constexpr int kWidth = 64;
constexpr int kPageTokens = 8;
constexpr int kPageValues = kPageTokens * kHeads * kWidth;  // 16 KB
constexpr int kHostPages = 512;
constexpr int kPages = 128;  // loaded in a step
constexpr int kThreads = 256;

using Vector = float4;
constexpr int kPageVectors = kPageValues / 4;

// A block copies a page of the keys or of the values.
__global__ void load_pages(const Vector* keys, const Vector* values, Vector* own_keys,
                           Vector* own_values, const int* from, const int* to) {
  const Vector* source = blockIdx.y == 0 ? keys : values;
  Vector* target = blockIdx.y == 0 ? own_keys : own_values;
  source += static_cast<size_t>(from[blockIdx.x]) * kPageVectors;
  target += static_cast<size_t>(to[blockIdx.x]) * kPageVectors;
  for (int place = threadIdx.x; place < kPageVectors; place += blockDim.x) {
    target[place] = source[place];
  }
}

// Attention of one token to all pages: a block per head, a thread per token.
__global__ void attend(const float* keys, const float* values, const float* query, float* out) {
  constexpr int kTokens = kPages * kPageTokens;
  __shared__ float scores[kTokens];
  __shared__ float asked[kWidth];
  const int head = blockIdx.x;
  if (threadIdx.x < kWidth) asked[threadIdx.x] = query[head * kWidth + threadIdx.x];
  __syncthreads();
  for (int token = threadIdx.x; token < kTokens; token += blockDim.x) {
    const float* key = keys + (static_cast<size_t>(token) * kHeads + head) * kWidth;
    float score = 0;
    for (int column = 0; column < kWidth; ++column) score += key[column] * asked[column];
    scores[token] = expf(score * 0.125f - 4.0f);
  }
  __syncthreads();
  if (threadIdx.x >= kWidth) return;
  float sum = 0;
  float weight = 0;
  for (int token = 0; token < kTokens; ++token) {
    const size_t place = (static_cast<size_t>(token) * kHeads + head) * kWidth + threadIdx.x;
    sum += scores[token] * values[place];
    weight += scores[token];
  }
  out[head * kWidth + threadIdx.x] = sum / weight;
}

// The query of the next layer.
__global__ void mix(const float* found, float* query, int layer) {
  const int place = blockIdx.x * blockDim.x + threadIdx.x;
  const int other = (place * 5 + layer) % (kHeads * kWidth);
  query[place] = 0.5f * query[place] + tanhf(found[other]);
}

struct Program {
  explicit Program(bool bad) : bad(bad) {
    const size_t kept = static_cast<size_t>(kHostPages) * kPageValues;
    const size_t own = static_cast<size_t>(kPages) * kPageValues;
    CHECKED(cudaMallocHost(&host, 2 * kLayers * kept * sizeof(float)));
    unsigned int state = 12345;
    for (size_t place = 0; place < 2 * kLayers * kept; ++place) {
      state = state * 1664525u + 1013904223u;
      host[place] = static_cast<float>(state >> 8) / 8388608.0f - 1.0f;
    }
    CHECKED(cudaMalloc(&device, 2 * kLayers * own * sizeof(float)));
    CHECKED(cudaMalloc(&query, kHeads * kWidth * sizeof(float)));
    CHECKED(cudaMalloc(&found, kHeads * kWidth * sizeof(float)));
    CHECKED(cudaMemset(query, 0, kHeads * kWidth * sizeof(float)));
    CHECKED(cudaMallocHost(&chosen, 2 * kPages * sizeof(int)));
    CHECKED(cudaMalloc(&indices, 2 * kPages * sizeof(int)));
    CHECKED(cudaStreamCreate(&loading));
    CHECKED(cudaStreamCreate(&computing));
    for (cudaEvent_t& event : loaded) {
      CHECKED(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    }
  }
  ~Program() {
    for (cudaEvent_t event : loaded) cudaEventDestroy(event);
    cudaStreamDestroy(loading);
    cudaStreamDestroy(computing);
    cudaFree(device);
    cudaFree(query);
    cudaFree(found);
    cudaFree(indices);
    cudaFreeHost(host);
    cudaFreeHost(chosen);
  }
  Program(const Program&) = delete;

  // The pages of a request, scattered over the host's pool and the GPU's.
  void choose(int number) {
    unsigned int state = 977u * number + 1;
    const auto below = [&](int limit) {
      state = state * 1664525u + 1013904223u;
      return static_cast<int>((state >> 8) % limit);
    };
    for (int page = 0; page < kPages; ++page) {
      chosen[page] = below(kHostPages);
      chosen[kPages + page] = page;
    }
    for (int page = kPages - 1; page > 0; --page) {
      std::swap(chosen[kPages + page], chosen[kPages + below(page + 1)]);
    }
  }

  void copy_pages(const float* from, float* to) {
    for (int page = 0; page < kPages; ++page) {
      const size_t source = static_cast<size_t>(chosen[page]) * kPageValues;
      const size_t target = static_cast<size_t>(chosen[kPages + page]) * kPageValues;
      CHECKED(cudaMemcpyAsync(to + target, from + source, kPageValues * sizeof(float),
                              cudaMemcpyHostToDevice, loading));
    }
  }

  void step(int number) {
    CHECKED(cudaStreamSynchronize(computing));  // the request before has been answered
    choose(number);
    CHECKED(cudaMemcpyAsync(indices, chosen, 2 * kPages * sizeof(int), cudaMemcpyHostToDevice,
                            loading));
    const size_t kept = static_cast<size_t>(kHostPages) * kPageValues;
    const size_t own = static_cast<size_t>(kPages) * kPageValues;
    for (int layer = 0; layer < kLayers; ++layer) {
      const float* keys = host + 2 * layer * kept;
      float* own_keys = device + 2 * layer * own;
      if (bad) {
        copy_pages(keys, own_keys);
        copy_pages(keys + kept, own_keys + own);
      } else {
        load_pages<<<dim3(kPages, 2), kThreads, 0, loading>>>(
            reinterpret_cast<const Vector*>(keys), reinterpret_cast<const Vector*>(keys + kept),
            reinterpret_cast<Vector*>(own_keys), reinterpret_cast<Vector*>(own_keys + own),
            indices, indices + kPages);
      }
      CHECKED(cudaEventRecord(loaded[layer], loading));
    }
    for (int layer = 0; layer < kLayers; ++layer) {
      const float* keys = device + 2 * layer * own;
      CHECKED(cudaStreamWaitEvent(computing, loaded[layer], 0));
      attend<<<kHeads, kThreads, 0, computing>>>(keys, keys + own, query, found);
      mix<<<kHeads * kWidth / 64, 64, 0, computing>>>(found, query, layer);
    }
    CHECKED(cudaGetLastError());
  }

  double result() {
    float values[kHeads * kWidth];
    CHECKED(cudaMemcpy(values, query, sizeof values, cudaMemcpyDeviceToHost));
    double total = 0;
    for (int place = 0; place < kHeads * kWidth; ++place) total += values[place] * (1 + place % 3);
    return total;
  }

  bool bad;
  float *host, *device, *query, *found;
  int *chosen, *indices;
  cudaStream_t loading, computing;
  cudaEvent_t loaded[kLayers];
};

}  // namespace

int main(int count, char** words) { return run<Program>(count, words); }
