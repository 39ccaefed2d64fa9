/* Files, arenas, thread pools and metrics. */
#include "tests/unit/file_fixture.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/metrics.h"
#include "base/priority.h"
#include "base/process.h"
#include "base/work.h"

/* After the failure of any call the file has the old content or the new one, never a mixture. */
static void replacing_is_all_or_nothing(void **state)
{
    unsigned long nth = 1;
    char temporary[80];

    (void)state;
    (void)snprintf(temporary, sizeof temporary, "%s/.file.new", folder);
    for (bool has_fired = true; has_fired; nth++) {
        struct buffer OWNED_BUFFER content = BUFFER(100);
        struct error err = {0};

        write_file("old");
        fault_arm(nth);
        const bool ok = file_replace(path, bytes_of_text("the new content"), 0600, &err).ok;
        has_fired = fault_has_fired();
        fault_arm(0);
        assert_true(file_read(path, &content, &err).ok);
        assert_int_equal(ok, !has_fired);
        if (ok || strcmp(buffer_text(&content), "old") != 0) assert_string_equal(buffer_text(&content), "the new content");
        assert_int_equal(access(temporary, F_OK), -1); /* a failed write leaves nothing, also on a full disk */
    }
    assert_failures(nth - 2, 6);
}

/* Each only reads, and distinguishes a failed check from a missing file. */
static struct result look_around(void *context, struct error *err)
{
    struct stat status;
    OWNED_FD fd = -1;
    bool is_there = false;
    const char *name = NULL;

    TRY_UNTOUCHED_BYTES(is_there, file_is_there(path, &is_there, err));
    assert_true(is_there);
    TRY(file_open(folder, O_RDONLY | O_DIRECTORY, 0, &fd, err));
    TRY_UNTOUCHED_BYTES(status, file_status(fd, &status, err));
    TRY_UNTOUCHED_BYTES(status, file_status_at(fd, "file", &status, err));
    assert_int_equal(status.st_size, 3);
    rewinddir(context);
    TRY_UNTOUCHED_BYTES(name, file_list_next(context, &name, err));
    assert_string_equal(name, "file");
    TRY(file_list_next(context, &name, err));
    assert_null(name);
    return SUCCESS;
}

static void what_cant_be_looked_at_is_no_absence(void **state)
{
    static char long_name[PATH_MAX + 2];
    struct error err = {0};
    bool is_there = true;

    (void)state;
    write_file("old");
    DIR *listing = opendir(folder);
    assert_non_null(listing);
    fail_each(look_around, listing, ERROR_UNAVAILABLE, 8);
    assert_int_equal(closedir(listing), 0);
    assert_true(file_is_there("/nowhere/at/all", &is_there, &err).ok);
    assert_false(is_there);
    memset(long_name, 'a', sizeof long_name - 1);
    assert_false(file_is_there(long_name, &is_there, &err).ok);
}

/* The file has the old name or the new one; after a success it has the new one. */
static void renaming_is_all_or_nothing(void **state)
{
    char moved[80];
    unsigned long nth = 1;

    (void)state;
    (void)snprintf(moved, sizeof moved, "%s/moved", folder);
    for (bool has_fired = true; has_fired; nth++) {
        struct error err = {0};
        bool is_old = false, is_new = false;

        write_file("old");
        fault_arm(nth);
        const bool ok = file_rename(path, moved, &err).ok;
        has_fired = fault_has_fired();
        fault_arm(0);
        assert_int_equal(ok, !has_fired);
        assert_true(file_is_there(path, &is_old, &err).ok && file_is_there(moved, &is_new, &err).ok);
        assert_true(is_old != is_new && (is_new || !ok));
        (void)unlink(moved);
    }
    assert_failures(nth - 2, 3);
}

static void reading_is_bounded(void **state)
{
    struct buffer OWNED_BUFFER content = BUFFER(4);
    struct error err = {0};

    (void)state;
    write_file("12345");
    assert_false(file_read(path, &content, &err).ok);
    assert_int_equal(err.kind, ERROR_LIMIT);
    assert_false(file_read("/nowhere/at/all", &content, &err).ok);
    assert_int_equal(err.kind, ERROR_NOT_FOUND);
    assert_false(file_read(folder, &content, &err).ok); /* its size is no reason */
    assert_int_equal(err.kind, ERROR_INVALID);
    assert_non_null(strstr(err.message, "is a folder"));
}

static void arenas_stop_at_their_maximum(void **state)
{
    OWNED(arena) *arena = NULL;
    struct error err = {0};

    (void)state;
    assert_true(arena_new(10000, &arena, &err).ok);
    char *text = arena_format(arena, "%s-%d", "x", 7);
    assert_string_equal(text, "x-7");
    assert_non_null(arena_take(arena, 9000));
    assert_null(arena_take(arena, 1000));
    assert_non_null(arena_take(arena, 16));
    static volatile size_t most = SIZE_MAX; /* or the compiler warns of it */
    assert_null(arena_take(arena, most));
}

struct count_job {
    struct work_job job;
    _Atomic int *total;
};

static void count_one(struct work_job *job, void *worker_state)
{
    struct count_job *self = (struct count_job *)job;

    (void)worker_state;
    atomic_fetch_add(self->total, 1);
}

static void pools_run_all_that_was_taken(void **state)
{
    static struct count_job jobs[500];
    struct work_options options = {.name = "count", .threads = 4, .queue_max = 400};
    _Atomic int total = 0;
    int taken = 0;
    struct work_pool *pool = NULL;
    struct error err = {0};

    (void)state;
    assert_true(work_pool_new(&options, &pool, &err).ok);
    for (size_t i = 0; i < COUNT(jobs); i++) {
        jobs[i] = (struct count_job){.job.run = count_one, .total = &total};
        if (work_submit(pool, &jobs[i].job, &err).ok) taken++;
        else assert_int_equal(err.kind, ERROR_LIMIT);
    }
    work_pool_free(pool);
    assert_int_equal(atomic_load(&total), taken);
    assert_true(taken >= 400);
}

static void metrics_are_written(void **state)
{
    static struct metric metrics[] = {
        {.name = "a_total", .help = "A.", .labels = "x=\"1\"", .kind = METRIC_COUNTER},
        {.name = "a_total", .help = "A.", .labels = "x=\"2\"", .kind = METRIC_COUNTER},
        {.name = "c_seconds_total", .help = "C.", .labels = "", .kind = METRIC_COUNTER_SECONDS},
        {.name = "d_seconds", .help = "D.", .labels = "x=\"1\"", .kind = METRIC_GAUGE_SECONDS},
        {.name = "b_seconds", .help = "B.", .labels = "", .kind = METRIC_HISTOGRAM},
    };
    static const struct metric_table table = {metrics, COUNT(metrics)};
    const struct metric_table *tables[] = {&table};
    struct buffer OWNED_BUFFER text = BUFFER(8192);
    struct error err = {0};

    (void)state;
    metric_add(&metrics[1], 5);
    metric_add(&metrics[2], 1500000);
    metric_set(&metrics[3], 1795387524868000);
    metric_observe_us(&metrics[4], 150);
    assert_true(metrics_write(&text, tables, 1, &err).ok);
    assert_non_null(strstr(buffer_text(&text), "# TYPE a_total counter\na_total{x=\"1\"} 0\na_total{x=\"2\"} 5\n"));
    assert_non_null(strstr(buffer_text(&text), "# TYPE c_seconds_total counter\nc_seconds_total 1.500000\n"));
    assert_non_null(strstr(buffer_text(&text), "# TYPE d_seconds gauge\nd_seconds{x=\"1\"} 1795387524.868000\n"));
    assert_non_null(strstr(buffer_text(&text), "b_seconds_bucket{le=\"0.0001\"} 0\nb_seconds_bucket{le=\"0.0002\"} 1\n"));
    assert_non_null(strstr(buffer_text(&text), "b_seconds_bucket{le=\"+Inf\"} 1\nb_seconds_sum 0.000150\n"));
}

static void *wait_for_end(void *end)
{
    (void)pthread_mutex_lock(end);
    (void)pthread_mutex_unlock(end);
    return NULL;
}

/* The result shows used memory, threads, descriptors and time. A failed read is reported, and leaves no descriptor open. */
static void what_a_process_uses_is_told(void **state)
{
    pthread_mutex_t end = PTHREAD_MUTEX_INITIALIZER;
    struct process_use before, after;
    struct error err = {0};
    pthread_t thread;
    bool has_fired = true;

    (void)state;
    assert_true(process_use_read(&before, &err).ok);
    assert_true(before.started_us / 1000 <= clock_wall_ms() && before.started_us / 1000 > clock_wall_ms() - 3600000);
    (void)pthread_mutex_lock(&end);
    assert_int_equal(pthread_create(&thread, NULL, wait_for_end, &end), 0);
    uint8_t *memory = memory_zeroed(1, 64 << 20);
    memset(memory, 1, 64 << 20);
    const int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0 && memory[4096] == 1);
    assert_true(process_use_read(&after, &err).ok);
    assert_int_equal(after.threads, before.threads + 1);
    assert_int_equal(after.open_files, before.open_files + 1);
    assert_true(after.open_files < after.open_files_max && after.open_files_max == before.open_files_max);
    assert_true(after.resident_bytes >= before.resident_bytes + (48 << 20) && after.virtual_bytes >= after.resident_bytes);
    assert_true(after.cpu_us > before.cpu_us && llabs(after.started_us - before.started_us) < 1000000);
    for (unsigned long nth = 1; has_fired; nth++) {
        fault_arm(nth);
        const bool ok = process_use_read(&before, &err).ok;
        has_fired = fault_has_fired();
        fault_arm(0);
        assert_true(ok || (has_fired && err.message[0] != '\0'));
    }
    assert_int_equal(before.open_files, after.open_files);
    (void)pthread_mutex_unlock(&end);
    assert_int_equal(pthread_join(thread, NULL), 0);
    (void)close(fd);
    free(memory);
}

static void *note_pace(void *place)
{
    int *pace = place;

    pace[0] = sched_getscheduler(0);
    pace[1] = getpriority(PRIO_PROCESS, (id_t)gettid());
    priority_interactive();
    pace[2] = sched_getscheduler(0);
    pace[3] = getpriority(PRIO_PROCESS, (id_t)gettid());
    priority_high();
    pace[6] = sched_getscheduler(0);
    pace[7] = getpriority(PRIO_PROCESS, (id_t)gettid());
    priority_background();
    priority_background(); /* once more is the same */
    pace[4] = sched_getscheduler(0);
    pace[5] = getpriority(PRIO_PROCESS, (id_t)gettid());
    return NULL;
}

static void patient_threads_give_way(void **state)
{
    pthread_t thread;
    int pace[8] = {0};

    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, note_pace, pace), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(pace[2], pace[0]); /* a short time slice changes neither policy nor priority */
    assert_int_equal(pace[3], pace[1]);
    assert_int_equal(pace[6], pace[0]);
    assert_true(pace[7] == -5 || pace[7] == pace[1]); /* the latter where that is not allowed */
    assert_int_equal(pace[4], SCHED_BATCH);
    assert_int_equal(pace[5], pace[7] < 10 ? 10 : pace[7]);  /* from its value at that time */
    assert_int_equal(getpriority(PRIO_PROCESS, 0), pace[1]); /* only that of this thread */
}

int main(void)
{
    const struct CMUnitTest others[] = {
        cmocka_unit_test(replacing_is_all_or_nothing),  cmocka_unit_test(what_cant_be_looked_at_is_no_absence),
        cmocka_unit_test(renaming_is_all_or_nothing),   cmocka_unit_test(reading_is_bounded),
        cmocka_unit_test(arenas_stop_at_their_maximum), cmocka_unit_test(pools_run_all_that_was_taken),
        cmocka_unit_test(metrics_are_written),          cmocka_unit_test(patient_threads_give_way),
        cmocka_unit_test(what_a_process_uses_is_told),
    };
    int failed = 0;

    if (make_folder(NULL) != 0) return 1;
    failed += cmocka_run_group_tests_name("others", others, NULL, NULL);
    return failed + (remove_folder(NULL) != 0);
}
