// CUDA graphs: how they are made. Usage: graphs NAME [--steps N] [--pause MS]
#include "harm.cuh"

using harm::Buffer;
using harm::Event;
using harm::Stream;

namespace {

// The parameters of a `mix` node; they point into this object, which must not move.
struct MixNode {
  std::uint32_t* data;
  int count;
  std::uint32_t salt;
  void* arguments[3];
  cudaKernelNodeParams params{};

  MixNode(const Buffer& buffer, std::uint32_t salt)
      : data(buffer.data), count(buffer.count), salt(salt), arguments{&data, &count, &this->salt} {
    params.func = reinterpret_cast<void*>(harm::mix);
    params.gridDim = harm::grid_of(count);
    params.blockDim = dim3(harm::kThreads);
    params.kernelParams = arguments;
  }
  MixNode(const MixNode&) = delete;
  MixNode& operator=(const MixNode&) = delete;
};

cudaGraphNode_t add_mix(cudaGraph_t graph, const std::vector<cudaGraphNode_t>& after,
                        const Buffer& buffer, std::uint32_t salt) {
  MixNode node(buffer, salt);
  cudaGraphNode_t added = nullptr;
  CHECK(cudaGraphAddKernelNode(&added, graph, after.data(), after.size(), &node.params));
  return added;
}

cudaGraphNode_t add_fill(cudaGraph_t graph, const std::vector<cudaGraphNode_t>& after,
                         const Buffer& buffer, unsigned value) {
  cudaMemsetParams params{};
  params.dst = buffer.data;
  params.value = value;
  params.elementSize = 4;
  params.width = static_cast<std::size_t>(buffer.count);
  params.height = 1;
  params.pitch = buffer.bytes();
  cudaGraphNode_t added = nullptr;
  CHECK(cudaGraphAddMemsetNode(&added, graph, after.data(), after.size(), &params));
  return added;
}

cudaGraphNode_t add_copy(cudaGraph_t graph, const std::vector<cudaGraphNode_t>& after,
                         const Buffer& to, const Buffer& from) {
  cudaGraphNode_t added = nullptr;
  CHECK(cudaGraphAddMemcpyNode1D(&added, graph, after.data(), after.size(), to.data, from.data,
                                 to.bytes(), cudaMemcpyDeviceToDevice));
  return added;
}

// Two streams that fork and join within one capture: five kernels, a fill, a copy.
int captured() {
  Buffer a, b;
  Stream one, two;
  Event fork, join;
  CHECK(cudaStreamBeginCapture(one, cudaStreamCaptureModeThreadLocal));
  harm::capture_mix(one, a, 1);
  CHECK(cudaEventRecord(fork, one));
  CHECK(cudaStreamWaitEvent(two, fork, 0));
  harm::capture_mix(one, a, 2);
  CHECK(cudaMemsetAsync(b.data, 5, b.bytes(), two));
  harm::capture_mix(two, b, 3);
  CHECK(cudaEventRecord(join, two));
  CHECK(cudaStreamWaitEvent(one, join, 0));
  harm::add<<<harm::grid_of(a.count), harm::kThreads, 0, one>>>(a.data, b.data, a.count);
  CHECK(cudaMemcpyAsync(b.data, a.data, a.bytes(), cudaMemcpyDeviceToDevice, one));
  harm::capture_mix(one, b, 4);
  cudaGraph_t graph = nullptr;
  CHECK(cudaStreamEndCapture(one, &graph));
  cudaGraphExec_t exec = harm::instantiate(graph);
  harm::steps([&](int) { harm::launch_graph(exec, one, 5); });
  CHECK(cudaStreamSynchronize(one));
  harm::say_checksum("a", a);
  harm::say_checksum("b", b);
  CHECK(cudaGraphExecDestroy(exec));
  CHECK(cudaGraphDestroy(graph));
  return 0;
}

// Nodes put together by hand: kernels, fill, copy, empty node, event nodes.
int made() {
  Buffer a, b;
  Stream stream;
  Event event;
  cudaGraph_t graph = nullptr;
  CHECK(cudaGraphCreate(&graph, 0));
  cudaGraphNode_t fill = add_fill(graph, {}, b, 77);
  cudaGraphNode_t first = add_mix(graph, {}, a, 1);
  cudaGraphNode_t second = add_mix(graph, {fill}, b, 2);
  cudaGraphNode_t joined = nullptr, recorded = nullptr, waited = nullptr;
  const cudaGraphNode_t both[] = {first, second};
  CHECK(cudaGraphAddEmptyNode(&joined, graph, both, 2));
  CHECK(cudaGraphAddEventRecordNode(&recorded, graph, &joined, 1, event));
  CHECK(cudaGraphAddEventWaitNode(&waited, graph, &recorded, 1, event));
  cudaGraphNode_t copied = add_copy(graph, {waited}, b, a);
  add_mix(graph, {copied}, b, 3);
  cudaGraphExec_t exec = harm::instantiate(graph);
  CHECK(cudaGraphUpload(exec, stream));
  harm::steps([&](int) { harm::launch_graph(exec, stream, 3); });
  CHECK(cudaEventSynchronize(event));
  harm::say_checksum("a", a);
  harm::say_checksum("b", b);
  CHECK(cudaGraphExecDestroy(exec));
  CHECK(cudaGraphDestroy(graph));
  return 0;
}

// A child graph, twice in its parent, exchanged for another in the executable graph.
int child() {
  Buffer a, b;
  Stream stream;
  cudaGraph_t inner = nullptr, other = nullptr, outer = nullptr;
  CHECK(cudaGraphCreate(&inner, 0));
  add_mix(inner, {add_mix(inner, {}, a, 1)}, a, 2);
  CHECK(cudaGraphCreate(&other, 0));
  add_mix(other, {add_mix(other, {}, b, 3)}, b, 4);
  CHECK(cudaGraphCreate(&outer, 0));
  cudaGraphNode_t first = nullptr, second = nullptr;
  CHECK(cudaGraphAddChildGraphNode(&first, outer, nullptr, 0, inner));
  cudaGraphNode_t between = add_mix(outer, {first}, a, 5);
  CHECK(cudaGraphAddChildGraphNode(&second, outer, &between, 1, inner));
  cudaGraphExec_t exec = harm::instantiate(outer);
  harm::steps([&](int number) {
    CHECK(cudaGraphExecChildGraphNodeSetParams(exec, second, number % 2 ? other : inner));
    harm::launch_graph(exec, stream, 5);
  });
  CHECK(cudaStreamSynchronize(stream));
  harm::say_checksum("a", a);
  harm::say_checksum("b", b);
  CHECK(cudaGraphExecDestroy(exec));
  for (cudaGraph_t graph : {outer, inner, other}) CHECK(cudaGraphDestroy(graph));
  return 0;
}

struct Called {
  std::atomic<int> times{0};
  std::uint64_t sum = 0;
  const std::uint32_t* number = nullptr;
};

void CUDART_CB on_host(void* data) {
  auto* called = static_cast<Called*>(data);
  called->sum = called->sum * 31 + *called->number;
  ++called->times;
}

// Host nodes, captured and made, that read what the device copied before them.
int host() {
  Buffer a;
  Stream stream;
  Called called;
  std::uint32_t* pinned = nullptr;
  CHECK(cudaMallocHost(&pinned, sizeof *pinned));
  called.number = pinned;
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  harm::capture_mix(stream, a, 1);
  CHECK(cudaMemcpyAsync(pinned, a.data + 5, 4, cudaMemcpyDeviceToHost, stream));
  CHECK(cudaLaunchHostFunc(stream, on_host, &called));
  harm::capture_mix(stream, a, 2);
  cudaGraph_t graph = nullptr;
  CHECK(cudaStreamEndCapture(stream, &graph));
  cudaGraphNode_t made = nullptr;
  cudaHostNodeParams params{on_host, &called};
  std::size_t count = 0;
  CHECK(cudaGraphGetNodes(graph, nullptr, &count));
  std::vector<cudaGraphNode_t> nodes(count);
  CHECK(cudaGraphGetNodes(graph, nodes.data(), &count));
  CHECK(cudaGraphAddHostNode(&made, graph, nodes.data(), count, &params));
  cudaGraphExec_t exec = harm::instantiate(graph);
  harm::steps([&](int) { harm::launch_graph(exec, stream, 2); });
  CHECK(cudaStreamSynchronize(stream));
  std::printf("called %d sum %016llx\n", called.times.load(),
              static_cast<unsigned long long>(called.sum));
  harm::say_checksum("a", a);
  CHECK(cudaGraphExecDestroy(exec));
  CHECK(cudaGraphDestroy(graph));
  CHECK(cudaFreeHost(pinned));
  return 0;
}

// Memory nodes: captured from cudaMallocAsync, and made by hand.
int memory() {
  Buffer a;
  Stream stream;
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  void* scratch = nullptr;
  CHECK(cudaMallocAsync(&scratch, a.bytes(), stream));
  CHECK(cudaMemcpyAsync(scratch, a.data, a.bytes(), cudaMemcpyDeviceToDevice, stream));
  harm::mix<<<harm::grid_of(a.count), harm::kThreads, 0, stream>>>(
      static_cast<std::uint32_t*>(scratch), a.count, 3);
  harm::add<<<harm::grid_of(a.count), harm::kThreads, 0, stream>>>(
      a.data, static_cast<std::uint32_t*>(scratch), a.count);
  CHECK(cudaFreeAsync(scratch, stream));
  cudaGraph_t graphs[2] = {};
  CHECK(cudaStreamEndCapture(stream, &graphs[0]));

  CHECK(cudaGraphCreate(&graphs[1], 0));
  cudaMemAllocNodeParams wanted{};
  wanted.poolProps.allocType = cudaMemAllocationTypePinned;
  wanted.poolProps.location.type = cudaMemLocationTypeDevice;
  wanted.poolProps.location.id = 0;
  wanted.bytesize = a.bytes();
  cudaGraphNode_t allocated = nullptr, mixed = nullptr, added = nullptr, freed = nullptr;
  CHECK(cudaGraphAddMemAllocNode(&allocated, graphs[1], nullptr, 0, &wanted));
  auto* room = static_cast<std::uint32_t*>(wanted.dptr);
  cudaGraphNode_t copied = nullptr;
  CHECK(cudaGraphAddMemcpyNode1D(&copied, graphs[1], &allocated, 1, room, a.data, a.bytes(),
                                 cudaMemcpyDeviceToDevice));
  int count = a.count;
  std::uint32_t salt = 9;
  void* mixing[] = {&room, &count, &salt};
  void* adding[] = {&a.data, &room, &count};
  cudaKernelNodeParams params{};
  params.func = reinterpret_cast<void*>(harm::mix);
  params.gridDim = harm::grid_of(count);
  params.blockDim = dim3(harm::kThreads);
  params.kernelParams = mixing;
  CHECK(cudaGraphAddKernelNode(&mixed, graphs[1], &copied, 1, &params));
  params.func = reinterpret_cast<void*>(harm::add);
  params.kernelParams = adding;
  CHECK(cudaGraphAddKernelNode(&added, graphs[1], &mixed, 1, &params));
  CHECK(cudaGraphAddMemFreeNode(&freed, graphs[1], &added, 1, room));

  cudaGraphExec_t execs[2] = {harm::instantiate(graphs[0]), harm::instantiate(graphs[1])};
  harm::steps([&](int) {
    for (cudaGraphExec_t exec : execs) harm::launch_graph(exec, stream, 2);
  });
  CHECK(cudaStreamSynchronize(stream));
  harm::say_checksum("a", a);
  for (cudaGraphExec_t exec : execs) CHECK(cudaGraphExecDestroy(exec));
  for (cudaGraph_t graph : graphs) CHECK(cudaGraphDestroy(graph));
  CHECK(cudaDeviceGraphMemTrim(0));
  return 0;
}

// One executable graph brought up to date with a newly captured graph before each launch.
int updated() {
  Buffer a;
  Stream stream;
  cudaGraphExec_t exec = nullptr;
  int taken = 0;
  harm::steps([&](int number) {
    cudaGraph_t graph = nullptr;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    // Every fourth has a kernel more: then the update is refused and a new one is made.
    const int kernels = number % 4 == 3 ? 4 : 3;
    for (int i = 0; i < kernels; ++i) {
      harm::capture_mix(stream, a, static_cast<std::uint32_t>(number * 10 + i));
    }
    CHECK(cudaStreamEndCapture(stream, &graph));
    cudaGraphExecUpdateResultInfo info{};
    if (exec && cudaGraphExecUpdate(exec, graph, &info) == cudaSuccess) {
      ++taken;
    } else {
      cudaGetLastError();
      if (exec) CHECK(cudaGraphExecDestroy(exec));
      exec = harm::instantiate(graph);
    }
    harm::launch_graph(exec, stream, kernels);
    CHECK(cudaGraphDestroy(graph));
  });
  CHECK(cudaStreamSynchronize(stream));
  std::printf("updates taken %d\n", taken);
  harm::say_checksum("a", a);
  CHECK(cudaGraphExecDestroy(exec));
  return 0;
}

// Nodes of an executable graph get new parameters, or are switched off and on.
int node_params() {
  Buffer a, b;
  Stream stream;
  cudaGraph_t graph = nullptr;
  CHECK(cudaGraphCreate(&graph, 0));
  cudaGraphNode_t first = add_mix(graph, {}, a, 1);
  cudaGraphNode_t copied = add_copy(graph, {first}, b, a);
  cudaGraphNode_t filled = add_fill(graph, {copied}, a, 3);
  cudaGraphNode_t last = add_mix(graph, {filled}, b, 2);
  cudaGraphExec_t exec = harm::instantiate(graph);
  harm::steps([&](int number) {
    MixNode node(number % 3 ? a : b, static_cast<std::uint32_t>(number));
    CHECK(cudaGraphExecKernelNodeSetParams(exec, first, &node.params));
    const bool is_on = number % 2 == 0;
    CHECK(cudaGraphNodeSetEnabled(exec, last, is_on));
    CHECK(cudaGraphNodeSetEnabled(exec, filled, number % 4 != 1));
    CHECK(cudaGraphExecMemcpyNodeSetParams1D(exec, copied, b.data, a.data,
                                             b.bytes() / (1 + static_cast<unsigned>(number % 2)),
                                             cudaMemcpyDeviceToDevice));
    harm::launch_graph(exec, stream, is_on ? 2 : 1);
  });
  CHECK(cudaStreamSynchronize(stream));
  harm::say_checksum("a", a);
  harm::say_checksum("b", b);
  CHECK(cudaGraphExecDestroy(exec));
  CHECK(cudaGraphDestroy(graph));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return harm::run(argc, argv,
                   {{"captured", captured},
                    {"made", made},
                    {"child", child},
                    {"host", host},
                    {"memory", memory},
                    {"updated", updated},
                    {"node_params", node_params}});
}
