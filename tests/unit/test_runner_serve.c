/* The parts of `sijil-runner serve` that need no registry: outcomes, progress, the talk of its processes, kept files, verdicts. */
#include "tests/support/made_run.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"
#include "runner/serve/channel.h"
#include "runner/serve/kept.h"
#include "runner/serve/outcome.h"
#include "runner/serve/signatures.h"
#include "runner/serve/verdict.h"

/* ---- the end of a run ---- */

static const struct outcome_row {
    const char *name;
    bool has_report;
    enum sandbox_end end;
    int exit, signal;
    const char *fault, *lacks, *stopped;
    const char *status, *says;
} outcomes[] = {
    {"success", true, SANDBOX_ENDED, 0, 0, NULL, NULL, NULL, "succeeded", ""},
    {"an exit status", true, SANDBOX_ENDED, 3, 0, NULL, NULL, NULL, "failed", "status 3"},
    {"a signal", true, SANDBOX_ENDED, -1, 11, NULL, NULL, NULL, "failed", "signal 11"},
    {"an exit status counts before outputs", true, SANDBOX_ENDED, 3, 0, "a link", "model", NULL, "failed", "status 3"},
    {"bad outputs", true, SANDBOX_ENDED, 0, 0, "a link", NULL, NULL, "failed", "a link"},
    {"bad outputs count before missing ones", true, SANDBOX_ENDED, 0, 0, "a link", "model", NULL, "failed", "a link"},
    {"a missing output", true, SANDBOX_ENDED, 0, 0, NULL, "model", NULL, "failed", "/out/model"},
    {"too long", true, SANDBOX_TIMEOUT, 0, 0, NULL, NULL, NULL, "timeout", "time_s"},
    {"too long, killed", true, SANDBOX_TIMEOUT, -1, 9, NULL, NULL, NULL, "timeout", "time_s"},
    {"cancelled, and it ended well", true, SANDBOX_CANCELLED, 0, 0, NULL, NULL, "the runner was stopped", "cancelled", "stopped"},
    {"out of memory", true, SANDBOX_MEMORY, -1, 9, NULL, NULL, NULL, "failed", "memory_bytes"},
    {"it did not begin", false, SANDBOX_ENDED, 127, 0, "no such program", NULL, NULL, "failed", "no such program"},
    {"it was lost while it was stopped", false, SANDBOX_ENDED, 127, 0, "broken", NULL, "the lease ends", "cancelled",
     "lease ends"},
    {"a fault that steers a terminal", true, SANDBOX_ENDED, 0, 0, "a\x1b[1m", NULL, NULL, "failed", "a?[1m"},
};

static void check_outcome(void **state)
{
    const struct outcome_row *row = *state;
    const struct sandbox_report report = {.end = row->end, .exit = row->exit, .signal = row->signal};
    const struct ended_run ended = {
        .report = row->has_report ? &report : NULL, .fault = row->fault, .lacks = row->lacks, .stopped = row->stopped};
    const struct outcome outcome = outcome_of(&ended);

    assert_string_equal(outcome.status, row->status);
    assert_true(outcome.exit_status == row->exit && outcome.signal == row->signal);
    if (strstr(outcome.reason, row->says) == NULL) fail_msg("%s", outcome.reason);
}

/* It is stopped as if it were cancelled, but nobody wanted that. */
static void a_run_whose_node_is_gone_has_failed(void **state)
{
    const struct sandbox_report report = {.end = SANDBOX_CANCELLED, .exit = -1, .signal = 15};
    const struct ended_run ended = {.report = &report, .fault = "node 1 is gone", .lost = "node 1 is gone", .stopped = "stopped"};
    const struct outcome outcome = outcome_of(&ended);

    (void)state;
    assert_string_equal(outcome.status, "failed");
    assert_string_equal(outcome.reason, "node 1 is gone");
}

static const struct progress_row {
    const char *name;
    int percent;
} progresses[] = {{"40%", 40},     {"at 7 % now", 7}, {"epoch 3/10", 30},   {"3 / 4", 75}, {"step 12, 50%", 50},
                  {"0/9", 0},      {"10/10", 100},    {"100%", 100},        {"101%", -1},  {"", -1},
                  {"epoch 3", -1}, {"3/0", -1},       {"11/10", -1},        {"1/", -1},    {"99999999999999999999%", -1},
                  {"2026/11", -1}, {"5/x 60%", 60},   {"loss 0.5, 1/2", 50}};

static void check_progress(void **state)
{
    const struct progress_row *row = *state;

    assert_int_equal(outcome_progress(row->name), row->percent);
}

/* ---- the talk of both processes ---- */

static void a_question_has_its_answer(void **state)
{
    struct channel_question question = {
        .topic = CHANNEL_TAKE, .cpus = 2, .memory_bytes = 3, .uses = {.count = 1, .uuids = {"GPU-1"}}};
    struct channel_question heard;
    struct channel_answer said = {.refused = ERROR_LIMIT, .why = "no room"}, answer;
    struct error err = {0};
    int ends[2];

    (void)state;
    must(channel_open(ends, &err), &err);
    assert_false(channel_hear(ends[0], &heard)); /* nothing has come: it does not wait */
    assert_int_equal(send(ends[1], &question, sizeof question, 0), sizeof question);
    assert_true(channel_hear(ends[0], &heard) && heard.topic == CHANNEL_TAKE && heard.cpus == 2);
    assert_string_equal(heard.uses.uuids[0], "GPU-1");
    assert_true(channel_reply(ends[0], &said));
    assert_false(channel_ask(ends[1], &question, &answer, &err).ok);
    assert_true(err.kind == ERROR_LIMIT && strcmp(err.message, "no room") == 0);
    said.refused = ERROR_NONE;
    said.generation = 7;
    assert_true(channel_hear(ends[0], &heard) && channel_reply(ends[0], &said));
    must(channel_ask(ends[1], &question, &answer, &err), &err);
    assert_true(answer.generation == 7);
    (void)close(ends[0]);
    assert_false(channel_ask(ends[1], &question, &answer, &err).ok);
    assert_int_equal(err.kind, ERROR_UNAVAILABLE);
    (void)close(ends[1]);
}

/* A worker that was taken over can't make the serving process read what is not there. */
static void a_worker_is_not_believed(void **state)
{
    struct channel_question question = {.topic = CHANNEL_TAKE, .uses.count = DEVICES_MAX + 1}, heard;
    struct error err = {0};
    int ends[2];

    (void)state;
    must(channel_open(ends, &err), &err);
    assert_int_equal(send(ends[1], &question, sizeof question, 0), sizeof question);
    assert_false(channel_hear(ends[0], &heard));
    question.uses.count = 1;
    memset(question.uses.uuids[0], 'x', sizeof question.uses.uuids[0]);
    assert_int_equal(send(ends[1], &question, sizeof question, 0), sizeof question);
    assert_false(channel_hear(ends[0], &heard));
    question.uses.count = 0;
    memset(question.reason, 'x', sizeof question.reason);
    assert_int_equal(send(ends[1], &question, sizeof question, 0), sizeof question);
    assert_false(channel_hear(ends[0], &heard));
    question.reason[0] = '\0';
    question.cpus = -1;
    assert_int_equal(send(ends[1], &question, sizeof question, 0), sizeof question);
    assert_false(channel_hear(ends[0], &heard));
    assert_int_equal(send(ends[1], &question, sizeof question - 1, 0), sizeof question - 1);
    assert_false(channel_hear(ends[0], &heard));
    question.cpus = 1;
    question.topic = (enum channel_topic)9;
    assert_int_equal(send(ends[1], &question, sizeof question, 0), sizeof question);
    assert_false(channel_hear(ends[0], &heard));
    (void)close(ends[0]);
    (void)close(ends[1]);
}

/* ---- kept files ---- */

struct place {
    char path[40];
    int state, folder;
};

static void place_make(struct place *place)
{
    struct error err = {0};

    (void)snprintf(place->path, sizeof place->path, "/dev/shm/sijil-serve-XXXXXX");
    assert_non_null(mkdtemp(place->path));
    place->state = open(place->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    must(kept_open(place->state, &place->folder, &err), &err);
}

static void place_remove(struct place *place)
{
    static const char *const names[] = {"leases.journal", "leases.key"};

    for (size_t i = 0; i < COUNT(names); i++) (void)unlinkat(place->state, names[i], 0);
    assert_int_equal(unlinkat(place->state, "leases", AT_REMOVEDIR), 0); /* so it is empty */
    (void)close(place->folder);
    (void)close(place->state);
    (void)rmdir(place->path);
}

static void make_empty(const struct place *place, const char *name)
{
    const int file = openat(place->folder, name, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);

    assert_true(file >= 0);
    (void)close(file);
}

static bool is_there(const struct place *place, const char *name)
{
    return faccessat(place->folder, name, F_OK, 0) == 0;
}

/* The file of a result that is being written (base/file.c). */
static const char *unfinished(const struct taken_lease *lease, char name[2 * LEASE_NONCE_SIZE + 16])
{
    name[0] = '.';
    text_hex(lease->nonce, LEASE_NONCE_SIZE, name + 1);
    (void)snprintf(name + 1 + (size_t)2 * LEASE_NONCE_SIZE, 14, ".result.new");
    return name;
}

static void what_is_kept_is_read_again(void **state)
{
    const struct taken_lease lease = {.nonce = {1, 2, 3}}, other = {.nonce = {1, 2, 4}};
    struct buffer OWNED_BUFFER content = BUFFER(64), small = BUFFER(2);
    struct error err = {0};
    struct place place;

    (void)state;
    place_make(&place);
    must(kept_write(place.folder, &lease, KEPT_BUNDLE, bytes_of_text("bundle"), &err), &err);
    assert_false(kept_has_result(place.folder, &lease));
    must(kept_write(place.folder, &lease, KEPT_RESULT, bytes_of_text("result"), &err), &err);
    assert_true(kept_has_result(place.folder, &lease) && !kept_has_result(place.folder, &other));
    must(kept_read(place.folder, &lease, KEPT_RESULT, &content, &err), &err);
    assert_string_equal(buffer_text(&content), "result");
    assert_false(kept_read(place.folder, &lease, KEPT_RESULT, &small, &err).ok);
    assert_int_equal(err.kind, ERROR_LIMIT);
    assert_false(kept_read(place.folder, &other, KEPT_BUNDLE, &content, &err).ok);
    assert_int_equal(err.kind, ERROR_NOT_FOUND);
    kept_remove(place.folder, &lease);
    assert_false(kept_has_result(place.folder, &lease));
    place_remove(&place);
}

static void only_unfinished_leases_keep_files(void **state)
{
    struct taken_lease leases[3] = {{.nonce = {1}, .digest = {1}}, {.nonce = {2}, .digest = {2}}, {.nonce = {3}, .digest = {3}}};
    const int64_t now_ms = clock_wall_ms();
    char name[2 * LEASE_NONCE_SIZE + 16];
    struct taken_lease listed[3];
    struct error err = {0};
    struct place place;

    (void)state;
    place_make(&place);
    OWNED(lease_journal) *journal = NULL;
    must(lease_journal_open(place.state, &journal, &err), &err);
    for (size_t i = 0; i < COUNT(leases); i++) {
        leases[i].begins_ms = now_ms;
        leases[i].expires_ms = now_ms + 1000000;
        must(kept_write(place.folder, &leases[i], KEPT_BUNDLE, bytes_of_text("x"), &err), &err);
        must(kept_write(place.folder, &leases[i], KEPT_RESULT, bytes_of_text("x"), &err), &err);
        if (i < 2) must(lease_journal_take(journal, &leases[i], now_ms, &err), &err); /* the third was never taken */
    }
    must(lease_journal_end(journal, leases[0].nonce, &err), &err);
    assert_int_equal(lease_journal_list(journal, listed, COUNT(listed)), 1);
    assert_memory_equal(listed[0].nonce, leases[1].nonce, LEASE_NONCE_SIZE);
    assert_true(lease_journal_find(journal, leases[0].nonce)->has_ended && lease_journal_find(journal, leases[2].nonce) == NULL);
    make_empty(&place, "odd");
    for (size_t i = 0; i < COUNT(leases); i++)
        make_empty(&place, unfinished(&leases[i], name)); /* a worker was killed while it wrote */
    must(kept_sweep(place.folder, journal, &err), &err);
    assert_true(kept_has_result(place.folder, &leases[1]));
    assert_false(kept_has_result(place.folder, &leases[0]) || kept_has_result(place.folder, &leases[2]));
    assert_false(is_there(&place, "odd"));
    assert_true(is_there(&place, unfinished(&leases[1], name))); /* its worker may write it just now */
    assert_false(is_there(&place, unfinished(&leases[0], name)) || is_there(&place, unfinished(&leases[2], name)));
    kept_remove(place.folder, &leases[1]);
    assert_false(is_there(&place, unfinished(&leases[1], name)));
    place_remove(&place);
}

/* ---- refusals ---- */

static void a_refusal_can_be_signed_whatever_it_quotes(void **state)
{
    static const char *const reasons[] = {"", "a\x1b[1m\nb", "\xc3", "0123456789"};
    OWNED_MADE_RUN made;
    struct error err = {0};

    (void)state;
    made_run_begin(&made);
    must(made_sign(&made, RUN_LEASE, &err), &err);
    const struct runner_state state_of = {.key = made.keys[RUN_REFUSAL]};
    for (size_t i = 0; i < COUNT(reasons); i++) {
        struct order_refusal refusal = {.check = "policy"};
        struct channel_question question;
        char envelope[CHANNEL_ENVELOPE_SIZE];
        OWNED(run_envelope) *read = NULL;
        (void)snprintf(refusal.reason, sizeof refusal.reason, "%s", reasons[i]);
        if (i == 3) memset(refusal.reason, 'x', sizeof refusal.reason - 1);
        must(channel_refusal(made.read[RUN_LEASE], &refusal, &question, &err), &err);
        must(signatures_refuse(&state_of, &question, envelope, &err), &err);
        must(run_envelope_read(bytes_of_text(envelope), RUN_REFUSAL, &read, &err), &err);
        must(run_check_signer(read, made.keys[RUN_REFUSAL], &err), &err);
        assert_string_equal(run_text(read, "lease"), made.read[RUN_LEASE]->digest);
        assert_true(strlen(run_text(read, "reason")) > 0);
    }
}

struct refusing {
    const struct made_run *made;
    int folder;
};

static struct result refuse_and_keep(void *context, struct error *err)
{
    const struct refusing *refusing = context;
    const struct order_refusal refusal = {.check = "digest", .reason = "it is another one"};
    const struct taken_lease lease = {.nonce = {9}};
    const struct runner_state state = {.key = refusing->made->keys[RUN_REFUSAL]};
    struct buffer OWNED_BUFFER again = BUFFER(RUN_ENVELOPE_MAX);
    struct channel_question question;
    char envelope[CHANNEL_ENVELOPE_SIZE];

    TRY(channel_refusal(refusing->made->read[RUN_LEASE], &refusal, &question, err));
    TRY(signatures_refuse(&state, &question, envelope, err));
    TRY(kept_write(refusing->folder, &lease, KEPT_RESULT, bytes_of_text(envelope), err));
    TRY(kept_read(refusing->folder, &lease, KEPT_RESULT, &again, err));
    assert_true(bytes_equal(bytes_of_text(envelope), buffer_bytes(&again)));
    return SUCCESS;
}

static void what_fails_is_said(void **state)
{
    static const struct taken_lease lease = {.nonce = {9}};
    OWNED_MADE_RUN made;
    struct error err = {0};
    struct place place;

    (void)state;
    place_make(&place);
    made_run_begin(&made);
    must(made_sign(&made, RUN_LEASE, &err), &err);
    struct refusing refusing = {&made, place.folder};
    fail_each(refuse_and_keep, &refusing, ERROR_NONE, 20);
    kept_remove(place.folder, &lease);
    place_remove(&place);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {cmocka_unit_test(what_fails_is_said),
                                              cmocka_unit_test(a_run_whose_node_is_gone_has_failed),
                                              cmocka_unit_test(a_question_has_its_answer),
                                              cmocka_unit_test(a_worker_is_not_believed),
                                              cmocka_unit_test(what_is_kept_is_read_again),
                                              cmocka_unit_test(only_unfinished_leases_keep_files),
                                              cmocka_unit_test(a_refusal_can_be_signed_whatever_it_quotes)};

    return RUN_TABLE(outcomes, check_outcome) + RUN_TABLE(progresses, check_progress) + cmocka_run_group_tests(tests, NULL, NULL);
}
