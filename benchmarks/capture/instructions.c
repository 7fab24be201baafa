// Counts what the first thread of a program executes in user mode, between signals SIGTRAP that it
// sends to itself: step by step, so that it counts where a machine lets nobody count in hardware.
//
//   cc -O2 -o instructions instructions.c
//   instructions FILE PROGRAM...
//
// Every second signal ends a count, which is written to FILE as a line.

#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const pid_t program = fork();
  if (program < 0) return 1;
  if (program == 0) {
    ptrace(PTRACE_TRACEME, 0, NULL, NULL);
    execvp(argv[2], argv + 2);
    _exit(127);
  }
  FILE* counts = fopen(argv[1], "w");
  if (counts == NULL) return 1;
  int status = 0;
  int is_counting = 0;
  long deliver = 0;
  unsigned long long count = 0;
  while (waitpid(program, &status, 0) == program || errno == EINTR) {
    if (!WIFSTOPPED(status)) break;
    deliver = WSTOPSIG(status);
    if (deliver == SIGTRAP) {
      siginfo_t why;
      deliver = 0;
      if (ptrace(PTRACE_GETSIGINFO, program, NULL, &why) != 0) break;
      if (why.si_code == SI_TKILL) {
        if (is_counting) {
          fprintf(counts, "%llu\n", count);
          fflush(counts);
        }
        is_counting = !is_counting;
        count = 0;
      } else if (why.si_code > 0) {  // a step; execve has 0
        ++count;
      }
    }
    ptrace(is_counting ? PTRACE_SINGLESTEP : PTRACE_CONT, program, NULL, (void*)deliver);
  }
  fclose(counts);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
