/* The envelopes of runs of several nodes: each wrong node of a bundle is refused, with its reason. */
#include "tests/support/made_run.h"

#include "base/memory.h"
#include "training/format/bundle.h"
#include "training/format/form.h"

#define ZEROS    "0000000000000000000000000000000000000000000000000000000000000000"
#define DEFINED  "predicate.buildDefinition."
#define DETAILS  "predicate.runDetails."
#define ATTESTED "predicate.inputAttestations."

struct world {
    json_t *vectors, *bundle; /* a copy, to be spoiled */
    struct ecdsa_key *keyd;
    struct run_trust trust;
};

static void world_begin(struct world *world)
{
    *world = (struct world){.vectors = made_vectors()};
    world->bundle = json_deep_copy(made_bundle(world->vectors, MADE_NODES));
    world->keyd = made_key(world->vectors, "keyd");
    world->trust.keyd = world->keyd;
    world->trust.log_key = bytes_of_text(made_vkey(world->vectors, MADE_NODES));
    assert_true(text_from_hex(bytes_of_text(json_text_of(json_object_get(world->vectors, "points"), "root")), world->trust.root,
                              sizeof world->trust.root));
}

static void world_release(struct world *world)
{
    ecdsa_key_free(world->keyd);
    json_decref(world->bundle);
    json_decref(world->vectors);
}
#define OWNED_WORLD __attribute__((cleanup(world_release))) struct world

static json_t *peer_of(const struct world *world)
{
    return json_array_get(json_object_get(world->bundle, "peers"), 0);
}

/* The object with the envelope of this type, of node 1 or of the run. */
static json_t *holder_of(const struct world *world, enum run_type type)
{
    return type == RUN_ADMISSION ? world->bundle : peer_of(world);
}

static void set_member(json_t *payload, const char *path, const char *value)
{
    char name[64];
    json_t *holder = made_holder(payload, path, name);
    json_t *set = value == NULL ? NULL : json_loads(value, JSON_DECODE_ANY, NULL);

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

/* Changes a member of an envelope of node 1, or of the admission, and signs it again; path NULL: only the signer is another. */
static void change(const struct world *world, enum run_type type, const char *path, const char *value, const char *signer)
{
    struct buffer OWNED_BUFFER text = BUFFER(RUN_PAYLOAD_MAX), envelope = BUFFER(RUN_ENVELOPE_MAX);
    json_t *holder = holder_of(world, type);
    OWNED_JSON payload = made_payload(json_text_of(holder, run_type_name(type)));
    OWNED(ecdsa_key) *key = made_key(world->vectors, signer);
    const struct ecdsa_key *const keys[] = {key};
    struct error err = {0};

    if (path != NULL) set_member(payload, path, value);
    assert_true(json_write_canonical(&text, payload, &err).ok);
    assert_true(dsse_write(made_types[type], buffer_bytes(&text), keys, 1, &envelope, &err).ok);
    assert_int_equal(json_object_set_new(holder, run_type_name(type), json_string(buffer_text(&envelope))), 0);
}

static void digest_of_envelope(const char *text, enum run_type type, char digest_out[RUN_DIGEST_TEXT])
{
    OWNED(run_envelope) *envelope = NULL;
    struct error err = {0};

    if (!run_envelope_read(bytes_of_text(text), type, &envelope, &err).ok) fail_msg("%s", err.message);
    memcpy(digest_out, envelope->digest, RUN_DIGEST_TEXT);
}

/* Certificate and result name the envelopes before them, and the admission names lease and result, as they are now: so a row changes one thing alone. */
static void relink(const struct world *world, enum run_type changed)
{
    static const char *const at[] = {ATTESTED "5.digest.sha256", ATTESTED "6.digest.sha256"};
    char digest[RUN_DIGEST_TEXT], quoted[RUN_DIGEST_TEXT + 2], lease[RUN_DIGEST_TEXT + 2];

    digest_of_envelope(json_text_of(peer_of(world), "lease"), RUN_LEASE, digest);
    (void)snprintf(quoted, sizeof quoted, "\"%s\"", digest);
    if (changed == RUN_LEASE) change(world, RUN_CERTIFICATE, "lease", quoted, "other_runner");
    if (changed == RUN_LEASE) change(world, RUN_RESULT, DEFINED "externalParameters.lease", quoted, "other_attempt");
    (void)snprintf(lease, sizeof lease, "\"%s\"", digest + strlen("sha256:"));
    digest_of_envelope(json_text_of(peer_of(world), "certificate"), RUN_CERTIFICATE, digest);
    (void)snprintf(quoted, sizeof quoted, "\"%s\"", digest);
    if (changed != RUN_RESULT) change(world, RUN_RESULT, DEFINED "externalParameters.certificate", quoted, "other_attempt");
    change(world, RUN_ADMISSION, at[0], lease, "keyd");
    digest_of_envelope(json_text_of(peer_of(world), "result"), RUN_RESULT, digest);
    (void)snprintf(quoted, sizeof quoted, "\"%s\"", digest + strlen("sha256:"));
    change(world, RUN_ADMISSION, at[1], quoted, "keyd");
}

static struct result check(const struct world *world, struct error *err)
{
    OWNED_STRING text = json_dumps(world->bundle, JSON_COMPACT);
    OWNED(run_bundle) *read = NULL;

    assert_non_null(text);
    return run_bundle_check(bytes_of_text(text), &world->trust, &read, err);
}

static void the_bundle_holds_before_it_is_spoiled(void **state)
{
    OWNED_WORLD world;
    struct error err = {0};

    (void)state;
    world_begin(&world);
    relink(&world, RUN_LEASE);
    if (!check(&world, &err).ok) fail_msg("%s", err.message);
}

/* ---- one member ---- */

static const struct row {
    const char *name;
    enum run_type type;
    const char *path, *value, *signer, *says;
} rows[] = {
    {"a lease that sijil-keyd did not sign", RUN_LEASE, NULL, NULL, "other_runner", "node 1: the lease is signed by the key"},
    {"a lease of another run", RUN_LEASE, "run", "\"11111111-1111-4111-8111-111111111111\"", "keyd",
     "node 1: lease: run is not that of the order"},
    {"a lease of another registry", RUN_LEASE, "audience", "\"elsewhere.example\"", "keyd", "node 1: lease: audience is not"},
    {"a lease of another order", RUN_LEASE, "order", "\"sha256:" ZEROS "\"", "keyd", "node 1: lease: it names another order"},
    {"a lease of another attempt", RUN_LEASE, "attempt", "2", "keyd", "node 1: "},
    {"a lease of node 0", RUN_LEASE, "node", "0", "keyd", "node 1: lease: it is of node 0"},
    {"a lease of a node that there is not", RUN_LEASE, "node", "2", "keyd", "node 1: lease: the order has no node 2"},
    {"a lease that is longer than the order", RUN_LEASE, "expires", "\"2026-11-25T10:00:00.000Z\"", "keyd",
     "node 1: lease: its life"},
    {"a lease for a key without a document", RUN_LEASE, "runner.key", "\"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\"", "keyd",
     "node 1: no document of the bundle had the runner's key"},
    {"a lease for another runner's id", RUN_LEASE, "runner.id", "\"7b5a1b9e-55a0-4f0e-9d55-0f4d3c1e2b22\"", "keyd",
     "node 1: the lease's runner is another one"},
    {"a result by the key of its runner", RUN_RESULT, NULL, NULL, "other_runner",
     "node 1: result: the runner's own key has signed it"},
    {"a certificate by the runner of node 0", RUN_CERTIFICATE, NULL, NULL, "runner",
     "node 1: the certificate is signed by the key"},
    {"a certificate of node 0", RUN_CERTIFICATE, "node", "0", "other_runner",
     "node 1: certificate: node is not that of the lease"},
    {"a certificate of another attempt", RUN_CERTIFICATE, "attempt", "2", "other_runner", "node 1: certificate: attempt is not"},
    {"a certificate of another lease", RUN_CERTIFICATE, "lease", "\"sha256:" ZEROS "\"", "other_runner",
     "node 1: certificate: it names another lease"},
    {"a certificate that had expired", RUN_CERTIFICATE, "expires", "\"2026-11-23T10:10:00.000Z\"", "other_runner",
     "node 1: result: it did not start and end within the life of its certificate"},
    {"a result by the key of node 0", RUN_RESULT, NULL, NULL, "attempt", "node 1: the result is signed by the key"},
    {"a result of node 0", RUN_RESULT, DEFINED "internalParameters.node", "0", "other_attempt",
     "node 1: result: its node is not"},
    {"a result of another attempt", RUN_RESULT, DEFINED "internalParameters.attempt", "2", "other_attempt",
     "node 1: result: its attempt is not"},
    {"a result of another lease", RUN_RESULT, DEFINED "externalParameters.lease", "\"sha256:" ZEROS "\"", "other_attempt",
     "node 1: result: it names another lease"},
    {"a result with an output", RUN_RESULT, "subject",
     "[{\"name\":\"model\",\"digest\":{\"sha256\":\"" ZEROS "\"}},{\"name\":\"log\",\"digest\":{\"sha256\":\"" ZEROS "\"}}]",
     "other_attempt", "node 1: result: only node 0 has outputs and metrics"},
    {"a result with metrics", RUN_RESULT, DETAILS "byproducts", "[{\"name\":\"metrics\",\"digest\":{\"sha256\":\"" ZEROS "\"}}]",
     "other_attempt", "node 1: result: only node 0 has outputs and metrics"},
    {"a result that failed", RUN_RESULT, DETAILS "sijil_outcome",
     "{\"status\":\"failed\",\"exit\":1,\"signal\":0,\"reason\":\"\"}", "other_attempt", "the result did not succeed"},
    {"a result without its device", RUN_RESULT, DETAILS "sijil_devices", "[]", "other_attempt",
     "node 1: result: the order has 1 devices, and it saw 0"},
    {"a result with a weaker isolation", RUN_RESULT, DETAILS "sijil_isolation", "\"rlimits\"", "other_attempt",
     "node 1: result: its isolation"},
    {"a result after the admission", RUN_RESULT, DETAILS "metadata.finishedOn", "\"2026-11-23T10:40:00.000Z\"", "other_attempt",
     "older than the result"},
    {"an admission that leaves the lease of a node out", RUN_ADMISSION, ATTESTED "5", NULL, "keyd",
     "it names 6 envelopes, and there are 7"},
    {"an admission with the nodes' envelopes in another order", RUN_ADMISSION, ATTESTED "5.uri", "\"urn:sijil:run-result\"",
     "keyd", "admission: it names another lease"},
    {"an admission with the level of the better runner", RUN_ADMISSION, "predicate.verifiedLevels.0", "\"SIJIL_ASSURANCE_3\"",
     "keyd", "its level is not the assurance of the runner, 2"},
};

static void refuses_a_member(void **state)
{
    const struct row *row = *state;
    OWNED_WORLD world;
    struct error err = {0};

    world_begin(&world);
    change(&world, row->type, row->path, row->value, row->signer);
    if (row->type != RUN_ADMISSION) relink(&world, row->type);
    assert_false(check(&world, &err).ok);
    if (strstr(err.message, row->says) == NULL) fail_msg("%s", err.message);
    assert_int_equal(err.kind, ERROR_DENIED);
}

/* ---- the whole ---- */

static void drop_peers(json_t *bundle)
{
    assert_int_equal(json_object_del(bundle, "peers"), 0);
}
static void no_peers(json_t *bundle)
{
    assert_int_equal(json_array_clear(json_object_get(bundle, "peers")), 0);
}
static void repeat_peer(json_t *bundle)
{
    json_t *peers = json_object_get(bundle, "peers");

    assert_int_equal(json_array_append(peers, json_array_get(peers, 0)), 0);
}
static void too_many_peers(json_t *bundle)
{
    for (unsigned i = 0; i < RUN_PEERS_MAX; i++) repeat_peer(bundle);
}
static void peer_without_result(json_t *bundle)
{
    assert_int_equal(json_object_del(json_array_get(json_object_get(bundle, "peers"), 0), "result"), 0);
}
static void peer_without_certificate(json_t *bundle)
{
    assert_int_equal(json_object_del(json_array_get(json_object_get(bundle, "peers"), 0), "certificate"), 0);
}
static void take_certificate_of_node_0(json_t *bundle)
{
    json_t *peer = json_array_get(json_object_get(bundle, "peers"), 0);

    assert_int_equal(json_object_set(peer, "certificate", json_object_get(bundle, "certificate")), 0);
}
static void drop_result(json_t *bundle)
{
    assert_int_equal(json_object_del(bundle, "admission"), 0);
    assert_int_equal(json_object_del(bundle, "result"), 0);
}
static void drop_other_runner(json_t *bundle)
{
    assert_int_equal(json_array_remove(json_object_get(bundle, "documents"), 5), 0);
}
/* Node 1 stands in the place of node 0, and node 0 in that of node 1. */
static void swap_nodes(json_t *bundle)
{
    json_t *peer = json_array_get(json_object_get(bundle, "peers"), 0);

    for (enum run_type type = RUN_LEASE; type <= RUN_RESULT; type++) {
        OWNED_JSON first = json_incref(json_object_get(bundle, run_type_name(type)));
        assert_int_equal(json_object_set(bundle, run_type_name(type), json_object_get(peer, run_type_name(type))), 0);
        assert_int_equal(json_object_set(peer, run_type_name(type), first), 0);
    }
}
static void take_a_run_of_one_node(json_t *bundle)
{
    OWNED_JSON vectors = made_vectors();
    OWNED_JSON peers = json_incref(json_object_get(bundle, "peers"));

    assert_int_equal(json_object_clear(bundle), 0);
    OWNED_JSON whole = json_deep_copy(made_bundle(vectors, 0));
    assert_int_equal(json_object_update(bundle, whole), 0);
    assert_int_equal(json_object_set(bundle, "peers", peers), 0);
}

static const struct whole_row {
    const char *name;
    void (*spoil)(json_t *bundle);
    enum error_kind kind;
    const char *says;
} whole_rows[] = {
    {"without the other nodes", drop_peers, ERROR_DENIED, "the order has 2 nodes, and there are results of 1"},
    {"with an empty list of nodes", no_peers, ERROR_INVALID, "1 to 255 nodes"},
    {"with a node twice", repeat_peer, ERROR_DENIED, "they are the nodes 1 to 1"},
    {"with 256 other nodes", too_many_peers, ERROR_INVALID, "1 to 255 nodes"},
    {"with a node without its result", peer_without_result, ERROR_INVALID, "result"},
    {"with a node without its certificate", peer_without_certificate, ERROR_INVALID, "certificate"},
    {"with the certificate of node 0 for node 1", take_certificate_of_node_0, ERROR_DENIED, "node 1: "},
    {"with nodes and without the result of node 0", drop_result, ERROR_INVALID, "has peers, and no result of node 0"},
    {"without the document of a runner", drop_other_runner, ERROR_DENIED,
     "node 1: no document of the bundle had the runner's key"},
    {"with nodes in another order", swap_nodes, ERROR_DENIED, ""},
    {"with a node that the order does not have", take_a_run_of_one_node, ERROR_DENIED, "node 1: "},
};

static void refuses_a_whole(void **state)
{
    const struct whole_row *row = *state;
    OWNED_WORLD world;
    struct error err = {0};

    world_begin(&world);
    row->spoil(world.bundle);
    if (row->spoil == take_a_run_of_one_node) world.trust.log_key = bytes_of_text(made_vkey(world.vectors, 0));
    assert_false(check(&world, &err).ok);
    if (strstr(err.message, row->says) == NULL) fail_msg("%s", err.message);
    assert_int_equal(err.kind, row->kind);
}

/* Nothing is admitted yet: then the other nodes may be there, or not. */
static void without_an_admission_nodes_may_lack(void **state)
{
    const struct run_repeated none = {.decisions = 0};
    struct buffer OWNED_BUFFER report = BUFFER(65536);
    OWNED(run_bundle) *read = NULL;
    OWNED_WORLD world;
    struct error err = {0};

    (void)state;
    world_begin(&world);
    assert_int_equal(json_object_del(world.bundle, "admission"), 0);
    if (!check(&world, &err).ok) fail_msg("%s", err.message);
    drop_peers(world.bundle);
    OWNED_STRING text = json_dumps(world.bundle, JSON_COMPACT);
    if (!run_bundle_check(bytes_of_text(text), &world.trust, &read, &err).ok) fail_msg("%s", err.message);
    assert_true(run_bundle_text(read, &none, &report, &err).ok);
    assert_non_null(
        strstr(buffer_text(&report), "that the other nodes of the attempt did anything: the bundle has node 0 alone"));
}

/* The report of the largest run fits into what programs print. */
static void a_report_has_room_for_all_nodes(void **state)
{
    const struct run_repeated none = {.decisions = 0};
    struct buffer OWNED_BUFFER text = BUFFER(RUN_REPORT_MAX), json = BUFFER(RUN_REPORT_MAX);
    OWNED(run_bundle) *read = NULL;
    OWNED_WORLD world;
    struct error err = {0};

    (void)state;
    world_begin(&world);
    OWNED_STRING bundle = json_dumps(world.bundle, JSON_COMPACT);
    if (!run_bundle_check(bytes_of_text(bundle), &world.trust, &read, &err).ok) fail_msg("%s", err.message);
    struct runner_key *others = memory_zeroed(RUN_PEERS_MAX, sizeof *others);
    assert_non_null(others);
    for (size_t i = 0; i < RUN_PEERS_MAX; i++) {
        others[i] = read->others[0];
        read->peers[i] = read->peers[0];
    }
    free(read->others);
    read->others = others;
    read->chain.peer_count = RUN_PEERS_MAX;
    if (!run_bundle_text(read, &none, &text, &err).ok || !run_bundle_json(read, &none, &json, &err).ok)
        fail_msg("%s", err.message);
    assert_non_null(strstr(buffer_text(&text), "node 255: the runner"));
    assert_non_null(strstr(buffer_text(&json), "\"nodes\":256"));
    const char *likewise = strstr(buffer_text(&text), "likewise: root of the machine");
    assert_non_null(likewise);
    assert_null(strstr(likewise + 1, "likewise: root of the machine")); /* one runner has them all */
}

/* ---- where a node listens ---- */

static const struct endpoint_row {
    const char *name;
    bool is_good;
} endpoint_rows[] = {
    {"192.0.2.7:4711", true},
    {"[2001:db8::7]:65535", true},
    {"[::1]:1", true},
    {"192.0.2.7", false},
    {"192.0.2.7:", false},
    {"192.0.2.7:0", false},
    {"192.0.2.7:65536", false},
    {"192.0.2.7:04711", false},
    {"192.0.2.7:+1", false},
    {"[192.0.2.7]:1", false},
    {"2001:db8::7:1", false},
    {"[2001:db8::7]", false},
    {"[2001:db8::7:1", false},
    {"node.example:1", false},
    {":1", false},
    {"", false},
    {"[]:1", false},
    {"192.0.2.7:1 ", false},
    {"[fe80::1%eth0]:1", false},
    {"192.0.2.7/32:1", false},
};

static void an_endpoint_is_an_address_and_a_port(void **state)
{
    const struct endpoint_row *row = *state;

    assert_int_equal(form_endpoint(row->name), row->is_good);
}

/* ---- variables of tasks ---- */

/* A runner would refuse such an order for good, because each task gets these variables. */
static const struct variable_row {
    const char *name, *variable, *path, *value;
    enum error_kind kind;
} variable_rows[] = {
    {"a rank beside tasks", "RANK", "tasks", "2", ERROR_INVALID},
    {"a master beside nodes", "MASTER_ADDR", "nodes", "2", ERROR_INVALID},
    {"a size beside a network", "WORLD_SIZE", "network", "\"tasks\"", ERROR_INVALID},
    {"the rank of a single task", "RANK", "tasks", "1", ERROR_NONE},
    {"another name beside tasks", "RANKS", "tasks", "2", ERROR_NONE},
};

static void variables_of_tasks_are_not_asked_for(void **state)
{
    const struct variable_row *row = *state;
    char variable[80], path[80], says[80];
    OWNED_MADE_RUN made;
    struct error err = {0};

    (void)snprintf(variable, sizeof variable, "spec.environment.%s", row->variable);
    (void)snprintf(path, sizeof path, "spec.%s", row->path);
    (void)snprintf(says, sizeof says, "environment: '%s': each task", row->variable);
    made_run_begin(&made);
    for (size_t i = 0; i < 2; i++) {
        made_set(&made, i == 0 ? RUN_REQUEST : RUN_ORDER, variable, "\"0\"");
        made_set(&made, i == 0 ? RUN_REQUEST : RUN_ORDER, path, row->value);
    }
    const bool ok = made_check(&made, -1, &err).ok;
    if (ok != (row->kind == ERROR_NONE)) fail_msg("%s", ok ? "it is accepted" : err.message);
    if (!ok && strstr(err.message, says) == NULL) fail_msg("%s", err.message);
}

int main(void)
{
    const struct CMUnitTest others[] = {
        cmocka_unit_test(the_bundle_holds_before_it_is_spoiled),
        cmocka_unit_test(without_an_admission_nodes_may_lack),
        cmocka_unit_test(a_report_has_room_for_all_nodes),
    };
    int failed = RUN_TABLE(rows, refuses_a_member);

    failed += RUN_TABLE(whole_rows, refuses_a_whole);
    failed += RUN_TABLE(endpoint_rows, an_endpoint_is_an_address_and_a_port);
    failed += RUN_TABLE(variable_rows, variables_of_tasks_are_not_asked_for);
    return failed + cmocka_run_group_tests(others, NULL, NULL);
}
