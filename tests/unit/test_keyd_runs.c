/* sijil-keyd signs each order, lease and admission of a run that the vectors of docs/formats/run.md prove, once. */
#include "tests/unit/keyd_runs_fixture.h"

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

static struct run_promise promise_of_order(const struct world *world, const char *request)
{
    struct run_promise promise;
    char purpose[128];
    uint8_t subject[32];

    (void)snprintf(purpose, sizeof purpose, "order %s 0 0", request);
    sha256_of(bytes_of_text(purpose), subject);
    assert_true(run_ledger_find(world->runs, subject, world->signer.now_ms, &promise));
    return promise;
}

/* Of a run of acme/models. A wrong word of its end costs the run only what was kept for it. */
static void an_end_frees_what_was_reserved(void **state)
{
    struct buffer OWNED_BUFFER envelope = BUFFER(RUN_ENVELOPE_MAX);
    OWNED(run_envelope) *request = NULL;
    uint8_t digest[32], other[32] = {1};
    OWNED_WORLD world;
    struct error err = {0};

    (void)state;
    begin_without(&world, NULL);
    assert_true(run_envelope_read(bytes_of_text(envelope_text(&world, RUN_REQUEST)), RUN_REQUEST, &request, &err).ok);
    assert_true(text_from_hex(bytes_of_text(request->digest + 7), digest, sizeof digest));
    sign_order_and_lease(&world, &envelope);
    const struct run_promise before = promise_of_order(&world, request->digest);
    assert_int_equal(before.reserves, 3); /* two leases and the admission */
    assert_true(before.organisation == run_ledger_share(bytes_of_text("acme")));
    assert_true(before.project == run_ledger_share(bytes_of_text(run_text(request, "project"))));
    assert_true(run_sign_end(world.runs, other, world.signer.now_ms, &err).ok);
    assert_int_equal(promise_of_order(&world, request->digest).reserves, 3);
    for (unsigned i = 0; i < 2; i++) assert_true(run_sign_end(world.runs, digest, world.signer.now_ms, &err).ok);
    open_runs(&world);
    assert_int_equal(promise_of_order(&world, request->digest).reserves, 0);
    add(&world, RUN_LEASE, &envelope);
    add_result(&world);
    if (ask(&world, run_sign_admission, &envelope, &err) != ERROR_NONE) fail_msg("%s", err.message);
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

/* The gateway died after the signature, and other policies came into force: the set of then makes the same admission again. */
static void an_admission_is_signed_again_under_the_set_of_then(void **state)
{
    struct buffer OWNED_BUFFER first = BUFFER(RUN_ENVELOPE_MAX), second = BUFFER(RUN_ENVELOPE_MAX);
    OWNED(run_envelope) *one = NULL, *two = NULL;
    OWNED_WORLD world;
    struct error err = {0};

    (void)state;
    begin_without(&world, NULL);
    sign_order_and_lease(&world, &first);
    add(&world, RUN_LEASE, &first);
    add_result(&world);
    if (ask(&world, run_sign_admission, &first, &err) != ERROR_NONE) fail_msg("%s", err.message);
    const struct document_pin then = world.signer.policy;
    world.signer.policy.epoch++;
    world.signer.policy.digest[0] ^= 1;
    assert_int_equal(ask(&world, run_sign_admission, &second, &err), ERROR_CONFLICT); /* nobody says which set it was */
    world.wanted.earlier_epoch = then.epoch;
    memcpy(world.wanted.earlier_policies, then.digest, sizeof then.digest);
    world.wanted.earlier_policies[1] ^= 1;
    assert_int_equal(ask(&world, run_sign_admission, &second, &err), ERROR_CONFLICT); /* another set than it was */
    world.wanted.earlier_policies[1] ^= 1;
    if (ask(&world, run_sign_admission, &second, &err) != ERROR_NONE) fail_msg("%s", err.message);
    assert_true(run_envelope_read(buffer_bytes(&first), RUN_ADMISSION, &one, &err).ok);
    assert_true(run_envelope_read(buffer_bytes(&second), RUN_ADMISSION, &two, &err).ok);
    assert_string_equal(one->digest, two->digest);
}

/* The first admission is always under the set in force, whatever the gateway says. */
static void a_first_admission_is_under_the_set_in_force(void **state)
{
    struct buffer OWNED_BUFFER envelope = BUFFER(RUN_ENVELOPE_MAX);
    OWNED(run_envelope) *admission = NULL;
    char uri[64];
    OWNED_WORLD world;
    struct error err = {0};

    (void)state;
    begin_without(&world, NULL);
    sign_order_and_lease(&world, &envelope);
    add(&world, RUN_LEASE, &envelope);
    add_result(&world);
    world.wanted.earlier_epoch = 1;
    if (ask(&world, run_sign_admission, &envelope, &err) != ERROR_NONE) fail_msg("%s", err.message);
    assert_true(run_envelope_read(buffer_bytes(&envelope), RUN_ADMISSION, &admission, &err).ok);
    (void)snprintf(uri, sizeof uri, "urn:sijil:policy-set:%llu", (unsigned long long)world.signer.policy.epoch);
    assert_string_equal(run_text(admission, "predicate.policy.uri"), uri);
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

/* ---- the day of a lease or an admission ---- */

/* The set is the pinned one, the root the pinned one, and the region that of the runner's document: nothing of it is the gateway's word. */
static void the_policies_in_force_are_asked(const struct world *world, bool has_admission)
{
    assert_memory_equal(policies.digest, world->signer.policy.digest, sizeof policies.digest);
    assert_true(policies.has_root && policies.has_lease && policies.has_admission == has_admission);
    assert_true(policies.now_ms == world->signer.now_ms);
    assert_string_equal(policies.region, "local/dxb");
}

static void a_set_that_forbids_the_run_gets_it_no_lease_and_no_admission(void **state)
{
    struct buffer OWNED_BUFFER lease = BUFFER(RUN_ENVELOPE_MAX), envelope = BUFFER(RUN_ENVELOPE_MAX);
    char runner[ECDSA_THUMBPRINT_SIZE];
    OWNED_WORLD world;
    struct error err = {0};

    (void)state;
    begin_without(&world, NULL);
    sign_order_and_lease(&world, &lease);
    assert_int_equal(policies.asked, 1); /* of the lease: the order's set is checked by runners and outsiders */
    the_policies_in_force_are_asked(&world, false);
    world.signer.policy.epoch++;
    world.signer.policy.digest[0] ^= 1; /* another set is in force by now */
    policies.says = ERROR_DENIED;
    name_of(&world, "runner", runner);
    world.wanted.key = bytes_of_text(runner);
    for (unsigned attempt = 1; attempt <= 2; attempt++) { /* the lease that it has, and another one */
        world.wanted.attempt = (uint8_t)attempt;
        assert_int_equal(ask(&world, run_sign_lease, &envelope, &err), ERROR_DENIED);
        assert_non_null(strstr(err.message, "the policies of the day say no"));
        assert_int_equal(envelope.length, 0);
        the_policies_in_force_are_asked(&world, false);
    }
    add(&world, RUN_LEASE, &lease);
    add_result(&world);
    assert_int_equal(ask(&world, run_sign_admission, &envelope, &err), ERROR_DENIED);
    assert_int_equal(envelope.length, 0);
    the_policies_in_force_are_asked(&world, true);
    policies.says = ERROR_NONE; /* nothing was promised meanwhile */
    if (ask(&world, run_sign_admission, &envelope, &err) != ERROR_NONE) fail_msg("%s", err.message);
}

/* Of the order and of the lease that it has: a withdrawal counts for the next lease, for the same one again, and for the admission. */
static void a_withdrawn_requester_gets_nothing_more(void **state)
{
    struct buffer OWNED_BUFFER lease = BUFFER(RUN_ENVELOPE_MAX), envelope = BUFFER(RUN_ENVELOPE_MAX);
    char runner[ECDSA_THUMBPRINT_SIZE];
    OWNED_WORLD world;
    struct error err = {0};

    (void)state;
    begin_without(&world, NULL);
    sign_order_and_lease(&world, &lease);
    withdraw_key_of(&world, "approver"); /* an approval is an act of its time */
    name_of(&world, "runner", runner);
    world.wanted.key = bytes_of_text(runner);
    if (ask(&world, run_sign_lease, &envelope, &err) != ERROR_NONE) fail_msg("%s", err.message);
    withdraw_key_of(&world, "requester");
    for (unsigned attempt = 1; attempt <= 2; attempt++) {
        world.wanted.attempt = (uint8_t)attempt;
        assert_int_equal(ask(&world, run_sign_lease, &envelope, &err), ERROR_DENIED);
        assert_non_null(strstr(err.message, "was withdrawn"));
    }
    add(&world, RUN_LEASE, &lease);
    add_result(&world);
    assert_int_equal(ask(&world, run_sign_admission, &envelope, &err), ERROR_DENIED);
    assert_non_null(strstr(err.message, "was withdrawn"));
    assert_int_equal(envelope.length, 0);
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
        cmocka_unit_test(an_end_frees_what_was_reserved),
        cmocka_unit_test(an_admission_is_signed_again_under_the_set_of_then),
        cmocka_unit_test(a_first_admission_is_under_the_set_in_force),
        cmocka_unit_test(a_set_that_forbids_the_run_gets_it_no_lease_and_no_admission),
        cmocka_unit_test(a_withdrawn_requester_gets_nothing_more),
    };

    return RUN_TABLE(rows, refuses_orders) + cmocka_run_group_tests(tests, NULL, NULL);
}
