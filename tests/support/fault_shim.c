/*
 * A library for LD_PRELOAD. It makes the clock of a running program step, and its disk slow or failing.
 *
 * SIJIL_FAULT_FILE names a file that is mapped when the program starts, so that it works below a system call filter.
 * tests/scenario/production.py writes into it. Only regular files and folders are slow, never the log on descriptors
 * 0 to 2. Results of io_submit(2) are delivered late, or as failures. No shipped program has this code.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define RECORD_SIZE 65536 /* of a blob; all other reads are shorter */

struct control {
    _Atomic int64_t clock_offset_ms;
    _Atomic int32_t sync_delay_ms, write_delay_ms, failure; /* an errno, or 0 */
    _Atomic int32_t read_delay_ms, read_failure;
    _Atomic int32_t spoiled_reads; /* the number of reads of at least a record that get a wrong byte; the disk stays correct */
    /* Counts of completed operations of io_submit(2), and of writes that the real disk failed or cut short. */
    _Atomic int32_t past_writes, past_syncs, past_reads, past_failed;
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

/* dlsym() returns an object pointer, and ISO C can't cast it to a function pointer. */
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
static int disk_fails(int fd, int32_t delay_ms, int32_t failure)
{
    struct stat status;

    if (fd <= STDERR_FILENO || (delay_ms == 0 && failure == 0)) return 0;
    /* A system call filter may refuse fstat(2). A program with a filter writes only to its files, so the call is delayed then. */
    if (fstat(fd, &status) == 0 && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode)) return 0;
    rest(delay_ms);
    if (failure == 0) return 0;
    errno = failure;
    return 1;
}

static int sync_fails(int fd)
{
    return disk_fails(fd, control->sync_delay_ms, control->failure);
}

static int write_fails(int fd)
{
    return disk_fails(fd, control->write_delay_ms, control->failure);
}

static int read_fails(int fd)
{
    return disk_fails(fd, control->read_delay_ms, control->read_failure);
}

/* A read that must not wait finds nothing if the disk is slow or fails. */
static int read_at_once_fails(int fd, int flags)
{
    if ((flags & RWF_NOWAIT) != 0 && control->spoiled_reads > 0) {
        errno = EAGAIN; /* the next read, which may wait, gets the wrong byte */
        return 1;
    }
    if ((flags & RWF_NOWAIT) == 0 || (control->read_delay_ms == 0 && control->read_failure == 0)) return read_fails(fd);
    errno = EAGAIN;
    return 1;
}

#define SHOWN __attribute__((visibility("default")))
#define FAILS(result, name, parameters, arguments, condition) \
    SHOWN result name parameters                              \
    {                                                         \
        return (condition) ? -1 : NEXT(name) arguments;       \
    }

FAILS(int, fsync, (int fd), (fd), sync_fails(fd))
FAILS(int, fdatasync, (int fd), (fd), sync_fails(fd))
FAILS(ssize_t, write, (int fd, const void *from, size_t size), (fd, from, size), write_fails(fd))
FAILS(ssize_t, pwrite, (int fd, const void *from, size_t size, off_t at), (fd, from, size, at), write_fails(fd))
FAILS(ssize_t, pwrite64, (int fd, const void *from, size_t size, off64_t at), (fd, from, size, at), write_fails(fd))
FAILS(ssize_t, writev, (int fd, const struct iovec *parts, int count), (fd, parts, count), write_fails(fd))
FAILS(ssize_t, pwritev, (int fd, const struct iovec *parts, int count, off_t at), (fd, parts, count, at), write_fails(fd))
FAILS(int, fallocate, (int fd, int mode, off_t at, off_t size), (fd, mode, at, size), write_fails(fd))
FAILS(int, fallocate64, (int fd, int mode, off64_t at, off64_t size), (fd, mode, at, size), write_fails(fd))

static ssize_t spoil(uint8_t *bytes, ssize_t length)
{
    if (length >= RECORD_SIZE && control->spoiled_reads > 0 && atomic_fetch_sub(&control->spoiled_reads, 1) > 0)
        bytes[length / 2] ^= 1;
    return length;
}

SHOWN ssize_t pread(int fd, void *into, size_t size, off_t at)
{
    return read_fails(fd) ? -1 : spoil(into, NEXT(pread)(fd, into, size, at));
}

SHOWN ssize_t pread64(int fd, void *into, size_t size, off64_t at)
{
    return read_fails(fd) ? -1 : spoil(into, NEXT(pread64)(fd, into, size, at));
}

FAILS(ssize_t, preadv, (int fd, const struct iovec *parts, int count, off_t at), (fd, parts, count, at), read_fails(fd))
FAILS(ssize_t, preadv2, (int fd, const struct iovec *parts, int count, off_t at, int flags), (fd, parts, count, at, flags),
      read_at_once_fails(fd, flags))

/* --- past the page cache --- */

static int32_t retell(struct io_event *event, _Atomic int32_t *counted, int32_t delay_ms, int32_t failure)
{
    atomic_fetch_add(counted, 1);
    if (failure != 0) event->res = -failure;
    return delay_ms;
}

/* Changes the event as the plan says. Returns by how much it is late. */
static int32_t change_event(struct io_event *event)
{
    const struct iocb *call = (const struct iocb *)(uintptr_t)event->obj; /* the caller keeps it until it gets the event */

    if (call->aio_lio_opcode == IOCB_CMD_PREAD)
        return retell(event, &control->past_reads, control->read_delay_ms, control->read_failure);
    if (call->aio_lio_opcode != IOCB_CMD_PWRITE)
        return retell(event, &control->past_syncs, control->sync_delay_ms, control->failure);
    if (event->res < (int64_t)call->aio_nbytes) atomic_fetch_add(&control->past_failed, 1);
    return retell(event, &control->past_writes, control->write_delay_ms, control->failure);
}

/* base/file_queue.c calls syscall(2), because the C library has no functions for the kernel's asynchronous I/O. */
SHOWN long syscall(long number, ...)
{
    long words[6]; /* no call has more; the kernel ignores those that the call does not have */
    va_list arguments;

    va_start(arguments, number);
    for (size_t i = 0; i < 6; i++) words[i] = va_arg(arguments, long);
    va_end(arguments);
    const long outcome = NEXT(syscall)(number, words[0], words[1], words[2], words[3], words[4], words[5]);
    if (number != SYS_io_getevents && number != SYS_io_pgetevents) return outcome;
    struct io_event *events = (void *)words[3];
    for (long i = 0; i < outcome; i++) rest(change_event(&events[i]));
    return outcome;
}

/* --- clocks --- */

static void add_ns(struct timespec *time, int64_t ns)
{
    const int64_t sum = time->tv_nsec + ns % 1000000000;

    time->tv_sec += ns / 1000000000 + (sum < 0 ? -1 : sum >= 1000000000 ? 1 : 0);
    time->tv_nsec = (sum + 1000000000) % 1000000000;
}

SHOWN int clock_gettime(clockid_t clock, struct timespec *now)
{
    static __typeof__(&clock_gettime) next; /* called so often that looking it up each time would cost measurable time */

    if (next == NULL) next = NEXT(clock_gettime);
    const int outcome = next(clock, now);
    if (outcome == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        add_ns(now, control->clock_offset_ms * 1000000);
    return outcome;
}

SHOWN int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    struct timespec time;

    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &time) != 0) return -1;
    *now = (struct timeval){.tv_sec = time.tv_sec, .tv_usec = time.tv_nsec / 1000};
    return 0;
}

SHOWN time_t time(time_t *place)
{
    struct timespec now = {0};

    (void)clock_gettime(CLOCK_REALTIME, &now);
    if (place != NULL) *place = now.tv_sec;
    return now.tv_sec;
}
