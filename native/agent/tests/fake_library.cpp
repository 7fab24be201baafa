// Stand-ins for cuBLAS, cuDNN and MPI: they count their calls and check that arguments arrive.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

int g_calls = 0;

struct Layout {
  std::uint32_t type;
  std::uint64_t rows, columns;
  std::int64_t ld;
  std::int32_t batches;
  std::int64_t stride;
};
struct Matmul {
  std::int32_t compute, transa, transb;
};

int give(const void* from, std::size_t size, void* value, std::size_t bytes, std::size_t* written) {
  if (bytes != size) return 7;
  std::memcpy(value, from, size);
  *written = size;
  return 0;
}

}  // namespace

EXPORT int fake_calls() { return g_calls; }

EXPORT int cublasCreate_v2(void** handle) {
  ++g_calls;
  *handle = &g_calls;
  return 0;
}
EXPORT const char* cublasGetStatusString(int) { return "status"; }
EXPORT int cublasGetMathMode(void*, int* mode) {
  *mode = 3;
  return 0;
}
EXPORT int cublasSgemm_v2(void* handle, int transa, int transb, int m, int n, int k,
                          const float* alpha, const float*, int lda, const float*, int ldb,
                          const float* beta, float*, int ldc) {
  ++g_calls;
  const bool is_right = handle == &g_calls && *alpha == 1.5f && *beta == 2.5f;
  return is_right && transa == 0 && transb == 1 && lda == m && ldb == n && ldc == m && k > 0 ? 0 : 13;
}
EXPORT int cublasGemmStridedBatchedEx(void* handle, int, int, int m, int, int, const void*, const void*,
                                      int, int lda, long long, const void*, int, int, long long,
                                      const void*, void*, int, int ldc, long long, int batches,
                                      int compute, int algorithm) {
  ++g_calls;
  return handle == &g_calls && lda == m && ldc == m && batches > 0 && compute == 68 && algorithm == 99
             ? 0
             : 13;
}
// Arguments in every kind of place: vector registers, the stack, and a structure on the stack.
struct Large {
  std::uint64_t words[16];
};
EXPORT double cublasMixed(double a, int b, float c, Large d, std::int64_t e, int f, int g, int h, int i,
                          std::int64_t j, double k) {
  ++g_calls;
  double sum = a + b + c + static_cast<double>(e) + f + g + h + i + static_cast<double>(j) + k;
  for (const std::uint64_t word : d.words) sum += static_cast<double>(word);
  return sum;
}
EXPORT int cublasCallBack(void (*function)(void*), void* argument) {
  ++g_calls;
  function(argument);
  return 0;
}

EXPORT int cublasLtMatmulDescGetAttribute(const Matmul* of, int attribute, void* value,
                                          std::size_t bytes, std::size_t* written) {
  switch (attribute) {
    case 0: return give(&of->compute, 4, value, bytes, written);
    case 3: return give(&of->transa, 4, value, bytes, written);
    case 4: return give(&of->transb, 4, value, bytes, written);
    default: return 7;
  }
}
EXPORT int cublasLtMatrixLayoutGetAttribute(const Layout* of, int attribute, void* value,
                                            std::size_t bytes, std::size_t* written) {
  switch (attribute) {
    case 0: return give(&of->type, 4, value, bytes, written);
    case 2: return give(&of->rows, 8, value, bytes, written);
    case 3: return give(&of->columns, 8, value, bytes, written);
    case 4: return give(&of->ld, 8, value, bytes, written);
    case 5: return give(&of->batches, 4, value, bytes, written);
    case 6: return give(&of->stride, 8, value, bytes, written);
    default: return 7;
  }
}
EXPORT int cublasLtMatmul(void*, const void*, const void*, const void*, const void*, const void*,
                          const void*, const void*, const void*, const void*, void*, const void*,
                          const void*, void*, std::size_t bytes, void* stream) {
  ++g_calls;
  return bytes == 4096 && stream == nullptr ? 0 : 13;
}
// What the program gives cublasLtMatmul.
EXPORT const void* fake_matmul() {
  static const Matmul matmul{68, 1, 0};
  return &matmul;
}
EXPORT const void* fake_layout(int which) {
  static const Layout layouts[] = {{14, 64, 128, 64, 4, 8192},
                                   {14, 64, 256, 64, 4, 16384},
                                   {0, 128, 256, 128, 4, 32768}};
  return &layouts[which];
}

EXPORT int cudnnCreate(void** handle) {
  ++g_calls;
  *handle = &g_calls;
  return 0;
}
EXPORT int cudnnConvolutionForward(void*) {
  ++g_calls;
  return 8;
}

EXPORT int MPI_Send(const void*, int count, void*, int, int, void*) {
  ++g_calls;
  return count == 3 ? 0 : 5;
}
