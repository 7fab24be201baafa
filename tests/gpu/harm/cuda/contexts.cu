// Contexts, modules and resets. Usage: contexts NAME [--steps N] [--pause MS]
#include <memory>

#include "driver.cuh"

using harm::Buffer;
using harm::Event;
using harm::Stream;

namespace {

void work_in(CUcontext context, const Buffer& buffer, std::uint32_t salt) {
  DRIVER(cuCtxPushCurrent)(context);
  for (std::uint32_t i = 0; i < 20; ++i) harm::launch_mix(nullptr, buffer, salt + i);
  CHECK(cudaDeviceSynchronize());
  CUcontext popped = nullptr;
  DRIVER(cuCtxPopCurrent)(&popped);
}

// Three contexts of one device that take turns; one of them is made anew in each step.
int several() {
  const CUdevice device = harm::driver_device();
  std::vector<CUcontext> contexts;
  std::vector<std::unique_ptr<Buffer>> buffers;
  for (int i = 0; i < 3; ++i) {
    contexts.push_back(harm::make_context(device));
    buffers.push_back(std::make_unique<Buffer>());
  }
  harm::steps([&](int number) {
    for (std::size_t i = 0; i < 3; ++i) {
      work_in(contexts[i], *buffers[i], static_cast<std::uint32_t>(number));
    }
    CUcontext passing = harm::make_context(device);
    {
      Buffer buffer;
      harm::launch_mix(nullptr, buffer, static_cast<std::uint32_t>(number));
      if (number % 4 == 0) harm::say_checksum("passing", buffer);
    }
    DRIVER(cuCtxDestroy)(passing);
  });
  for (std::size_t i = 0; i < 3; ++i) {
    DRIVER(cuCtxSetCurrent)(contexts[i]);
    harm::say_checksum("context", *buffers[i]);
    buffers[i].reset();
    DRIVER(cuCtxDestroy)(contexts[i]);
  }
  return 0;
}

// Four threads, each with a context of its own beside the primary one.
int threads() {
  const CUdevice device = harm::driver_device();
  Buffer primary;
  std::vector<std::thread> workers;
  std::vector<std::uint64_t> sums(4);
  for (int i = 0; i < 4; ++i) {
    workers.emplace_back([&sums, device, i] {
      CUcontext context = harm::make_context(device);
      {
        Buffer buffer;
        Stream stream;
        harm::steps([&](int number) {
          for (int launch = 0; launch < 50; ++launch) {
            harm::launch_mix(stream, buffer, static_cast<std::uint32_t>(i + number + launch));
          }
          CHECK(cudaStreamSynchronize(stream));
        });
        std::vector<std::uint32_t> copy(static_cast<std::size_t>(buffer.count));
        CHECK(cudaMemcpy(copy.data(), buffer.data, buffer.bytes(), cudaMemcpyDeviceToHost));
        sums[static_cast<std::size_t>(i)] = harm::checksum(copy.data(), buffer.bytes());
      }
      DRIVER(cuCtxDestroy)(context);
    });
  }
  for (int i = 0; i < 500; ++i) harm::launch_mix(nullptr, primary, static_cast<std::uint32_t>(i));
  for (std::thread& worker : workers) worker.join();
  for (std::uint64_t sum : sums) std::printf("%016llx\n", static_cast<unsigned long long>(sum));
  harm::say_checksum("primary", primary);
  return 0;
}

// A context that is destroyed while its kernels still run.
int destroyed_busy() {
  const CUdevice device = harm::driver_device();
  harm::steps([&](int) {
    CUcontext context = harm::make_context(device);
    harm::spin<<<1, 1>>>(20000000);
    CHECK(cudaGetLastError());
    ++harm::kernels;
    DRIVER(cuCtxDestroy)(context);
  });
  Buffer a;
  harm::launch_mix(nullptr, a, 1);
  harm::say_checksum("a", a);
  return 0;
}

// Two green contexts, each with a part of the multiprocessors, and streams of theirs.
int green() {
  const CUdevice device = harm::driver_device();
  Buffer a, b;
  CUdevResource all{}, parts[2] = {}, rest{};
  DRIVER(cuDeviceGetDevResource)(device, &all, CU_DEV_RESOURCE_TYPE_SM);
  unsigned count = 2;
  DRIVER(cuDevSmResourceSplitByCount)(parts, &count, &all, &rest, 0, 16);
  std::printf("parts %u\n", count);
  CUgreenCtx contexts[2] = {};
  CUstream streams[2] = {};
  for (int i = 0; i < 2; ++i) {
    CUdevResourceDesc description{};
    DRIVER(cuDevResourceGenerateDesc)(&description, &parts[i], 1);
    DRIVER(cuGreenCtxCreate)(&contexts[i], description, device, CU_GREEN_CTX_DEFAULT_STREAM);
    DRIVER(cuGreenCtxStreamCreate)(&streams[i], contexts[i], CU_STREAM_NON_BLOCKING, 0);
  }
  harm::steps([&](int number) {
    for (std::uint32_t i = 0; i < 50; ++i) {
      harm::launch_mix(streams[0], a, i + static_cast<std::uint32_t>(number));
      harm::launch_mix(streams[1], b, i);
    }
    CUcontext current = nullptr, popped = nullptr;
    DRIVER(cuCtxFromGreenCtx)(&current, contexts[0]);
    DRIVER(cuCtxPushCurrent)(current);
    harm::launch_mix(streams[0], a, 7);
    DRIVER(cuCtxPopCurrent)(&popped);
    for (CUstream stream : streams) DRIVER(cuStreamSynchronize)(stream);
  });
  harm::say_checksum("a", a);
  harm::say_checksum("b", b);
  for (CUstream stream : streams) DRIVER(cuStreamDestroy)(stream);
  for (CUgreenCtx context : contexts) DRIVER(cuGreenCtxDestroy)(context);
  return 0;
}

// The device is reset, and all begins anew; a graph and events go with it.
int reset() {
  harm::steps([&](int number) {
    std::uint32_t* memory = nullptr;
    cudaStream_t stream = nullptr;
    cudaEvent_t event = nullptr;
    const std::size_t bytes = 4096 * sizeof *memory;
    CHECK(cudaMalloc(&memory, bytes));
    CHECK(cudaMemset(memory, number, bytes));
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaEventCreate(&event));
    for (std::uint32_t i = 0; i < 20; ++i) {
      harm::mix<<<harm::grid_of(4096), harm::kThreads, 0, stream>>>(memory, 4096, i);
      ++harm::kernels;
    }
    CHECK(cudaEventRecord(event, stream));
    CHECK(cudaStreamSynchronize(stream));
    harm::say_checksum("memory", memory, bytes);
    CHECK(cudaDeviceReset());
  });
  return 0;
}

const char kSource[] = R"(
extern "C" __global__ void scale(unsigned* data, int count, unsigned factor) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) data[i] = data[i] * factor + FACTOR;
}
)";

// NVRTC is found by the name that the environment gives, or as the loader finds it. Its header,
// which comes in a package of its own, is not needed.
void* nvrtc_library() {
  // What NVRTC itself loads lies beside it, where the loader does not look.
  if (const char* builtins = std::getenv("HARM_NVRTC_BUILTINS")) dlopen(builtins, RTLD_NOW);
  const char* named = std::getenv("HARM_NVRTC");
  for (const char* name : {named, "libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12"}) {
    if (!name) continue;
    if (void* library = dlopen(name, RTLD_NOW)) return library;
  }
  return nullptr;
}

// Calls a function of NVRTC, which answers 0 if all went well.
template <typename... Parameters>
void nvrtc(const char* name, Parameters... arguments) {
  static void* library = nvrtc_library();
  const auto function =
      reinterpret_cast<int (*)(Parameters...)>(harm::library_function(library, name));
  const int status = function(arguments...);
  if (status == 0) return;
  std::printf("%s: NVRTC error %d\n", name, status);
  std::fflush(stdout);
  _exit(3);
}

std::string compile(int factor) {
  using Texts = const char* const*;
  void* program = nullptr;
  const Texts none = nullptr;
  nvrtc("nvrtcCreateProgram", &program, &kSource[0], "scale.cu", 0, none, none);
  const std::string defined = "-DFACTOR=" + std::to_string(factor);
  const char* options[] = {defined.c_str(), "--gpu-architecture=compute_80"};
  nvrtc("nvrtcCompileProgram", program, 2, static_cast<Texts>(options));
  std::size_t bytes = 0;
  nvrtc("nvrtcGetPTXSize", program, &bytes);
  std::string code(bytes, '\0');
  nvrtc("nvrtcGetPTX", program, code.data());
  nvrtc("nvrtcDestroyProgram", &program);
  return code;
}

void launch_scale(CUfunction function, CUdeviceptr memory, int count, unsigned factor) {
  void* arguments[] = {&memory, &count, &factor};
  DRIVER(cuLaunchKernel)(function, harm::grid_of(count).x, 1, 1, harm::kThreads, 1, 1, 0,
                           nullptr, arguments, nullptr);
  ++harm::kernels;
}

// Modules and libraries made at run time, loaded, launched and unloaded in each step.
int modules() {
  harm::driver_device();
  Buffer a;
  const auto memory = reinterpret_cast<CUdeviceptr>(a.data);
  harm::steps([&](int number) {
    const std::string code = compile(number);
    CUmodule module = nullptr;
    CUfunction function = nullptr;
    DRIVER(cuModuleLoadData)(&module, code.data());
    DRIVER(cuModuleGetFunction)(&function, module, "scale");
    for (unsigned i = 0; i < 10; ++i) launch_scale(function, memory, a.count, 3 + i);
    DRIVER(cuCtxSynchronize)();
    DRIVER(cuModuleUnload)(module);
    CUlibrary library = nullptr;
    CUkernel kernel = nullptr;
    DRIVER(cuLibraryLoadData)(&library, code.data(), nullptr, nullptr, 0, nullptr, nullptr, 0);
    DRIVER(cuLibraryGetKernel)(&kernel, library, "scale");
    const auto launched = reinterpret_cast<CUfunction>(kernel);
    for (unsigned i = 0; i < 10; ++i) launch_scale(launched, memory, a.count, 5 + i);
    DRIVER(cuCtxSynchronize)();
    DRIVER(cuLibraryUnload)(library);
  });
  harm::say_checksum("a", a);
  return 0;
}

// The primary context is retained, released and reset; by the driver's functions alone.
int primary() {
  const CUdevice device = harm::driver_device();
  const std::string code = compile(11);
  harm::steps([&](int number) {
    CUcontext context = nullptr;
    DRIVER(cuDevicePrimaryCtxRetain)(&context, device);
    DRIVER(cuCtxSetCurrent)(context);
    CUmodule module = nullptr;
    CUfunction function = nullptr;
    DRIVER(cuModuleLoadData)(&module, code.data());
    DRIVER(cuModuleGetFunction)(&function, module, "scale");
    CUdeviceptr memory = 0;
    std::vector<unsigned> copy(4096);
    DRIVER(cuMemAlloc)(&memory, copy.size() * 4);
    DRIVER(cuMemsetD32)(memory, static_cast<unsigned>(number), copy.size());
    for (unsigned i = 0; i < 20; ++i) launch_scale(function, memory, 4096, 3 + i);
    DRIVER(cuMemcpyDtoH)(copy.data(), memory, copy.size() * 4);
    std::printf("%016llx\n", static_cast<unsigned long long>(
                                 harm::checksum(copy.data(), copy.size() * 4)));
    if (number % 3 == 2) DRIVER(cuDevicePrimaryCtxReset)(device);
    DRIVER(cuCtxSetCurrent)(nullptr);
    DRIVER(cuDevicePrimaryCtxRelease)(device);
  });
  return 0;
}

// Two devices: kernels on both, copies between them.
int peers() {
  Buffer* buffers[2] = {};
  cudaStream_t streams[2] = {};
  for (int device = 0; device < 2; ++device) {
    CHECK(cudaSetDevice(device));
    buffers[device] = new Buffer;
    CHECK(cudaStreamCreateWithFlags(&streams[device], cudaStreamNonBlocking));
  }
  harm::steps([&](int number) {
    for (int device = 0; device < 2; ++device) {
      CHECK(cudaSetDevice(device));
      harm::launch_mix(streams[device], *buffers[device], static_cast<std::uint32_t>(number));
      CHECK(cudaStreamSynchronize(streams[device]));
    }
    CHECK(cudaMemcpyPeerAsync(buffers[1]->data, 1, buffers[0]->data, 0, buffers[0]->bytes() / 2,
                              streams[1]));
    CHECK(cudaStreamSynchronize(streams[1]));
  });
  for (int device = 0; device < 2; ++device) {
    CHECK(cudaSetDevice(device));
    harm::say_checksum("device", *buffers[device]);
  }
  return 0;
}

// Which device a process sees, for CUDA_VISIBLE_DEVICES.
int visible() {
  int count = 0;
  CHECK(cudaGetDeviceCount(&count));
  cudaDeviceProp properties;
  CHECK(cudaGetDeviceProperties(&properties, 0));
  std::printf("devices %d bus %d\n", count, properties.pciBusID);
  Buffer a;
  harm::steps([&](int number) {
    harm::launch_mix(nullptr, a, static_cast<std::uint32_t>(number));
    CHECK(cudaDeviceSynchronize());
  });
  harm::say_checksum("a", a);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return harm::run(argc, argv,
                   {{"several", several},
                    {"threads", threads},
                    {"destroyed_busy", destroyed_busy},
                    {"green", green},
                    {"reset", reset},
                    {"primary", primary},
                    {"modules", modules},
                    {"peers", peers},
                    {"visible", visible}});
}
