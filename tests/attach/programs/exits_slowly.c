/* Says when its ranges are recorded, and ends when told; then a handler of exit() that was registered before all others, so runs last, waits to be told, too. */
#include <nvtx3/nvToolsExt.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void wait_for_byte(void) {
  char byte;
  if (read(0, &byte, 1) != 1) _exit(3);
}

static void say(const char* text) {
  printf("%s\n", text);
  fflush(stdout);
}

static void end_slowly(void) {
  say("exits");
  wait_for_byte();
}

int main(void) {
  atexit(end_slowly);
  nvtxRangePushA("early");
  nvtxRangePop();
  say("runs");
  while (nvtxRangePushA("work") < 0) usleep(1000);
  nvtxRangePop();
  say("recorded");
  wait_for_byte();
  return 0;
}
