// Graphs that the device steers: conditional nodes, graphs that kernels launch, kernels that launch
// kernels. Usage: device_graphs NAME [--steps N]; built with -rdc=true.
#include <tuple>

#include "harm.cuh"

using harm::Buffer;
using harm::Stream;

namespace {

__device__ cudaGraphExec_t launched_by_device;

// Decides by the data, so that the host does not know.
__global__ void decide(cudaGraphConditionalHandle handle, const std::uint32_t* data) {
  cudaGraphSetConditional(handle, data[3] & 1);
}

__global__ void count_down(cudaGraphConditionalHandle handle, std::uint32_t* left) {
  if (*left) --*left;
  cudaGraphSetConditional(handle, *left != 0);
}

__global__ void set(std::uint32_t* to, std::uint32_t value) { *to = value; }

__global__ void launch_graph_from_device(std::uint32_t* launches) {
  if (cudaGraphLaunch(launched_by_device, cudaStreamGraphTailLaunch) == cudaSuccess) ++*launches;
}

__global__ void launch_kernel_from_device(std::uint32_t* data, int count, std::uint32_t salt) {
  harm::mix<<<(count + harm::kThreads - 1) / harm::kThreads, harm::kThreads>>>(data, count, salt);
}

template <typename... Arguments, typename... Given>
cudaGraphNode_t add_kernel(cudaGraph_t graph, const std::vector<cudaGraphNode_t>& after, dim3 grid,
                           dim3 block, void (*kernel)(Arguments...), Given... given) {
  std::tuple<Arguments...> values(given...);
  void* pointers[sizeof...(Arguments)];
  std::apply(
      [&](auto&... value) {
        std::size_t i = 0;
        ((pointers[i++] = &value), ...);
      },
      values);
  cudaKernelNodeParams params{};
  params.func = reinterpret_cast<void*>(kernel);
  params.gridDim = grid;
  params.blockDim = block;
  params.kernelParams = pointers;
  cudaGraphNode_t node = nullptr;
  CHECK(cudaGraphAddKernelNode(&node, graph, after.data(), after.size(), &params));
  return node;
}

cudaGraphNode_t add_mix(cudaGraph_t graph, const std::vector<cudaGraphNode_t>& after,
                        const Buffer& buffer, std::uint32_t salt) {
  return add_kernel(graph, after, harm::grid_of(buffer.count), dim3(harm::kThreads), harm::mix,
                    buffer.data, buffer.count, salt);
}

// Adds a conditional node and returns its body, which is to be filled.
cudaGraph_t add_conditional(cudaGraph_t graph, cudaGraphNode_t after,
                            cudaGraphConditionalHandle handle, cudaGraphConditionalNodeType type,
                            cudaGraphNode_t* node) {
  cudaGraphNodeParams params{};
  params.type = cudaGraphNodeTypeConditional;
  params.conditional.handle = handle;
  params.conditional.type = type;
  params.conditional.size = 1;
#if CUDART_VERSION >= 13000
  CHECK(cudaGraphAddNode(node, graph, &after, nullptr, 1, &params));
#else
  CHECK(cudaGraphAddNode(node, graph, &after, 1, &params));
#endif
  return params.conditional.phGraph_out[0];
}

int run_conditional(cudaGraph_t graph, const Buffer& a) {
  Stream stream;
  cudaGraphExec_t exec = harm::instantiate(graph);
  harm::steps([&](int) { CHECK(cudaGraphLaunch(exec, stream)); });
  CHECK(cudaStreamSynchronize(stream));
  harm::say_checksum("a", a);
  CHECK(cudaGraphExecDestroy(exec));
  CHECK(cudaGraphDestroy(graph));
  return 0;
}

// IF: a kernel looks at the data and decides whether the body runs.
int if_node() {
  Buffer a;
  cudaGraph_t graph = nullptr;
  CHECK(cudaGraphCreate(&graph, 0));
  cudaGraphConditionalHandle handle;
  CHECK(cudaGraphConditionalHandleCreate(&handle, graph, 0, cudaGraphCondAssignDefault));
  cudaGraphNode_t first = add_mix(graph, {}, a, 1);
  cudaGraphNode_t decided = add_kernel(graph, {first}, 1, 1, decide, handle, a.data);
  cudaGraphNode_t node = nullptr;
  cudaGraph_t body = add_conditional(graph, decided, handle, cudaGraphCondTypeIf, &node);
  add_mix(body, {add_mix(body, {}, a, 2)}, a, 3);
  add_mix(graph, {node}, a, 4);
  return run_conditional(graph, a);
}

// WHILE: the body counts down from seven.
int while_node() {
  Buffer a, left(4);
  cudaGraph_t graph = nullptr;
  CHECK(cudaGraphCreate(&graph, 0));
  cudaGraphConditionalHandle handle;
  CHECK(cudaGraphConditionalHandleCreate(&handle, graph, 1, cudaGraphCondAssignDefault));
  cudaGraphNode_t begun = add_kernel(graph, {}, 1, 1, set, left.data, 7u);
  cudaGraphNode_t node = nullptr;
  cudaGraph_t body = add_conditional(graph, begun, handle, cudaGraphCondTypeWhile, &node);
  cudaGraphNode_t mixed = add_mix(body, {}, a, 2);
  add_kernel(body, {mixed}, 1, 1, count_down, handle, left.data);
  add_mix(graph, {node}, a, 4);
  return run_conditional(graph, a);
}

// A kernel within a graph launches another graph behind itself.
int device_launch() {
  Buffer a, launches(1);
  Stream stream;
  cudaGraph_t inner = nullptr, outer = nullptr;
  CHECK(cudaGraphCreate(&inner, 0));
  add_mix(inner, {add_mix(inner, {}, a, 1)}, a, 2);
  cudaGraphExec_t inner_exec = harm::instantiate(inner, cudaGraphInstantiateFlagDeviceLaunch);
  CHECK(cudaGraphUpload(inner_exec, stream));
  CHECK(cudaStreamSynchronize(stream));
  CHECK(cudaMemcpyToSymbol(launched_by_device, &inner_exec, sizeof inner_exec));
  CHECK(cudaGraphCreate(&outer, 0));
  cudaGraphNode_t mixed = add_mix(outer, {}, a, 3);
  add_kernel(outer, {mixed}, 1, 1, launch_graph_from_device, launches.data);
  cudaGraphExec_t exec = harm::instantiate(outer);
  harm::steps([&](int) {
    CHECK(cudaGraphLaunch(exec, stream));
    CHECK(cudaStreamSynchronize(stream));
  });
  harm::say_checksum("a", a);
  harm::say_checksum("launches", launches);
  CHECK(cudaGraphExecDestroy(exec));
  CHECK(cudaGraphExecDestroy(inner_exec));
  CHECK(cudaGraphDestroy(outer));
  CHECK(cudaGraphDestroy(inner));
  return 0;
}

// Kernels that launch kernels.
int nested_kernels() {
  Buffer a;
  harm::steps([&](int number) {
    launch_kernel_from_device<<<1, 1>>>(a.data, a.count, static_cast<std::uint32_t>(number));
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
  });
  harm::say_checksum("a", a);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return harm::run(argc, argv,
                   {{"if_node", if_node},
                    {"while_node", while_node},
                    {"device_launch", device_launch},
                    {"nested_kernels", nested_kernels}});
}
