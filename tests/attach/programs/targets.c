// Programs that are attached to: targets MODE STOP. They say "ready", run until the first byte of the file
// STOP is not zero or their input ends, and say "ok", or what is not as it should be.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <fenv.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 4, SHORT_MS = 20 };

static volatile unsigned char *stop;
static const char *failure;

static void expect(int is_right, const char *what) {
  if (!is_right && failure == NULL) failure = what;
}

static void ready(void) {
  if (write(1, "ready\n", 6) != 6) _exit(3);
}

static int64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000000000LL + now.tv_nsec;
}

// Input: a byte counts, the end ends.
static int is_over(ssize_t got) {
  expect(got >= 0, "read failed");
  return got <= 0;
}

static void in_read(void) {
  char byte;
  while (!is_over(read(0, &byte, 1))) expect(byte == 'x', "wrong byte");
}

static void in_nanosleep(void) {
  while (!*stop) {
    const struct timespec time = {0, SHORT_MS * 1000000};
    const int64_t begin = now_ns();
    expect(nanosleep(&time, NULL) == 0, "nanosleep failed");
    expect(now_ns() - begin >= SHORT_MS * 1000000, "nanosleep ended early");
  }
}

static void in_poll(void) {
  while (!*stop) {
    const int64_t begin = now_ns();
    expect(poll(NULL, 0, SHORT_MS) == 0, "poll failed");
    expect(now_ns() - begin >= SHORT_MS * 1000000, "poll ended early");
  }
}

static void in_select(void) {
  while (!*stop) {
    struct timeval time = {0, SHORT_MS * 1000};
    const int64_t begin = now_ns();
    expect(select(0, NULL, NULL, NULL, &time) == 0, "select failed");
    expect(now_ns() - begin >= SHORT_MS * 1000000, "select ended early");
  }
}

static int epoll_on_input(void) {
  const int file = epoll_create1(0);
  struct epoll_event event = {.events = EPOLLIN};
  expect(epoll_ctl(file, EPOLL_CTL_ADD, 0, &event) == 0, "epoll_ctl failed");
  return file;
}

static void in_epoll(void) {
  const int file = epoll_on_input();
  struct epoll_event event;
  char byte;
  do {
    expect(epoll_wait(file, &event, 1, -1) == 1, "epoll_wait failed");
  } while (failure == NULL && !is_over(read(0, &byte, 1)));
}

static void in_epoll_timeout(void) {
  const int file = epoll_create1(0);
  struct epoll_event event;
  while (!*stop) {
    const int64_t begin = now_ns();
    expect(epoll_wait(file, &event, 1, SHORT_MS) == 0, "epoll_wait failed");
    expect(now_ns() - begin >= SHORT_MS * 1000000, "epoll_wait ended early");
  }
}

// The input is read by a child, so that this program has one thread only.
static void after_input(void (*then)(void *), void *argument) {
  if (fork() != 0) return;
  char byte;
  while (read(0, &byte, 1) > 0) continue;
  then(argument);
  _exit(0);
}

struct shared {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  int is_set;
};

static void set_shared(void *argument) {
  struct shared *shared = argument;
  pthread_mutex_lock(&shared->lock);
  shared->is_set = 1;
  pthread_cond_signal(&shared->changed);
  pthread_mutex_unlock(&shared->lock);
}

static void in_futex(void) {
  struct shared *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  pthread_mutexattr_t lock;
  pthread_condattr_t changed;
  pthread_mutexattr_init(&lock);
  pthread_mutexattr_setpshared(&lock, PTHREAD_PROCESS_SHARED);
  pthread_condattr_init(&changed);
  pthread_condattr_setpshared(&changed, PTHREAD_PROCESS_SHARED);
  pthread_mutex_init(&shared->lock, &lock);
  pthread_cond_init(&shared->changed, &changed);
  after_input(set_shared, shared);
  pthread_mutex_lock(&shared->lock);
  while (!shared->is_set) expect(pthread_cond_wait(&shared->changed, &shared->lock) == 0, "cond_wait failed");
  pthread_mutex_unlock(&shared->lock);
  expect(wait(NULL) > 0, "wait failed");
}

static void connect_to(void *argument) {
  const int file = socket(AF_INET, SOCK_STREAM, 0);
  if (connect(file, argument, sizeof(struct sockaddr_in)) != 0) _exit(1);
}

static void in_accept(void) {
  struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t bytes = sizeof name;
  const int file = socket(AF_INET, SOCK_STREAM, 0);
  expect(bind(file, (struct sockaddr *)&name, bytes) == 0 && listen(file, 1) == 0, "listen failed");
  getsockname(file, (struct sockaddr *)&name, &bytes);
  after_input(connect_to, &name);
  expect(accept(file, NULL, NULL) >= 0, "accept failed");
  expect(wait(NULL) > 0, "wait failed");
}

static void nothing(void *argument) { (void)argument; }

// A thread that waits for a child sees that end, and nothing else.
static void in_wait(void) {
  int status = 0;
  after_input(nothing, NULL);
  expect(waitpid(-1, &status, WUNTRACED | WCONTINUED) > 0, "waitpid failed");
  expect(WIFEXITED(status), "waitpid saw a stop");
}

static void *allocates(void *argument) {
  uint32_t state = (uint32_t)(uintptr_t)argument * 2654435761u + 1;
  enum { BLOCKS = 64 };
  unsigned char *blocks[BLOCKS] = {NULL};
  uint32_t sizes[BLOCKS] = {0};
  while (!*stop) {
    state = state * 1103515245 + 12345;
    const uint32_t at = state >> 16 & (BLOCKS - 1);
    if (blocks[at] != NULL) {
      expect(blocks[at][0] == at && blocks[at][sizes[at] - 1] == at, "memory changed");
      free(blocks[at]);
    }
    sizes[at] = 1 + (state >> 8 & (at % 8 == 0 ? 0x3ffff : 0x3ff));  // some are mapped by themselves
    blocks[at] = malloc(sizes[at]);
    blocks[at][0] = blocks[at][sizes[at] - 1] = (unsigned char)at;
  }
  for (int at = 0; at < BLOCKS; ++at) free(blocks[at]);
  return NULL;
}

static void *loads(void *argument) {
  while (!*stop) {
    void *library = dlopen(argument, RTLD_NOW);
    expect(library != NULL && dlsym(library, "counted") != NULL, "dlopen failed");
    expect(dlclose(library) == 0, "dlclose failed");
  }
  return NULL;
}

static void in_threads(void *(*body)(void *), void *argument) {
  pthread_t threads[THREADS];
  for (intptr_t i = 0; i < THREADS; ++i) {
    expect(pthread_create(&threads[i], NULL, body, argument != NULL ? argument : (void *)i) == 0, "no thread");
  }
  for (int i = 0; i < THREADS; ++i) pthread_join(threads[i], NULL);
}

static int answer;
static void *short_thread(void *argument) { return argument; }

static void *makes_threads(void *argument) {
  while (!*stop) {
    pthread_t thread;
    void *result = NULL;
    expect(pthread_create(&thread, NULL, short_thread, &answer) == 0, "no thread");
    expect(pthread_join(thread, &result) == 0 && result == &answer, "wrong result of a thread");
  }
  return argument;
}

static volatile sig_atomic_t handled;
static void on_alarm(int number) {
  (void)number;
  handled = handled + 1;
  errno = ENOTTY;
  errno = 0;
}

// A thousand signals a second, while it computes and while it sleeps, with and without SA_RESTART.
static void in_signals(int flags) {
  struct sigaction action = {.sa_handler = on_alarm, .sa_flags = flags};
  sigaction(SIGALRM, &action, NULL);
  const struct itimerval period = {{0, 1000}, {0, 1000}};
  setitimer(ITIMER_REAL, &period, NULL);
  for (uint64_t round = 0; !*stop || handled == 0; ++round) {
    uint64_t sum = 0;
    for (uint64_t i = 0; i < 10000; ++i) sum += i * i ^ round;
    expect(sum != 1, "wrong sum");
    const struct timespec time = {0, 2000000};
    const int result = nanosleep(&time, NULL);
    expect(result == 0 || errno == EINTR, "nanosleep failed");
  }
  struct sigaction found;
  sigaction(SIGALRM, NULL, &found);
  expect(found.sa_handler == on_alarm, "the handler has changed");
  sigaction(SIGTRAP, NULL, &found);
  expect(found.sa_handler == SIG_DFL, "that of SIGTRAP has changed");
  sigset_t blocked;
  sigprocmask(SIG_SETMASK, NULL, &blocked);
  expect(sigismember(&blocked, SIGALRM) == 0 && sigismember(&blocked, SIGTERM) == 0, "signals are blocked");
}

// A handler that does not return.
static sigjmp_buf place;
static void jump(int number) { siglongjmp(place, number); }
static void in_jumps(void) {
  signal(SIGALRM, jump);
  const struct itimerval period = {{0, 1000}, {0, 1000}};
  sigsetjmp(place, 1);
  setitimer(ITIMER_REAL, &period, NULL);
  while (!*stop) continue;
  signal(SIGALRM, SIG_IGN);
}

static void in_forks(void) {
  char *const arguments[] = {"true", NULL};
  extern char **environ;
  for (volatile int round = 0; !*stop; round = round + 1) {
    int status = -1;
    pid_t child = -1;
    if (round % 3 == 0) {
      expect(posix_spawnp(&child, "true", NULL, NULL, arguments, environ) == 0, "posix_spawn failed");
    } else if ((child = round % 3 == 1 ? fork() : vfork()) == 0) {
      execvp("true", arguments);
      _exit(9);
    }
    expect(waitpid(child, &status, 0) == child && status == 0, "a child failed");
  }
}

// Sixteen vectors and a rounding mode that nothing may change.
typedef double vector __attribute__((vector_size(32)));
static void in_vectors(void) {
  fesetround(FE_UPWARD);
  volatile double one = 1, three = 3;
  const double third = one / three;
  while (!*stop) {
    vector sums[16];
    for (int i = 0; i < 16; ++i) sums[i] = (vector){i, i + 1, i + 2, i + 3};
    for (int round = 0; round < 20000; ++round) {
      for (int i = 0; i < 16; ++i) {
        sums[i] = sums[i] + 1.0;
        __asm__ volatile("" : "+x"(sums[i]));
      }
    }
    for (int i = 0; i < 16; ++i) {
      for (int j = 0; j < 4; ++j) expect(sums[i][j] == 20000.0 + i + j, "a vector has changed");
    }
    expect(one / three == third && fegetround() == FE_UPWARD, "the rounding mode has changed");
  }
}

// General registers, flags and the red zone below the stack, in a loop without a call.
static void in_registers(void) {
  while (!*stop) {
    uint64_t wrong = 0;
    __asm__ volatile(
        "movq $0x5a5a, -8(%%rsp)\n movq $0x6b6b, -128(%%rsp)\n"
        "movq $1, %%rax\n movq $2, %%rdx\n movq $3, %%rsi\n movq $4, %%rdi\n movq $5, %%r8\n movq $6, %%r9\n"
        "movq $7, %%r10\n movq $8, %%r11\n movq $9, %%r12\n movq $10, %%r13\n movq $11, %%r14\n movq $12, %%r15\n"
        "movq $300000, %%rcx\n"
        "1: decq %%rcx\n jnz 1b\n"
        "xorq $1, %%rax\n xorq $2, %%rdx\n xorq $3, %%rsi\n xorq $4, %%rdi\n xorq $5, %%r8\n xorq $6, %%r9\n"
        "xorq $7, %%r10\n xorq $8, %%r11\n xorq $9, %%r12\n xorq $10, %%r13\n xorq $11, %%r14\n xorq $12, %%r15\n"
        "orq %%rdx, %%rax\n orq %%rsi, %%rax\n orq %%rdi, %%rax\n orq %%r8, %%rax\n orq %%r9, %%rax\n"
        "orq %%r10, %%rax\n orq %%r11, %%rax\n orq %%r12, %%rax\n orq %%r13, %%rax\n orq %%r14, %%rax\n"
        "orq %%r15, %%rax\n"
        "movq -8(%%rsp), %%rdx\n xorq $0x5a5a, %%rdx\n orq %%rdx, %%rax\n"
        "movq -128(%%rsp), %%rdx\n xorq $0x6b6b, %%rdx\n orq %%rdx, %%rax\n"
        : "=a"(wrong)
        :
        : "rdx", "rsi", "rdi", "rcx", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "memory", "cc");
    expect(wrong == 0 && now_ns() != 0, "a register has changed");
  }
}

int main(int count, char **arguments) {
  if (count != 4) return 2;
  const char *mode = arguments[1];
  const int file = open(arguments[2], O_RDONLY);
  stop = mmap(NULL, 1, PROT_READ, MAP_SHARED, file, 0);
  if (stop == MAP_FAILED) return 2;
  ready();
  if (strcmp(mode, "read") == 0) in_read();
  if (strcmp(mode, "nanosleep") == 0) in_nanosleep();
  if (strcmp(mode, "poll") == 0) in_poll();
  if (strcmp(mode, "select") == 0) in_select();
  if (strcmp(mode, "epoll") == 0) in_epoll();
  if (strcmp(mode, "epoll_timeout") == 0) in_epoll_timeout();
  if (strcmp(mode, "futex") == 0) in_futex();
  if (strcmp(mode, "accept") == 0) in_accept();
  if (strcmp(mode, "wait") == 0) in_wait();
  if (strcmp(mode, "malloc") == 0) in_threads(allocates, NULL);
  if (strcmp(mode, "dlopen") == 0) in_threads(loads, arguments[3]);
  if (strcmp(mode, "threads") == 0) in_threads(makes_threads, NULL);
  if (strcmp(mode, "signals") == 0) in_signals(0);
  if (strcmp(mode, "signals_restart") == 0) in_signals(SA_RESTART);
  if (strcmp(mode, "jumps") == 0) in_jumps();
  if (strcmp(mode, "forks") == 0) in_forks();
  if (strcmp(mode, "vectors") == 0) in_vectors();
  if (strcmp(mode, "registers") == 0) in_registers();
  puts(failure == NULL ? "ok" : failure);
  return failure != NULL;
}
