#include "injected_code.h"

#if defined(__x86_64__)

#include <cpuid.h>

namespace warpline::attach {

// The first part runs in the thread that was stopped. It makes another thread, which does the rest, and
// then waits to be stopped again and set to where it was: only a tracer can have the kernel continue a
// system call. If none comes in ten seconds, because the tracer was killed, it goes back there by itself.
//
// The second part is the other thread. At its end it removes all this, in a jump to munmap, which returns
// to what started the thread.
asm(R"(
  .pushsection .rodata.wl_attach, "a", @progbits
  .balign 64
wl_attach_code:
  .set wl_data, wl_attach_code + 4096
  .set wl_vectors, 12288
  cld
  leaq wl_data(%rip), %rbx
  movl $-1, %eax
  movl $-1, %edx
  xsave64 wl_vectors(%rbx)
  call *0(%rbx)                 # __errno_location: making a thread may change errno
  movq %rax, %r12
  movl (%r12), %r13d
  leaq 232(%rbx), %rdi
  xorl %esi, %esi
  leaq wl_attach_thread(%rip), %rdx
  movq %rbx, %rcx
  call *8(%rbx)                 # pthread_create
  movl %eax, 240(%rbx)
  movl %r13d, (%r12)
  movl $-1, %eax
  movl $-1, %edx
  xrstor64 wl_vectors(%rbx)
  movl $1, 244(%rbx)
  movl $20000, %ebp             # for the tracer; the first millisecond without giving up the processor
0:
  pause
  subl $1, %ebp
  jnz 0b
  xorl %ebp, %ebp               # until when it waits for the tracer, in seconds
1:
  pause
  movl $24, %eax                # sched_yield
  syscall
  movl $228, %eax               # clock_gettime
  movl $1, %edi                 # CLOCK_MONOTONIC
  leaq 9496(%rbx), %rsi
  syscall
  movq 9496(%rbx), %rax
  testq %rbp, %rbp
  jnz 2f
  leaq 10(%rax), %rbp
2:
  cmpq %rbp, %rax
  jl 1b
  movl $14, %eax                # rt_sigprocmask
  movl $2, %edi                 # SIG_SETMASK
  leaq 224(%rbx), %rsi
  xorl %edx, %edx
  movl $8, %r10d
  syscall
  pushq 200(%rbx)               # flags, while the stack is ours: a signal may come
  popfq
  movq 80(%rbx), %r15
  movq 88(%rbx), %r14
  movq 96(%rbx), %r13
  movq 104(%rbx), %r12
  movq 112(%rbx), %rbp
  movq 128(%rbx), %r11
  movq 136(%rbx), %r10
  movq 144(%rbx), %r9
  movq 152(%rbx), %r8
  movq 160(%rbx), %rax
  movq 168(%rbx), %rcx
  movq 176(%rbx), %rdx
  movq 184(%rbx), %rsi
  movq 192(%rbx), %rdi
  movq 120(%rbx), %rbx
  movq wl_data + 208(%rip), %rsp
  jmpq *wl_data + 216(%rip)

wl_attach_thread:
  pushq %rbx
  pushq %r12
  subq $8, %rsp
  movq %rdi, %rbx
  call *16(%rbx)                # pthread_self
  movq %rax, %rdi
  call *24(%rbx)                # pthread_detach
  leaq 1304(%rbx), %rdi
  movl $2, %esi                 # RTLD_NOW
  call *32(%rbx)                # dlopen
  movl $2, %r12d
  testq %rax, %rax
  jz 3f
  movq %rax, %rdi
  leaq 792(%rbx), %rsi
  call *40(%rbx)                # dlsym
  movl $3, %r12d
  testq %rax, %rax
  jz 3f
  leaq 5400(%rbx), %rdi
  call *%rax
  movl %eax, 252(%rbx)
  movl $1, %r12d
  jmp 5f
3:
  call *48(%rbx)                # dlerror
  testq %rax, %rax
  jz 5f
  xorl %ecx, %ecx
4:
  movb (%rax,%rcx), %dl
  movb %dl, 280(%rbx,%rcx)
  testb %dl, %dl
  jz 5f
  addl $1, %ecx
  cmpl $511, %ecx
  jb 4b
5:
  movl %r12d, 248(%rbx)
  movl $1, 256(%rbx)
  movl $10000, %r12d
6:
  cmpl $0, 260(%rbx)
  jne 7f
  leaq 264(%rbx), %rdi
  xorl %esi, %esi
  movl $35, %eax                # nanosleep
  syscall
  subl $1, %r12d
  jnz 6b
  xorl %eax, %eax               # nobody has read it: it stays
  addq $8, %rsp
  popq %r12
  popq %rbx
  ret
7:
  movq 64(%rbx), %rdi
  movq 72(%rbx), %rsi
  movq 56(%rbx), %rax
  addq $8, %rsp
  popq %r12
  popq %rbx
  jmpq *%rax                    # munmap
wl_attach_code_end:
  .popsection
)");

extern "C" {
extern const char wl_attach_code[] __attribute__((visibility("hidden")));
extern const char wl_attach_code_end[] __attribute__((visibility("hidden")));
}

static_assert(offsetof(InjectedData, errno_location) == 0 && offsetof(InjectedData, pthread_create) == 8 &&
              offsetof(InjectedData, pthread_self) == 16 && offsetof(InjectedData, pthread_detach) == 24 &&
              offsetof(InjectedData, dlopen) == 32 && offsetof(InjectedData, dlsym) == 40 &&
              offsetof(InjectedData, dlerror) == 48 && offsetof(InjectedData, munmap) == 56 &&
              offsetof(InjectedData, begin) == 64 && offsetof(InjectedData, bytes) == 72);
static_assert(offsetof(InjectedData, saved) == 80 && offsetof(InjectedData, saved.rbx) == 120 &&
              offsetof(InjectedData, saved.rsp) == 208 && offsetof(InjectedData, saved.rip) == 216 &&
              offsetof(InjectedData, signal_mask) == 224 && offsetof(InjectedData, thread) == 232);
static_assert(offsetof(InjectedData, create_error) == 240 && offsetof(InjectedData, is_created) == 244 &&
              offsetof(InjectedData, outcome) == 248 && offsetof(InjectedData, result) == 252 &&
              offsetof(InjectedData, is_done) == 256 && offsetof(InjectedData, is_released) == 260 &&
              offsetof(InjectedData, wait_s) == 264);
static_assert(offsetof(InjectedData, text) == 280 && offsetof(InjectedData, function) == 792 &&
              offsetof(InjectedData, library) == 1304 && offsetof(InjectedData, argument) == 5400 &&
              offsetof(InjectedData, now_s) == 9496);
static_assert(InjectedLayout::kVectors - InjectedLayout::kData == 12288);

const void* injected_code() noexcept { return wl_attach_code; }
std::size_t injected_code_bytes() noexcept {
  return static_cast<std::size_t>(wl_attach_code_end - wl_attach_code);
}

bool can_save_vectors() noexcept {
  constexpr unsigned int kSystemUsesXsave = 1u << 27;
  unsigned int a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & kSystemUsesXsave) == 0) return false;
  return __get_cpuid_count(13, 0, &a, &b, &c, &d) != 0 && b <= InjectedLayout::kVectorBytes;
}

}  // namespace warpline::attach

#else

namespace warpline::attach {

const void* injected_code() noexcept { return nullptr; }
std::size_t injected_code_bytes() noexcept { return 0; }
bool can_save_vectors() noexcept { return false; }

}  // namespace warpline::attach

#endif
