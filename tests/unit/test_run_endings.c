/* Which leases have ended whose bodies move (gateway/pipeline/run_endings.h). */
#include "tests/support/unit.h"

#include "gateway/pipeline/run_endings.h"

#define CAPACITY 4

static int64_t now_ms = 1000000;
int64_t __wrap_clock_monotonic_ms(void);
int64_t __wrap_clock_monotonic_ms(void)
{
    return now_ms;
}

static const struct run_holder mine = {.run = {{1}}, .attempt = 2, .node = 3};

static const struct ending_row {
    const char *name;
    struct run_watched found;
    bool has_ended;
} rows[] = {
    {"it goes on", {.run = {{1}}, .attempt = 2, .node = 3}, false},
    {"it has ended", {.run = {{1}}, .attempt = 2, .node = 3, .has_ended = true}, true},
    {"another run has ended", {.run = {{2}}, .attempt = 2, .node = 3, .has_ended = true}, false},
    {"another attempt has ended", {.run = {{1}}, .attempt = 1, .node = 3, .has_ended = true}, false},
    {"another node has ended", {.run = {{1}}, .attempt = 2, .node = 4, .has_ended = true}, false},
};

static void only_its_own_end_counts(void **state)
{
    const struct ending_row *row = *state;
    OWNED(run_endings) *endings = NULL;
    struct error err = {0};

    assert_true(run_endings_new(CAPACITY, &endings, &err).ok);
    assert_false(run_endings_have(endings, &mine));
    run_endings_note(endings, &row->found, 1);
    assert_int_equal(run_endings_have(endings, &mine), row->has_ended);
}

/* One project ended thousands of leases at once, and then each body of each run of the registry was cut off. */
static void many_endings_of_others_cut_nothing(void **state)
{
    OWNED(run_endings) *endings = NULL;
    struct error err = {0};

    (void)state;
    assert_true(run_endings_new(CAPACITY, &endings, &err).ok);
    assert_false(run_endings_have(endings, &mine));
    for (unsigned i = 0; i < 10000; i++) {
        const struct run_watched other = {.run = {{2}}, .attempt = 1 + i / 256, .node = i % 256, .has_ended = true};
        run_endings_note(endings, &other, 1);
    }
    assert_false(run_endings_have(endings, &mine));
}

static void what_was_asked_for_is_watched(void **state)
{
    OWNED(run_endings) *endings = NULL;
    struct run_watched watched[RUN_WATCHED_MAX];
    struct error err = {0};
    size_t at = 0;

    (void)state;
    assert_true(run_endings_new(CAPACITY, &endings, &err).ok);
    assert_int_equal(run_endings_watched(endings, &at, watched), 0);
    assert_false(run_endings_have(endings, &mine));
    assert_false(run_endings_have(endings, &mine));
    at = 0;
    assert_int_equal(run_endings_watched(endings, &at, watched), 1);
    assert_int_equal(run_endings_watched(endings, &at, watched), 0);
    assert_true(uuid_equal(&watched[0].run, &mine.run));
    assert_int_equal(watched[0].attempt, mine.attempt);
    assert_int_equal(watched[0].node, mine.node);
    watched[0].has_ended = true;
    run_endings_note(endings, watched, 1);
    at = 0;
    assert_int_equal(run_endings_watched(endings, &at, watched), 0); /* nothing can change any more */
    assert_true(run_endings_have(endings, &mine));
}

/* A full list forgets one, and never takes an end for that of another lease. */
static void a_full_list_gives_a_place(void **state)
{
    OWNED(run_endings) *endings = NULL;
    struct run_watched watched[RUN_WATCHED_MAX];
    struct run_holder holder = {.attempt = 1};
    struct error err = {0};
    size_t at = 0;

    (void)state;
    assert_true(run_endings_new(CAPACITY, &endings, &err).ok);
    for (holder.node = 0; holder.node <= CAPACITY; holder.node++) assert_false(run_endings_have(endings, &holder));
    assert_int_equal(run_endings_watched(endings, &at, watched), CAPACITY);
    for (size_t i = 0; i < CAPACITY; i++) watched[i].has_ended = true;
    run_endings_note(endings, watched, CAPACITY);
    holder.node = CAPACITY;
    assert_true(run_endings_have(endings, &holder));
}

/* A run uploads a checkpoint each few minutes. The second one was cut off, because nobody had looked between the two. */
static void the_next_body_is_no_old_one(void **state)
{
    OWNED(run_endings) *endings = NULL;
    struct error err = {0};

    (void)state;
    assert_true(run_endings_new(CAPACITY, &endings, &err).ok);
    assert_false(run_endings_have(endings, &mine));
    now_ms += 300000;
    assert_false(run_endings_have(endings, &mine));
    now_ms += 30000;
    assert_false(run_endings_have(endings, &mine));
}

/* The dispatcher can't read them: a body that goes on asking is cut off. */
static void what_nobody_looks_at_has_ended(void **state)
{
    OWNED(run_endings) *endings = NULL;
    struct run_watched watched[RUN_WATCHED_MAX];
    struct error err = {0};
    size_t at = 0;

    (void)state;
    assert_true(run_endings_new(CAPACITY, &endings, &err).ok);
    assert_false(run_endings_have(endings, &mine));
    now_ms += 59999;
    assert_false(run_endings_have(endings, &mine));
    now_ms += 60000; /* the longest time between two questions of one body */
    assert_int_equal(run_endings_watched(endings, &at, watched), 1);
    assert_true(run_endings_have(endings, &mine));
    run_endings_note(endings, watched, 1);
    assert_false(run_endings_have(endings, &mine));
}

static void an_end_stays(void **state)
{
    const struct run_watched ended = {.run = {{1}}, .attempt = 2, .node = 3, .has_ended = true};
    OWNED(run_endings) *endings = NULL;
    struct error err = {0};

    (void)state;
    assert_true(run_endings_new(CAPACITY, &endings, &err).ok);
    assert_false(run_endings_have(endings, &mine));
    run_endings_note(endings, &ended, 1);
    now_ms += 300000;
    assert_true(run_endings_have(endings, &mine));
}

int main(void)
{
    const struct CMUnitTest others[] = {cmocka_unit_test(the_next_body_is_no_old_one),
                                        cmocka_unit_test(what_nobody_looks_at_has_ended),
                                        cmocka_unit_test(an_end_stays),
                                        cmocka_unit_test(many_endings_of_others_cut_nothing),
                                        cmocka_unit_test(what_was_asked_for_is_watched),
                                        cmocka_unit_test(a_full_list_gives_a_place)};

    return RUN_TABLE(rows, only_its_own_end_counts) + cmocka_run_group_tests_name("others", others, NULL, NULL);
}
