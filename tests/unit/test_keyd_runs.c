/* sijil-keyd signs each order, lease and admission of a run that the vectors of docs/formats/run.md prove, once. */
#include "tests/support/made_run.h"
#include "tests/unit/keyd_folder_fixture.h"

#include "crypto/digest.h"
#include "keyd/run_sign.h"
#include "training/format/compose.h"

static const uint8_t journal_key[JOURNAL_KEY_SIZE] = {7};
enum { NOW_S = 1795428060 }; /* 2026-11-23T10:01:00Z, a minute after the event */

struct world {
    struct folder folder;
    json_t *vectors, *bundle;
    struct ecdsa_key *key;
    struct run_ledger *runs;
    struct ledger *ledger;
    struct key_register *keys;
    struct run_signer signer;
    struct keyd_run wanted;
    char *text;
};

static void open_runs(struct world *world)
{
    struct error err = {0};

    run_ledger_free(world->runs);
    world->runs = NULL;
    if (!run_ledger_open(world->folder.fd, journal_key, 1, &world->runs, &err).ok) fail_msg("%s", err.message);
    world->signer.runs = world->runs;
}

static void make_withdrawal(struct document *document)
{
    document->version = 2;
    document->is_withdrawn = true;
    if (document->kind == DOCUMENT_RUNNER)
        assert_int_equal(
            json_object_set_new(json_object_get(document->json, "body"), "since", json_string("2026-11-18T00:00:00Z")), 0);
}

static void name_of(const struct world *world, const char *who, char name_out[ECDSA_THUMBPRINT_SIZE])
{
    uint8_t point[ECDSA_PUBLIC_SIZE];

    OWNED(ecdsa_key) *named = made_key(world->vectors, who);
    ecdsa_key_public(named, point);
    ecdsa_thumbprint(point, name_out);
}

/* As if keyd had pinned this document. Its event in the bundle's log has its number in the list. */
static void note(struct world *world, const struct document *document, uint64_t sequence)
{
    const struct key_register_note noted = {
        .document = document, .sequence = sequence, .pin = {.epoch = sequence, .digest = {document->is_withdrawn ? 2 : 1}}};
    struct error err = {0};

    if (!key_register_note(world->keys, &noted, &err).ok) fail_msg("%s", err.message);
}

static struct document *document_number(const struct world *world, size_t number)
{
    const json_t *entry = json_array_get(json_object_get(made_bundle(world->vectors, 0), "documents"), number);
    const struct bytes text = bytes_of_text(json_string_value(json_array_get(json_object_get(entry, "envelopes"), 0)));
    struct document *document = NULL;
    struct error err = {0};

    assert_true(document_read(&text, 1, &document, &err).ok);
    return document;
}

static struct document *document_of(const struct world *world, const char *who)
{
    char name[ECDSA_THUMBPRINT_SIZE];

    name_of(world, who, name);
    for (size_t i = 0;; i++) {
        struct document *document = document_number(world, i);
        if (strcmp(document->name, name) == 0) return document;
        document_free(document);
    }
}

/* `unpinned`: somebody whose document keyd has not pinned; NULL: nobody. */
static void note_all(struct world *world, const char *unpinned)
{
    char name[ECDSA_THUMBPRINT_SIZE] = "";

    if (unpinned != NULL) name_of(world, unpinned, name);
    for (size_t i = 0; i < json_array_size(json_object_get(made_bundle(world->vectors, 0), "documents")); i++) {
        OWNED(document) *document = document_number(world, i);
        if (strcmp(document->name, name) != 0) note(world, document, i);
    }
}

static void withdraw_key_of(struct world *world, const char *who)
{
    OWNED(document) *document = document_of(world, who);
    struct error err = {0};

    make_withdrawal(document);
    note(world, document, 100);
    assert_false(key_register_check(world->keys, document->name, &err).ok);
}

static void begin_without(struct world *world, const char *unpinned)
{
    struct error err = {0};

    *world = (struct world){.vectors = made_vectors()};
    folder_make(&world->folder);
    assert_true(run_ledger_create(world->folder.fd, journal_key, 0, &err).ok);
    assert_true(ledger_create(world->folder.fd, journal_key, &err).ok);
    assert_true(ledger_open(world->folder.fd, journal_key, &world->ledger, &err).ok);
    assert_true(key_register_open(world->folder.fd, journal_key, world->ledger, &world->keys, &err).ok);
    world->key = made_key(world->vectors, "keyd");
    world->signer = (struct run_signer){.key = world->key,
                                        .log_key = bytes_of_text(json_text_of(world->vectors, "vkey")),
                                        .policy = {.epoch = 7},
                                        .keys = world->keys,
                                        .now_ms = (int64_t)NOW_S * 1000};
    note_all(world, unpinned);
    open_runs(world);
    sha256_of(bytes_of_text("policy"), world->signer.policy.digest);
    assert_true(text_from_hex(bytes_of_text(json_text_of(json_object_get(world->vectors, "points"), "root")), world->signer.root,
                              sizeof world->signer.root));
    world->bundle = json_deep_copy(made_bundle(world->vectors, 0));
    for (enum run_type type = RUN_ORDER; type <= RUN_ADMISSION; type++)
        assert_int_equal(json_object_del(world->bundle, run_type_name(type)), 0);
    world->wanted = (struct keyd_run){.lifetime_s = 86400,
                                      .jurisdiction_count = 2,
                                      .jurisdictions = {bytes_of_text("AE"), bytes_of_text("AE-FED")},
                                      .approvals = 1,
                                      .attempts = 3,
                                      .signed_request = true,
                                      .attempt = 1};
}

static void release(struct world *world)
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

static enum error_kind ask(struct world *world, signing *sign, struct buffer *envelope, struct error *err)
{
    free(world->text);
    world->text = json_dumps(world->bundle, JSON_COMPACT);
    world->wanted.bundle = bytes_of_text(world->text);
    buffer_truncate(envelope, 0);
    return sign(&world->signer, &world->wanted, envelope, err).ok ? ERROR_NONE : err->kind;
}

static void add(struct world *world, enum run_type type, const struct buffer *envelope)
{
    assert_int_equal(json_object_set_new(world->bundle, run_type_name(type), json_string(buffer_text(envelope))), 0);
}

static void an_order_is_signed_once(void **state)
{
    struct buffer OWNED_BUFFER first = BUFFER(RUN_ENVELOPE_MAX), second = BUFFER(RUN_ENVELOPE_MAX);
    OWNED(run_envelope) *one = NULL, *two = NULL;
    OWNED_WORLD world;
    struct error err = {0};

    (void)state;
    begin_without(&world, NULL);
    if (ask(&world, run_sign_order, &first, &err) != ERROR_NONE) fail_msg("%s", err.message);
    open_runs(&world); /* as after a crash */
    world.signer.now_ms += 5000;
    if (ask(&world, run_sign_order, &second, &err) != ERROR_NONE) fail_msg("%s", err.message);
    assert_true(run_envelope_read(buffer_bytes(&first), RUN_ORDER, &one, &err).ok);
    assert_true(run_envelope_read(buffer_bytes(&second), RUN_ORDER, &two, &err).ok);
    assert_string_equal(one->digest, two->digest);
    world.wanted.attempts = 4;
    assert_int_equal(ask(&world, run_sign_order, &second, &err), ERROR_CONFLICT);
    assert_int_equal(second.length, 0);
}

static void a_lease_is_for_one_runner(void **state)
{
    struct buffer OWNED_BUFFER envelope = BUFFER(RUN_ENVELOPE_MAX);
    uint8_t point[ECDSA_PUBLIC_SIZE];
    char runner[ECDSA_THUMBPRINT_SIZE], stranger[ECDSA_THUMBPRINT_SIZE];
    OWNED_WORLD world;
    struct error err = {0};

    (void)state;
    begin_without(&world, NULL);
    name_of(&world, "runner", runner);
    ecdsa_key_public(world.key, point);
    ecdsa_thumbprint(point, stranger);
    assert_int_equal(ask(&world, run_sign_order, &envelope, &err), ERROR_NONE);
    add(&world, RUN_ORDER, &envelope);
    world.wanted.lifetime_s = 600;
    world.wanted.key = bytes_of_text(stranger);
    assert_int_equal(ask(&world, run_sign_lease, &envelope, &err), ERROR_DENIED); /* it has no document */
    world.wanted.key = bytes_of_text(runner);
    world.wanted.attempt = 4;
    assert_int_equal(ask(&world, run_sign_lease, &envelope, &err), ERROR_DENIED); /* the order allows three */
    world.wanted.attempt = 1;
    if (ask(&world, run_sign_lease, &envelope, &err) != ERROR_NONE) fail_msg("%s", err.message);
    world.wanted.lifetime_s = 700; /* the promise has its own times */
    assert_int_equal(ask(&world, run_sign_lease, &envelope, &err), ERROR_NONE);
    /* The order of another ledger, though this key signed it. */
    add(&world, RUN_ORDER, &envelope);
    assert_int_equal(json_object_set(world.bundle, "order", json_object_get(made_bundle(world.vectors, 0), "order")), 0);
    assert_int_equal(ask(&world, run_sign_lease, &envelope, &err), ERROR_DENIED);
    assert_non_null(strstr(err.message, "is not in the ledger of sijil-keyd"));
}

/* Leaves the lease in `envelope`. */
static void sign_order_and_lease(struct world *world, struct buffer *envelope)
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

static const char *envelope_text(const struct world *world, enum run_type type)
{
    if (type != RUN_APPROVAL) return json_text_of(world->bundle, run_type_name(type));
    return json_string_value(json_array_get(json_object_get(world->bundle, "approvals"), 0));
}

/* What the runner says after the lease, signed with its key. */
static void add_result(struct world *world)
{
    const char zeros[] = "0000000000000000000000000000000000000000000000000000000000000000";
    struct buffer OWNED_BUFFER payload = BUFFER(RUN_PAYLOAD_MAX), envelope = BUFFER(RUN_ENVELOPE_MAX);
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
    struct run_envelope *read[RUN_RESULT] = {NULL};
    struct error err = {0};

    OWNED(ecdsa_key) *key = made_key(world->vectors, "runner");
    for (enum run_type type = 0; type < RUN_RESULT; type++)
        assert_true(run_envelope_read(bytes_of_text(envelope_text(world, type)), type, &read[type], &err).ok);
    const struct run_chain chain = {.request = read[RUN_REQUEST],
                                    .approval_count = 1,
                                    .approvals = {read[RUN_APPROVAL]},
                                    .order = read[RUN_ORDER],
                                    .lease = read[RUN_LEASE]};
    if (!run_result_write(&chain, &parts, &payload, &err).ok) fail_msg("%s", err.message);
    assert_true(run_sign(RUN_RESULT, buffer_bytes(&payload), key, &envelope, &err).ok);
    add(world, RUN_RESULT, &envelope);
    for (enum run_type type = 0; type < RUN_RESULT; type++) run_envelope_free(read[type]);
}

static void a_result_is_admitted_once(void **state)
{
    struct buffer OWNED_BUFFER first = BUFFER(RUN_ENVELOPE_MAX), second = BUFFER(RUN_ENVELOPE_MAX);
    OWNED_WORLD world;
    struct error err = {0};

    (void)state;
    begin_without(&world, NULL);
    sign_order_and_lease(&world, &first);
    add(&world, RUN_LEASE, &first);
    assert_int_equal(ask(&world, run_sign_admission, &first, &err), ERROR_INVALID); /* there is no result */
    add_result(&world);
    world.signer.now_ms += 5000;
    if (ask(&world, run_sign_admission, &first, &err) != ERROR_NONE) fail_msg("%s", err.message);
    open_runs(&world); /* as after a crash */
    world.signer.now_ms += 5000;
    if (ask(&world, run_sign_admission, &second, &err) != ERROR_NONE) fail_msg("%s", err.message);
    OWNED(run_envelope) *one = NULL, *two = NULL;
    assert_true(run_envelope_read(buffer_bytes(&first), RUN_ADMISSION, &one, &err).ok);
    assert_true(run_envelope_read(buffer_bytes(&second), RUN_ADMISSION, &two, &err).ok);
    assert_string_equal(one->digest, two->digest);
    withdraw_key_of(&world, "runner");
    assert_int_equal(ask(&world, run_sign_admission, &second, &err), ERROR_DENIED);
    assert_non_null(strstr(err.message, "was withdrawn"));
}

static void a_withdrawn_runner_gets_no_lease(void **state)
{
    struct buffer OWNED_BUFFER envelope = BUFFER(RUN_ENVELOPE_MAX);
    char runner[ECDSA_THUMBPRINT_SIZE];
    OWNED_WORLD world;
    struct error err = {0};

    (void)state;
    begin_without(&world, NULL);
    sign_order_and_lease(&world, &envelope);
    name_of(&world, "runner", runner);
    world.wanted.key = bytes_of_text(runner);
    withdraw_key_of(&world, "runner");
    assert_int_equal(ask(&world, run_sign_lease, &envelope, &err), ERROR_DENIED);
    assert_non_null(strstr(err.message, "was withdrawn"));
}

struct row {
    const char *name, *says;
    enum error_kind kind;
    void (*spoil)(struct world *world);
    const char *unpinned; /* somebody whose document the log has, and keyd has refused */
};

static void no_root(struct world *world)
{
    memset(world->signer.root, 0, sizeof world->signer.root);
}
static void other_root(struct world *world)
{
    ecdsa_key_public(world->key, world->signer.root);
}
static void other_policy(struct world *world)
{
    world->signer.policy.digest[0] ^= 1;
}
static void late(struct world *world)
{
    world->signer.now_ms += INT64_C(8) * 86400000;
}
static void no_approval(struct world *world)
{
    assert_int_equal(json_object_set_new(world->bundle, "approvals", json_array()), 0);
}
static void elsewhere(struct world *world)
{
    world->wanted.jurisdictions[1] = bytes_of_text("US");
}
static void no_documents(struct world *world)
{
    assert_int_equal(json_object_set_new(world->bundle, "documents", json_array()), 0);
}

static void withdrawn_requester(struct world *world)
{
    withdraw_key_of(world, "requester");
}
static void withdrawn_approver(struct world *world)
{
    withdraw_key_of(world, "approver");
}

static void withdrawn_officer(struct world *world)
{
    withdraw_key_of(world, "officer");
}
/* keyd has pinned another document of the requester's key. */
static void enrolled_otherwise(struct world *world, const char *principal)
{
    OWNED(document) *document = document_of(world, "requester");
    json_t *body = json_object_get(document->json, "body");

    if (principal != NULL) assert_int_equal(json_object_set_new(body, "principal", json_string(principal)), 0);
    note(world, document, 50);
}
static void enrolled_for_another(struct world *world)
{
    enrolled_otherwise(world, "robot:11111111-1111-4111-8111-111111111111");
}
static void enrolled_elsewhere(struct world *world)
{
    enrolled_otherwise(world, NULL);
}
static void enrolled_by_a_withdrawn_approver(struct world *world)
{
    enrolled_elsewhere(world);
    withdrawn_officer(world);
}
static void nothing(struct world *world)
{
    (void)world;
}

static const struct row rows[] = {
    {"a key of another owner", "has not pinned event 2", ERROR_DENIED, enrolled_for_another, "requester"},
    {"a key that another document enrols", "has not pinned event 2", ERROR_DENIED, enrolled_elsewhere, "requester"},
    {"a key that a withdrawn approver enrolled anew", "has not pinned event 2", ERROR_DENIED, enrolled_by_a_withdrawn_approver,
     "requester"},
    {"a document by an approver that was never pinned", "has not pinned event 0", ERROR_DENIED, nothing, "officer"},
    {"documents by an approver that was withdrawn later", "", ERROR_NONE, withdrawn_officer, NULL},
    {"the requester's key was withdrawn, and no document of the bundle says so", "was withdrawn", ERROR_DENIED,
     withdrawn_requester, NULL},
    {"the approver's key was withdrawn, and no document of the bundle says so", "was withdrawn", ERROR_DENIED, withdrawn_approver,
     NULL},
    {"no root is pinned", "no approver and no policy set", ERROR_DENIED, no_root, NULL},
    {"another root", "document 1", ERROR_DENIED, other_root, NULL},
    {"another policy set is in force", "decide again", ERROR_DENIED, other_policy, NULL},
    {"the request has expired", "the request has expired", ERROR_DENIED, late, NULL},
    {"an approval is missing", "ask for 1 approvals, and there are 0", ERROR_DENIED, no_approval, NULL},
    {"a place that the request does not allow", "does not allow the jurisdiction US", ERROR_DENIED, elsewhere, NULL},
    {"keys without documents", "had the key", ERROR_DENIED, no_documents, NULL},
};

static void refuses_orders(void **state)
{
    const struct row *row = *state;
    struct buffer OWNED_BUFFER envelope = BUFFER(RUN_ENVELOPE_MAX);
    OWNED_WORLD world;
    struct error err = {0};

    begin_without(&world, row->unpinned);
    row->spoil(&world);
    const enum error_kind kind = ask(&world, run_sign_order, &envelope, &err);
    if (kind != row->kind || strstr(err.message, row->says) == NULL) fail_msg("%d %s", (int)kind, err.message);
    if (row->kind != ERROR_NONE) assert_int_equal(envelope.length, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_order_is_signed_once),
        cmocka_unit_test(a_lease_is_for_one_runner),
        cmocka_unit_test(a_withdrawn_runner_gets_no_lease),
        cmocka_unit_test(a_result_is_admitted_once),
    };

    return RUN_TABLE(rows, refuses_orders) + cmocka_run_group_tests(tests, NULL, NULL);
}
