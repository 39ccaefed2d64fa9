/*
 * tests/unit/keyd_replacement_fixture.h -- a ledger, a register of keys and the replaced keys of sijil-keyd, with a log in memory that counts as signed. An approver, and an administrator by a
 * document of officers. The header has definitions, so only one source file of a program may include it.
 */
#pragma once

#include "tests/unit/keyd_register_fixture.h"

#include "audit/format/leaf.h"
#include "audit/format/merkle.h"
#include "documents/format/break_glass.h"
#include "documents/format/officers.h"
#include "documents/format/signing_key.h"
#include "keyd/document_pin.h"

#define HEX16  "0123456789abcdef"
#define ALICE  "ext:" HEX16 HEX16 HEX16 HEX16
#define MARY   "ext:" HEX16 HEX16 HEX16 "0000000000000000"
#define BOB    "ext:" HEX16 HEX16 HEX16 "1111111111111111"
#define HOUR   INT64_C(3600000)
#define ENDS   (365 * 24 * HOUR)
#define NOW_MS INT64_C(1790000000000)

/* ---- a log in memory, which the ledger has signed ---- */

static struct merkle_hash leaves[128];

static struct result node(struct merkle_source *source, unsigned level, uint64_t index, struct merkle_hash *hash_out,
                          struct error *err)
{
    struct merkle_hash left, right;

    if (level == 0) {
        *hash_out = leaves[index];
        return SUCCESS;
    }
    TRY(node(source, level - 1, 2 * index, &left, err));
    TRY(node(source, level - 1, 2 * index + 1, &right, err));
    merkle_node_hash(&left, &right, hash_out);
    return SUCCESS;
}

static struct merkle_source source = {.node = node};

static struct result sign_log(const void *context, struct ledger_state *state, struct error *err)
{
    struct merkle_hash root;

    state->log_size = *(const uint64_t *)context;
    TRY(merkle_root_at(&source, state->log_size, &root, err));
    memcpy(state->log_root, root.bytes, sizeof state->log_root);
    return SUCCESS;
}

/* ---- the world ---- */

static struct world world;
static struct replacements *replacements;
static uint64_t size;
static int64_t now_ms;
static struct ecdsa_key *root, *approver, *first, *second, *stranger;

static enum error_kind open_replacements(void)
{
    struct error err = {0};

    replacements_free(replacements);
    replacements = NULL;
    return replacements_open(world.folder.fd, ledger_key, world.ledger, &replacements, &err).ok ? ERROR_NONE : err.kind;
}

static struct replacement_place place(void)
{
    return (struct replacement_place){replacements, world.ledger, world.keys};
}

/* What signs, and what it signs. */
struct wanted {
    const struct ecdsa_key *key, *signers[3];
    const char *principal, *withdrawn, *action;
    const struct ecdsa_key *replaces;
    enum signing_purpose purpose;
    int64_t later_ms; /* another document of the same key */
};

static void compose(const struct wanted *wanted, struct buffer *payload)
{
    struct signing_key key = {.purpose = wanted->purpose};
    char name[ECDSA_THUMBPRINT_SIZE];
    struct error err = {0};

    ecdsa_key_public(wanted->key, key.point);
    if (wanted->replaces != NULL) ecdsa_key_public(wanted->replaces, key.replaces);
    (void)snprintf(key.principal, sizeof key.principal, "%s", wanted->principal);
    signing_key_name(&key, name);
    OWNED_JSON body = signing_key_body(&key);
    const struct document_parts parts = {.kind = DOCUMENT_SIGNING_KEY,
                                         .scope = "",
                                         .name = name,
                                         .body = body,
                                         .version = wanted->withdrawn == NULL ? 1 : 2,
                                         .withdrawn = wanted->withdrawn,
                                         .effective_ms = NOW_MS + wanted->later_ms,
                                         .expires_ms = NOW_MS + ENDS};
    if (!document_compose(&parts, payload, &err).ok) fail_msg("%s", err.message);
}

static void add_event(const struct document *document, const char *action, struct buffer *text)
{
    static struct leaf leaf;
    char detail[DOCUMENT_DETAIL_SIZE];
    struct error err = {0};

    leaf = (struct leaf){.version = 1,
                         .sequence = size,
                         .time_ms = 1, /* what the event says of the time counts for nothing */
                         .source = {"gw1", 1, size + 1},
                         .class_uid = 600301,
                         .actor = "system",
                         .target_count = 1,
                         .outcome = "allowed"};
    document_detail(document, detail);
    (void)snprintf(leaf.targets[0].action, sizeof leaf.targets[0].action, "%s", action);
    (void)snprintf(leaf.targets[0].resource, sizeof leaf.targets[0].resource, "%s#%s", document->scope, detail);
    leaf_fill_keys(&leaf);
    for (size_t i = 0; i < leaf.key_count; i++) leaf.keys[i].ordinal = 1;
    if (!leaf_write(&leaf, text, &err).ok) fail_msg("%s", err.message);
    merkle_leaf_hash(buffer_bytes(text), &leaves[size++]);
    assert_true(ledger_change(world.ledger, sign_log, &size, &err).ok);
}

typedef enum error_kind asking(const struct document_pin_request *request);

static enum error_kind pin_it(const struct document_pin_request *request)
{
    const struct document_place where = {.ledger = world.ledger, .keys = world.keys, .replacements = replacements};
    struct document_pin pinned;
    struct error err = {0};

    return document_pin(&where, request, now_ms, &pinned, &err).ok ? ERROR_NONE : err.kind;
}

static int64_t counts_ms;

static inline enum error_kind replace_it(const struct document_pin_request *request)
{
    const struct replacement_place where = place();
    struct error err = {0};

    return document_replace(&where, request, now_ms, &counts_ms, &err).ok ? ERROR_NONE : err.kind;
}

static enum error_kind record(enum document_kind kind, struct bytes payload, const struct ecdsa_key *const signers[3],
                              const char *action, asking *ask)
{
    struct buffer envelopes[3] = {BUFFER(16384), BUFFER(16384), BUFFER(16384)};
    struct buffer OWNED_BUFFER leaf = BUFFER(LEAF_MAX);
    struct document_pin_request request = {.sequence = size};
    struct merkle_proof proof = {0};
    OWNED(document) *document = NULL;
    struct error err = {0};

    for (size_t i = 0; i < 3 && signers[i] != NULL; i++) {
        assert_true(document_sign(kind, payload, signers[i], &envelopes[i], &err).ok);
        request.envelopes[request.envelope_count++] = buffer_bytes(&envelopes[i]);
    }
    if (!document_read(request.envelopes, request.envelope_count, &document, &err).ok) fail_msg("%s", err.message);
    add_event(document, action, &leaf);
    request.leaf = buffer_bytes(&leaf);
    request.size = size;
    assert_true(merkle_prove_inclusion(&source, request.sequence, size, &proof, &err).ok);
    request.proof_count = proof.count;
    for (size_t i = 0; i < proof.count; i++) memcpy(request.proof[i], proof.hashes[i].bytes, 32);
    const enum error_kind kind_of = ask(&request);
    for (size_t i = 0; i < 3; i++) buffer_done(&envelopes[i]);
    return kind_of;
}

static enum error_kind enrol(const struct wanted *wanted)
{
    struct buffer OWNED_BUFFER payload = BUFFER(8192);
    const char *usual = wanted->withdrawn == NULL ? "key.approve" : "key.revoke";

    compose(wanted, &payload);
    return record(DOCUMENT_SIGNING_KEY, buffer_bytes(&payload), wanted->signers, wanted->action == NULL ? usual : wanted->action,
                  pin_it);
}

static inline enum error_kind wait_for(const struct wanted *wanted)
{
    struct buffer OWNED_BUFFER payload = BUFFER(8192);

    compose(wanted, &payload);
    return record(DOCUMENT_SIGNING_KEY, buffer_bytes(&payload), wanted->signers,
                  wanted->action == NULL ? DOCUMENT_REPLACES : wanted->action, replace_it);
}

static uint64_t old_version; /* of the next document of officers; 0: a new one */

/* A document of the administrator "a", or another name; without a key it is withdrawn. */
static enum error_kind appoint_as(const char *name, const char *principal, const struct ecdsa_key *key)
{
    struct buffer OWNED_BUFFER payload = BUFFER(8192);
    const struct ecdsa_key *const signers[3] = {root, NULL, NULL};
    uint8_t point[ECDSA_PUBLIC_SIZE];
    char thumbprint[ECDSA_THUMBPRINT_SIZE];
    struct error err = {0};

    ecdsa_key_public(key == NULL ? first : key, point);
    ecdsa_thumbprint(point, thumbprint);
    const struct officer officer = {principal, thumbprint, OFFICERS_ADMINISTRATORS, "", 0};
    OWNED_JSON body = key == NULL ? json_object() : officer_body(&officer);
    const struct document_parts parts = {.kind = DOCUMENT_OFFICERS,
                                         .scope = "",
                                         .name = name,
                                         .body = body,
                                         .version = old_version > 0 ? old_version : size + 1,
                                         .withdrawn = key == NULL ? "the end" : NULL,
                                         .effective_ms = now_ms,
                                         .expires_ms = NOW_MS + ENDS};
    assert_true(document_compose(&parts, &payload, &err).ok);
    return record(DOCUMENT_OFFICERS, buffer_bytes(&payload), signers, key == NULL ? "officers.revoke" : "officers.approve",
                  pin_it);
}

static enum error_kind appoint(const char *principal, const struct ecdsa_key *key)
{
    return appoint_as(OFFICERS_ADMINISTRATORS ".a", principal, key);
}

static inline void restart(void)
{
    replacements_free(replacements);
    replacements = NULL;
    key_register_free(world.keys);
    world.keys = NULL;
    ledger_free(world.ledger);
    world.ledger = NULL;
    struct error err = {0};
    assert_true(ledger_open(world.folder.fd, ledger_key, &world.ledger, &err).ok);
    assert_int_equal(open_register(&world), ERROR_NONE);
    assert_int_equal(open_replacements(), ERROR_NONE);
}

static struct wanted enrolment(const struct ecdsa_key *key, const char *principal)
{
    return (struct wanted){.key = key, .signers = {key, approver, NULL}, .principal = principal, .purpose = SIGNING_SIGN};
}

/* Mary approves; Alice has the first key, and is an administrator by it. */
static int set_up(void **state)
{
    uint8_t point[ECDSA_PUBLIC_SIZE];
    struct error err = {0};

    (void)state;
    begin(&world);
    size = 0;
    now_ms = NOW_MS;
    memset(leaves, 0, sizeof leaves);
    merkle_leaf_hash(bytes_of_text("the first entry of a log"), &leaves[size++]);
    struct ecdsa_key **const keys[] = {&root, &approver, &first, &second, &stranger};
    for (size_t i = 0; i < COUNT(keys); i++) assert_true(ecdsa_key_new(keys[i], &err).ok);
    ecdsa_key_public(root, point);
    assert_true(approver_pin(world.ledger, point, &err).ok);
    assert_int_equal(open_replacements(), ERROR_NONE);
    const struct wanted mary = {
        .key = approver, .signers = {approver, root, NULL}, .principal = MARY, .purpose = SIGNING_APPROVE};
    const struct wanted alice = enrolment(first, ALICE);
    assert_int_equal(enrol(&mary), ERROR_NONE);
    assert_int_equal(enrol(&alice), ERROR_NONE);
    assert_int_equal(appoint(ALICE, first), ERROR_NONE);
    return 0;
}

static int tear_down(void **state)
{
    struct ecdsa_key *const keys[] = {root, approver, first, second, stranger};

    (void)state;
    replacements_free(replacements);
    replacements = NULL;
    for (size_t i = 0; i < COUNT(keys); i++) ecdsa_key_free(keys[i]);
    release(&world);
    return 0;
}

static inline struct key_power power_of(const char *principal)
{
    const struct replacement_place where = place();
    uint8_t digest[DOCUMENT_DIGEST_SIZE];
    struct key_power power;

    sha256_of(bytes_of_text(principal), digest);
    replacements_power(&where, digest, &power);
    return power;
}
