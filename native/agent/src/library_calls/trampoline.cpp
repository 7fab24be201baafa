#include "library_calls/trampoline.h"

// Called from the code below.
extern "C" {
// Returns the function to call, and fills in `call`.
void* warpline_call_begins(std::uint32_t number, const std::uint64_t* registers,
                           const std::uint64_t* stack,
                           warpline::agent::CallInProgress* call) noexcept;
void warpline_call_ends(const warpline::agent::CallInProgress* call, std::uint64_t result) noexcept;
// Returns what dlsym is to return, null: that of dlsym itself, which is then called.
void* warpline_dlsym_begins(void* handle, const char* name) noexcept;
extern void* warpline_dlsym;
}

#if defined(__x86_64__)

// A stub has 16 bytes and puts its number into r11, which no call takes anything in. The frames below keep
// rbp, so that exceptions, debuggers and samplers walk through them at every instruction.
//
// The frame of a call, from rbp down: 240 bytes of saved registers (6 of integers, rax, which has the number
// of vector registers in calls with variable arguments, r10, 8 of vectors) and, at -48, CallInProgress.
// Below it are the arguments on the stack: 320 bytes, which are 40 arguments. That much is read of the
// caller's frames whatever the function takes; there is always more above.
asm(R"(
  .pushsection .text.warpline_stubs, "ax", @progbits
  .p2align 4
  .hidden warpline_stubs
  .globl warpline_stubs
  .type warpline_stubs, @function
warpline_stubs:
  .cfi_startproc
  .set warpline_number, 0
  .rept 8192
  .p2align 4
  endbr64
  .byte 0x41, 0xbb
  .long warpline_number
  .byte 0xe9
  .long warpline_library_call - . - 4
  .set warpline_number, warpline_number + 1
  .endr
  .cfi_endproc
  .size warpline_stubs, . - warpline_stubs

  .p2align 4
  .type warpline_library_call, @function
warpline_library_call:
  .cfi_startproc
  pushq %rbp
  .cfi_def_cfa_offset 16
  .cfi_offset %rbp, -16
  movq %rsp, %rbp
  .cfi_def_cfa_register %rbp
  subq $240, %rsp
  movq %rdi, (%rsp)
  movq %rsi, 8(%rsp)
  movq %rdx, 16(%rsp)
  movq %rcx, 24(%rsp)
  movq %r8, 32(%rsp)
  movq %r9, 40(%rsp)
  movq %rax, 48(%rsp)
  movq %r10, 56(%rsp)
  movaps %xmm0, 64(%rsp)
  movaps %xmm1, 80(%rsp)
  movaps %xmm2, 96(%rsp)
  movaps %xmm3, 112(%rsp)
  movaps %xmm4, 128(%rsp)
  movaps %xmm5, 144(%rsp)
  movaps %xmm6, 160(%rsp)
  movaps %xmm7, 176(%rsp)
  movl %r11d, %edi
  movq %rsp, %rsi
  leaq 16(%rbp), %rdx
  leaq -48(%rbp), %rcx
  call warpline_call_begins
  movq %rax, %r11
  movq (%rsp), %rdi
  movq 8(%rsp), %rsi
  movq 16(%rsp), %rdx
  movq 24(%rsp), %rcx
  movq 32(%rsp), %r8
  movq 40(%rsp), %r9
  movq 48(%rsp), %rax
  movq 56(%rsp), %r10
  movaps 64(%rsp), %xmm0
  movaps 80(%rsp), %xmm1
  movaps 96(%rsp), %xmm2
  movaps 112(%rsp), %xmm3
  movaps 128(%rsp), %xmm4
  movaps 144(%rsp), %xmm5
  movaps 160(%rsp), %xmm6
  movaps 176(%rsp), %xmm7
  cmpq $0, -48(%rbp)
  jne 1f
  .cfi_remember_state
  leave
  .cfi_def_cfa %rsp, 8
  .cfi_same_value %rbp
  jmp *%r11
  .cfi_restore_state
1:
  subq $320, %rsp
  .set warpline_place, 0
  .rept 20
  movups 16 + warpline_place(%rbp), %xmm8
  movaps %xmm8, warpline_place(%rsp)
  .set warpline_place, warpline_place + 16
  .endr
  call *%r11
  movq %rax, -240(%rbp)
  movq %rdx, -232(%rbp)
  movaps %xmm0, -176(%rbp)
  movaps %xmm1, -160(%rbp)
  leaq -48(%rbp), %rdi
  movq %rax, %rsi
  call warpline_call_ends
  movq -240(%rbp), %rax
  movq -232(%rbp), %rdx
  movaps -176(%rbp), %xmm0
  movaps -160(%rbp), %xmm1
  leave
  .cfi_def_cfa %rsp, 8
  .cfi_same_value %rbp
  ret
  .cfi_endproc
  .size warpline_library_call, . - warpline_library_call

  .p2align 4
  .hidden warpline_dlsym_stub
  .globl warpline_dlsym_stub
  .type warpline_dlsym_stub, @function
warpline_dlsym_stub:
  .cfi_startproc
  endbr64
  pushq %rbp
  .cfi_def_cfa_offset 16
  .cfi_offset %rbp, -16
  movq %rsp, %rbp
  .cfi_def_cfa_register %rbp
  subq $16, %rsp
  movq %rdi, (%rsp)
  movq %rsi, 8(%rsp)
  call warpline_dlsym_begins
  movq (%rsp), %rdi
  movq 8(%rsp), %rsi
  leave
  .cfi_def_cfa %rsp, 8
  .cfi_same_value %rbp
  testq %rax, %rax
  jne 1f
  jmp *warpline_dlsym(%rip)
1:
  ret
  .cfi_endproc
  .size warpline_dlsym_stub, . - warpline_dlsym_stub
  .popsection
)");

extern "C" {
extern char warpline_stubs[];
extern char warpline_dlsym_stub[];
}

namespace warpline::agent {

static_assert(kStubs == 8192 && sizeof(CallInProgress) <= 48);

void* stub(std::size_t number) noexcept { return warpline_stubs + number * 16; }
void* dlsym_stub() noexcept { return warpline_dlsym_stub; }

}  // namespace warpline::agent

#else

namespace warpline::agent {

void* stub(std::size_t) noexcept { return nullptr; }
void* dlsym_stub() noexcept { return nullptr; }

}  // namespace warpline::agent

#endif
