// Limits what callgrind counts to a part of a program: counted_program.py calls these.
#include <valgrind/callgrind.h>

void begin_counting(void) { CALLGRIND_START_INSTRUMENTATION; }

void end_counting(void) { CALLGRIND_STOP_INSTRUMENTATION; }
