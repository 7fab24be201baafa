// A conjugate gradient solver waits for two dot products in each iteration; the fixed variant keeps
// its scalars on the GPU and looks at the residual now and then.
#include "blind.h"

namespace {

constexpr int kEdge = 1024;
constexpr int kUnknowns = kEdge * kEdge;
constexpr int kThreads = 256;
constexpr int kBlocks = kUnknowns / kThreads;
constexpr int kSolves = 4;
constexpr int kIterations = 120;
constexpr int kChecked = 40;  // iterations from one look at the residual to the next
constexpr double kTolerance = 1e-30;

enum Scalar { kRz, kNextRz, kPap, kScalars };

// The sum of a block's values, in its first thread.
__device__ double block_sum(double value) {
  __shared__ double parts[32];
  for (int lane = 16; lane > 0; lane /= 2) value += __shfl_down_sync(0xffffffffu, value, lane);
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
  __syncthreads();
  value = threadIdx.x < blockDim.x / 32 ? parts[threadIdx.x] : 0.0;
  if (threadIdx.x < 32) {
    for (int lane = 16; lane > 0; lane /= 2) value += __shfl_down_sync(0xffffffffu, value, lane);
  }
  return value;
}

__device__ double stiffness(int row, int column) {
  return 1.0 + 0.5 * ((row * 7 + column * 3) % 5);
}

// A row of the matrix times a vector, and the matrix's diagonal.
__device__ double row_product(const double* x, int cell, double* diagonal) {
  const int row = cell / kEdge;
  const int column = cell % kEdge;
  const double own = stiffness(row, column);
  double total = 0.02 * own;
  double sum = 0;
  const int rows[4] = {row - 1, row + 1, row, row};
  const int columns[4] = {column, column, column - 1, column + 1};
#pragma unroll
  for (int side = 0; side < 4; ++side) {
    const bool inside =
        rows[side] >= 0 && rows[side] < kEdge && columns[side] >= 0 && columns[side] < kEdge;
    const double weight = inside ? own + stiffness(rows[side], columns[side]) : 2 * own;
    total += weight;
    if (inside) sum -= weight * x[rows[side] * kEdge + columns[side]];
  }
  *diagonal = total;
  return sum + total * x[cell];
}

__global__ void right_side(double* b, int number) {
  const int cell = blockIdx.x * blockDim.x + threadIdx.x;
  b[cell] = 1.0 + 0.25 * ((cell / 64 + number) % 7);
}

// Starts from zero: r = b, z = r / diagonal, p = z.
__global__ void begin(const double* b, double* x, double* r, double* z, double* p) {
  const int cell = blockIdx.x * blockDim.x + threadIdx.x;
  double diagonal;
  row_product(b, cell, &diagonal);
  x[cell] = 0;
  r[cell] = b[cell];
  z[cell] = p[cell] = b[cell] / diagonal;
}

__global__ void multiply(const double* p, double* ap) {
  const int cell = blockIdx.x * blockDim.x + threadIdx.x;
  double diagonal;
  ap[cell] = row_product(p, cell, &diagonal);
}

__global__ void dot_parts(const double* first, const double* second, double* parts) {
  const int cell = blockIdx.x * blockDim.x + threadIdx.x;
  const double sum = block_sum(first[cell] * second[cell]);
  if (threadIdx.x == 0) parts[blockIdx.x] = sum;
}

__global__ void add_parts(const double* parts, double* found) {
  double sum = 0;
  for (int part = threadIdx.x; part < kBlocks; part += blockDim.x) sum += parts[part];
  sum = block_sum(sum);
  if (threadIdx.x == 0) *found = sum;
}

__global__ void update_x_r(double* x, double* r, const double* p, const double* ap, double alpha) {
  const int cell = blockIdx.x * blockDim.x + threadIdx.x;
  x[cell] += alpha * p[cell];
  r[cell] -= alpha * ap[cell];
}

__global__ void precondition(const double* r, double* z) {
  const int cell = blockIdx.x * blockDim.x + threadIdx.x;
  double diagonal;
  row_product(r, cell, &diagonal);
  z[cell] = r[cell] / diagonal;
}

__global__ void update_p(double* p, const double* z, double beta) {
  const int cell = blockIdx.x * blockDim.x + threadIdx.x;
  p[cell] = z[cell] + beta * p[cell];
}

__global__ void multiply_dot(const double* p, double* ap, double* scalars) {
  const int cell = blockIdx.x * blockDim.x + threadIdx.x;
  double diagonal;
  const double product = row_product(p, cell, &diagonal);
  ap[cell] = product;
  const double sum = block_sum(p[cell] * product);
  if (threadIdx.x == 0) atomicAdd(&scalars[kPap], sum);
}

__global__ void update_x_r_fused(double* x, double* r, const double* p, const double* ap,
                                 const double* scalars) {
  const int cell = blockIdx.x * blockDim.x + threadIdx.x;
  const double alpha = scalars[kRz] / scalars[kPap];
  x[cell] += alpha * p[cell];
  r[cell] -= alpha * ap[cell];
}

__global__ void precondition_dot(const double* r, double* z, double* scalars) {
  const int cell = blockIdx.x * blockDim.x + threadIdx.x;
  double diagonal;
  row_product(r, cell, &diagonal);
  z[cell] = r[cell] / diagonal;
  const double sum = block_sum(r[cell] * z[cell]);
  if (threadIdx.x == 0) atomicAdd(&scalars[kNextRz], sum);
}

__global__ void update_p_fused(double* p, const double* z, const double* scalars) {
  const int cell = blockIdx.x * blockDim.x + threadIdx.x;
  p[cell] = z[cell] + scalars[kNextRz] / scalars[kRz] * p[cell];
}

__global__ void next_iteration(double* scalars) {
  scalars[kRz] = scalars[kNextRz];
  scalars[kNextRz] = 0;
  scalars[kPap] = 0;
}

struct Program {
  explicit Program(bool bad) : bad(bad) {
    for (double** vector : {&b, &x, &r, &z, &p, &ap}) {
      CHECKED(cudaMalloc(vector, kUnknowns * sizeof(double)));
    }
    CHECKED(cudaMalloc(&parts, kBlocks * sizeof(double)));
    CHECKED(cudaMalloc(&scalars, kScalars * sizeof(double)));
    CHECKED(cudaMallocHost(&host, sizeof(double)));
    CHECKED(cudaStreamCreate(&stream));
  }
  ~Program() {
    for (double* vector : {b, x, r, z, p, ap, parts, scalars}) cudaFree(vector);
    cudaFreeHost(host);
    cudaStreamDestroy(stream);
  }
  Program(const Program&) = delete;

  // Copies a number of the GPU's to the host and waits for it.
  double read(const double* found) {
    CHECKED(cudaMemcpyAsync(host, found, sizeof(double), cudaMemcpyDeviceToHost, stream));
    CHECKED(cudaStreamSynchronize(stream));
    return *host;
  }

  double dot(const double* first, const double* second) {
    dot_parts<<<kBlocks, kThreads, 0, stream>>>(first, second, parts);
    add_parts<<<1, 1024, 0, stream>>>(parts, scalars);
    return read(scalars);
  }

  void solve() {
    double rz = dot(r, z);
    for (int iteration = 0; iteration < kIterations && rz > kTolerance; ++iteration) {
      multiply<<<kBlocks, kThreads, 0, stream>>>(p, ap);
      const double alpha = rz / dot(p, ap);
      update_x_r<<<kBlocks, kThreads, 0, stream>>>(x, r, p, ap, alpha);
      precondition<<<kBlocks, kThreads, 0, stream>>>(r, z);
      const double next = dot(r, z);
      update_p<<<kBlocks, kThreads, 0, stream>>>(p, z, next / rz);
      rz = next;
    }
  }

  void solve_fused() {
    CHECKED(cudaMemsetAsync(scalars, 0, kScalars * sizeof(double), stream));
    dot_parts<<<kBlocks, kThreads, 0, stream>>>(r, z, parts);
    add_parts<<<1, 1024, 0, stream>>>(parts, scalars + kRz);
    for (int iteration = 0; iteration < kIterations; ++iteration) {
      if (iteration % kChecked == 0 && read(scalars + kRz) <= kTolerance) break;
      multiply_dot<<<kBlocks, kThreads, 0, stream>>>(p, ap, scalars);
      update_x_r_fused<<<kBlocks, kThreads, 0, stream>>>(x, r, p, ap, scalars);
      precondition_dot<<<kBlocks, kThreads, 0, stream>>>(r, z, scalars);
      update_p_fused<<<kBlocks, kThreads, 0, stream>>>(p, z, scalars);
      next_iteration<<<1, 1, 0, stream>>>(scalars);
    }
  }

  void step(int number) {
    for (int round = 0; round < kSolves; ++round) {
      right_side<<<kBlocks, kThreads, 0, stream>>>(b, number + round);
      begin<<<kBlocks, kThreads, 0, stream>>>(b, x, r, z, p);
      bad ? solve() : solve_fused();
    }
    CHECKED(cudaGetLastError());
  }

  double result() {
    dot_parts<<<kBlocks, kThreads, 0, stream>>>(x, b, parts);
    add_parts<<<1, 1024, 0, stream>>>(parts, scalars);
    return read(scalars);
  }

  bool bad;
  double *b, *x, *r, *z, *p, *ap, *parts, *scalars, *host;
  cudaStream_t stream;
};

}  // namespace

int main(int count, char** words) { return run<Program>(count, words); }
