/* The checks of a runner before it runs: each fault has a check, which the refusal names. */
#include "tests/support/made_run.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "runner/order/order_check.h"
#include "training/format/compose.h"

#define AUDIENCE "sijil.example/audit"
#define KEY      "rrzQpsog4VLQRMWHxtVFBFUNWqCJcTVt79KRa11HO-U"
#define RUNNER   "7b5a1b9e-55a0-4f0e-9d55-0f4d3c1e2b22"
#define HOUR_MS  INT64_C(3600000)

enum bundle { WHOLE, LEASED, ORDERED, REFUSED }; /* of docs/formats/run-vectors.json */

static const struct row {
    const char *name;
    enum bundle bundle;
    const char *check, *says; /* check NULL: it may run */
    /* the difference from a runner that may run it; 0 and NULL: none */
    int64_t later_ms, most_cpus, most_memory;
    const char *audience, *key, *runner, *pool, *places, *isolation;
    bool is_taken, has_no_driver, has_other_root, is_cut, is_weak, has_no_assurance, has_no_device, is_forged, was_later,
        has_more;
} rows[] = {
    {.name = "as it is", .bundle = LEASED, .check = NULL, .says = ""},
    {.name = "half of a bundle", .bundle = LEASED, .check = "form", .says = "", .is_cut = true},
    {.name = "a member that is not known", .bundle = LEASED, .check = "form", .says = "surprise", .has_more = true},
    {.name = "a lease that somebody else signed", .bundle = LEASED, .check = "proof", .says = "lease", .is_forged = true},
    {.name = "keys under another root", .bundle = LEASED, .check = "proof", .says = "document", .has_other_root = true},
    {.name = "an order without a lease", .bundle = ORDERED, .check = "lease", .says = "without a lease"},
    {.name = "a run that is over", .bundle = WHOLE, .check = "lease", .says = "has a result"},
    {.name = "a run that was refused", .bundle = REFUSED, .check = "lease", .says = "has a result"},
    {.name = "a lease for another key",
     .bundle = LEASED,
     .check = "lease",
     .says = "another runner",
     .key = "ZAkKNQ0n_QUw3RQVaJRu7Jb-IY6OhzwiOve5DtNEspU"},
    {.name = "a lease for another UUID",
     .bundle = LEASED,
     .check = "lease",
     .says = "another runner",
     .runner = "7b5a1b9e-55a0-4f0e-9d55-0f4d3c1e2b23"},
    {.name = "another registry",
     .bundle = LEASED,
     .check = "audience",
     .says = "other.example",
     .audience = "other.example/audit"},
    {.name = "a lease that has not begun", .bundle = LEASED, .check = "time", .says = "the lease begins", .later_ms = -HOUR_MS},
    {.name = "a lease that is over", .bundle = LEASED, .check = "time", .says = "was over", .later_ms = 48 * HOUR_MS},
    {.name = "a clock that was set back", .bundle = LEASED, .check = "time", .says = "clock is behind", .was_later = true},
    {.name = "a lease that was taken", .bundle = LEASED, .check = "nonce", .says = "taken the lease before", .is_taken = true},
    {.name = "another pool", .bundle = LEASED, .check = "pool", .says = "uae-cpu", .pool = "uae-cpu"},
    {.name = "another jurisdiction", .bundle = LEASED, .check = "jurisdiction", .says = "in DIFC", .places = "[\"DIFC\"]"},
    {.name = "one more jurisdiction",
     .bundle = LEASED,
     .check = "jurisdiction",
     .says = "in DIFC",
     .places = "[\"AE\",\"DIFC\"]"},
    {.name = "no jurisdiction", .bundle = LEASED, .check = "jurisdiction", .says = "names no", .places = "[]"},
    {.name = "a machine with weaker isolation", .bundle = LEASED, .check = "isolation", .says = "gives rlimits", .is_weak = true},
    {.name = "a machine below what was enrolled",
     .bundle = LEASED,
     .check = "isolation",
     .says = "enrolled with",
     .isolation = "cgroup-v2"},
    {.name = "less assurance", .bundle = LEASED, .check = "isolation", .says = "assurance 2", .has_no_assurance = true},
    {.name = "no driver", .bundle = LEASED, .check = "devices", .says = "has none", .has_no_driver = true},
    {.name = "fewer devices than enrolled",
     .bundle = LEASED,
     .check = "devices",
     .says = "enrolled with 0",
     .has_no_device = true},
    {.name = "more processors than it gives", .bundle = LEASED, .check = "limits", .says = "cpus is 2", .most_cpus = 1},
    {.name = "more memory than it gives", .bundle = LEASED, .check = "limits", .says = "memory_bytes", .most_memory = 1 << 20},
};

struct world {
    json_t *vectors, *places;
    struct ecdsa_key *keyd;
    struct run_trust trust;
    struct order_terms terms;
    struct lease_journal *journal;
    struct devices *devices;
    char folder[40];
    int fd;
};

static void make_folder(struct world *world)
{
    (void)snprintf(world->folder, sizeof world->folder, "/dev/shm/sijil-order-XXXXXX");
    assert_non_null(mkdtemp(world->folder));
    world->fd = open(world->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(symlinkat("/dev/null", world->fd, "nvidia0"), 0); /* the nodes of a driver */
    assert_int_equal(symlinkat("/dev/null", world->fd, "nvidiactl"), 0);
}

static json_t *bundle_of(const struct world *world, const struct row *row)
{
    json_t *bundle = json_deep_copy(made_bundle(world->vectors, row->bundle));

    assert_non_null(bundle);
    if (row->has_more) assert_int_equal(json_object_set_new(bundle, "surprise", json_true()), 0);
    if (row->is_forged) { /* the same payload, by the runner's own key */
        struct buffer OWNED_BUFFER payload = BUFFER(RUN_PAYLOAD_MAX), forged = BUFFER(RUN_ENVELOPE_MAX);
        OWNED(ecdsa_key) *key = made_key(world->vectors, "runner");
        OWNED_JSON lease = made_payload(json_text_of(bundle, "lease"));
        struct error err = {0};
        assert_true(json_write_canonical(&payload, lease, &err).ok);
        assert_true(run_sign(RUN_LEASE, buffer_bytes(&payload), key, &forged, &err).ok);
        assert_int_equal(json_object_set_new(bundle, "lease", json_string(buffer_text(&forged))), 0);
    }
    return bundle;
}

static int64_t lease_begins_ms(const struct world *world)
{
    OWNED_JSON lease = made_payload(json_text_of(made_bundle(world->vectors, LEASED), "lease"));
    int64_t wall_ms = 0;

    assert_true(clock_parse(bytes_of_text(json_text_of(lease, "not_before")), &wall_ms));
    return wall_ms;
}

static void set_own(struct world *world, const struct row *row)
{
    struct runner_key *own = &world->terms.own;

    assert_true(uuid_parse(bytes_of_text(row->runner == NULL ? RUNNER : row->runner), &own->runner));
    (void)snprintf(own->pool, sizeof own->pool, "%s", row->pool == NULL ? "uae-gpu" : row->pool);
    (void)snprintf(own->isolation, sizeof own->isolation, "%s", row->isolation == NULL ? "cgroup-v1" : row->isolation);
    world->places = json_loads(row->places == NULL ? "[\"AE\"]" : row->places, 0, NULL);
    assert_non_null(world->places);
    own->jurisdictions = world->places;
    own->assurance = row->has_no_assurance ? 1 : 3;
    own->devices = row->has_no_device ? 0 : 1;
}

static void set_terms(struct world *world, const struct row *row)
{
    struct order_terms *terms = &world->terms;

    *terms = (struct order_terms){.trust = &world->trust,
                                  .audience = row->audience == NULL ? AUDIENCE : row->audience,
                                  .key = row->key == NULL ? KEY : row->key,
                                  .isolation = row->is_weak ? ISOLATION_RLIMITS : ISOLATION_CGROUP_V1,
                                  .journal = world->journal,
                                  .devices = row->has_no_driver ? NULL : world->devices,
                                  .device_folder = world->folder,
                                  .now_ms = lease_begins_ms(world) + 1000 + row->later_ms};
#define X(name, least, largest, initial, what) terms->most.name = (largest);
#include "training/format/limits.def"
#undef X
    if (row->most_cpus != 0) terms->most.cpus = row->most_cpus;
    if (row->most_memory != 0) terms->most.memory_bytes = row->most_memory;
    set_own(world, row);
}

static void world_begin(struct world *world, const struct row *row)
{
    struct error err = {0};

    *world = (struct world){.vectors = made_vectors()};
    make_folder(world);
    world->keyd = made_key(world->vectors, "keyd");
    world->trust.keyd = world->keyd;
    world->trust.log_key = bytes_of_text(json_text_of(world->vectors, "vkey"));
    const json_t *point = json_object_get(json_object_get(world->vectors, "points"), row->has_other_root ? "officer" : "root");
    assert_true(text_from_hex(bytes_of_text(json_string_value(point)), world->trust.root, sizeof world->trust.root));
    if (!lease_journal_open(world->fd, &world->journal, &err).ok) fail_msg("%s", err.message);
    if (!devices_open(FAKE_GPU, &world->devices, &err).ok) fail_msg("%s", err.message);
    set_terms(world, row);
}

static void world_release(struct world *world)
{
    static const char *const names[] = {"nvidia0", "nvidiactl", "leases.journal", "leases.key"};

    lease_journal_free(world->journal);
    devices_free(world->devices);
    ecdsa_key_free(world->keyd);
    json_decref(world->vectors);
    json_decref(world->places);
    for (size_t i = 0; i < COUNT(names); i++) (void)unlinkat(world->fd, names[i], 0);
    (void)close(world->fd);
    (void)rmdir(world->folder);
}
#define OWNED_WORLD __attribute__((cleanup(world_release))) struct world

/* Takes the lease of the vectors, or another one at a later time. */
static void take(struct world *world, const struct row *row)
{
    OWNED_JSON payload = made_payload(json_text_of(made_bundle(world->vectors, LEASED), "lease"));
    struct taken_lease lease = {.begins_ms = world->terms.now_ms, .expires_ms = world->terms.now_ms + HOUR_MS};
    struct error err = {0};

    if (!row->is_taken && !row->was_later) return;
    if (row->is_taken) assert_true(text_from_hex(bytes_of_text(json_text_of(payload, "nonce")), lease.nonce, sizeof lease.nonce));
    assert_true(lease_journal_take(world->journal, &lease, world->terms.now_ms + (row->was_later ? HOUR_MS : 0), &err).ok);
}

static void check_row(const struct row *row)
{
    OWNED_WORLD world;
    OWNED(run_bundle) *bundle = NULL;
    struct order_refusal refusal;
    struct device_grant grant;
    struct error err = {0};

    world_begin(&world, row);
    take(&world, row);
    OWNED_JSON json = bundle_of(&world, row);
    OWNED_STRING text = json_dumps(json, JSON_COMPACT);
    assert_non_null(text);
    struct bytes bytes = bytes_of_text(text);
    if (row->is_cut) bytes.length /= 2;
    if (!order_check(bytes, &world.terms, &bundle, &grant, &refusal, &err).ok) fail_msg("%s: %s", row->name, err.message);
    const char *check = refusal.check == NULL ? "" : refusal.check;
    if (strcmp(check, row->check == NULL ? "" : row->check) != 0 || strstr(refusal.reason, row->says) == NULL)
        fail_msg("%s: %s: %s", row->name, check, refusal.reason);
    if (row->check != NULL) return;
    assert_true(bundle != NULL && grant.count == 1 && strstr(grant.visible, "GPU-") == grant.visible);
    struct taken_lease lease;
    order_lease(bundle, &lease);
    assert_true(lease.attempt == 1 && lease.node == 0 && lease.expires_ms > world.terms.now_ms && !lease.has_ended);
    assert_true(lease_journal_take(world.journal, &lease, world.terms.now_ms, &err).ok);
    OWNED(run_bundle) *again = NULL;
    assert_true(order_check(bytes, &world.terms, &again, &grant, &refusal, &err).ok);
    assert_string_equal(refusal.check, "nonce");
}

/* Leases that have not ended fill the journal: nothing is wrong with the order, so others may run it. */
static void a_full_journal_refuses_no_order(void **state)
{
    const struct row row = {.name = "a full journal", .bundle = LEASED};
    struct taken_lease lease = {.begins_ms = 1, .expires_ms = INT64_C(1) << 47};
    OWNED(run_bundle) *bundle = NULL;
    struct order_refusal refusal;
    struct device_grant grant;
    OWNED_WORLD world;
    struct error err = {0};

    (void)state;
    world_begin(&world, &row);
    for (uint32_t i = 0; i < LEASES_MAX; i++) {
        store_u32(lease.nonce, i);
        store_u32(lease.digest, i);
        assert_true(lease_journal_take(world.journal, &lease, world.terms.now_ms, &err).ok);
    }
    OWNED_JSON json = bundle_of(&world, &row);
    OWNED_STRING text = json_dumps(json, JSON_COMPACT);
    assert_true(order_check(bytes_of_text(text), &world.terms, &bundle, &grant, &refusal, &err).ok);
    assert_string_equal(refusal.check, RUN_CHECK_MACHINE);
}

static void each_thing_has_its_check(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) check_row(&rows[i]);
}

/* No byte of a bundle can be changed: one of the first checks refuses the bundle. */
static void no_byte_can_be_changed(void **state)
{
    OWNED_WORLD world;
    struct error err = {0};

    (void)state;
    world_begin(&world, &rows[0]);
    OWNED_STRING text = json_dumps(made_bundle(world.vectors, LEASED), JSON_COMPACT);
    assert_non_null(text);
    const size_t length = strlen(text);
    for (size_t at = 0; at < length; at += 97) {
        OWNED(run_bundle) *bundle = NULL;
        struct order_refusal refusal;
        struct device_grant grant;
        const char before = text[at];
        text[at] = before == 'A' ? 'B' : 'A';
        assert_true(order_check((struct bytes){(const uint8_t *)text, length}, &world.terms, &bundle, &grant, &refusal, &err).ok);
        text[at] = before;
        if (refusal.check == NULL || bundle != NULL) fail_msg("the byte %zu may be changed", at);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {cmocka_unit_test(each_thing_has_its_check),
                                              cmocka_unit_test(a_full_journal_refuses_no_order),
                                              cmocka_unit_test(no_byte_can_be_changed)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
