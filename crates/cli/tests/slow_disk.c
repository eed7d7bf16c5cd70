/* A disk that is stuck or slow for the files of one folder, for tests. Preloaded, it stands before the C library.
 *
 * While the file SLOW_DISK_TRIGGER exists, a sync of a file under SLOW_DISK_FOLDER takes SLOW_DISK_SYNC_MS, and a read
 * of one SLOW_DISK_READ_MS, but for the first SLOW_DISK_SKIP of both; no signal cuts it short. The file
 * SLOW_DISK_TRIGGER.met says that one was met. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void wait_if_slow(int fd, const char *how_long) {
    const char *trigger = getenv("SLOW_DISK_TRIGGER"), *folder = getenv("SLOW_DISK_FOLDER");
    const char *ms = getenv(how_long);
    if (!trigger || !folder || !ms || access(trigger, F_OK)) return;
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < (ssize_t)strlen(folder) || strncmp(path, folder, strlen(folder))) return;
    static int met;
    const char *skip = getenv("SLOW_DISK_SKIP");
    if (__atomic_fetch_add(&met, 1, __ATOMIC_RELAXED) < (skip ? atoi(skip) : 0)) return;
    snprintf(path, sizeof path, "%s.met", trigger);
    close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    for (long left = atol(ms); left > 0 && !access(trigger, F_OK); left -= 10) {
        struct timespec step = {0, 10 * 1000 * 1000};
        while (nanosleep(&step, &step) && errno == EINTR) {}
    }
}

int fsync(int fd) {
    static int (*real)(int);
    if (!real) real = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
    wait_if_slow(fd, "SLOW_DISK_SYNC_MS");
    return real(fd);
}

int fdatasync(int fd) {
    static int (*real)(int);
    if (!real) real = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
    wait_if_slow(fd, "SLOW_DISK_SYNC_MS");
    return real(fd);
}

ssize_t pread64(int fd, void *buffer, size_t length, off64_t offset) {
    static ssize_t (*real)(int, void *, size_t, off64_t);
    if (!real) real = (ssize_t (*)(int, void *, size_t, off64_t))dlsym(RTLD_NEXT, "pread64");
    wait_if_slow(fd, "SLOW_DISK_READ_MS");
    return real(fd, buffer, length, offset);
}
