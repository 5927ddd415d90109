/* Loaded before the C library: the wall clock is SWEYARD_CLOCK_AHEAD seconds ahead, as on a node that nobody set. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

static long ahead(void) {
    const char *seconds = getenv("SWEYARD_CLOCK_AHEAD");
    return seconds ? atol(seconds) : 0;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    static int (*truth)(clockid_t, struct timespec *);
    if (!truth) truth = dlsym(RTLD_NEXT, "clock_gettime");
    int failed = truth(clock, now);
    if (!failed && clock == CLOCK_REALTIME) now->tv_sec += ahead();
    return failed;
}

int gettimeofday(struct timeval *now, void *zone) {
    static int (*truth)(struct timeval *, void *);
    if (!truth) truth = dlsym(RTLD_NEXT, "gettimeofday");
    int failed = truth(now, zone);
    if (!failed) now->tv_sec += ahead();
    return failed;
}

time_t time(time_t *out) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out) *out = now.tv_sec;
    return now.tv_sec;
}
