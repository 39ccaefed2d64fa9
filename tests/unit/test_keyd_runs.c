/*
 * The composed and signed envelopes of training runs: each payload has the bytes of the vectors of docs/formats/run.md, and
 * sijil-keyd signs each statement that they prove, once.
 */
#include "tests/support/made_run.h"
#include "tests/unit/keyd_folder_fixture.h"

#include "base/clock.h"
#include "crypto/digest.h"
#include "keyd/run_sign.h"
#include "training/format/compose.h"

#define RUN "predicate.runDetails."

static void compose_begin(struct made_run *made)
{
    struct error err = {0};

    made_run_begin(made);
    if (!made_check(made, -1, &err).ok) fail_msg("%s", err.message);
}

static struct result write_request(const struct run_chain *chain, struct buffer *payload, struct error *err)
{
    const struct run_envelope *request = chain->request;
    const struct run_request_parts parts = {.run = run_text(request, "run"),
                                            .audience = run_text(request, "audience"),
                                            .project = run_text(request, "project"),
                                            .requester = run_text(request, "requester"),
                                            .nonce = run_text(request, "nonce"),
                                            .issued_ms = run_time(request, "issued_at"),
                                            .expires_ms = run_time(request, "expires"),
                                            .spec = run_member(request, "spec")};

    return run_request_write(&parts, payload, err);
}

static struct result write_approval(const struct run_chain *chain, struct buffer *payload, struct error *err)
{
    const struct run_envelope *approval = chain->approvals[0];
    const struct run_approval_parts parts = {.approver = run_text(approval, "approver"),
                                             .nonce = run_text(approval, "nonce"),
                                             .issued_ms = run_time(approval, "issued_at"),
                                             .expires_ms = run_time(approval, "expires")};

    return run_approval_write(chain->request, &parts, payload, err);
}

static struct run_order_parts order_parts(const struct run_envelope *order)
{
    return (struct run_order_parts){.jurisdictions = run_member(order, "jurisdictions"),
                                    .approvals = run_integer(order, "obligations.approvals"),
                                    .signed_request = json_is_true(run_member(order, "obligations.signed_request")),
                                    .epoch = run_integer(order, "policy.epoch"),
                                    .policy = run_text(order, "policy.digest"),
                                    .decision = run_text(order, "policy.decision"),
                                    .event_number = run_integer(order, "event.number"),
                                    .log_size = run_integer(order, "event.size"),
                                    .log_root = run_text(order, "event.root"),
                                    .attempts = run_integer(order, "attempts"),
                                    .nonce = run_text(order, "nonce"),
                                    .not_before_ms = run_time(order, "not_before"),
                                    .expires_ms = run_time(order, "expires")};
}

static struct result compose_order(const struct run_chain *chain, struct buffer *payload, struct error *err)
{
    const struct run_order_parts parts = order_parts(chain->order);

    return run_order_write(chain, &parts, payload, err);
}

static struct result write_lease(const struct run_chain *chain, struct buffer *payload, struct error *err)
{
    const struct run_envelope *lease = chain->lease;
    const struct run_lease_parts parts = {.attempt = run_integer(lease, "attempt"),
                                          .node = run_integer(lease, "node"),
                                          .runner = run_text(lease, "runner.id"),
                                          .key = run_text(lease, "runner.key"),
                                          .nonce = run_text(lease, "nonce"),
                                          .not_before_ms = run_time(lease, "not_before"),
                                          .expires_ms = run_time(lease, "expires")};

    return run_lease_write(chain->order, &parts, payload, err);
}

static const char *hex_in(const struct run_envelope *envelope, const char *list, size_t at)
{
    return json_text_of(json_object_get(json_array_get(run_member(envelope, list), at), "digest"), "sha256");
}

static struct result write_result(const struct run_chain *chain, struct buffer *payload, struct error *err)
{
    const struct run_envelope *result = chain->result;
    const struct run_subject output = {"model", hex_in(result, "subject", 0)};
    const struct run_device device = {"GPU-0001", "gpu", "535.1", 1LL << 34, 64};
    const struct run_result_parts parts = {.outputs = &output,
                                           .output_count = 1,
                                           .log = hex_in(result, "subject", 1),
                                           .metrics = hex_in(result, RUN "byproducts", 0),
                                           .started_ms = run_time(result, RUN "metadata.startedOn"),
                                           .finished_ms = run_time(result, RUN "metadata.finishedOn"),
                                           .status = "succeeded",
                                           .reason = "",
                                           .wall_ms = 1080000,
                                           .cpu_ms = 900000,
                                           .memory_bytes = 1LL << 29,
                                           .output_bytes = 4096,
                                           .log_bytes = 2048,
                                           .device_ms = 700000,
                                           .isolation = "cgroup-v2",
                                           .devices = &device,
                                           .device_count = 1};

    return run_result_write(chain, &parts, payload, err);
}

static struct result write_admission(const struct run_chain *chain, struct buffer *payload, struct error *err)
{
    const struct run_admission_parts parts = {.verified_ms = run_time(chain->admission, "predicate.timeVerified"),
                                              .epoch = 7,
                                              .policy = run_text(chain->admission, "predicate.policy.digest.sha256"),
                                              .assurance = 3};

    return run_admission_write(chain, &parts, payload, err);
}

static struct result write_refusal(const struct run_chain *chain, struct buffer *payload, struct error *err)
{
    int64_t at_ms = 0;

    assert_true(clock_parse(bytes_of_text("2026-11-23T10:02:00.000Z"), &at_ms));
    const struct run_refusal_parts parts = {"devices", "the order asks for 1 gpu, and this machine has none", at_ms};
    return run_refusal_write(chain->lease, &parts, payload, err);
}

typedef struct result writer(const struct run_chain *chain, struct buffer *payload, struct error *err);
static const struct compose_row {
    const char *name;
    enum run_type type;
    writer *write;
} compose_rows[] = {
    {"a request", RUN_REQUEST, write_request}, {"an approval", RUN_APPROVAL, write_approval},
    {"an order", RUN_ORDER, compose_order},    {"a lease", RUN_LEASE, write_lease},
    {"a result", RUN_RESULT, write_result},    {"an admission", RUN_ADMISSION, write_admission},
    {"a refusal", RUN_REFUSAL, write_refusal},
};

static void makes_the_bytes_of_the_vectors(void **state)
{
    const struct compose_row *row = *state;
    struct buffer OWNED_BUFFER payload = BUFFER(RUN_PAYLOAD_MAX);
    struct buffer OWNED_BUFFER envelope = BUFFER(RUN_ENVELOPE_MAX);
    OWNED(run_envelope) *read = NULL;
    OWNED_MADE_RUN made;
    struct error err = {0};

    compose_begin(&made);
    const struct run_envelope *wanted = made.read[row->type];
    if (!row->write(&made.chain, &payload, &err).ok) fail_msg("%s", err.message);
    if (!bytes_equal(buffer_bytes(&payload), buffer_bytes(&wanted->dsse->payload))) fail_msg("%s", buffer_text(&payload));
    assert_true(run_sign(row->type, buffer_bytes(&payload), made.keys[row->type], &envelope, &err).ok);
    assert_true(run_envelope_read(buffer_bytes(&envelope), row->type, &read, &err).ok);
    assert_true(run_check_signer(read, made.keys[row->type], &err).ok);
    assert_string_equal(read->digest, wanted->digest);
}

struct attempt {
    const struct compose_row *row;
    struct made_run *made;
};

static struct result write_once(void *context, struct error *err)
{
    const struct attempt *attempt = context;
    struct buffer OWNED_BUFFER payload = BUFFER(RUN_PAYLOAD_MAX);

    return attempt->row->write(&attempt->made->chain, &payload, err);
}

static void failures_leave_nothing(void **state)
{
    const struct compose_row *row = *state;
    OWNED_MADE_RUN made;

    compose_begin(&made);
    struct attempt attempt = {row, &made};
    fail_each(write_once, &attempt, ERROR_NO_MEMORY, 3);
}

static void optional_members_are_written(void **state)
{
    const struct run_claims claims = {"https://id.example", "alice",
                                      "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"};
    struct buffer OWNED_BUFFER payload = BUFFER(RUN_PAYLOAD_MAX);
    OWNED_MADE_RUN made;
    struct error err = {0};

    (void)state;
    compose_begin(&made);
    const struct run_envelope *request = made.chain.request;
    struct run_request_parts parts = {.run = run_text(request, "run"),
                                      .audience = run_text(request, "audience"),
                                      .project = run_text(request, "project"),
                                      .requester = run_text(request, "requester"),
                                      .nonce = run_text(request, "nonce"),
                                      .expires_ms = 1000,
                                      .claims = &claims,
                                      .rerun_run = run_text(request, "run"),
                                      .rerun_order = claims.token,
                                      .spec = run_member(request, "spec")};
    assert_true(run_request_write(&parts, &payload, &err).ok);
    assert_non_null(strstr(buffer_text(&payload), "\"claims\":{\"issuer\":\"https://id.example\",\"subject\":\"alice\""));
    assert_non_null(strstr(buffer_text(&payload), "\"rerun\":{\"order\":\"sha256:aa"));
    parts.nonce = "short";
    assert_false(run_request_write(&parts, &payload, &err).ok);
    assert_int_equal(err.kind, ERROR_INVALID);
    assert_string_equal(err.message, "the request: nonce: 32 lower-case hex digits");
}

static void refuses_what_the_page_forbids(void **state)
{
    struct buffer OWNED_BUFFER payload = BUFFER(RUN_PAYLOAD_MAX);
    OWNED_MADE_RUN made;
    struct error err = {0};

    (void)state;
    compose_begin(&made);
    struct run_order_parts order = order_parts(made.chain.order);
    order.attempts = 101;
    assert_false(run_order_write(&made.chain, &order, &payload, &err).ok);
    assert_non_null(strstr(err.message, "attempts"));
    const struct run_refusal_parts odd = {"devices", "\xff", 0};
    assert_false(run_refusal_write(made.chain.lease, &odd, &payload, &err).ok);
    assert_int_equal(err.kind, ERROR_INVALID);
    assert_string_equal(err.message, "a text of the refusal is not UTF-8");
    assert_int_equal(payload.length, 0);
}

/* ---- sijil-keyd ---- */

static const uint8_t journal_key[JOURNAL_KEY_SIZE] = {7};
enum { NOW_S = 1795428060 }; /* 2026-11-23T10:01:00Z, a minute after the event */

struct world {
    struct folder folder;
    json_t *vectors, *bundle;
    struct ecdsa_key *key;
    struct run_ledger *runs;
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

static void begin(struct world *world)
{
    struct error err = {0};

    *world = (struct world){.vectors = made_vectors()};
    folder_make(&world->folder);
    assert_true(run_ledger_create(world->folder.fd, journal_key, 0, &err).ok);
    world->key = made_key(world->vectors, "keyd");
    world->signer = (struct run_signer){.key = world->key,
                                        .log_key = bytes_of_text(json_text_of(world->vectors, "vkey")),
                                        .policy = {.epoch = 7},
                                        .now_ms = (int64_t)NOW_S * 1000};
    open_runs(world);
    sha256_of(bytes_of_text("policy"), world->signer.policy.digest);
    assert_true(text_from_hex(bytes_of_text(json_text_of(json_object_get(world->vectors, "points"), "root")), world->signer.root,
                              sizeof world->signer.root));
    world->bundle = json_deep_copy(made_bundle(world->vectors, 0));
    for (enum run_type type = RUN_ORDER; type <= RUN_ADMISSION; type++)
        assert_int_equal(json_object_del(world->bundle, run_type_name(type)), 0);
    world->wanted = (struct keyd_run){.lifetime_s = 86400,
                                      .place_count = 2,
                                      .places = {bytes_of_text("AE"), bytes_of_text("AE-FED")},
                                      .approvals = 1,
                                      .attempts = 3,
                                      .signed_request = true,
                                      .attempt = 1};
}

static void release(struct world *world)
{
    run_ledger_free(world->runs);
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
    begin(&world);
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
    begin(&world);
    assert_true(
        text_from_hex(bytes_of_text(json_text_of(json_object_get(world.vectors, "points"), "runner")), point, sizeof point));
    ecdsa_thumbprint(point, runner);
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

struct row {
    const char *name, *says;
    enum error_kind kind;
    void (*spoil)(struct world *world);
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
    world->wanted.places[1] = bytes_of_text("US");
}
static void no_documents(struct world *world)
{
    assert_int_equal(json_object_set_new(world->bundle, "documents", json_array()), 0);
}

static const struct row rows[] = {
    {"no root is pinned", "no approver and no policy set", ERROR_DENIED, no_root},
    {"another root", "document 1", ERROR_DENIED, other_root},
    {"another policy set is in force", "decide again", ERROR_DENIED, other_policy},
    {"the request has expired", "the request has expired", ERROR_DENIED, late},
    {"an approval is missing", "ask for 1 approvals, and there are 0", ERROR_DENIED, no_approval},
    {"a place that the request does not allow", "does not allow the jurisdiction US", ERROR_DENIED, elsewhere},
    {"keys without documents", "had the key", ERROR_DENIED, no_documents},
};

static void refuses_orders(void **state)
{
    const struct row *row = *state;
    struct buffer OWNED_BUFFER envelope = BUFFER(RUN_ENVELOPE_MAX);
    OWNED_WORLD world;
    struct error err = {0};

    begin(&world);
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
        cmocka_unit_test(optional_members_are_written),
        cmocka_unit_test(refuses_what_the_page_forbids),
    };
    int failed = RUN_TABLE(rows, refuses_orders);

    failed += RUN_TABLE(compose_rows, makes_the_bytes_of_the_vectors);
    failed += RUN_TABLE(compose_rows, failures_leave_nothing);
    return failed + cmocka_run_group_tests(tests, NULL, NULL);
}
