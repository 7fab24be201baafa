// Kernel launches of every kind. Usage: launches NAME [--steps N] [--pause MS]
#include <cooperative_groups.h>
#include <signal.h>
#include <sys/wait.h>

#include <utility>

#include "harm.cuh"

namespace cg = cooperative_groups;
using harm::Buffer;
using harm::Event;
using harm::Stream;

namespace {

// Each round reads what the whole grid wrote in the one before.
__global__ void rounds(std::uint32_t* to, std::uint32_t* from, int count, int times) {
  cg::grid_group grid = cg::this_grid();
  for (int time = 0; time < times; ++time) {
    for (std::uint64_t i = grid.thread_rank(); i < static_cast<std::uint64_t>(count);
         i += grid.num_threads()) {
      to[i] = from[count - 1 - i] * 31u + static_cast<std::uint32_t>(time + i);
    }
    grid.sync();
    std::uint32_t* written = to;
    to = from;
    from = written;
  }
}

// Each block of a cluster adds what its neighbour holds in shared memory.
__global__ void neighbours(std::uint32_t* data) {
  __shared__ std::uint32_t own[harm::kThreads];
  cg::cluster_group cluster = cg::this_cluster();
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  own[threadIdx.x] = data[i] * 3u + i;
  cluster.sync();
  const unsigned next = (cluster.block_rank() + 1) % cluster.num_blocks();
  data[i] += cluster.map_shared_rank(own, next)[threadIdx.x];
  cluster.sync();
}

// Begins before the kernel ahead of it has ended, and waits for its memory.
__global__ void dependent(std::uint32_t* data, int count, std::uint32_t salt) {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) data[i] = data[i] * 5u + salt;
}

template <int kNumber>
__global__ void numbered(std::uint32_t* data) {
  data[threadIdx.x] = data[threadIdx.x] * 3u + kNumber;
}

__global__ void talkative(int number) { printf("kernel %d thread %d\n", number, threadIdx.x); }

int plain() {
  Buffer a;
  Stream stream;
  harm::steps([&](int number) {
    for (int i = 0; i < 200; ++i) {
      harm::launch_mix(stream, a, static_cast<std::uint32_t>(number + i));
    }
    CHECK(cudaStreamSynchronize(stream));
  });
  harm::say_checksum("a", a);
  return 0;
}

// Six threads with two streams each, events between them, default streams of both kinds.
int threads() {
  std::vector<Buffer> buffers(6);
  std::vector<std::thread> workers;
  for (int i = 0; i < 6; ++i) {
    workers.emplace_back([&buffers, i] {
      Stream one, two;
      Event event;
      Buffer& buffer = buffers[i];
      harm::steps([&](int number) {
        for (std::uint32_t launch = 0; launch < 50; ++launch) {
          harm::launch_mix(one, buffer, launch + static_cast<std::uint32_t>(number));
          CHECK(cudaEventRecord(event, one));
          CHECK(cudaStreamWaitEvent(two, event, 0));
          harm::launch_mix(two, buffer, launch);
          CHECK(cudaEventRecord(event, two));
          CHECK(cudaStreamWaitEvent(one, event, 0));
        }
        CHECK(cudaStreamSynchronize(one));
        harm::launch_mix(cudaStreamPerThread, buffer, 3);
        CHECK(cudaStreamSynchronize(cudaStreamPerThread));
        harm::launch_mix(cudaStreamLegacy, buffer, 4);
        CHECK(cudaStreamSynchronize(cudaStreamLegacy));
      });
    });
  }
  for (std::thread& worker : workers) worker.join();
  for (const Buffer& buffer : buffers) harm::say_checksum("thread", buffer);
  return 0;
}

int cooperative() {
  Buffer a, b;
  int blocks = 0;
  CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, rounds, harm::kThreads, 0));
  std::printf("fits %d\n", blocks > 0);
  int times = 5;
  void* arguments[] = {&a.data, &b.data, &a.count, &times};
  harm::steps([&](int) {
    CHECK(cudaLaunchCooperativeKernel(reinterpret_cast<void*>(rounds), dim3(16),
                                      dim3(harm::kThreads), arguments, 0, nullptr));
    ++harm::kernels;
    CHECK(cudaDeviceSynchronize());
  });
  harm::say_checksum("a", a);
  harm::say_checksum("b", b);
  return 0;
}

int cluster() {
  Buffer a(64 * harm::kThreads);
  Stream stream;
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim.x = 4;
  attribute.val.clusterDim.y = 1;
  attribute.val.clusterDim.z = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(64);
  config.blockDim = dim3(harm::kThreads);
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = 1;
  harm::steps([&](int) {
    for (int i = 0; i < 20; ++i) {
      CHECK(cudaLaunchKernelEx(&config, neighbours, a.data));
      ++harm::kernels;
    }
    CHECK(cudaStreamSynchronize(stream));
  });
  harm::say_checksum("a", a);
  return 0;
}

cudaLaunchConfig_t programmatic(cudaStream_t stream, const Buffer& buffer,
                                cudaLaunchAttribute* attribute) {
  attribute->id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute->val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = harm::grid_of(buffer.count);
  config.blockDim = dim3(harm::kThreads);
  config.stream = stream;
  config.attrs = attribute;
  config.numAttrs = 1;
  return config;
}

// Programmatic dependent launches, in a stream and captured as edges of a graph.
int programmatic_dependent() {
  Buffer a, b;
  Stream stream;
  cudaLaunchAttribute attributes[2] = {};
  const cudaLaunchConfig_t to_a = programmatic(stream, a, &attributes[0]);
  const cudaLaunchConfig_t to_b = programmatic(stream, b, &attributes[1]);
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  for (std::uint32_t i = 0; i < 5; ++i) {
    CHECK(cudaLaunchKernelEx(&to_b, dependent, b.data, b.count, i));
  }
  cudaGraph_t graph = nullptr;
  CHECK(cudaStreamEndCapture(stream, &graph));
  cudaGraphExec_t exec = harm::instantiate(graph);
  harm::steps([&](int number) {
    for (std::uint32_t i = 0; i < 30; ++i) {
      CHECK(cudaLaunchKernelEx(&to_a, dependent, a.data, a.count,
                               i + static_cast<std::uint32_t>(number)));
      ++harm::kernels;
    }
    harm::launch_graph(exec, stream, 5);
    CHECK(cudaStreamSynchronize(stream));
  });
  harm::say_checksum("a", a);
  harm::say_checksum("b", b);
  CHECK(cudaGraphExecDestroy(exec));
  CHECK(cudaGraphDestroy(graph));
  return 0;
}

template <int... kNumbers>
void launch_all(const Buffer& a, std::integer_sequence<int, kNumbers...>) {
  (numbered<kNumbers><<<1, 32>>>(a.data), ...);
  CHECK(cudaGetLastError());
  harm::kernels += sizeof...(kNumbers);
}

// 100 kernels, each loaded when it is first launched.
int lazy() {
  Buffer a;
  harm::steps([&](int) {
    launch_all(a, std::make_integer_sequence<int, 100>{});
    CHECK(cudaDeviceSynchronize());
  });
  harm::say_checksum("a", a);
  return 0;
}

// What kernels print comes with the output of the program.
int prints() {
  harm::steps([&](int number) {
    talkative<<<1, 2>>>(number);
    CHECK(cudaGetLastError());
    ++harm::kernels;
    CHECK(cudaDeviceSynchronize());
    std::fflush(stdout);
  });
  return 0;
}

// Calls that fail: each says what it says alone, and leaves no error behind.
int errors() {
  Buffer a;
  const auto say = [](const char* what, cudaError_t status) {
    std::printf("%s: %s, last %s\n", what, cudaGetErrorName(status),
                cudaGetErrorName(cudaGetLastError()));
  };
  harm::steps([&](int) {
    harm::mix<<<1, 4096>>>(a.data, a.count, 1);
    say("too many threads", cudaPeekAtLastError());
    harm::mix<<<0, 32>>>(a.data, a.count, 1);
    say("no block", cudaPeekAtLastError());
    harm::mix<<<1, 32, 1 << 20>>>(a.data, a.count, 1);
    say("too much shared memory", cudaPeekAtLastError());
    void* memory = nullptr;
    say("too much memory", cudaMalloc(&memory, std::size_t{1} << 50));
    say("no such device", cudaSetDevice(99));
    say("freed twice", cudaFree(reinterpret_cast<void*>(0x10)));
    harm::launch_mix(nullptr, a, 2);
    Event event(cudaEventDefault);
    say("event not recorded", cudaEventElapsedTime(nullptr, event, event));
    CHECK(cudaDeviceSynchronize());
  });
  harm::say_checksum("a", a);
  return 0;
}

void CUDART_CB count_call(void* times) { ++*static_cast<std::atomic<int>*>(times); }

void CUDART_CB count_callback(cudaStream_t, cudaError_t, void* times) { count_call(times); }

// Host functions, callbacks of both kinds, streams with priorities, polling.
int callbacks() {
  Buffer a;
  std::atomic<int> times{0};
  int least = 0, greatest = 0;
  CHECK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  cudaStream_t streams[2] = {};
  CHECK(cudaStreamCreateWithPriority(&streams[0], cudaStreamNonBlocking, least));
  CHECK(cudaStreamCreateWithPriority(&streams[1], cudaStreamNonBlocking, greatest));
  Event done;
  harm::steps([&](int number) {
    for (cudaStream_t stream : streams) {
      harm::launch_mix(stream, a, static_cast<std::uint32_t>(number));
      CHECK(cudaLaunchHostFunc(stream, count_call, &times));
      CHECK(cudaStreamAddCallback(stream, count_callback, &times, 0));
      CHECK(cudaEventRecord(done, stream));
      while (cudaEventQuery(done) == cudaErrorNotReady) std::this_thread::yield();
    }
  });
  CHECK(cudaDeviceSynchronize());
  std::printf("called %d\n", times.load());
  harm::say_checksum("a", a);
  for (cudaStream_t stream : streams) CHECK(cudaStreamDestroy(stream));
  return 0;
}

std::atomic<int> caught{0};  // any thread may get the signal, also those of libraries

// Real-time signals queue, so that none is lost: a child sends 500 while kernels are launched.
int signals() {
  struct sigaction action{};
  action.sa_handler = [](int) { ++caught; };
  sigaction(SIGRTMIN + 3, &action, nullptr);
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child == 0) {
    for (int i = 0; i < 500; ++i) {
      while (sigqueue(parent, SIGRTMIN + 3, sigval{}) != 0) usleep(1000);
      usleep(500);
    }
    _exit(0);
  }
  Buffer a;
  int launched = 0;
  while (caught < 500) {
    if (launched++ < 20000) harm::launch_mix(nullptr, a, 1);
    if (launched % 100 == 0) CHECK(cudaDeviceSynchronize());
  }
  while (launched++ < 20000) harm::launch_mix(nullptr, a, 1);
  waitpid(child, nullptr, 0);
  harm::say_checksum("a", a);
  std::printf("caught %d\n", caught.load());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return harm::run(argc, argv,
                   {{"plain", plain},
                    {"threads", threads},
                    {"cooperative", cooperative},
                    {"cluster", cluster},
                    {"programmatic_dependent", programmatic_dependent},
                    {"lazy", lazy},
                    {"prints", prints},
                    {"errors", errors},
                    {"callbacks", callbacks},
                    {"signals", signals}});
}
