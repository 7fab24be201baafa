// Each token of a language model launches its small kernels one by one; the fixed variant launches
// them as a graph.
#include "blind.h"

#include <vector>

namespace {

constexpr int kLayers = 24;
constexpr int kWidth = 1024;
constexpr int kHeads = 16;
constexpr int kHeadWidth = kWidth / kHeads;
constexpr int kInner = 2816;
constexpr int kVocabulary = 8192;
constexpr int kLength = 256;
constexpr int kTokens = 16;  // in a step

__device__ float warp_sum(float value) {
  for (int lane = 16; lane > 0; lane /= 2) value += __shfl_xor_sync(0xffffffffu, value, lane);
  return value;
}

__global__ void fill(float* values, size_t count, unsigned int seed, float scale) {
  const size_t place = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x;
  if (place >= count) return;
  unsigned int state = static_cast<unsigned int>(place) * 2654435761u + seed;
  state ^= state >> 16;
  state *= 2246822519u;
  state ^= state >> 13;
  state *= 3266489917u;
  state ^= state >> 16;
  values[place] = scale * (static_cast<float>(state) * (2.0f / 4294967296.0f) - 1.0f);
}

__global__ void look_up(const float* table, const int* token, float* x) {
  const int place = blockIdx.x * blockDim.x + threadIdx.x;
  x[place] = table[static_cast<size_t>(*token) * kWidth + place];
}

__global__ void rms_norm(const float* x, float* out) {
  __shared__ float parts[32];
  const float value = x[threadIdx.x];
  const float part = warp_sum(value * value);
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = part;
  __syncthreads();
  const float total = warp_sum(parts[threadIdx.x % 32]);
  out[threadIdx.x] = value * rsqrtf(total / kWidth + 1e-6f);
}

// A warp for each row of the matrix.
__global__ void multiply(const float* matrix, const float* x, float* out, int columns) {
  const int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
  const float* own = matrix + static_cast<size_t>(row) * columns;
  float sum = 0;
  for (int column = threadIdx.x % 32; column < columns; column += 32) {
    sum += own[column] * x[column];
  }
  sum = warp_sum(sum);
  if (threadIdx.x % 32 == 0) out[row] = sum;
}

__global__ void rotate(float* x, const int* place) {
  const int pair = blockIdx.x * blockDim.x + threadIdx.x;
  const int column = pair % (kHeadWidth / 2);
  const float angle = *place * powf(10000.0f, -2.0f * column / kHeadWidth);
  const float first = x[2 * pair];
  const float second = x[2 * pair + 1];
  x[2 * pair] = first * cosf(angle) - second * sinf(angle);
  x[2 * pair + 1] = first * sinf(angle) + second * cosf(angle);
}

__global__ void store(const float* x, float* cache, const int* place) {
  const int column = blockIdx.x * blockDim.x + threadIdx.x;
  cache[static_cast<size_t>(*place) * kWidth + column] = x[column];
}

// A block per head; one thread per kept token, then one per column.
__global__ void attend(const float* query, const float* keys, const float* values, float* out,
                       const int* place) {
  __shared__ float scores[kLength];
  const int head = blockIdx.x * kHeadWidth;
  const int token = threadIdx.x;
  float score = 0;
  if (token <= *place) {
    for (int column = 0; column < kHeadWidth; ++column) {
      score += query[head + column] * keys[static_cast<size_t>(token) * kWidth + head + column];
    }
  }
  scores[token] = token <= *place ? expf(score * 0.125f) : 0.0f;
  __syncthreads();
  if (token >= kHeadWidth) return;
  float sum = 0;
  float weight = 0;
  for (int other = 0; other <= *place; ++other) {
    sum += scores[other] * values[static_cast<size_t>(other) * kWidth + head + token];
    weight += scores[other];
  }
  out[head + token] = sum / weight;
}

__global__ void add(float* x, const float* change) {
  const int place = blockIdx.x * blockDim.x + threadIdx.x;
  x[place] += change[place];
}

__global__ void gate(float* x, const float* gates) {
  const int place = blockIdx.x * blockDim.x + threadIdx.x;
  x[place] *= gates[place] / (1.0f + expf(-gates[place]));
}

struct Layer {
  float *query, *key, *value, *out, *gate, *up, *down, *keys, *values;
};

struct Program {
  explicit Program(bool bad) : bad(bad) {
    CHECKED(cudaStreamCreate(&stream));
    table = random(static_cast<size_t>(kVocabulary) * kWidth, 1.0f);
    for (Layer& layer : layers) {
      for (float** matrix : {&layer.query, &layer.key, &layer.value, &layer.out}) {
        *matrix = random(kWidth * kWidth, 0.05f);
      }
      layer.gate = random(kInner * kWidth, 0.05f);
      layer.up = random(kInner * kWidth, 0.05f);
      layer.down = random(kInner * kWidth, 0.03f);
      layer.keys = random(kLength * kWidth, 1.0f);
      layer.values = random(kLength * kWidth, 1.0f);
    }
    for (float** vector : {&x, &normal, &query, &key, &value, &seen}) {
      *vector = random(kWidth, 1.0f);
    }
    inner = random(kInner, 1.0f);
    gates = random(kInner, 1.0f);
    logits = random(kVocabulary, 1.0f);
    CHECKED(cudaMalloc(&input, 2 * sizeof(int)));
    CHECKED(cudaMallocHost(&asked, 2 * sizeof(int)));
    CHECKED(cudaMallocHost(&host, kVocabulary * sizeof(float)));
    CHECKED(cudaStreamSynchronize(stream));
  }
  ~Program() {
    if (graph != nullptr) cudaGraphExecDestroy(graph);
    for (float* buffer : buffers) cudaFree(buffer);
    cudaFree(input);
    cudaFreeHost(asked);
    cudaFreeHost(host);
    cudaStreamDestroy(stream);
  }
  Program(const Program&) = delete;

  float* random(size_t count, float scale) {
    float* made = nullptr;
    CHECKED(cudaMalloc(&made, count * sizeof(float)));
    buffers.push_back(made);
    const unsigned int blocks = static_cast<unsigned int>((count + 255) / 256);
    fill<<<blocks, 256, 0, stream>>>(made, count, 31u * buffers.size(), scale);
    return made;
  }

  void product(const float* matrix, const float* from, float* to, int rows, int columns) {
    multiply<<<rows / 4, 128, 0, stream>>>(matrix, from, to, columns);
  }

  void launch() {
    const int* token = input;
    const int* place = input + 1;
    look_up<<<kWidth / 256, 256, 0, stream>>>(table, token, x);
    for (const Layer& layer : layers) {
      rms_norm<<<1, kWidth, 0, stream>>>(x, normal);
      product(layer.query, normal, query, kWidth, kWidth);
      product(layer.key, normal, key, kWidth, kWidth);
      product(layer.value, normal, value, kWidth, kWidth);
      rotate<<<kWidth / 2 / 128, 128, 0, stream>>>(query, place);
      rotate<<<kWidth / 2 / 128, 128, 0, stream>>>(key, place);
      store<<<kWidth / 256, 256, 0, stream>>>(key, layer.keys, place);
      store<<<kWidth / 256, 256, 0, stream>>>(value, layer.values, place);
      attend<<<kHeads, kLength, 0, stream>>>(query, layer.keys, layer.values, seen, place);
      product(layer.out, seen, normal, kWidth, kWidth);
      add<<<kWidth / 256, 256, 0, stream>>>(x, normal);
      rms_norm<<<1, kWidth, 0, stream>>>(x, normal);
      product(layer.gate, normal, gates, kInner, kWidth);
      product(layer.up, normal, inner, kInner, kWidth);
      gate<<<kInner / 256, 256, 0, stream>>>(inner, gates);
      product(layer.down, inner, normal, kWidth, kInner);
      add<<<kWidth / 256, 256, 0, stream>>>(x, normal);
    }
    rms_norm<<<1, kWidth, 0, stream>>>(x, normal);
    product(table, normal, logits, kVocabulary, kWidth);
    CHECKED(cudaGetLastError());
  }

  void launch_graph() {
    if (graph == nullptr) {
      cudaGraph_t captured;
      CHECKED(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
      launch();
      CHECKED(cudaStreamEndCapture(stream, &captured));
      CHECKED(cudaGraphInstantiate(&graph, captured, 0));
      CHECKED(cudaGraphDestroy(captured));
    }
    CHECKED(cudaGraphLaunch(graph, stream));
  }

  void step(int number) {
    int token = number % kVocabulary;
    for (int made = 0; made < kTokens; ++made) {
      asked[0] = token;
      asked[1] = (number * kTokens + made) % kLength;
      CHECKED(cudaMemcpyAsync(input, asked, 2 * sizeof(int), cudaMemcpyHostToDevice, stream));
      bad ? launch() : launch_graph();
      CHECKED(cudaMemcpyAsync(host, logits, kVocabulary * sizeof(float), cudaMemcpyDeviceToHost,
                              stream));
      CHECKED(cudaStreamSynchronize(stream));
      token = 0;
      for (int other = 1; other < kVocabulary; ++other) {
        if (host[other] > host[token]) token = other;
      }
      total += host[token];
    }
  }

  double result() { return total; }

  bool bad;
  double total = 0;
  std::vector<float*> buffers;
  Layer layers[kLayers];
  float *table, *x, *normal, *query, *key, *value, *seen, *inner, *gates, *logits, *host;
  int *input, *asked;
  cudaStream_t stream;
  cudaGraphExec_t graph = nullptr;
};

}  // namespace

int main(int count, char** words) { return run<Program>(count, words); }
