/* The thread of an object: it waits for a time or a signal, and ends when it is stopped. */
#include "tests/support/unit.h"

#include <time.h>

#include "base/clock.h"
#include "base/thread.h"

#define LONG_MS 600000 /* longer than the test may take */

struct counter {
    struct thread thread;
    int64_t wait_ms;    /* INT64_MAX: for a signal */
    int wanted, rounds; /* with the mutex; it counts up to `wanted` */
};

static void *count(void *argument)
{
    struct counter *counter = argument;

    (void)pthread_mutex_lock(&counter->thread.mutex);
    while (!counter->thread.is_stopping) {
        if (counter->rounds < counter->wanted) counter->rounds++;
        thread_wait(&counter->thread, counter->wait_ms == INT64_MAX ? INT64_MAX : clock_monotonic_ms() + counter->wait_ms);
    }
    (void)pthread_mutex_unlock(&counter->thread.mutex);
    return NULL;
}

static bool reaches(struct counter *counter, int rounds)
{
    for (int i = 0; i < 10000; i++) {
        (void)pthread_mutex_lock(&counter->thread.mutex);
        const int reached = counter->rounds;
        (void)pthread_mutex_unlock(&counter->thread.mutex);
        if (reached == rounds) return true;
        (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return false;
}

static void a_moment_wakes_it(void **state)
{
    struct counter counter = {.wait_ms = 1, .wanted = 5};
    struct error err = {0};

    (void)state;
    assert_true(thread_start(&counter.thread, count, &counter, "counts", &err).ok);
    assert_true(reaches(&counter, 5));
    thread_stop(&counter.thread);
    assert_false(counter.thread.has_started);
}

static void a_signal_wakes_it(void **state)
{
    struct counter counter = {.wait_ms = INT64_MAX};
    struct error err = {0};

    (void)state;
    assert_true(thread_start(&counter.thread, count, &counter, "counts", &err).ok);
    for (int i = 1; i <= 3; i++) {
        (void)pthread_mutex_lock(&counter.thread.mutex);
        counter.wanted = i;
        (void)pthread_cond_signal(&counter.thread.woken);
        (void)pthread_mutex_unlock(&counter.thread.mutex);
        assert_true(reaches(&counter, i));
    }
    thread_stop(&counter.thread);
    assert_int_equal(counter.rounds, 3);
}

static void *sleep_long(void *argument)
{
    struct counter *counter = argument;

    while (thread_sleep(&counter->thread, LONG_MS)) counter->rounds++;
    if (thread_is_stopping(&counter->thread)) counter->wanted = -1;
    return NULL;
}

static void a_stop_ends_a_sleep(void **state)
{
    struct counter counter = {.wanted = 0};
    struct error err = {0};
    const int64_t began_ms = clock_monotonic_ms();

    (void)state;
    assert_true(thread_start(&counter.thread, sleep_long, &counter, "sleeps", &err).ok);
    thread_stop(&counter.thread);
    assert_int_equal(counter.rounds, 0);
    assert_int_equal(counter.wanted, -1);
    assert_true(clock_monotonic_ms() - began_ms < LONG_MS / 10);
    thread_stop(&counter.thread); /* a second time: nothing to stop */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_moment_wakes_it), cmocka_unit_test(a_signal_wakes_it),
                                       cmocka_unit_test(a_stop_ends_a_sleep)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
