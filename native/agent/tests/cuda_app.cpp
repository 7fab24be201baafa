// A program that "uses CUDA": it loads the fake driver and does what its arguments say, in order.
//
//     cuda_app LIBCUDA LIBCUPTI COMMAND...
//
// Commands:
//     preload                open CUPTI before anything
//     open FILE              load a library
//     init                   initialise the driver, which injects the agent
//     attach FOLDER AGENT    attach in process instead; prints both results
//     detach
//     detach_cuda            end what is recorded of CUDA, of an agent that the driver loaded
//     launch N               calls of the runtime, which calls the driver
//     new_launch N           the same as CUDA 13 has it
//     driver_launch N        calls of the driver alone
//     get_device N           calls that tell nothing
//     threads T N            N launches in each of T threads
//     thread_kernels T N C   thread t of T launches the kernel t with N grids, from 1000 t + 1 on, in
//                            one of C contexts
//     collectives N          two threads, each with a device of its own, launch N times the kernel 90
//                            and another; with FAKE_COUNTERS_COLLECTIVE=90 they wait for each other
//     switch_while N         cudaProfilerStart and Stop N times, while another thread launches
//     launch_on T            T threads launch until the program ends
//     names N                launches of kernels of N long names
//     records                one record of every kind and form
//     allocate MIB, free MIB memory of the GPU
//     node ID ORIGINAL       a graph node is created
//     call ID STATUS         one call of the runtime; enter ID, leave ID: one half of it
//     call_with DOMAIN ID STATUS A,B,...
//                            one call with parameters of 8 bytes each, in hexadecimal
//     streams_end            handles of streams come to mean others
//     graph_exec             a graph is instantiated
//     start, stop            cudaProfilerStart, cudaProfilerStop
//     hold, release          keep buffers incomplete, and no longer
//     push RANGE, pop, push_in DOMAIN RANGE, pop_in DOMAIN
//                            NVTX ranges of this thread
//     range_start RANGE, range_end RANGE
//                            NVTX ranges of the process
//     thread_range RANGE N   a thread pushes a range, launches the kernel 5 with N grids, and pops it
//     range_threads T N      T threads push the range A or B and another one, launch the kernel of their
//                            number, and pop both, N times
//     sleep MS, touch FILE, wait FILE (until it exists)
//     fork, fork_launch N    a child that launches and exits in order
//     fork_meanwhile         while a thread launches a kernel, children one after another, each of which
//                            asks the library for managing GPUs
//     time N                 N launches; prints the time of one
//     repeat N PATTERN       N times what a pattern says, items with commas between them: k7 launches
//                            the kernel 7, k7x3 three times, k7g2 with a grid of 2, k7b64 with a
//                            block of 64; d7 launches it by cuLaunchKernelEx alone, c7 cooperatively,
//                            p7 in the thread's own stream if none is chosen;
//                            g1 launches a graph; m copies; s waits; e asks an event; u500 lets
//                            500 us pass
//     stream S, context C    where this thread launches from now on; 0, 2 at first
//     begin_capture, end_capture
//                            of the stream: what is launched is the graph
//     launch_graph N         launches it
//     end_stream             cuStreamDestroy, of the stream
//     end_context C, reset_device D
//                            cuCtxDestroy, cuDevicePrimaryCtxReset
//     unload M               cuModuleUnload, of module M of the context
//     memory                 prints what the kernels have counted in memory, and how often they ran
//     callbacks              prints how many callbacks were made since it was asked last
//     other                  prints what the other subscriber has
//     subscribe              another profiler of the program's subscribes; prints CUPTI's result
//     version1               turns kernels on by a function without a subscriber
//     exit N, quit N (_exit), kill
#include <dlfcn.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "fake_cupti.h"
#include "fake_nvtx.h"

namespace {

constexpr std::uint32_t kDriver = 1;
constexpr std::uint32_t kRuntime = 2;
std::atomic<std::uint32_t> g_correlation{1000};

void* open_or_die(const std::string& path) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    std::exit(99);
  }
  return library;
}

template <class Function>
Function find(void* library, const char* name) {
  auto function = reinterpret_cast<Function>(dlsym(library, name));
  if (function == nullptr) {
    std::fprintf(stderr, "no %s\n", name);
    std::exit(98);
  }
  return function;
}

// What kernels work on, and where a thread launches them.
std::uint64_t g_memory = 0;
std::uint64_t g_executions = 0;
std::atomic<int> g_failures{0};
thread_local std::uint64_t t_context = 0x2000;
thread_local std::uint64_t t_stream = 0;
constexpr std::uint64_t kFunctions = 0x1'0000'0000;
constexpr std::uint64_t kKernels = 0x2'0000'0000;  // what cuLaunchKernelEx is given here
constexpr std::uint32_t kLaunchKernel = 5;
constexpr std::uint32_t kLaunchKernelEx = 9;
constexpr std::uint32_t kLaunchCooperativeKernel = 23;
constexpr std::uint32_t kGraphLaunch = 24;
constexpr std::uint32_t kLaunchKernelPtsz = 29;

struct App {
  std::string driver_path;
  std::string cupti_path;
  void* agent = nullptr;
  FakeCall call_ = nullptr;
  FakeCallWith call_with_ = nullptr;
  FakeKernel kernel_ = nullptr;
  FakeLaunchKernel launch_kernel_ = nullptr;

  void* cupti() const { return open_or_die(cupti_path); }

  void bind() {
    if (call_ != nullptr) return;
    call_ = find<FakeCall>(cupti(), "fake_call");
    call_with_ = find<FakeCallWith>(cupti(), "fake_call_with");
    kernel_ = find<FakeKernel>(cupti(), "fake_kernel");
    launch_kernel_ = find<FakeLaunchKernel>(cupti(), "fake_launch_kernel");
    enter_context(t_context);
    void* driver = dlopen(driver_path.c_str(), RTLD_NOW | RTLD_NOLOAD);
    if (driver == nullptr) return;
    const auto is_capturing = find<FakeIsCapturing>(cupti(), "fake_is_capturing");
    find<void (*)(FakeIsCapturing)>(driver, "fake_bind")(is_capturing);
  }

  // Makes a context the one in which this thread launches.
  void enter_context(std::uint64_t context) const {
    t_context = context;
    find<FakeBeginContext>(cupti(), "fake_begin_context")(context);
    void* driver = dlopen(driver_path.c_str(), RTLD_NOW | RTLD_NOLOAD);
    if (driver != nullptr) {
      find<int (*)(void*)>(driver, "cuCtxSetCurrent")(reinterpret_cast<void*>(context));
    }
  }

  void init() {
    const auto initialise = find<int (*)(unsigned)>(open_or_die(driver_path), "cuInit");
    if (initialise(0) != 0) std::exit(97);
  }

  void attach(const std::string& folder, const std::string& library) {
    agent = open_or_die(library);
    const int error = find<int (*)(const char*)>(agent, "wl_agent_attach")(folder.c_str());
    const int cuda = find<int (*)()>(agent, "wl_agent_cuda_attach")();
    std::printf("attach %d %d\n", error, cuda);
    std::fflush(stdout);
  }

  void detach() const {
    find<void (*)()>(agent, "wl_agent_cuda_detach")();
    std::printf("detach %d\n", find<int (*)()>(agent, "wl_agent_detach")());
    std::fflush(stdout);
  }

  static void detach_cuda() {
    find<void (*)()>(open_or_die(std::getenv("CUDA_INJECTION64_PATH")), "wl_agent_cuda_detach")();
  }

  // A call of the runtime that calls the driver, or (runtime_id 0) one of the driver.
  void launch_kernel(const FakeLaunchCall& call, const char* symbol, std::uint32_t number,
                     std::uint32_t grid = 1, std::uint32_t block = 256) const {
    const FakeLaunch launch{.context = t_context,
                            .stream = t_stream,
                            .function = (call.driver_id == kLaunchKernelEx ? kKernels : kFunctions) +
                                        std::uint64_t{number} * 0x1000,
                            .symbol = symbol,
                            .number = number,
                            .grid = {grid, 1, 1},
                            .block = {block, 1, 1},
                            .shared_bytes = 16 * number,
                            .memory = &g_memory,
                            .executions = &g_executions};
    if (launch_kernel_(&call, &launch) != 0) ++g_failures;
  }

  void launch(std::uint32_t id = 13, const char* name = "_Z6kernelPf") const {
    launch_kernel({id, kLaunchKernel, ++g_correlation, nullptr}, name, 0);
  }

  // Kernel `number`. The runtime's parameters have the function, then the grid.
  void launch_with(std::uint32_t runtime_id, std::uint32_t driver_id, std::uint64_t number,
                   std::uint32_t grid, std::uint32_t block) const {
    static auto& symbols = *new std::map<std::uint64_t, std::string>;  // CUPTI keeps names to the end
    static std::mutex lock;
    const char* symbol = nullptr;
    {
      const std::lock_guard held(lock);
      std::string& text = symbols[number];
      const std::string name = "kernel" + std::to_string(number);
      if (text.empty()) text = "_Z" + std::to_string(name.size()) + name + "Pf";
      symbol = text.c_str();
    }
    struct {
      std::uint64_t function;
      std::uint32_t grid[3];
    } const parameters = {number * 4096, {grid, 1, 1}};
    launch_kernel({runtime_id, driver_id, ++g_correlation, &parameters}, symbol,
                  static_cast<std::uint32_t>(number), grid, block);
  }

  void driver_launch() const {
    launch_kernel({0, kLaunchKernelEx, ++g_correlation, nullptr}, "_Z6triton", 0);
  }

  std::int32_t act(FakeAct what, std::uint32_t driver_id, std::uint64_t context) const {
    const auto act = find<FakeDriverAct>(cupti(), "fake_driver_act");
    return act(what, driver_id, ++g_correlation, context, t_stream);
  }

  static void check(std::int32_t status) {
    if (status != 0) ++g_failures;
  }

  // A call of the runtime that launches the graph, and a kernel that activity records tell of.
  void call_graph(std::uint64_t number) const {
    const std::uint32_t correlation = ++g_correlation;
    const std::uint64_t parameters[3] = {number * 4096, 1 | std::uint64_t{1} << 32, 1};
    call_with_(kRuntime, 23, 0, correlation, 0, parameters);
    check(act(FakeAct::kLaunchGraph, kGraphLaunch, t_context));
    kernel_(correlation, "_Z6kernelPf", 0, 0);
    call_with_(kRuntime, 23, 1, correlation, 0, parameters);
  }

  void plain(std::uint32_t domain, std::uint32_t id, std::int32_t status = 0) {
    const std::uint32_t correlation = ++g_correlation;
    call_(domain, id, 0, correlation, 0);
    call_(domain, id, 1, correlation, status);
  }

  void call_with(std::uint32_t domain, std::uint32_t id, std::int32_t status,
                 const std::string& parameters) const {
    std::vector<std::uint64_t> words;
    for (std::size_t at = 0; at < parameters.size();) {
      std::size_t used = 0;
      words.push_back(std::stoull(parameters.substr(at), &used, 16));
      at += used + 1;
    }
    const std::uint32_t correlation = ++g_correlation;
    call_with_(domain, id, 0, correlation, 0, words.data());
    call_with_(domain, id, 1, correlation, status, words.data());
  }

  void profiler(std::uint32_t runtime_id, std::uint32_t driver_id) {
    const std::uint32_t correlation = ++g_correlation;
    call_(kRuntime, runtime_id, 0, correlation, 0);
    plain(kDriver, driver_id);
    call_(kRuntime, runtime_id, 1, correlation, 0);
  }
};

int number(const std::string& text) { return std::atoi(text.c_str()); }

void repeat(int times, const std::function<void()>& what) {
  for (int i = 0; i < times; ++i) what();
}

void run_threads(App& app, int threads, int launches) {
  std::vector<std::thread> all;
  for (int i = 0; i < threads; ++i) {
    all.emplace_back([&app, launches] { repeat(launches, [&app] { app.launch(); }); });
  }
  for (std::thread& thread : all) thread.join();
}

void run_thread_kernels(App& app, std::uint32_t threads, std::uint32_t launches,
                        std::uint32_t contexts) {
  std::vector<std::thread> all;
  for (std::uint32_t thread = 0; thread < threads; ++thread) {
    all.emplace_back([&app, thread, launches, contexts] {
      app.enter_context(0x2000 + std::uint64_t{thread % contexts} * 0x1000);
      for (std::uint32_t i = 0; i < launches; ++i) {
        app.launch_with(13, kLaunchKernel, thread, 1000 * thread + i + 1, 256);
      }
    });
  }
  for (std::thread& thread : all) thread.join();
}

void run_thread_range(App& app, const std::string& range, int launches) {
  std::thread thread([&app, &range, launches] {
    nvtx_push("", range);
    for (int i = 0; i < launches; ++i) {
      app.launch_with(13, kLaunchKernel, 5, static_cast<std::uint32_t>(i) + 1, 256);
    }
    nvtx_pop("");
  });
  thread.join();
}

// Threads with an even number in the range A, others in B.
void run_range_threads(App& app, int threads, int times) {
  std::vector<std::thread> all;
  for (int thread = 0; thread < threads; ++thread) {
    all.emplace_back([&app, thread, times] {
      for (int i = 0; i < times; ++i) {
        nvtx_push("", thread % 2 == 0 ? "A" : "B");
        nvtx_push("", "inner" + std::to_string(i));
        const auto grid = static_cast<std::uint32_t>(1000 * thread + i + 1);
        app.launch_with(13, kLaunchKernel, static_cast<std::uint64_t>(thread), grid, 256);
        nvtx_pop("");
        nvtx_pop("");
      }
    });
  }
  for (std::thread& thread : all) thread.join();
}

// Two threads, each of its own device: a kernel that ends when the other thread's does, and another.
void run_collectives(App& app, std::uint32_t times) {
  std::vector<std::thread> both;
  for (std::uint32_t thread = 0; thread < 2; ++thread) {
    both.emplace_back([&app, thread, times] {
      app.enter_context(0x2000 + std::uint64_t{thread} * 0x1000);
      for (std::uint32_t i = 0; i < times; ++i) {
        app.launch_with(13, kLaunchKernel, 90, 1, 256);
        app.launch_with(13, kLaunchKernel, thread + 1, i + 1, 256);
      }
    });
  }
  for (std::thread& thread : both) thread.join();
}

// The grids of the thread's launches are their numbers.
void launch_while(App& app, const std::function<bool()>& goes_on) {
  for (std::uint32_t i = 1; goes_on(); ++i) app.launch_with(13, kLaunchKernel, 1, i, 256);
}

void switch_while(App& app, int times) {
  std::atomic<bool> goes_on{true};
  std::atomic<int> launches{0};
  std::thread launching([&] {
    launch_while(app, [&] {
      ++launches;
      return goes_on.load();
    });
  });
  repeat(times, [&] {
    app.profiler(26, 7);
    // One may have begun before: another one begins, and ends, meanwhile, however busy the machine is.
    for (const int before = launches; launches < before + 3;) usleep(100);
    usleep(500);
    app.profiler(27, 8);
    usleep(100);
  });
  goes_on = false;
  launching.join();
}

void launch_on(App& app, int threads) {
  for (int i = 0; i < threads; ++i) {
    std::thread([&app] { launch_while(app, [] { return true; }); }).detach();
  }
  usleep(5000);
}

void fork_and_wait(const std::function<void()>& in_child) {
  const pid_t child = fork();
  if (child == 0) {
    in_child();
    std::exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  std::printf("child %d\n", status);
  std::fflush(stdout);
}

// Children for which another thread's use of the library must not matter, whenever they are forked.
void fork_meanwhile(App& app) {
  std::atomic<bool> is_over{false};
  std::thread thread([&] {
    app.launch();
    is_over = true;
  });
  int failed = 0;
  while (!is_over && failed == 0) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(5);  // for a lock that nobody will release
      void* library = dlopen("libnvidia-ml.so.1", RTLD_LAZY);
      void* device = nullptr;
      if (library != nullptr) {
        find<int (*)()>(library, "nvmlInit_v2")();
        find<int (*)(const char*, void**)>(library, "nvmlDeviceGetHandleByPciBusId_v2")("", &device);
      }
      std::exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    failed += status != 0;
  }
  thread.join();
  std::printf("%d children failed\n", failed);
  std::fflush(stdout);
}

void wait_for(const std::string& path) {
  struct stat found;
  while (stat(path.c_str(), &found) != 0) usleep(1000);
}

void touch(const std::string& path) { std::fclose(std::fopen(path.c_str(), "w")); }

void time_launches(App& app, int launches) {
  const auto begun = std::chrono::steady_clock::now();
  repeat(launches, [&app] { app.launch(); });
  const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begun;
  std::printf("ns %.1f\n", took.count() / launches);
}

// One item of a pattern.
struct Item {
  char what = 0;
  std::uint64_t number = 0;
  std::uint32_t times = 1;
  std::uint32_t grid = 1;
  std::uint32_t block = 256;
};

std::vector<Item> parse_pattern(const std::string& text) {
  std::vector<Item> items;
  for (const char* at = text.c_str(); *at != 0; at += *at == ',' ? 1 : 0) {
    Item item;
    item.what = *at++;
    char* end = nullptr;
    item.number = std::strtoull(at, &end, 10);
    for (; *end == 'x' || *end == 'g' || *end == 'b';) {
      std::uint32_t& field = *end == 'x' ? item.times : *end == 'g' ? item.grid : item.block;
      field = static_cast<std::uint32_t>(std::strtoul(end + 1, &end, 10));
    }
    at = end;
    items.push_back(item);
  }
  return items;
}

void do_item(App& app, const Item& item) {
  switch (item.what) {
    case 'k': app.launch_with(13, kLaunchKernel, item.number, item.grid, item.block); break;
    case 'd': app.launch_with(0, kLaunchKernelEx, item.number, item.grid, item.block); break;
    case 'p':
      app.launch_with(13, kLaunchKernelPtsz, item.number, item.grid, item.block);
      break;
    case 'c':
      app.launch_with(46, kLaunchCooperativeKernel, item.number, item.grid, item.block);
      break;
    case 'g': app.call_graph(item.number); break;
    case 'm': app.plain(kRuntime, 20); break;
    case 's': app.plain(kRuntime, 22); break;
    case 'e': app.plain(kRuntime, 29); break;
    case 'u': usleep(static_cast<unsigned>(item.number)); break;
    default: std::exit(94);
  }
}

void repeat_pattern(App& app, int times, const std::vector<Item>& items) {
  repeat(times, [&] {
    for (const Item& item : items) {
      repeat(static_cast<int>(item.times), [&] { do_item(app, item); });
    }
  });
}

struct Command {
  int arguments;
  std::function<void(App&, const std::vector<std::string>&)> run;
};
using Words = std::vector<std::string>;

void new_names(App& app, int names) {
  static auto& texts = *new std::map<int, std::string>;  // CUPTI keeps names to the end
  for (int i = 0; i < names; ++i) {
    if (texts[i].empty()) texts[i] = "_Z" + std::to_string(i) + std::string(200, 'k');
    app.launch(13, texts[i].c_str());
  }
}

const std::map<std::string, Command>& commands() {
  static const std::map<std::string, Command> all{
      {"preload", {0, [](App& app, const Words&) { app.bind(); }}},
      {"open", {1, [](App&, const Words& w) { open_or_die(w[0]); }}},
      {"init", {0, [](App& app, const Words&) { app.init(); app.bind(); }}},
      {"attach", {2, [](App& app, const Words& w) { app.attach(w[0], w[1]); app.bind(); }}},
      {"detach", {0, [](App& app, const Words&) { app.detach(); }}},
      {"detach_cuda", {0, [](App& app, const Words&) { app.detach_cuda(); }}},
      {"launch",
       {1, [](App& app, const Words& w) { repeat(number(w[0]), [&] { app.launch(); }); }}},
      {"new_launch",
       {1, [](App& app, const Words& w) { repeat(number(w[0]), [&] { app.launch(600); }); }}},
      {"driver_launch",
       {1, [](App& app, const Words& w) { repeat(number(w[0]), [&] { app.driver_launch(); }); }}},
      {"get_device",
       {1, [](App& app, const Words& w) {
          repeat(number(w[0]), [&] { app.plain(kRuntime, 3); });
        }}},
      {"call",
       {2, [](App& app, const Words& w) {
          app.plain(kRuntime, static_cast<std::uint32_t>(number(w[0])), number(w[1]));
        }}},
      {"call_with",
       {4, [](App& app, const Words& w) {
          app.call_with(static_cast<std::uint32_t>(number(w[0])),
                        static_cast<std::uint32_t>(number(w[1])), number(w[2]), w[3]);
        }}},
      {"streams_end",
       {0, [](App& app, const Words&) {
          find<FakeStreamsEnd>(app.cupti(), "fake_streams_end")();
        }}},
      {"threads",
       {2, [](App& app, const Words& w) { run_threads(app, number(w[0]), number(w[1])); }}},
      {"thread_kernels",
       {3, [](App& app, const Words& w) {
          const auto word = [&w](std::size_t at) { return static_cast<std::uint32_t>(number(w[at])); };
          run_thread_kernels(app, word(0), word(1), word(2));
        }}},
      {"collectives",
       {1, [](App& app, const Words& w) {
          run_collectives(app, static_cast<std::uint32_t>(number(w[0])));
        }}},
      {"switch_while",
       {1, [](App& app, const Words& w) { switch_while(app, number(w[0])); }}},
      {"launch_on", {1, [](App& app, const Words& w) { launch_on(app, number(w[0])); }}},
      {"stream",
       {1, [](App&, const Words& w) {
          t_stream = std::uint64_t{0x1000} * static_cast<std::uint64_t>(number(w[0]));
        }}},
      {"context",
       {1, [](App& app, const Words& w) {
          app.enter_context(std::uint64_t{0x1000} * static_cast<std::uint64_t>(number(w[0])));
        }}},
      {"begin_capture",
       {0, [](App& app, const Words&) { app.check(app.act(FakeAct::kBeginCapture, 25, t_context)); }}},
      {"end_capture",
       {0, [](App& app, const Words&) { app.check(app.act(FakeAct::kEndCapture, 26, t_context)); }}},
      {"launch_graph",
       {1, [](App& app, const Words& w) {
          repeat(number(w[0]), [&] { app.check(app.act(FakeAct::kLaunchGraph, kGraphLaunch, t_context)); });
        }}},
      {"end_stream",
       {0, [](App& app, const Words&) { app.check(app.act(FakeAct::kEndStream, 20, t_context)); }}},
      {"end_context",
       {1, [](App& app, const Words& w) {
          app.check(app.act(FakeAct::kEndContext, 27,
                            std::uint64_t{0x1000} * static_cast<std::uint64_t>(number(w[0]))));
        }}},
      {"reset_device",
       {1, [](App& app, const Words& w) {
          app.check(app.act(FakeAct::kEndContext, 28,
                            std::uint64_t{0x1000} * static_cast<std::uint64_t>(number(w[0]) + 1)));
        }}},
      {"unload",
       {1, [](App& app, const Words& w) {
          const auto unload = find<FakeUnload>(app.cupti(), "fake_unload");
          unload(t_context, static_cast<std::uint64_t>(number(w[0])));
        }}},
      {"memory",
       {0, [](App&, const Words&) {
          std::printf("memory %llu of %llu, %d failed\n",
                      static_cast<unsigned long long>(g_memory),
                      static_cast<unsigned long long>(g_executions), g_failures.load());
          std::fflush(stdout);
        }}},
      {"names", {1, [](App& app, const Words& w) { new_names(app, number(w[0])); }}},
      {"records",
       {0, [](App& app, const Words&) {
          find<FakeEveryRecord>(app.cupti(), "fake_every_record")();
        }}},
      {"allocate",
       {1, [](App& app, const Words& w) {
          find<FakeAllocate>(app.cupti(), "fake_allocate")(std::int64_t{number(w[0])} << 20);
        }}},
      {"free",
       {1, [](App& app, const Words& w) {
          find<FakeAllocate>(app.cupti(), "fake_allocate")(-(std::int64_t{number(w[0])} << 20));
        }}},
      {"node",
       {2, [](App& app, const Words& w) {
          find<FakeNode>(app.cupti(), "fake_node")(static_cast<std::uint64_t>(number(w[0])),
                                                   static_cast<std::uint64_t>(number(w[1])), 0);
        }}},
      {"graph_exec",
       {0, [](App& app, const Words&) {
          find<FakeGraphExec>(app.cupti(), "fake_graph_exec")();
        }}},
      {"start", {0, [](App& app, const Words&) { app.profiler(26, 7); }}},
      {"stop", {0, [](App& app, const Words&) { app.profiler(27, 8); }}},
      {"push", {1, [](App&, const Words& w) { nvtx_push("", w[0]); }}},
      {"pop", {0, [](App&, const Words&) { nvtx_pop(""); }}},
      {"push_in", {2, [](App&, const Words& w) { nvtx_push(w[0], w[1]); }}},
      {"pop_in", {1, [](App&, const Words& w) { nvtx_pop(w[0]); }}},
      {"range_start", {1, [](App&, const Words& w) { nvtx_start("", w[0]); }}},
      {"range_end", {1, [](App&, const Words& w) { nvtx_end("", w[0]); }}},
      {"thread_range",
       {2, [](App& app, const Words& w) { run_thread_range(app, w[0], number(w[1])); }}},
      {"range_threads",
       {2, [](App& app, const Words& w) { run_range_threads(app, number(w[0]), number(w[1])); }}},
      {"hold", {0, [](App& app, const Words&) { find<FakeHold>(app.cupti(), "fake_hold")(1); }}},
      {"release", {0, [](App& app, const Words&) { find<FakeHold>(app.cupti(), "fake_hold")(0); }}},
      {"sleep",
       {1, [](App&, const Words& w) { usleep(static_cast<unsigned>(number(w[0])) * 1000); }}},
      {"wait", {1, [](App&, const Words& w) { wait_for(w[0]); }}},
      {"touch", {1, [](App&, const Words& w) { touch(w[0]); }}},
      {"fork", {0, [](App&, const Words&) { fork_and_wait([] {}); }}},
      {"fork_launch",
       {1, [](App& app, const Words& w) {
          fork_and_wait([&] { repeat(number(w[0]), [&] { app.launch(); }); });
        }}},
      {"fork_meanwhile", {0, [](App& app, const Words&) { fork_meanwhile(app); }}},
      {"time", {1, [](App& app, const Words& w) { time_launches(app, number(w[0])); }}},
      {"repeat",
       {2, [](App& app, const Words& w) {
          repeat_pattern(app, number(w[0]), parse_pattern(w[1]));
        }}},
      {"callbacks",
       {0, [](App& app, const Words&) {
          const auto callbacks = find<FakeCallbacks>(app.cupti(), "fake_callbacks");
          std::printf("callbacks %llu\n", static_cast<unsigned long long>(callbacks()));
        }}},
      {"other",
       {0, [](App& app, const Words&) {
          FakeOther has{};
          find<FakeAskOther>(app.cupti(), "fake_other")(&has);
          std::printf("other %llu %llu %llu %llu\n", static_cast<unsigned long long>(has.kernels),
                      static_cast<unsigned long long>(has.held),
                      static_cast<unsigned long long>(has.cut),
                      static_cast<unsigned long long>(has.calls));
        }}},
      {"subscribe",
       {0, [](App& app, const Words&) {
          void* subscriber = nullptr;
          const auto subscribe =
              find<int (*)(void**, void*, void*)>(app.cupti(), "cuptiSubscribe");
          std::printf("subscribed %d\n", subscribe(&subscriber, nullptr, nullptr));
          std::fflush(stdout);
        }}},
      {"version1",
       {0, [](App& app, const Words&) {
          find<int (*)(std::uint32_t)>(app.cupti(), "cuptiActivityEnable")(10);
        }}},
      {"enter", {1, [](App& app, const Words& w) {
          app.call_(kRuntime, static_cast<std::uint32_t>(number(w[0])), 0, ++g_correlation, 0);
        }}},
      {"leave", {1, [](App& app, const Words& w) {
          app.call_(kRuntime, static_cast<std::uint32_t>(number(w[0])), 1, g_correlation, 0);
        }}},
      {"exit", {1, [](App&, const Words& w) { std::exit(number(w[0])); }}},
      {"quit", {1, [](App&, const Words& w) { _exit(number(w[0])); }}},
      {"kill", {0, [](App&, const Words&) { raise(SIGKILL); }}},
  };
  return all;
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 3) return 96;
  App& app = *new App{arguments[1], arguments[2]};  // threads may launch until the very end
  for (int at = 3; at < count; ++at) {
    const auto found = commands().find(arguments[at]);
    if (found == commands().end() || at + found->second.arguments >= count) {
      std::fprintf(stderr, "what is %s?\n", arguments[at]);
      return 95;
    }
    Words words;
    for (int i = 0; i < found->second.arguments; ++i) words.emplace_back(arguments[++at]);
    found->second.run(app, words);
  }
  return 0;
}
