/* sijil-keyd signs a lease for each node of a run, and one admission for the results of all. */
#include "tests/unit/keyd_runs_fixture.h"

#define HEX_ZEROS "0000000000000000000000000000000000000000000000000000000000000000"

static const char *const runners[2] = {"runner", "other_runner"}, *const attempts[2] = {"attempt", "other_attempt"};

static void begin_nodes(struct world *world)
{
    bundle_number = MADE_NODES;
    begin_without(world, NULL);
}

static void sign_order(struct world *world)
{
    struct buffer OWNED_BUFFER envelope = BUFFER(RUN_ENVELOPE_MAX);
    struct error err = {0};

    if (ask(world, run_sign_order, &envelope, &err) != ERROR_NONE) fail_msg("%s", err.message);
    add(world, RUN_ORDER, &envelope);
    world->wanted.lifetime_s = 600;
}

/* Leaves the lease of a node in `envelope`. */
static enum error_kind sign_lease(struct world *world, unsigned node, const char *who, struct buffer *envelope, struct error *err)
{
    char runner[ECDSA_THUMBPRINT_SIZE];

    name_of(world, who, runner);
    world->wanted.key = bytes_of_text(runner);
    world->wanted.node = (uint8_t)node;
    const enum error_kind kind = ask(world, run_sign_lease, envelope, err);
    world->wanted.key = bytes_of_text("");
    return kind;
}

static struct run_envelope *read_envelope(const char *text, enum run_type type)
{
    struct run_envelope *envelope = NULL;
    struct error err = {0};

    if (!run_envelope_read(bytes_of_text(text), type, &envelope, &err).ok) fail_msg("%s", err.message);
    return envelope;
}

/* What the runner of a node says after its lease. */
static void write_result(const struct world *world, const char *lease_text, unsigned node, struct buffer *certified,
                         struct buffer *envelope)
{
    struct buffer OWNED_BUFFER payload = BUFFER(RUN_PAYLOAD_MAX);
    const struct run_subject output = {"model", HEX_ZEROS};
    const struct run_device device = {node == 0 ? "GPU-0001" : "GPU-0002", "gpu", "535.1", 1LL << 34, 64};
    const struct run_result_parts parts = {.outputs = &output,
                                           .output_count = node == 0 ? 1 : 0,
                                           .log = HEX_ZEROS,
                                           .started_ms = world->signer.now_ms + 1000,
                                           .finished_ms = world->signer.now_ms + 2000,
                                           .status = "succeeded",
                                           .reason = "",
                                           .isolation = "cgroup-v2",
                                           .devices = &device,
                                           .device_count = 1};
    OWNED(run_envelope) *order = read_envelope(json_text_of(world->bundle, "order"), RUN_ORDER);
    OWNED(run_envelope) *lease = read_envelope(lease_text, RUN_LEASE);
    OWNED(run_envelope) *certificate = certify(world, lease, runners[node], attempts[node], certified);
    OWNED(ecdsa_key) *key = made_key(world->vectors, attempts[node]);
    const struct run_chain below = {.order = order, .lease = lease, .certificate = certificate};
    struct error err = {0};

    if (!run_result_write(&below, &parts, &payload, &err).ok) fail_msg("%s", err.message);
    assert_true(run_sign(RUN_RESULT, buffer_bytes(&payload), key, envelope, &err).ok);
}

/* The bundle for the admission: a lease and a result of each node. */
static void finish_nodes(struct world *world)
{
    struct error err = {0};
    json_t *peer = json_object();

    sign_order(world);
    for (unsigned node = 2; node-- > 0;) { /* that of node 0 becomes part of the bundle, so it is the last */
        struct buffer OWNED_BUFFER lease = BUFFER(RUN_ENVELOPE_MAX), result = BUFFER(RUN_ENVELOPE_MAX);
        struct buffer OWNED_BUFFER certified = BUFFER(RUN_ENVELOPE_MAX);
        if (sign_lease(world, node, runners[node], &lease, &err) != ERROR_NONE) fail_msg("%s", err.message);
        write_result(world, buffer_text(&lease), node, &certified, &result);
        json_t *holder = node == 0 ? world->bundle : peer;
        assert_int_equal(json_object_set_new(holder, "lease", json_string(buffer_text(&lease))), 0);
        assert_int_equal(json_object_set_new(holder, "certificate", json_string(buffer_text(&certified))), 0);
        assert_int_equal(json_object_set_new(holder, "result", json_string(buffer_text(&result))), 0);
    }
    assert_int_equal(json_object_set_new(world->bundle, "peers", json_pack("[o]", peer)), 0);
    world->signer.now_ms += 5000;
}

static void each_node_has_a_lease_for_one_runner(void **state)
{
    struct buffer OWNED_BUFFER envelope = BUFFER(RUN_ENVELOPE_MAX);
    OWNED_WORLD world;
    struct error err = {0};

    (void)state;
    begin_nodes(&world);
    sign_order(&world);
    assert_int_equal(sign_lease(&world, 0, "runner", &envelope, &err), ERROR_NONE);
    assert_int_equal(sign_lease(&world, 1, "other_runner", &envelope, &err), ERROR_NONE);
    assert_int_equal(sign_lease(&world, 1, "other_runner", &envelope, &err), ERROR_NONE); /* again */
    assert_int_equal(sign_lease(&world, 1, "runner", &envelope, &err), ERROR_CONFLICT);
    assert_int_equal(sign_lease(&world, 0, "other_runner", &envelope, &err), ERROR_CONFLICT);
    assert_int_equal(sign_lease(&world, 2, "runner", &envelope, &err), ERROR_DENIED); /* the order has two */
}

static void one_admission_for_all_nodes(void **state)
{
    struct buffer OWNED_BUFFER first = BUFFER(RUN_ENVELOPE_MAX), second = BUFFER(RUN_ENVELOPE_MAX);
    OWNED_WORLD world;
    struct error err = {0};

    (void)state;
    begin_nodes(&world);
    finish_nodes(&world);
    if (ask(&world, run_sign_admission, &first, &err) != ERROR_NONE) fail_msg("%s", err.message);
    OWNED(run_envelope) *one = read_envelope(buffer_text(&first), RUN_ADMISSION);
    assert_int_equal(json_array_size(run_member(one, "predicate.inputAttestations")), 7);
    assert_string_equal(json_string_value(json_array_get(run_member(one, "predicate.verifiedLevels"), 0)), "SIJIL_ASSURANCE_2");
    open_runs(&world); /* as after a crash */
    world.signer.now_ms += 5000;
    if (ask(&world, run_sign_admission, &second, &err) != ERROR_NONE) fail_msg("%s", err.message);
    OWNED(run_envelope) *two = read_envelope(buffer_text(&second), RUN_ADMISSION);
    assert_string_equal(one->digest, two->digest);
}

/* ---- refusals ---- */

static json_t *peer_of(const struct world *world)
{
    return json_array_get(json_object_get(world->bundle, "peers"), 0);
}

static void no_peers(struct world *world)
{
    assert_int_equal(json_object_del(world->bundle, "peers"), 0);
}
static void peers_are_no_list(struct world *world)
{
    assert_int_equal(json_object_set_new(world->bundle, "peers", json_string("all")), 0);
}
static void too_many_peers(struct world *world)
{
    json_t *peers = json_object_get(world->bundle, "peers");

    for (unsigned i = 0; i < RUN_PEERS_MAX; i++) assert_int_equal(json_array_append(peers, json_array_get(peers, 0)), 0);
}
/* This key has signed it, and this ledger does not have it: a copy of the key may have. */
static void unpromised_lease(struct world *world)
{
    const json_t *other = json_array_get(json_object_get(made_bundle(world->vectors, MADE_NODES), "peers"), 0);

    assert_int_equal(json_object_set(peer_of(world), "lease", json_object_get(other, "lease")), 0);
}
static void lease_of_node_0_again(struct world *world)
{
    assert_int_equal(json_object_set(peer_of(world), "lease", json_object_get(world->bundle, "lease")), 0);
}
static void result_of_node_0_again(struct world *world)
{
    assert_int_equal(json_object_set(peer_of(world), "result", json_object_get(world->bundle, "result")), 0);
}
static void certificate_of_node_0_again(struct world *world)
{
    assert_int_equal(json_object_set(peer_of(world), "certificate", json_object_get(world->bundle, "certificate")), 0);
}
static void no_certificate(struct world *world)
{
    assert_int_equal(json_object_del(peer_of(world), "certificate"), 0);
}
static void withdrawn(struct world *world)
{
    withdraw_key_of(world, "other_runner");
}
static void without_document(struct world *world)
{
    assert_int_equal(json_array_remove(json_object_get(world->bundle, "documents"), 5), 0);
}

static const struct row {
    const char *name;
    void (*spoil)(struct world *world);
    enum error_kind kind;
    const char *says;
} rows[] = {
    {"without the other node", no_peers, ERROR_DENIED, "the order has 2 nodes, and there are results of 1"},
    {"with peers that are no list", peers_are_no_list, ERROR_INVALID, "peers"},
    {"with more nodes than a run can have", too_many_peers, ERROR_LIMIT, "at most 256 nodes"},
    {"with a lease that the ledger does not have", unpromised_lease, ERROR_DENIED, "the lease is not in the ledger"},
    {"with the lease of node 0 for node 1", lease_of_node_0_again, ERROR_DENIED, "node 1: "},
    {"with the result of node 0 for node 1", result_of_node_0_again, ERROR_DENIED, "node 1: "},
    {"with the certificate of node 0 for node 1", certificate_of_node_0_again, ERROR_DENIED, "node 1: "},
    {"with a node without its certificate", no_certificate, ERROR_INVALID, "the bundle has no certificate"},
    {"after the other runner was withdrawn", withdrawn, ERROR_DENIED, "was withdrawn"},
    {"without the other runner's document", without_document, ERROR_DENIED, "node 1: no document"},
};

static void refuses_admissions(void **state)
{
    const struct row *row = *state;
    struct buffer OWNED_BUFFER envelope = BUFFER(RUN_ENVELOPE_MAX);
    OWNED_WORLD world;
    struct error err = {0};

    begin_nodes(&world);
    finish_nodes(&world);
    row->spoil(&world);
    const enum error_kind kind = ask(&world, run_sign_admission, &envelope, &err);
    if (kind != row->kind || strstr(err.message, row->says) == NULL) fail_msg("%d %s", (int)kind, err.message);
    assert_int_equal(envelope.length, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_node_has_a_lease_for_one_runner),
        cmocka_unit_test(one_admission_for_all_nodes),
    };

    return RUN_TABLE(rows, refuses_admissions) + cmocka_run_group_tests(tests, NULL, NULL);
}
