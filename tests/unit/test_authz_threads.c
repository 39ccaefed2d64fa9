/* Many threads present tokens while keys and snapshots change under them. */
#include "tests/support/token_world.h"

#include <pthread.h>
#include <stdatomic.h>

enum { THREADS = 6, TRIES = 150 };

static atomic_bool is_over;

struct share {
    pthread_t thread;
    const char *shared; /* a good token for all threads */
    unsigned accepted, refused, wrong;
};

/* A good token of A must pass, and a token that A's key did not sign must never pass, with any activity of other threads. */
static void *present(void *argument)
{
    struct share *share = argument;
    const struct token_row forged = {"", BY_B, "ES256", A_HEADER, A_PAYLOAD, NULL};

    for (int i = 0; i < TRIES; i++) {
        OWNED_STRING good = make_token(&GOOD_ROW);
        OWNED_STRING bad = make_token(&forged);
        if (try_bearer(CREDENTIAL_AT_ROUTE, good).error == OAUTH_NONE) share->accepted++;
        else share->wrong++;
        if (try_bearer(CREDENTIAL_AT_ROUTE, share->shared).error != OAUTH_NONE) share->wrong++;
        if (try_bearer(CREDENTIAL_AT_ROUTE, bad).error == OAUTH_INVALID_TOKEN) share->refused++;
        else share->wrong++;
    }
    return NULL;
}

static void *publish_often(void *argument)
{
    while (!atomic_load(&is_over)) publish_all();
    return argument;
}

static void threads_do_not_mix_tokens_up(void **state)
{
    OWNED_STRING shared = make_token(&GOOD_ROW);
    struct share shares[THREADS] = {0};
    pthread_t publisher;

    (void)state;
    assert_int_equal(pthread_create(&publisher, NULL, publish_often, NULL), 0);
    for (size_t i = 0; i < THREADS; i++) shares[i].shared = shared;
    for (size_t i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&shares[i].thread, NULL, present, &shares[i]), 0);
    for (size_t i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(shares[i].thread, NULL), 0);
        assert_int_equal(shares[i].accepted, TRIES);
        assert_int_equal(shares[i].refused, TRIES);
        assert_int_equal(shares[i].wrong, 0);
    }
    atomic_store(&is_over, true);
    assert_int_equal(pthread_join(publisher, NULL), 0);
}

/* One key, more threads than it has lanes. */
static void *verify_often(void *argument)
{
    struct issuer *issuer = argument;

    for (int i = 0; i < TRIES; i++) {
        OWNED_STRING text = make_token(&GOOD_ROW);
        struct jws OWNED_JWS token = {0};
        struct error err = {0};
        if (!jws_parse(bytes_of_text(text), &token, &err).ok || !issuer_verify(issuer, &token, false, &err).ok) return &is_over;
    }
    return NULL;
}

static void keys_change_under_verification(void **state)
{
    OWNED_STRING jwks = hostile_jwks(world.a, "key-a", NULL);
    const struct issuer_record record = make_issuer(ISSUER_A, 1U << JOSE_ES256, jwks);
    OWNED(issuer) *issuer = NULL;
    pthread_t threads[THREADS];
    struct error err = {0};

    (void)state;
    assert_true(issuer_new(&record, &issuer, &err).ok);
    for (size_t i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&threads[i], NULL, verify_often, issuer), 0);
    for (int i = 0; i < 200; i++) assert_true(issuer_replace_keys(issuer, jwks, &err).ok);
    for (size_t i = 0; i < THREADS; i++) {
        void *failed = NULL;
        assert_int_equal(pthread_join(threads[i], &failed), 0);
        assert_null(failed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_do_not_mix_tokens_up),
        cmocka_unit_test(keys_change_under_verification),
    };

    (void)set_up(NULL);
    const int failed = cmocka_run_group_tests_name("threads", tests, NULL, NULL);
    (void)tear_down(NULL);
    return failed;
}
