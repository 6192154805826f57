// To be preloaded into a program: once the file that AHEAD names exists, 40 seconds more have passed.

#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *time) {
    long status = syscall(SYS_clock_gettime, clock, time);
    const char *file = getenv("AHEAD");
    if (clock == CLOCK_MONOTONIC && file && !access(file, F_OK)) time->tv_sec += 40;
    return (int)status;
}
