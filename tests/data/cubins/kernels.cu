// Compiled with CUDA 13.0 to kernels.sm_90.cubin by `nvcc -cubin -lineinfo -arch=sm_90`, and without -lineinfo
// to kernels.plain.sm_80.cubin and kernels.plain.sm_120.cubin.
#include <cuda_fp16.h>

__device__ __noinline__ float called(float x, int n) {
  for (int i = 0; i < n; ++i) x = x / 1.5f + i;
  return x;
}

__device__ float scaled(float x, const __half* by) {
  return x * __half2float(by[threadIdx.x]);
}

__global__ void scale(float* out, const float* in, const __half* by, int n) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    out[i] = scaled(in[i], by);
  }
}

__global__ void choose(float* out, const int* which, int n) {
  float x = out[threadIdx.x];
  switch (which[threadIdx.x]) {
    case 0: x = called(x, n); break;
    case 1: x = x * 2; break;
    case 2: x = x * x; break;
    case 3: x = sqrtf(x); break;
    case 4: x = called(x, 2 * n); break;
    case 5: x = x - 3; break;
  }
  __syncthreads();
  out[threadIdx.x] = x;
}
