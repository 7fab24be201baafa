// A tool that takes no event: with it NVTX and the nvtx package do all that is theirs, and no more.
__attribute__((visibility("default"))) int InitializeInjectionNvtx2(const void* get_table) {
  (void)get_table;
  return 1;
}
