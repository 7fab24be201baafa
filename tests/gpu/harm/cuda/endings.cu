// Programs that end early, oddly or by force. Usage: endings NAME [--steps N]
// What is printed is written at once, so that all of it is there whatever ends the program.
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>

#include <stdexcept>

#include "harm.cuh"

using harm::Buffer;
using harm::Stream;

namespace {

// Works for a while and waits; then puts more work on the device and does not wait for it.
void work_and_leave_more() {
  static Buffer a;
  harm::steps([&](int number) {
    for (std::uint32_t i = 0; i < 50; ++i) {
      harm::launch_mix(nullptr, a, i + static_cast<std::uint32_t>(number));
    }
  });
  harm::say_checksum("a", a);
  std::fflush(stdout);
  for (int i = 0; i < 20; ++i) harm::spin<<<1, 1>>>(2000000);
}

int exits() {
  work_and_leave_more();
  std::exit(7);
}

int exits_at_once() {
  work_and_leave_more();
  _exit(8);
}

int exits_quickly() {
  std::at_quick_exit([] {
    std::printf("at quick exit\n");
    std::fflush(stdout);
  });
  work_and_leave_more();
  std::quick_exit(9);
}

int aborts() {
  work_and_leave_more();
  std::abort();
}

int throws() {
  work_and_leave_more();
  throw std::runtime_error("on purpose");
}

int faults() {
  work_and_leave_more();
  return *reinterpret_cast<volatile int*>(16);
}

int is_killed() {
  work_and_leave_more();
  kill(getpid(), SIGKILL);
  pause();
  return 0;
}

int is_terminated() {
  work_and_leave_more();
  kill(getpid(), SIGTERM);
  pause();
  return 0;
}

volatile sig_atomic_t is_asked = 0;

// A handler asks the program to end; it ends in order, with a status of its own.
int handles_term() {
  struct sigaction action{};
  action.sa_handler = [](int) { is_asked = 1; };
  sigaction(SIGTERM, &action, nullptr);
  Buffer a;
  harm::steps([&](int number) {
    if (number == 7) kill(getpid(), SIGTERM);
    if (is_asked) return;
    for (std::uint32_t i = 0; i < 50; ++i) harm::launch_mix(nullptr, a, i);
    CHECK(cudaDeviceSynchronize());
  });
  harm::say_checksum("a", a);
  return 40 + is_asked;
}

std::atomic<int> caught{0};

// The program sends itself SIGUSR1 and SIGUSR2, and has a timer of CPU time that goes all along.
int counts_signals() {
  struct sigaction action{};
  action.sa_handler = [](int) { ++caught; };
  action.sa_flags = SA_RESTART;
  sigaction(SIGUSR1, &action, nullptr);
  sigaction(SIGUSR2, &action, nullptr);
  action.sa_handler = [](int) {};
  sigaction(SIGPROF, &action, nullptr);
  const itimerval every_ms{{0, 1000}, {0, 1000}};
  setitimer(ITIMER_PROF, &every_ms, nullptr);
  Buffer a;
  harm::steps([&](int number) {
    for (std::uint32_t i = 0; i < 200; ++i) {
      harm::launch_mix(nullptr, a, i + static_cast<std::uint32_t>(number));
      if (i % 20 == 0) raise(i % 40 ? SIGUSR1 : SIGUSR2);
    }
    CHECK(cudaDeviceSynchronize());
  });
  harm::say_checksum("a", a);
  std::printf("caught %d\n", caught.load());
  return 0;
}

int exec_self(const char* name) {
  execl(harm::program_path, harm::program_path, name, nullptr);
  return 127;
}

int after_exec() {
  Buffer a;
  harm::steps([&](int) { harm::launch_mix(nullptr, a, 9); });
  harm::say_checksum("after exec", a);
  return 11;
}

// Becomes another CUDA program.
int execs() {
  work_and_leave_more();
  return exec_self("after_exec");
}

int wait_for(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

// A child by fork and exec after CUDA was used; parent and child work at the same time.
int fork_execs() {
  Buffer a;
  harm::launch_mix(nullptr, a, 1);
  CHECK(cudaDeviceSynchronize());
  const pid_t child = fork();
  if (child == 0) _exit(exec_self("after_exec"));
  harm::steps([&](int) {
    for (std::uint32_t i = 0; i < 50; ++i) harm::launch_mix(nullptr, a, i);
    CHECK(cudaDeviceSynchronize());
  });
  std::printf("child %d\n", wait_for(child));
  harm::say_checksum("a", a);
  return 0;
}

// Children by fork alone, after CUDA was used and while kernels run: they use no CUDA.
int forks() {
  Buffer a;
  harm::steps([&](int number) {
    for (std::uint32_t i = 0; i < 50; ++i) harm::launch_mix(nullptr, a, i);
    std::fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
      std::uint64_t sum = 0;
      for (std::uint64_t i = 0; i < 2000000; ++i) sum = sum * 31 + i;
      std::printf("child of step %d sum %016llx\n", number, static_cast<unsigned long long>(sum));
      std::fflush(stdout);
      number % 2 ? _exit(number) : std::quick_exit(number);
    }
    for (std::uint32_t i = 0; i < 50; ++i) harm::launch_mix(nullptr, a, i);
    std::printf("ended %d\n", wait_for(child));
  });
  harm::say_checksum("a", a);
  return 0;
}

// Leaves another thread behind that launches without end.
void launch_behind() {
  work_and_leave_more();
  static Buffer* b = new Buffer;  // never freed: the thread uses it to the end
  std::thread([] {
    Stream stream;
    for (std::uint32_t i = 0;; ++i) {
      harm::mix<<<harm::grid_of(b->count), harm::kThreads, 0, stream>>>(b->data, b->count, i);
      const cudaError_t status = i % 100 ? cudaGetLastError() : cudaStreamSynchronize(stream);
      if (status != cudaSuccess) pause();  // the program ends
    }
  }).detach();
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
}

int exits_under_a_thread() {
  launch_behind();
  std::exit(12);
}

int exits_at_once_under_a_thread() {
  launch_behind();
  _exit(12);
}

// The main thread ends first; another one works on and ends the program.
int main_thread_ends() {
  static Buffer a;
  std::thread([] {
    harm::steps([](int) {
      for (std::uint32_t i = 0; i < 50; ++i) harm::launch_mix(cudaStreamPerThread, a, i);
      CHECK(cudaStreamSynchronize(cudaStreamPerThread));
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    });
    harm::say_checksum("a", a);
    std::printf("kernels %llu\n", harm::kernels.load());
    std::fflush(stdout);
    _exit(13);
  }).detach();
  pthread_exit(nullptr);
}

// A kernel writes where nothing is: the context is lost, and every call says so from then on.
__global__ void stray(std::uint32_t* nowhere) { *nowhere = 1; }

int stray_write() {
  work_and_leave_more();
  CHECK(cudaDeviceSynchronize());
  stray<<<1, 1>>>(reinterpret_cast<std::uint32_t*>(0x1000));
  std::printf("wait: %s\n", cudaGetErrorName(cudaDeviceSynchronize()));
  void* memory = nullptr;
  std::printf("allocation: %s\n", cudaGetErrorName(cudaMalloc(&memory, 4)));
  std::fflush(stdout);
  std::exit(14);
}

__global__ void trapped() { asm("trap;"); }

int kernel_trap() {
  work_and_leave_more();
  trapped<<<1, 1>>>();
  std::printf("wait: %s\n", cudaGetErrorName(cudaDeviceSynchronize()));
  std::fflush(stdout);
  return 15;
}

Buffer* kept = nullptr;

// CUDA is used while the program ends.
int used_at_exit() {
  kept = new Buffer;
  std::atexit([] {
    for (std::uint32_t i = 0; i < 10; ++i) harm::launch_mix(nullptr, *kept, i);
    harm::say_checksum("at exit", *kept);
  });
  harm::steps([](int) { harm::launch_mix(nullptr, *kept, 5); });
  CHECK(cudaDeviceSynchronize());
  std::exit(16);
}

}  // namespace

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 1 << 16);
  return harm::run(argc, argv,
                   {{"exits", exits},
                    {"exits_at_once", exits_at_once},
                    {"exits_quickly", exits_quickly},
                    {"aborts", aborts},
                    {"throws", throws},
                    {"faults", faults},
                    {"is_killed", is_killed},
                    {"is_terminated", is_terminated},
                    {"handles_term", handles_term},
                    {"counts_signals", counts_signals},
                    {"after_exec", after_exec},
                    {"execs", execs},
                    {"fork_execs", fork_execs},
                    {"forks", forks},
                    {"exits_under_a_thread", exits_under_a_thread},
                    {"exits_at_once_under_a_thread", exits_at_once_under_a_thread},
                    {"main_thread_ends", main_thread_ends},
                    {"stray_write", stray_write},
                    {"kernel_trap", kernel_trap},
                    {"used_at_exit", used_at_exit}});
}
