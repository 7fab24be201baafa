// Does what it is told, a line at a time, and answers each with a number:
//   load N PATH          loads a library
//   close N              unloads it
//   call N FUNCTION TEXT calls int FUNCTION(const char *) of it
//   fork N FUNCTION TEXT the same in a fork
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void *libraries[16];

typedef int (*Function)(const char *);

static int in_fork(Function function, const char *text) {
  const pid_t child = fork();
  if (child == 0) _exit(function(text));
  int status = -1;
  waitpid(child, &status, 0);
  return status;
}

int main(void) {
  char what[16], name[64], text[4096];
  unsigned number;
  puts("ready");
  fflush(stdout);
  while (scanf("%15s %u", what, &number) == 2) {
    void **library = &libraries[number % 16];
    int answer = 0;
    if (strcmp(what, "load") == 0) {
      if (scanf("%4095s", text) != 1) return 1;
      *library = dlopen(text, RTLD_NOW | RTLD_LOCAL);
      if (*library == NULL) fprintf(stderr, "%s\n", dlerror());
      answer = *library == NULL;
    } else if (strcmp(what, "close") == 0) {
      answer = dlclose(*library);
    } else {
      if (scanf("%63s %4095s", name, text) != 2) return 1;
      Function function;
      void *found = dlsym(*library, name);
      if (found == NULL) return 2;
      memcpy(&function, &found, sizeof function);
      answer = strcmp(what, "fork") == 0 ? in_fork(function, text) : function(text);
    }
    printf("%d\n", answer);
    fflush(stdout);
  }
  puts("ok");
  return 0;
}
