// Device memory of every kind. Usage: memory NAME [--steps N] [--pause MS]
// Managed memory is in managed.cu.
#include <sys/wait.h>

#include <algorithm>
#include <numeric>

#include "driver.cuh"

using harm::Buffer;
using harm::Event;
using harm::Stream;

namespace {

// The async allocator: the default pool, one of the program's own, memory freed in another stream.
int async() {
  Buffer a;
  Stream one, two;
  Event event;
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice;
  cudaMemPool_t pool = nullptr;
  CHECK(cudaMemPoolCreate(&pool, &properties));
  harm::steps([&](int number) {
    for (int i = 1; i <= 20; ++i) {
      void *first = nullptr, *second = nullptr;
      const std::size_t bytes = a.bytes() / static_cast<std::size_t>(i);
      const int count = static_cast<int>(bytes / sizeof(std::uint32_t));
      CHECK(cudaMallocAsync(&first, bytes, one));
      CHECK(cudaMallocFromPoolAsync(&second, bytes, pool, one));
      CHECK(cudaMemcpyAsync(first, a.data, bytes, cudaMemcpyDeviceToDevice, one));
      CHECK(cudaMemsetAsync(second, number + i, bytes, one));
      harm::add<<<harm::grid_of(count), harm::kThreads, 0, one>>>(
          static_cast<std::uint32_t*>(second), static_cast<std::uint32_t*>(first), count);
      harm::add<<<harm::grid_of(count), harm::kThreads, 0, one>>>(
          a.data, static_cast<std::uint32_t*>(second), count);
      harm::kernels += 2;
      CHECK(cudaFreeAsync(first, one));
      CHECK(cudaEventRecord(event, one));
      CHECK(cudaStreamWaitEvent(two, event, 0));
      CHECK(cudaFreeAsync(second, two));
    }
    CHECK(cudaStreamSynchronize(two));
    CHECK(cudaMemPoolTrimTo(pool, 0));
  });
  harm::say_checksum("a", a);
  CHECK(cudaMemPoolDestroy(pool));
  return 0;
}

// Copies in every direction: pageable, pinned, registered, mapped, rows of a matrix, a symbol.
__device__ std::uint32_t device_numbers[1024];

int copies() {
  Buffer a, b;
  Stream stream;
  std::vector<std::uint32_t> pageable(static_cast<std::size_t>(a.count));
  std::iota(pageable.begin(), pageable.end(), 1u);
  std::vector<std::uint32_t> registered = pageable;
  CHECK(cudaHostRegister(registered.data(), a.bytes(), cudaHostRegisterDefault));
  std::uint32_t *pinned = nullptr, *mapped = nullptr, *mapped_on_device = nullptr;
  CHECK(cudaMallocHost(&pinned, a.bytes()));
  CHECK(cudaHostAlloc(&mapped, a.bytes(), cudaHostAllocMapped));
  CHECK(cudaHostGetDevicePointer(&mapped_on_device, mapped, 0));
  std::memset(mapped, 0, a.bytes());
  harm::steps([&](int number) {
    CHECK(cudaMemcpyAsync(a.data, pageable.data(), a.bytes(), cudaMemcpyHostToDevice, stream));
    harm::launch_mix(stream, a, static_cast<std::uint32_t>(number));
    CHECK(cudaMemcpyAsync(pinned, a.data, a.bytes(), cudaMemcpyDefault, stream));
    CHECK(cudaMemcpyAsync(b.data, registered.data(), b.bytes(), cudaMemcpyHostToDevice, stream));
    CHECK(cudaMemcpy2DAsync(b.data, 256, a.data, 512, 256, 64, cudaMemcpyDeviceToDevice, stream));
    CHECK(cudaMemset2DAsync(b.data + 8192, 128, number, 64, 32, stream));
    CHECK(cudaMemcpyToSymbolAsync(device_numbers, b.data, sizeof device_numbers, 0,
                                  cudaMemcpyDeviceToDevice, stream));
    harm::add<<<harm::grid_of(a.count), harm::kThreads, 0, stream>>>(mapped_on_device, b.data,
                                                                     a.count);
    ++harm::kernels;
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaMemcpy(pageable.data(), pinned, a.bytes(), cudaMemcpyHostToHost));
  });
  harm::say_checksum("a", a);
  harm::say_checksum("b", b);
  void* symbol = nullptr;
  CHECK(cudaGetSymbolAddress(&symbol, device_numbers));
  harm::say_checksum("symbol", static_cast<std::uint32_t*>(symbol), sizeof device_numbers);
  std::printf("host %016llx\n",
              static_cast<unsigned long long>(harm::checksum(mapped, a.bytes())));
  CHECK(cudaHostUnregister(registered.data()));
  CHECK(cudaFreeHost(pinned));
  CHECK(cudaFreeHost(mapped));
  return 0;
}

// Addresses reserved and mapped by hand; a second piece is mapped behind the first, as PyTorch's
// expandable segments do.
int mapped_by_hand() {
  const CUdevice device = harm::driver_device();
  Buffer a;
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = device;
  std::size_t piece = 0;
  DRIVER(cuMemGetAllocationGranularity)(&piece, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
  CUmemAccessDesc access{};
  access.location = properties.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  harm::steps([&](int number) {
    CUdeviceptr address = 0;
    DRIVER(cuMemAddressReserve)(&address, 2 * piece, 0, 0, 0);
    auto* data = reinterpret_cast<std::uint32_t*>(address);
    for (std::size_t i = 0; i < 2; ++i) {
      CUmemGenericAllocationHandle handle = 0;
      DRIVER(cuMemCreate)(&handle, piece, &properties, 0);
      DRIVER(cuMemMap)(address + i * piece, piece, 0, handle, 0);
      DRIVER(cuMemRelease)(handle);
      DRIVER(cuMemSetAccess)(address + i * piece, piece, &access, 1);
      CHECK(cudaMemset(reinterpret_cast<void*>(address + i * piece), number, piece));
    }
    const int count = static_cast<int>(2 * piece / sizeof *data);
    harm::mix<<<harm::grid_of(count), harm::kThreads>>>(data, count, 3);
    harm::add<<<harm::grid_of(a.count), harm::kThreads>>>(a.data, data + count - a.count, a.count);
    harm::kernels += 2;
    CHECK(cudaDeviceSynchronize());
    DRIVER(cuMemUnmap)(address, 2 * piece);
    DRIVER(cuMemAddressFree)(address, 2 * piece);
  });
  harm::say_checksum("a", a);
  return 0;
}

// Allocations and releases of many sizes, by four threads.
int allocations() {
  std::vector<Buffer> buffers(4);
  std::vector<std::thread> workers;
  for (int i = 0; i < 4; ++i) {
    workers.emplace_back([&buffers, i] {
      Stream stream;
      harm::steps([&](int number) {
        std::vector<void*> held;
        for (int size = 0; size < 20; ++size) {
          void* memory = nullptr;
          CHECK(cudaMalloc(&memory, std::size_t{1000} << (size % 14)));
          held.push_back(memory);
          harm::launch_mix(stream, buffers[i], static_cast<std::uint32_t>(number + size));
        }
        std::reverse(held.begin(), held.end());
        for (void* memory : held) CHECK(cudaFree(memory));
      });
      CHECK(cudaStreamSynchronize(stream));
    });
  }
  for (std::thread& worker : workers) worker.join();
  for (const Buffer& buffer : buffers) harm::say_checksum("thread", buffer);
  return 0;
}

struct Shared {
  cudaIpcMemHandle_t memory;
  cudaIpcEventHandle_t event;
};

void transfer(bool is_writing, int file, void* data, std::size_t bytes) {
  const ssize_t done = is_writing ? write(file, data, bytes) : read(file, data, bytes);
  if (done == static_cast<ssize_t>(bytes)) return;
  std::printf("pipe: %zd of %zu bytes\n", done, bytes);
  std::fflush(stdout);
  _exit(4);
}

// The second process of `ipc`, a program of its own: works on the first one's memory.
int ipc_child() {
  Shared shared;
  transfer(false, STDIN_FILENO, &shared, sizeof shared);
  harm::load();
  void* opened = nullptr;
  cudaEvent_t event = nullptr;
  CHECK(cudaIpcOpenMemHandle(&opened, shared.memory, cudaIpcMemLazyEnablePeerAccess));
  CHECK(cudaIpcOpenEventHandle(&event, shared.event));
  CHECK(cudaStreamWaitEvent(nullptr, event, 0));
  constexpr int kCount = 1 << 14;
  for (std::uint32_t i = 0; i < 100; ++i) {
    harm::mix<<<harm::grid_of(kCount), harm::kThreads>>>(static_cast<std::uint32_t*>(opened),
                                                         kCount, i);
    CHECK(cudaGetLastError());
    ++harm::kernels;
  }
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaEventDestroy(event));
  CHECK(cudaIpcCloseMemHandle(opened));
  return 0;
}

// Memory and an event shared between two processes.
int ipc() {
  int pipes[2];
  if (pipe(pipes) != 0) return 4;
  const pid_t child = fork();
  if (child == 0) {
    dup2(pipes[0], STDIN_FILENO);
    close(pipes[0]);
    close(pipes[1]);
    execl(harm::program_path, harm::program_path, "ipc_child", nullptr);
    _exit(127);
  }
  close(pipes[0]);
  {
    Buffer a;
    Event event(cudaEventDisableTiming | cudaEventInterprocess);
    harm::launch_mix(nullptr, a, 1);
    CHECK(cudaEventRecord(event, nullptr));
    Shared shared;
    CHECK(cudaIpcGetMemHandle(&shared.memory, a.data));
    CHECK(cudaIpcGetEventHandle(&shared.event, event));
    transfer(true, pipes[1], &shared, sizeof shared);
    int status = 0;
    waitpid(child, &status, 0);
    std::printf("child %d\n", status);
    harm::launch_mix(nullptr, a, 2);
    harm::say_checksum("a", a);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return harm::run(argc, argv,
                   {{"async", async},
                    {"copies", copies},
                    {"mapped_by_hand", mapped_by_hand},
                    {"allocations", allocations},
                    {"ipc", ipc},
                    {"ipc_child", ipc_child}});
}
