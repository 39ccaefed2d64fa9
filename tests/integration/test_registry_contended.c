/* One upload, to which two gateways send at the same time; one of them pauses now and then. */
#include "tests/integration/registry_fixture.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>

#include "registry/upload/upload.h"

struct sender {
    struct registry *registry;
    struct pg *pg;
    struct upload_request request;
    const struct permit *permit;
    unsigned saved;
    struct error wrong;
    atomic_bool is_over;
};

static struct result send_piece(struct sender *sender, struct error *err)
{
    static const uint8_t piece[100];
    struct job_recorder recorder = fixture_recorder(sender->permit);
    OWNED(upload) *upload = NULL;

    TRY(upload_new(sender->registry, &sender->request, &upload, err));
    TRY(upload_find(sender->permit, upload, sender->pg, err));
    TRY(upload_claim(upload, sender->pg, err));
    TRY(upload_write(upload, (struct bytes){piece, sizeof piece}, err));
    return upload_save(upload, sender->pg, &recorder.recorder, err);
}

static void *send_pieces(void *context)
{
    struct sender *sender = context;

    for (int i = 0; i < 400 && sender->wrong.kind == ERROR_NONE; i++) {
        struct error err = {0};
        if (send_piece(sender, &err).ok) sender->saved++;
        else if (err.kind != ERROR_CONFLICT) sender->wrong = err;
    }
    atomic_store(&sender->is_over, true);
    return NULL;
}

/* The thread pauses at any place, as in a gateway that is stopped or has no processor. */
static void stand_still(int signal)
{
    const struct timespec pause = {.tv_nsec = 8000000};

    (void)signal;
    (void)nanosleep(&pause, NULL);
}

/*
 * The gateway that loses gets the error that another writer has the upload, never that it is lost: its checkpoint was only
 * replaced.
 */
static void two_that_take_it_from_each_other_never_lose_it(void **state)
{
    static const struct pg_table *const tables[] = {&upload_statements, &abandoned_statements, &seal_statements, NULL};
    struct resource where = fixture_repository(&fixture.models, "contended");
    const struct upload_begin begun = fixture_begin(&where);
    OWNED(permit) *permit = stack_permit(fixture.stack, ACTION_UPLOAD_WRITE, &where);
    OWNED(registry) *second = fixture_second_gateway();
    struct sender senders[2] = {{.registry = fixture.registry}, {.registry = second}};
    const struct sigaction action = {.sa_handler = stand_still, .sa_flags = SA_RESTART};
    const struct timespec pause = {.tv_nsec = 9100000};
    pthread_t threads[2];

    (void)state;
    assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
    for (int i = 0; i < 2; i++) {
        senders[i].permit = permit;
        senders[i].request = (struct upload_request){
            .action = ACTION_UPLOAD_WRITE, .where = &where, .principal = &fixture.principal, .location = begun.location};
        MUST(pg_open(database_app(fixture.stack->database), tables, &senders[i].pg, &err));
        assert_int_equal(pthread_create(&threads[i], NULL, send_pieces, &senders[i]), 0);
    }
    while (!atomic_load(&senders[0].is_over)) {
        (void)pthread_kill(threads[0], SIGUSR1);
        (void)nanosleep(&pause, NULL);
    }
    for (int i = 0; i < 2; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (int i = 0; i < 2; i++) {
        if (senders[i].wrong.kind != ERROR_NONE) fail_msg("%s", senders[i].wrong.message);
        assert_true(senders[i].saved > 0);
        pg_free(senders[i].pg);
    }
    print_message("%u and %u pieces of 400\n", senders[0].saved, senders[1].saved);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(two_that_take_it_from_each_other_never_lose_it)};

    return cmocka_run_group_tests_name("contended upload", tests, fixture_set_up, fixture_tear_down);
}
