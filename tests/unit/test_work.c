/* Pools whose threads are shared by owners. */
#include "tests/support/unit.h"

#include <stdatomic.h>
#include <time.h>

#include "base/work.h"

struct held_job {
    struct work_job job;
    _Atomic bool *is_open;
    _Atomic int *running;
    _Atomic int *done;
};

static void hold_one(struct work_job *job, void *worker_state)
{
    const struct held_job *self = (struct held_job *)job;
    const struct timespec moment = {.tv_nsec = 1000000};

    (void)worker_state;
    atomic_fetch_add(self->running, 1);
    while (!atomic_load(self->is_open)) (void)nanosleep(&moment, NULL);
    atomic_fetch_add(self->done, 1);
}

static bool becomes(_Atomic int *number, int wanted)
{
    const struct timespec moment = {.tv_nsec = 1000000};

    for (int i = 0; i < 10000 && atomic_load(number) != wanted; i++) (void)nanosleep(&moment, NULL);
    return atomic_load(number) == wanted;
}

static const struct share_row {
    const char *name;
    unsigned threads, jobs;
    bool is_alone;
    int most;      /* of one owner at a time */
    int of_others; /* at a time, beside those, of others with a job each */
} share_rows[] = {
    {"three quarters of 12", 12, 30, false, 9, 3},
    {"three quarters of 4", 4, 10, false, 3, 1},
    {"one of 2", 2, 5, false, 1, 1},
    {"all of 1", 1, 3, false, 1, 0},
    {"three quarters of 64", 64, 90, false, 48, 16},
    {"alone", 8, 5, true, 1, 7},
};

static void no_owner_gets_all_threads(void **state)
{
    const struct share_row *row = *state;
    static struct held_job jobs[200];
    const struct work_options options = {.name = "shared", .threads = row->threads, .queue_max = 400, .is_shared = true};
    _Atomic bool is_open = false;
    _Atomic int running = 0, others = 0, done = 0;
    OWNED(work_pool) *pool = NULL;
    struct error err = {0};
    int taken = 0;

    assert_true(work_pool_new(&options, &pool, &err).ok);
    for (unsigned i = 0; i < row->jobs + row->threads; i++, taken++) {
        const bool is_other = i >= row->jobs;
        jobs[i] = (struct held_job){.job = {.run = hold_one, .owner = is_other ? 1000 + i : 7, .is_alone = row->is_alone},
                                    .is_open = &is_open,
                                    .running = is_other ? &others : &running,
                                    .done = &done};
        if (i == row->jobs) assert_true(becomes(&running, row->most));
        assert_true(work_submit(pool, &jobs[i].job, &err).ok);
    }
    assert_true(becomes(&others, row->of_others));
    assert_int_equal(atomic_load(&running), row->most);
    atomic_store(&is_open, true);
    work_pool_free(GIVE(pool));
    assert_int_equal(atomic_load(&done), taken);
}

int main(void)
{
    return RUN_TABLE(share_rows, no_owner_gets_all_threads);
}
