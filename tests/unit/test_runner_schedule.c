/* What is done about the job of one attempt, whatever registry and cluster say; Slurm's words for a job; names of jobs, features of nodes; the message
 * of a job. */
#include "tests/support/unit.h"

#include <stdio.h>

#include "runner/jobs/wish.h"
#include "runner/schedule/plan.h"
#include "runner/slurm/slurm_priv.h"

#define PATIENCE 60000
#define NOW      1000000

/* ---- one look ---- */

static const struct look_row {
    const char *name;
    enum plan_need need;
    enum slurm_state job;
    int64_t job_id;
    struct plan_memory before;
    enum plan_act act;
    struct plan_memory after;
} looks[] = {
    {"a run that waits gets a job", PLAN_WAITS, SLURM_NONE, 0, {0}, PLAN_START, {0}},
    {"a job that waits stays", PLAN_WAITS, SLURM_WAITING, 5, {0}, PLAN_NOTHING, {0}},
    {"a job that begins has time", PLAN_WAITS, SLURM_RUNNING, 5, {0}, PLAN_NOTHING, {.since_ms = NOW}},
    {"it has no more than that",
     PLAN_WAITS,
     SLURM_RUNNING,
     5,
     {.since_ms = NOW - PATIENCE},
     PLAN_CANCEL,
     {.ended_id = 5, .tries = 1, .next_ms = NOW + 5000}},
    {"a held job has time, too", PLAN_WAITS, SLURM_HELD, 5, {0}, PLAN_NOTHING, {.since_ms = NOW}},
    {"a held job does not block its run",
     PLAN_WAITS,
     SLURM_HELD,
     5,
     {.since_ms = NOW - PATIENCE},
     PLAN_CANCEL,
     {.ended_id = 5, .tries = 1, .next_ms = NOW + 5000}},
    {"a job that waits again has its own time", PLAN_WAITS, SLURM_WAITING, 5, {.since_ms = 1}, PLAN_NOTHING, {0}},
    {"just not over",
     PLAN_WAITS,
     SLURM_RUNNING,
     5,
     {.since_ms = NOW - PATIENCE + 1},
     PLAN_NOTHING,
     {.since_ms = NOW - PATIENCE + 1}},
    {"a job that ended for nothing",
     PLAN_WAITS,
     SLURM_COMPLETED,
     5,
     {.since_ms = 9},
     PLAN_NOTHING,
     {.ended_id = 5, .tries = 1, .next_ms = NOW + 5000}},
    {"it counts once",
     PLAN_WAITS,
     SLURM_CANCELLED,
     5,
     {.ended_id = 5, .tries = 1, .next_ms = NOW + 1},
     PLAN_NOTHING,
     {.ended_id = 5, .tries = 1, .next_ms = NOW + 1}},
    {"another one in time",
     PLAN_WAITS,
     SLURM_CANCELLED,
     5,
     {.ended_id = 5, .tries = 1, .next_ms = NOW},
     PLAN_START,
     {.ended_id = 5, .tries = 1, .next_ms = NOW}},
    {"the second end",
     PLAN_WAITS,
     SLURM_FAILED,
     6,
     {.ended_id = 5, .tries = 1},
     PLAN_NOTHING,
     {.ended_id = 6, .tries = 2, .next_ms = NOW + 10000}},
    {"a lost node",
     PLAN_WAITS,
     SLURM_LOST,
     6,
     {.ended_id = 5, .tries = 6},
     PLAN_NOTHING,
     {.ended_id = 6, .tries = 7, .next_ms = NOW + PLAN_MOST_MS}},
    {"no longer than that",
     PLAN_WAITS,
     SLURM_TIMEOUT,
     6,
     {.ended_id = 5, .tries = 40},
     PLAN_NOTHING,
     {.ended_id = 6, .tries = 41, .next_ms = NOW + PLAN_MOST_MS}},
    {"the cluster forgot it",
     PLAN_WAITS,
     SLURM_NONE,
     0,
     {.ended_id = 5, .tries = 2, .next_ms = NOW - 1},
     PLAN_START,
     {.ended_id = 5, .tries = 2, .next_ms = NOW - 1}},
    {"runners have it: a job that runs",
     PLAN_HELD,
     SLURM_RUNNING,
     5,
     {.since_ms = 1, .tries = 3, .next_ms = NOW + 9},
     PLAN_NOTHING,
     {0}},
    {"runners have it: no job", PLAN_HELD, SLURM_NONE, 0, {0}, PLAN_NOTHING, {0}},
    {"runners have it: a job that failed", PLAN_HELD, SLURM_FAILED, 5, {0}, PLAN_NOTHING, {0}},
    {"a run that is gone: a job that waits", PLAN_GONE, SLURM_WAITING, 5, {0}, PLAN_CANCEL, {0}},
    {"a run that is gone: a held job", PLAN_GONE, SLURM_HELD, 5, {0}, PLAN_CANCEL, {0}},
    {"a run that is gone: a job that runs has time", PLAN_GONE, SLURM_RUNNING, 5, {0}, PLAN_NOTHING, {.since_ms = NOW}},
    {"a run that is gone: it has no more", PLAN_GONE, SLURM_RUNNING, 5, {.since_ms = NOW - PATIENCE}, PLAN_CANCEL, {0}},
    {"a run that is gone: no job", PLAN_GONE, SLURM_NONE, 0, {0}, PLAN_NOTHING, {0}},
    {"a run that is gone: a job that ended", PLAN_GONE, SLURM_COMPLETED, 5, {0}, PLAN_NOTHING, {0}},
};

static void check_look(void **state)
{
    const struct look_row *row = *state;
    const struct slurm_status job = {.id = row->job_id, .state = row->job};
    const struct plan_view view = {.need = row->need, .job = &job, .patience_ms = PATIENCE, .now_ms = NOW};
    struct plan_memory memory = row->before;

    assert_int_equal(plan_decide(&view, &memory), row->act);
    assert_true(memory.since_ms == row->after.since_ms && memory.ended_id == row->after.ended_id);
    assert_true(memory.tries == row->after.tries && memory.next_ms == row->after.next_ms);
}

/* ---- what Slurm says of a job ---- */

static const struct word_row {
    const char *name;
    const char *job;  /* of slurmrestd; NULL: of squeue */
    const char *line; /* of squeue, after the number of the job */
    enum slurm_state state;
} words[] = {
    {"slurmrestd: waits", "\"job_state\":\"PENDING\",\"state_reason\":\"Resources\"", NULL, SLURM_WAITING},
    {"slurmrestd: by its reason", "\"job_state\":\"PENDING\",\"state_reason\":\"JobHeldAdmin\"", NULL, SLURM_HELD},
    {"slurmrestd: by its description",
     "\"job_state\":\"PENDING\",\"state_reason\":\"None\",\"state_description\":\"launch failed requeued held\"", NULL,
     SLURM_HELD},
    {"slurmrestd: by its state", "\"job_state\":\"SPECIAL_EXIT\"", NULL, SLURM_HELD},
    {"slurmrestd: by a flag", "\"job_state\":[\"PENDING\",\"REQUEUE_HOLD\"]", NULL, SLURM_HELD},
    {"slurmrestd: another flag", "\"job_state\":[\"PENDING\",\"REQUEUED\"]", NULL, SLURM_WAITING},
    {"slurmrestd: it was held once", "\"job_state\":\"RUNNING\",\"state_reason\":\"JobHeldUser\"", NULL, SLURM_RUNNING},
    {"squeue: waits", NULL, "PENDING|0||Dependency|", SLURM_WAITING},
    {"squeue: by its reason", NULL, "PENDING|0||launch failed requeued held|", SLURM_HELD},
    {"squeue: by its state", NULL, "REQUEUE_HOLD|0|||", SLURM_HELD},
    {"squeue: it has ended", NULL, "CANCELLED|0||JobHeldUser|", SLURM_CANCELLED},
};

static void check_words(void **state)
{
    const struct word_row *row = *state;
    struct slurm_status status = {0};
    char text[512];
    struct error err = {0};

    if (row->job == NULL) {
        (void)snprintf(text, sizeof text, "7|%s\n", row->line);
        assert_true(slurm_read_queue(bytes_of_text(text), &status, &err).ok);
    } else {
        OWNED_JSON answer = NULL;
        (void)snprintf(text, sizeof text, "{\"jobs\":[{\"job_id\":7,\"name\":\"x\",%s}]}", row->job);
        assert_true(json_read(bytes_of_text(text), sizeof text, &answer, &err).ok);
        assert_true(slurm_read_jobs(answer, "me", "x", &status, &err).ok);
    }
    assert_int_equal(status.id, 7);
    assert_string_equal(slurm_state_name(status.state), slurm_state_name(row->state));
}

static const struct owner_row {
    const char *name;
    const char *jobs;
    int64_t id; /* 0: none */
} owners[] = {
    {"its own", "{\"job_id\":7,\"name\":\"x\",\"user_name\":\"me\",\"job_state\":\"PENDING\"}", 7},
    {"a slurmrestd that names nobody", "{\"job_id\":7,\"name\":\"x\",\"job_state\":\"PENDING\"}", 7},
    {"another user's, held",
     "{\"job_id\":77,\"name\":\"x\",\"user_name\":\"mallory\",\"job_state\":\"PENDING\",\"state_reason\":\"JobHeldUser\"}", 0},
    {"another user's newer one",
     "{\"job_id\":77,\"name\":\"x\",\"user_name\":\"mallory\",\"job_state\":\"PENDING\"},{\"job_id\":7,\"name\":\"x\",\"user_name\":\"me\",\"job_state\":\"RUNNING\"}",
     7},
};

/* A held job of another user with the name of a run kept the run waiting. */
static void only_own_jobs_count(void **state)
{
    const struct owner_row *row = *state;
    struct slurm_status status = {0};
    char text[512];
    struct error err = {0};
    OWNED_JSON answer = NULL;

    (void)snprintf(text, sizeof text, "{\"jobs\":[%s]}", row->jobs);
    assert_true(json_read(bytes_of_text(text), sizeof text, &answer, &err).ok);
    assert_true(slurm_read_jobs(answer, "me", "x", &status, &err).ok);
    assert_int_equal(status.id, row->id);
    assert_int_equal(status.state == SLURM_NONE, row->id == 0);
}

/* ---- names ---- */

static void two_schedulers_have_other_names(void **state)
{
    char name[SLURM_NAME_SIZE], prefix[SLURM_NAME_SIZE];

    (void)state;
    plan_name("50aaf606-fa0d-471b-9790-960bc34924b2", "3d0c2f1a-9b1e-4a57-8a43-0d6f5f0c7a11", 100, name);
    assert_string_equal(name, "sijil-50aaf606-3d0c2f1a-9b1e-4a57-8a43-0d6f5f0c7a11-100");
    plan_prefix("50aaf606-fa0d-471b-9790-960bc34924b2", prefix);
    assert_string_equal(prefix, "sijil-50aaf606-");
}

static const struct feature_row {
    const char *name;
    const char *regions[3];
    size_t count;
    const char *features; /* NULL: refused */
} features[] = {
    {"one", {"ae/dxb"}, 1, "region-ae-dxb"},         {"two", {"ae/dxb", "local/main"}, 2, "region-ae-dxb|region-local-main"},
    {"without a slash", {"here"}, 1, "region-here"}, {"a letter of a shell", {"ae/$x"}, 1, NULL},
    {"a choice of its own", {"ae|sa"}, 1, NULL},     {"an empty part", {"ae//x"}, 1, NULL},
};

static void check_features(void **state)
{
    const struct feature_row *row = *state;
    struct buffer OWNED_BUFFER text = BUFFER(256);
    struct error err = {0};

    const bool made = plan_features(row->regions, row->count, &text, &err).ok;
    assert_int_equal(made, row->features != NULL);
    if (made) assert_string_equal(buffer_text(&text), row->features);
}

/* ---- what a job says ---- */

#define RUN "3d0c2f1a-9b1e-4a57-8a43-0d6f5f0c7a11"

static const struct wish_row {
    const char *name, *line;
    int attempt; /* 0: refused */
    size_t devices;
    unsigned allowed, forbidden;
} wishes[] = {
    {"any device", RUN " 1", 1, 0, 7, UINT_MAX},
    {"two devices", RUN " 100 0,3", 100, 2, 3, 1},
    {"one device", RUN " 2 12", 2, 1, 12, 0},
    {"no attempt", RUN, 0, 0, 0, 0},
    {"attempt zero", RUN " 0", 0, 0, 0, 0},
    {"too many attempts", RUN " 101", 0, 0, 0, 0},
    {"no run", "x 1", 0, 0, 0, 0},
    {"a run in capitals", "3D0C2F1A-9B1E-4A57-8A43-0D6F5F0C7A11 1", 0, 0, 0, 0},
    {"more words", RUN " 1 2 3", 0, 0, 0, 0},
    {"an empty list", RUN " 1 ", 0, 0, 0, 0},
    {"an open list", RUN " 1 0,", 0, 0, 0, 0},
    {"a hole in the list", RUN " 1 0,,1", 0, 0, 0, 0},
    {"a range", RUN " 1 0-1", 0, 0, 0, 0},
    {"a large number", RUN " 1 1024", 0, 0, 0, 0},
    {"a line end", RUN " 1\n", 0, 0, 0, 0},
    {"nothing", "", 0, 0, 0, 0},
};

static void check_wish(void **state)
{
    const struct wish_row *row = *state;
    struct job_wish wish;
    struct error err = {0};

    const bool read = job_wish_read(bytes_of_text(row->line), &wish, &err).ok;
    assert_int_equal(read, row->attempt != 0);
    if (!read) return;
    assert_string_equal(wish.run, RUN);
    assert_int_equal(wish.attempt, row->attempt);
    assert_int_equal(wish.device_count, row->devices);
    assert_true(job_wish_allows(&wish, row->allowed) && (row->devices == 0 || !job_wish_allows(&wish, row->forbidden)));
}

static void devices_have_a_limit(void **state)
{
    struct buffer OWNED_BUFFER list = BUFFER(512), line = BUFFER(WISH_MAX);
    struct error err = {0};

    (void)state;
    for (unsigned i = 0; i < DEVICES_MAX; i++) must(buffer_format(&list, &err, "%s%u", i == 0 ? "" : ",", i), &err);
    must(job_wish_write(RUN, "1", buffer_text(&list), &line, &err), &err);
    must(buffer_add_text(&list, ",64", &err), &err);
    buffer_clear(&line);
    assert_false(job_wish_write(RUN, "1", buffer_text(&list), &line, &err).ok);
    buffer_clear(&line);
    assert_false(job_wish_write(RUN " 1", "1", NULL, &line, &err).ok);
}

int main(void)
{
    const struct CMUnitTest others[] = {cmocka_unit_test(two_schedulers_have_other_names),
                                        cmocka_unit_test(devices_have_a_limit)};
    int failed = RUN_TABLE(looks, check_look);

    failed += RUN_TABLE(words, check_words) + RUN_TABLE(owners, only_own_jobs_count);
    failed += RUN_TABLE(features, check_features);
    failed += RUN_TABLE(wishes, check_wish);
    return failed + cmocka_run_group_tests_name("others", others, NULL, NULL);
}
