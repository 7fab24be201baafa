// A program that uses the stand-ins of cuBLAS, cuDNN and MPI.
//
//     library_app LIBCUDA COMMAND...
//
// Commands:
//     init               initialise the driver, which injects the agent
//     gemm N             N times cublasSgemm_v2 of 64 x 32 x 16 with the second operand transposed
//     batched            cublasGemmStridedBatchedEx: 21 arguments and more
//     matmul             cublasLtMatmul of descriptors
//     mixed              arguments in every kind of place
//     throw              an exception through a call
//     nested             a call within a call
//     cudnn              two calls of cuDNN, of which the second fails
//     mpi                MPI_Send
//     openmp             what a runtime of OpenMP does: finds the tool, and tells it of a parallel region
//                        with a loop, a barrier, a critical section and a task
//     symbol FILE        a function that dlsym returns
//     module FILE        a module that is loaded now and uses the library
//     threads T N        N GEMMs in each of T threads
//     fork               a GEMM in a child
//     time N             prints the ns of one cublasCreate_v2, the best of 5 times N
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <vector>

struct Large {
  std::uint64_t words[16];
};
extern "C" {
int fake_calls();
const void* fake_matmul();
const void* fake_layout(int which);
int cublasCreate_v2(void** handle);
int cublasSgemm_v2(void*, int, int, int, int, int, const float*, const float*, int, const float*, int,
                   const float*, float*, int);
int cublasGemmStridedBatchedEx(void*, int, int, int, int, int, const void*, const void*, int, int,
                               long long, const void*, int, int, long long, const void*, void*, int, int,
                               long long, int, int, int);
double cublasMixed(double, int, float, Large, std::int64_t, int, int, int, int, std::int64_t, double);
int cublasCallBack(void (*)(void*), void*);
int cublasLtMatmul(void*, const void*, const void*, const void*, const void*, const void*, const void*,
                   const void*, const void*, const void*, void*, const void*, const void*, void*,
                   std::size_t, void*);
int cudnnCreate(void**);
int cudnnConvolutionForward(void*);
int MPI_Send(const void*, int, void*, int, int, void*);
}

namespace {

void check(bool is_right, const char* what) {
  if (is_right) return;
  std::fprintf(stderr, "wrong: %s\n", what);
  std::exit(97);
}

void* library_handle() {
  void* handle = nullptr;
  check(cublasCreate_v2(&handle) == 0 && handle != nullptr, "cublasCreate_v2");
  return handle;
}

void multiply() {
  static void* handle = library_handle();
  const float alpha = 1.5f, beta = 2.5f;
  check(cublasSgemm_v2(handle, 0, 1, 64, 32, 16, &alpha, nullptr, 64, nullptr, 32, &beta, nullptr, 64) == 0,
        "cublasSgemm_v2");
}

void multiply_batch() {
  void* handle = library_handle();
  check(cublasGemmStridedBatchedEx(handle, 1, 0, 128, 256, 64, nullptr, nullptr, 14, 128, 5'000'000'000,
                                   nullptr, 14, 64, 16384, nullptr, nullptr, 14, 128, 32768, 12, 68,
                                   99) == 0,
        "cublasGemmStridedBatchedEx");
}

void multiply_by_descriptors() {
  check(cublasLtMatmul(nullptr, fake_matmul(), nullptr, nullptr, fake_layout(0), nullptr, fake_layout(1),
                       nullptr, nullptr, fake_layout(2), nullptr, fake_layout(2), nullptr, nullptr, 4096,
                       nullptr) == 0,
        "cublasLtMatmul");
}

void mix() {
  Large large{};
  for (std::size_t i = 0; i < 16; ++i) large.words[i] = i;
  check(cublasMixed(0.5, 1, 2.25f, large, 1LL << 40, 3, 4, 5, 6, 7, 8.125) ==
            0.5 + 1 + 2.25 + 120 + static_cast<double>(1LL << 40) + 3 + 4 + 5 + 6 + 7 + 8.125,
        "cublasMixed");
}

struct Thrown {};

using Callback = void (*)();
Callback g_callbacks[64];

int set_callback(int which, Callback callback) {
  g_callbacks[which] = callback;
  return 5;
}
Callback look_up(const char* name) {
  return std::string(name) == "ompt_set_callback" ? reinterpret_cast<Callback>(set_callback) : nullptr;
}

template <class... Arguments>
void tell(int which, Arguments... arguments) {
  check(g_callbacks[which] != nullptr, "callback");
  reinterpret_cast<void (*)(Arguments...)>(g_callbacks[which])(arguments...);
}

void run_openmp() {
  const char* libraries = std::getenv("OMP_TOOL_LIBRARIES");
  if (libraries == nullptr) return;
  const std::string all = libraries;
  void* library = dlopen(all.substr(all.rfind(':') + 1).c_str(), RTLD_LAZY);
  check(library != nullptr, "OMP_TOOL_LIBRARIES");
  struct Tool {
    int (*initialize)(Callback (*)(const char*), int, std::uint64_t*);
    void (*finalize)(std::uint64_t*);
    std::uint64_t data;
  };
  auto* start = reinterpret_cast<Tool* (*)(unsigned, const char*)>(dlsym(library, "ompt_start_tool"));
  Tool* tool = start(201811, "stand-in");
  if (tool == nullptr) return;
  check(tool->initialize(look_up, 0, &tool->data) != 0, "initialize");
  const void* none = nullptr;
  std::uint64_t parallel = 0, own = 0, task = 0;
  tell(3, &own, none, &parallel, 2u, 0, none);
  tell(20, 1, 1, &parallel, &own, std::uint64_t{10}, none);
  tell(26, 5, 0u, 0u, std::uint64_t{1}, none);
  tell(27, 5, std::uint64_t{1}, none);
  tell(20, 1, 2, &parallel, &own, std::uint64_t{10}, none);
  tell(16, 3, 1, &parallel, &own, none);
  tell(5, &own, none, &task, 4, 0, none);
  tell(6, &own, 7, &task);
  tell(6, &task, 1, &own);
  tell(16, 3, 2, &parallel, &own, none);
  std::thread([&] {
    tell(16, 9, 1, &parallel, &own, none);  // idle: no call
    tell(16, 9, 2, &parallel, &own, none);
  }).join();
  tell(4, &parallel, &own, 0, none);
  tool->finalize(&tool->data);
}

}  // namespace

int main(int count, char** words) {
  std::vector<std::string> all(words + 1, words + count);
  auto next = all.begin() + 1;
  const auto number = [&] { return std::stoi(*next++); };
  while (next != all.end()) {
    const std::string command = *next++;
    if (command == "init") {
      void* driver = dlopen(all[0].c_str(), RTLD_NOW | RTLD_GLOBAL);
      check(driver != nullptr, "dlopen");
      auto* init = reinterpret_cast<int (*)(unsigned)>(dlsym(driver, "cuInit"));
      check(init != nullptr && init(0) == 0, "cuInit");
    } else if (command == "gemm") {
      for (int i = number(); i > 0; --i) multiply();
    } else if (command == "batched") {
      multiply_batch();
    } else if (command == "matmul") {
      multiply_by_descriptors();
    } else if (command == "mixed") {
      mix();
    } else if (command == "throw") {
      bool is_caught = false;
      try {
        cublasCallBack([](void*) { throw Thrown(); }, nullptr);
      } catch (const Thrown&) {
        is_caught = true;
      }
      check(is_caught, "exception");
    } else if (command == "nested") {
      check(cublasCallBack([](void*) { multiply(); }, nullptr) == 0, "cublasCallBack");
    } else if (command == "cudnn") {
      void* handle = nullptr;
      check(cudnnCreate(&handle) == 0 && cudnnConvolutionForward(handle) == 8, "cudnn");
    } else if (command == "mpi") {
      check(MPI_Send(nullptr, 3, nullptr, 0, 0, nullptr) == 0, "MPI_Send");
    } else if (command == "openmp") {
      run_openmp();
    } else if (command == "symbol") {
      void* library = dlopen((*next++).c_str(), RTLD_NOW);
      check(library != nullptr && dlsym(library, "cublasNowhere") == nullptr, "dlsym of nothing");
      check(dlerror() != nullptr, "dlerror");
      auto* create = reinterpret_cast<int (*)(void**)>(dlsym(library, "cublasCreate_v2"));
      void* handle = nullptr;
      check(create(&handle) == 0, "function of dlsym");
      check(dlsym(RTLD_DEFAULT, "cublasCreate_v2") != nullptr, "dlsym(RTLD_DEFAULT)");
    } else if (command == "module") {
      void* module = dlopen((*next++).c_str(), RTLD_NOW);
      check(module != nullptr, "dlopen of the module");
      check(reinterpret_cast<int (*)()>(dlsym(module, "use_library"))() == 0, "use_library");
      check(dlclose(module) == 0, "dlclose");
    } else if (command == "threads") {
      multiply();
      const int threads = number(), times = number();
      std::vector<std::thread> running;
      for (int i = 0; i < threads; ++i) {
        running.emplace_back([times] {
          for (int j = 0; j < times; ++j) multiply();
        });
      }
      for (std::thread& each : running) each.join();
    } else if (command == "fork") {
      const pid_t child = fork();
      if (child == 0) {
        multiply();
        std::exit(0);
      }
      int status = 0;
      check(waitpid(child, &status, 0) == child && status == 0, "child");
    } else if (command == "time") {
      const int times = number();
      std::int64_t best = INT64_MAX;
      for (int turn = 0; turn < 5; ++turn) {
        const auto begin = std::chrono::steady_clock::now();
        for (int i = 0; i < times; ++i) library_handle();
        const auto took = std::chrono::steady_clock::now() - begin;
        best = std::min<std::int64_t>(best, std::chrono::nanoseconds(took).count());
      }
      std::printf("%.1f\n", static_cast<double>(best) / times);
    } else {
      check(false, command.c_str());
    }
  }
  std::printf("%d\n", fake_calls());
  return 0;
}
