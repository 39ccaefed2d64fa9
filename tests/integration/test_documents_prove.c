/* Runners in the store: the proof of a document in force gives a certificate, and a gateway that lags behind makes it anew. */
#include "tests/integration/documents_fixture.h"

#include "crypto/runner_certificate.h"
#include "documents/format/runner_key.h"
#include "documents/prove.h"

#define RUNNER "7b5a1b9e-55a0-4f0e-9d55-0f4d3c1e2b22"

static const char *since = "2026-11-18T00:00:00Z"; /* of the next withdrawal */

static json_t *body_of(const struct ecdsa_key *key, bool is_withdrawn)
{
    struct buffer OWNED_BUFFER text = BUFFER(128);
    uint8_t point[ECDSA_PUBLIC_SIZE];
    struct error err = {0};

    ecdsa_key_public(key, point);
    assert_true(text_base64(&text, BASE64_URL, (struct bytes){point, sizeof point}, &err).ok);
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:i, s:i, s:[s], s:s*}", "runner", RUNNER, "public_key", buffer_text(&text),
                     "pool", "uae-gpu", "region", "local/dxb", "isolation", "cgroup-v2", "assurance", 3, "devices", 1,
                     "jurisdictions", "AE", "since", is_withdrawn ? since : NULL);
}

/* Signed by the runner's key and by the root, which may enrol a runner alone. */
static void make_runner(struct store *store, unsigned holder, uint64_t version, struct made_document *made)
{
    struct buffer OWNED_BUFFER payload = BUFFER(8 * 1024);
    char name[ECDSA_THUMBPRINT_SIZE];
    struct error err = {0};

    holder_name(store, holder, name);
    const struct ecdsa_key *const signers[] = {store->holders[holder], store->root};
    OWNED_JSON body = body_of(store->holders[holder], version == 2);
    const struct document_parts parts = {.kind = DOCUMENT_RUNNER,
                                         .scope = store->scope,
                                         .name = name,
                                         .version = version,
                                         .effective_ms = clock_wall_ms() - 1000,
                                         .expires_ms = clock_wall_ms() + 300 * DAY_MS,
                                         .withdrawn = version == 2 ? "lost" : NULL,
                                         .body = body};
    if (!document_compose(&parts, &payload, &err).ok) fail_msg("%s", err.message);
    *made = (struct made_document){.envelopes = {BUFFER(16 * 1024), BUFFER(16 * 1024)}, .count = 2};
    for (size_t i = 0; i < 2; i++) {
        assert_true(document_sign(DOCUMENT_RUNNER, buffer_bytes(&payload), signers[i], &made->envelopes[i], &err).ok);
        made->views[i] = buffer_bytes(&made->envelopes[i]);
    }
    if (!document_read(made->views, made->count, &made->document, &err).ok) fail_msg("%s", err.message);
}

static void record_runner(struct store *store, unsigned holder, uint64_t version)
{
    const enum action action = version == 2 ? ACTION_RUNNER_REVOKE : ACTION_RUNNER_APPROVE;
    struct made_document made;
    struct document_change change;

    make_runner(store, holder, version, &made);
    const struct document_row row = {action, made.document, made.views, made.count, "robot$ci"};
    document_change_init(&change, &row, false);
    assert_int_equal(submit(store, action, &change.change), ERROR_NONE);
    made_done(&made);
}

static struct result follow(struct store *store, struct document_view *view, struct error *err)
{
    const struct document_source source = {store->pg, keyd_process_client(store->log.keyd), store->log.sequencer};

    return document_view_follow(view, DOCUMENT_RUNNER, &source, err);
}

/* version 0: no document of this name. */
static struct seen see_runner(struct store *store, struct document_view *view, unsigned holder)
{
    char name[ECDSA_THUMBPRINT_SIZE];
    struct seen seen = {0};
    struct error err = {0};

    holder_name(store, holder, name);
    if (!follow(store, view, &err).ok) fail_msg("%s", err.message);
    if (!document_view_visit_name(view, DOCUMENT_RUNNER, name, see, &seen, &err).ok) fail_msg("%s", err.message);
    return seen;
}

static struct permit *permit_to_certify(struct store *store)
{
    struct record record = {.decision = decision_of(store, ACTION_RUNNER_CERTIFY)};

    sequencer_submit_and_wait(store->log.sequencer, &record);
    assert_int_equal(record.status, RECORD_DONE);
    struct permit *permit = GIVE(record.permit);
    record_done(&record);
    return permit;
}

static struct result certify(struct store *store, struct document_view *view, uint64_t sequence, struct buffer *der,
                             struct error *err)
{
    const struct document_proof_query query = {ACTION_RUNNER_CERTIFY, store->scope, DOCUMENT_RUNNER, sequence};
    OWNED(permit) *permit = permit_to_certify(store);
    OWNED(document_proof) *proof = NULL;

    TRY(document_prove(permit, store->pg, view, &query, &proof, err));
    return keyd_certify_runner(keyd_process_client(store->log.keyd), &proof->request, der, err);
}

static void check_certificate(struct store *store, unsigned holder, struct bytes der)
{
    uint8_t point[ECDSA_PUBLIC_SIZE];
    struct keyd_identity identity;
    struct runner_certificate read;
    struct uuid runner;
    struct error err = {0};

    assert_true(keyd_identify(keyd_process_client(store->log.keyd), &identity, &err).ok);
    if (!runner_certificate_read(der, identity.runner_authority, &read, &err).ok) fail_msg("%s", err.message);
    assert_true(uuid_parse(bytes_of_text(RUNNER), &runner) && uuid_equal(&runner, &read.runner));
    ecdsa_key_public(store->holders[holder], point);
    assert_memory_equal(read.point, point, sizeof point);
    assert_true(runner_certificate_is_current(&read, clock_wall_ms()));
}

static void each_runner_in_force_gets_a_certificate(void **state)
{
    struct store store;

    (void)state;
    store_open(&store);
    for (unsigned i = 0; i < 3; i++) record_runner(&store, i, 1);
    look_well(&store);
    for (unsigned i = 0; i < 3; i++) {
        struct buffer OWNED_BUFFER der = BUFFER(RUNNER_CERTIFICATE_MAX);
        const struct seen seen = see_runner(&store, store.view, i);
        struct error err = {0};
        assert_true(seen.is_in_force);
        if (!certify(&store, store.view, seen.sequence, &der, &err).ok) fail_msg("%s", err.message);
        check_certificate(&store, i, buffer_bytes(&der));
        assert_false(certify(&store, store.view, seen.sequence + 1000, &der, &err).ok);
        assert_int_equal(err.kind, ERROR_NOT_FOUND);
    }
    store_close(&store);
}

static void a_gateway_that_lags_behind_makes_the_proof_anew(void **state)
{
    struct buffer OWNED_BUFFER der = BUFFER(RUNNER_CERTIFICATE_MAX);
    OWNED(document_view) *other = NULL;
    struct store store;
    struct error err = {0};

    (void)state;
    store_open(&store);
    assert_true(document_view_new(&other, &err).ok);
    record_runner(&store, 0, 1);
    look_well(&store);
    const struct seen first = see_runner(&store, other, 0);
    record_runner(&store, 1, 1);
    look_well(&store);
    assert_false(certify(&store, other, first.sequence, &der, &err).ok);
    assert_int_equal(err.kind, ERROR_CONFLICT);
    assert_true(follow(&store, other, &err).ok);
    assert_true(certify(&store, other, first.sequence, &der, &err).ok);
    check_certificate(&store, 0, buffer_bytes(&der));
    document_view_free(GIVE(other));
    store_close(&store);
}

static void another_gateway_sees_a_withdrawal_at_once(void **state)
{
    OWNED(document_view) *other = NULL;
    struct store store;
    struct error err = {0};

    (void)state;
    store_open(&store);
    assert_true(document_view_new(&other, &err).ok);
    record_runner(&store, 0, 1);
    look_well(&store);
    assert_true(see_runner(&store, other, 0).is_in_force);
    record_runner(&store, 0, 2);
    look_well(&store);
    const struct seen seen = see_runner(&store, other, 0);
    assert_true(!seen.is_in_force && seen.version == 2);
    document_view_free(GIVE(other));
    store_close(&store);
}

static struct result read_since(void *context, const struct pinned_document *pinned, struct error *err)
{
    struct runner_key key;

    TRY(runner_key_read(pinned->document, &key, err));
    *(int64_t *)context = key.since_ms;
    return SUCCESS;
}

/* Two approvers withdraw it at once, or one learns that it was stolen earlier: the order in the log does not matter. */
static void of_withdrawals_the_earliest_since_counts(void **state)
{
    static const char *const orders[2][2] = {{"2026-11-18T00:00:00Z", "2026-11-17T00:00:00Z"},
                                             {"2026-11-17T00:00:00Z", "2026-11-18T00:00:00Z"}};
    struct store store;
    struct error err = {0};

    (void)state;
    store_open(&store);
    for (unsigned i = 0; i < 2; i++) {
        char name[ECDSA_THUMBPRINT_SIZE], text[CLOCK_TEXT_SIZE];
        int64_t since_ms = 0;
        record_runner(&store, i, 1);
        for (unsigned j = 0; j < 2; j++) {
            since = orders[i][j];
            record_runner(&store, i, 2);
        }
        for (unsigned j = 0; j < 2; j++) { /* as it came, and read anew from the log */
            look_well(&store);
            holder_name(&store, i, name);
            assert_true(document_view_visit_name(store.view, DOCUMENT_RUNNER, name, read_since, &since_ms, &err).ok);
            clock_format(since_ms, text);
            assert_string_equal(text, "2026-11-17T00:00:00.000Z");
            assert_false(see_runner(&store, store.view, i).is_in_force);
            forget(&store);
        }
    }
    store_close(&store);
}

static void other_envelopes_than_the_pinned_ones_prove_nothing(void **state)
{
    struct buffer OWNED_BUFFER der = BUFFER(RUNNER_CERTIFICATE_MAX);
    OWNED(document_proof) *proof = NULL;
    struct made_document made;
    struct store store;
    struct error err = {0};

    (void)state;
    store_open(&store);
    record_runner(&store, 0, 1);
    look_well(&store);
    const struct seen seen = see_runner(&store, store.view, 0);
    const struct document_proof_query query = {ACTION_RUNNER_CERTIFY, store.scope, DOCUMENT_RUNNER, seen.sequence};
    OWNED(permit) *permit = permit_to_certify(&store);
    if (!document_prove(permit, store.pg, store.view, &query, &proof, &err).ok) fail_msg("%s", err.message);
    make_runner(&store, 1, 1, &made);
    for (size_t i = 0; i < 2; i++) proof->request.envelopes[i] = made.views[i];
    assert_false(keyd_certify_runner(keyd_process_client(store.log.keyd), &proof->request, &der, &err).ok);
    assert_int_equal(err.kind, ERROR_DENIED);
    assert_int_equal(see_runner(&store, store.view, 1).version, 0);
    made_done(&made);
    document_proof_free(GIVE(proof));
    store_close(&store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_runner_in_force_gets_a_certificate),
        cmocka_unit_test(a_gateway_that_lags_behind_makes_the_proof_anew),
        cmocka_unit_test(another_gateway_sees_a_withdrawal_at_once),
        cmocka_unit_test(of_withdrawals_the_earliest_since_counts),
        cmocka_unit_test(other_envelopes_than_the_pinned_ones_prove_nothing),
    };

    return cmocka_run_group_tests_name("runners in the store", tests, NULL, NULL);
}
