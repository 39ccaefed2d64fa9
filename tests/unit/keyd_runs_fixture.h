/*
 * tests/unit/keyd_runs_fixture.h -- a sijil-keyd that knows the keys of the vectors of docs/formats/run.md, and the bundle of their run. For one source file of
 * a program only: it defines what it declares.
 */
#pragma once

#include "tests/support/made_run.h"
#include "tests/unit/keyd_folder_fixture.h"

#include "crypto/digest.h"
#include "keyd/run_sign.h"
#include "training/format/compose.h"

static const uint8_t journal_key[JOURNAL_KEY_SIZE] = {7};
enum { NOW_S = 1795428060 }; /* 2026-11-23T10:01:00Z, a minute after the event */

/* What the policies of the day say in place of policy/run_day.h, and what was asked last. */
static struct {
    enum error_kind says;
    unsigned asked;
    uint8_t digest[32];
    bool has_root, has_lease, has_admission;
    int64_t now_ms;
    char region[64];
} policies;

static size_t bundle_number; /* of the vectors: 0, unless a test sets it before begin_without() */

struct world {
    struct folder folder;
    json_t *vectors, *bundle;
    struct ecdsa_key *key;
    struct run_ledger *runs;
    struct ledger *ledger;
    struct key_register *keys;
    struct run_signer signer;
    struct keyd_run wanted;
    uint64_t withdrawals;
    char *text;
};

static inline struct result decide_day(const struct run_bundle *bundle, const struct run_day *day, struct error *err)
{
    policies.asked++;
    memcpy(policies.digest, day->digest, sizeof policies.digest);
    policies.now_ms = day->now_ms;
    policies.has_root = day->root[0] == 4; /* an uncompressed point */
    policies.has_lease = bundle->chain.lease != NULL;
    policies.has_admission = bundle->chain.admission != NULL;
    (void)snprintf(policies.region, sizeof policies.region, "%s", bundle->has_runner ? bundle->runner.region : "");
    return policies.says == ERROR_NONE ? SUCCESS : failure(err, policies.says, "the policies of the day say no");
}

static inline void open_runs(struct world *world)
{
    struct error err = {0};

    run_ledger_free(world->runs);
    world->runs = NULL;
    if (!run_ledger_open(world->folder.fd, journal_key, 1, &world->runs, &err).ok) fail_msg("%s", err.message);
    world->signer.runs = world->runs;
}

static inline void make_withdrawal(struct document *document)
{
    document->version = 2;
    document->is_withdrawn = true;
    if (document->kind == DOCUMENT_RUNNER)
        assert_int_equal(
            json_object_set_new(json_object_get(document->json, "body"), "since", json_string("2026-11-18T00:00:00Z")), 0);
}

static inline void name_of(const struct world *world, const char *who, char name_out[ECDSA_THUMBPRINT_SIZE])
{
    uint8_t point[ECDSA_PUBLIC_SIZE];

    OWNED(ecdsa_key) *named = made_key(world->vectors, who);
    ecdsa_key_public(named, point);
    ecdsa_thumbprint(point, name_out);
}

/* As if keyd had pinned this document. Its event in the bundle's log has its number in the list. */
static inline void note(struct world *world, const struct document *document, uint64_t sequence)
{
    const struct key_register_note noted = {.document = document,
                                            .sequence = sequence,
                                            .is_approved = document->kind == DOCUMENT_TRUST_RULE,
                                            .pin = {.epoch = sequence, .digest = {document->is_withdrawn ? 2 : 1}}};
    struct error err = {0};

    if (!key_register_note(world->keys, &noted, &err).ok) fail_msg("%s", err.message);
}

static inline struct document *document_number(const struct world *world, size_t number)
{
    const json_t *entry = json_array_get(json_object_get(made_bundle(world->vectors, bundle_number), "documents"), number);
    const struct bytes text = bytes_of_text(json_string_value(json_array_get(json_object_get(entry, "envelopes"), 0)));
    struct document *document = NULL;
    struct error err = {0};

    assert_true(document_read(&text, 1, &document, &err).ok);
    return document;
}

static inline struct document *document_of(const struct world *world, const char *who)
{
    char name[ECDSA_THUMBPRINT_SIZE];

    name_of(world, who, name);
    for (size_t i = 0;; i++) {
        struct document *document = document_number(world, i);
        if (strcmp(document->name, name) == 0) return document;
        document_free(document);
    }
}

#define RULE "gh-train" /* the trust rule of the bundle MADE_RULE */

/* `unpinned`: somebody whose document keyd has not pinned, or RULE; NULL: nobody. */
static inline void note_all(struct world *world, const char *unpinned)
{
    char name[ECDSA_THUMBPRINT_SIZE] = "";

    if (unpinned != NULL && strcmp(unpinned, RULE) == 0) (void)snprintf(name, sizeof name, "%s", RULE);
    else if (unpinned != NULL) name_of(world, unpinned, name);
    for (size_t i = 0; i < json_array_size(json_object_get(made_bundle(world->vectors, bundle_number), "documents")); i++) {
        OWNED(document) *document = document_number(world, i);
        if (strcmp(document->name, name) != 0) note(world, document, i);
    }
}

static inline void withdraw_key_of(struct world *world, const char *who)
{
    OWNED(document) *document = document_of(world, who);
    struct error err = {0};

    make_withdrawal(document);
    note(world, document, 100 + world->withdrawals++);
    assert_false(key_register_check(world->keys, document->name, &err).ok);
}

static inline void begin_without(struct world *world, const char *unpinned)
{
    struct error err = {0};

    *world = (struct world){.vectors = made_vectors()};
    memset(&policies, 0, sizeof policies);
    folder_make(&world->folder);
    assert_true(run_ledger_create(world->folder.fd, journal_key, 0, &err).ok);
    assert_true(ledger_create(world->folder.fd, journal_key, &err).ok);
    assert_true(ledger_open(world->folder.fd, journal_key, &world->ledger, &err).ok);
    assert_true(key_register_open(world->folder.fd, journal_key, world->ledger, &world->keys, &err).ok);
    world->key = made_key(world->vectors, "keyd");
    world->signer = (struct run_signer){.key = world->key,
                                        .tokens = {world->key},
                                        .token_count = 1,
                                        .origin = "sijil.example/audit",
                                        .log_key = bytes_of_text(made_vkey(world->vectors, bundle_number)),
                                        .policy = {.epoch = 7},
                                        .keys = world->keys,
                                        .check_day = decide_day,
                                        .now_ms = (int64_t)NOW_S * 1000};
    note_all(world, unpinned);
    open_runs(world);
    sha256_of(bytes_of_text("policy"), world->signer.policy.digest);
    assert_true(text_from_hex(bytes_of_text(json_text_of(json_object_get(world->vectors, "points"), "root")), world->signer.root,
                              sizeof world->signer.root));
    world->bundle = json_deep_copy(made_bundle(world->vectors, bundle_number));
    for (enum run_type type = RUN_ORDER; type <= RUN_ADMISSION; type++)
        assert_int_equal(json_object_del(world->bundle, run_type_name(type)), 0);
    (void)json_object_del(world->bundle, "peers");
    world->wanted = (struct keyd_run){.lifetime_s = 86400,
                                      .jurisdiction_count = 2,
                                      .jurisdictions = {bytes_of_text("AE"), bytes_of_text("AE-FED")},
                                      .approvals = 1,
                                      .attempts = 3,
                                      .signed_request = true,
                                      .attempt = 1};
}

static inline void release(struct world *world)
{
    run_ledger_free(world->runs);
    key_register_free(world->keys);
    ledger_free(world->ledger);
    json_decref(world->bundle);
    json_decref(world->vectors);
    ecdsa_key_free(world->key);
    free(world->text);
    folder_remove(&world->folder);
}
#define OWNED_WORLD __attribute__((cleanup(release))) struct world

typedef struct result signing(const struct run_signer *signer, const struct keyd_run *wanted, struct buffer *envelope,
                              struct error *err);

static inline enum error_kind ask(struct world *world, signing *sign, struct buffer *envelope, struct error *err)
{
    free(world->text);
    world->text = json_dumps(world->bundle, JSON_COMPACT);
    world->wanted.bundle = bytes_of_text(world->text);
    buffer_truncate(envelope, 0);
    return sign(&world->signer, &world->wanted, envelope, err).ok ? ERROR_NONE : err->kind;
}

/* The certificate that the runner `who` makes for a lease; its key is `attempt`. */
static inline struct run_envelope *certify(const struct world *world, const struct run_envelope *lease, const char *who,
                                           const char *attempt, struct buffer *envelope)
{
    struct buffer OWNED_BUFFER payload = BUFFER(RUN_PAYLOAD_MAX);
    OWNED(ecdsa_key) *runner = made_key(world->vectors, who), *key = made_key(world->vectors, attempt);
    struct run_certificate_parts parts = {.run = run_text(lease, "run"),
                                          .audience = run_text(lease, "audience"),
                                          .order = run_text(lease, "order"),
                                          .lease = lease->digest,
                                          .attempt = run_integer(lease, "attempt"),
                                          .node = run_integer(lease, "node"),
                                          .not_before_ms = run_time(lease, "not_before"),
                                          .expires_ms = run_time(lease, "expires")};
    struct run_envelope *read = NULL;
    struct error err = {0};

    ecdsa_key_public(runner, parts.runner);
    ecdsa_key_public(key, parts.key);
    if (!run_certificate_write(&parts, &payload, &err).ok) fail_msg("%s", err.message);
    assert_true(run_sign(RUN_CERTIFICATE, buffer_bytes(&payload), runner, envelope, &err).ok);
    if (!run_envelope_read(buffer_bytes(envelope), RUN_CERTIFICATE, &read, &err).ok) fail_msg("%s", err.message);
    return read;
}

static inline void add(struct world *world, enum run_type type, const struct buffer *envelope)
{
    assert_int_equal(json_object_set_new(world->bundle, run_type_name(type), json_string(buffer_text(envelope))), 0);
}

static inline const char *envelope_text(const struct world *world, enum run_type type)
{
    if (type != RUN_APPROVAL) return json_text_of(world->bundle, run_type_name(type));
    return json_string_value(json_array_get(json_object_get(world->bundle, "approvals"), 0));
}

/** Leaves the lease in `envelope`. */
static inline void sign_order_and_lease(struct world *world, struct buffer *envelope)
{
    char runner[ECDSA_THUMBPRINT_SIZE];
    struct error err = {0};

    name_of(world, "runner", runner);
    assert_int_equal(ask(world, run_sign_order, envelope, &err), ERROR_NONE);
    add(world, RUN_ORDER, envelope);
    world->wanted.lifetime_s = 600;
    world->wanted.key = bytes_of_text(runner);
    if (ask(world, run_sign_lease, envelope, &err) != ERROR_NONE) fail_msg("%s", err.message);
    world->wanted.key = bytes_of_text("");
}

/** What the runner says after the lease, signed with the key `signer`; its certificate is by `runner`. */
static inline void add_result_by(struct world *world, const char *runner, const char *signer)
{
    const char zeros[] = "0000000000000000000000000000000000000000000000000000000000000000";
    struct buffer OWNED_BUFFER payload = BUFFER(RUN_PAYLOAD_MAX), envelope = BUFFER(RUN_ENVELOPE_MAX);
    struct buffer OWNED_BUFFER certified = BUFFER(RUN_ENVELOPE_MAX);
    const struct run_subject output = {"model", zeros};
    const struct run_device device = {"GPU-0001", "gpu", "535.1", 1LL << 34, 64};
    const struct run_result_parts parts = {.outputs = &output,
                                           .output_count = 1,
                                           .log = zeros,
                                           .metrics = zeros,
                                           .started_ms = world->signer.now_ms + 1000,
                                           .finished_ms = world->signer.now_ms + 2000,
                                           .status = "succeeded",
                                           .reason = "",
                                           .wall_ms = 1000,
                                           .cpu_ms = 900,
                                           .memory_bytes = 1LL << 29,
                                           .output_bytes = 4096,
                                           .log_bytes = 2048,
                                           .device_ms = 700,
                                           .isolation = "cgroup-v2",
                                           .devices = &device,
                                           .device_count = 1};
    struct run_envelope *read[RUN_CERTIFICATE] = {NULL};
    struct error err = {0};

    OWNED(ecdsa_key) *key = made_key(world->vectors, signer);
    for (enum run_type type = 0; type < RUN_CERTIFICATE; type++)
        assert_true(run_envelope_read(bytes_of_text(envelope_text(world, type)), type, &read[type], &err).ok);
    OWNED(run_envelope) *certificate = certify(world, read[RUN_LEASE], runner, "attempt", &certified);
    add(world, RUN_CERTIFICATE, &certified);
    const struct run_chain chain = {.request = read[RUN_REQUEST],
                                    .approval_count = 1,
                                    .approvals = {read[RUN_APPROVAL]},
                                    .order = read[RUN_ORDER],
                                    .lease = read[RUN_LEASE],
                                    .certificate = certificate};
    if (!run_result_write(&chain, &parts, &payload, &err).ok) fail_msg("%s", err.message);
    assert_true(run_sign(RUN_RESULT, buffer_bytes(&payload), key, &envelope, &err).ok);
    add(world, RUN_RESULT, &envelope);
    for (enum run_type type = 0; type < RUN_CERTIFICATE; type++) run_envelope_free(read[type]);
}

static inline void add_result(struct world *world)
{
    add_result_by(world, "runner", "attempt");
}
