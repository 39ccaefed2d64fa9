#include "base/process.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/text.h"

#define STAT_MAX 2048 /* /proc/self/stat: 52 numbers of at most 20 digits, and a name of 15 letters */

/* proc(5): the fields of /proc/self/stat after the name, which may contain spaces and brackets. */
enum { FIELD_THREADS = 20, FIELD_STARTED = 22, FIELD_VIRTUAL = 23, FIELD_RESIDENT = 24, FIELD_FIRST = 3 };

static struct result field_of(const char *fields, unsigned wanted, int64_t *value_out, struct error *err)
{
    uint64_t value = 0;

    for (unsigned i = FIELD_FIRST; i < wanted && fields != NULL; i++) {
        fields = strchr(fields, ' ');
        if (fields != NULL) fields++;
    }
    const size_t length = fields == NULL ? 0 : strcspn(fields, " \n");
    if (length == 0 || !text_to_u64((struct bytes){(const uint8_t *)fields, length}, INT64_MAX, &value))
        return failure(err, ERROR_UNAVAILABLE, "/proc/self/stat: field %u is no number", wanted);
    *value_out = (int64_t)value;
    return SUCCESS;
}

static struct result read_stat(struct process_use *use, struct error *err)
{
    char text[STAT_MAX + 1] = "";
    OWNED_FD fd = -1;
    size_t length = 0;
    const int64_t ticks = sysconf(_SC_CLK_TCK), page = sysconf(_SC_PAGESIZE);
    int64_t started = 0, resident = 0;

    TRY(file_open("/proc/self/stat", O_RDONLY, 0, &fd, err));
    TRY(file_read_some(fd, text, STAT_MAX, 0, &length, err)); /* stat(2) says that its size is 0 */
    const char *name_end = strrchr(text, ')');
    if (name_end == NULL || name_end[1] != ' ') return failure(err, ERROR_UNAVAILABLE, "/proc/self/stat has no name");
    TRY(field_of(name_end + 2, FIELD_THREADS, &use->threads, err));
    TRY(field_of(name_end + 2, FIELD_STARTED, &started, err));
    TRY(field_of(name_end + 2, FIELD_VIRTUAL, &use->virtual_bytes, err));
    TRY(field_of(name_end + 2, FIELD_RESIDENT, &resident, err));
    use->resident_bytes = resident * page;
    use->started_us = (clock_wall_ms() - clock_since_boot_ms() + started * 1000 / ticks) * 1000;
    return SUCCESS;
}

static struct result count_files(int64_t *count_out, struct error *err)
{
    OWNED_LISTING listing = opendir("/proc/self/fd");
    const char *name = NULL;
    int64_t count = -1; /* -1 for the listing's own descriptor */

    if (listing == NULL) return failure(err, ERROR_UNAVAILABLE, "/proc/self/fd can't be listed");
    do {
        TRY(file_list_next(listing, &name, err));
        if (name != NULL) count++;
    } while (name != NULL);
    *count_out = count;
    return SUCCESS;
}

static int64_t us_of(const struct timeval *time)
{
    return (int64_t)time->tv_sec * 1000000 + (int64_t)time->tv_usec;
}

struct result process_use_read(struct process_use *use_out, struct error *err)
{
    struct process_use use = {.open_files_max = INT64_MAX};
    struct rusage usage;
    struct rlimit limit;

    TRY(read_stat(&use, err));
    TRY(count_files(&use.open_files, err));
    if (getrusage(RUSAGE_SELF, &usage) != 0 || getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return failure(err, ERROR_UNAVAILABLE, "the kernel does not tell the resources of this process");
    use.cpu_us = us_of(&usage.ru_utime) + us_of(&usage.ru_stime);
    if (limit.rlim_cur != RLIM_INFINITY) use.open_files_max = (int64_t)limit.rlim_cur;
    *use_out = use;
    return SUCCESS;
}

void process_end_by(void (*handler)(int number))
{
    const struct sigaction action = {.sa_handler = handler};

    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
    (void)sigaction(SIGHUP, &action, NULL);
}
