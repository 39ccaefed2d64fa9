/* The key of an attempt: certified by its runner alone, and the only one that signs the result. */
#include "tests/support/made_run.h"

#include "training/format/public_key.h"

/* Signs certificate and result with other keys than those of the vectors, or names other keys in the certificate. */
static const struct key_row {
    const char *name;
    enum run_type type, takes; /* its key is that of another envelope */
    const char *path;          /* or this member of the certificate names that key */
    const char *says;
} key_rows[] = {
    {"a certificate that the attempt's own key signed", RUN_CERTIFICATE, RUN_RESULT, NULL,
     "the certificate is signed by the key"},
    {"a certificate that sijil-keyd signed", RUN_CERTIFICATE, RUN_ORDER, NULL, "the certificate is signed by the key"},
    {"a certificate that names another runner", RUN_CERTIFICATE, RUN_APPROVAL, "runner_key", "the lease is for another key"},
    {"a certificate for the runner's own key", RUN_CERTIFICATE, RUN_REFUSAL, "attempt_key", "it is for the runner's own key"},
    {"a certificate for a key that did not sign", RUN_CERTIFICATE, RUN_APPROVAL, "attempt_key",
     "the result is signed by the key"},
    {"a result that the runner's own key signed", RUN_RESULT, RUN_REFUSAL, NULL, "the runner's own key has signed it"},
    {"a result that sijil-keyd signed", RUN_RESULT, RUN_ORDER, NULL, "the result is signed by the key"},
};

static void each_key_has_its_envelope(void **state)
{
    const struct key_row *row = *state;
    char text[PUBLIC_KEY_SIZE], quoted[PUBLIC_KEY_SIZE + 2];
    uint8_t point[ECDSA_PUBLIC_SIZE];
    OWNED_MADE_RUN made;
    struct error err = {0};

    made_run_begin(&made);
    struct ecdsa_key *own = made.keys[row->type];
    ecdsa_key_public(made.keys[row->takes], point);
    assert_true(public_key_text(point, text, &err).ok);
    (void)snprintf(quoted, sizeof quoted, "\"%s\"", text);
    if (row->path != NULL) made_set(&made, row->type, row->path, quoted);
    else made.keys[row->type] = made.keys[row->takes];
    const bool ok = made_check(&made, -1, &err).ok;
    made.keys[row->type] = own;
    assert_false(ok);
    if (strstr(err.message, row->says) == NULL) fail_msg("%s", err.message);
    assert_int_equal(err.kind, ERROR_DENIED);
}

static void a_result_comes_with_its_certificate(void **state)
{
    OWNED_MADE_RUN made;
    struct error err = {0};

    (void)state;
    made_run_begin(&made);
    assert_true(made_check(&made, -1, &err).ok);
    made.chain.certificate = NULL;
    assert_false(run_chain_check(&made.chain, &err).ok);
    assert_non_null(strstr(err.message, "without the certificate"));
}

int main(void)
{
    static const struct CMUnitTest tests[] = {cmocka_unit_test(a_result_comes_with_its_certificate)};

    return RUN_TABLE(key_rows, each_key_has_its_envelope) + cmocka_run_group_tests(tests, NULL, NULL);
}
