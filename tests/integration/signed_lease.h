/*
 * tests/integration/signed_lease.h -- leases, orders and admissions that sijil-keyd has signed, with the key of the vectors. The header has definitions, so only
 * one source file of a program may include it.
 */
#pragma once

#include "tests/support/made_run.h"
#include "training/format/compose.h"

/** The key of sijil-keyd; `who` of the vectors' scalars, such as "keyd". It stays until the program ends. */
static inline const struct ecdsa_key *signer_of(const char *who)
{
    static struct ecdsa_key *keyd, *other;
    struct ecdsa_key **key = strcmp(who, "keyd") == 0 ? &keyd : &other;

    if (*key != NULL) return *key; /* a test may let the next call fail */
    OWNED_JSON vectors = made_vectors();
    *key = made_key(vectors, who);
    return *key;
}

static inline const char *signed_payload(enum run_type type, const json_t *payload, const char *who)
{
    static char text[16384]; /* an order of the vectors has some thousand bytes */
    struct buffer OWNED_BUFFER canonical = BUFFER(RUN_PAYLOAD_MAX), envelope = BUFFER(sizeof text - 1);
    struct error err = {0};

    must(json_write_canonical(&canonical, payload, &err), &err);
    must(run_sign(type, buffer_bytes(&canonical), signer_of(who), &envelope, &err), &err);
    (void)snprintf(text, sizeof text, "%s", buffer_text(&envelope));
    return text;
}

/** The envelope of an order for this run, signed by `who`. The next call of any of these functions writes over it. */
static inline const char *signed_order(const char *run, const char *expires, const char *who)
{
    OWNED_JSON vectors = made_vectors();
    OWNED_JSON payload = made_payload(json_text_of(made_bundle(vectors, 0), "order"));

    assert_int_equal(json_object_set_new(payload, "run", json_string(run)), 0);
    assert_int_equal(json_object_set_new(payload, "expires", json_string(expires)), 0);
    return signed_payload(RUN_ORDER, payload, who);
}

/** The envelope of an admission of this run. */
static inline const char *signed_admission(const char *run, const char *who)
{
    OWNED_JSON vectors = made_vectors();
    OWNED_JSON payload = made_payload(json_text_of(made_bundle(vectors, 0), "admission"));
    char uri[64];

    (void)snprintf(uri, sizeof uri, "urn:uuid:%s", run);
    assert_int_equal(json_object_set_new(json_object_get(payload, "predicate"), "resourceUri", json_string(uri)), 0);
    return signed_payload(RUN_ADMISSION, payload, who);
}

/** The envelope of a lease of node 0 for this run, attempt and runner's key, signed by `who`. The next call writes over it. */
static inline const char *signed_lease(const char *run, int attempt, const char *runner, const char *who)
{
    OWNED_JSON vectors = made_vectors();
    OWNED_JSON payload = made_payload(json_text_of(made_bundle(vectors, 0), "lease"));

    assert_int_equal(json_object_set_new(payload, "run", json_string(run)), 0);
    assert_int_equal(json_object_set_new(payload, "attempt", json_integer(attempt)), 0);
    assert_int_equal(json_object_set_new(payload, "node", json_integer(0)), 0);
    assert_int_equal(json_object_set_new(json_object_get(payload, "runner"), "key", json_string(runner)), 0);
    return signed_payload(RUN_LEASE, payload, who);
}
