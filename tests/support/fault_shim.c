/*
 * A library for LD_PRELOAD that gives a program a clock that steps and a disk that is slow or fails, while it runs.
 *
 * SIJIL_FAULT_FILE names a file that is mapped when the program starts, so that it works below a system call filter.
 * tests/scenario/production.py writes into it. Only regular files are slow, and never the log on descriptors 0 to 2.
 * Nothing of this is in a program as shipped.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

struct control {
    _Atomic int64_t clock_offset_ms;
    _Atomic int32_t sync_delay_ms, write_delay_ms, failure; /* an errno, or 0 */
};

static struct control calm;
static struct control *control = &calm;

__attribute__((constructor)) static void map_control(void)
{
    const char *path = getenv("SIJIL_FAULT_FILE");
    const int fd = path == NULL ? -1 : open(path, O_RDWR | O_CLOEXEC);

    if (fd < 0) return;
    void *mapped = mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (mapped != MAP_FAILED) control = mapped;
    (void)close(fd);
}

/* dlsym() gives an object's address for a function: ISO C has no cast for that. */
static void *next_of(const char *name)
{
    return dlsym(RTLD_NEXT, name);
}
#define NEXT(name) (*(__typeof__(&name) *)&(void *){next_of(#name)})

static void rest(int32_t delay_ms)
{
    const struct timespec time = {.tv_sec = delay_ms / 1000, .tv_nsec = delay_ms % 1000 * 1000000L};

    if (delay_ms > 0) (void)nanosleep(&time, NULL);
}

/* True: the call fails, and errno says how. */
static int disk_fails(int fd, int32_t delay_ms)
{
    struct stat status;

    if (fd <= STDERR_FILENO || (delay_ms == 0 && control->failure == 0)) return 0;
    /* A system call filter may refuse the question; who has one writes to nothing but its files. */
    if (fstat(fd, &status) == 0 && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode)) return 0;
    rest(delay_ms);
    if (control->failure == 0) return 0;
    errno = control->failure;
    return 1;
}

__attribute__((visibility("default"))) int fsync(int fd)
{
    return disk_fails(fd, control->sync_delay_ms) ? -1 : NEXT(fsync)(fd);
}

__attribute__((visibility("default"))) int fdatasync(int fd)
{
    return disk_fails(fd, control->sync_delay_ms) ? -1 : NEXT(fdatasync)(fd);
}

__attribute__((visibility("default"))) ssize_t write(int fd, const void *from, size_t length)
{
    return disk_fails(fd, control->write_delay_ms) ? -1 : NEXT(write)(fd, from, length);
}

__attribute__((visibility("default"))) ssize_t pwrite(int fd, const void *from, size_t length, off_t offset)
{
    return disk_fails(fd, control->write_delay_ms) ? -1 : NEXT(pwrite)(fd, from, length, offset);
}

__attribute__((visibility("default"))) ssize_t pwrite64(int fd, const void *from, size_t length, off64_t offset)
{
    return disk_fails(fd, control->write_delay_ms) ? -1 : NEXT(pwrite64)(fd, from, length, offset);
}

__attribute__((visibility("default"))) ssize_t writev(int fd, const struct iovec *parts, int count)
{
    return disk_fails(fd, control->write_delay_ms) ? -1 : NEXT(writev)(fd, parts, count);
}

__attribute__((visibility("default"))) ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t offset)
{
    return disk_fails(fd, control->write_delay_ms) ? -1 : NEXT(pwritev)(fd, parts, count, offset);
}

static void step_clock(struct timespec *now)
{
    const int64_t offset_ms = control->clock_offset_ms;
    const int64_t ns = now->tv_nsec + offset_ms % 1000 * 1000000;

    now->tv_sec += offset_ms / 1000 + (ns < 0 ? -1 : ns >= 1000000000 ? 1 : 0);
    now->tv_nsec = (ns + 1000000000) % 1000000000;
}

__attribute__((visibility("default"))) int clock_gettime(clockid_t clock, struct timespec *now)
{
    static __typeof__(&clock_gettime) next; /* asked so often that looking it up would show */

    if (next == NULL) next = NEXT(clock_gettime);
    const int outcome = next(clock, now);
    if (outcome == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) step_clock(now);
    return outcome;
}

__attribute__((visibility("default"))) int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    struct timespec time;

    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &time) != 0) return -1;
    *now = (struct timeval){.tv_sec = time.tv_sec, .tv_usec = time.tv_nsec / 1000};
    return 0;
}

__attribute__((visibility("default"))) time_t time(time_t *place)
{
    struct timespec now = {0};

    (void)clock_gettime(CLOCK_REALTIME, &now);
    if (place != NULL) *place = now.tv_sec;
    return now.tv_sec;
}
