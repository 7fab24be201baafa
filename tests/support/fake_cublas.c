/* A cuBLAS for fake_cuda.c: a GEMM takes 3 us, and 1 ns for 100,000 operations. */
#include <stddef.h>
#include <stdint.h>

enum { NOT_SUPPORTED = 15, INVALID = 7, ALLOCATION_FAILED = 3 };

void fake_work(int64_t ns);
int fake_is_stream(void* stream);
int fake_has(uint64_t address, size_t size, int device);

static char handle_of_ours;
static int has_stream;

int cublasCreate_v2(void** handle) { *handle = &handle_of_ours; return 0; }
int cublasGetVersion_v2(void* handle, int* version) {
  *version = 120804;
  return handle == &handle_of_ours ? 0 : INVALID;
}
int cublasSetStream_v2(void* handle, void* stream) {
  has_stream = fake_is_stream(stream);
  return handle == &handle_of_ours && has_stream ? 0 : INVALID;
}
static size_t size_of(int type) { return type == 1 ? 8 : type == 0 ? 4 : type == 2 || type == 14 ? 2 : 0; }
static int is_random(uint64_t address) { return *(uint32_t*)address != 0; }
int cublasGemmEx(void* handle, int ta, int tb, int m, int n, int k, const void* alpha,
    uint64_t a, int a_type, int lda, uint64_t b, int b_type, int ldb, const void* beta,
    uint64_t c, int c_type, int ldc, int compute, int algorithm) {
  const size_t size = size_of(a_type);
  const int wanted = a_type == 1 ? 70 : 68;
  if (handle != &handle_of_ours || !has_stream || ta || tb || algorithm != -1) return INVALID;
  if (!size || a_type != b_type || a_type != c_type) return NOT_SUPPORTED;
  if (compute != wanted && !(compute == 77 && a_type == 0)) return NOT_SUPPORTED;
  if (lda < m || ldb < k || ldc < m) return INVALID;
  if (!fake_has(a, size * m * k, 0) || !fake_has(b, size * k * n, 0)) return INVALID;
  if (!fake_has(c, size * m * n, 0) || !is_random(a) || !is_random(b)) return INVALID;
  if (a_type == 1 ? *(double*)alpha != 1 || *(double*)beta != 0
                  : *(float*)alpha != 1 || *(float*)beta != 0)
    return INVALID;
  if (n == 13) return ALLOCATION_FAILED;
  fake_work(3000 + (int64_t)(2.0 * m * n * k / 100000));
  return 0;
}
