/* A cuBLASLt for fake_cuda.c: an FP8 GEMM takes 3 us, and 1 ns for 200,000 operations. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { NOT_SUPPORTED = 15, INVALID = 7, MOST = 64 };

void fake_work(int64_t ns);
int fake_is_stream(void* stream);
int fake_has(uint64_t address, size_t size, int device);

typedef struct { int type; uint64_t rows, columns; int64_t ld; } Layout;
typedef struct { int compute, scale, transpose_a; signed char is_fast; } Product;
typedef struct {
  uint64_t algorithm[8];
  size_t workspace;
  int state;
  float waves;
  int reserved[4];
} Heuristic;
static char handle_of_ours;
static Layout layouts[MOST];
static Product products[MOST];
static uint64_t limits[MOST];
static int layout_count, product_count, limit_count;

size_t cublasLtGetVersion(void) { return 120804; }
int cublasLtCreate(void** handle) { *handle = &handle_of_ours; return 0; }
int cublasLtMatmulDescCreate(void** product, int compute, int scale) {
  products[product_count] = (Product){compute, scale, 0, 0};
  *product = &products[product_count++];
  return 0;
}
int cublasLtMatmulDescSetAttribute(Product* product, int which, const void* value, size_t size) {
  if (which == 3 && size == 4) memcpy(&product->transpose_a, value, size);
  else if (which == 25 && size == 1) memcpy(&product->is_fast, value, size);
  else return INVALID;
  return 0;
}
int cublasLtMatrixLayoutCreate(void** layout, int type, uint64_t rows, uint64_t columns, int64_t ld) {
  layouts[layout_count] = (Layout){type, rows, columns, ld};
  *layout = &layouts[layout_count++];
  return ld >= (int64_t)rows ? 0 : INVALID;
}
int cublasLtMatmulPreferenceCreate(void** preference) { *preference = &limits[limit_count++]; return 0; }
int cublasLtMatmulPreferenceSetAttribute(uint64_t* limit, int which, const void* value, size_t size) {
  if (which != 1 || size != 8) return INVALID;
  memcpy(limit, value, size);
  return 0;
}
static int is_known(const Product* p, const Layout* a, const Layout* b, const Layout* c) {
  return p->compute == 68 && p->scale == 0 && p->transpose_a == 1 && p->is_fast == 1 && a->type == 28 &&
    b->type == 28 && c->type == 14 && a->rows == b->rows && a->columns == c->rows && b->columns == c->columns;
}
int cublasLtMatmulAlgoGetHeuristic(void* handle, Product* product, Layout* a, Layout* b, Layout* c,
    Layout* d, uint64_t* limit, int wanted, Heuristic* found, int* count) {
  if (handle != &handle_of_ours || c != d || wanted != 1 || !is_known(product, a, b, c)) return INVALID;
  if (a->rows == 48) return NOT_SUPPORTED;
  memset(found, 0, sizeof *found);
  found->algorithm[7] = 42;
  found->workspace = *limit;
  *count = 1;
  return 0;
}
int cublasLtMatmul(void* handle, Product* product, const float* alpha, uint64_t a, Layout* as, uint64_t b,
    Layout* bs, const float* beta, uint64_t c, Layout* cs, uint64_t d, Layout* ds, const uint64_t* algorithm,
    uint64_t workspace, size_t size, void* stream) {
  const double operations = 2.0 * (double)as->rows * (double)cs->rows * (double)cs->columns;
  if (handle != &handle_of_ours || !is_known(product, as, bs, cs) || c != d || cs != ds) return INVALID;
  if (*alpha != 1 || *beta != 0 || algorithm[7] != 42 || !fake_is_stream(stream)) return INVALID;
  if (!fake_has(workspace, size, 0) || !fake_has(a, as->rows * as->columns, 0)) return INVALID;
  if (!fake_has(b, bs->rows * bs->columns, 0) || !fake_has(c, cs->rows * cs->columns * 2, 0)) return INVALID;
  if (*(uint32_t*)a == 0 || *(uint32_t*)b == 0) return INVALID;
  fake_work(3000 + (int64_t)(operations / 200000));
  return 0;
}
