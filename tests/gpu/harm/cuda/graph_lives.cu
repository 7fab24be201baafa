// CUDA graphs: threads, lifetimes, captures that fail, ranges. Usage: graph_lives NAME [--steps N]
#include <mutex>

#include "harm.cuh"

using harm::Buffer;
using harm::Event;
using harm::Stream;

namespace {

constexpr int kGraphKernels = 4;

cudaGraph_t capture_chain(cudaStream_t stream, const Buffer& buffer, std::uint32_t salt,
                          int kernels = kGraphKernels) {
  cudaGraph_t graph = nullptr;
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  for (int i = 0; i < kernels; ++i) {
    harm::capture_mix(stream, buffer, salt + static_cast<std::uint32_t>(i));
  }
  CHECK(cudaStreamEndCapture(stream, &graph));
  return graph;
}

template <typename Body>
void in_six_threads(Body body) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 6; ++i) threads.emplace_back([&body, i] { body(i); });
  for (auto& thread : threads) thread.join();
}

// Six threads, each with graphs of its own: captured, launched 50 times a step, made anew.
int threads() {
  std::vector<Buffer> buffers(6);
  in_six_threads([&](int i) {
    Stream stream;
    harm::steps([&](int number) {
      cudaGraph_t graph = capture_chain(stream, buffers[i], static_cast<std::uint32_t>(i + number));
      cudaGraphExec_t exec = harm::instantiate(graph);
      for (int launch = 0; launch < 50; ++launch) {
        harm::launch_graph(exec, stream, kGraphKernels);
        if (launch % 10 == i) harm::launch_mix(stream, buffers[i], 5);
      }
      CHECK(cudaStreamSynchronize(stream));
      CHECK(cudaGraphExecDestroy(exec));
      CHECK(cudaGraphDestroy(graph));
    });
  });
  for (const Buffer& buffer : buffers) harm::say_checksum("thread", buffer);
  return 0;
}

// One executable graph that six threads launch into one stream, under a lock.
int shared() {
  Buffer a;
  Stream stream;
  cudaGraph_t graph = capture_chain(stream, a, 3);
  cudaGraphExec_t exec = harm::instantiate(graph);
  std::mutex mutex;
  in_six_threads([&](int) {
    harm::steps([&](int) {
      for (int launch = 0; launch < 20; ++launch) {
        const std::lock_guard<std::mutex> guard(mutex);
        harm::launch_graph(exec, stream, kGraphKernels);
      }
    });
  });
  harm::say_checksum("a", a);
  CHECK(cudaGraphExecDestroy(exec));
  CHECK(cudaGraphDestroy(graph));
  return 0;
}

// Graphs are captured, instantiated and destroyed by one thread while another launches others.
int background() {
  Buffer a, b;
  std::thread maker([&] {
    Stream stream;
    for (int i = 0; i < 200; ++i) {
      cudaGraph_t graph = capture_chain(stream, b, static_cast<std::uint32_t>(i));
      cudaGraphExec_t exec = harm::instantiate(graph);
      if (i % 4 == 0) harm::launch_graph(exec, stream, kGraphKernels);
      CHECK(cudaGraphExecDestroy(exec));
      CHECK(cudaGraphDestroy(graph));
    }
    CHECK(cudaStreamSynchronize(stream));
  });
  Stream stream;
  cudaGraph_t graph = capture_chain(stream, a, 3);
  cudaGraphExec_t exec = harm::instantiate(graph);
  harm::steps([&](int) {
    for (int launch = 0; launch < 100; ++launch) {
      harm::launch_graph(exec, stream, kGraphKernels);
      harm::launch_mix(stream, a, 1);
    }
    CHECK(cudaStreamSynchronize(stream));
  });
  maker.join();
  harm::say_checksum("a", a);
  harm::say_checksum("b", b);
  CHECK(cudaGraphExecDestroy(exec));
  CHECK(cudaGraphDestroy(graph));
  return 0;
}

// The graph goes before its executable one, and that goes right after its launch.
int destroyed() {
  Buffer a;
  Stream stream;
  harm::steps([&](int number) {
    cudaGraph_t graph = capture_chain(stream, a, static_cast<std::uint32_t>(number));
    cudaGraphExec_t exec = harm::instantiate(graph);
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaGraphUpload(exec, stream));
    harm::launch_graph(exec, stream, kGraphKernels);
    harm::launch_graph(exec, stream, kGraphKernels);
    CHECK(cudaGraphExecDestroy(exec));
  });
  harm::say_checksum("a", a);
  return 0;
}

// A graph is cloned; the original is destroyed, the clone grows, both kinds of handles are reused.
int cloned() {
  Buffer a;
  Stream stream;
  harm::steps([&](int number) {
    cudaGraph_t graph = capture_chain(stream, a, static_cast<std::uint32_t>(number));
    cudaGraph_t copy = nullptr;
    CHECK(cudaGraphClone(&copy, graph));
    CHECK(cudaGraphDestroy(graph));
    cudaGraphNode_t leaf = nullptr;
    std::size_t count = 1;
    CHECK(cudaGraphGetRootNodes(copy, &leaf, &count));
    CHECK(cudaGraphDestroyNode(leaf));
    cudaGraphExec_t exec = harm::instantiate(copy, cudaGraphInstantiateFlagAutoFreeOnLaunch);
    harm::launch_graph(exec, stream, kGraphKernels - 1);
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(copy));
  });
  harm::say_checksum("a", a);
  return 0;
}

// One graph of 3000 nodes, and 300 graphs of one.
int many() {
  Buffer a(1024);
  Stream stream;
  cudaGraph_t large = capture_chain(stream, a, 1, 3000);
  cudaGraphExec_t large_exec = harm::instantiate(large);
  std::vector<cudaGraph_t> graphs;
  std::vector<cudaGraphExec_t> execs;
  for (int i = 0; i < 300; ++i) {
    graphs.push_back(capture_chain(stream, a, static_cast<std::uint32_t>(i), 1));
    execs.push_back(harm::instantiate(graphs.back()));
  }
  harm::steps([&](int) {
    harm::launch_graph(large_exec, stream, 3000);
    for (cudaGraphExec_t exec : execs) harm::launch_graph(exec, stream, 1);
  });
  harm::say_checksum("a", a);
  for (cudaGraphExec_t exec : execs) CHECK(cudaGraphExecDestroy(exec));
  for (cudaGraph_t graph : graphs) CHECK(cudaGraphDestroy(graph));
  CHECK(cudaGraphExecDestroy(large_exec));
  CHECK(cudaGraphDestroy(large));
  return 0;
}

void say_error(const char* what, cudaError_t status) {
  std::printf("%s: %s\n", what, cudaGetErrorName(status));
}

// Captures that go wrong: each call answers as it does alone, and the next capture works.
int failing() {
  Buffer a;
  Stream stream, other;
  Event event;
  harm::steps([&](int) {
    cudaGraph_t graph = nullptr;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    harm::capture_mix(stream, a, 1);
    say_error("wait in a capture", cudaStreamSynchronize(stream));
    say_error("end", cudaStreamEndCapture(stream, &graph));
    cudaGetLastError();
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    void* memory = nullptr;
    say_error("allocation in a capture", cudaMalloc(&memory, 1024));
    say_error("end", cudaStreamEndCapture(stream, &graph));
    cudaGetLastError();
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    CHECK(cudaEventRecord(event, stream));
    CHECK(cudaStreamWaitEvent(other, event, 0));
    harm::capture_mix(other, a, 2);
    say_error("unjoined", cudaStreamEndCapture(stream, &graph));
    cudaGetLastError();
    cudaStreamCaptureStatus status;
    CHECK(cudaStreamIsCapturing(stream, &status));
    std::printf("status %d\n", static_cast<int>(status));
    cudaGraph_t good = capture_chain(stream, a, 7);
    cudaGraphExec_t exec = harm::instantiate(good);
    harm::launch_graph(exec, stream, kGraphKernels);
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(good));
  });
  harm::say_checksum("a", a);
  return 0;
}

// While one thread captures in global mode, another launches, which is allowed then: what a profiler
// calls meanwhile must not spoil the capture.
int beside_capture() {
  Buffer a, b;
  Stream stream, other;
  std::thread worker([&] {
    for (int i = 0; i < 2000; ++i) {
      harm::launch_mix(other, b, static_cast<std::uint32_t>(i));
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  });
  int broken = 0;
  harm::steps([&](int) {
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    for (std::uint32_t i = 0; i < 4; ++i) {
      harm::capture_mix(stream, a, i);
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    cudaGraph_t graph = nullptr;
    if (cudaStreamEndCapture(stream, &graph) != cudaSuccess) ++broken;
    if (!graph) return;
    cudaGraphExec_t exec = harm::instantiate(graph);
    harm::launch_graph(exec, stream, kGraphKernels);
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
  });
  worker.join();
  std::printf("captures broken %d\n", broken);
  harm::say_checksum("a", a);
  harm::say_checksum("b", b);
  return 0;
}

// Opens and closes a range of the profiler's twice, around launches of a graph made before,
// between and within.
int ranges() {
  Buffer a;
  Stream stream;
  cudaGraph_t first = capture_chain(stream, a, 1);
  cudaGraphExec_t early = harm::instantiate(first);
  for (int i = 0; i < 10; ++i) harm::launch_graph(early, stream, kGraphKernels);
  unsigned long long ranged = 0;
  for (int range = 0; range < 2; ++range) {
    CHECK(cudaProfilerStart());
    const unsigned long long before = harm::kernels;
    cudaGraph_t second = capture_chain(stream, a, 2);
    cudaGraphExec_t within = harm::instantiate(second);
    harm::steps([&](int) {
      harm::launch_graph(early, stream, kGraphKernels);
      harm::launch_graph(within, stream, kGraphKernels);
    });
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaProfilerStop());
    ranged += harm::kernels - before;
    for (int i = 0; i < 10; ++i) harm::launch_graph(within, stream, kGraphKernels);
    CHECK(cudaGraphExecDestroy(within));
    CHECK(cudaGraphDestroy(second));
  }
  std::printf("ranged %llu\n", ranged);
  harm::say_checksum("a", a);
  CHECK(cudaGraphExecDestroy(early));
  CHECK(cudaGraphDestroy(first));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return harm::run(argc, argv,
                   {{"threads", threads},
                    {"shared", shared},
                    {"background", background},
                    {"destroyed", destroyed},
                    {"cloned", cloned},
                    {"many", many},
                    {"failing", failing},
                    {"beside_capture", beside_capture},
                    {"ranges", ranges}});
}
