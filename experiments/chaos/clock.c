// A wall clock that is wrong: preloaded into a process, it adds to the time of day what stands in a file, in whole
// seconds as one native long. Clocks that only measure how long something takes stay right, as on a real machine whose
// time is set; libfaketime 0.9.10 breaks time.sleep() of Python 3.11 where asked for the same.
//
// cc -shared -fPIC -O2 -o clock.so clock.c -ldl; LD_PRELOAD=./clock.so PACELINE_CHAOS_CLOCK=FILE program
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile long *ahead_s;
static int (*real_clock_gettime)(clockid_t, struct timespec *);

__attribute__((constructor)) static void prepare(void) {
  real_clock_gettime = dlsym(RTLD_NEXT, "clock_gettime");
  const char *path = getenv("PACELINE_CHAOS_CLOCK");
  int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  if (file < 0) return;
  void *page = mmap(NULL, sizeof(long), PROT_READ, MAP_SHARED, file, 0);
  close(file);
  if (page != MAP_FAILED) ahead_s = page;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
  if (!real_clock_gettime) prepare();
  int failed = real_clock_gettime(clock, now);
  if (!failed && ahead_s && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += *ahead_s;
  return failed;
}

int gettimeofday(struct timeval *now, void *zone) {
  struct timespec exact;
  if (clock_gettime(CLOCK_REALTIME, &exact)) return -1;
  now->tv_sec = exact.tv_sec;
  now->tv_usec = exact.tv_nsec / 1000;
  return 0;
}

time_t time(time_t *out) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (out) *out = now.tv_sec;
  return now.tv_sec;
}
