// Managed memory, far less than is free: a program that asks for more can hang a device.
// Usage: managed NAME [--steps N] [--pause MS]
#include <algorithm>

#include "harm.cuh"

namespace {

constexpr int kCount = 1 << 22;  // 16 MiB

struct Managed {
  std::uint32_t* data = nullptr;

  Managed() {
    std::size_t free_bytes = 0, all_bytes = 0;
    CHECK(cudaMemGetInfo(&free_bytes, &all_bytes));
    if (free_bytes < 16 * bytes()) {
      std::printf("too little free memory\n");
      std::exit(3);
    }
    CHECK(cudaMallocManaged(&data, bytes()));
  }
  Managed(const Managed&) = delete;
  Managed& operator=(const Managed&) = delete;
  ~Managed() { cudaFree(data); }

  std::size_t bytes() const { return sizeof(std::uint32_t) * std::size_t{kCount}; }
  void say() const {
    std::printf("checksum %016llx\n",
                static_cast<unsigned long long>(harm::checksum(data, bytes())));
  }
};

void launch(const Managed& managed, int number) {
  harm::mix<<<harm::grid_of(kCount), harm::kThreads>>>(managed.data, kCount,
                                                       static_cast<std::uint32_t>(number));
  CHECK(cudaGetLastError());
  ++harm::kernels;
}

void prefetch(const Managed& managed, bool to_device) {
  int device = 0;
  CHECK(cudaGetDevice(&device));
#if CUDART_VERSION >= 13000
  cudaMemLocation place{};
  place.type = to_device ? cudaMemLocationTypeDevice : cudaMemLocationTypeHost;
  place.id = to_device ? device : 0;
  CHECK(cudaMemPrefetchAsync(managed.data, managed.bytes(), place, 0, nullptr));
#else
  const int place = to_device ? device : cudaCpuDeviceId;
  CHECK(cudaMemPrefetchAsync(managed.data, managed.bytes(), place, nullptr));
#endif
}

// Pages that the CPU writes, a kernel changes and the CPU reads: all by page faults.
int touched() {
  harm::load();
  Managed managed;
  harm::steps([&](int number) {
    std::fill_n(managed.data, kCount, static_cast<std::uint32_t>(number));
    launch(managed, number);
    CHECK(cudaDeviceSynchronize());
    managed.say();
  });
  return 0;
}

// The same with prefetches: hardly any page faults.
int prefetched() {
  harm::load();
  Managed managed;
  harm::steps([&](int number) {
    std::fill_n(managed.data, kCount, static_cast<std::uint32_t>(number));
    prefetch(managed, true);
    launch(managed, number);
    prefetch(managed, false);
    CHECK(cudaDeviceSynchronize());
    managed.say();
  });
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return harm::run(argc, argv, {{"touched", touched}, {"prefetched", prefetched}});
}
