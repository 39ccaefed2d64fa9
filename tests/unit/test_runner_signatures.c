/* What the serving process signs with the runner's key: a certificate for each lease that was taken, and refusals. */
#include "tests/support/made_run.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "runner/serve/crew.h"
#include "runner/serve/signatures.h"
#include "training/format/certificate.h"

#define HEX_ZEROS "0000000000000000000000000000000000000000000000000000000000000000"

static void a_certificate_is_for_the_lease_that_was_taken(void **state)
{
    OWNED_MADE_RUN made;
    struct error err = {0};
    struct taken_lease taken;
    struct channel_question question = {.topic = CHANNEL_CERTIFY};
    char envelope[CHANNEL_ENVELOPE_SIZE];
    OWNED(run_envelope) *read = NULL;

    (void)state;
    made_run_begin(&made);
    for (enum run_type type = 0; type <= RUN_LEASE; type++) {
        made_relink(&made, type);
        must(made_sign(&made, type, &err), &err);
    }
    struct run_bundle bundle = {.chain = {.order = made.read[RUN_ORDER], .lease = made.read[RUN_LEASE]}};
    order_lease(&bundle, &taken);
    taken.begins_ms = clock_wall_ms() - 1000;
    taken.expires_ms = taken.begins_ms + 60000;
    struct runner_state runner = {.key = made.keys[RUN_CERTIFICATE]};
    (void)snprintf(runner.registry.audience, sizeof runner.registry.audience, "%s", run_text(made.read[RUN_LEASE], "audience"));
    (void)snprintf(question.order, sizeof question.order, "%s", made.read[RUN_ORDER]->digest);
    ecdsa_key_public(made.keys[RUN_RESULT], question.key);
    must(signatures_certify(&runner, &taken, &question, envelope, &err), &err);
    must(run_envelope_read(bytes_of_text(envelope), RUN_CERTIFICATE, &read, &err), &err);
    must(certificate_check_signer(read, CERTIFICATE_RUNNER, read, &err), &err);
    assert_string_equal(run_text(read, "lease"), made.read[RUN_LEASE]->digest);
    assert_string_equal(run_text(read, "order"), made.read[RUN_ORDER]->digest);
    assert_int_equal(run_time(read, "expires"), taken.expires_ms);
    assert_true(run_time(read, "not_before") >= taken.begins_ms);
    taken.begins_ms += 30000; /* this machine's clock is behind */
    must(signatures_certify(&runner, &taken, &question, envelope, &err), &err);
    run_envelope_free(read);
    read = NULL;
    must(run_envelope_read(bytes_of_text(envelope), RUN_CERTIFICATE, &read, &err), &err);
    assert_int_equal(run_time(read, "not_before"), taken.begins_ms);
    question.key[0] = 0;
    assert_false(signatures_certify(&runner, &taken, &question, envelope, &err).ok);
    assert_int_equal(err.kind, ERROR_INVALID);
}

/* A serving process with one worker. */
struct world {
    struct made_run made;
    struct runner_state runner;
    struct serve_options options;
    struct crew *crew;
    struct member *member;
    int worker; /* its end of the channel */
    char folder[40];
};

static void world_begin(struct world *world)
{
    struct error err = {0};
    int ends[2];

    made_run_begin(&world->made);
    must(channel_open(ends, &err), &err);
    (void)snprintf(world->folder, sizeof world->folder, "/dev/shm/sijil-signs-XXXXXX");
    assert_non_null(mkdtemp(world->folder));
    world->runner = (struct runner_state){.key = world->made.keys[RUN_CERTIFICATE], .registry.audience = "sijil.example/audit"};
    world->options = (struct serve_options){.state = &world->runner};
    world->crew = memory_zeroed(1, sizeof *world->crew);
    assert_non_null(world->crew);
    world->crew->options = &world->options;
    OWNED_FD folder = open(world->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    must(lease_journal_open(folder, &world->crew->journal, &err), &err);
    world->worker = ends[1];
    world->member = &world->crew->members[0];
    *world->member = (struct member){.job = JOB_ASK, .channel = ends[0], .link = -1};
    world->member->lease = (struct taken_lease){
        .nonce = {1}, .run.bytes = {5}, .attempt = 1, .begins_ms = clock_wall_ms() - 1000, .expires_ms = clock_wall_ms() + 60000};
}

static void world_release(struct world *world)
{
    static const char *const names[] = {"leases.journal", "leases.key"};
    OWNED_FD folder = open(world->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    lease_journal_free(world->crew->journal);
    for (size_t i = 0; i < COUNT(names); i++) (void)unlinkat(folder, names[i], 0);
    assert_int_equal(rmdir(world->folder), 0);
    (void)close(world->member->channel);
    (void)close(world->worker);
    free(world->crew);
    made_run_release(&world->made);
}
#define OWNED_WORLD __attribute__((cleanup(world_release))) struct world

/* What the serving process answers to the worker. */
static struct channel_answer answer_to(const struct world *world, const struct channel_question *question)
{
    struct channel_answer answer;

    assert_int_equal(send(world->worker, question, sizeof *question, 0), sizeof *question);
    crew_answer(world->crew, world->member);
    assert_int_equal(recv(world->worker, &answer, sizeof answer, MSG_DONTWAIT), sizeof answer);
    return answer;
}

/* A worker that was taken over gets no second key, and none for a lease that another worker has. */
static void a_worker_gets_one_certificate(void **state)
{
    struct channel_question question = {.topic = CHANNEL_CERTIFY, .lease.nonce = {1}, .order = "sha256:" HEX_ZEROS};
    OWNED(run_envelope) *read = NULL;
    OWNED_WORLD world;
    struct error err = {0};

    (void)state;
    world_begin(&world);
    ecdsa_key_public(world.made.keys[RUN_RESULT], question.key);
    assert_int_equal(answer_to(&world, &question).refused, ERROR_CONFLICT); /* it has taken no lease */
    world.member->job = JOB_RUN;
    question.lease.nonce[0] = 2;
    assert_int_equal(answer_to(&world, &question).refused, ERROR_CONFLICT); /* another worker's */
    question.lease.nonce[0] = 1;
    const struct channel_answer first = answer_to(&world, &question);
    if (first.refused != ERROR_NONE) fail_msg("%s", first.why);
    must(run_envelope_read(bytes_of_text(first.envelope), RUN_CERTIFICATE, &read, &err), &err);
    const struct channel_answer second = answer_to(&world, &question);
    assert_true(second.refused == ERROR_CONFLICT && second.envelope[0] == '\0');
}

static void a_worker_refuses_its_own_lease(void **state)
{
    struct channel_question question = {
        .topic = CHANNEL_REFUSE, .audience = "sijil.example/audit", .check = "digest", .reason = "x"};
    OWNED_WORLD world;

    (void)state;
    world_begin(&world);
    world.member->job = JOB_RUN;
    question.lease = world.member->lease;
    assert_int_equal(answer_to(&world, &question).refused, ERROR_NONE);
    question.lease.digest[0] ^= 1; /* of another worker */
    const struct channel_answer denied = answer_to(&world, &question);
    assert_true(denied.refused == ERROR_CONFLICT && denied.envelope[0] == '\0');
    world.member->job = JOB_ASK; /* it may refuse what it is given */
    assert_int_equal(answer_to(&world, &question).refused, ERROR_NONE);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {cmocka_unit_test(a_certificate_is_for_the_lease_that_was_taken),
                                              cmocka_unit_test(a_worker_gets_one_certificate),
                                              cmocka_unit_test(a_worker_refuses_its_own_lease)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
