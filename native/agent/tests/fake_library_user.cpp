// A module that refers to the stand-in of cuBLAS, loaded while the program runs.
extern "C" int cublasCreate_v2(void** handle);
extern "C" __attribute__((visibility("default"))) int use_library() {
  void* handle = nullptr;
  return cublasCreate_v2(&handle);
}
