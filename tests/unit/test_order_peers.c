/* The other nodes of an attempt: which leases and certificates prove one, and what is wrong with others. */
#include "tests/support/made_run.h"

#include "base/clock.h"
#include "runner/order/order_peers.h"

#define NOW "2026-11-23T10:30:00.000Z"

struct world {
    struct made_run made;
    struct run_bundle bundle; /* of node 0 */
    struct run_trust trust;
    struct buffer leases[3], certificates[3]; /* of each node */
};

/* The certificate for the lease that was signed last. */
static void write_certificate(struct world *world, int node, const char *path, const char *value, struct buffer *text)
{
    char number[8];
    struct error err = {0};
    struct made_run *made = &world->made;

    buffer_clear(text);
    run_envelope_free(made->read[RUN_CERTIFICATE]);
    made->read[RUN_CERTIFICATE] = NULL;
    buffer_clear(&made->envelopes[RUN_CERTIFICATE]);
    json_t *before = json_deep_copy(made->payloads[RUN_CERTIFICATE]);
    (void)snprintf(number, sizeof number, "%d", node);
    made_set(made, RUN_CERTIFICATE, "node", number);
    made_relink(made, RUN_CERTIFICATE);
    if (path != NULL) made_set(made, RUN_CERTIFICATE, path, value);
    if (!made_sign(made, RUN_CERTIFICATE, &err).ok) fail_msg("%s", err.message);
    must(buffer_add(text, made->envelopes[RUN_CERTIFICATE].data, made->envelopes[RUN_CERTIFICATE].length, &err), &err);
    json_decref(made->payloads[RUN_CERTIFICATE]);
    made->payloads[RUN_CERTIFICATE] = before;
}

/* Signs a lease of the order for `node`, with one member changed. */
static void write_lease(struct world *world, int node, const char *path, const char *value, struct buffer *text)
{
    char number[8];
    struct error err = {0};
    struct made_run *made = &world->made;

    buffer_clear(text);
    run_envelope_free(made->read[RUN_LEASE]);
    made->read[RUN_LEASE] = NULL;
    buffer_clear(&made->envelopes[RUN_LEASE]);
    json_t *before = json_deep_copy(made->payloads[RUN_LEASE]);
    (void)snprintf(number, sizeof number, "%d", node);
    made_set(made, RUN_LEASE, "node", number);
    made_relink(made, RUN_LEASE);
    if (path != NULL) made_set(made, RUN_LEASE, path, value);
    if (!made_sign(made, RUN_LEASE, &err).ok) fail_msg("%s", err.message);
    must(buffer_add(text, made->envelopes[RUN_LEASE].data, made->envelopes[RUN_LEASE].length, &err), &err);
    json_decref(made->payloads[RUN_LEASE]);
    made->payloads[RUN_LEASE] = before;
}

static void world_begin(struct world *world)
{
    static const enum run_type below[] = {RUN_REQUEST, RUN_APPROVAL, RUN_ORDER};
    struct error err = {0};

    *world = (struct world){.leases = {BUFFER(RUN_ENVELOPE_MAX), BUFFER(RUN_ENVELOPE_MAX), BUFFER(RUN_ENVELOPE_MAX)},
                            .certificates = {BUFFER(RUN_ENVELOPE_MAX), BUFFER(RUN_ENVELOPE_MAX), BUFFER(RUN_ENVELOPE_MAX)}};
    made_run_begin(&world->made);
    made_set(&world->made, RUN_REQUEST, "spec.nodes", "3");
    made_set(&world->made, RUN_ORDER, "spec.nodes", "3");
    for (size_t i = 0; i < COUNT(below); i++) {
        made_relink(&world->made, below[i]);
        if (!made_sign(&world->made, below[i], &err).ok) fail_msg("%s", err.message);
    }
    for (int node = 2; node >= 0; node--) {
        write_lease(world, node, NULL, NULL, &world->leases[node]);
        write_certificate(world, node, NULL, NULL, &world->certificates[node]);
    }
    world->bundle.chain = (struct run_chain){.request = world->made.read[RUN_REQUEST],
                                             .approval_count = 1,
                                             .approvals = {world->made.read[RUN_APPROVAL]},
                                             .order = world->made.read[RUN_ORDER]};
    must(run_envelope_read(buffer_bytes(&world->leases[0]), RUN_LEASE, &world->bundle.envelopes[0], &err), &err);
    world->bundle.chain.lease = world->bundle.envelopes[0];
    world->trust.keyd = world->made.keys[RUN_LEASE];
}

static void world_release(struct world *world)
{
    run_envelope_free(world->bundle.envelopes[0]);
    for (size_t i = 0; i < COUNT(world->leases); i++) {
        buffer_done(&world->leases[i]);
        buffer_done(&world->certificates[i]);
    }
    made_run_release(&world->made);
}
#define OWNED_WORLD __attribute__((cleanup(world_release))) struct world

static struct order_claim claim_of(const struct world *world, int node)
{
    return (struct order_claim){node, buffer_text(&world->leases[node]), buffer_text(&world->certificates[node])};
}

static struct result check(const struct world *world, const struct order_claim *claims, size_t count, struct order_peer *peers,
                           struct error *err)
{
    struct order_claims said = {.each = claims, .count = count};

    assert_true(clock_parse(bytes_of_text(NOW), &said.now_ms));
    return order_peers_check(&world->bundle, &world->trust, &said, peers, err);
}

static void the_other_nodes_are_proven(void **state)
{
    OWNED_WORLD world;
    struct order_peer peers[2];
    struct error err = {0};
    uint8_t digest[SHA256_SIZE], point[ECDSA_PUBLIC_SIZE];
    char key[ECDSA_THUMBPRINT_SIZE];

    (void)state;
    world_begin(&world);
    const struct order_claim claims[] = {claim_of(&world, 2), claim_of(&world, 1)};
    must(check(&world, claims, 2, peers, &err), &err);
    assert_true(peers[0].node == 2 && peers[1].node == 1);
    OWNED(run_envelope) *lease = NULL;
    must(run_envelope_read(buffer_bytes(&world.leases[2]), RUN_LEASE, &lease, &err), &err);
    run_digest_bytes(lease, digest);
    assert_memory_equal(peers[0].lease, digest, sizeof digest);
    ecdsa_key_public(world.made.keys[RUN_RESULT], point);
    ecdsa_thumbprint(point, key);
    assert_string_equal(peers[0].key, key);
}

static const struct row {
    const char *name;
    int node; /* whose lease is in the place of node 1's */
    const char *path, *value;
    int claimed;
    const char *says;
    bool is_forged;
} rows[] = {
    {"of another attempt", 1, "attempt", "2", 1, "another attempt", false},
    {"of another order", 1, "order", "\"sha256:0000000000000000000000000000000000000000000000000000000000000000\"", 1, "order",
     false},
    {"of another run", 1, "run", "\"3d0c2f1a-9b1e-4a57-8a43-0d6f5f0c7a99\"", 1, "run", false},
    {"of another registry", 1, "audience", "\"other.example/audit\"", 1, "audience", false},
    {"of this node itself", 0, NULL, NULL, 0, "another runner has a lease of this node", false},
    {"of a node that the order has not", 3, NULL, NULL, 3, "node", false},
    {"said to be another node's", 1, NULL, NULL, 2, "said to be", false},
    {"named twice", 2, NULL, NULL, 2, "twice", false},
    {"that is over", 1, "expires", "\"2026-11-23T10:20:00.000Z\"", 1, "is over", false},
    {"that somebody else has signed", 1, NULL, NULL, 1, "sign", true},
};

static void a_lease_proves_no_other_node(void **state)
{
    const struct row *row = *state;
    OWNED_WORLD world;
    struct buffer OWNED_BUFFER wrong = BUFFER(RUN_ENVELOPE_MAX), certificate = BUFFER(RUN_ENVELOPE_MAX);
    struct order_peer peers[2];
    struct error err = {0};

    world_begin(&world);
    struct ecdsa_key *keyd = world.made.keys[RUN_LEASE];
    if (row->is_forged) world.made.keys[RUN_LEASE] = world.made.keys[RUN_RESULT];
    write_lease(&world, row->node, row->path, row->value, &wrong);
    world.made.keys[RUN_LEASE] = keyd;
    write_certificate(&world, row->node, NULL, NULL, &certificate);
    const struct order_claim claims[] = {claim_of(&world, 2), {row->claimed, buffer_text(&wrong), buffer_text(&certificate)}};
    assert_false(check(&world, claims, 2, peers, &err).ok);
    assert_int_equal(err.kind, ERROR_DENIED);
    if (strstr(err.message, row->says) == NULL) fail_msg("%s", err.message);
}

static void each_other_node_must_be_there(void **state)
{
    OWNED_WORLD world;
    struct order_peer peers[3];
    struct error err = {0};

    (void)state;
    world_begin(&world);
    const struct order_claim claims[] = {claim_of(&world, 2), claim_of(&world, 1), claim_of(&world, 1)};
    for (size_t count = 0; count <= 3; count++) {
        if (count == 2) continue;
        assert_false(check(&world, claims, count, peers, &err).ok);
        assert_non_null(strstr(err.message, "3 nodes"));
    }
    const struct order_claim text[] = {{1, "{}", "{}"}, claim_of(&world, 2)};
    assert_false(check(&world, text, 2, peers, &err).ok);
    assert_int_equal(err.kind, ERROR_DENIED);
}

static const struct certificate_row {
    const char *name, *path, *value, *says;
} certificate_rows[] = {
    {"of another attempt", "attempt", "2", "attempt is not that of the lease"},
    {"of another node", "node", "2", "node is not that of the lease"},
    {"of another order", "order", "\"sha256:0000000000000000000000000000000000000000000000000000000000000000\"", "another order"},
    {"of another lease", "lease", "\"sha256:0000000000000000000000000000000000000000000000000000000000000000\"", "another lease"},
    {"that somebody else has signed", NULL, NULL, "signed by the key"},
};

static void a_certificate_proves_no_key_of_a_node(void **state)
{
    const struct certificate_row *row = *state;
    struct buffer OWNED_BUFFER lease = BUFFER(RUN_ENVELOPE_MAX), wrong = BUFFER(RUN_ENVELOPE_MAX);
    OWNED_WORLD world;
    struct order_peer peers[2];
    struct error err = {0};

    world_begin(&world);
    write_lease(&world, 1, NULL, NULL, &lease);
    struct ecdsa_key *runner = world.made.keys[RUN_CERTIFICATE];
    if (row->path == NULL) world.made.keys[RUN_CERTIFICATE] = world.made.keys[RUN_RESULT];
    write_certificate(&world, 1, row->path, row->value, &wrong);
    world.made.keys[RUN_CERTIFICATE] = runner;
    const struct order_claim claims[] = {claim_of(&world, 2), {1, buffer_text(&lease), buffer_text(&wrong)}};
    assert_false(check(&world, claims, 2, peers, &err).ok);
    assert_int_equal(err.kind, ERROR_DENIED);
    if (strstr(err.message, row->says) == NULL) fail_msg("%s", err.message);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {cmocka_unit_test(the_other_nodes_are_proven),
                                              cmocka_unit_test(each_other_node_must_be_there)};

    return RUN_TABLE(rows, a_lease_proves_no_other_node) + RUN_TABLE(certificate_rows, a_certificate_proves_no_key_of_a_node) +
           cmocka_run_group_tests(tests, NULL, NULL);
}
