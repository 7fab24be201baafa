/* A lock of the program and the loader's, taken in one order everywhere: one thread makes a call that takes long
   while it holds the program's, another waits for that with the loader's in its hands. Prints what happened. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static pthread_mutex_t g_lock = PTHREAD_MUTEX_INITIALIZER;
static sem_t g_has_loader;

static void wait_for_lock(void) {
  sem_post(&g_has_loader);
  pthread_mutex_lock(&g_lock);
  pthread_mutex_unlock(&g_lock);
}

/* The library that this program opens calls it while it is loaded. */
void in_constructor(void) { wait_for_lock(); }

static int look(struct dl_phdr_info* module, size_t bytes, void* unused) {
  (void)module;
  (void)bytes;
  (void)unused;
  wait_for_lock();
  return 1;
}

static void* iterate(void* unused) {
  (void)unused;
  dl_iterate_phdr(look, NULL);
  return NULL;
}

static void* open_library(void* path) {
  return dlopen(path, RTLD_NOW) == NULL ? path : NULL;
}

__attribute__((noinline)) static void nap_with_lock(void) {
  usleep(3000);
  puts("slept");
}

int main(int count, char** words) {
  if (count < 2) return 1;
  alarm(50); /* it would wait forever */
  sem_init(&g_has_loader, 0, 0);
  pthread_mutex_lock(&g_lock);
  pthread_t other;
  void* failed = NULL;
  pthread_create(&other, NULL, strcmp(words[1], "iterate") == 0 ? iterate : open_library, words[1]);
  while (sem_wait(&g_has_loader) != 0) continue;
  nap_with_lock();
  pthread_mutex_unlock(&g_lock);
  pthread_join(other, &failed);
  puts(failed == NULL ? "joined" : "not opened");
  return 7;
}
