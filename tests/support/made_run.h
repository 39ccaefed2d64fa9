/*
 * tests/support/made_run.h -- the envelopes of a run from docs/formats/run-vectors.json, changed and signed again. The header
 * has definitions, so only one source file of a program may include it.
 */
#pragma once

#include "tests/support/unit.h"

#include <stdio.h>

#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "training/format/chain.h"

static const char *const made_signers[RUN_TYPES] = {
    [RUN_REQUEST] = "requester",  [RUN_APPROVAL] = "approver", [RUN_ORDER] = "keyd",     [RUN_LEASE] = "keyd",
    [RUN_CERTIFICATE] = "runner", [RUN_RESULT] = "attempt",    [RUN_ADMISSION] = "keyd", [RUN_REFUSAL] = "runner"};
static const char *const made_types[RUN_TYPES] = {[RUN_REQUEST] = "application/vnd.sijil.run-request.v1+json",
                                                  [RUN_APPROVAL] = "application/vnd.sijil.run-approval.v1+json",
                                                  [RUN_ORDER] = "application/vnd.sijil.run-order.v1+json",
                                                  [RUN_LEASE] = "application/vnd.sijil.run-lease.v1+json",
                                                  [RUN_CERTIFICATE] = "application/vnd.sijil.run-certificate.v1+json",
                                                  [RUN_RESULT] = "application/vnd.in-toto+json",
                                                  [RUN_ADMISSION] = "application/vnd.in-toto+json",
                                                  [RUN_REFUSAL] = "application/vnd.sijil.run-refusal.v1+json"};
#define MADE_REFUSED 3 /* the bundle of a run that was refused */

static inline json_t *made_vectors(void)
{
    struct buffer OWNED_BUFFER text = BUFFER(1 << 20);
    json_t *vectors = NULL;
    struct error err = {0};

    assert_true(file_read(RUN_VECTORS, &text, &err).ok);
    assert_true(json_read(buffer_bytes(&text), 1 << 20, &vectors, &err).ok);
    return vectors;
}

static inline const json_t *made_bundle(const json_t *vectors, size_t number)
{
    return json_object_get(json_array_get(json_object_get(vectors, "bundles"), number), "bundle");
}

#define MADE_MANIFESTS 5 /* the bundle of a run with manifests, in a log of its own */
#define MADE_NODES     4 /* the bundle of a run of two nodes, in a log of its own */
#define MADE_RULE      6 /* the bundle of a run by a trust rule, likewise */

/** The key of the log of a bundle. */
static inline const char *made_vkey(const json_t *vectors, size_t number)
{
    const char *own = json_text_of(json_array_get(json_object_get(vectors, "bundles"), number), "vkey");

    return own != NULL ? own : json_text_of(vectors, "vkey");
}

static inline struct ecdsa_key *made_key(const json_t *vectors, const char *who)
{
    OWNED(secret) *scalar = NULL;
    struct ecdsa_key *key = NULL;
    uint8_t bytes[ECDSA_SCALAR_SIZE];
    struct error err = {0};

    assert_true(text_from_hex(bytes_of_text(json_text_of(json_object_get(vectors, "scalars"), who)), bytes, sizeof bytes));
    assert_true(secret_copy((struct bytes){bytes, sizeof bytes}, &scalar, &err).ok);
    assert_true(ecdsa_key_from_scalar(scalar, &key, &err).ok);
    return key;
}

/* The payloads of one run, before they are signed: one approval. */
struct made_run {
    json_t *vectors;
    json_t *payloads[RUN_TYPES];
    struct ecdsa_key *keys[RUN_TYPES];
    struct buffer envelopes[RUN_TYPES];
    struct run_envelope *read[RUN_TYPES];
    struct run_chain chain;
};

static inline json_t *made_payload(const char *envelope)
{
    OWNED(dsse) *dsse = NULL;
    json_t *payload = NULL;
    struct error err = {0};

    assert_true(dsse_read(bytes_of_text(envelope), RUN_ENVELOPE_MAX, &dsse, &err).ok);
    assert_true(json_read(buffer_bytes(&dsse->payload), RUN_PAYLOAD_MAX, &payload, &err).ok);
    return payload;
}

static inline void made_run_begin(struct made_run *made)
{
    *made = (struct made_run){.vectors = made_vectors()};
    for (enum run_type type = 0; type < RUN_TYPES; type++) {
        const json_t *bundle = made_bundle(made->vectors, type == RUN_REFUSAL ? MADE_REFUSED : 0);
        const char *text = type == RUN_APPROVAL ? json_string_value(json_array_get(json_object_get(bundle, "approvals"), 0))
                                                : json_text_of(bundle, run_type_name(type));
        made->payloads[type] = made_payload(text);
        made->keys[type] = made_key(made->vectors, made_signers[type]);
        made->envelopes[type] = BUFFER(RUN_ENVELOPE_MAX + 4096);
    }
}

/* The object that holds the last name of `path`, which is returned in *name_out; "0" is an element of a list. */
static inline json_t *made_holder(json_t *payload, const char *path, char name_out[64])
{
    char copy[256];
    char *next = copy, *part = NULL;

    assert_true(snprintf(copy, sizeof copy, "%s", path) < (int)sizeof copy);
    while ((part = strsep(&next, ".")) != NULL && next != NULL)
        payload = json_is_array(payload) ? json_array_get(payload, strtoul(part, NULL, 10)) : json_object_get(payload, part);
    assert_non_null(payload);
    (void)snprintf(name_out, 64, "%s", part);
    return payload;
}

/** Sets the member at `path` to the JSON `value`, or removes it if `value` is NULL. */
static inline void made_set(struct made_run *made, enum run_type type, const char *path, const char *value)
{
    char name[64];
    json_t *holder = made_holder(made->payloads[type], path, name);
    json_error_t reason;
    json_t *set = value == NULL ? NULL : json_loads(value, JSON_DECODE_ANY, &reason);

    assert_true(value == NULL || set != NULL);
    if (json_is_array(holder)) {
        const size_t at = strtoul(name, NULL, 10);
        if (set == NULL) assert_int_equal(json_array_remove(holder, at), 0);
        else if (at == json_array_size(holder)) assert_int_equal(json_array_append_new(holder, set), 0);
        else assert_int_equal(json_array_set_new(holder, at, set), 0);
    } else if (set == NULL) {
        assert_int_equal(json_object_del(holder, name), 0);
    } else {
        assert_int_equal(json_object_set_new(holder, name, set), 0);
    }
}

static inline void made_link(struct made_run *made, enum run_type type, const char *path, enum run_type below, bool is_hex)
{
    char quoted[RUN_DIGEST_TEXT + 2];

    (void)snprintf(quoted, sizeof quoted, "\"%s\"", made->read[below]->digest + (is_hex ? 7 : 0));
    made_set(made, type, path, quoted);
}

/* Names the envelopes below anew, so that a row changes one thing alone. */
static inline void made_relink(struct made_run *made, enum run_type type)
{
    static const enum run_type attested[] = {RUN_REQUEST, RUN_APPROVAL, RUN_ORDER, RUN_LEASE, RUN_RESULT};
    char path[96];

    if (type == RUN_APPROVAL || type == RUN_ORDER) made_link(made, type, "request", RUN_REQUEST, false);
    if (type == RUN_ORDER) made_link(made, type, "approvals.0", RUN_APPROVAL, false);
    if (type == RUN_LEASE) made_link(made, type, "order", RUN_ORDER, false);
    if (type == RUN_RESULT) made_link(made, type, "predicate.buildDefinition.externalParameters.order", RUN_ORDER, false);
    if (type == RUN_RESULT) made_link(made, type, "predicate.buildDefinition.externalParameters.lease", RUN_LEASE, false);
    if (type == RUN_CERTIFICATE) made_link(made, type, "order", RUN_ORDER, false);
    if (type == RUN_CERTIFICATE) made_link(made, type, "lease", RUN_LEASE, false);
    if (type == RUN_RESULT)
        made_link(made, type, "predicate.buildDefinition.externalParameters.certificate", RUN_CERTIFICATE, false);
    if (type == RUN_REFUSAL) made_link(made, type, "lease", RUN_LEASE, false);
    for (size_t i = 0; type == RUN_ADMISSION && i < COUNT(attested); i++) {
        (void)snprintf(path, sizeof path, "predicate.inputAttestations.%zu.digest.sha256", i);
        made_link(made, type, path, attested[i], true);
    }
}

static inline struct result made_sign(struct made_run *made, enum run_type type, struct error *err)
{
    struct buffer OWNED_BUFFER payload = BUFFER(2 * RUN_PAYLOAD_MAX);

    TRY(json_write_canonical(&payload, made->payloads[type], err));
    TRY(dsse_write(made_types[type], buffer_bytes(&payload), (const struct ecdsa_key *const *)&made->keys[type], 1,
                   &made->envelopes[type], err));
    return run_envelope_read(buffer_bytes(&made->envelopes[type]), type, &made->read[type], err);
}

/** Signs all payloads, each with the digests of those below it, unless its type is `stale`. Then reads and checks them. */
static inline struct result made_check(struct made_run *made, int stale, struct error *err)
{
    for (enum run_type type = 0; type < RUN_TYPES; type++) {
        if ((int)type != stale) made_relink(made, type);
        TRY(made_sign(made, type, err));
        TRY(run_check_signer(made->read[type], made->keys[type], err));
    }
    made->chain = (struct run_chain){.request = made->read[RUN_REQUEST],
                                     .approval_count = 1,
                                     .approvals = {made->read[RUN_APPROVAL]},
                                     .order = made->read[RUN_ORDER],
                                     .lease = made->read[RUN_LEASE],
                                     .certificate = made->read[RUN_CERTIFICATE],
                                     .result = made->read[RUN_RESULT],
                                     .admission = made->read[RUN_ADMISSION]};
    TRY(run_chain_check(&made->chain, err));
    struct run_chain refused = made->chain;
    refused.result = refused.admission = NULL;
    refused.refusal = made->read[RUN_REFUSAL];
    return run_chain_check(&refused, err);
}

static inline void made_run_release(struct made_run *made)
{
    for (enum run_type type = 0; type < RUN_TYPES; type++) {
        run_envelope_free(made->read[type]);
        buffer_done(&made->envelopes[type]);
        ecdsa_key_free(made->keys[type]);
        json_decref(made->payloads[type]);
    }
    json_decref(made->vectors);
}
#define OWNED_MADE_RUN __attribute__((cleanup(made_run_release))) struct made_run
